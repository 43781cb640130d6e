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
# So far the models were small enough for theorems. Here they are deep networks of convolutions, as in the papers'
# experiments, on images of real digits. You watch where such a network sends the pieces of an image. Then you ask the
# question that decides every experiment: *compared with what?* Two results look good, until one more control takes most
# of them away.
#
# **After this notebook you can**
# - say what patch-level experts do inside a convolutional network, and measure whether they look at the right place,
# - name the control that a claimed gain needs, and compare two models trial by trial,
# - find a leak: a way to solve a task without doing what the task is meant to test,
# - say which of the papers' experiments come out the same at this size.

# %% [markdown] tags=["badges"]
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/moe-lab/moe_lab/blob/v0.1.0/notebooks/08_real_images.ipynb)
# [![Open on Binder](https://mybinder.org/badge_logo.svg)](https://mybinder.org/v2/gh/moe-lab/moe_lab/v0.1.0?urlpath=lab/tree/notebooks/08_real_images.ipynb)

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
from matplotlib import pyplot as plt

from moe_lab import exercises, final
from moe_lab.drawing import theme
from moe_lab.vision import WRN, Mixture, PatchWRN, QuadrantTask, SmallCNN, TurnTask, figures, plots
from moe_lab.vision.patches import train
from moe_lab.vision.rotation.live import sort
from moe_lab_widgets import PatchMapLab, predict

SEED = 0
torch.set_num_threads(1)  # these models are small: more threads only wait for each other

# %% [markdown]
# ## The task
#
# An image has 16x16 pixels and holds four handwritten digits, one in each quadrant. One of them is a 0, 1, 2 or 3, at a
# random place. The other three are between 4 and 9. The class is the digit from 0 to 3. We call it the *object*, because
# it alone decides. The paper does the same with vehicles among animals (CIFAR-VEHICLES, "Patch-level Routing in
# Mixture-of-Experts", appendix A). `VehiclesTask` makes these images if you have CIFAR-10. Here are four samples:

# %%
task = QuadrantTask(noise=0.1)
drawn = task.sample(4, trials=[0], seed=SEED)
images, panels = plt.subplots(1, 4, figsize=(6.4, 1.9), facecolor=theme.PAPER, layout="constrained")
for panel, image, box, label in zip(panels, drawn.images[0], drawn.boxes[0], drawn.labels[0], strict=True):
    plots.framed(image, box, panel)
    panel.set_title(f"class {label}")
plt.show()

# %% [markdown]
# *What to see.* Four digits in each image, and a frame around the object. The frame is for you. The network never sees it.

# %% [markdown]
# ## First, your prediction
#
# Three convolutions turn the image into a map of 4x4 *cells*. A cell is a vector of 64 numbers, and stands for a patch of
# 4x4 pixels. Four *experts* follow. Each has a *gate*, a vector that gives every cell a score. The expert keeps the $l=2$
# cells with the highest scores and sees nothing else. Nobody tells the gates where the object is.

# %%
prediction = predict(
    "By chance 25 % of the kept cells lie in the object. How many do after training?",
    {"25 %": 25, "40 %": 40, "65 %": 65, "95 %": 95},
)
prediction

# %% [markdown]
# ## The Lab
#
# The Lab shows the *mixture* (the paper's WRN-pMoE) beside two *controls*. A control is a model that lacks one thing only.
# "No gates" is the same network without gates. The *CNN* (the paper's WRN) has a plain convolution in place of the experts.
# All three see the same images in the same order. Before it trains, it asks you which of the
# first two will be right more often.

# %% tags=["varies"]
lab = PatchMapLab(seed=SEED, ask=True)
lab

# %% [markdown]
# *What to see.* **1:** A test image. The digit in the blue frame is the object. A head stands in each patch that an expert
# keeps, and patches that no expert keeps are pale. Below stands what the network says. <kbd>test image</kbd> shows seven
# others. **2:** The share of kept patches that lie in the object. It rises above chance, 25 %, and stays far below 100 %.
# **3:** Test accuracy. The gates do find something, and yet the mixture is *not* better than the network without gates.
#
# Set <kbd>l · patches per expert</kbd> to 16. Every expert keeps everything. What is left for a gate to do? Then change
# the <kbd>seed</kbd>. In how many trials is the mixture ahead of the network without gates?
#
# *Your turn.* The menu <kbd>goal</kbd> has three tasks. Bring each about with the sliders. The Lab sees when a run has
# reached one, and asks you why. A wrong answer gets a reason, too.

