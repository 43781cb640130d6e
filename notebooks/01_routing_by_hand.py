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
# # 01 · Routing by hand
#
# **35 minutes · no GPU · needs nothing but notebook 00**
#
# A mixture of experts has a *router*: a small function that gives every patch a score for every expert. The scores
# decide who gets what. Here you do it with four patches, three experts and numbers that fit on paper.
#
# **After this notebook you can**
# - tell apart *expert-choice*, *token-choice* and *switch* routing,
# - compute gates by hand,
# - say why expert-choice drops patches and token-choice overloads experts,
# - compute the output $f(x)$ of a patch-level mixture of experts (pMoE).

# %% [markdown] tags=["badges"]
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/moe-lab/moe_lab/blob/main/notebooks/01_routing_by_hand.ipynb)
# [![Open on Binder](https://mybinder.org/badge_logo.svg)](https://mybinder.org/v2/gh/moe-lab/moe_lab/main?urlpath=lab/tree/notebooks/01_routing_by_hand.ipynb)

# %% tags=["setup"] jupyter={"source_hidden": true}
# On Colab this installs moe_lab beside the torch, numpy and ipywidgets there. Elsewhere it does nothing.
import sys

if "google.colab" in sys.modules:
    import subprocess
    from importlib.metadata import version

    keep = [f"{name}=={version(name)}" for name in ("torch", "numpy", "ipywidgets")]
    source = "git+https://github.com/moe-lab/moe_lab"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", source, "anywidget", *keep], check=True)

# %%
import numpy as np
import pandas as pd
import torch
from matplotlib import pyplot as plt

from moe_lab import exercises, routing, theme
from moe_lab.routing_plots import gate_table
from moe_lab_widgets import RoutingTable, predict

SEED = 0  # this notebook draws nothing at random, except for the noise at the end of part 4
names = {"index": [f"expert {s}" for s in (1, 2, 3)], "columns": [f"patch {j}" for j in (1, 2, 3, 4)]}

# %% [markdown]
# ## The example
#
# The router of expert $s$ is a vector $w_s$. It gives patch $x^{(j)}$ the **score** $g_{j,s} = \langle w_s, x^{(j)}\rangle$.
# All gates below are ratios of $e^{g}$, so the table shows $e^{g}$. Its numbers are whole on purpose.

# %%
powers = exercises.TABLE.T  # exp(score): one row an expert, one column a patch
scores = torch.tensor(np.log(powers))
pd.DataFrame(powers, **names).astype(int)

# %% [markdown]
# ## First, your prediction
#
# Write your answers down before you go on. It takes three minutes and a pen.
#
# 1. Every **expert** keeps the $l=2$ patches that it scores highest. Which patches does nobody keep?
# 2. Every **patch** picks the one expert that scores it highest. Which expert gets nothing?
# 3. Expert 2 scores patches 2 and 3 the same. With $l=1$, which of them does it keep?

# %%
prediction = predict(
    "Every patch picks the one expert that scores it highest. Which expert gets nothing?",
    ["expert 1", "expert 2", "expert 3"],
)
prediction

# %% [markdown]
# ## 1. Expert-choice: the experts choose
#
# Expert $s$ keeps $J_s(x)$, its top $l$ patches. The gate of a kept patch is the softmax **over the kept patches**:
#
# $$G_{j,s} = \frac{e^{g_{j,s}}}{\sum_{i \in J_s(x)} e^{g_{i,s}}} \quad\text{for } j \in J_s(x), \qquad G_{j,s} = 0 \text{ otherwise.} \tag{4}$$
#
# By hand, for expert 1 and $l=2$: it keeps patches 1 and 2 with $e^g = 6$ and $3$, so the gates are
# $6/9 = 0.67$ and $3/9 = 0.33$. The library works on many trials and samples at once, with the axes
# `(trials, experts, batch, patches)`; here there is one trial and one sample.

# %%
kept, gates = routing.expert_choice(scores[None, :, None, :], 2)  # (1, 3, 1, 4)
expert_gates = gates[0, :, 0]
pd.DataFrame(expert_gates.numpy(), **names).round(3)

