# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 04 · Specialisation
#
# **45 minutes · no GPU · after notebooks 00 and 01**
#
# Eight experts start almost alike, and the router starts at zero and prefers none of them. A few hundred steps later
# each expert serves one cluster of the data, and the router knows which. You watch this happen, learn why only
# *nonlinear* experts do it, and measure it with the dispatch entropy, because accuracy does not show it.
#
# **After this notebook you can**
# - describe a task that no single expert can solve, however wide, and say how often such an expert can be right,
# - explain why cubic experts pick one cluster each and linear experts do not,
# - measure the division of labour with the dispatch entropy, and say why accuracy does not replace it.

# %% [markdown] tags=["badges"]
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/moe-lab/moe_lab/blob/v0.1.0/notebooks/04_specialization.ipynb)
# [![Open on Binder](https://mybinder.org/badge_logo.svg)](https://mybinder.org/v2/gh/moe-lab/moe_lab/v0.1.0?urlpath=lab/tree/notebooks/04_specialization.ipynb)

# %% [markdown] tags=["papers"]
# *The paper: [Chen et al., NeurIPS 2022](https://arxiv.org/abs/2208.02813).*

# %% tags=["setup"] jupyter={"source_hidden": true}
# On Colab this installs moe_lab v0.1.0 from github.com/moe-lab/moe_lab, and keeps
# the torch, numpy and ipywidgets there. Elsewhere it does nothing.
import sys

if "google.colab" in sys.modules:
    import subprocess
    from importlib.metadata import version

    source = "git+https://github.com/moe-lab/moe_lab@v0.1.0"
    print(f"Installing {source}")
    keep = [f"{name}=={version(name)}" for name in ("torch", "numpy", "ipywidgets")]
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", source, "anywidget", *keep], check=True)

# %%
import numpy as np
import pandas as pd
import torch
from matplotlib import pyplot as plt

from moe_lab import exercises, final
from moe_lab.drawing import theme
from moe_lab.specialization import ClusterTask, SingleExpert, SwitchMoE, figures, plots, theory, train
from moe_lab_widgets import SpecializationLab, predict

SEED = 0
torch.set_num_threads(1)  # these models are small: more threads only wait for each other
settings = {"samples": 2000, "trials": 4, "seed": SEED, "measure": "last"}
small = {"filters": 8, "initial_scale": 8e-4}  # experts of 8 filters that start near 0, as in the Lab

# %% [markdown]
# ## The task
#
# Samples come from $K=4$ clusters. Every sample has $P=4$ patches in random order (definition 3.1 of the paper):
#
# | patch | value | what it says |
# | --- | --- | --- |
# | label signal | $y\,\alpha\,v_k$ | its sign is the label $y=\pm1$ |
# | cluster center | $\beta\,c_k$ | the cluster $k$, but nothing about the label |
# | feature noise | $\epsilon\,\gamma\,v_{k'}$, $k' \ne k$ | nothing: it is the label signal of *another* cluster, with a random sign $\epsilon$ |
# | random noise | $\xi \sim N(0, \sigma_p^2 I / d)$ | nothing |
#
# All $v_k$ and $c_k$ are orthogonal to each other and have length 1. The strengths $\alpha$, $\beta$ and $\gamma$ are
# random numbers. $\alpha$ and $\gamma$ have the same distribution, so the two label signals of a sample look the same.
# Only the center says which of them counts. The table shows three samples by the product of each patch with $v_k$ and
# $c_k$:

# %%
task = ClusterTask()  # setting 3 of the paper
drawn = task.sample(3, trials=[0], seed=SEED)
products = drawn.patches()[0] @ drawn.signals[0].T  # (sample, patch, signal)
columns = [f"{letter}{k}" for letter in "vc" for k in (1, 2, 3, 4)]
samples = [f"{i}: y = {label:+d}" for i, label in enumerate(drawn.labels[0].tolist(), 1)]
rows = pd.MultiIndex.from_product([samples, [1, 2, 3, 4]], names=["sample", "patch"])
pd.DataFrame(products.flatten(0, 1).numpy(), rows, columns).round(1) + 0.0

