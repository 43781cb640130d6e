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
# # 05 · Pruning
#
# **45 minutes · no GPU · after notebooks 00 and 01**
#
# A layer has twenty experts, and only four of them know anything about your task. Without the other sixteen the layer
# needs a fifth of the memory. But which four do you keep? Here you fine-tune a layer and prune it by six rules. One of
# them comes with a proof: keep the experts whose *routers grew*. You will see why.
#
# **After this notebook you can**
# - say what the change of a router's norm measures, and why it marks the experts that learned,
# - name rules that keep the wrong experts of a checkpoint, and say why this checkpoint was chosen,
# - say what fine-tuning after pruning can repair, and what it cannot.

# %% [markdown] tags=["badges"]
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/moe-lab/moe_lab/blob/v0.1.0/notebooks/05_pruning.ipynb)
# [![Open on Binder](https://mybinder.org/badge_logo.svg)](https://mybinder.org/v2/gh/moe-lab/moe_lab/v0.1.0?urlpath=lab/tree/notebooks/05_pruning.ipynb)

# %% [markdown] tags=["papers"]
# *The paper: [Chowdhury et al., ICML 2024](https://arxiv.org/abs/2405.16646).*

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

from moe_lab import exercises
from moe_lab.pruning import PlantedStart, TokenMoE, TokenRun, TokenTask, figures, fine_tune, plots, theory
from moe_lab_widgets import PruningLab, predict

SEED = 0
torch.set_num_threads(1)  # these models are small: more threads only wait for each other
pd.set_option("display.precision", 3)

# %% [markdown]
# ## The task and the layer
#
# A sample is a set of $n=100$ tokens. Each token is one of $d=200$ orthonormal *patterns*. Exactly one token decides the
# class: pattern $o_1$ means $y=+1$, pattern $o_2$ means $y=-1$. The other 99 tokens are drawn in the same way for both
# classes, so they say nothing about the class. Here are the first 16 tokens of three samples, by the number of their
# pattern. $o_1$ has number 0 and $o_2$ has number 1.

# %%
task = TokenTask()
drawn = task.sample(3, trials=[0], seed=SEED)
rows = [f"y = {label:+d}" for label in drawn.labels[0].int().tolist()]
place = [f"token {int((row <= 1).nonzero()[0]) + 1} of 100 decides" for row in drawn.tokens[0]]
pd.DataFrame(drawn.tokens[0, :, :16].numpy(), rows).assign(where=place)

# %% [markdown]
# The layer has $k=20$ experts with $m=20$ neurons each. Expert $s$ has a router $w_s$, and keeps the $l=5$ tokens with the
# largest scores $\langle w_s, x^{(j)}\rangle$ (expert choice, notebook 01). We call them $J_s$. The expert also has a fixed
# vote $a^{(s)}$: the first ten experts vote $+1$, the others $-1$. The output of the layer is (section 4.2 of the paper)
#
# $$f(x) = \sum_{s=1}^{k} a^{(s)} \sum_{j \in J_s} G_j^{(s)}\, \sigma_j^{(s)}, \qquad
# \sigma_j^{(s)} = \sum_{r=1}^{m} \mathrm{ReLU}\big(\langle w_r^{(s)}, x^{(j)}\rangle\big), \qquad
# G^{(s)} = \mathrm{softmax}\big(\langle w_s, x^{(j)}\rangle\big)_{j \in J_s}.$$
#
# We start from a *planted checkpoint*, so that we know the right answer. For each class two experts are **important**.
# Their routers have small norms, and rank the pattern of their class a little above all others. The other sixteen experts
# are specialists of something else. Their routers have norms of up to 24, and rank $o_1$ and $o_2$ last. Then the whole
# layer is fine-tuned.
#
# ## First, your prediction
#
# Sixteen of the twenty experts must go. A pruning rule gives each expert a score, and the experts with the largest scores
# stay. We write "before" and "after" for before and after fine-tuning.
#
# | rule | score of an expert | in code |
# | --- | --- | --- |
# | norm change | change of the router's norm, $\Delta_s = \lVert w_s\rVert$ after $- \lVert w_s\rVert$ before | `router-norm-change` |
# | router norm | norm of the router, $\lVert w_s\rVert$ after | `router-magnitude` |
# | importance | share of tokens on which its gate is the largest, times its mean gate on them | `importance-score` |
# | neuron norm | mean norm of its neurons after | `neuron-magnitude` |
# | neuron change | mean change of these norms | `neuron-magnitude-change` |
# | random | a random number | `random` |
#
# Take the router norm first. The Lab asks you before it trains: is the layer right more
# often if it is pruned by this rule, or if it is pruned at random? Answer, or drag the two marks in panel 2.

# %% [markdown]
# ## The Lab

# %%
lab = PruningLab(seed=SEED, criterion="router-magnitude", ask=True)
lab

