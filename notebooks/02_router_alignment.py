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
# # 02 · Router alignment
#
# **40 minutes · no GPU · after notebooks 00 and 01**
#
# Routers start at random and end up pointing at the patches that decide the class. Nobody tells them to. Here you watch
# it, find the force that does it, measure it, and then break it in four ways.
#
# **After this notebook you can**
# - say what *alignment* and *coverage* measure, and why accuracy does not replace them,
# - compute the gradient of a router by hand and read it as a pull from each patch,
# - predict when routers fail: too few experts, $l=1$, $l < l^*$, too much noise.

# %% [markdown] tags=["badges"]
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/moe-lab/moe_lab/blob/v0.1.0/notebooks/02_router_alignment.ipynb)
# [![Open on Binder](https://mybinder.org/badge_logo.svg)](https://mybinder.org/v2/gh/moe-lab/moe_lab/v0.1.0?urlpath=lab/tree/notebooks/02_router_alignment.ipynb)

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
import itertools

import numpy as np
import pandas as pd
import torch

from moe_lab import collect, exercises, final
from moe_lab.patch_routing import CNN, DigitTask, JointMoE, PatternTask, SeparateMoE, train
from moe_lab.patch_routing.pulls import router_pulls
from moe_lab_widgets import PullBench, RouterAlignmentLab, play, predict

SEED = 0
torch.set_num_threads(1)  # these models are small: more threads only wait for each other

# %% [markdown]
# ## First, your prediction
#
# The task is that of notebook 00: 16 digits, one of them a 6 ($o_1$, class $+$) or a 7 ($o_2$, class $-$). Four routers start
# at random.

# %%
prediction = predict(
    "When training ends, how many of the four routers look for the 6?",
    ["two, in every trial", "all four, in every trial", "it differs from trial to trial"],
)
prediction

# %% [markdown]
# ## The Lab: digits

# %%
lab = RouterAlignmentLab(seed=SEED)
lab

# %% [markdown]
# *What to see.* Left panel: the four marks leave the middle within about 20 steps and settle at a star or close to one.
# The grey dots are the routers of the other trials. Middle: once a router points at the 6, its row has a tick for class $+$
# in almost every sample. Right: accuracy rises while the routers turn.

# %% jupyter={"source_hidden": true} tags=["compare"]
# Compares your prediction with the result.
# What the Lab trains when it opens, with the settings of the question, whatever its sliders say by now.
settings = dict(samples=100, epochs=20, trials=8, test_samples=200, seed=SEED, measure="last")
asked = final(train(JointMoE(experts=4, patches_per_expert=4), DigitTask(), **settings))
cosines = asked["alignment"]  # (trial, expert, class)
sixes = (cosines[..., 0] > cosines[..., 1]).sum(axis=1)
outcome = "c" if len(set(sixes)) > 1 else "b" if sixes[0] == cosines.shape[1] else "a"
prediction.seen(outcome, f"Routers nearer to the 6, trial by trial: {', '.join(map(str, sixes))}.")

# %% [markdown]
# Choose a few other values of <kbd>seed</kbd>. Do the routers always share the two digits fairly?
#
# *Your turn.* The menu <kbd>goal</kbd> has three tasks. Bring each about with the sliders. The Lab sees when a run has
# reached one, and asks you why. A wrong answer gets a reason, too.

# %% [markdown]
# ## The Lab: synthetic patches
#
# Digits look real, but you cannot set how difficult they are. Synthetic patches have a slider for everything: how similar
# $o_1$ and $o_2$ are ($\delta_d$), how much noise covers the patches, and how many *distractors* there are: patches that
# resemble $o_1$ or $o_2$ and decide nothing.

# %%
synthetic = RouterAlignmentLab(source="synthetic", seed=SEED, ask=True)
synthetic

# %% [markdown]
# *What to see.* The tile with one bar is $o_1$, with two bars $o_2$. Striped tiles are distractors: the stripes
# lean to the side that they imitate. Flat tiles are background. A well-trained router keeps its pattern and, because they
# look alike, some distractors of the same side. Raise <kbd>noise on each patch</kbd> to 1.5 and watch both accuracies
# fall. Set <kbd>distractors (l\* − 1)</kbd> to 0 and see the CNN catch up.

