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
# # 03 · Phase transitions
#
# **45 minutes · no GPU · after notebook 02**
#
# With too few samples training nearly always fails. With a few more it nearly always succeeds. The border between the
# two is called a *phase transition*. Its place depends on $l$, the number of patches that each expert keeps, and the
# paper predicts how. In this notebook you compute a map of successes, find the border and compare it with the theorems.
#
# **After this notebook you can**
# - read a map of successes, and say how precise 20 trainings per cell are,
# - compute $l^*$ and $\delta$, and say what the theorems promise about them,
# - use the bounds on the number of samples as scaling laws, not as sample sizes,
# - say which of the paper's claims replicate.

# %% [markdown] tags=["badges"]
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/moe-lab/moe_lab/blob/v0.1.0/notebooks/03_phase_transitions.ipynb)
# [![Open on Binder](https://mybinder.org/badge_logo.svg)](https://mybinder.org/v2/gh/moe-lab/moe_lab/v0.1.0?urlpath=lab/tree/notebooks/03_phase_transitions.ipynb)

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

from moe_lab import exercises, final
from moe_lab.patch_routing import CNN, JointMoE, PatternTask, SeparateMoE, figures, theory, train
from moe_lab_widgets import PhaseTransitionLab, predict

SEED = 0
torch.set_num_threads(1)  # these models are small: more threads only wait for each other

# %% [markdown]
# ## First, your prediction
#
# The Lab below draws a map. $N$, the number of training samples, grows to the right. $l$ grows upwards, from 1 to 8.
#
# The task is synthetic. A sample has $n=16$ patches. One of them is $o_1$ or $o_2$ and decides the class. Two others
# are *distractors*: both resemble $o_1$, or both resemble $o_2$. An expert that keeps three patches has room for both
# distractors and for the patch that decides. This number is called $l^*$, so $l^*=3$ here.
#
# Training is *separate*: the routers are trained first, then the experts. A training succeeds if the test accuracy
# reaches 95 %.
#
# Where does the border between failure and success run? The Lab asks you before it trains: at which $l$ are the fewest
# samples enough? Choose an answer. Or draw the whole border: drag each of the eight marks in panel 2 to the $N$ that this $l$
# needs.

# %% [markdown]
# ## The Lab
#
# The next cell trains 1280 networks, 20 for each cell of the map. A first look, with 5 trainings per cell, appears
# within seconds.

# %%
lab = PhaseTransitionLab(seed=SEED, ask=True)
lab

# %% [markdown]
# *What to see.* **1:** Each cell is one pair of $l$ and $N$. Its number is the percentage of the 20 trainings that
# succeed. The thick line is the border: to its right at least 90 % succeed. The dashed line marks $l^*$. **2:** The $N$
# that each $l$ needs. **3:** Coverage of the worse class, that is, how often its deciding patch reaches an expert.
#
# With 20 trainings per cell, a share of 90 % has a standard error of about 7 points. So read the border, not a single
# cell. <kbd>k · experts</kbd> is grey: separate training has one expert for each class, two here.
#
# *Your turn.* The menu <kbd>goal</kbd> has three tasks. Bring each about with the sliders. The Lab sees when a run has
# reached one, and asks you why. A wrong answer gets a reason, too.
# Below the tasks there are settings to look at: *noise*, *look-alike classes*, *handwritten digits*.

# %% [markdown]
# The column of the map at $N=200$ can be computed in code, with the settings of the Lab:

# %%
task = PatternTask(distractors=2, gap=1.2)
routed = SeparateMoE(patches_per_expert=1, learning_rate=10.0)
every = tuple(range(1, 9))
column = figures.phase_map(
    patches_per_expert=every, samples=(200,), trials=20, seed=SEED, task=task, model=routed, test_samples=400
)
share = column["success"].mean(("samples", "trial")).to_pandas()
share.rename_axis("l").to_frame("share of successes").T

# %% [markdown]
# - **From $l=3$ on** the border leans to the right. Every further patch is clutter, and clutter costs samples.
# - **At $l=2$** the border jumps off the map. The two distractors can take both places of an expert. Then $o$ is left
#   out, and coverage shows it: half of the samples of a class lose their deciding patch.
# - **At $l=1$** coverage is just as bad, and yet training succeeds. The two distractors of a sample resemble the same
#   pattern. If they resemble $o_1$, they take the only place of expert 1, but not that of expert 2. If $o_2$ is in the
#   sample, expert 2 receives it. If it does not, the other class is the answer.
#
# Lemma 4.1 of the paper promises that $o$ is routed from $l^*$ on. It does not say that training fails below $l^*$.

