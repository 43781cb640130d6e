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
# # 06 · Recovery
#
# **45 minutes · no GPU · after notebooks 00 and 01**
#
# If you know the experts, you can learn the router. If you know the router, you can learn the experts. If you know
# neither, each waits for the other, and this is called a *gridlock*. To break it, replace $y$ by a cubic in $y$. In its
# third moment the router cancels, and only the experts remain. The router follows in a second step. You also find out
# when plain EM, which estimates both at once, needs this help.
#
# **After this notebook you can**
# - say what a moment of $y$ contains, and why the moment of $y^3 - 3(1+\sigma^2)y$ contains the experts only,
# - recover a mixture of experts from samples, and measure the error although experts can be renumbered and all gates
#   shifted together,
# - tell an EM that is stuck from one that is still improving,
# - ask about a published comparison: which baseline, how many iterations, which error?

# %% [markdown] tags=["badges"]
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/moe-lab/moe_lab/blob/v0.1.0/notebooks/06_recovery.ipynb)
# [![Open on Binder](https://mybinder.org/badge_logo.svg)](https://mybinder.org/v2/gh/moe-lab/moe_lab/v0.1.0?urlpath=lab/tree/notebooks/06_recovery.ipynb)

# %% [markdown] tags=["papers"]
# *The papers: [Makkuva et al., ICML 2019](https://arxiv.org/abs/1802.07417); [Makkuva et al., 2019](https://arxiv.org/abs/1906.02777).*

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
from moe_lab.recovery import MixtureTask, transforms
from moe_lab.recovery.gridlock import Spectral, figures, plots, train
from moe_lab_widgets import GridlockLab, MomentBench, StuckRateLab

SEED = 0
torch.set_num_threads(1)  # these models are small: more threads only wait for each other

# %% [markdown]
# ## The task
#
# The data come from a mixture of $k$ experts with *known* parameters (eq. 1 of "Breaking the gridlock in
# Mixture-of-Experts"). So you can measure how close an estimate comes:
#
# $$y = g(\langle a_z, x\rangle) + \sigma\xi, \qquad z \sim \mathrm{softmax}\big(\langle w_1, x\rangle, \dots,
# \langle w_k, x\rangle\big), \qquad x \sim N(0, I_d), \quad \xi \sim N(0, 1). \tag{1}$$
#
# - $x$ is the input with $d$ numbers, and $y$ is the label.
# - The **regressors** $a_i$ are the experts. They have length 1, and $g$ is their activation.
# - The **gates** $w_i$ are the router, with $w_k = 0$. They decide at random which expert $z$ makes the label.
# - $\sigma$ is the size of the noise on $y$.
#
# A learner sees $x$ and $y$ but not $z$. Here $g$ is the identity, $k=2$, $d=10$ and $\sigma = .1$. Regressors and
# gates are random:

# %%
task = MixtureTask()
drawn = task.sample(5, trials=[0], seed=SEED)
products = drawn.x[0] @ drawn.truth.regressors[0].T
columns = ["<a_1, x>", "<a_2, x>", "y", "expert (hidden)"]
rows = np.column_stack((products, drawn.y[0], drawn.experts[0] + 1))
pd.DataFrame(rows, range(1, 6), columns).rename_axis("sample").round(2).astype({columns[-1]: int})

# %% [markdown]
# Each $y$ is close to one of the two products. With known regressors it is clear which expert made a label, and
# learning the gates is a classification problem. If the expert of each sample is known, learning the regressors is a
# least-squares problem.
#
# ## First, your prediction
#
# *Joint EM* starts from random regressors and gates. It improves both in turns. It is *stuck* if it has not found all
# regressors and its error hardly falls any more. Take $k=8$ experts and $n=6000$ samples of $d=16$ numbers, with $\sigma=.1$.
# The *spectral* method, explained below, begins elsewhere.
#
# Which of the two finds all regressors in more trials? The Lab asks you before it runs. Answer, or drag the two marks in panel 2
# to the errors at which they will end.

