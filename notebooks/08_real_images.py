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
# # 08 · Real images, real models
#
# **45 minutes · no GPU · after notebooks 00, 01 and 02**
#
# So far models were small enough for theorems. Here they are deep networks of convolutions, as in the papers'
# experiments, on images of real digits. You watch where such a network sends the pieces of an image, and then you ask
# the question that decides every experiment: *compared with what?* Two results look good, and one more control takes
# most of it away.
#
# **After this notebook you can**
# - say what patch-level experts do inside a convolutional network, and measure whether they look at the right place,
# - name the control that a claimed gain needs, and compare two models trial by trial,
# - find a leak: a way to solve a task without doing what it is meant to test,
# - tell what of the papers' experiments comes out the same at this size, and what does not.

# %% [markdown] tags=["badges"]
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/moe-lab/moe_lab/blob/main/notebooks/08_real_images.ipynb)
# [![Open on Binder](https://mybinder.org/badge_logo.svg)](https://mybinder.org/v2/gh/moe-lab/moe_lab/main?urlpath=lab/tree/notebooks/08_real_images.ipynb)

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
from matplotlib import pyplot as plt

from moe_lab import exercises, final, theme
from moe_lab.vision import WRN, Mixture, PatchWRN, QuadrantTask, SmallCNN, TurnTask, figures, plots
from moe_lab.vision.patches import train
from moe_lab.vision.rotation.live import sort
from moe_lab_widgets import DeepPruneLab, PatchMapLab, predict

SEED = 0
torch.set_num_threads(1)  # these models are small: more threads only wait for each other

# %% [markdown]
# ## The task
#
# An image has 16x16 pixels and holds four handwritten digits, one in each quadrant. One of them is a 0, 1, 2 or 3, at a
# random place; the other three are between 4 and 9. The class is the digit from 0 to 3. We call it the *object*: it
# alone decides. The paper does the same with vehicles among animals (CIFAR-VEHICLES, "Patch-level Routing in
# Mixture-of-Experts", appendix A), which `VehiclesTask` makes if you have CIFAR-10. Four samples, with the quadrant of
# the object in pixels:

# %%
task = QuadrantTask(noise=0.1)
drawn = task.sample(4, trials=[0], seed=SEED)
pd.DataFrame(drawn.boxes[0], columns=["top", "left", "height", "width"]).assign(label=drawn.labels[0])

# %% [markdown]
# ## First, your prediction
#
# Three convolutions turn the image into a map of 4x4 *cells*. A cell is a vector of 64 numbers, and stands for a patch
# of 4x4 pixels. Four *experts* follow. Each has a *gate*, a vector that is multiplied with every cell and gives it a
# score. The expert keeps the $l=2$ cells with the highest scores and sees nothing else. Nobody tells the gates where
# the object is. Write down:
#
# 1. What share of the kept cells lies in the object before training? And after it?
# 2. Take the gates away, so that every expert gets all 16 cells. Is the network then better, worse, or the same?
# 3. Now let every expert keep two cells *at random*. Better, worse, or the same as with gates?
# 4. Another task: is a digit turned by 30 degrees, or not? How many parameters does a network need for that? A million,
#    a hundred thousand, or a hundred?

# %%
prediction = predict(
    "Every expert keeps two cells at random. How does the network do, compared with gates that learn?",
    ["better", "the same", "worse"],
)
prediction

# %% [markdown]
# ## The Lab
#
# WRN-pMoE, the network with gates, beside two *controls*: the same network without gates ("no gate"), and a network
# with a plain convolution in place of the experts ("conv"). A control is a model that lacks one thing only. All three
# see the same images in the same order.

# %% tags=["varies"]
lab = PatchMapLab(seed=SEED)
lab

# %% [markdown]
# *What to see.* **Left:** eight test images, a row for each expert. Patches that it keeps are lit and outlined, the
# blue frame is the object. Below, what the network says. **Middle:** the share of kept patches that lie in the object.
# It leaves chance, 25 %, and stays far from 100 %. **Right:** test accuracy. Read it twice: the gates do find something, and
# the network with gates is *not* better.
#
# Try, and write down what you see:
#
# 1. Set **gates are** to "random". What do the gates win over chance? (Your answer to question 3.)
# 2. Set $l=16$. Every expert keeps everything. What is left for a gate to do?
# 3. Set $l=1$. Then open **More settings** and change the softmax from "all" to "kept". Which of the two learns where to
#    look? (See below.)
# 4. Raise the noise to .6. What goes first: the accuracy, or the share in the object?
# 5. Move the seed. In how many trials is pMoE ahead of the network without gates?