# %% [markdown]
# ## What happened and why
#
# ### $l^*$: how much room an expert needs
#
# A pattern $q$ that says nothing about the class is called *irrelevant*. It is *closer to $o_1$* if
# $\langle o_1 - o_2, q\rangle > \delta'$, and closer to $o_2$ if $\langle o_2 - o_1, q\rangle > \delta'$, where
# $\delta'$ is a threshold. Suppose that in every sample at most $l^*-1$ patterns are closer to the same side. A router
# that points along $o_1 - o_2$ then ranks at most $l^*-1$ patches before $o_1$. So an expert that keeps $l \ge l^*$
# patches always keeps $o_1$ (lemma 4.1). `theory.l_star` counts $l^*$ in samples:

# %%
print("l* of the task:", task.l_star)
print("l* counted in 500 samples:", theory.l_star(task))

# %% [markdown]
# Noise can push more patches over the threshold. Then $l^*$ counted in samples is larger than $l^*$ of the patterns:

# %%
counted = {noise: theory.l_star(task.replace(noise=noise)) for noise in (0.0, 0.3, 1.0)}
pd.DataFrame({"l* counted": counted}).rename_axis("noise").T

# %% [markdown]
# ### $\delta$: how close the patterns are
#
# The overlap of the two class patterns is $\delta_d = \langle o_1, o_2\rangle$. The overlap of a class pattern with an
# irrelevant pattern is at most $\delta_r$ in size. The paper combines the two into one number:
#
# $$\delta = \frac{1}{1 - \max(\delta_d^2, \delta_r^2)}, \qquad \delta_d = \langle o_1, o_2\rangle, \quad |\langle o_i, q\rangle| \le \delta_r. \tag{9}$$
#
# All bounds of the paper grow with $\delta^6$. Since $\delta_d$ is squared, opposite patterns with $\delta_d = -0.9$
# have the same $\delta$ as nearly equal patterns with $\delta_d = +0.9$.

# %%
prediction_overlap = predict(
    "Which class patterns are harder to learn: opposite ones or nearly equal ones?",
    ["opposite patterns (-0.9)", "nearly equal patterns (+0.9)", "both are equally hard"],
)
prediction_overlap

# %%
models = {"separate": SeparateMoE(patches_per_expert=4), "joint": JointMoE(), "CNN": CNN()}
rows = {}
for overlap in (-0.9, 0.0, 0.9):
    patterns = PatternTask(distractors=2, gap=0.3, delta_d=overlap)
    rows[overlap] = {"delta": patterns.delta}
    for name, model in models.items():
        last = final(train(model, patterns, samples=100, trials=5, seed=SEED, measure="last"))
        rows[overlap][name] = last["test_accuracy"].mean()
pd.DataFrame(rows).T.rename_axis("delta_d").round(2)

# %% jupyter={"source_hidden": true} tags=["compare"]
# Compares your prediction with the result.
opposite, equal = (np.mean([rows[overlap][name] for name in models]) for overlap in (-0.9, 0.9))
outcome = "c" if abs(opposite - equal) < 0.02 else "a" if opposite < equal else "b"
prediction_overlap.seen(outcome, "The same delta stands for an easy task and for a hard one.")

# %% [markdown]
# Both rows have $\delta = 5.26$, yet opposite patterns are the easiest and nearly equal patterns the hardest. Eq. 9
# comes from a proof. It does not measure difficulty.
#
# ### The theorems, as scaling laws
#
# Let $\epsilon$ be the error that is allowed, $p$ the number of sets from which irrelevant patterns are drawn, and $k$
# the number of experts. The paper proves that these numbers of samples are enough, up to constants that it does not
# give:
#
# $$N_S = \Omega\!\left(\frac{l^8 p^{12} \delta^6}{\epsilon^{16}}\right), \qquad
# N_J = \Omega\!\left(\frac{k^4 l^6 p^{12} \delta^6}{\epsilon^{16}}\right), \qquad
# N_C = \Omega\!\left(\frac{n^8 p^{12} \delta^6}{\epsilon^{16}}\right) \tag{4.2, 4.5, 4.3}$$
#
# $N_S$ is for separate training with $l \ge l^*$, $N_J$ for joint training in which each class has its expert
# (assumption 4.4), and $N_C$ for the CNN. Without the constants only ratios have a meaning:

# %%
rows = {}
for count in (2, 4, 8, 16):
    sizes = theory.Sizes(patches=16, patches_per_expert=count, experts=8)
    rows[count] = {
        f"N_C / N_{kind}": theory.advantage("samples", kind, sizes) for kind in ("separate", "joint")
    }