# %% [markdown]
# ## What happened and why
#
# Let $x_j$ be the cells, $j = 1 \dots n$, and $w_s$ the gate of expert $s$. Let $J_s$ be the $l$ cells with the largest
# $\langle w_s, x_j\rangle$. The paper's gate (eq. 5) is a softmax over these kept cells. The authors' code takes the softmax
# over *all* cells, and so does this network:
#
# $$G_{s,j} = \frac{e^{\langle w_s, x_j\rangle}}{\sum_{i \in J_s} e^{\langle w_s, x_i\rangle}} \;\text{ (eq. 5)}, \qquad
# G_{s,j} = \frac{e^{\langle w_s, x_j\rangle}}{\sum_{i=1}^{n} e^{\langle w_s, x_i\rangle}} \;\text{ (the code)}, \qquad
# G_{s,j} = 0 \text{ for } j \notin J_s.$$
#
# A gate learns because $G$ multiplies what the expert sees. If a kept cell helps, the loss falls when its gate grows. For
# $l=1$ the gate of eq. 5 is always 1. It has no gradient, so it learns nothing. The gate of the code does learn.
#
# Why is the share in the object so far from 100 %? Each of a cell's 64 numbers has passed three convolutions of 3x3, so it
# has seen a region of 9x9 pixels. A cell *beside* the object knows much of the object, and there is no need to keep the
# object's own cells.

# %% [markdown]
# ## Why the control without gates matters
#
# The paper compares the mixture with the CNN. They differ in two things: in the gates, and in everything else that the
# experts bring (four narrow convolutions in place of a wide one, fewer parameters). If the mixture wins, which of the two
# was it? The network without gates has the second and lacks the first. In the table "learned gates" is the mixture:

# %%
prediction_random = predict(
    "Let every expert keep two cells at random instead. How good is the network then?",
    ["better than with gates", "about the same", "worse than with gates"],
)
prediction_random

# %%
small = {"trunk": "plain", "batch_size": 50}
models = {
    "learned gates": PatchWRN(patches_per_expert=2, **small),
    "no gates": PatchWRN(gates="none", **small),
    "random patches": PatchWRN(gates="random", patches_per_expert=2, **small),
    "CNN": WRN(**small),
}
settings = {"samples": 600, "trials": 3, "seed": SEED, "epochs": 5, "measure": "last", "record_every": 10**6}
ends = {name: final(train(model, task, **settings)) for name, model in models.items()}
columns = ["trial 1", "trial 2", "trial 3"]
table = pd.DataFrame({name: end["test_accuracy"] for name, end in ends.items()}, columns).T
gain = table - table.loc["no gates"]
table["mean gain over no gates"] = gain.mean(axis=1)
table["its standard error"] = gain.std(axis=1) / 3**0.5
table.round(3)

# %% jupyter={"source_hidden": true} tags=["compare"]
# Compares your prediction with the result.
means = table[columns].mean(axis=1)
gap = means["random patches"] - means["learned gates"]
outcome = "b" if abs(gap) < 0.03 else "a" if gap > 0 else "c"
prediction_random.seen(outcome, f"Accuracy changes by {gap:.2f}: gates do choose well.")

# %% [markdown]
# Compare trial by trial. Learned gates gain about .01 over no gates, and the CNN about .02. With three trials (two degrees
# of freedom) only differences beyond about four standard errors count, and neither reaches that. With nine
# trials (seeds 0 to 2) gates gain .010 ± .006 over no gates. With 200 samples and 12 trials they gain -.002 ± .017. Random
# patches are about .35 worse, and that is beyond doubt. So gates choose well, and what they choose is worth no more than
# all patches.
#
# Where do the kept patches lie? Here are the first images of trial 1, as expert 1 sees them:

# %%
figure, panels = plt.subplots(1, 6, figsize=(11, 2.1), facecolor=theme.PAPER, layout="constrained")
for example, panel in enumerate(panels):
    plots.kept_patches(ends["learned gates"], panel, example=example)
print("kept in the object:", ends["learned gates"]["kept_in_object"].round(2), "by chance .25")

# %% [markdown]
# *What to see.* The frame marks the object. The clear patches are the two that expert 1 keeps. It prefers strokes, often
# those of the object, and often strokes beside it.

# %% jupyter={"source_hidden": true} tags=["compare"]
# Compares your prediction with the result.
share = 100 * float(ends["learned gates"]["kept_in_object"].mean())
prediction.seen(share, f"It is {share:.0f} %: a cell beside the object knows much of it, too.")

