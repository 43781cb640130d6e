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
# # 15 · Specialisation, further
#
# **20 minutes · no GPU · after notebook 04**
#
# *This notebook is optional.* In notebook 04 you watched experts specialise. Here you hold the paper against runs: a table
# that does not replicate until you know what trained it, a factor of 10 that nobody mentions, a lemma that can be made
# sharper, and a theorem that is right although its conditions are not met.
#
# **After this notebook you can**
# - trace a published number to the choices that made it, and change them one at a time,
# - bound how many samples a router moves when its scores change,
# - check a theorem against a trained network, and say which of its assumptions your run breaks.

# %% [markdown] tags=["badges"]
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/moe-lab/moe_lab/blob/v0.1.0/notebooks/15_specialization_further.ipynb)
# [![Open on Binder](https://mybinder.org/badge_logo.svg)](https://mybinder.org/v2/gh/moe-lab/moe_lab/v0.1.0?urlpath=lab/tree/notebooks/15_specialization_further.ipynb)

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
from moe_lab.specialization import ClusterTask, SwitchMoE, figures, plots, theory, train
from moe_lab_widgets import predict

SEED = 0
torch.set_num_threads(1)  # these models are small: more threads only wait for each other
task = ClusterTask()  # setting 3 of the paper
tenfold = task.replace(scale=10.0)  # the same data, times 10
settings = {"samples": 2000, "trials": 4, "seed": SEED, "measure": "last"}
small = {"filters": 8, "initial_scale": 8e-4}

# %% [markdown]
# ## A published table
#
# Table 3 of the paper gives cubic mixtures 99 to 100 % and linear mixtures 88 to 96 %. The table was made with the
# authors' code (uclaml/MoE on GitHub). That code does not train the model which the paper describes:
#
# - The expert's output is multiplied by the raw winning score $h_m + r_m$, not by the softmax $\pi_m$.
# - Two logits go through a softmax and then into a cross-entropy, which applies a second softmax.
# - Filters have biases. Weights and biases are normalised separately (in some of its notebooks by their sum).
# - The noise $r$ is also added in the tests. For figures 1 and 3 it is drawn once and kept for all steps.
# - Training stops once the loss is not a new minimum and is at most .314, or once it exceeds the minimum by more than
#   .02.
# - All ten runs use one data set, and the entropy is that of the last training step, noise included.
#
# `SwitchMoE.authors()` trains this model. `SwitchMoE()` trains the one of the paper.
#
# ## First, your prediction

# %%
prediction = predict(
    "Linear experts, both models, four trials each. By how much is the accuracy of the authors' model lower?",
    {"not at all": 0.0, "by about 3 points": 0.03, "by 10 points or more": 0.1},
)
prediction

# %%
runs = {}
for kind in ("linear", "cubic"):
    runs["the paper's", kind] = final(train(SwitchMoE(**small, activation=kind), task, **settings))
    runs["the authors'", kind] = final(train(SwitchMoE.authors(activation=kind), tenfold, **settings))
rows = {
    name: {"accuracy": np.mean(last["test_accuracy"]), "entropy": np.mean(last["dispatch_entropy"])}
    for name, last in runs.items()
}
pd.DataFrame(rows).T.rename_axis(["model", "experts"]).round(3)

# %% jupyter={"source_hidden": true} tags=["compare"]
# Compares your prediction with the result.
accuracy = {model: rows[model, "linear"]["accuracy"] for model in ("the paper's", "the authors'")}
prediction.seen(
    accuracy["the paper's"] - accuracy["the authors'"],
    "The paper's own model makes linear experts better than the paper says.",
)

# %% [markdown]
# ## What happened and why
#
# Linear mixtures are better than published, if one trains what the paper describes: at full size (10 trials,
# $n=16{,}000$) they reach 96 to 99 % in the four settings. The authors' objective costs them a few points.
# `figures.table3(objective="authors")` makes the whole table, and comes close to the published numbers.
#
# The **dispatch entropy**
#
# $$-\sum_{m:\, n_m \ne 0} \frac{n_m}{n} \sum_{k=1}^{K} \frac{n_{k,m}}{n_m} \log\frac{n_{k,m}}{n_m}$$
#
# replicates either way: at full size linear experts stay between .5 and 1.3 on average, cubic experts between 0 and .3.
# So the claim of the paper stands. It is about who divides the clusters, and not about who is more often right.
#
# ### Data times 10
#
# The authors' code also multiplies all patches by 10, which the paper does not say. On such data its step sizes (.001
# and .1) are equivalent to ours ($\eta = .01$, $\eta_r = 10$ and 10 times $\sigma_0$, the scale of the first weights)
# on unscaled data. Without the factor success is a matter of luck:

# %%
theirs = SwitchMoE(filters=8, learning_rate=0.001, router_learning_rate=0.1, initial_scale=8e-5)
cases = {
    "the paper's steps, data as they are": final(train(theirs, task, **settings)),
    "the paper's steps, data times 10": final(train(theirs, tenfold, **settings)),
    "steps of notebook 04, data as they are": runs["the paper's", "cubic"],
}
pd.DataFrame({name: last["test_accuracy"] for name, last in cases.items()}).rename_axis("trial").T.round(4)