pd.DataFrame(rows).T.rename_axis("l").map("{:,.3g}".format)

# %% [markdown]
# Read the row for $l=4$ like this: the bound for the CNN is 65,500 times the bound for separate training. At $l=n$
# separate training has no advantage, and the factor $k^4$ makes the bound for joint training worse than the bound for
# the CNN.

# %% [markdown]
# The paper bounds the number of samples for separate training by a multiple of $l^8$. From $l=2$ to $l=8$ this bound
# grows by a factor of $4^8 = 65{,}536$. What do you expect for the number that training really needs?

# %%
prediction_growth = predict(
    "From l = 2 to l = 8, how many times as many samples does separate training need?",
    {"about 4 times": 4, "about 256 times": 256, "about 65,536 times": 65536},
)
prediction_growth

# %% [markdown]
# Now measure the growth. The next cell uses the 8×8 digits and separate training. $N$ is enough if at least 90 % of 10
# trials succeed:

# %% tags=["varies"]
digits = figures.phase_map(
    patches_per_expert=(2, 5, 8), samples=(100, 180, 360, 500, 700), trials=10, seed=SEED
)
table = digits["success"].mean("trial").to_pandas()
table["N needed"] = figures.samples_needed(digits)
table

# %% jupyter={"source_hidden": true} tags=["compare"]
# Compares your prediction with the result.
growth = float(table["N needed"].loc[8] / table["N needed"].loc[2])
prediction_growth.seen(
    growth, f"The factor is {growth:.1f}. The theorem says what is enough, not what is needed."
)

# %% [markdown]
# From $l=2$ to $l=8$ the number of samples grows about four times, where the bound grows 65,536 times. The theorem is
# not wrong: it says how many samples are enough, not how many are needed. Its direction is right and its size is far
# off, which is normal for such proofs.

# %% [markdown]
# ## Exercises
#
# All arrays in these exercises are NumPy arrays. The first function is eq. 9.


# %%
def delta(delta_d, delta_r):
    """Computes delta by eq. 9 from two numbers -> one number."""
    return None  # your code


exercises.check_delta(delta)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def delta(delta_d, delta_r):
#     return 1 / (1 - max(delta_d**2, delta_r**2))
# ```
#
# </details>

# %% [markdown]
# Next, $l^*$. The array `irrelevant` holds the irrelevant patterns of every sample. A pattern $q$ leans to $o_1$ if
# $\langle o_1 - o_2, q\rangle$ is greater than `threshold`. It leans to $o_2$ if $\langle o_2 - o_1, q\rangle$ is.


# %%
def l_star(irrelevant, o_1, o_2, threshold):
    """Computes one more than the largest number of patterns of one sample that lean to the same side.

    Args:
      irrelevant: NumPy array (samples, n-1, d).
      o_1, o_2: NumPy arrays (d,).
      threshold: a number.

    Returns:
      A whole number.
    """
    return None  # your code


exercises.check_l_star(l_star)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def l_star(irrelevant, o_1, o_2, threshold):
#     lean = irrelevant @ (o_1 - o_2)
#     return 1 + max((lean > threshold).sum(1).max(), (-lean > threshold).sum(1).max())
# ```
#
# </details>

# %% [markdown]
# Next, the border of a map for one value of $l$.


# %%
def samples_needed(success, samples, level):
    """Finds the smallest N such that N and all larger values reach the level.

    Args:
      success: NumPy array (samples, trial) of True and False.
      samples: NumPy array (samples,), the values of N in rising order.
      level: the share of trials that has to succeed, such as 0.9.

    Returns:
      A number; np.inf if there is no such N.
    """
    return None  # your code


exercises.check_samples_needed(samples_needed)


# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def samples_needed(success, samples, level):
#     import math
#
#     needed = math.inf
#     for share, count in zip(success.mean(axis=1)[::-1], samples[::-1], strict=True):
#         if share < level:
#             break
#         needed = count
#     return needed
# ```
#
# </details>


# %%
def sample_ratios(n, count, k):
    """Computes N_C / N_S and N_C / N_J by the theorems for l = count: three whole numbers -> two numbers."""
    return None  # your code


exercises.check_sample_ratios(sample_ratios)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def sample_ratios(n, count, k):
#     return (n / count) ** 8, n**8 / (k**4 * count**6)
# ```
#
# </details>

