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
# # 10 · Balance and collapse
#
# **45 minutes · no GPU · after notebooks 00, 01 and 04**
#
# A router that prefers one expert sends it the samples; the expert learns from them; the router has reason to prefer
# it. The others get nothing and learn nothing. That is *router collapse*, and every large mixture is trained with
# something against it. Here you watch it happen on the clusters of notebook 04, where the right answer is known, apply
# four cures from the papers side by side, and find out when a cure is worse than none.
#
# **After this notebook you can**
# - say what router collapse is, measure it, and tell it from a load that is uneven for good reasons,
# - write down four ways to balance the load, and what each of them asks for,
# - predict what happens when a balancing loss is too weak, too strong, or fights the data,
# - say what many small experts and a shared expert change, at the same number of parameters.

# %% [markdown] tags=["badges"]
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/moe-lab/moe_lab/blob/main/notebooks/10_balance_and_collapse.ipynb)
# [![Open on Binder](https://mybinder.org/badge_logo.svg)](https://mybinder.org/v2/gh/moe-lab/moe_lab/main?urlpath=lab/tree/notebooks/10_balance_and_collapse.ipynb)

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
import numpy as np
import pandas as pd
import torch

from moe_lab import exercises, final
from moe_lab.routers import balance
from moe_lab.specialization import ClusterTask, TopKMoE, train
from moe_lab.specialization.balancing import COLLAPSING, balancing, divisions, summary
from moe_lab_widgets import BalanceLab, predict

SEED = 0
torch.set_num_threads(1)  # these models are small: more threads only wait for each other
settings = {"samples": 1000, "test_samples": 1000, "trials": 4, "seed": SEED}

# %% [markdown]
# ## The task, and words for what can go wrong
#
# Samples come from $K=4$ clusters, as in notebook 04: a cluster's center says which of two label signals counts. There
# are $M=8$ experts. A linear router gives every sample a score for every expert, and the largest score plus noise gets
# it; the *gates* are the softmax of the scores:
#
# $$h = \Theta^\top \sum_p x^{(p)}, \qquad m^* = \arg\max_m (h_m + r_m), \qquad \pi = \mathrm{softmax}(h), \qquad
# F(x) = \pi_{m^*} f_{m^*}(x).$$
#
# | word | means | best | worst |
# | --- | --- | --- | --- |
# | load $f_m$ | share of the samples that expert $m$ gets | | |
# | collapse | few experts carry (nearly) all samples, the others stay untrained | | |
# | experts' worth | $e^{H(f)}$ with the entropy $H(f) = -\sum_m f_m \log f_m$: how many equally loaded experts have the same entropy | $M$ if load should be even | 1 |
# | maximal violation | by how much the largest load exceeds the mean, relative to the mean | 0 | $M - 1$ |
# | own cluster | share of the samples that belong to the most frequent cluster of their expert | 1 | $1/K$ if one expert gets all |
#
# The last one knows the right answer, the others do not. In numbers:

# %%
loads = {
    "all alike": [1 / 8] * 8,
    "four of eight": [1 / 4] * 4 + [0] * 4,
    "one favourite": [0.65] + [0.05] * 7,
    "collapsed": [1.0] + [0] * 7,
}
tensor = torch.tensor(list(loads.values()), dtype=torch.float64)
measured = {
    "experts' worth": balance.load_entropy(tensor).exp(),
    "violation": balance.maximal_violation(tensor),
}
pd.DataFrame(measured, index=list(loads)).astype(float).round(2)

# %% [markdown]
# Is "four of eight" a collapse? For four clusters it may be just right. The load alone cannot tell.
#
# ## First, your prediction
#
# The router begins with a *lead* for expert 1: its score is about 4 on every sample, all other scores are 0. Noise on the
# scores is at most 1, so expert 1 gets everything at first. Write down:
#
# 1. Experts are linear. A single one can be right in at most 87.5 % of the samples (notebook 04). After 300 steps, how
#    many of the eight are in use, and how many answers are right?
# 2. Four cures: a loss on uneven loads (*Switch*), a loss on unequal sums of gates (*importance*), a loss on large
#    scores (*z-loss*), and no loss at all, but a *bias* that is lowered for whoever gets too much. Which one makes all
#    eight work? Which one makes the answers best?
# 3. Make the cure ten times stronger. Better or worse?

# %%
prediction = predict(
    "Nothing balances the load. How many of the eight experts does the router use after 300 steps?",
    {"about one": 1, "about four": 4, "all eight": 8},
)
prediction

# %% [markdown]
# ## The Lab

# %%
lab = BalanceLab(seed=SEED)
lab