# %% [markdown]
# ## The Lab

# %%
lab = GridlockLab(seed=SEED, ask=True)
lab

# %% [markdown]
# *What to see.* The **spectral** method first looks for one regressor after another. Each takes a few power iterations
# on a tensor of $k \times k \times k$ numbers. EM then finds the gates, and a last EM improves regressors and gates
# together. **Joint EM** runs on the same samples from random parameters. **1:** A dark diagonal means that all
# regressors are found. With $k=8$ the tiles of joint EM are pale all over: each of its experts is a mix of several true
# ones. **2:** The error of joint EM hardly falls any more. **3:** The stages of the spectral method.
#
# Move the time slider through the power iterations, and count how many a regressor takes.
#
# *Your turn.* The menu <kbd>goal</kbd> has three tasks. Bring each about with the sliders.

# %% [markdown]
# ## What happened and why
#
# **1. A moment is a derivative.** Let $S_3(x) = x \otimes x \otimes x - \sum_j \mathrm{sym}(x \otimes e_j \otimes e_j)$
# be the third Hermite polynomial of $x$. The $e_j$ are the unit vectors, and "sym" stands for *three* terms. Stein's
# lemma says that $E[h(x)\,S_3(x)] = E[\nabla^3 h(x)]$ for Gaussian $x$. Apply it to the mean of the label,
# $h(x) = E[y|x] = \sum_i p_i(x)\,\langle a_i, x\rangle$, where $p_i$ is the softmax of the gates. The product rule then
# gives products of $a$ and $w$ of every kind (eq. 3). This is the gridlock.
#
# ### By hand, before the algebra
#
# Can a polynomial of $y$ take the gates out of the moment? Here it is $y^3 + \alpha y^2 + \beta y$, for two experts with
# regressors $a$ and $b$ at right angles to $w$. A bar is an entry of the moment, along $a$ or $w$. Turn $\alpha$ and $\beta$
# until no bar with a $w$ is left. The menu <kbd>goal</kbd> has three tasks, and the story is the paper's own polynomial.

# %%
MomentBench(goal=1)

# %% [markdown]
# **2. A polynomial cancels the gates.** Replace $y$ by $P_3(y) = y^3 + \alpha y^2 + \beta y$. Then
# $h(x) = \sum_i p_i(x)\, S(\langle a_i, x\rangle)$ with $S(z) = E[P_3(Y)|Z=z]$, where $Z = \langle a_i, x\rangle$ and
# $Y$ is the label of expert $i$. The proof asks for gates that are orthogonal to all regressors. Then $p_i$ and $S$ are
# independent, and
#
# $$E[\nabla^3 h] = \sum_i \Big( E[p_i]\,E[S''']\, a_i^{\otimes 3} + \mathrm{sym}(\nabla p_i)\,E[S'']\cdots +
# \mathrm{sym}(\nabla^2 p_i)\,E[S']\cdots + \nabla^3 p_i\, E[S] \Big).$$
#
# Choose $\alpha$ and $\beta$ such that $E[S'] = E[S''] = 0$. These are two linear equations. $E[S]$ is the same for
# every expert, because all $a_i$ have length 1. So it leaves the sum, and the third derivatives of the $p_i$ add up to
# 0, since the $p_i$ add up to 1. What remains is $T_3 = c_3 \sum_i E[p_i]\, a_i \otimes a_i \otimes a_i$, where $c_3 =
# E[S''']$.
#
# By Stein's lemma $E[S^{(j)}(Z)] = E[S(Z)\,He_j(Z)]$ with the Hermite polynomial $He_j$ of one number. So nothing has
# to be differentiated, and $g$ may have kinks. For the identity, $\alpha = 0$, $\beta = -3(1+\sigma^2)$ and $c_3 = 6$.
# The next cell solves the equations for other $g$:

