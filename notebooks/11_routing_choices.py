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
# # 11 · Routing choices
#
# **40 minutes · no GPU · after notebooks 00, 01 and 02**
#
# Every mixture of experts answers three questions. Who chooses, the experts or the patches? How many do they choose?
# And what happens to patches for which there is no room? In this notebook all the usual answers train on one task. All
# of them have the same number of places for each expert, so none computes more than another. One patch of 16 decides
# the class. You find out which routing loses it, and what that costs.
#
# **After this notebook you can**
# - say what *places*, *capacity factor*, *dropped* and *lost* mean, and compute them,
# - choose between a softmax before and after the choice, and say which of them can learn from a single expert,
# - say why serving tokens by priority helps token choice, and what soft MoE and hashing do instead,
# - estimate from errors how fast they fall with $n$, and say what is known about sigmoid gates and what is not.

# %% [markdown] tags=["badges"]
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/moe-lab/moe_lab/blob/v0.1.0/notebooks/11_routing_choices.ipynb)
# [![Open on Binder](https://mybinder.org/badge_logo.svg)](https://mybinder.org/v2/gh/moe-lab/moe_lab/v0.1.0?urlpath=lab/tree/notebooks/11_routing_choices.ipynb)

# %% [markdown] tags=["papers"]
# *The paper: [Chowdhury et al., ICML 2023](https://arxiv.org/abs/2306.04073).*

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

from moe_lab import exercises, final
from moe_lab.patch_routing import PatternTask, RoutedMoE, routing_figures, train
from moe_lab.recovery import gating
from moe_lab.routers import choices
from moe_lab_widgets import RoutingChoicesLab, predict

SEED = 0
torch.set_num_threads(1)  # these models are small: more threads only wait for each other

# %% [markdown]
# ## The words
#
# A **token** is what is routed. Here the tokens are the $n$ patches of a sample. Each of $k$ experts has **places** for
# $C$ patches of a sample:
#
# $$C = \lceil c\, n / k \rceil .$$
#
# The **capacity factor** $c$ is the number of places per patch. So a model computes at most $kC \approx cn$ products of
# a patch and an expert, no matter who chooses. This is what *equal compute* means here.
#
# - A patch **asks** $t$ experts.
# - A choice for which there is no place is **dropped**.
# - A patch that no expert receives is **lost**.
# - **o is kept** if some expert receives the patch $o$ that decides the class.
#
# (For $t=1$, $c$ is the capacity factor of Switch transformers. For larger $t$, GShard uses this name for $c/t$.)
#
# ## First, your prediction
#
# There are eight experts and 16 patches, and $c=1$ gives each expert two places. In *token choice by arrival* each
# patch asks the expert that scores it highest, and patches are served in the order of their positions. Nothing keeps
# the load even.
#
# In *expert choice* each expert takes the two patches that it scores highest, so that its load is even by itself. Which of
# the two is right more often? The Lab asks you before it trains. Answer, or drag the two marks in panel 3 to the accuracies that
# you expect at the end.
#
# Before that, a question about the order. In *token choice by priority* the patches with the highest scores are served
# first. Everything else is the same.

# %%
prediction_priority = predict(
    "What changes with priority in place of arrival?",
    [
        "fewer patches are lost, and the accuracy rises",
        "as many patches are lost, and the accuracy rises",
        "as many patches are lost, and the accuracy stays the same",
    ],
)
prediction_priority

# %% [markdown]
# ## The Lab

# %%
lab = RoutingChoicesLab(seed=SEED, ask=True)
lab

# %% [markdown]
# *What to see.* **1:** Each column is a patch and each row an expert. A full box is a place that is taken. A cross is a
# patch that asked and found no place. A black box in the bottom row is a lost patch. The frame marks $o$. **2:** Three
# experts are asked nearly all the time and turn most patches away. The others are idle. **3:** The accuracy of this
# routing (black) and of four others that have as many places (grey).
#
# *Your turn.* The menu <kbd>goal</kbd> has three tasks. Bring each about with the sliders. The Lab sees when a run has
# reached one, and asks you why. A wrong answer gets a reason, too.