# %% [markdown]
# *What to see.* **Left:** the load of every expert in the first trial, above without balancing, below with the way to
# balance that you choose at *beside none*; choosing another trains nothing, because all five mixtures run on the same
# samples. **Middle:** who gets which cluster. **Right:** accuracy, and a table of all five: without balancing the load
# is that of 1.3 experts.
#
# Try, and write down what you see:
#
# 1. Choose **z-loss** and **bias** beside none. How do their lines differ from those of the losses on the load?
# 2. Set the **strength** to .001, then to 1. Which cure works at which strength?
# 3. Set the **lead** to 0. Is anything left to cure? Then make the experts **cubic** (more settings).
# 4. Set **size ratio of clusters** to 3 and $M=4$, with cubic experts and no lead. Which row of the table is best now?

# %% [markdown]
# ## What happened and why
#
# **Why it stays collapsed.** Expert 1 gets everything and learns what a single expert can. The gradient moves its router
# towards the samples that it gets right, and away from the others. So its lead should grow with every cluster of which it
# gets more than half right. Its score on the centers $c_k$, less the largest of the others (a sample has
# $\beta \approx 1.5$ times that), and its accuracy on its best and its worst cluster:

# %%
leads, accuracies = {}, {}
for kind in ("linear", "cubic"):
    for snapshot in train(COLLAPSING.replace(activation=kind), ClusterTask(), **settings, record_every=50):
        centers, right = snapshot["router_center"], snapshot["expert_accuracy"][:, 0]  # right: (trial, cluster)
        leads[kind, snapshot.step] = np.median(centers[:, 0] - centers[:, 1:].max(axis=1))
        accuracies[kind, snapshot.step] = [right.max(axis=1).mean(), right.min(axis=1).mean()]
    share, load = snapshot["test_accuracy"], snapshot["load_entropy"]
    print(f"{kind}: {np.median(share):.1%} right, experts' worth of load {np.median(np.exp(load)):.1f}")
found = pd.DataFrame(accuracies, index=["best cluster", "worst cluster"]).T
found.insert(0, "lead on centers", pd.Series(leads))
found.rename_axis(["experts are", "step"]).round(2)

# %% [markdown]
# A *linear* expert gets well over half of every cluster right: the lead grows by itself. A *cubic* expert becomes good at
# one cluster and stays at chance on another; there the router turns away from it, and others get their samples. Experts
# that specialise are a cure, too, though not a complete one.
#
# **What the cures ask for.** Over $N$ samples, with the share $f_m$ of the samples and the mean gate $P_m$ of expert $m$:
#
# | | adds to the loss | asks for | source |
# | --- | --- | --- | --- |
# | Switch | $\lambda\, M \sum_m f_m P_m$ | smaller gates for whoever gets many samples | Fedus et al. 2021, eq. 4 to 6 |
# | importance | $\lambda\, \mathrm{CV}(P)^2$, the variance of $P_m$ over the squared mean | equal sums of gates | Shazeer et al. 2017, eq. 6 and 7 |
# | z-loss | $\lambda\, \overline{(\log \sum_m e^{h_m})^2}$ | small scores, whoever has them | Zoph et al. 2022, eq. 5 |
# | bias | nothing; selects by $h_m + r_m + b_m$, with $b_m \leftarrow b_m + \lambda\, \mathrm{sign}(\bar f - f_m)$ | the same number of samples | Wang et al. 2024, algorithm 1; DeepSeek-V3 |
#
# The library has each as a function with its gradient. Three samples, two experts:

# %%
scores = torch.tensor([[[2.0, 1.0, 0.5], [0.0, 0.5, 1.0]]], dtype=torch.float64)  # (trial, expert, sample)
gates = scores.softmax(1)
chosen = torch.nn.functional.one_hot(scores.argmax(1), 2).mT.double()
load, mean_gates = balance.load_of(chosen), gates.mean(2)
print("load", load[0].numpy().round(3), "mean gates", mean_gates[0].numpy().round(3))
print("Switch loss", round(balance.switch_loss(load, mean_gates).value.item(), 4))
print("importance loss", round(balance.importance_loss(mean_gates).value.item(), 4))
print("z-loss", round(balance.router_z_loss(scores).value.item(), 4))
bias = balance.updated_bias(torch.zeros(1, 2), chosen.sum(2).float(), 0.1)
print("bias after one step of .1", bias[0].numpy())

# %% [markdown]
# ### Is an even load the minimum of the Switch loss?
#
# Equal loads give 1. Can an uneven load give less? Five samples and two experts, of which expert 1 gets three, narrowly:

# %%
narrow = torch.tensor([[[0.51, 0.51, 0.51, 0.01, 0.01], [0.49, 0.49, 0.49, 0.99, 0.99]]])
uneven = torch.tensor([[0.6, 0.4]])
print(
    "Switch loss",
    round(balance.switch_loss(uneven, narrow.mean(2)).value.item(), 3),
    "below 1, at an uneven load",
)

# %% [markdown]
# It can, so an even load is not the minimum: $f$ and $P$ are different numbers, and whoever gets most samples may
# have the smaller mean gate. What training needs does hold: the gradient lowers the gates of the overloaded.
#
# ## Measure it
#
# All four, at three strengths, four trials each, medians. First the accuracy:

# %%
found = balancing(strengths=(0.01, 0.1, 1.0), trials=4, samples=1000, seed=SEED)
found["test_accuracy"].median("trial").to_pandas().round(3)

# %% [markdown]
# The load as an equivalent number of experts, out of eight:

# %%
np.exp(found["load_entropy"]).median("trial").to_pandas().round(1)

# %%
used = float(np.exp(found["load_entropy"].sel(balancing="none")).median())
prediction.seen(used, "Whoever gets all samples learns from all samples, and its lead grows.")

# %% [markdown]
# And what the load cannot tell, the share of samples of the expert's own cluster:

# %%
found["agreement"].median("trial").to_pandas().round(3)

# %% [markdown]
# That is question 2 and 3. At .1 the Switch and the importance loss make all eight work, each on its own cluster, and
# nearly all answers are right. The bias balances as well, and stays a little behind. The z-loss brings the scores down,
# to where noise can deal samples to others, and leaves the rest to the training: it helps half-way.
#
# At 1 the Switch loss makes the load no more even, but mixes the clusters. The z-loss with the router's rate of 10
# overshoots, and every trial diverges (NaN); at a rate of 1 none does. The bias at .01 moves by at most 3 in 300 steps,
# and it has the whole run to make up the lead.
#
# ### When balance hurts
#
# Cubic experts, no lead: nothing has collapsed. But clusters are unequal, each three times as frequent as the next, and
# there are as many experts as clusters. The right load is as uneven as the clusters:

# %% tags=["varies"]
unequal = ClusterTask(imbalance=3.0)
print("share of each cluster", unequal.shares.round(3))
healthy = TopKMoE(experts=4)
found = balancing(strengths=0.1, trials=4, samples=1000, seed=SEED, model=healthy, task=unequal)
summary(found)

# %% [markdown]
# Every cure makes it worse (in 16 trials: right without balancing .989, with the importance loss .970 and with the bias
# .961, with standard errors of .003 to .004). The losses on the load and the bias even it out, and for that experts of rare clusters must
# take samples of the common one: "own cluster" falls. The z-loss evens out nothing and does harm all the same.
#
# Another case: experts take ordinary gradient steps, so that an expert with more samples takes longer ones. (Algorithm 1
# of notebook 04 gives all experts steps of one length: nobody falls behind for being unpopular.)

# %%
greedy = TopKMoE(equal_steps=False, learning_rate=1.0, initial_scale=0.1, lead=4.0)
found = balancing(strengths=0.1, trials=4, samples=1000, seed=SEED, model=greedy)
summary(found)

# %% [markdown]
# The bias evens out the load and *lowers* the accuracy; the losses even it out and raise it. Even load is a means: check
# what it is good for.
#
# ### Many small experts, and a shared one
#
# DeepSeekMoE divides every expert into $p$ smaller ones and sends each sample to $p$ of them: as many parameters, as much
# work, many more combinations. And it makes some of them *shared*: they get every sample. Eight clusters, eight experts
# of 16 filters, none to spare:

# %%
divided = divisions((1, 4), trials=3, samples=800, seed=SEED)
sizes = {name: np.unique(divided[name]).tolist() for name in ("parameters", "active_filters")}
print("numbers in filters, and filters for a sample, of all:", sizes)
summary(divided)

# %% [markdown]
# More combinations help: with one expert for each sample two of eight experts easily pick the same cluster, with four of
# 32 something is left for everybody. "Own cluster" falls, and that is no harm: a sample has several experts now. Take
# care what is equal here: parameters and work are, but algorithm 1 moves each *expert* by the same length, so that many
# small ones move farther together.
#
# Does a shared expert help against collapse?

# %%
rows = {}
for shared in (0, 1):
    last = final(train(COLLAPSING.replace(shared=shared), ClusterTask(), **settings, measure="last"))
    worth = np.median(np.exp(last["load_entropy"]))
    rows[f"{shared} shared"] = {"accuracy": np.median(last["test_accuracy"]), "experts' worth": worth}