# %% [markdown]
# ## What happened and why
#
# Let $x_j$ be the cells, $j = 1 \dots n$, and $w_s$ the gate of expert $s$. The paper's gate (eq. 5) is a softmax over
# the kept cells, $J_s$ = the $l$ cells with the largest $\langle w_s, x_j\rangle$. The authors' code takes it over *all*
# cells, and so does this network:
#
# $$G_{s,j} = \frac{e^{\langle w_s, x_j\rangle}}{\sum_{i \in J_s} e^{\langle w_s, x_i\rangle}} \;\text{ (eq. 5)}, \qquad
# G_{s,j} = \frac{e^{\langle w_s, x_j\rangle}}{\sum_{i=1}^{n} e^{\langle w_s, x_i\rangle}} \;\text{ (the code)}, \qquad
# G_{s,j} = 0 \text{ for } j \notin J_s.$$
#
# A gate learns because $G$ multiplies what the expert sees. If a kept cell helps, the loss falls when its gate grows.
# For $l=1$ eq. 5 is always 1: its slope is 0, and the gate learns nothing. The code's is not, and does: that was
# question 3 of the Lab.
#
# Why is the share so far from 100 %? A cell does not hold its patch alone. Each of its 64 numbers has passed three
# convolutions of 3x3 and has seen a region of 9x9 pixels. A cell *beside* the object knows much of it. There is no need
# to keep the object's own cells, and "kept in the object" is a strict measure.

# %% [markdown]
# ## Why the control without gates matters
#
# The paper compares WRN-pMoE with WRN. They differ in two things: in the gates, and in all else that the experts bring
# (four narrow convolutions in place of a wide one, fewer parameters). If pMoE wins, which of the two was it? The network
# without gates has the second and lacks the first.

# %%
small = {"trunk": "plain", "batch_size": 50}
models = {
    "learned gates": PatchWRN(patches_per_expert=2, **small),
    "no gates": PatchWRN(gates="none", **small),
    "random patches": PatchWRN(gates="random", patches_per_expert=2, **small),
    "no experts": WRN(**small),
}
settings = {"samples": 600, "trials": 3, "seed": SEED, "epochs": 5, "measure": "last", "record_every": 10**6}
ends = {name: final(train(model, task, **settings)) for name, model in models.items()}
columns = ["trial 1", "trial 2", "trial 3"]
table = pd.DataFrame({name: end["test_accuracy"] for name, end in ends.items()}, columns).T
gain = table - table.loc["no gates"]
table["mean gain over no gates"] = gain.mean(axis=1)
table["its standard error"] = gain.std(axis=1) / 3**0.5
table.round(3)

# %%
gap = table.loc["random patches", columns].mean() - table.loc["learned gates", columns].mean()
outcome = "b" if abs(gap) < 0.03 else "a" if gap > 0 else "c"
prediction.seen(outcome, f"Accuracy changes by {gap:.2f}: where experts look matters, and gates choose well.")

# %% [markdown]
# Compare trial by trial. Gates are worth about .01 more than no gates; a plain convolution, without any experts, is worth
# about .02 more. Three trials cannot tell that from 0: with so few, a mean should be more than four standard errors away
# from it. With nine trials (seeds 0 to 2) gates gain .010 ± .006 over no gates, with 200 samples and 12 trials
# -.002 ± .017: nothing. What is beyond doubt is the row of random patches, about .35 below. So gates do choose well,
# and what they choose is worth no more than everything.
#
# Where do the kept patches lie? The first images of trial 1, as expert 1 sees them:

# %%
figure, panels = plt.subplots(1, 6, figsize=(11, 2.1), facecolor=theme.PAPER, layout="constrained")
for example, panel in enumerate(panels):
    plots.kept_patches(ends["learned gates"], panel, example=example)
print("kept in the object:", ends["learned gates"]["kept_in_object"].round(2), "by chance .25")

# %% [markdown]
# *What to see.* The frame marks the object; the clear patches are the two that expert 1 keeps. It is drawn to strokes,
# often to those of the object, and often to strokes beside it.
#
# ### What it costs
#
# The paper says that both networks have "an equal number of parameters", and that pMoE needs about 58 % of the FLOPs
# (operations) of WRN (table 2). Both can be counted:

# %%
plots.picture(figures.compute())