# %% [markdown]
# Read the first sample. Patch 3 is the center of cluster 4, so the label signal is the patch along $v_4$, which is
# patch 2. Its sign is $+$, and so is $y$. Patch 1 is feature noise of cluster 1, and patch 4 is random noise.
#
# ## First, your prediction
#
# A *single expert* applies one function $f$ to every patch and adds up the results, $F(x) = \sum_p f(x^{(p)})$. The
# sign of $F(x)$ is its answer.
#
# A *mixture* sends the whole sample to one of $M=8$ such experts. The function of an expert is a sum over its filters,
# and every filter applies an activation $\sigma$ to the product of its weights with the patch. Compare linear experts,
# $\sigma(z) = z$, with cubic experts, $\sigma(z) = z^3$.
#
# Which experts will divide the clusters among them? The Lab asks you before it trains. Answer, or drag the two marks in panel
# 2 to the *dispatch entropy* that you expect at the end: 0 if every expert serves one cluster, $\log K = 1.39$ if none does.

# %% [markdown]
# ## The Lab

# %%
lab = SpecializationLab(seed=SEED, ask=True)
lab

# %% [markdown]
# *What to see.* **1, upper table:** Each row is a cluster and each column an expert. A cell is the share of the
# cluster's test samples that the expert receives. Cubic experts end up with at most one dark cell per column. Experts
# with a grey number are idle. **1, lower table:** how much of each label signal an expert has learned. The pattern is
# the same, because experts become good at what they receive and receive what they are good at. **2:** the dispatch
# entropy falls to 0 for the cubic mixture (black). For a linear mixture on the same samples (grey, dashed) it stays high. **3:** Both mixtures
# are right in more than 95 % of the test samples all the same.
#
# Move the time slider below the picture back to the start. Experts learn signals first, and the router sorts the clusters
# afterwards.
#
# *Your turn.* The menu <kbd>goal</kbd> has three tasks. Bring each about with the sliders. The Lab sees when a run has
# reached one, and asks you why. A wrong answer gets a reason, too.
# Then choose *Late collapse (σ_p = 2, γ up to 3, 800 steps)* in the same menu, and find the step at which you would have
# stopped.

# %% [markdown]
# In code, with four trials each, and with ReLU experts as a third kind:

# %%
runs = {
    kind: final(train(SwitchMoE(**small, activation=kind), task, **settings))
    for kind in ("cubic", "linear", "relu")
}
rows = {
    kind: {"accuracy": last["test_accuracy"].mean(), "entropy": last["dispatch_entropy"].mean()}
    for kind, last in runs.items()
}
pd.DataFrame(rows).T.round(3)

# %% [markdown]
# ## What happened and why
#
# The model of the paper (section 3) has a linear router with one vector $\theta_m$ for each expert. These vectors are
# the columns of $\Theta$. The router gives the whole sample one score $h_m$ for each expert $m$. In training noise
# $r_m$ is added, and the expert $m^*$ with the largest sum receives the sample. Its output is weighted by its gate
# $\pi_{m^*}$:
#
# $$h(x) = \sum_p \Theta^{\!\top} x^{(p)}, \qquad m^* = \arg\max_m\, (h_m + r_m), \quad r_m \sim \mathrm{Unif}[0,1], \qquad
# F(x) = \pi_{m^*} f_{m^*}(x), \quad \pi = \mathrm{softmax}(h).$$
#
# Expert $m$ has $J$ filters with weights $w_{m,j}$:
#
# $$f_m(x) = \sum_{j=1}^{J} \sum_{p=1}^{P} \sigma\big(\langle w_{m,j}, x^{(p)}\rangle\big). \tag{3.1}$$
#
# **1. At first noise distributes the samples.** With $\Theta=0$ all scores are equal and $r$ decides. Every expert
# receives some samples of each cluster.
#
# **2. The cube lets one signal win.** For a sample of cluster $k$, the gradient of a cubic filter $w$ along $v_k$ is
# $y \cdot 3\langle w, y\alpha v_k\rangle^2\, y\alpha = 3\alpha^3 \langle w, v_k\rangle^2$. The larger the product
# $\langle w, v_k\rangle$ is, the faster it grows. A small first preference therefore outgrows the others. For a linear
# filter the gradient is $\alpha$, whatever $w$ is, and all $K$ signals grow side by side. In both cases centers and
# feature noise have random signs and cancel.
#
# **3. All experts take equal steps.** The gradient of each expert is divided by its length (eq. 3.4). So all experts
# move equally far in each step, and an expert with few samples does not fall behind.
#
# **4. The router follows.** The gradient moves $\theta_m$ towards $\sum_p x^{(p)}$ for samples that expert $m$ gets
# right, $y f_m > 0$, and away from it for the others. In this sum the label signals have random signs and cancel, while
# $\beta c_k$ adds up. So $\theta_m$ turns to the *center* of the cluster that expert $m$ is good at.
#
# The next figure shows points 2 and 4 in one training (figure 4 of the paper; setting 1, where $\gamma$ goes up to 3):

