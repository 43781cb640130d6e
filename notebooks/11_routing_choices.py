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
# Every mixture of experts answers three questions: who chooses, how many, and what happens to those for whom there is no
# room. Here all the usual answers train on one task, with the same number of places for each expert, so that none of them
# may compute more than another. One patch of 16 decides the class. Who loses it, and what does that cost?
#
# **After this notebook you can**
# - say what *places*, *capacity factor*, *dropped* and *lost* mean, and compute them,
# - choose between a softmax before and after the choice, and say which of them can learn from a single expert,
# - say why serving tokens by priority rescues token choice, and what soft MoE and hashing do instead,
# - read a rate off errors, and say what is and what is not known of sigmoid gates.

# %% [markdown] tags=["badges"]
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/moe-lab/moe_lab/blob/main/notebooks/11_routing_choices.ipynb)
# [![Open on Binder](https://mybinder.org/badge_logo.svg)](https://mybinder.org/v2/gh/moe-lab/moe_lab/main?urlpath=lab/tree/notebooks/11_routing_choices.ipynb)

# %% tags=["setup"]
# On Colab this installs moe_lab beside the torch, numpy and ipywidgets there. Elsewhere it does nothing.
import sys

if "google.colab" in sys.modules:
    import subprocess
    from importlib.metadata import version

    keep = [f"{name}=={version(name)}" for name in ("torch", "numpy", "ipywidgets")]
    source = "git+https://github.com/moe-lab/moe_lab"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", source, "anywidget", *keep], check=True)

# %%
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
# A **token** is what is routed; here it is a patch. Each of $k$ experts has **places** for $C$ patches of a sample:
#
# $$C = \lceil c\, n / k \rceil .$$
#
# $n$ is the number of patches, and $c$, the **capacity factor**, the places that there are for each patch. So a model
# computes at most $kC \approx cn$ products of a patch and an expert, whoever chooses: that is what *equal compute* means
# here. A patch **asks** $t$ experts. A choice for which there is no place is **dropped**; a patch that no expert receives
# at all is **lost**. **o is kept** if some expert receives the patch that decides the class.
#
# (With $t=1$, $c$ is the capacity factor of Switch transformers; with more, GShard would call $c/t$ so.)
#
# ## First, your prediction
#
# Eight experts, 16 patches, $c=1$: two places each. Write down:
#
# 1. Patches ask the one expert that scores them highest, and are served in the order of their positions. Nothing keeps
#    the load even. How many of 16 patches are lost: 2, 5 or 9?
# 2. The same, but those with the highest scores are served first. Are fewer patches lost? Is accuracy better?
# 3. Every patch asks all eight experts, and there are still two places each. Better or worse than asking one?
# 4. A hash decides who gets what, and there is room for everybody. Better or worse than routing that loses half?

# %%
prediction = predict(
    "Patches ask one expert each, and there are two places at each of eight. How many of 16 patches are lost?",
    {"2": 2, "5": 5, "9": 9},
)
prediction

# %% [markdown]
# ## The Lab

# %%
lab = RoutingChoicesLab(seed=SEED)
lab

# %% [markdown]
# *What to see.* Left: a column is a patch, a row an expert. A full box is a place taken, a cross a patch that asked in
# vain, and a black box below says that nobody has the patch. The frame stands around $o$. Middle: three experts get nearly
# all the calls and turn most of them away; the others stand idle. Right: accuracy with this routing, in ink, and with four
# others that have as many places.
#
# Try, and write down what you see:
#
# 1. Set **places go by** to *priority*. As many patches are lost as before. Which ones now?
# 2. Move **c** down to 0.5, then up to 3. Which of the five rows needs the places?
# 3. Set **gates** to *softmax after*. Why do the crosses move no more?
# 4. Let the **experts** choose, then **nobody** (soft). What does soft MoE do with $o$?