# %% [markdown]
# ## What happened and why
#
# ### One router, two patches, three numbers
#
# Take one sample of class $+$ and one expert that keeps two patches: $x^{(1)} = (1, 0)$, which is $o_1$, and
# $x^{(2)} = (0, 1)$, which means nothing. The router $w$ scores both the same, so each has the **gate** $G = \frac12$. The
# expert's neurons say $S_1 = 2$ about the first patch and $S_2 = 0$ about the second. So the output is
#
# $$f = G_1 S_1 + G_2 S_2 = \tfrac12 \cdot 2 + \tfrac12 \cdot 0 = 1.$$
#
# A router can change $f$ through the gates only. Which way should it turn?
#
# Turn it yourself. In the next cell $w$ begins between the patches, and the red arrow is what the sample asks for. Bring each
# of the three goals about.

# %%
PullBench(goal=1)

# %% [markdown]
# The red bar is a product of three numbers:
#
# 1. *What would a larger gate do?* The gates sum to 1, so what patch 1 gains, patch 2 loses. What counts is how far $S_j$
#    lies above the mean $\bar S = G_1 S_1 + G_2 S_2 = 1$: for patch 1 by $+1$, for patch 2 by $-1$.
# 2. *How much does its score move its gate?* In proportion to the gate itself. So raising the score of patch $j$ a little
#    raises $f$ by $G_j\,(S_j - \bar S)$: by $+\frac12$ for patch 1, by $-\frac12$ for patch 2.
# 3. *How much is there to gain?* The logistic loss asks for $v = 1/(1+e^{f}) = 0.27$ here: near 0 where the sample is
#    safely right, near 1 where it is badly wrong.
#
# The score of a patch rises where $w$ moves towards it. So one step of gradient descent moves the router along
#
# $$0.27 \cdot \big(\tfrac12\, x^{(1)} - \tfrac12\, x^{(2)}\big) = (0.13, -0.13):$$
#
# towards $o_1$, away from the other patch. Nobody told it which of them is $o_1$. The answers of the neurons are enough. The
# same in three lines, and by automatic differentiation:

# %%
patches, gates, says = np.eye(2), np.array([0.5, 0.5]), np.array([2.0, 0.0])
v = 1 / (1 + np.exp(gates @ says))
print("by hand:  ", (v * gates * (says - gates @ says) @ patches).round(2))

router = torch.zeros(2, dtype=torch.float64, requires_grad=True)
f = (torch.from_numpy(patches) @ router).softmax(0) @ torch.from_numpy(says)
torch.nn.functional.softplus(-f).backward()  # log(1 + exp(-y f)) with y = 1
print("by torch: ", -router.grad.numpy().round(2))

# %% [markdown]
# Now suppose that the expert keeps a single patch ($l=1$).

# %%
prediction_single = predict(
    "Every expert keeps a single patch (l = 1). Where will the routers turn?",
    ["to o₁ and o₂, only more slowly", "to whichever patch is most frequent", "nowhere: they do not move"],
)
prediction_single

# %%
single = JointMoE(patches_per_expert=1)
run = collect(train(single, PatternTask(), samples=200, trials=5, seed=SEED))
moved = float(abs(run["alignment"].isel(step=-1) - run["alignment"].isel(step=0)).max())
print("largest change of any alignment:", moved)
print("accuracy of each trial:", *run["test_accuracy"].isel(step=-1).values.round(2))

# %% jupyter={"source_hidden": true} tags=["compare"]
# Compares your prediction with the result.
prediction_single.seen("c" if moved == 0 else "a", "The only patch has all of the gate, so its S is the mean.")

