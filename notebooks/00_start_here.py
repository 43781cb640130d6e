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
# # 00 · Start here
#
# **17 minutes · no GPU · no files to download**
#
# You move a slider, and a mixture of experts trains while you watch.
#
# **After this notebook you can**
# - drive a *Lab*: play, step back in time, compare two runs, take the code with you,
# - train the same model in a few lines and read its result,
# - find your way through the course.

# %% [markdown] tags=["badges"]
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/moe-lab/moe_lab/blob/v0.1.0/notebooks/00_start_here.ipynb)
# [![Open on Binder](https://mybinder.org/badge_logo.svg)](https://mybinder.org/v2/gh/moe-lab/moe_lab/v0.1.0?urlpath=lab/tree/notebooks/00_start_here.ipynb)

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

# %% [markdown]
# ## What this is about
#
# In most networks every input passes through every weight. In a **mixture of experts** it does not. The network has several
# smaller networks, the **experts**, and for every piece of the input a **router** decides which of them get to see it. So a
# network can be large while each input costs little. Many of the largest language models are built like this (Mixtral,
# DeepSeek-V3, Qwen3, gpt-oss), and their pieces are *tokens*, parts of words. In models of images the pieces are
# *patches*, squares of the picture.
#
# In those models nobody can watch a router learn. Here you can: the models are small, they train in seconds, and the
# right answer is known. The picture below shows one before training, with two experts. Read it from left to right.

# %%
import torch

from moe_lab.drawing.mixture_picture import mixture_diagram

SEED = 0
torch.set_num_threads(1)  # these models are small: more threads only wait for each other

mixture_diagram(seed=SEED)

# %% [markdown]
# 1. The sample is cut into $n$ patches. Each router gives each patch a **score**.
# 2. Each expert keeps the $l$ patches with its router's highest scores, here $l = 2$. The numbers under them are their
#    **gates**: how much each of them counts. The gates of an expert sum to 1.
# 3. Each expert computes an answer from its patches alone.
# 4. The answers are added up. The sign of the sum is the prediction.
#
# These routers are random, and neither expert gets the 6. What will they look for once they have been trained?
#
# | symbol | meaning |
# | --- | --- |
# | $n$ | patches of a sample |
# | $k$ | experts, each with a router |
# | $l$ | patches that each expert keeps |
# | $N$ | samples to learn from |
#
# Other sliders are explained where you first need them.

# %% [markdown]
# ## First, your prediction
#
# Each sample shows 16 handwritten digits. Exactly one of them is a **6** or a **7**, and that one decides the class. The
# others mean nothing. Two networks of the same size learn the task from only 100 samples:
#
# - the **CNN** looks at all 16 digits;
# - the **mixture** has 4 experts, and each may look at only 4 digits of its own choice. Its paper calls it *pMoE*: a
#   mixture of experts that routes patches.
#
# Which one is right more often on new samples? The Lab asks you before it trains. Choose an answer, or drag the two marks in
# its right panel to how often you expect each to be right.

# %%
from moe_lab_widgets import RouterAlignmentLab

lab = RouterAlignmentLab(seed=SEED, ask=True)
lab

# %% [markdown]
# *What to see.* **Left:** every numbered mark is an expert's router. It starts near the middle, where it prefers nothing,
# and moves towards $o_1$ (the look of a 6) or $o_2$ (the look of a 7). **Middle:** two samples, one per class. A row is
# one expert, and its framed digits are the four that it gets to see; a tick says that the digit that decides is among them.
# **Right:** how often the mixture (black) and the CNN (grey, dashed) are right on new samples. Below that: how often the
# digit that decides reaches each expert.

# %% [markdown]
# With these settings the mixture wins, although each expert sees only a quarter of the sample: its experts see less clutter.
# Nobody told the routers what a 6 or a 7 is. They learn what to look at from the labels alone. Notebook 02 explains how.

# %% [markdown]
# ## How a Lab works
#
# | control | what it does |
# | --- | --- |
# | the sliders | change the experiment; training starts again at once; the number beside a slider can be typed |
# | <kbd>More settings</kbd> | shows the sliders that are moved less often |
# | <kbd>Play</kbd> or <kbd>Pause</kbd> | train on or hold; when the run has ended, show it again |
# | <kbd>Step</kbd>, <kbd>Reset</kbd> | train for one step and stop; go back to the start, where a held run waits for <kbd>Play</kbd> |
# | the slider beside them | moves through the run by hand; <kbd>Play</kbd> then goes on from there |
# | <kbd>speed</kbd> | slow enough to follow, or as fast as it trains |
# | <kbd>Pin</kbd> | keeps the present curves in the picture, to compare with the next run |
# | <kbd>goal</kbd> | a task to solve with the sliders; below the tasks, prepared settings that show something |
# | <kbd>seed</kbd> | other random numbers, the same experiment |
# | <kbd>Copy as code</kbd> | the Python that makes this run without the Lab |
# | <kbd>Save picture</kbd>, <kbd>Save data</kbd>, <kbd>Save page</kbd> | a PNG; everything recorded; a page that plays the run without a kernel |
#
# Try these three, half a minute each:
#
# 1. Drag the slider below the picture to the start and back to the end. When do the routers find their digit?
# 2. Press <kbd>Pin</kbd>, then move $l$ from 4 to 2. What changes in the right panel?
# 3. Choose another <kbd>seed</kbd>. Do the same experts find the 6? (They need not: the random start decides who finds it.)
#
# In Google Colab a slider responds only when no cell is running.
#
# A Lab is also a Python object. `lab.set(patches_per_expert=2)` moves a slider, `lab.pause()` holds it, and
# `lab.values` says where the sliders stand.