# %% [markdown]
# Every row sums to 1 and has exactly two entries: the load of the experts is even **by construction**. But no column has
# to be filled. Nobody keeps patch 4: it is **dropped**. Patch 2 goes to all three experts.
#
# That is not a flaw here. If patch 4 says nothing about the label, dropping it is just what we want: the experts see less
# clutter. Notebook 02 shows a router that *learns* what to drop.
#
# **Ties.** Expert 2 has $e^g = 4$ twice. moe_lab breaks ties by the lowest index, always and on every machine. With
# $l=1$ expert 2 keeps patch 2. The paper does not say what to do. It matters: if two machines break a tie differently,
# their gradients differ.

# %%
routing.expert_choice(scores[None, :, None, :], 1)[0][0, :, 0].int()

# %% [markdown]
# ## 2. Token-choice: the patches choose
#
# Now every patch (in language models: every *token*) picks its best experts. Read the table **by columns**. The gate is
# the softmax over the experts that the patch picks.

# %%
token_gates = routing.token_choice(scores.T, 1)[1].T
pd.DataFrame(token_gates.numpy(), **names).round(3)

# %%
idle = int(token_gates.sum(1).argmin())
prediction.seen(
    "abc"[idle], "For every patch another expert has a higher score, and nothing keeps the load even."
)

# %% [markdown]
# No patch is dropped. But expert 2 gets three patches and expert 3 gets none: nothing keeps the load even. Large models
# therefore add a capacity limit or a balancing loss.
#
# With one pick, the gate is 1 whatever the scores are. A constant has no gradient, so such a router cannot learn from
# its gates. With two picks it can:

# %%
pd.DataFrame(routing.token_choice(scores.T, 2)[1].T.numpy(), **names).round(3)

# %% [markdown]
# Check one column by hand: patch 2 has $e^g = 3, 4, 3$. Expert 2 is first; experts 1 and 3 tie, and the lower index wins.
# The gates are $3/7 = 0.43$ and $4/7 = 0.57$.

# %% [markdown]
# ## 3. Switch: one expert, with a gate that can learn
#
# Switch routing also sends each input to one expert, $m = \arg\max_m (h_m + r_m)$, where $r_m$ is noise. Its gate is the
# softmax over **all** experts, and **without** the noise:
#
# $$\pi_m = \frac{e^{h_m}}{\sum_{m'} e^{h_{m'}}}.$$
#
# So the gate is below 1 and moves with the router: there is a gradient. (In the paper on clusters, `chen2022`, the input
# is a whole sample; here it is a patch.)

# %%
switch_gates = routing.switch(scores.T)[1].T
pd.DataFrame(switch_gates.numpy(), **names).round(3)

# %% [markdown]
# ## 4. The three side by side

# %%
figure, panels = plt.subplots(1, 3, figsize=(13, 3), facecolor=theme.PAPER, layout="constrained")
gate_table(panels[0], expert_gates, "expert-choice, l = 2")
gate_table(panels[1], token_gates, "token-choice, 1 expert a patch")
gate_table(panels[2], switch_gates, "switch")

# %% [markdown]
# *What to see.* Framed cells are routed; shade and number are the gate. Left: every row has two cells, patch 4 is
# dropped. Middle and right: every column has one cell, expert 3 is idle. The same scores, three different fates.
#
# Noise can wake the idle expert. Draw it 1000 times and count how often each patch goes to expert 3:

# %%
noise = torch.rand(1000, *scores.T.shape, generator=torch.Generator().manual_seed(SEED))
chosen = routing.switch(scores.T.expand(1000, -1, -1), noise)[0].double().mean(0).T
pd.DataFrame(chosen.numpy(), **names).round(2)

# %% [markdown]
# *What to see.* Expert 3 now gets about a third of what patch 1 brings, because its score there is nearly the best. It
# hardly gets patches 3 and 4, where its score is far behind. Noise spreads close calls and leaves clear ones alone.