# %% [markdown]
# ## What happened and why
#
# **Who chooses.** With scores $h_{j,s} = \langle w_s, x^{(j)} \rangle$, expert $s$ can take its $C$ best patches (*expert
# choice*), or patch $j$ its $t$ best experts (*token choice*). Expert choice fills every place. Token choice fills the
# places of popular experts and leaves others empty: at $c=1$ more than half of the patches are lost.
#
# **What the gate is.** The chosen set is $S$. The four gates in use are
#
# $$\frac{e^{h_i}}{\sum_{j \in S} e^{h_j}}, \qquad \frac{e^{h_i}}{\sum_{j} e^{h_j}}, \qquad \sigma(h_i), \qquad
# \frac{\sigma(h_i)}{\sum_{j \in S} \sigma(h_j)} .$$
#
# softmax *after* the choice, softmax *before* it, sigmoid, and normalised sigmoid. Where $S$ has one member, the first and
# the last are 1 whatever the router does: no gradient, so no learning. The other two learn from a single expert.
#
# **Who is turned away.** A patch has no way of knowing that it will be turned away, and its gradient is 0 then: only those
# who are served teach the router. By order of arrival that is a matter of position, which here says nothing. By
# **priority** those with the highest scores come first, and scores are what the router learns. So $o$, which pays, rises
# in the queue until it is always served.

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
# By hand: patches 1 to 3 want expert 1. With one place, patch 1 gets it by arrival, and patch 3, the highest, by priority.
#
# **Noise** (Shazeer et al. 2017) lets close calls go either way while training, with a size that is learned:
# $H_{j,s} = h_{j,s} + \sigma\,\varepsilon\,\mathrm{softplus}(\langle v_s, x^{(j)} \rangle)$, and $\varepsilon$ is
# normal. **Soft MoE** chooses nobody: each of the $kC$ slots takes a weighted mean of all patches. **A hash** chooses
# without looking at what is learned.
#
# ## Measure it
#
# Means of four trials. First the share of patches that are lost:

# %%
names = ["expert choice", "token choice", "token choice by priority", "soft MoE", "hash"]
models = {name: routing_figures.ROWS[name] for name in names}
found = routing_figures.by_capacity((0.5, 1.0, 3.0), trials=4, seed=SEED, models=models).mean("trial")
found["lost"].to_pandas().round(2)

# %%
lost = 16 * float(found["lost"].sel(model="token choice", capacity_factor=1.0))
prediction.seen(lost, "A few experts are asked by nearly everybody, and have two places each.")

# %% [markdown]
# Now the share of samples whose $o$ is kept, and the accuracy:

# %%
found["signal_kept"].to_pandas().round(2)

# %%
found["test_accuracy"].to_pandas().round(2)

# %% [markdown]
# Read the two together. At $c=1$ expert choice loses half of the patches, and never $o$: 100 % right. Token choice loses
# not many more, but they are any patches, and it is right in 72 %. Priority loses just as many as arrival, keeps $o$, and
# is right in 98 %. A hash at $c=3$ loses nothing and is right in 72 %. **Routing is worth what it leaves out.**
#
# One place is too few for expert choice here: with $C=1$ its softmax after the choice is 1, as in notebook 02. Take the
# softmax before the choice, and it learns:

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
# Now each patch asks $t$ experts, from one to all eight, at $c=2$. Compute stays what it is; asking more means more refusals:

# %%
models = {name: model.replace(capacity_factor=2.0) for name, model in routing_figures.GATE_ROWS.items()}
asking = routing_figures.by_experts_per_patch((1, 2, 8), trials=4, seed=SEED, models=models).mean("trial")
asking["dropped"].to_pandas().round(2)

# %%
asking["test_accuracy"].to_pandas().round(2)

# %% [markdown]
# With one expert the two gates that cannot move have hardly any refusals (a router that stays at random keeps the load
# even) and the lowest accuracy. Two experts help all four. With eight, three quarters of all choices are dropped.
#
# ### What soft MoE does with $o$
#
# Nothing is lost, but a slot's input is a mixture. How much of it is $o$? Equal weights would give $1/16 = .06$:

# %%
found["signal_share"].to_pandas().round(2)