# %% [markdown]
# *What to see.* Lines are counted, stars are published. The counted lines lie on each other: the authors' code
# multiplies patches that are not kept by zero, and that costs as much as keeping them. The dotted line leaves them out.
# For 4,000 samples the published WRN lies above what all 50 epochs can cost: the paper does not count, it multiplies
# seconds by the speed of its GPU.

# %% [markdown]
# ## A leak, and what a mixture gets the credit for
#
# Another paper ("Towards Understanding the Mixture-of-Experts Layer", table 2) asks: is an image turned by 30 degrees?
# A mixture of networks is right more often than one network, by 2 to 4 points. Here is that task in small, with 8x8 digits.
# One network, two convolutions of 2 and 4 filters:

# %%
leaky = figures.controls("leaky", ("single",), trials=2, seed=SEED, epochs=5)
leaky[["test_accuracy", "parameters"]].to_dataframe().round(3)

# %% [markdown]
# That is question 4: 130 parameters. It cannot know digits. It need not: turning an image *interpolates* between
# pixels, and the edges move out of the frame. Such a way to the answer is called a *leak*. Whoever is compared on this
# task is compared on finding the leak. (The last exercise is to find it yourself, without learning anything.)
#
# ### A task with opposite rules
#
# Now a task without that leak, made for mixtures: digits are turned left or right by 25 degrees, and half of them are
# negatives (white on black). On negatives the answer is *reversed*. One rule for each kind of image: two clusters, two
# experts. Networks of 1 and 2 filters, and the controls:

# %%
opposite = figures.controls("reversed", ("single", "wide", "mixture", "oracle"), trials=2, seed=SEED, epochs=4)
plots.picture(opposite)

# %% [markdown]
# *What to see.* "single" is one expert alone, "wide" one network with twice the filters. "oracle" sends every image to
# the expert of its kind. All are right in 97 to 100 of 100 images. The mixture is among the best. How does it do that?
# Let us watch it sort 48 test images:

# %%
moments = list(
    sort(
        TurnTask(),
        Mixture(expert=SmallCNN(filters=(1, 2))),
        **{"samples": 2000, "trials": 1, "seed": SEED, "epochs": 2, "examples": 48, "record_every": 10},
    )
)
figure, panels = plt.subplots(1, 3, figsize=(11, 3.6), facecolor=theme.PAPER, layout="constrained")
for moment, panel in zip((moments[0], moments[2], moments[-1]), panels, strict=True):
    plots.sorting(moment, panel)

# %% [markdown]
# *What to see.* Images fall into the bins of the expert that they are sent to; crosses are wrong. At step 0 the router
# is 0 and expert 1 gets all. At the end both are busy and all answers are right. But look into the bins: are these
# positives and negatives? Count who is where:

# %%
last = moments[-1]
kinds = pd.DataFrame({"expert": last.expert + 1, "negative": last.clusters, "answer": last.labels})
pd.concat({name: pd.crosstab(kinds["expert"], kinds[name]) for name in ("negative", "answer")}, axis=1)

# %% [markdown]
# The router does not sort by kind at all. It sorts by *answer*: expert 1 gets the images with one label, expert 2 those
# with the other. The experts need do no more than say the same word every time. The router has done it all, and the
# router is *linear*. So the missing control is a linear function of the pixels, without any mixture:

# %%
kinds = ("leaky", "reversed", "jittered")
fits = {kind: figures.controls(kind, ("linear",), trials=2, seed=SEED).sel(model="linear") for kind in kinds}
pd.DataFrame({kind: fit["test_accuracy"] for kind, fit in fits.items()}, ["trial 1", "trial 2"]).T.round(3)

# %% [markdown]
# A linear function, fitted in milliseconds, is right in 99 to 100 of 100 unseen images, on all three tasks. "Opposite
# rules" do not stop it: on negatives the label is reversed, and so is the image, and for a linear function two reversals
# cancel. Whatever a mixture gains here, its linear router may have brought along: it holds 290 of the mixture's 386
# parameters. The paper's table has no such control. Nor had our own list, until somebody looked into the bins.
#
# ### Without the leak
#
# "jittered": both answers are turned, by 0 and 30 degrees plus up to 12 either way; both are cut to a disc and blurred.
# Nothing but how the digit stands tells them apart. Four experts, as in the paper:

# %%
fair = figures.controls("jittered", ("single", "wide", "mixture"), trials=2, seed=SEED, epochs=5)
plots.picture(fair)

# %% [markdown]
# *What to see.* The mixture is as good as one wide network, and no better. In both trials its router sends every image
# to a single expert (it has *collapsed*). The linear function of the table above beats all three. `figures.controls` has
# more: "balanced" (a loss against collapse), "oracle", "random", and "same parameters".