# %% [markdown]
# ### Your turn
#
# The same table, with a slider for every number. The three tables below it follow at once. First write down your answer
# to each question, then find out:
#
# 1. Raise one number so that expert-choice no longer drops patch 4. Is another patch dropped in its place?
# 2. Which is the smallest $l$ for which expert-choice can drop no patch, whatever the numbers are?
# 3. Can you choose the numbers so that token-choice sends all four patches to expert 3? And expert-choice?
# 4. Set the noise of switch to 0.5 and change its seed. Which patches change their expert, and which never do?

# %%
RoutingTable(powers)

# %% [markdown]
# *What to see.* **1.** With 4 or more for expert 1, patch 4 takes the place of patch 2 there. Patch 2 has other experts,
# so nobody is dropped. With 5 or more for expert 2 it takes the place of patch 3, which nobody else keeps: now patch 3 is
# dropped. A patch is lost only when *every* expert leaves it. **2.** All experts could keep the same $l$ patches, so
# only $l=4$ is safe. **3.** Token-choice yes: nothing limits an expert. Expert-choice never: each expert has exactly $l$.
# **4.** Patches 1 and 2: their best two scores differ by $\log\frac65=0.18$ and $\log\frac43=0.29$, less than the noise
# can add. Patches 3 and 4 never: $\log 2=0.69$.

# %% [markdown]
# ## 5. From gates to an output
#
# The patch-level mixture of experts adds up what its neurons say about the patches that reach them:
#
# $$f(x) = \sum_{s=1}^{k} \sum_{r=1}^{m/k} \frac{a_{r,s}}{l} \sum_{j \in J_s(x)} \mathrm{ReLU}\big(\langle w_{r,s}, x^{(j)}\rangle\big)\, G_{j,s}(x). \tag{1}$$
#
# $f(x) > 0$ means class $+$. The output weights $a_{r,s}$ are drawn once and never trained. A tiny model:
# $n=4$ patches of 2 numbers, $k=2$ experts with one neuron each, $l=2$.

# %%
for name, part in exercises.TINY.items():
    print(f"{name:8}", np.round(part, 3).tolist())

# %% [markdown]
# By hand, expert 1: the scores are $\log 2$ times the first number of each patch, so $e^g = 2, 1, 4, 1$. It keeps patches 3
# and 1 with gates $4/6$ and $2/6$. Its neuron says $\mathrm{ReLU} = 2$ and $1$. Its share of $f$ is
# $\frac{1}{2}\left(2\cdot\frac46 + 1\cdot\frac26\right) = \frac56$.
#
# **Now you:** what is the share of expert 2, and what is $f(x)$? (Its scores tie. Its neuron is negative on one patch.)
# You can check your number in the last exercise.

# %% [markdown]
# ## What happened and why
#
# | | who chooses | even load | every patch used | gate |
# | --- | --- | --- | --- | --- |
# | expert-choice | each expert takes $l$ patches | yes | no | softmax over the kept patches |
# | token-choice | each patch takes some experts | no | yes | softmax over the picked experts |
# | switch | each input takes one expert | no | yes | softmax over all experts, at the chosen one |
#
# A router learns through its gates only: *who is kept* jumps and has no gradient. So a gate that cannot move teaches
# nothing: token-choice with one expert, and expert-choice with $l=1$, have gates of exactly 1. Notebook 02 shows what that does.

# %% [markdown]
# ## Exercises
#
# Fill in a function and run its cell. The check calls *your* function and says what it found. Scores are NumPy arrays;
# `count` is $l$ (or the number of experts a patch picks). Ties go to the lowest index.


# %%
def top_l(scores, count):
    """A mask of the patches that one expert keeps: scores (n,) -> (n,) bool with `count` True."""
    return None  # your code


exercises.check_top_l(top_l)


# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def top_l(scores, count):
#     import numpy as np
#
#     kept = np.zeros(len(scores), dtype=bool)
#     kept[np.argsort(-scores, kind="stable")[:count]] = True
#     return kept
# ```
#
# </details>


# %%
def gates(scores, kept):
    """Eq. 4 for one expert: scores (n,) and a mask (n,) -> gates (n,), zero at dropped patches."""
    return None  # your code