# %%
solved = {g: transforms(g, task.noise).p3 for g in ("identity", "relu", "leaky-relu", "sigmoid", "tanh")}
rows = {
    g: {
        "alpha": p3.coefficients[1],
        "beta": p3.coefficients[0],
        "c3": p3.strength,
        "largest E[S He_j]": max(map(abs, p3.residuals)),
    }
    for g, p3 in solved.items()
}
pd.DataFrame(rows).T.round(4).rename_axis("g") + 0.0

# %% [markdown]
# $c_3$ is the strength of the signal. It is 260 times weaker for a sigmoid than for the identity, so sigmoid experts
# need many more samples.
#
# **3. Whiten, then iterate.** $T_2 = E[P_2(y) S_2(x)] = c_2 \sum_i E[p_i]\, a_i \otimes a_i$ is derived in the same way
# from a polynomial $P_2$ of degree 2. It determines the space that the regressors span. A matrix $V$ with
# $V^\top T_2 V = I$ makes the regressors orthogonal; this step is called *whitening*. The *power iteration*
# $v \leftarrow T_3(I, v, v)$, with $v$ normalised after each step, then converges quadratically to one of them. Only
# $k^3$ numbers are formed, never $d^3$.
#
# **Random gates.** The gates of this notebook are *not* orthogonal to the regressors (as in section 4.2 of the paper).
# For $k=2$ and an odd $g$ all terms with gates cancel even so (last section). For $k \ge 3$ some remain, so the result
# is approximate. But each has a factor $\langle w_j, a_i\rangle$, those with $S'$ two and those with $S$
# three, and for random vectors this factor is about $1/\sqrt d$.
#
# The next cell compares $P_3(y)$ with $y$ in its place, for 3000 samples:

# %%
rows = {}
for k in (2, 3, 4):
    mixture = MixtureTask(experts=k)
    rows[k] = {
        third: final(
            train(
                Spectral(third=third, joint_iterations=0),
                mixture,
                samples=3000,
                trials=10,
                seed=SEED,
                record_every=10**6,
            )
        )["regressor_fit"].mean()
        for third in ("y", "P3(y)")
    }
pd.DataFrame(rows).T.rename_axis("k").round(3)

# %% [markdown]
# The **regressor fit** is the smallest $|\cos|$ between a true regressor and its estimate, after the experts are
# matched (eq. 11), at best 1. Random directions in ten dimensions have about .25. With orthogonal gates
# (`gating="orthogonal"`) the column of $P_3(y)$ reads .988, .960 and .880. So at this $n$ noise matters more than the
# missing assumption. At $n=100{,}000$ and $k=3$ it shows: .996 in place of .999.
#
# **4. Now the gates are easy.** EM with fixed regressors alternates two steps. It computes how probable each expert is
# for each sample (left), and then maximises a concave function of the gates (right):
#
# $$p_i(x, y) \propto e^{\langle w_i, x\rangle}\, N\big(y \,|\, g(\langle a_i, x\rangle), \sigma^2\big), \qquad
# w \leftarrow \arg\max_w\; \mathrm{mean}\Big[\sum_i p_i \langle w_i, x\rangle - \log\sum_i e^{\langle w_i,
# x\rangle}\Big]. \tag{8, 9}$$
#
# **5. A last EM improves everything.** The spectral regressors are good, but moments do not use all the information in
# the samples, and random gates leave a small error. A few iterations of joint EM *from there* repair both. The paper
# stops before this step. The next figure shows the regressors with and without it.

# %% [markdown]
# ## Measure it
#
# Table 2 of the paper, with 20 new trials of each kind:

# %%
plots.picture(figures.table2(trials=20, seed=SEED))

# %% [markdown]
# *What to see.* Each mark is a trial, and open stars are the published numbers. **Orth-ALS** on the full tensor is the
# method of the paper and gives about the paper's numbers. **Power iterations** on the whitened tensor do better. They
# also limit large values of $P_3(y)$ by $4\tanh(P_3/4)$, because the cube of a Gaussian has heavy tails. With **ten
# iterations of EM** for everything the regressors reach .9999. The gates then are as good as those of a classifier that
# knows the expert of every sample.
#
# **Other inputs** (table 1). The method only needs the density of the inputs. Let $x$ come from two Gaussians, from the
# first one with probability $p$. Then $S_3$ is the Hermite polynomial around each mean, weighted by the probability
# that $x$ came from there. The next figure has five trials for each $p$:

# %%
plots.picture(figures.table1(trials=5, seed=SEED))

# %% [markdown]
# *What to see.* The fits are about as good as before. EM for everything again repairs what the moments leave.
#
# ### When is EM stuck?
#
# An EM is **stuck** if it has not found all regressors (fit below .95) and its error fell by less than 2 % in the last
# 20 iterations. Without the second condition a slow EM would count as stuck. The error is $E(A, W) = \|A - A^*_\pi\| +
# \|W - W^*_\pi\|$. $A$ and $W$ are the estimated regressors and gates, and $A^*_\pi$ and $W^*_\pi$ the true ones in the
# best order $\pi$ of the experts, with $w_k=0$ on both sides. The next cell has $d=16$ and $n=6000$:

# %%
stuck = figures.stuck_rate(k=(3, 8), trials=4, seed=SEED)
plots.picture(stuck)

# %% [markdown]
# *What to see.* With $k=3$ both methods find all regressors. With $k=8$ EM from the spectral start ends at an error of
# .7 to 1, which is what 6000 samples allow, and joint EM on the same samples ends near 5.

# %% [markdown]
# The table shows how many of 12 trials found all regressors, first with spectral + EM, then with joint EM. It comes
# from `figures.stuck_rate(k=(3, 4, 5, 6, 8), samples=(2000, 4000, 6000, 12000), trials=12, seed=50)`, which takes two
# to three minutes:
#
# | | $n=2000$ | $4000$ | $6000$ | $12{,}000$ |
# | --- | --- | --- | --- | --- |
# | $k=8$ | 1 · 0 | 10 · 1 | 11 · 1 | 12 · 10 |
# | $k=6$ | 9 · 1 | 12 · 9 | 12 · 11 | 12 · 12 |
# | $k=5$ | 12 · 9 | 12 · 12 | 12 · 12 | 12 · 12 |
# | $k=3, 4$ | 12 · 12 | 12 · 12 | 12 · 12 | 12 · 12 |
#
# The spectral start helps in a band: many experts, enough samples for its tensor, too few for joint EM. With
# more samples joint EM needs no help, with fewer neither method succeeds, but by chance.

# %% [markdown]
# ### Optional: the band, live
#
# The next Lab computes such maps for small mixtures, cell by cell. It shows how many starts find all regressors, for
# random starts and for the spectral start. At $\sigma=.1$, with $k=5$ experts and $n=1000$ samples, the spectral start
# finds them more often.

# %%
StuckRateLab(seed=SEED, ask=True)

# %% [markdown]
# *What to see.* Below and to the right of the line 90 % of the starts find all regressors. The line of the spectral
# start is about one expert higher, which is the band of the table. The bars on the right show the share of stuck
# starts. A start that is neither found nor stuck is still improving.
#
# Set <kbd>σ · noise on y</kbd> to .5. The next cell computes two cells of the two maps:

# %%
rows = {}
for noise in (0.1, 0.5):
    settings = {"k": 5, "d": 8, "samples": 1000, "noise": noise}  # as in the Lab
    iterations = {"joint_iterations": 100, "spectral_iterations": 40}
    fits = figures.stuck_rate(**settings, **iterations, trials=10, seed=SEED)["regressor_fit"]
    rows[noise] = (fits >= 0.95).mean("trial").squeeze().to_pandas()
pd.DataFrame(rows).T.rename_axis("noise")

# %% [markdown]
# At $\sigma=.5$ the order is reversed. The spectral start loses an expert at $n=1000$, because its moments are noisier.
# Random starts gain one. A likely reason is that EM knows $\sigma$. With a larger $\sigma$ it trusts its first guesses
# less, and these are wrong.