# %% [markdown]
# ## Exercises
#
# First the measure of the Lab's middle panel. `kept` is $(N, k, n)$, 1 where expert $s$ keeps patch $j$ of an image;
# `inside` is $(N, n)$, 1 where the object is. Experts may keep different numbers of patches.


# %%
def kept_in_object(kept, inside):
    """The share of kept patches that lie in the object -> one number."""
    return None  # your code


exercises.check_kept_in_object(kept_in_object)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def kept_in_object(kept, inside):
#     import numpy as np
#
#     found = total = 0
#     for image, object_ in zip(kept, inside, strict=True):
#         for patches in image:  # of one expert
#             found += np.sum(patches[object_ > 0])
#             total += np.sum(patches)
#     return found / total
# ```
#
# </details>

# %% [markdown]
# The gate of the authors' code: `scores` are $\langle w_s, x_j\rangle$, $(n,)$. Scores may be large.


# %%
def gates_over_all(scores, l):
    """The softmax over all patches, 0 for all but the l best -> (n,)."""
    return None  # your code


exercises.check_gates_over_all(gates_over_all)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def gates_over_all(scores, l):
#     import numpy as np
#
#     def softmax(scores, axis=-1):
#         powers = np.exp(scores - scores.max(axis=axis, keepdims=True))
#         return powers / powers.sum(axis=axis, keepdims=True)
#
#     gates = softmax(scores)
#     gates[np.argsort(scores)[:-l]] = 0
#     return gates
# ```
#
# </details>

# %% [markdown]
# Is a gain real? Two models have run in the same $T$ trials. The mean gain over the pairs, and its standard error
# $s/\sqrt{T}$, where $s$ is the standard deviation of the gains (with $T-1$). A gain smaller than twice its error
# cannot be told from 0.


# %%
def paired_gain(study, control):
    """The mean of study - control over pairs, and its standard error -> (2,)."""
    return None  # your code


exercises.check_paired_gain(paired_gain)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def paired_gain(study, control):
#     import numpy as np
#
#     gains = study - control
#     return gains.mean(), gains.std(ddof=1) / np.sqrt(len(gains))
# ```
#
# </details>

# %% [markdown]
# Last, the leak. `images` are $(N, 8, 8)$ digits of the "leaky" task, pixels from 0 to 1; half of them are turned by 30
# degrees. Find out which, for every single one, without training anything. Hint: how many different values does a
# pixel have in an image that was scanned with 17 grey levels, 0 to 16?


# %%
def is_turned(images):
    """1 for images that are turned, else 0 -> (N,)."""
    return None  # your code


exercises.check_is_turned(is_turned)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def is_turned(images):
#     import numpy as np
#
#     levels = 16 * images.reshape(len(images), -1)
#     return (np.abs(levels - levels.round()).max(axis=1) > 1e-3).astype(int)
# ```
#
# </details>

# %% [markdown]
# Two things to keep. A picture of a router tells more than an accuracy: it showed gates that look beside the
# object, and a router that had taken over the experts' work. And a gain is a statement about two models: ask for the
# other one.

# %% [markdown]
# ## Optional: prune a real layer
#
# *This part is optional and takes ten minutes more.*
#
# Notebook 05 pruned one layer with theorems. Now a vision transformer with two layers of 8 experts each (V-MoE, of
# 211,114 parameters): images of 12x12 pixels are cut into 9 patches, and each patch goes to 2 of 8 experts. It is
# *pre-trained* on digits, *fine-tuned* on digits that stand on their heads, and then pruned. The score of an expert is
# $\Delta = \lVert w \text{ after fine-tuning}\rVert - \lVert w \text{ before}\rVert$, $w$ its router; the experts
# with the smallest go. There are two ways to do that, and papers seldom say which:
#
# - **silent**, the paper's: all routers stay. A token that chose an expert that is gone gets nothing from it.
# - **rerouted**, that of tools for language models: the routers go too. The token visits another expert instead.
#
# Write down first, for half of the experts pruned:
#
# 1. Memory, FLOPs (operations), time: which of them fall silently, and which rerouted?
# 2. In which of the two ways is the accuracy higher?
# 3. Is $\Delta$ better than random choice? Than the norm of $w$ after fine-tuning alone?
#
# The first time, pre-training takes most of a minute, and you can watch it. The model is then kept on your computer.
# (Where this notebook is run without anybody watching, the Lab pre-trains for 100 steps, not 700.)