# %% [markdown]
# ### What it costs
#
# The paper says that its mixture, WRN-pMoE, and its CNN, WRN, have "an equal number of parameters", and that WRN-pMoE
# needs about 58 % of the FLOPs (operations) of WRN (table 2). Both can be counted:

# %%
plots.picture(figures.compute())

# %% [markdown]
# *What to see.* Lines are counted, stars are published. The two solid lines coincide: the authors' code multiplies patches
# that are not kept by zero, which costs as much as keeping them. The dotted line leaves them out. For 4,000 samples the
# published WRN lies above what all 50 epochs can cost. The paper does not count operations. It multiplies seconds by the
# speed of its GPU.

# %% [markdown]
# ## A leak, and a gain that is not the mixture's
#
# Another paper ("Towards Understanding the Mixture-of-Experts Layer", table 2) asks whether an image was turned by 30
# degrees. There a mixture of networks is right more often than one network, by 2 to 4 points. We try the task with 8x8
# digits and a single network.

# %%
prediction_size = predict(
    "How many parameters does a network need to tell turned digits from upright ones?",
    {"about a million": 1e6, "about ten thousand": 1e4, "about a hundred": 1e2},
)
prediction_size

# %%
leaky = figures.controls("leaky", ("single",), trials=2, seed=SEED, epochs=5)
leaky[["test_accuracy", "parameters"]].to_dataframe().round(3)

# %% jupyter={"source_hidden": true} tags=["compare"]
# Compares your prediction with the result.
prediction_size.seen(float(leaky["parameters"].max()), "The network does not look at the digit at all.")

# %% [markdown]
# With 130 parameters a network cannot know digits. It need not. Turning an image *interpolates* between pixels and moves the
# edges out of the frame, and either can be seen without knowing any digit. Such a way to the answer is called a *leak*. A
# comparison on this task only shows which model finds the leak. (In the last exercise you find it yourself, without any
# training.)
#
# ### A task with opposite rules
#
# Now a task without that leak, made for mixtures. Digits are turned left or right by 25 degrees, and half of them are
# negatives (white on black). On negatives the answer is *reversed*. So there are two kinds of images with a rule each, and
# two experts. Here are networks of 1 and 2 filters, and the controls:

# %%
opposite = figures.controls("reversed", ("single", "wide", "mixture", "oracle"), trials=2, seed=SEED, epochs=4)
plots.picture(opposite)

# %% [markdown]
# *What to see.* "single" is one expert alone. "wide" is one network with twice the filters. "oracle" sends every image to
# the expert of its kind. All are right in 97 to 100 of 100 images, and the mixture is among the best. How does it do that?
# Watch it sort 48 test images:

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
# *What to see.* Each image lies in the bin of the expert that receives it. Crosses are wrong answers. At step 0 the
# router is 0 and expert 1 gets everything. At the end both experts are busy and all answers are right. But are these bins
# positives and negatives? Count:

# %%
last = moments[-1]
kinds = pd.DataFrame({"expert": last.expert + 1, "kind": last.clusters, "answer": last.labels})
kinds["kind"] = np.where(kinds["kind"] == 1, "negative", "positive")
counts = {name: pd.crosstab(kinds["expert"], kinds[name]) for name in ("kind", "answer")}
pd.concat(counts, axis=1, names=["images by", ""])

# %% [markdown]
# The router does not sort by kind at all. It sorts by *answer*: expert 1 receives the images with one label, expert 2 those
# with the other. So each expert only has to give the same answer every time. The router has done the work, and the router is
# *linear*. So the missing control is a linear function of the pixels, without any mixture:

# %%
kinds = ("leaky", "reversed", "jittered")
fits = {kind: figures.controls(kind, ("linear",), trials=2, seed=SEED).sel(model="linear") for kind in kinds}
pd.DataFrame({kind: fit["test_accuracy"] for kind, fit in fits.items()}, ["trial 1", "trial 2"]).T.round(3)

# %% [markdown]
# A linear function, fitted in milliseconds, is right in 99 to 100 of 100 unseen images, on all three tasks. The opposite
# rules do not stop it. On negatives the label is reversed and so is the image, and for a linear function two reversals
# cancel. So any gain of a mixture here may come from its linear router, which holds 290 of its 386 parameters. The
# paper's table has no such control. Our own list had none either, until we looked into the bins.
#
# ### Without the leak
#
# In "jittered" the images of both answers are turned, by 0 or 30 degrees plus up to 12 either way. All are cut to a disc and
# blurred. Now only the angle of the digit tells them apart. Four experts, as in the paper:

# %%
fair = figures.controls("jittered", ("single", "wide", "mixture"), trials=2, seed=SEED, epochs=5)
plots.picture(fair)