# %% [markdown]
# ## What happened and why
#
# **Who chooses.** The score of patch $j$ for expert $s$ is $h_{j,s} = \langle w_s, x^{(j)} \rangle$. In *expert choice*
# expert $s$ takes its $C$ best patches. In *token choice* patch $j$ asks its $t$ best experts. Expert choice fills
# every place. Token choice fills the places of popular experts and leaves others empty. With $c=1$ more than half of
# the patches are lost.
#
# **What the gate is.** Let $S$ be the chosen set. Four gates are in use:
#
# $$\frac{e^{h_i}}{\sum_{j \in S} e^{h_j}}, \qquad \frac{e^{h_i}}{\sum_{j} e^{h_j}}, \qquad \sigma(h_i), \qquad
# \frac{\sigma(h_i)}{\sum_{j \in S} \sigma(h_j)} .$$
#
# They are the softmax *after* the choice, the softmax *before* it, the sigmoid, and the normalised sigmoid. If $S$ has
# one member, the first and the last are always 1. They have no gradient, and the router does not learn. The other two
# learn from a single expert.
#
# **Which patches are turned away.** A patch that is turned away contributes no gradient, so only the patches that are
# served teach the router. By *arrival* this depends on the position, which says nothing here. By **priority** the
# highest scores come first, and scores are what the router learns. So $o$, which helps to lower the loss, gets higher
# scores until it is always served. The next cell has four patches and two experts:

# %%
scores = torch.tensor([[[2.0, 0.0], [1.0, 0.5], [4.0, 0.0], [0.0, 1.0]]])  # four patches, two experts
asked, gates = choices.top_gates(scores, 1, "softmax-before")
rows = {
    f"{order}, C = {places}": choices.within_capacity(asked, scores, places, order)[0].any(1).numpy()
    for places in (1, 2)
    for order in ("arrival", "priority")
}
pd.DataFrame(rows, index=[f"patch {j}" for j in (1, 2, 3, 4)]).T

# %% [markdown]
# Check it by hand. Patches 1 to 3 ask expert 1. With one place, patch 1 gets it by arrival. By priority patch 3 gets
# it, which has the highest score.
#
# **Noise** (Shazeer et al. 2017) changes close decisions during training. Its size is learned:
# $H_{j,s} = h_{j,s} + \sigma\,\varepsilon\,\mathrm{softplus}(\langle v_s, x^{(j)} \rangle)$ with a normal $\varepsilon$
# and learned vectors $v_s$. **Soft MoE** chooses nothing: each of the $kC$ slots takes a weighted mean of all patches.
# A **hash** chooses without looking at anything learned.
#
# ## Measure it
#
# The tables show means of four trials. First the share of patches that are lost:

# %% [markdown]
# In *expert choice* each expert takes the patches that it scores highest. With $c=1$ about half of the patches are
# lost. A *hash* sends each patch to an expert without looking at anything learned. With $c=3$ there is room for all
# patches.

# %%
prediction_hash = predict(
    "Which is right more often: expert choice with c = 1 or a hash with c = 3?",
    ["expert choice, which loses half of the patches", "the hash, which loses none", "both are equally good"],
)
prediction_hash

# %%
names = ["expert choice", "token choice", "token choice by priority", "soft MoE", "hash"]
models = {name: routing_figures.ROWS[name] for name in names}
found = routing_figures.by_capacity((0.5, 1.0, 3.0), trials=4, seed=SEED, models=models).mean("trial")
lost = found["lost"].to_pandas()
lost.round(2)

# %% [markdown]
# Next, the share of samples in which $o$ is kept, and the accuracy:

# %%
found["signal_kept"].to_pandas().round(2)

# %%
accuracy = found["test_accuracy"].to_pandas()
accuracy.round(2)

# %% jupyter={"source_hidden": true} tags=["compare"]
# Compares your prediction with the result.
fewer = lost.loc["token choice", 1.0] - lost.loc["token choice by priority", 1.0]
gain = accuracy.loc["token choice by priority", 1.0] - accuracy.loc["token choice", 1.0]
outcome = "c" if gain < 0.05 else "a" if fewer > 0.05 else "b"
prediction_priority.seen(outcome, "Other patches are lost now, and o is not among them.")

# %% jupyter={"source_hidden": true} tags=["compare"]
# Compares your prediction with the result.
gain = accuracy.loc["expert choice", 1.0] - accuracy.loc["hash", 3.0]
outcome = "c" if abs(gain) < 0.05 else "a" if gain > 0 else "b"
prediction_hash.seen(outcome, "Expert choice loses patches that say nothing. The hash keeps them all.")

