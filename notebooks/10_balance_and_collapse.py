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
# A router that prefers one expert sends it most samples. The expert learns from them, so the router has a reason to
# prefer it. The other experts receive nothing and learn nothing. This is called *router collapse*, and every large
# mixture is trained with a method against it. In this notebook you watch a collapse on the clusters of notebook 04,
# where the right answer is known. You compare four cures from the papers, and find out when a cure is worse than none.
#
# **After this notebook you can**
# - say what router collapse is, measure it, and tell collapse from a load that is uneven because the data are,
# - write down four ways to balance the load, and say what each of them asks for,
# - predict what happens if a balancing loss is too weak, too strong, or in conflict with the data,
# - say what many small experts and a shared expert change, at the same number of parameters.

# %% [markdown] tags=["badges"]
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/moe-lab/moe_lab/blob/v0.1.0/notebooks/10_balance_and_collapse.ipynb)
# [![Open on Binder](https://mybinder.org/badge_logo.svg)](https://mybinder.org/v2/gh/moe-lab/moe_lab/v0.1.0?urlpath=lab/tree/notebooks/10_balance_and_collapse.ipynb)

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

from moe_lab import exercises, final
from moe_lab.routers import balance
from moe_lab.specialization import ClusterTask, TopKMoE, train
from moe_lab.specialization.balancing import COLLAPSING, balancing, divisions, summary
from moe_lab_widgets import BalanceLab, predict

SEED = 0
torch.set_num_threads(1)  # these models are small: more threads only wait for each other
settings = {"samples": 1000, "test_samples": 1000, "trials": 4, "seed": SEED}

# %% [markdown]
# ## The task, and how to measure a collapse
#
# Samples come from $K=4$ clusters, as in notebook 04: the center of a cluster says which of two label signals counts.
# There are $M=8$ experts. A linear router $\Theta$ gives every sample one score $h_m$ for each expert $m$, from the sum
# of its patches $x^{(p)}$. Noise $r_m$ is added in training, and the expert $m^*$ with the largest sum receives the
# sample. The *gates* $\pi$ are the softmax of the scores, and $F(x)$ is the output:
#
# $$h = \Theta^\top \sum_p x^{(p)}, \qquad m^* = \arg\max_m (h_m + r_m), \qquad \pi = \mathrm{softmax}(h), \qquad
# F(x) = \pi_{m^*} f_{m^*}(x).$$
#
# A router has **collapsed** if few experts receive nearly all samples and the others stay untrained. Four numbers
# describe it:
#
# | measure | meaning | best | worst |
# | --- | --- | --- | --- |
# | load $f_m$ | share of the samples that expert $m$ receives | | |
# | experts' worth | $e^{H(f)}$ with the entropy $H(f) = -\sum_m f_m \log f_m$: the number of equally loaded experts that have the same entropy | $M$ if the load should be even | 1 |
# | maximal violation | by how much the largest load exceeds the mean load, relative to the mean | 0 | $M - 1$ |
# | own cluster | share of the samples that belong to the most frequent cluster of their expert | 1 | $1/K$ if one expert receives all |
#
# Only the last one uses the right answer. The next cell measures four loads:

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
# The load alone does not show whether "four of eight" is a collapse. For four clusters it may be just right.
#
# ## First, your prediction
#
# The router begins with a *lead* for expert 1. Its score is about 4 on every sample, and all other scores are 0. The
# noise on the scores is at most 1, so at first expert 1 receives everything. The experts are linear. A single one can
# be right in at most 87.5 % of the samples (notebook 04).
#
# There are four cures. Three of them add a loss: the *Switch loss* on uneven loads, the *importance loss* on unequal
# sums of gates, and the *z-loss* on large scores. The fourth adds no loss but a *bias* to the scores, which is lowered
# for experts that receive too many samples. All have a strength, which is .1 at first.
#
# Does a balanced load help the accuracy, too? The Lab asks you before it trains. Answer, or drag the two marks in panel 3 to
# the accuracies that you expect at the end, without balancing and with the importance loss. First, a question about the
# cures:

# %%
prediction_cure = predict(
    "Which cure does not put all eight experts to work?",
    ["the Switch loss", "the importance loss", "the z-loss", "the bias"],
)
prediction_cure

# %% [markdown]
# ## The Lab

# %%
lab = BalanceLab(seed=SEED, ask=True)
lab

# %% [markdown]
# *What to see.* **1:** The load of every expert in the first trial, above without balancing, below with the cure that
# you choose in <kbd>compared with no balancing</kbd>. Another choice trains nothing new, because all five mixtures run on
# the same samples. **2:** Which expert receives which cluster. **3:** The accuracy, and a table of all five mixtures. Without
# balancing the load is that of 1.3 experts.
#
# *Your turn.* The menu <kbd>goal</kbd> has three tasks. Bring each about with the sliders. The Lab sees when a run has
# reached one, and asks you why. A wrong answer gets a reason, too.