# %% [markdown]
# Not small: exactly 0. The softmax of a single number is 1, whatever the number is. The experts learn what they can from
# patches that are picked at random.
#
# ### The formula
#
# For any number of kept patches, with
#
# - $y = \pm1$, the label, and $v = 1/(1+e^{y f(x)})$,
# - $J_s$, the $l$ patches that expert $s$ keeps, and $G_j$, the gate of patch $j$ among them,
# - $S_j$, what the $m/k$ neurons of the expert say about patch $j$ (notebook 01: weights $w_{r,s}$, output weights $a_{r,s}$):
#
# $$S_j = \sum_{r=1}^{m/k} \frac{a_{r,s}}{l}\,\mathrm{ReLU}\big(\langle w_{r,s}, x^{(j)}\rangle\big),
# \qquad \bar S = \sum_{j \in J_s} G_j S_j,$$
#
# one sample pulls the router $w_s$ along the negative gradient of its loss $L$:
#
# $$-\frac{\partial L}{\partial w_s} = y\,v \sum_{j \in J_s} G_j \,\big(S_j - \bar S\big)\, x^{(j)}.$$
#
# Read it as a **tug of war**. A kept patch pulls the router towards itself if the neurons speak for the right class on it
# *more than on the other kept patches*; otherwise it pushes the router away. In every sample the $G_j\,(S_j - \bar S)$ sum to
# 0: what one patch gains, the others lose.
#
# ### The film
#
# Here is that sum in a training on synthetic patches, step by step, divided by the kind of patch. Each circle is one
# expert. Its horizontal axis is the direction of $o_1$ and its vertical axis that of $o_2$. The numbered mark with a trail is the
# router. An arrow is the pull of all patches of one kind; it points where they pull the router, and the black one is their
# sum. In each step the longest arrow of all four experts is as long as the radius, and arrows of less than 3 % of it are
# left out. The words below a circle say how much the radius stands for, or why the expert has no arrow. So arrows compare
# experts within a step; the curves below compare steps, on a scale in powers of ten.

# %%
pulls = router_pulls(JointMoE(experts=4), PatternTask(), samples=200, steps=100, seed=SEED)
play(pulls)

# %% [markdown]
# *What to see.* Drag the slider to step 0 and move on with the arrow keys. $o_1$ appears with $y=+1$ only, so its pulls add
# up, always along its own axis. Distractors appear with both labels, and most of their pull cancels. The other patches
# pull this way and that, until an expert responds to $o$: then they lose what $o$ gains, and push back. Expert 2 goes for
# $o_1$ and expert 3 for $o_2$ from the first step, and expert 1 is drawn to both. Expert 4 keeps neither, so hardly anything
# pulls it. Most of the time its arrows are too short to be drawn, and its router moves without a direction.
#
# Look at the curves. A router that turns to $o_1$ keeps more of it, the neurons get better at it, the pull grows, and so on,
# until the samples are safely right and $v$ goes to 0. Which side wins in which expert is decided by the random start: a
# coin toss. So with $k$ experts, all of them land on one side with chance about $2\cdot 2^{-k}$. What is such a network
# worth?

# %%
prediction_missed = predict(
    "In some trials no router looks for the 7. How often is the network right there?",
    {"about 50 %": 0.5, "about 75 %": 0.75, "about 95 %": 0.95},
)
prediction_missed

# %% [markdown]
# ## Measure it
#
# **Alignment** is the cosine of $w_s$ and $o_i$. For **coverage**, count for each expert how often it keeps the class's
# deciding patch, over the test samples of the class; the coverage of the class is the best expert's share.
#
# How fast do routers turn? `collect` gathers every Snapshot of a run. Here we stop asking after step 50, and training stops
# too. The best router of each class, mean of 20 trials:

# %%
task = DigitTask()
run = train(JointMoE(experts=4, patches_per_expert=4), task, samples=100, trials=20, seed=SEED)
beginning = collect(itertools.takewhile(lambda snapshot: snapshot.step <= 50, run))  # not consumed, not trained
best = beginning["alignment"].max("expert").mean("trial")
pd.DataFrame(
    best.values.round(2), index=best["step"].to_index(), columns=["cos with o₁ (6)", "cos with o₂ (7)"]
)

# %% [markdown]
# Most of the turn is done after 20 updates. Now the coin toss. A second router for the same digit adds little. Each digit
# needs at least one:

# %%
rows = {}
for experts in (1, 2, 4, 8):
    model = JointMoE(experts=experts, patches_per_expert=4)
    last = final(train(model, task, samples=100, trials=20, seed=SEED, measure="last"))
    both = last["coverage"].min(axis=1) > 0.9  # (trial,)
    rows[experts] = {
        "trials with both classes covered": both.mean(),
        "coin tosses would give": 1 - 2 / 2**experts,
        "accuracy": last["test_accuracy"].mean(),
    }
pd.DataFrame(rows).T.rename_axis("k").round(2)

