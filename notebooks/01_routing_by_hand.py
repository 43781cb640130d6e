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
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/moe-lab/moe_lab/blob/v0.1.0/notebooks/01_routing_by_hand.ipynb)
# [![Open on Binder](https://mybinder.org/badge_logo.svg)](https://mybinder.org/v2/gh/moe-lab/moe_lab/v0.1.0?urlpath=lab/tree/notebooks/01_routing_by_hand.ipynb)

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
from matplotlib import pyplot as plt

from moe_lab import exercises
from moe_lab.course.routing_table import route
from moe_lab.drawing import theme
from moe_lab.drawing.routing_plots import gate_table
from moe_lab_widgets import RoutingTable, predict

SEED = 0  # this notebook draws nothing at random, except for the noise at the end of part 4

# %% [markdown]
# ## The example
#
# The router of expert $s$ is a vector $w_s$. It gives patch $x^{(j)}$ the **score** $g_{j,s} = \langle w_s, x^{(j)}\rangle$.
# All gates below are ratios of $e^{g}$, so the table shows $e^{g}$. Its numbers are whole on purpose.

# %%
rows, columns = ["expert 1", "expert 2", "expert 3"], ["patch 1", "patch 2", "patch 3", "patch 4"]
powers = pd.DataFrame(exercises.TABLE.T.astype(int), rows, columns)  # exp(score)
scores = np.log(powers)
powers

# %% [markdown]
# ## First, your prediction
#
# Every **expert** keeps the $l=2$ patches that it scores highest. Go through the table row by row, with a pen.