# %% [markdown]
# ## What happened and why
#
# **Why it stays collapsed.** Expert 1 receives everything and learns what a single expert can. The gradient moves its
# router towards the samples that it gets right and away from the others. So its lead should grow with each cluster of
# which it gets more than half right. The table shows two things over the training. *Lead on centers* is the router's
# score for expert 1 on the centers $c_k$, minus the largest score of the other experts (a sample has
# $\beta \approx 1.5$ times that). The other columns are the accuracy of expert 1 on its best and on its worst cluster:

# %%
leads, accuracies, worth = {}, {}, {}
for kind in ("linear", "cubic"):
    for snapshot in train(COLLAPSING.replace(activation=kind), ClusterTask(), **settings, record_every=50):
        centers, right = snapshot["router_center"], snapshot["expert_accuracy"][:, 0]  # right: (trial, cluster)
        leads[kind, snapshot.step] = np.median(centers[:, 0] - centers[:, 1:].max(axis=1))
        accuracies[kind, snapshot.step] = [right.max(axis=1).mean(), right.min(axis=1).mean()]
    share, worth[kind] = snapshot["test_accuracy"], np.median(np.exp(snapshot["load_entropy"]))
    print(f"{kind}: {np.median(share):.1%} right, experts' worth of load {worth[kind]:.1f}")
found = pd.DataFrame(accuracies, index=["best cluster", "worst cluster"]).T
found.insert(0, "lead on centers", pd.Series(leads))
found.rename_axis(["experts are", "step"]).round(2)

# %% [markdown]
# On average a *linear* expert gets more than half right even of its worst cluster (.60 at the end), and the lead grows
# by itself. A *cubic* expert becomes good at one cluster and stays at chance on another. There the router turns away
# from it, and other experts receive the samples. So experts that specialise are a cure as well, although not a complete
# one.
#
# **What the cures ask for.** $f_m$ is the share of the $N$ samples that expert $m$ receives, and $P_m$ is its mean gate
# over the $N$ samples. $\lambda$ is the strength, $b_m$ the bias of expert $m$ and $\bar f = 1/M$ the mean load:
#
# | | adds to the loss | asks for | source |
# | --- | --- | --- | --- |
# | Switch | $\lambda\, M \sum_m f_m P_m$ | smaller gates for experts with many samples | Fedus et al. 2021, eq. 4 to 6 |
# | importance | $\lambda\, \mathrm{CV}(P)^2$, the variance of $P_m$ over the squared mean | equal sums of gates | Shazeer et al. 2017, eq. 6 and 7 |
# | z-loss | $\lambda\, \overline{(\log \sum_m e^{h_m})^2}$, a mean over samples | small scores for all experts | Zoph et al. 2022, eq. 5 |
# | bias | nothing; selects by $h_m + r_m + b_m$, with $b_m \leftarrow b_m + \lambda\, \mathrm{sign}(\bar f - f_m)$ | the same number of samples | Wang et al. 2024, algorithm 1; DeepSeek-V3 |
#
# The library has each of them as a function with its gradient. The next cell has three samples and two experts:

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
# Equal loads give a Switch loss of 1 (without $\lambda$). The next cell tries an uneven load. Of five samples, expert 1
# receives three by a narrow margin and expert 2 receives two by a wide margin.

# %%
prediction_minimum = predict(
    "What is the Switch loss of this uneven load?", ["smaller than 1", "exactly 1", "larger than 1"]
)
prediction_minimum

# %%
narrow = torch.tensor([[[0.51, 0.51, 0.51, 0.01, 0.01], [0.49, 0.49, 0.49, 0.99, 0.99]]])
uneven = torch.tensor([[0.6, 0.4]])
loss = balance.switch_loss(uneven, narrow.mean(2)).value.item()
print("Switch loss", round(loss, 3), "at loads of .6 and .4")

# %% jupyter={"source_hidden": true} tags=["compare"]
# Compares your prediction with the result.
outcome = "b" if abs(loss - 1) < 1e-3 else "a" if loss < 1 else "c"
prediction_minimum.seen(outcome, "More samples can go with a smaller mean gate.")

# %% [markdown]
# So an even load is not the minimum of this loss. The expert with more samples can have the smaller mean gate. Training
# only needs the gradient, and the gradient does what it should: it lowers the gates of overloaded experts.
#
# ## Measure it
#
# The next cell trains all four cures at three strengths, with four trials each, and shows medians. First the accuracy:

# %%
prediction_strength = predict(
    "Make the Switch loss ten times stronger. What happens to the accuracy?",
    ["it rises", "it falls", "it stays the same"],
)
prediction_strength