# %% [markdown]
# *What to see.* The mixture is as good as one wide network, and no better. In both trials its router sends every image to
# a single expert (it has *collapsed*). The linear function of the table above beats all three. `figures.controls` has more:
# "balanced" (a loss against collapse), "oracle", "random" and "same parameters".

# %% [markdown]
# ## Exercises
#
# All arrays are NumPy arrays. First the measure of the Lab's panel 2. `kept` has shape $(N, k, n)$ and is 1 where expert $s$
# keeps patch $j$ of an image. `inside` has shape $(N, n)$ and is 1 where the object is. Experts may keep different numbers
# of patches.


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
# Next, the gate of the authors' code. `scores` has shape $(n,)$ and holds $\langle w_s, x_j\rangle$. Scores may be large.


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
# Is a gain real? Two models have run in the same $T$ trials. Return the mean gain over the pairs and its standard error
# $s/\sqrt{T}$, where $s$ is the standard deviation of the gains (divide by $T-1$).


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
# Last, the leak. `images` has shape $(N, 8, 8)$: digits of the "leaky" task, with pixels from 0 to 1. Half of them are turned
# by 30 degrees. Find out which, without training anything. Hint: the images were scanned with 17 grey levels, 0 to 16. How
# many different values can a pixel of an unturned image have?


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
# Keep two things. A picture of a router tells more than an accuracy: it showed gates that look beside the object, and a
# router that had taken over the experts' work. And a gain is a statement about two models, so ask for the other one.

# %% [markdown]
# ## For readers of the paper
#
# *This part is optional: the core of the notebook ends here.* It is for those who compare it with the paper.
#
# | published | here |
# | --- | --- |
# | the mixture (WRN-pMoE) needs fewer training samples than the CNN (WRN) (section 5.2) | no gain over the network without gates, for 200 samples (a story of the Lab) or 600 |
# | gates find the patches that matter | yes, though not sharply: about 41 % of kept patches lie in the object, chance is 25 % |
# | the gate is a softmax over the kept patches (eq. 5) | the authors' code takes it over all patches; for $l=1$ the printed one cannot learn |
# | "the last convolution is replaced" | the code replaces the whole last group of the network |
# | an equal number of parameters | nearly, for CelebA (7.43 and 7.30 million); for CIFAR-10 it is 7.44 million against 3.96 |
# | the mixture trains with 58 % of the FLOPs (table 2) | counted 99 %, or 78 % if the code skipped what is not kept |
# | a mixture is 2 to 4 points better on turned images (chen2022, table 2) | on digits the gain is gone without the leak |
# | single network and mixture differ in the mixture alone | the paper trains the one by SGD, the other by normalised gradients; here all by Adam |
# | noise is added to all images | the authors' code blurs the training images alone, and reports the best epoch on the test images |
#
# A vision transformer with two layers of 8 experts each (V-MoE) can be pruned in two ways. *Silent*, the paper's: all routers
# stay, and a token that chose a pruned expert gets nothing from it. *Rerouted*, that of tools for language models: the
# routers go, too, and the token visits another expert instead. Measured on a small one (211,114 parameters, digits that
# stand on their heads) by `moe_lab_papers.pruning2024.vmoe.PruningTable`:
#
# | published (pruning2024, section 5.2) | here, ten seeds |
# | --- | --- |
# | silently pruned, half of the experts go at once with little loss | 1 to 9 points are lost, 3 in the median |
# | the change of the router's norm beats random choice | with six of eight gone in nine of ten seeds, with half gone in seven: within the error |
# | it is "an upper bound" to other scores | no: with half gone the router norm (`router-magnitude`) is ahead in eight of ten |
# | memory -60 %, FLOPs -40 %, time -40 % with 75 % pruned, whole network | one block: memory -70 %, FLOPs -63 % silently, and none of the FLOPs rerouted |
#
# In every seed rerouting loses more than silent pruning. And two digits do not separate the rules: all stay at 99 %.
#
# These runs are small: 16x16 pixels and a few hundred samples. The papers use CIFAR-10, CelebA and networks ten times as
# wide. A gain that is absent here may exist at that size. What the comparison shows is which controls a claim needs at any
# size. With CIFAR-10 on your disk and a GPU, `figures.sample_complexity(root=..., width=10)` and
# `figures.controls(root=...)` run both experiments with the same controls.

# %% [markdown]
# ## Before you go
#
# *Done? Choose File › Close and Shut Down Notebook. Each notebook holds 450 to 740 MB until its kernel is shut down, and
# Binder allows 2 GB in all.*