pd.DataFrame(rows).T.round(3)

# %% [markdown]
# It does, without any balancing. (What does the favourite lose? Compare `last["expert_accuracy"]` of expert 1 in the two.)

# %% [markdown]
# ## Exercises
#
# First the loss of the Switch Transformer. `gates` is $(N, M)$, rows sum to 1; every sample goes to its largest gate.


# %%
def switch_loss(gates):
    """M sum_m f_m P_m -> one number."""
    return None  # your code


exercises.check_switch_loss(switch_loss)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def switch_loss(gates):
#     samples, experts = gates.shape
#     total = 0.0
#     for m in range(experts):
#         received = sum(row.argmax() == m for row in gates) / samples
#         total += received * gates[:, m].mean()
#     return experts * total
# ```
#
# </details>

# %% [markdown]
# The importance loss, for the same `gates`: the squared coefficient of variation of the experts' sums.


# %%
def importance_loss(gates):
    """CV(importance)^2 -> one number."""
    return None  # your code


exercises.check_importance_loss(importance_loss)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def importance_loss(gates):
#     import numpy as np
#
#     importance = gates.sum(axis=0)
#     return np.mean((importance - importance.mean()) ** 2) / importance.mean() ** 2
# ```
#
# </details>

# %% [markdown]
# The router z-loss. `scores` is $(N, M)$. One of the scores will be 800.


# %%
def router_z_loss(scores):
    """The mean over the samples of (log sum exp h)^2 -> one number."""
    return None  # your code


exercises.check_router_z_loss(router_z_loss)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def router_z_loss(scores):
#     import numpy as np
#
#     largest = scores.max(axis=1)
#     size = largest + np.log(np.exp(scores - largest[:, None]).sum(axis=1))
#     return np.mean(size**2)
# ```
#
# </details>

# %% [markdown]
# Last, one step of the bias. Every sample goes to its largest score plus bias; `bias` is $(M,)$, `scores` is $(N, M)$.


# %%
def moved_bias(bias, scores, rate):
    """The bias after one step of algorithm 1 of Wang et al. -> (M,)."""
    return None  # your code


exercises.check_moved_bias(moved_bias)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def moved_bias(bias, scores, rate):
#     import numpy as np
#
#     counts = np.zeros(len(bias))
#     for row in scores:
#         counts[np.argmax(row + bias)] += 1
#     return bias + rate * np.sign(counts.mean() - counts)
# ```
#
# </details>

# %% [markdown]
# ## For readers of the paper
#
# *This part is optional: the core of the notebook ends here.* It is for those who compare it with the paper.
#
# There are five papers, and the cures of all of them are here on one small task:
#
# | statement | here |
# | --- | --- |
# | gating "tends to converge to a state where it always produces large weights for the same few experts" (Shazeer et al. 2017, section 4) | with a lead, yes; without one, linear experts use about 3.5 of 8, cubic ones as many as there are clusters |
# | the auxiliary loss "is minimized under a uniform distribution" (Fedus et al. 2021, below eq. 6) | refuted as a sentence on the printed loss (above); its gradient does what it should |
# | a large auxiliary loss impairs the model (Wang et al. 2024, abstract) | yes, at strength 1: own cluster falls, accuracy too |
# | balancing by a bias gives better models *and* better balance than the loss (Wang et al. 2024, abstract) | balance as good, models not better: each at its best strength, .990 against .998 with linear experts, and worse than nothing with gradient steps |
# | the z-loss is for stability, and costs no quality (Zoph et al. 2022) | it keeps scores small; it is no cure for collapse by itself, and its own strength must fit the router's rate |
# | fine-grained and shared experts are better at equal parameters (Dai et al. 2024) | finer ones yes, where experts are scarce; a shared one where the router collapses, not otherwise |
#
# `moe-lab reproduce routers` measures these statements and those of notebook 11, with rules stated before the run.
#
# These models have thousands of parameters, full-batch gradients and four clusters. What they refute is a sentence
# without conditions; what holds for a model of a hundred billion parameters, they cannot say.
#
# The bias here is added to the scores $h + r$ by which this router selects, not to their sigmoid as in DeepSeek-V3, and
# importance is of all gates, because with one expert for each sample the gates of the chosen are all 1.

# %% [markdown]
# ## Before you go
#
# When you read that a mixture was trained "with load balancing", ask three things: what did it balance (samples, gates,
# scores), how strongly, and should the load have been even at all?
#
# *Done? Choose File › Close and Shut Down Notebook. Each notebook holds 450 to 740 MB until its kernel is shut down, and
# Binder allows 2 GB in all.*