# %%
found = balancing(strengths=(0.01, 0.1, 1.0), trials=4, samples=1000, seed=SEED)
accuracy = found["test_accuracy"].median("trial").to_pandas()
accuracy.round(3)

# %% jupyter={"source_hidden": true} tags=["compare"]
# Compares your prediction with the result.
change = accuracy.loc["switch", 1.0] - accuracy.loc["switch", 0.1]
outcome = "c" if abs(change) < 0.005 else "a" if change > 0 else "b"
prediction_strength.seen(outcome, "At strength 1 the balancing loss outweighs the task.")

# %% [markdown]
# Next, the experts' worth of the load, out of eight:

# %%
worth = np.exp(found["load_entropy"]).median("trial").to_pandas()
worth.round(1)

# %% jupyter={"source_hidden": true} tags=["compare"]
# Compares your prediction with the result.
cures = {"switch": "a", "importance": "b", "z-loss": "c", "bias": "d"}
outcome = cures[worth[0.1].drop("none").idxmin()]
prediction_cure.seen(
    outcome, "It makes scores small, but does not look at how many samples an expert receives."
)

# %% [markdown]
# Last, the share of samples of the expert's own cluster, which the load does not show:

# %%
found["agreement"].median("trial").to_pandas().round(3)

# %% [markdown]
# At strength .1 the Switch loss and the importance loss put all eight experts to work, each on its own cluster, and
# nearly all answers are right. The bias balances as well, and its accuracy is slightly lower. The z-loss lowers the
# scores until the noise can move samples to other experts. It does not balance the load, and helps only half-way.
#
# At strength 1 the Switch loss makes the load no more even, but it mixes the clusters. The z-loss overshoots with the
# router's rate of 10, and every trial diverges (NaN); at a rate of 1 no trial does. At strength .01 the bias moves by
# at most 3 in 300 steps, so it needs the whole run to make up for the lead.
#
# ### When balance hurts
#
# Now the experts are cubic, there is no lead, and nothing has collapsed. But the clusters are unequal. Each is three
# times as frequent as the next, and there are as many experts as clusters. So the right load is as uneven as the
# clusters:

# %% tags=["varies"]
unequal = ClusterTask(imbalance=3.0)
print("share of each cluster", unequal.shares.round(3))
healthy = TopKMoE(experts=4)
found = balancing(strengths=0.1, trials=4, samples=1000, seed=SEED, model=healthy, task=unequal)
summary(found)

# %% [markdown]
# Every cure lowers the accuracy. In 16 trials it was .989 without balancing, .970 with the importance loss and .961
# with the bias, with standard errors of .003 to .004. The Switch and the importance loss make the load nearly even. The
# bias gets half-way: the largest load is still about .8 above the mean. For an even load experts of rare clusters must
# take samples of the common one, and "own cluster" falls. The z-loss hardly evens the load and does harm all the same.
#
# In another case the experts take ordinary gradient steps, so an expert with more samples takes longer steps.
# (Algorithm 1 of notebook 04 gives all experts steps of the same length, so none falls behind because it receives few
# samples.)

# %% tags=["varies"]
greedy = TopKMoE(equal_steps=False, learning_rate=1.0, initial_scale=0.1, lead=4.0)
found = balancing(strengths=0.1, trials=4, samples=1000, seed=SEED, model=greedy)
summary(found)

# %% [markdown]
# The bias makes the load nearly even and *lowers* the accuracy. The Switch and the importance loss make it even and
# raise the accuracy. The z-loss leaves it uneven, worth 3 of 8 experts, and gains half as much. An even load is a means
# to an end, so check the accuracy as well.
#
# ### Many small experts, and a shared one
#
# DeepSeekMoE divides every expert into $p$ smaller ones and sends each sample to $p$ of them. Parameters and work stay
# the same, and there are many more combinations. It also makes some experts *shared*: they receive every sample. The
# next cell has eight clusters and eight experts of 16 filters, so there are no spare experts:

# %%
divided = divisions((1, 4), trials=3, samples=800, seed=SEED)
sizes = {name: np.unique(divided[name]).tolist() for name in ("parameters", "active_filters")}
print("numbers in filters, and filters for a sample, of all:", sizes)
summary(divided)

# %% [markdown]
# More combinations help. With one expert for each sample, two of eight experts easily pick the same cluster. With four
# of 32 experts there are enough for all clusters. "Own cluster" falls, which does no harm, because a sample has several
# experts now. Note what the comparison keeps equal: parameters and work. Algorithm 1 moves each *expert* by the same
# length, so many small experts move farther in total.
#
# Go back to the collapsing router, and give it one shared expert but no balancing.

# %%
prediction_shared = predict(
    "How many of the other experts does the router use, with a shared expert?",
    ["more than without it", "as many as without it", "fewer than without it"],
)
prediction_shared