# %%
cubic_products = figures.inner_products("cubic", samples=2000, seed=SEED)
figure, panels = plt.subplots(2, 2, figsize=(11, 6), facecolor=theme.PAPER, layout="constrained")
plots.inner_products(cubic_products, panels)

# %% [markdown]
# *What to see.* Colour and dashes are the signal, and "5: v₄" is what expert 5 has learned. **Top:** Four of the eight
# experts learn one label signal each, and no center. Expert 4 also begins with $v_4$, but expert 5 is ahead of it. From
# about step 130 on expert 4 receives no samples, so it stops at 1.0. The other three stop below .5. **Bottom:** The
# routers of the four turn to the center of the same cluster, at about the time when the signal of their expert has
# grown. No router keeps a label signal. The same for linear experts (figure 5):

# %%
linear_products = figures.inner_products("linear", samples=2000, seed=SEED)
figure, panels = plt.subplots(2, 2, figsize=(11, 6), facecolor=theme.PAPER, layout="constrained")
plots.inner_products(linear_products, panels)

# %% [markdown]
# *What to see.* Linear experts learn centers as well, and some of them several signals. Their routers respond to label
# signals, whose random signs cannot reveal the cluster.
#
# ### How far can one expert get?
#
# What is the most that a single expert can do? Let $f$ be any function at all.

# %%
prediction = predict(
    "How often can the best single expert be right?",
    {"50 %": 0.5, "75 %": 0.75, "87.5 %": 0.875, "100 %": 1.0},
)
prediction

# %% [markdown]
# The *margin* of a sample is $yF(x)$. The answer is right if the margin is positive. Take a sample with
# $\epsilon = -y$. Exchange its two clusters, exchange the signs, or do both. This gives four samples, which are equally
# likely because $\alpha$ and $\gamma$ have the same distribution. In their four margins each $f(\text{patch})$ appears
# once with a plus and once with a minus. So the margins sum to 0, and at least one of the four samples is wrong. Half
# of all samples have $\epsilon = -y$, so at least $\tfrac12 \cdot \tfrac14$ or **1/8** of all answers are wrong
# (theorem 4.1). The next cell checks the four margins for a random network $f$:

# %%
generator = torch.Generator().manual_seed(SEED)
hidden = torch.randn(50, 30, generator=generator, dtype=torch.float64)
print(theory.appendix_b(lambda patches: torch.sin(patches @ hidden).sum(-1), task))

# %% [markdown]
# The paper does not say whether an error of 1/8 can be reached. It can. Let $f(\pm a v_k) = \pm(2 - 3^{-k})$ and
# $f(b c_k) = 1.5 \cdot 3^{-k}$ for all $a, b > 0$, and let $f$ be 0 on noise:

# %%
signals = task.signals([0], SEED)[0]
tight = theory.theorem_4_1(theory.tight_classifier(signals), task)
print(tight)

# %% jupyter={"source_hidden": true} tags=["compare"]
# Compares your prediction with the result.
prediction.seen(
    1 - tight["test error"], "In half of all cases one of four equally likely samples must be wrong."
)

# %% [markdown]
# So the best single expert is right in exactly 87.5 % of the samples. Trained single experts stay well below. Here is
# the test accuracy of experts with 32 filters, trained with Adam:

# %%
# The step sizes of single experts are those of the authors, for data times 10.
tenfold = task.replace(scale=10.0)
rows = {}
for kind in ("linear", "cubic"):
    model = SingleExpert(filters=32, activation=kind)
    rows[kind] = final(train(model, tenfold, steps=150, **settings))["test_accuracy"]
pd.DataFrame(rows).rename_axis("trial").T.round(2)

# %% [markdown]
# ### Noise makes routing smooth
#
# Without noise the expert with the largest score receives every sample, and a tiny change of the scores may move all of
# them. With $r \sim \mathrm{Unif}[0,1]$ a small change of the scores moves few samples. The next cell has four experts.
# The score of expert 1 is larger than the others by a lead:

# %%
leads = (0.0, 0.1, 0.3, 0.6, 1.0)
shares = {lead: theory.routing_probabilities(np.array([lead, 0, 0, 0])) for lead in leads}
pd.DataFrame(shares, index=[f"expert {m}" for m in (1, 2, 3, 4)]).T.rename_axis("lead").round(3)

# %% [markdown]
# A lead of .3 is enough for half of all samples, but the other experts still receive some. Only a lead of 1 takes
# everything.

# %% [markdown]
# ## Measure it
#
# The **dispatch entropy** (eq. 6.1) measures how mixed the samples of each expert are. Let $n_{k,m}$ be the number of
# samples of cluster $k$ that expert $m$ receives, $n_m$ the number of all samples that it receives, and $n$ the number
# of samples:
#
# $$\text{entropy} = -\sum_{m:\, n_m \ne 0} \frac{n_m}{n} \sum_{k=1}^{K} \frac{n_{k,m}}{n_m} \log\frac{n_{k,m}}{n_m}. \tag{6.1}$$
#
# For the three kinds of experts:

# %%
rows = {
    kind: {
        "accuracy": last["test_accuracy"].mean(),
        "entropy": last["dispatch_entropy"].mean(),
        "experts in use": (last["expert_load"] > 0.01).sum(axis=1).mean(),
        "an expert on its best cluster": last["expert_accuracy"].max(axis=2).mean(),
    }
    for kind, last in runs.items()
}
pd.DataFrame(rows).T.round(3)

# %% [markdown]
# All three are right in more than 95 % of the samples, but only cubic experts are specialists. On its best cluster a
# linear expert is right in 83 % of the samples, a cubic expert in more than 99 %. Linear experts reach their accuracy
# as a team, and no single one of them can be interpreted. Here is who receives what in the first trial:

# %%
columns = [f"expert {m}" for m in range(1, 9)]
tables = {
    kind: pd.DataFrame(runs[kind]["dispatch"][0].astype(int), [1, 2, 3, 4], columns)
    for kind in ("cubic", "linear")
}
pd.concat(tables, names=["experts are", "cluster"])

# %% [markdown]
# ### The number of experts

# %%
sizes = {M: final(train(SwitchMoE(experts=M, **small), task, **settings)) for M in (1, 2, 4)}
sizes[8] = runs["cubic"]
rows = {}
for experts, last in sizes.items():
    rows[experts] = {
        "mean accuracy": last["test_accuracy"].mean(),
        "worst trial": last["test_accuracy"].min(),
        "entropy": last["dispatch_entropy"].mean(),
    }
pd.DataFrame(rows).T.rename_axis("M").round(3)

# %% [markdown]
# $M=K=4$ experts are not enough in all trials. If two experts start with the same preference, both choose the same
# cluster, and another cluster is left without an expert of its own. With $M=8$ there is nearly always one to spare.
# Theorem 4.2 asks for $M$ of the order of $K \log K$.
#
# ### What the router needs

# %%
changes = {
    "rate of the router 0": {"router_learning_rate": 0.0},
    "no noise on the router": {"router_noise": 0.0},
    "linear, load balancing .05": {"activation": "linear", "load_balancing": 0.05},
}
changed = {
    name: final(train(SwitchMoE(**small, **change), task, **settings)) for name, change in changes.items()
}
rows = {
    name: {"accuracy": last["test_accuracy"].mean(), "entropy": last["dispatch_entropy"].mean()}
    for name, last in {"as it is": runs["cubic"], **changed}.items()
}
pd.DataFrame(rows).T.round(3)

# %% [markdown]
# - **A router that never learns** is fatal. In the test it sends everything to expert 1, which has seen all clusters.
# - **Without noise** training works as well. The proof of the paper needs noise, this task hardly does.
# - **Load balancing** helps linear experts but does not turn them into specialists.

# %% [markdown]
# ### Which expert gets which cluster?
#
# Lemma 5.2 says that the **first weights** decide. Write $w_{m,j}^{(0)}$ for the weights before training. Expert $m$
# will serve the cluster $k$ with the largest $\langle v_k, w_{m,j}^{(0)}\rangle$ over all of its filters, because this
# is the preference that the cube lets grow fastest.

# %%
prediction_weights = predict(
    "How often do the first weights of a cubic expert predict the cluster that it is best at?",
    {"in one of four cases, as a guess does": 0.25, "in about two of three cases": 0.65, "nearly always": 0.95},
)
prediction_weights