# %% [markdown]
# ## Exercises
#
# All arrays in these exercises are NumPy arrays. The first function solves for the polynomial. `moments[i, j]` is
# $E[g(Z)^i\,He_j(Z)]$ for $i, j = 0 \dots 3$. You need $E[Y^2|Z]$ and $E[Y^3|Z]$ for $Y = g(Z) + \sigma\xi$, and then
# two equations.


# %%
def p3_coefficients(moments, sigma):
    """Computes alpha and beta of P3(y) = y^3 + alpha y^2 + beta y from a NumPy array (4, 4) and a number."""
    return None  # your code


exercises.check_p3_coefficients(p3_coefficients)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def p3_coefficients(moments, sigma):
#     import numpy as np
#
#     system = [[moments[2, j], moments[1, j]] for j in (1, 2)]
#     cubes = [moments[3, j] + 3 * sigma**2 * moments[1, j] for j in (1, 2)]
#     return np.linalg.solve(system, np.negative(cubes))
# ```
#
# </details>

# %% [markdown]
# The tensor $S_3(x)$ has $d^3$ numbers, but applied to one direction $S_3(x)(a, a, a)$ is a short formula. `a` need not
# have length 1.


# %%
def third_score(x, a):
    """Computes S3(x)(a, a, a) for every sample: NumPy arrays (N, d) and (d,) -> (N,)."""
    return None  # your code


exercises.check_third_score(third_score)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def third_score(x, a):
#     import numpy as np
#
#     d = len(a)
#     identity = np.eye(d)
#     scores = []
#     for sample in x:  # the tensor as eq. 4 writes it
#         tensor = np.einsum("i,j,k->ijk", sample, sample, sample)
#         tensor -= np.einsum("i,jk->ijk", sample, identity)
#         tensor -= np.einsum("i,jk->jik", sample, identity)
#         tensor -= np.einsum("i,jk->jki", sample, identity)
#         scores.append(np.einsum("ijk,i,j,k->", tensor, a, a, a))
#     return np.array(scores)
# ```
#
# </details>

# %% [markdown]
# Next, the E-step of eq. 9 for linear experts. The last case of the check is a sample that is far from both experts.


# %%
def e_step(x, y, regressors, gates, sigma):
    """Computes how probable each expert is for each sample.

    Args:
      x: NumPy array (N, d).
      y: NumPy array (N,).
      regressors, gates: NumPy arrays (k, d).
      sigma: a number.

    Returns:
      NumPy array (N, k); each row sums to 1.
    """
    return None  # your code


exercises.check_e_step(e_step)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def e_step(x, y, regressors, gates, sigma):
#     import numpy as np
#
#     def softmax(scores, axis=-1):
#         powers = np.exp(scores - scores.max(axis=axis, keepdims=True))
#         return powers / powers.sum(axis=axis, keepdims=True)
#
#     rows = []
#     for sample, label in zip(x, y, strict=True):
#         residuals = label - regressors @ sample
#         rows.append(softmax(gates @ sample - residuals**2 / (2 * sigma**2)))
#     return np.array(rows)
# ```
#
# </details>

# %% [markdown]
# ## For readers of the paper
#
# - At $k=3$ and $4$ joint EM is *not* stuck: the published advantage of figures 3 to 5 does not replicate. At $k=8$, where
#   the Lab opens, it does.
# - On the real data of appendix H.2 that we could fetch, the advantage does not replicate either.
# - Example 3 prints a polynomial for a ReLU without the spike of its second derivative.
# - Theorem 3 has a sign too few: its limit is $-w$.
#
# [Notebook 14](14_recovery_further.ipynb), which is optional, shows each of these.

# %% [markdown]
# ## Before you go
#
# You have taken a mixture apart: first the experts, with a polynomial in whose moment the router cancels; then the
# router, which is easy; then both together. Notebook 07 does the same with two loss functions in place of tensors.
#
# *Done? Choose File › Close and Shut Down Notebook. Each notebook holds 450 to 740 MB until its kernel is shut down,
# and Binder allows 2 GB in all.*