# %%
rows = {}
for shared in (0, 1):
    last = final(train(COLLAPSING.replace(shared=shared), ClusterTask(), **settings, measure="last"))
    right = last["expert_accuracy"][:, 0]  # of expert 1 by itself: (trial, cluster)
    rows[f"{shared} shared"] = {
        "accuracy": np.median(last["test_accuracy"]),
        "experts' worth": np.median(np.exp(last["load_entropy"])),
        "expert 1, best cluster": np.median(right.max(axis=1)),
        "expert 1, worst cluster": np.median(right.min(axis=1)),
    }
pd.DataFrame(rows).T.round(3)

# %% jupyter={"source_hidden": true} tags=["compare"]
# Compares your prediction with the result.
gain = rows["1 shared"]["experts' worth"] - rows["0 shared"]["experts' worth"]
outcome = "b" if abs(gain) < 0.5 else "a" if gain > 0 else "c"
prediction_shared.seen(outcome, "The router turns away from expert 1 where the shared expert answers for it.")

# %% [markdown]
# The shared expert helps without any balancing. The last two columns show why. Without it, expert 1 must answer alone
# and gets about half or more of every cluster right, so its lead grows. With it, the two are trained on the *sum* of
# their answers. The shared expert receives every sample too, and where its answer is enough, expert 1 by itself may be
# wrong. It is right in far less than half of its worst cluster. There the router turns away from it, as it does from a
# cubic expert, and other experts receive the samples.

# %% [markdown]
# ## Exercises
#
# All arrays in these exercises are NumPy arrays. The first function is the loss of the Switch Transformer. Each row of
# `gates` sums to 1, and every sample goes to its largest gate.


# %%
def switch_loss(gates):
    """Computes M sum_m f_m P_m from a NumPy array (N, M) -> one number."""
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
# Next, the importance loss for the same `gates`. It is the squared coefficient of variation of the experts' sums of
# gates.


# %%
def importance_loss(gates):
    """Computes CV(importance)^2 from a NumPy array (N, M) -> one number."""
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
# Next, the z-loss. One of the scores in the check is 800.


# %%
def router_z_loss(scores):
    """Computes the mean over samples of (log sum exp h)^2 from a NumPy array (N, M) -> one number."""
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
# Last, one step of the bias. Every sample goes to the expert with the largest score plus bias.


# %%
def moved_bias(bias, scores, rate):
    """Computes the bias after one step of algorithm 1 of Wang et al.

    Args:
      bias: NumPy array (M,).
      scores: NumPy array (N, M).
      rate: a number.

    Returns:
      NumPy array (M,).
    """
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
# *This part is optional. The core of the notebook ends here.* It compares the measurements with the papers.
#
# There are six statements from five papers, and all of them are tested here on one small task:
#
# | statement | result here |
# | --- | --- |
# | gating "tends to converge to a state where it always produces large weights for the same few experts" (Shazeer et al. 2017, section 4) | with a lead, yes; without one, linear experts use about 3.5 of 8, cubic experts as many as there are clusters |
# | the auxiliary loss "is minimized under a uniform distribution" (Fedus et al. 2021, below eq. 6) | refuted for the printed loss (above); its gradient does what it should |
# | a large auxiliary loss impairs the model (Wang et al. 2024, abstract) | yes, at strength 1: own cluster and accuracy fall |
# | balancing by a bias gives better models *and* better balance than the loss (Wang et al. 2024, abstract) | balance as good, models not better: each at its best strength, .990 against .998 with linear experts, and worse than no balancing with gradient steps |
# | the z-loss is for stability, and costs no quality (Zoph et al. 2022) | it keeps scores small; it does not cure a collapse by itself, and its strength must fit the router's rate |
# | fine-grained and shared experts are better at equal parameters (Dai et al. 2024) | small experts yes, where experts are scarce; a shared expert where the router collapses, not otherwise |
#
# `moe-lab reproduce routers` measures these statements and those of notebook 11, with pass rules that were fixed
# beforehand.
#
# The models here have thousands of parameters, full-batch gradients and four clusters. They can refute a statement that
# is made without conditions. They cannot say what holds for a model with a hundred billion parameters.
#
# Two details differ from the papers. The bias is added to the scores $h + r$ by which this router selects, and not to
# their sigmoid as in DeepSeek-V3. The importance is computed from all gates, because with one expert for each sample
# the gates of the chosen experts are all 1.

# %% [markdown]
# ## Before you go
#
# When you read that a mixture was trained "with load balancing", ask three questions. What did it balance: samples,
# gates or scores? How strongly? And should the load have been even at all?
#
# *Done? Choose File › Close and Shut Down Notebook. Each notebook holds 450 to 740 MB until its kernel is shut down,
# and Binder allows 2 GB in all.*