# %% [markdown]
# *What to see.* **1:** A bar for each expert shows the change of its router's norm. Two blue bars (vote $+$) and two orange
# bars (vote $-$) pass the dashed line, $1.5 \log l$. The others stay near 0. The lower row shows the scores of the rule
# that you chose; experts that are pruned turn grey. **2:** Accuracy against $\rho$, the share of experts pruned. The chosen
# rule is black, the others are grey. **3:** What is left of accuracy, memory and FLOPs (operations).
#
# Move <kbd>ρ · share pruned</kbd> to 0.9. How many experts are left? Then go through the rules in <kbd>prune by</kbd>,
# and find one that loses nothing. Nothing is trained again. Set <kbd>l · picks each makes</kbd> to 1. What does the Lab
# say, and why?
#
# *Your turn.* The menu <kbd>goal</kbd> has three tasks. Bring each about with the sliders.
#
# ## What it costs
#
# The Lab shows medians of 8 layers. Here are ten planted layers, pruned by all six rules, without and with 60 steps of
# fine-tuning after pruning:

# %%
prediction_repair = predict(
    "A rule has thrown out the important experts. How much of the lost accuracy does fine-tuning bring back?",
    {"all of it": 1, "about half": 0.5, "next to nothing": 0},
)
prediction_repair

# %%
compared = figures.criteria(start="planted", rho=figures.CURVE, trials=10, seed=SEED)
plots.picture(compared)

# %% [markdown]
# *What to see.* **1:** $\Delta$ separates the important experts from the others in every trial. **2:** Pruning by norm
# change (black) costs nothing at any $\rho$, and neither does neuron change. The other four fall to 50 %, which is guessing:
# importance first, then router norm and neuron norm, and random last. **3:** Fine-tuning hardly moves the curves.

# %% jupyter={"source_hidden": true} tags=["compare"]
# Compares your prediction with the result.
pruned = compared["test_accuracy"].sel(rho=0.8, method="nearest").mean("trial")
before, after = (float(pruned.sel(criterion="router-magnitude", fine_tuned=tuned)) for tuned in (False, True))
prediction_repair.seen(
    (after - before) / (1 - before), "The experts that are left never choose the token that decides."
)

# %% [markdown]
# ## What happened and why
#
# Take one step of gradient descent and follow one pattern $q$. Let $P_q$ be the gate that expert $s$ gives to $q$ in a
# sample, and 0 if it does not choose $q$. Let $\sigma_q$ be what its neurons answer to $q$, and $F_s$ the output of the
# expert for the whole sample. A bar is the mean over the batch. Along $q$ the weights move by
#
# $$\text{each active neuron:}\quad +\,\eta_e\, a^{(s)}\, \overline{y\, P_q}, \qquad\qquad
# \text{the router:}\quad +\,\eta_r\, a^{(s)}\, \overline{y\, P_q\, (\sigma_q - F_s)}.$$
#
# **1. Neurons.** Take an expert that votes $+$. Every sample with $o_1$ has $y=+1$, so the neurons grow along $o_1$ in every
# step. An irrelevant pattern occurs with $y=+1$ as often as with $y=-1$, and its contributions cancel. So $\sigma_{o_1}$
# grows, and the answers to all other patterns stay as they were.
#
# **2. Router.** As soon as $\sigma_{o_1} > F_s$, the router moves towards $o_1$. This raises the gate of $o_1$, so the
# neurons learn faster, and so on. The router grows in one direction, so its norm grows as well.
#
# **3. An expert that never chooses $o_1$ learns nothing.** An unimportant expert ranks $o_1$ below five other tokens. The
# contributions of the tokens that it chooses cancel, so the norm of its router stays as it was. This gives the paper's rule:
# prune the experts with the smallest $\Delta_s$, separately among those that vote $+$ and those that vote $-$.
#
# You can see all three in one layer after 110 steps. Experts are sorted by $\Delta_s$:

# %%
planted = fine_tune(TokenRun(model=TokenMoE(), task=task, seed=SEED))
found = theory.evidence(planted, trial=0)
columns = ["router_norm", "norm_change", "proficiency", "gate", "own_sum"]
table = pd.DataFrame({name: found.after[name] for name in columns}, index=[f"expert {s}" for s in range(1, 21)])
table.insert(0, "norm before", found.before["router_norm"])
table.insert(0, "kind", theory.kinds(planted, trial=0))
table.sort_values("norm_change", ascending=False).head(7).round(3)

# %% [markdown]
# `gate` is the mean gate that the expert gives to its own pattern $o$, and `own_sum` is $\sigma_o$. `proficiency` is the
# share of samples of its class in which this gate is at least $1/l$. Four routers grew from a norm of .3 to 4. All others
# kept theirs, whether it was large or small.
#
# ### Why the other rules fail
#
# - **Router norm** keeps the routers that were large before fine-tuning. They learned nothing.
# - **Importance** keeps the experts that win many tokens with a large gate. But 99 of 100 tokens carry no information,
#   and the experts that choose those win more of them.
# - **Neuron norm** keeps the experts whose neurons were large before fine-tuning.
# - **Neuron change** does not fail. On this layer nothing that we tried clearly beats it. In the paper's vision models norm
#   change is slightly better.
#
# These contrasts are **chosen**. We made the checkpoint so that a large router is a useless one. If the other experts have
# smaller routers, the router norm does as well as its change. Half of the experts are pruned here:

# %% tags=["varies"]
rules = ("router-norm-change", "router-magnitude", "importance-score", "neuron-magnitude")
norms = {}
for norm in (12.0, 4.0, 1.0):
    start = PlantedStart(others_norm=norm)
    found = figures.criteria(start=start, rho=0.5, trials=6, seed=SEED, criteria=rules, fine_tuning_steps=0)
    norms[f"others' norm {norm:g}"] = found["test_accuracy"].mean("trial").squeeze().to_series()
pd.DataFrame(norms)

# %% [markdown]
# ### What fine-tuning can repair
#
# Fine-tuning completes what has begun. Where training has stopped early, as in the Lab's second task, the important experts are still there, and learn
# their patterns to the end. A layer without them gains nothing, because no router that is left chooses $o_1$ or $o_2$.
# **What was thrown away does not come back.**
#
# ### What pruning saves
#
# Memory and operations fall in proportion to the experts that go. Here is a larger layer ($d=256$, $m=1024$), with
# measured times:

# %% tags=["varies"]
plots.picture(figures.efficiency(rho=(0.0, 0.4, 0.8), repeats=3, samples=8, seed=SEED))

# %% [markdown]
# *What to see.* FLOPs, memory and time all fall along the diagonal, or nearly. In token-choice the routers stay, which
# costs next to nothing. A whole vision model saves less, because everything outside its MoE layers remains: the paper saves
# 40 % of the FLOPs with 75 % of the experts gone.
#
# ## Exercises
#
# All arrays are NumPy arrays. First $\Delta_s$ itself. `before` and `after` have shape $(k, d)$, with a router in each row.


# %%
def norm_change(before, after):
    """The change of each router's norm -> (k,)."""
    return None  # your code


exercises.check_norm_change(norm_change)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def norm_change(before, after):
#     import numpy as np
#
#     return np.linalg.norm(after, axis=1) - np.linalg.norm(before, axis=1)
# ```
#
# </details>

# %% [markdown]
# Who stays? `scores` and `signs` have shape $(k,)$, and a sign is a vote, $+1$ or $-1$. Among the experts of each sign a
# share of `rho` goes, rounded down to whole experts. The largest scores stay.


# %%
def kept_experts(scores, signs, rho):
    """True for the experts that stay -> (k,)."""
    return None  # your code


exercises.check_kept_experts(kept_experts)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def kept_experts(scores, signs, rho):
#     import numpy as np
#
#     kept = np.zeros(len(scores), dtype=bool)
#     for sign in (1, -1):
#         mine = np.flatnonzero(signs == sign)
#         lost = int(rho * len(mine) + 1e-9)
#         kept[mine[np.argsort(scores[mine])[lost:]]] = True
#     return kept
# ```
#
# </details>

# %% [markdown]
# Last, the importance score. `gates` has shape (tokens, $k$), and is 0 where a token does not go to an expert. An expert
# *wins* a token if its gate there is the largest. The score is the share of all tokens that the expert wins, times its mean
# gate on the tokens it wins.


# %%
def importance_score(gates):
    """Share of tokens won times mean gate on them, of every expert -> (k,)."""
    return None  # your code


exercises.check_importance_score(importance_score)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def importance_score(gates):
#     import numpy as np
#
#     scores = np.zeros(gates.shape[1])
#     for token in gates:
#         if token.any():
#             # The share of tokens won times the mean gate there: the sum of the winning gates, over all tokens.
#             scores[token.argmax()] += token.max()
#     return scores / len(gates)
# ```
#
# </details>

# %% [markdown]
# ## For readers of the paper
#
# *This part is optional: the core of the notebook ends here.* It is for those who compare it with the paper.
#
# - The planted checkpoint is ours, and so are its contrasts. The paper starts its layer from random weights near 0, where a
#   router's norm and its change are nearly the same number.
# - The loss is the paper's in its proofs: the gradient is that of $1 - yf$, also for samples that are right already.
# - The paper's main evidence comes from vision models, V-MoE and E³. This notebook has the analysed layer only.
# - [Notebook 13](13_pruning_further.ipynb) checks the lemmas and theorems on runs. It also leaves the planted checkpoint:
#   random weights, pre-trained experts, another loss, and tokens that choose their experts.

# %% [markdown]
# ## Before you go
#
# The change of an expert in fine-tuning says more than its size. You found that out with a checkpoint whose important experts
# you knew, and by asking of each rule where it fails.
#
# *Done? Choose File › Close and Shut Down Notebook. Each notebook holds 450 to 740 MB until its kernel is shut down, and
# Binder allows 2 GB in all.*