# %% tags=["varies"]
lab = DeepPruneLab(seed=SEED)
lab

# %% [markdown]
# *What to see.* **Left:** both layers. A bar is $\Delta$, below stand the patches that the expert receives with the
# largest gates and the share of all tokens that it receives (two experts for each token, so about 25 %). Striped bars and
# hollow numbers are pruned. **Middle:** accuracy against the experts pruned, for six scores. The bar at your choice is
# the error of 500 test images. **Right:** what is left. The time is that of a larger block, measured on your machine
# while you looked: the model of the digits is so small that pruning saves it no time.
#
# 1. Set **way to prune** to "rerouted" and back. (Questions 1 and 2.)
# 2. Choose "random", then "router-magnitude", with 4 and with 6 experts pruned. (Question 3.) Move the seed and look
#    again before you believe what you saw.
# 3. Set **digits to tell apart** to 2. Which score is best now?
#
# | published (pruning2024, section 5.2) | here, ten seeds |
# | --- | --- |
# | silently pruned, half of the experts go at once with little loss | 1 to 9 points are lost, 3 in the median |
# | the norm change beats random choice | with six of eight gone in nine of ten seeds, with half gone in seven: within the error |
# | it is "an upper bound" to other scores | no: with half gone the router's norm is ahead in eight of ten |
# | memory -60 %, FLOPs -40 %, time -40 % with 75 % pruned, whole network | one block: memory -70 %, FLOPs -63 % silently, and none of the FLOPs rerouted |
#
# In every seed more is lost rerouted than silently. And two digits tell no scores apart: all stay at 99 %.
#
# One exercise: what is left of a token's gates? `scores` are those of its $E$ routers, `stays` is True for experts that
# stay, `count` is $K$. A gate is the softmax of the scores, 0 for all but the $K$ chosen experts; it is not normalised
# again.


# %%
def gates_after_pruning(scores, stays, count, rerouted):
    """The gates with which experts answer a token after pruning, silently or rerouted -> (E,)."""
    return None  # your code


exercises.check_gates_after_pruning(gates_after_pruning)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def gates_after_pruning(scores, stays, count, rerouted):
#     import numpy as np
#
#     def softmax(scores, axis=-1):
#         powers = np.exp(scores - scores.max(axis=axis, keepdims=True))
#         return powers / powers.sum(axis=axis, keepdims=True)
#
#     if rerouted:
#         scores = np.where(stays, scores, -np.inf)
#     gates = softmax(scores)
#     gates[np.argsort(scores)[:-count]] = 0
#     return gates * stays
# ```
#
# </details>

# %% [markdown]
# ## For readers of the paper
#
# *This part is optional: the core of the notebook ends here.* It is for those who compare it with the paper.
#
# | published | here |
# | --- | --- |
# | WRN-pMoE needs fewer training samples than WRN (section 5.2) | no gain over the network without gates, for 200 samples (a story of the Lab) or 600 |
# | gates find the patches that matter | yes, though not sharply: about 41 % of kept patches lie in the object, chance is 25 % |
# | the gate is a softmax over the kept patches (eq. 5) | the authors' code takes it over all patches; for $l=1$ the printed one cannot learn |
# | "the last convolution is replaced" | the code replaces the whole last group of the network |
# | an equal number of parameters | nearly, for CelebA (7.43 and 7.30 million); for CIFAR-10 it is 7.44 million against 3.96 |
# | WRN-pMoE trains with 58 % of the FLOPs (table 2) | counted 99 %, or 78 % if the code skipped what is not kept |
# | a mixture is 2 to 4 points better on turned images (chen2022, table 2) | on digits the gain is gone without the leak |
# | single network and mixture differ in the mixture alone | the paper trains the one by SGD, the other by normalised gradients; here all by Adam |
# | noise is added to all images | the authors' code blurs the training images alone, and reports the best epoch on the test images |
#
# These runs are small: 16x16 pixels and a few hundred samples against CIFAR-10, CelebA and networks ten times as wide. A
# gain that is absent here may be there at that size. What the comparison shows is which controls a claim needs at any
# size. With CIFAR-10 on your disk and a GPU, `figures.sample_complexity(root=..., width=10)` and
# `figures.controls(root=...)` run both experiments with the same controls.

# %% [markdown]
# ## Before you go
#
# *Done? Choose File › Close and Shut Down Notebook. Each notebook holds 450 to 740 MB until its kernel is shut down, and
# Binder allows 2 GB in all.*