# %% [markdown]
# Read the tables together. With $c=1$ expert choice loses half of the patches but never $o$, and is right in 100 % of
# the samples. Token choice loses only a few more, but $o$ is often among them, and it is right in 72 %. Priority loses
# as many as arrival, keeps $o$, and is right in 98 %. A hash with $c=3$ loses nothing and is right in 72 %. **Routing
# helps because it leaves out patches that do not matter.**
#
# With $C=1$ expert choice fails here, because its softmax after the choice is always 1, as in notebook 02. With the
# softmax before the choice it learns:

# %%
rows = {}
for kind in ("softmax", "softmax-before"):
    model = RoutedMoE(routing="expert-choice", gates=kind, capacity_factor=0.5, learning_rate=20.0)
    last = final(train(model, PatternTask(), samples=200, trials=4, epochs=20, seed=SEED, measure="last"))
    rows[kind] = {"o kept": last["signal_kept"].mean(), "accuracy": last["test_accuracy"].mean()}
pd.DataFrame(rows).T.round(2)

# %% [markdown]
# ### One expert, two, or all
#
# Now each patch asks $t$ experts, from one to all eight, with $c=2$. The number of places stays the same, so with more
# experts asked more choices are dropped.

# %%
prediction_asking = predict(
    "Patches ask all eight experts in place of one. What happens to the accuracy?",
    ["it rises", "it falls", "it stays the same"],
)
prediction_asking

# %%
models = {name: model.replace(capacity_factor=2.0) for name, model in routing_figures.GATE_ROWS.items()}
asking = routing_figures.by_experts_per_patch((1, 2, 8), trials=4, seed=SEED, models=models).mean("trial")
asking["dropped"].to_pandas().round(2)

# %%
accuracy = asking["test_accuracy"].to_pandas()
accuracy.round(2)

# %% jupyter={"source_hidden": true} tags=["compare"]
# Compares your prediction with the result.
gain = np.mean(accuracy[8] - accuracy[1])
outcome = "c" if abs(gain) < 0.02 else "a" if gain > 0 else "b"
prediction_asking.seen(outcome, f"The mean over the four gates changes by {gain:+.2f}.")

# %% [markdown]
# With one expert the two gates that cannot learn have hardly any dropped choices, because a random router keeps the
# load even. They also have the lowest accuracy. Two experts help all four gates. With eight, three quarters of all
# choices are dropped.
#
# ### What soft MoE does with $o$
#
# Soft MoE loses no patch, but the input of a slot is a mixture. The table shows the share of $o$ in what experts
# receive. With equal weights it would be $1/16 = .06$:

# %%
found["signal_share"].to_pandas().round(2)

# %% [markdown]
# ## Sigmoid gates and samples
#
# DeepSeek-V3 uses normalised sigmoids. Nguyen, Ho and Rinaldo (2024) study a regression in which the fitted model has
# more experts than the true one. They prove that its *experts* are found with fewer samples if the gates are sigmoids.
# A softmax makes experts compete, so errors of gates and experts can cancel, and the errors fall more slowly than
# $n^{-1/2}$. Here $n$ is the number of samples.
#
# We test this on mixtures with known parameters, the two linear experts of notebook 06. Each kind of gate is fitted by
# least squares to its own data, from a start close to the truth. First the fitted model has the right number of
# experts.

# %%
prediction_gates = predict(
    "With which gates is the error of the experts smaller?", ["softmax gates", "sigmoid gates", "no difference"]
)
prediction_gates

# %%
rates = gating.gating_rates(samples=(500, 2000, 8000), fitted=(2,), trials=10, seed=SEED, iterations=25)
errors = rates["expert_error"].median("trial").squeeze("fitted", drop=True).to_pandas()
errors.round(3)

# %% jupyter={"source_hidden": true} tags=["compare"]
# Compares your prediction with the result.
ratio = (errors.loc["sigmoid"] / errors.loc["softmax"]).mean()
outcome = "c" if 0.8 < ratio < 1.25 else "a" if ratio > 1 else "b"
prediction_gates.seen(outcome, f"The error with sigmoid gates is {ratio:.1f} times as large.")

# %%
rates["rate"].squeeze("fitted", drop=True).to_pandas().round(2)

