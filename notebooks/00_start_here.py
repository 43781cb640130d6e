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
# - train the same model in six lines and read its result,
# - find your way through the course.

# %% [markdown] tags=["badges"]
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/moe-lab/moe_lab/blob/main/notebooks/00_start_here.ipynb)
# [![Open on Binder](https://mybinder.org/badge_logo.svg)](https://mybinder.org/v2/gh/moe-lab/moe_lab/main?urlpath=lab/tree/notebooks/00_start_here.ipynb)

# %% tags=["setup"] jupyter={"source_hidden": true}
# On Colab this installs moe_lab beside the torch, numpy and ipywidgets there. Elsewhere it does nothing.
import sys

if "google.colab" in sys.modules:
    import subprocess
    from importlib.metadata import version

    keep = [f"{name}=={version(name)}" for name in ("torch", "numpy", "ipywidgets")]
    source = "git+https://github.com/moe-lab/moe_lab"
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

from moe_lab.mixture_picture import mixture_diagram

SEED = 0
torch.set_num_threads(1)  # these models are small: more threads only wait for each other

mixture_diagram(seed=SEED)

# %% [markdown]
# 1. The sample is cut into $n$ patches. Each router gives each patch a **score**.
# 2. Each expert gets the $l$ patches with its router's highest scores, here $l = 2$. The numbers under them are their
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
# | $l$ | patches that each expert gets |
# | $N$ | samples to learn from |
#
# Other sliders are explained where you first need them; the mouse over a slider shows what it means.

# %% [markdown]
# ## First, your prediction
#
# Each sample shows 16 handwritten digits. Exactly one of them is a **6** or a **7**, and that one decides the class. The
# others mean nothing. Two networks of the same size learn the task from only 100 samples:
#
# - the **CNN** looks at all 16 digits;
# - the **mixture** has 4 experts, and each may look at only 4 digits of its own choice. The Lab calls it *pMoE*, as its
#   paper does: a mixture of experts that routes patches.
#
# Which one will be right more often on new samples? Write it down: *the mixture, the CNN, or no difference.* Then run the
# next cell.

# %%
from moe_lab_widgets import RouterAlignmentLab, predict

prediction = predict(
    "Which one is right more often on new samples?",
    ["the mixture", "the CNN", "no difference"],
)
prediction

# %%
lab = RouterAlignmentLab(seed=SEED)
lab

# %% [markdown]
# *What to see.* **Left:** every numbered mark is an expert's router. It starts near the middle, where it prefers nothing,
# and moves towards $o_1$ (the look of a 6) or $o_2$ (the look of a 7). **Middle:** two samples, one per class. A row is
# one expert, and its framed digits are the four that it gets to see; a tick says that the digit that decides is among them.
# **Right:** how often the mixture (black) and the CNN (grey, dashed) are right on new samples, and below, how
# often the digit that decides reaches each expert.
#
# The mixture wins, although each expert sees only a quarter of the sample. Nobody told the routers what a 6 or a 7 is:
# they learn what to look at from the labels alone. Notebook 02 explains how.

# %% [markdown]
# ## How a Lab works
#
# | control | what it does |
# | --- | --- |
# | sliders | change the experiment; training starts again at once; the number beside each can be typed |
# | More settings | the sliders that are less often moved |
# | Play / Pause, Step, Reset | let it run, hold it, take one record, start again |
# | speed | slow enough to follow, or as fast as it trains |
# | time | scrub back and forth through the recorded run |
# | Pin | keep the present curves in the picture, to compare with the next run |
# | story | a prepared setting, with a sentence on what to see |
# | seed | other random numbers, the same experiment |
# | Copy as code | the Python that makes this run without the Lab |
# | Save picture, Save data, Save page | a PNG; everything recorded; a page that plays the run without a kernel |
#
# Try these three, half a minute each:
#
# 1. Drag **time** to the start and back to the end. When do the routers find their digit?
# 2. **Pin**, then move $l$ from 4 to 2. What changes in the right panel?
# 3. Choose another **seed**. Do the same experts find the 6? (They need not: all experts start alike.)
#
# Run cell by cell: while another cell runs (`[*]` beside it), a Lab plays on, but a slider that you move is heard only when
# that cell has ended.
#
# A Lab is also a Python object. `lab.set(patches_per_expert=2)` moves a slider, `lab.pause()` holds it, and
# `lab.values` says where the sliders stand.

# %% [markdown]
# ## The same without a Lab
#
# Six lines train the mixture 8 times, with other data and other random numbers each time:

# %%
from moe_lab import collect
from moe_lab.patch_routing import CNN, DigitTask, JointMoE, train

task = DigitTask(digits=(6, 7), patches=16)
mixture = JointMoE(experts=4, patches_per_expert=4)
result = collect(train(mixture, task, samples=100, trials=8, seed=SEED))
result

# %% [markdown]
# The result is an `xarray.Dataset`: arrays with named axes. `step` counts updates, `trial` the independent trainings.
# Its attributes say how to make it again. Here is the test accuracy at the last step, one number a trial, beside that of
# the CNN:

# %%
reference = collect(train(CNN(), task, samples=100, trials=8, seed=SEED))
last = {"mixture": result, "CNN": reference}
for name, run in last.items():
    print(f"{name:8}", *(f"{accuracy:.3f}" for accuracy in run["test_accuracy"].isel(step=-1).values))

# %%
gain = float((result["test_accuracy"] - reference["test_accuracy"].isel(step=-1)).isel(step=-1).mean())
outcome = "c" if abs(gain) < 0.01 else "a" if gain > 0 else "b"
prediction.seen(
    outcome, f"It gets {100 * gain:.0f} more of every 100 samples right: its experts see less clutter."
)

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
# Once a router points at the 6, its expert sees the 6 and three other digits, not fifteen. Less clutter, fewer samples
# needed. That is the claim of the paper behind this course's first room: *Patch-level Routing in Mixture-of-Experts is
# Provably Sample-efficient for Convolutional Neural Networks* (ICML 2023).

# %% [markdown]
# ## Exercise
#
# Write a function that reads the mean test accuracy off a result: at the last step, averaged over the trials.
# Two methods will do: `.isel(step=...)` and `.mean("trial")`.

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

# %% [markdown]
# Take them in this order. Every notebook asks for a prediction first: write it down, it is worth the minute.
#
# *Done? Choose File › Close and Shut Down Notebook. Each notebook holds 450 to 740 MB until its kernel is shut down, and
# Binder allows 2 GB in all.*