# %% [markdown]
# The coin toss is a good guide: half of the trials with two experts, nine in ten with four. For one expert it says 0,
# because a coin has two sides. In one of the 20 trials the only router points *between* the digits (cosines of .45 and
# .40), and its four places are enough for both.
#
# ### Accuracy is not coverage
#
# Here are ten trials, each with the coverage of the two classes beside its accuracy:

# %%
last = final(
    train(JointMoE(experts=4, patches_per_expert=4), task, samples=300, trials=10, seed=SEED, measure="last")
)
table = {
    "coverage of o₁": last["coverage"][:, 0],
    "coverage of o₂": last["coverage"][:, 1],
    "accuracy": last["test_accuracy"],
}
pd.DataFrame(table).rename_axis("trial").T.round(2)

# %% jupyter={"source_hidden": true} tags=["compare"]
# Compares your prediction with the result.
missed = last["coverage"].min(axis=1) < 0.1
prediction_missed.seen(
    last["test_accuracy"][missed].mean(), "One class that is found is enough to tell the two apart."
)

# %% [markdown]
# In trials 1, 2 and 5 no router looks for the 7. Still these networks are right in 94 to 97 of 100 samples. They answer
# *"no 6 in sight, so it must be a 7"*. So plot coverage, not only accuracy, before you say that a router works.
#
# This is also why a single expert reaches 91 % in the table with $k$. Why then more than one? A single expert depends on
# one toss. In 18 of its 20 trials it finds one digit and is right in about 93 %. In another it finds neither, and is right in
# 50 %. Four experts nearly always find both, and are right in 96 %.
#
# ### Below $l^*$
#
# $l^*$ is one more than the largest number of distractors of one side in a sample. An expert that keeps $l \ge l^*$
# patches has room for all of them **and** for $o$ (lemma 4.1). Below $l^*$, distractors can take all the places. *Separate
# training*, which trains the routers first and the experts after them, shows it best. Take a sharp task with 4 distractors
# that resemble $o$ as much as they can (`gap=1.0`), so $l^* = 5$:

# %%
sharp = PatternTask(distractors=4, gap=1.0, noise=0.1)
rows = {}
for count in (2, 3, 4, 5, 6, 8):
    last = final(
        train(SeparateMoE(patches_per_expert=count), sharp, samples=200, trials=10, seed=SEED, measure="last")
    )
    rows[count] = {
        "coverage, worse class": last["coverage"].min(axis=1).mean(),
        "coverage, better class": last["coverage"].max(axis=1).mean(),
        "accuracy": last["test_accuracy"].mean(),
    }
print("l* =", sharp.l_star)
pd.DataFrame(rows).T.rename_axis("l").round(2)

# %% [markdown]
# The coverage of the worse class jumps to 1.00 exactly at $l^* = 5$, as the lemma says. Accuracy tells another story: it is
# best at $l=2$, where half of a class is missed, steps up a little at $l^*$, and falls again as more clutter comes in.
#
# ### Noise

# %%
rows = {}
for noise in (0.0, 0.5, 1.0, 1.5):
    noisy = PatternTask(noise=noise)
    joint, cnn = (
        final(train(model, noisy, samples=200, trials=5, seed=SEED, measure="last"))
        for model in (JointMoE(), CNN())
    )
    rows[noise] = {
        "pMoE coverage, worse class": joint["coverage"].min(axis=1).mean(),
        "pMoE accuracy": joint["test_accuracy"].mean(),
        "CNN accuracy": cnn["test_accuracy"].mean(),
    }
pd.DataFrame(rows).T.rename_axis("noise").round(2)

# %% [markdown]
# Noise lowers accuracy sooner than coverage: at noise 1.5 the routers still find $o$ in nearly all samples, but what the
# experts then see is too blurred to learn from 200 samples. The mixture stays ahead of the CNN throughout.

# %% [markdown]
# ## Exercises
#
# All arguments are NumPy arrays, and the notebook has imported NumPy as `np`. Torch's functions do not take them.


# %%
def alignment(routers, signals):
    """The cosine of every router with every class pattern: arrays (k, d) and (c, d) -> (k, c)."""
    return None  # your code


exercises.check_alignment(alignment)


# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def alignment(routers, signals):
#     import numpy as np
#
#     lengths = np.outer(np.linalg.norm(routers, axis=1), np.linalg.norm(signals, axis=1))
#     return routers @ signals.T / lengths
# ```
#
# </details>


# %%
def coverage(kept, signal, labels):
    """The share of each class's samples whose o reaches the class's best expert -> (c,).

    kept: (experts, samples, patches), True where an expert keeps a patch.
    signal: (samples,), the place of o. labels: (samples,), the class, counted from 0.
    """
    return None  # your code


exercises.check_coverage(coverage)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def coverage(kept, signal, labels):
#     import numpy as np
#
#     caught = kept[:, np.arange(len(labels)), signal]
#     return np.stack([caught[:, labels == label].mean(1) for label in np.unique(labels)], axis=1).max(0)
# ```
#
# </details>

# %% [markdown]
# The last one is the formula above for one expert and one sample. `patches` (n, d) are $x^{(1)}$ to $x^{(n)}$, `router` (d,) is
# $w_s$, `neurons` (m/k, d) are the $w_{r,s}$, and `outputs` (m/k,) the $a_{r,s}$. `count` is $l$, `y` is $\pm1$, and $v$ is given.
# Mind the sign: the gradient is minus the pull. The check compares with automatic differentiation.


# %%
def router_gradient(patches, router, neurons, outputs, count, y, v):
    """The gradient of the loss with respect to the router -> (d,)."""
    return None  # your code


exercises.check_router_gradient(router_gradient)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def router_gradient(patches, router, neurons, outputs, count, y, v):
#     import numpy as np
#
#     def gates(scores, kept):
#         powers = np.where(kept, np.exp(scores - scores[kept].max()), 0)
#         return powers / powers.sum()
#
#     scores = patches @ router
#     kept = np.argsort(-scores, kind="stable")[:count]
#     gates = np.exp(scores[kept] - scores[kept].max())
#     gates = gates / gates.sum()
#     says = np.maximum(patches[kept] @ neurons.T, 0) @ outputs / count  # S_j
#     pull = y * v * (gates * (says - gates @ says)) @ patches[kept]
#     return -pull
# ```
#
# </details>

# %% [markdown]
# ## For readers of the paper
#
# *This part is optional: the core of the notebook ends here.* It is for those who compare it with the paper.
#
# - **Eq. 26** is the formula above, written as a double sum over $j$ and $i$ of $G_j S_j G_i\,(x^{(j)} - x^{(i)})$. It is
#   printed with $r$ running over all $m$ neurons. An expert has $m/k$; the sum above is over these.
# - **Figure 9** (joint training, $N=300$, $l=6$): $o$ has the largest gate in 95 % and 92 % of the samples of the two
#   classes, on MNIST. On the 8×8 digits, mean of 5 trials:

# %%
last = final(train(JointMoE(), task, samples=300, trials=5, seed=SEED, measure="last"))
pd.Series(
    last["largest_gate"].mean(axis=0), index=["o₁ has the largest gate", "o₂ has the largest gate"]
).round(3)

# %% [markdown]
# - **Figure 8** (separately trained router, $N=300$): $o$ is among the top 4 patches in 95 % of the samples, on
#   MNIST. Here the classes are balanced exactly, $N/2$ each. That helps: if one class has more samples, the mean over $y_i x_i$
#   no longer cancels what both classes share. On the 8×8 digits:

# %%
last = final(train(SeparateMoE(patches_per_expert=4), task, samples=300, trials=5, seed=SEED, measure="last"))
pd.Series(last["coverage"].mean(axis=0), index=["o₁ in the top 4", "o₂ in the top 4"]).round(3)

# %% [markdown]
# - **Assumption 4.4** asks that *each* class has an expert that gives its $o$ the largest gate in all samples. Theorem 4.5
#   rests on it. You saw trials where it fails and accuracy is high all the same: it is enough, but not needed.
# - The pair (6, 7) was picked as a good example (notebook 00).

# %% [markdown]
# ## Before you go
#
# Next: **03 Phase transitions**. How many samples does it take until training succeeds, and how does that depend on $l$?
#
# *Done? Choose File › Close and Shut Down Notebook. Each notebook holds 450 to 740 MB until its kernel is shut down, and
# Binder allows 2 GB in all.*