# %% [markdown]
# ## The same without a Lab
#
# A few lines train both models 8 times, with other data and other random numbers each time, and draw how often they are
# right on new samples:

# %%
from moe_lab import collect
from moe_lab.drawing.plots import curves
from moe_lab.patch_routing import CNN, DigitTask, JointMoE, train

task = DigitTask(digits=(6, 7), patches=16)
mixture = JointMoE(experts=4, patches_per_expert=4)
result = collect(train(mixture, task, samples=100, trials=8, seed=SEED))
reference = collect(train(CNN(), task, samples=100, trials=8, seed=SEED))
curves({"mixture": result, "CNN": reference}, "test_accuracy")

# %% [markdown]
# *What to see.* Both begin with guessing, at 50 %. From about step 30 on the mixture is ahead. A training ends when it makes no
# error on its own samples, so the CNN's go on for longer.
#
# `result` is an `xarray.Dataset`: arrays with named axes. `step` counts updates, and `trial` the independent trainings. Put
# `result` alone into a cell to look at all of it, and open *Data variables* there; its attributes say how to make it again.
# Here is one of its arrays, the test accuracy, at the last step. Each trial has a number:

# %%
for name, run in {"mixture": result, "CNN": reference}.items():
    print(f"{name:8}", *(f"{accuracy:.3f}" for accuracy in run["test_accuracy"].isel(step=-1).values))

# %% [markdown]
# Trial by trial the two models see the same samples, so you can compare them in pairs. `train` itself returns an
# *iterator*: it yields a Snapshot every few steps, and when you stop asking, it stops training. That is all a Lab does.
#
# ## What happened and why
#
# Every expert $s$ has a router $w_s$. It scores each patch $x^{(j)}$ by $\langle w_s, x^{(j)} \rangle$, and the expert gets
# the $l$ patches with the largest scores:
#
# $$J_s(x) = \{\text{the } l \text{ patches } j \text{ with the largest } \langle w_s, x^{(j)}\rangle\}.$$
#
# Once a router points at the 6, its expert sees the 6 and three other digits, not fifteen. With less clutter it needs fewer
# samples. That is the claim of the paper behind notebooks 01 to 03: *Patch-level Routing in Mixture-of-Experts is
# Provably Sample-efficient for Convolutional Neural Networks* (ICML 2023).

# %% [markdown]
# ## Exercise
#
# Write a function that reads the mean test accuracy from a result: at the last step, averaged over the trials.
# Its argument is a Dataset as above. Two methods will do: `.isel(step=...)` and `.mean("trial")`.

# %%
from moe_lab import exercises


def mean_accuracy(result):
    """The test accuracy at the last step, averaged over trials: a Dataset -> one number."""
    return None  # your code


exercises.check_mean_accuracy(mean_accuracy)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def mean_accuracy(result):
#     return float(result["test_accuracy"].isel(step=-1).mean("trial"))
# ```
#
# </details>

# %% [markdown]
# ## For readers of the paper
#
# *This part is optional: the core of the notebook ends here.* It is for those who compare it with the paper.
#
# - The paper uses MNIST; these are the 8×8 digits that come with scikit-learn, so that nothing is downloaded.
# - The pair (6, 7) was **picked** from all 45 pairs because it is a good example. It is not the
#   only one: with this setting and 5 trials a pair, the mixture is ahead on all 45, 93 % against 82 % on average.

# %% [markdown]
# ## The course

# %% [markdown] tags=["course"]
# | notebook | minutes | you will |
# | --- | --- | --- |
# | 00 Start here | 17 | see it move |
# | 01 Routing by hand | 35 | route four patches on paper, three ways |
# | 02 Router alignment | 40 | see why routers turn, measure it, and break it |
# | 03 Phase transitions | 45 | find out how many samples it takes, and which of the paper's claims hold |
# | 04 Specialisation | 45 | see experts divide the clusters among them, and measure how well |
# | 05 Pruning | 45 | find the experts that matter, and throw the others away |
# | 06 Recovery | 45 | read the experts off a tensor, then the router, and see when EM needs that |
# | 07 Landscapes | 40 | replace the squared error by two losses that lead every start home |
# | 08 Real images, real models | 45 | watch deep networks route pieces of images, and find out by controls what a gain is due to |
# | 09 Prune a model that people use | 30 | prune a Mixtral of transformers in two ways, save it, and ask whether the choice was a good one |
# | 10 Balance and collapse | 45 | watch a router collapse, cure it in four ways, and find out when balance hurts |
# | 11 Routing choices | 40 | see which patches a routing loses, and what that costs, at equal compute |
# | 12 Build your own mixture | 45 | write a mixture of experts in plain torch, train it, and see the Lab's picture of it |
# | 13 Pruning, further | 35 | prune other checkpoints, with another loss and another routing, and compare theorems with runs |
# | 14 Recovery, further | 30 | hold a paper's figures and formulas against runs, and find why some do not replicate |
# | 15 Specialisation, further | 20 | trace a published table to what trained it, sharpen a lemma, and check a theorem on a run |

# %% [markdown]
# Take them in this order, or choose from the map, in [the course at a glance](00_course.ipynb). Every notebook asks for a
# prediction first. Make one: it is worth the minute.
#
# *Done? Choose File › Close and Shut Down Notebook. Each notebook holds 450 to 740 MB until its kernel is shut down, and
# Binder allows 2 GB in all.*