# %% [markdown]
# The **rate** is the slope: errors fall like $n^{-\text{rate}}$. Here it is a little above one half for both gates, as
# in any regular model. The error with sigmoid gates is about **three times** as large at every $n$.
#
# With one expert too many (`fitted=(3,)`, `iterations=90`, half a minute) the errors are .127, .092 and .040 with
# softmax gates and .640, .307 and .182 with sigmoid gates. The rates are .41 and .45. This difference has the sign that
# the theory predicts. But the minimum is flat, the fits still move after 90 iterations, and 10 trials are too few to
# confirm it. So on these mixtures and at these $n$, sigmoid gates do *not* find the experts with fewer samples. A rate
# says nothing about the constant in front of it. An advantage for large $n$ need not be one at $n = 8000$.

# %% [markdown]
# ## Exercises
#
# All arrays in these exercises are NumPy arrays. The first function is token choice by arrival. Each token asks the
# expert that scores it highest, and each expert has `places`.


# %%
def served(scores, places):
    """Finds the tokens that get a place, in the order of the rows.

    Args:
      scores: NumPy array (tokens, experts).
      places: a whole number.

    Returns:
      NumPy array (tokens,) of True and False.
    """
    return None  # your code


exercises.check_served(served)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def served(scores, places):
#     import numpy as np
#
#     taken, found = np.zeros(scores.shape[1], dtype=int), []
#     for wanted in scores.argmax(1):
#         found.append(taken[wanted] < places)
#         taken[wanted] += 1
#     return np.array(found)
# ```
#
# </details>

# %% [markdown]
# Next, the gate of DeepSeek-V3. Each token picks its `count` best experts. Their sigmoids are divided by their sum.


# %%
def sigmoid_gates(scores, count):
    """Computes normalised sigmoid gates, 0 for experts that are not picked.

    Args:
      scores: NumPy array (tokens, experts).
      count: a whole number.

    Returns:
      NumPy array (tokens, experts).
    """
    return None  # your code


exercises.check_sigmoid_gates(sigmoid_gates)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def sigmoid_gates(scores, count):
#     import numpy as np
#
#     plain = 1 / (1 + np.exp(-scores))
#     chosen = np.argsort(np.argsort(-scores, axis=1), axis=1) < count
#     gates = np.where(chosen, plain, 0)
#     return gates / gates.sum(1, keepdims=True)
# ```
#
# </details>

# %% [markdown]
# Last, soft MoE. The weights of a slot are the softmax of its scores over the tokens.


# %%
def slot_inputs(scores, tokens):
    """Computes the inputs of the slots: NumPy arrays (tokens, slots) and (tokens, d) -> (slots, d)."""
    return None  # your code


exercises.check_slot_inputs(slot_inputs)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def slot_inputs(scores, tokens):
#     import numpy as np
#
#     weights = np.exp(scores) / np.exp(scores).sum(0)
#     return weights.T @ tokens
# ```
#
# </details>

# %% [markdown]
# ## For readers of the paper
#
# *This part is optional. The core of the notebook ends here.* It compares this notebook with the papers.
#
# - **Groups.** Here the patches of one sample compete for places. In Switch transformers and V-MoE the tokens of a
#   whole batch compete, so chance averages out over samples. With 16 tokens it does not.
# - **No balancing loss.** Each of these papers adds a loss or a bias against idle experts. Here there is none, to show
#   what it is for.
# - **One step size**, 20, for all routings. Of 5, 20 and 80 it is the best for each routing, or within .07 of the best.
#   Token choice by arrival gains most from 80 (.79 in place of .73 at $c=1$, 10 other trials), and the order of the
#   rows is the same there. At 5, hashing and token choice change places.
# - **Expert choice** as printed by Zhou et al. (2022) has a softmax over experts before the choice. The paper pmoe2023
#   and this package have a softmax over the patches that are kept.
# - **Hash layers** look up the identity of a word. Patches have none, so the signs of random projections take its
#   place, and noise can change the expert of a patch. With $c=3$ a hash is 13 points behind token choice on average,
#   and 4 behind if the patches have no noise (8 trials at each of eight seeds).
# - **Soft MoE** normalises inputs and slots. This matters in wide networks and is left out here.
# - **Sigmoid gates** are measured above. The results do not confirm the advantage, and they do not refute a theorem
#   about large $n$.

# %% [markdown]
# ## Before you go
#
# All functions of this notebook are in `moe_lab.routers.choices`, each with its source. Read them: none has more than
# 15 lines.
#
# *Done? Choose File › Close and Shut Down Notebook. Each notebook holds 450 to 740 MB until its kernel is shut down,
# and Binder allows 2 GB in all.*