# %%
predicted = theory.lemma_5_2(runs["cubic"])
found = {"cubic": predicted, "linear": theory.lemma_5_2(runs["linear"])}
measures = {"best": "best accuracy", "serves": "most samples (experts in use)", "weights": "trained weights"}
rows = {words: {kind: one[name] for kind, one in found.items()} for name, words in measures.items()}
pd.DataFrame(rows).T.rename_axis("cluster of an expert by").round(2)

# %% jupyter={"source_hidden": true} tags=["compare"]
# Compares your prediction with the result.
prediction_weights.seen(
    predicted["best"], "Far above guessing, but less than the lemma promises for many samples."
)

# %% [markdown]
# Guessing gives .25. The lemma fails here: it says "with probability $1 - o(1)$", that is, nearly always for large $n$
# and short steps. With $n=16{,}000$ and 1,000 steps of a fifth of the length we measured 92 % of 40 experts. For linear
# experts the first weights decide nothing.

# %% [markdown]
# ## Exercises
#
# All arrays in these exercises are NumPy arrays. The first function is the step of eq. 3.4. Every expert moves by the
# length `learning_rate`. An expert that received no sample has a gradient of 0.


# %%
def expert_step(filters, gradient, learning_rate):
    """Computes the filters after one normalised step: NumPy arrays (M, J, d) and a number -> (M, J, d)."""
    return None  # your code


exercises.check_expert_step(expert_step)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def expert_step(filters, gradient, learning_rate):
#     import numpy as np
#
#     moved = filters.copy()
#     for expert, slope in zip(moved, gradient, strict=True):
#         length = np.linalg.norm(slope)
#         if length > 0:
#             expert -= learning_rate * slope / length
#     return moved
# ```
#
# </details>

# %% [markdown]
# Next, eq. 6.1. `dispatch[k, m]` is the number of samples of cluster $k$ that expert $m$ receives. Experts may be idle.


# %%
def dispatch_entropy(dispatch):
    """Computes the dispatch entropy in nats from a NumPy array (K, M) -> one number."""
    return None  # your code


exercises.check_dispatch_entropy(dispatch_entropy)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def dispatch_entropy(dispatch):
#     import numpy as np
#
#     entropy = 0.0
#     for received in dispatch.T:  # one expert
#         for count in received[received > 0]:
#             entropy -= count / dispatch.sum() * np.log(count / received.sum())
#     return entropy
# ```
#
# </details>

# %% [markdown]
# Last, the output $F(x)$ of the whole mixture with cubic experts, for one sample. `noise` holds the $r_m$.


# %%
def mixture_output(patches, routers, filters, noise):
    """Computes F(x) of one sample.

    Args:
      patches: NumPy array (P, d).
      routers: NumPy array (M, d).
      filters: NumPy array (M, J, d).
      noise: NumPy array (M,).

    Returns:
      One number.
    """
    return None  # your code


exercises.check_mixture_output(mixture_output)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def mixture_output(patches, routers, filters, noise):
#     import numpy as np
#
#     def softmax(scores, axis=-1):
#         powers = np.exp(scores - scores.max(axis=axis, keepdims=True))
#         return powers / powers.sum(axis=axis, keepdims=True)
#
#     scores = routers @ patches.sum(axis=0)
#     expert = np.argmax(scores + noise)
#     return softmax(scores)[expert] * np.sum((filters[expert] @ patches.T) ** 3)
# ```
#
# </details>

# %% [markdown]
# ## For readers of the paper
#
# - Linear mixtures are better than table 3 says: its numbers come from the authors' code, which trains another model.
# - The authors multiply all patches by 10. Without the factor their step sizes make success a matter of luck.
# - An error of 1/8 (theorem 4.1) can be reached, and lemma 5.1 holds with 2 in place of $M^2$.
# - The conclusions of theorem 4.2 hold in this notebook's run, although one of its assumptions does not.
#
# [Notebook 15](15_specialization_further.ipynb), which is optional, shows each of these.

# %% [markdown]
# ## Before you go
#
# You have seen experts specialise although the data do not label the clusters. Remember the order of events when you
# read about large mixtures: noise explores, nonlinearity lets small preferences grow, and the router follows the
# experts.
#
# *Done? Choose File › Close and Shut Down Notebook. Each notebook holds 450 to 740 MB until its kernel is shut down,
# and Binder allows 2 GB in all.*