# %% [markdown]
# ## For readers of the paper
#
# *This part is optional. The core of the notebook ends here.* It compares the measurements with the paper.
#
# ### Figure 4: "pMoE needs 60 % of the CNN's samples"
#
# The paper calls the mixture *pMoE*. The next cell measures the mean test accuracy on the 8×8 digits, and the $N$ at
# which each model crosses 95 %:

# %%
curves = figures.sample_complexity(samples=(60, 100, 200, 500), trials=5, seed=SEED)
table = curves["test_accuracy"].mean("trial").to_pandas()
table["N for 95 %"] = figures.samples_for(curves).round(-1)
table["of the CNN's"] = table["N for 95 %"] / table.loc["cnn", "N for 95 %"]
table.round(3)

# %% [markdown]
# The direction replicates, the number does not. Here joint training needs about a seventh of the CNN's samples and
# separate training about a third.
#
# The paper uses MNIST. We measured it with 10,000 of the images and 5 trials. The CNN needs 860 samples and joint
# training 225 (26 %). Separate training needs 290, 480 and 400 with three seeds (34 to 56 %). So 60 % is not a
# constant. It depends on the training mode, the data, the batch size and the seed. If you have the MNIST files, run
# `figures.sample_complexity("mnist", root="folder")`.
#
# We also trained as the authors' public code does (`recipe="authors"`). Joint training then needs 23 to 41 % of the
# samples of a CNN with 40 filters (four seeds). The choice of test images matters. We hold them out. If training and
# test samples are drawn from the same images, the CNN reaches 97.0 % instead of 95.9 %, and joint training needs 53 %.
#
# ### Figure 6: accuracy rises with $k$, then falls
#
# The 40 neurons are divided equally among $k$ experts, and $N=100$:

# %%
experts = figures.accuracy_by_experts(experts=(1, 2, 4, 8, 20, 40), samples=(100,), trials=10, seed=SEED)
accuracy = experts["test_accuracy"].squeeze("samples")
pd.DataFrame(
    {"mean": accuracy.mean("trial"), "std": accuracy.std("trial")}, index=accuracy["experts"].to_index()
).T.round(3)

# %% [markdown]
# The rise is clear. With more experts it is more likely that each class finds one (notebook 02). The fall does not
# appear: from $k=8$ on the means differ by less than one standard deviation.
#
# ### Lemma K.1: "not linearly separable as long as $l^* = \Omega(1)$"
#
# The next cell fits a linear classifier to all $n \cdot d$ numbers of a sample. The task has $l^* = 7$, once with many
# and once with few sets of irrelevant patterns:

# %%
rows = {}
for sets in (256, 16):
    found = theory.linear_separability(PatternTask(distractors=6, pattern_sets=sets, noise=0.0))
    rows[sets] = {"training accuracy": found.train_accuracy, "test accuracy": found.test_accuracy}
pd.DataFrame(rows).T.rename_axis("p").round(2)

# %% [markdown]
# With 256 sets the lemma holds. The best hyperplane is hardly better than guessing, and a linear program shows that
# none separates the classes (claim `pmoe2023/lemmaK.1`). With 16 sets the lemma **fails**: test accuracy is 1.00.
#
# The proof only considers hyperplanes built from $o_1$ and $o_2$. In $d=32$ dimensions there is room for another one,
# which takes the same value on all 16 sets, so that they cancel. The lemma needs $p > d-2$, which the paper does not
# say.
#
# ### Smaller differences
#
# - The paper says that $\delta$ falls as $o_1$ and $o_2$ move apart. This is true only up to a right angle, because eq.
#   9 squares $\delta_d$ (see above).
# - The paper does not define "success" in figure 5. Here it means a test accuracy of at least 95 %.
# - After theorem 4.5 the paper gives $M_C/M_J = n^{10}/(k^3 l^6)$ for the numbers of neurons $M$. Its own $M_J$
#   contains $n^2$, so the ratio is $n^8/(k^3 l^6)$.
# - In the paper's figure 7 (joint training, MNIST) accuracy falls beyond $l^*=6$. On the 8×8 digits it is flat from
#   $l=2$ on, because gates that are trained jointly keep $o$ apart from the clutter even where everything is kept.

# %% [markdown]
# ## Before you go
#
# You now know what the paper on patch-level routing proves and what it shows. You also know what to check in any such
# paper: coverage beside accuracy, all trials and not only the best one, and each claim against a measurement of your
# own.
#
# *Done? Choose File › Close and Shut Down Notebook. Each notebook holds 450 to 740 MB until its kernel is shut down,
# and Binder allows 2 GB in all.*