# %% [markdown]
# ## Sigmoid gates and samples
#
# DeepSeek-V3 uses normalised sigmoids. Nguyen, Ho and Rinaldo (2024) prove that with sigmoid gates the *experts* of a
# regression are found with fewer samples than with softmax gates, where the fitted model has more experts than the truth:
# a softmax makes experts compete, so that errors of gates and experts can cancel, and the rate falls below $n^{-1/2}$.
# Is that seen on mixtures whose parameters we know? Two linear experts (`recovery`'s mixtures), each kind of gate fitted
# by least squares to its own data, from near the truth, first with the right number of experts:

# %%
rates = gating.gating_rates(samples=(500, 2000, 8000), fitted=(2,), trials=10, seed=SEED, iterations=25)
rates["expert_error"].median("trial").squeeze("fitted", drop=True).to_pandas().round(3)

# %%
rates["rate"].squeeze("fitted", drop=True).to_pandas().round(2)

# %% [markdown]
# The **rate** is the slope: errors fall as $n^{-\text{rate}}$. Here it is a little above one half for both, as in any
# regular model, and the sigmoid's error is about **three times** the softmax's at every $n$.
#
# With one expert too many (`fitted=(3,)`, `iterations=90`: half a minute) the errors are .127, .092 and .040 with softmax
# and .640, .307 and .182 with sigmoid gates, and the rates .41 and .45. That difference has the sign that the theory
# promises, but the minimum is flat, fits still creep after 90 iterations, and 10 trials do not resolve it. So on these
# mixtures, at these $n$, sigmoid gates do *not* find the experts with fewer samples. A rate says nothing of the constant
# in front of it: what pays in the limit need not pay at $n = 8000$.

# %% [markdown]
# ## Exercises
#
# First the rule of arrival. Each token wants the expert that scores it highest; each expert has `places`.


# %%
def served(scores, places):
    """Which tokens find a place: scores (tokens, experts), in the order of the rows -> (tokens,) bool."""
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
# The gate of DeepSeek-V3: each token picks its `count` best experts, and their sigmoids are divided by their sum.


# %%
def sigmoid_gates(scores, count):
    """Normalised sigmoid gates, 0 for experts not picked: scores (tokens, experts) -> (tokens, experts)."""
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
# And soft MoE: the weights of a slot are the softmax of its scores over the tokens. What goes in?


# %%
def slot_inputs(scores, tokens):
    """What the slots take in: scores (tokens, slots) and tokens (tokens, d) -> (slots, d)."""
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
# *This part is optional: the core of the notebook ends here.* It is for those who compare it with the paper.
#
# - **Groups.** Here the patches of one sample compete for places. Switch transformers and V-MoE let the tokens of a whole
#   batch compete, where a sample's luck averages out; 16 tokens are few.
# - **No balancing loss.** Every one of these papers adds a loss or a bias against idle experts; here there is none, to
#   show what it is for.
# - **One step size**, 20, for all. Of 5, 20 and 80 each routing is within .07 of its best there; token choice by arrival
#   gains most from 80 (.79 in place of .73 at $c=1$, 10 other trials), and the order of the rows is the
#   same there; at a step of 5 hashing and token choice change places.
# - **Expert choice** as Zhou et al. (2022) print it has a softmax over experts before the choice; pmoe2023, and this
#   package, have one over the patches that are kept.
# - **Hash layers** look up a word's identity. Patches have none: the signs of random projections take its place, so noise
#   can change a patch's expert. At $c=3$ a hash is 13 points behind token choice on average, and 4 behind where the
#   patches have no noise (8 trials at each of eight seeds).
# - **Soft MoE** normalises inputs and slots, which matters in wide networks and is left out.
# - **Sigmoid gates:** measured above; nothing here confirms the advantage, and nothing refutes a theorem on
#   large $n$.

# %% [markdown]
# ## Before you go
#
# All of these functions stand in `moe_lab.routers.choices`, each with its source. Read them: none has more than 15 lines.
#
# *Done? Choose File › Close and Shut Down Notebook. Each notebook holds 450 to 740 MB until its kernel is shut down, and
# Binder allows 2 GB in all.*