# %% [markdown]
# ### How smooth is noisy routing?
#
# In notebook 04 noise made routing smooth: a small change of the scores moves few samples. How many at most?
#
# Lemma 5.1 says that the probabilities with which experts win change by at most $M^2$ times the change of the scores. It adds up the changes
# over all pairs of experts. A shorter argument gives a better bound. Let $Z$ be the best noisy score of the other
# experts. Expert $m$ wins if $r_m \ge Z - h_m$. If all scores change by at most $\delta$, this threshold moves by at
# most $2\delta$, and $r_m$ lies between the old and the new threshold with probability at most $2\delta$. So the factor
# is **2** for any number of experts. A numerical search for the largest factor agrees:

# %%
found = {experts: theory.worst_ratio(experts).ratio for experts in (2, 4, 8)}
rows = {experts: {"found": ratio, "proved": 2, "lemma 5.1": experts**2} for experts, ratio in found.items()}
pd.DataFrame(rows).T.rename_axis("experts").round(3)

# %% [markdown]
# ### Figure 1
#
# The next figure shows unseen samples on a plane, for $M=4$. We chose `trial=1` of seed 0, in which all four cubic
# experts find a cluster, as in 15 of the first 20 trials. The random noise is three times as long on the map as in the
# data (appendix A.1). In the authors' code the data have the longer noise as well.

# %%
map_of_samples = figures.tsne(seed=SEED, shown=400, resolution=100)
figure, panels = plt.subplots(1, 2, figsize=(11, 4), facecolor=theme.PAPER, layout="constrained")
plots.tsne(map_of_samples, panels)
for panel, name in zip(panels, ("linear experts", "cubic experts"), strict=True):
    panel.set_title(name, loc="left")

# %% [markdown]
# *What to see.* Colour and shape show which expert a sample goes to. Filled marks are $y=+1$, open marks are $-1$.
# **Right:** Each cluster has one colour. **Left:** Every cluster is shared by several experts, although nearly all
# answers are right (wrong ones are crosses).

# %% [markdown]
# ### Theorem 4.2, statement by statement
#
# The next cell checks the conclusions of the theorem in the first trial of the cubic run, and then its conditions:

# %%
cubic = runs["the paper's", "cubic"]
for finding in (*theory.theorem_4_2(cubic, trial=0), *theory.conditions_4_2(cubic)):
    print(finding)

# %% [markdown]
# All conclusions hold, although one of the assumptions does not: the theorem asks for *large* first weights, and this
# run starts from small ones. This is no contradiction, because the assumptions are sufficient and need not be
# necessary. The same for linear experts:

# %%
for finding in theory.theorem_4_2(runs["the paper's", "linear"], trial=0):
    print(finding)

# %% [markdown]
# ## Exercise
#
# Notebook 04 proves that a single expert is wrong in at least 1/8 of all samples (theorem 4.1). Here you count. Let $\alpha = \gamma$ be a constant. Then only $3K$ numbers of $f$ matter:
# `plus[k]` $= f(\alpha v_k)$, `minus[k]` $= f(-\alpha v_k)$ and `center[k]` $= f(\beta c_k)$. Go through all $k$, all
# $k' \ne k$, and both signs of $y$ and $\epsilon$. When the check passes, try to find three arrays with an error below
# 1/8.


# %%
def error_share(plus, minus, center):
    """Computes the share of all (k, k', y, epsilon) with y F(x) <= 0 from NumPy arrays (K,) -> one number."""
    return None  # your code


exercises.check_error_share(error_share)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def error_share(plus, minus, center):
#     import itertools
#     import numpy as np
#
#     wrong = []
#     for k, other in itertools.permutations(range(len(plus)), 2):
#         for y, epsilon in itertools.product((1, -1), repeat=2):
#             feature, noise = (plus if y > 0 else minus)[k], (plus if epsilon > 0 else minus)[other]
#             wrong.append(y * (feature + center[k] + noise) <= 0)
#     return np.mean(wrong)
# ```
#
# </details>

# %% [markdown]
# ## For readers of the paper
#
# *This part is optional: the core of the notebook ends here.* These are smaller differences.
#
# - **ReLU experts**, as eq. 3.1 writes them, are sums of numbers $\ge 0$ and can never answer $-1$. Here, and in the
#   authors' code, half of the filters count negatively. A ReLU is nearly linear, and the mixture behaves accordingly.
# - **Table 7** says $\alpha, \gamma \in (1, 2)$ and "setting 3", which has $(0.5, 2)$. Its linear and cubic experts
#   have the same numbers as setting 3 of table 3. The accuracies hardly depend on this.
# - **Table 8** gives $\sigma_p = 1$ for setting 2, where 2 is meant.
# - **Single experts** are trained by gradient descent according to section 6.1, and by Adam according to appendix A.2.
#   The paper does not state $\sigma_0$.
# - **Longer training is not better.** Steps of fixed length never settle. In setting 2, 3 of 10 trials fell below 91 %
#   by step 500. The default stops at 300.

# %% [markdown]
# ## Before you go
#
# When a number does not replicate, compare what was trained before you doubt what was claimed. Here the table belongs to
# another model, and the claim holds for both.
#
# *Done? Choose File › Close and Shut Down Notebook. Each notebook holds 450 to 740 MB until its kernel is shut down,
# and Binder allows 2 GB in all.*