# %%
prediction = predict(
    "Every expert keeps the 2 patches that it scores highest. Which patch does nobody keep?",
    ["patch 1", "patch 2", "patch 3", "patch 4"],
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
# $6/9 = 0.67$ and $3/9 = 0.33$. `route` does it for the whole table:

# %%
expert_gates = route(scores, "expert-choice", l=2)
expert_gates.round(3)

# %% jupyter={"source_hidden": true} tags=["compare"]
# Compares your prediction with the result.
dropped = int(expert_gates.sum(axis=0).argmin())
prediction.seen("abcd"[dropped], "No expert has it among its two highest scores.")

# %% [markdown]
# Every row sums to 1 and has exactly two entries: the load of the experts is even **by construction**. But no column has
# to be filled. Nobody keeps patch 4: it is **dropped**. Patch 2 goes to all three experts.
#
# That is not a flaw here. If patch 4 says nothing about the label, dropping it is just what we want: the experts see less
# clutter. Notebook 02 shows a router that *learns* what to drop.
#
# **Ties.** Expert 2 has $e^g = 4$ twice. What if it keeps one patch only?

# %%
prediction_tie = predict(
    "Expert 2 scores patches 2 and 3 the same. With l = 1, which of them does it keep?",
    ["patch 2", "patch 3", "both", "neither"],
)
prediction_tie

# %%
route(scores, "expert-choice", l=1)

# %% jupyter={"source_hidden": true} tags=["compare"]
# Compares your prediction with the result.
second, third = (route(scores, "expert-choice", l=1).loc["expert 2", ["patch 2", "patch 3"]] > 0).tolist()
outcome = {(True, False): "a", (False, True): "b", (True, True): "c", (False, False): "d"}[second, third]
prediction_tie.seen(outcome, "Of equal scores the one with the lowest index is kept.")

# %% [markdown]
# moe_lab breaks ties by the lowest index, always and on every machine. The paper does not say what to do. It matters: if two
# machines break a tie differently, their gradients differ.

# %% [markdown]
# ## 2. Token-choice: the patches choose
#
# Now every patch (in language models: every *token*) picks its best experts. Read the table **by columns**. The gate is
# the softmax over the experts that the patch picks.

# %%
prediction_idle = predict(
    "Every patch picks the one expert that scores it highest. Which expert gets nothing?",
    ["expert 1", "expert 2", "expert 3"],
)
prediction_idle

# %%
token_gates = route(scores, "token-choice", top=1)
token_gates

# %% jupyter={"source_hidden": true} tags=["compare"]
# Compares your prediction with the result.
idle = int(token_gates.sum(axis=1).argmin())
prediction_idle.seen("abc"[idle], "For every patch another expert has a higher score.")

# %% [markdown]
# No patch is dropped. But expert 2 gets three patches and expert 3 gets none: nothing keeps the load even. Large models
# therefore add a capacity limit or a balancing loss.
#
# With one pick, the gate is 1 whatever the scores are. A constant has no gradient, so such a router cannot learn from
# its gates. With two picks it can:

# %%
route(scores, "token-choice", top=2).round(3)

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
switch_gates = route(scores, "switch")
switch_gates.round(3)

# %% [markdown]
# ## 4. The three side by side

# %%
figure, panels = plt.subplots(1, 3, figsize=(13, 3), facecolor=theme.PAPER, layout="constrained")
gate_table(panels[0], expert_gates, "expert-choice, l = 2")
gate_table(panels[1], token_gates, "token-choice, 1 expert a patch")
gate_table(panels[2], switch_gates, "switch")

# %% [markdown]
# *What to see.* Framed cells are routed; shade and number are the gate. Left: every row has two cells, patch 4 is
# dropped. Middle and right: every column has one cell, expert 3 is idle. The scores are the same. Only
# who chooses, and how, differs.
#
# Noise can wake the idle expert. Draw it 1000 times and count how often each patch goes to each expert:

# %%
draws = np.random.default_rng(SEED).random((1000, *scores.shape))  # between 0 and 1, for each score
times = sum(route(scores, "switch", noise=noise) > 0 for noise in draws)
times / 1000

# %% [markdown]
# *What to see.* Expert 3 now gets patch 1 in about a third of the draws, because its score there is nearly the best. It
# hardly ever gets patches 3 and 4, where its score is far behind. Noise decides close calls and leaves clear ones alone.

# %% [markdown]
# ### Your turn
#
# The same table, to be edited: type a number from 1 to 9 into a cell, or change it with the arrow keys. The tables below
# follow at once. Find out:
#
# 1. Raise one number so that expert-choice no longer drops patch 4. Is another patch dropped in its place?
# 2. What is the smallest $l$ at which expert-choice never drops a patch, whatever the numbers?
# 3. Can you choose the numbers so that token-choice sends all four patches to expert 3? And expert-choice?
# 4. Set <kbd>noise of switch</kbd> to 0.5 and change <kbd>seed of the noise</kbd>. Which patches change their expert, and
#    which never do?

# %%
RoutingTable(powers)

# %% [markdown]
# <details><summary>Answers</summary>
#
# 1. With 4 or more for expert 1, patch 4 takes the place of patch 2 there. Patch 2 has other experts, so no patch is
#    dropped. With 5 or more for expert 2 it takes the place of patch 3, which nobody else keeps: now patch 3 is dropped. A
#    patch is lost only when *every* expert leaves it.
# 2. All experts could keep the same $l$ patches, so only $l=4$ is safe.
# 3. Token-choice can: nothing limits an expert. Expert-choice never can: each expert has exactly $l$ patches.
# 4. Patches 1 and 2 do: their best two scores differ by $\log\frac65=0.18$ and $\log\frac43=0.29$, less than the noise can
#    add. Patches 3 and 4 never do: theirs differ by $\log 2=0.69$.
#
# </details>

# %% [markdown]
# ## 5. From gates to an output
#
# Expert $s$ has $m/k$ of the $m$ neurons: weights $w_{r,s}$, each with an output weight $a_{r,s}$. The mixture adds up what
# the neurons say about the patches that reach them:
#
# $$f(x) = \sum_{s=1}^{k} \sum_{r=1}^{m/k} \frac{a_{r,s}}{l} \sum_{j \in J_s(x)} \mathrm{ReLU}\big(\langle w_{r,s}, x^{(j)}\rangle\big)\, G_{j,s}(x). \tag{1}$$
#
# $f(x) > 0$ means class $+$. The output weights are drawn once and never trained. A tiny model: $n=4$ patches of 2 numbers,
# $k=2$ experts with one neuron each, $l=2$.

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
# Fill in a function and run its cell. The check calls *your* function and says what it found. All arguments are NumPy
# arrays, and `count` is $l$ (or the number of experts a patch picks). Ties go to the lowest index. The rows
# are those that choose: the patches in `token_choice`, the samples in `switch`. A function that passes can route in the
# table above: `RoutingTable(powers, top_l)`, or with several.


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
top = scores.loc["expert 1", ["patch 1", "patch 2"]]  # what expert 1 keeps
pd.DataFrame({"eq. 4 as printed": np.exp(top) / top.sum(), "softmax": np.exp(top) / np.exp(top).sum()}).round(3)

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