exercises.check_gates(gates)


# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def gates(scores, kept):
#     import numpy as np
#
#     powers = np.where(kept, np.exp(scores - scores[kept].max()), 0)
#     return powers / powers.sum()
# ```
#
# </details>


# %%
def token_choice(scores, count):
    """scores (patches, experts) -> gates (patches, experts): every row picks `count` experts."""
    return None  # your code


exercises.check_token_choice(token_choice)


# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def token_choice(scores, count):
#     import numpy as np
#
#     def gates(scores, kept):
#         powers = np.where(kept, np.exp(scores - scores[kept].max()), 0)
#         return powers / powers.sum()
#
#     def top_l(scores, count):
#         kept = np.zeros(len(scores), dtype=bool)
#         kept[np.argsort(-scores, kind="stable")[:count]] = True
#         return kept
#
#     return np.stack([gates(row, top_l(row, count)) for row in scores])
# ```
#
# </details>


# %%
def switch(scores, noise):
    """scores and noise (samples, experts) -> gates (samples, experts): one expert a row."""
    return None  # your code


exercises.check_switch(switch)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def switch(scores, noise):
#     import numpy as np
#
#     def gates(scores, kept):
#         powers = np.where(kept, np.exp(scores - scores[kept].max()), 0)
#         return powers / powers.sum()
#
#     result = np.zeros_like(scores)
#     for row, push, out in zip(scores, noise, result, strict=True):
#         chosen = np.argmax(row + push)
#         out[chosen] = gates(row, np.ones(len(row), dtype=bool))[chosen]
#     return result
# ```
#
# </details>

# %% [markdown]
# The last one is eq. 1 itself, with the gates of eq. 4. The first case of the check is the tiny model above.
# Shapes: `patches` (n, d), `routers` (k, d), `neurons` (k, m/k, d), `outputs` (k, m/k).


# %%
def output(patches, routers, neurons, outputs, count):
    """f(x), one number."""
    return None  # your code


exercises.check_output(output)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def output(patches, routers, neurons, outputs, count):
#     import numpy as np
#
#     def gates(scores, kept):
#         powers = np.where(kept, np.exp(scores - scores[kept].max()), 0)
#         return powers / powers.sum()
#
#     def top_l(scores, count):
#         kept = np.zeros(len(scores), dtype=bool)
#         kept[np.argsort(-scores, kind="stable")[:count]] = True
#         return kept
#
#     f = 0.0
#     for router, own_neurons, own_outputs in zip(routers, neurons, outputs, strict=True):
#         scores = patches @ router
#         g = gates(scores, top_l(scores, count))
#         for neuron, a in zip(own_neurons, own_outputs, strict=True):
#             f += a / count * np.sum(np.maximum(patches @ neuron, 0) * g)
#     return f
# ```
#
# </details>

# %% [markdown]
# ## For readers of the paper
#
# You can skip this part. It is for those who compare the notebook with pmoe2023.
#
# Eq. 4 is printed as $e^{g_{j,s}} / \sum_{i} g_{i,s}$, without the exponential in the denominator. For expert 1 that
# gives:

# %%
top = scores[0, :2]  # the two patches that expert 1 keeps
pd.DataFrame(
    {"eq. 4 as printed": top.exp() / top.sum(), "softmax": top.softmax(0)}, index=["patch 1", "patch 2"]
).round(3)

# %% [markdown]
# The printed gates sum to 3.1, not to 1. Worse: a fresh router has scores near 0, some of them negative, so the printed
# denominator can be 0 or negative. It is a misprint. The proofs use $\sum_j G_{j,s} = 1$, and so does moe_lab.
#
# The paper does not say how ties are broken. Here: lowest index first. Eq. 1 divides by $l$; the authors' code divides by
# $n$, which only changes the step size that works.

# %% [markdown]
# ## Before you go
#
# Next: **02 Router alignment**, where the routers are not given but learned.
#
# *Done? Choose File › Close and Shut Down Notebook. Each notebook holds 450 to 740 MB until its kernel is shut down, and
# Binder allows 2 GB in all.*
