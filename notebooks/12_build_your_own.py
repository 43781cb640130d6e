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
# # 12 · Build your own mixture
#
# **45 minutes · no GPU · after notebooks 00, 01 and 02**
#
# So far you have watched mixtures of experts. Now you write one, in plain torch, in six short functions. Each of them is
# checked as soon as it is there. Then your layer trains, first in a loop that you can read in full, then in the Lab.
#
# Nothing breaks if a step stays empty: the course's own function stands in for it until yours is right.
#
# **After this notebook you can**
# - write the forward pass of a mixture of experts: scores, choice, gates, experts, sum,
# - train it with autograd and an optimiser,
# - say which of its steps have a gradient, and what follows from that,
# - give a layer of your own to the library, which trains and draws it like its own.

# %% [markdown] tags=["badges"]
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/moe-lab/moe_lab/blob/main/notebooks/12_build_your_own.ipynb)
# [![Open on Binder](https://mybinder.org/badge_logo.svg)](https://mybinder.org/v2/gh/moe-lab/moe_lab/main?urlpath=lab/tree/notebooks/12_build_your_own.ipynb)

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

from moe_lab import collect, exercises, final
from moe_lab.patch_routing import CNN, JointMoE, PatternTask, train
from moe_lab.patch_routing.stepwise import Steps, stepwise
from moe_lab.plots import curves
from moe_lab_widgets import RouterAlignmentLab, predict

SEED = 0
torch.set_num_threads(1)  # these models are small: more threads only wait for each other

# %% [markdown]
# ## First, your prediction
#
# Experts can choose their patches, or patches their experts. You will write one function that does both. Compute is the
# same here: there are as many pairs of a patch and an expert. Write down:
#
# 1. Who finds the patch that decides the class more reliably: experts that choose 2 of 16 patches each, or patches that
#    choose 1 of 8 experts each?
# 2. Replace the softmax of the gates by equal gates for all that are chosen. The choice still goes by the scores. Which
#    way do the routers turn now?

# %%
prediction = predict(
    "Who finds the patch that decides more reliably, with as many pairs of patch and expert?",
    ["experts that choose 2 patches each", "patches that choose 1 expert each", "no difference"],
)
prediction

# %% [markdown]
# ## The data
#
# A sample is $n=16$ patches of $d=32$ numbers. One of them is $o_1$ (class $+$) or $o_2$ (class $-$), at a random place.
# The other 15 say nothing about the class. A **tensor** is an array of torch; its **shape** is how many numbers it has
# along each axis. The first axis of every batch is the sample:

# %%
task = PatternTask()
drawn = {split: task.sample(200, trials=[0], seed=SEED, split=split) for split in ("train", "test")}
patches, test_patches = (part.patches()[0] for part in drawn.values())
y, test_y = (1.0 - 2 * part.labels[0] for part in drawn.values())  # class 0 is +1, class 1 is -1
print("patches", tuple(patches.shape), " y", tuple(y.shape), " the first labels", *y[:6].tolist())

# %% [markdown]
# ## The weights
#
# Take $k=8$ experts. Each has a **router**, one vector of $d$ numbers, and a small network of two layers with $h=5$
# **neurons**. A neuron is a vector $w$ of $d$ numbers, which looks for something, and a number $a$, which it says when it
# finds it. Routers start close to 0, so that at first no expert prefers anything. The $a$ are drawn once and stay.

# %%
k, h, d = 8, 5, 32
generator = torch.Generator().manual_seed(SEED)
routers = torch.randn(k, d, generator=generator) / 1000
hidden = torch.randn(k, h, d, generator=generator) / 6
outputs = torch.randn(k, h, generator=generator)

# %% [markdown]
# ## Step 1: scores
#
# The score of patch $j$ for expert $s$ is $\langle w_s, x^{(j)} \rangle$, the inner product of the router and the patch.
# Make all of them at once: samples $B$, experts $k$, patches $n$.
#
# Two ways in torch: `torch.einsum("kd,bnd->bkn", ...)` names the axes, and sums over those that the result lacks. Or
# multiply matrices with `@`, and swap axes with `.transpose(1, 2)`.


# %%
def router_scores(patches, routers):
    """Scores of all patches for all routers: (B, n, d) and (k, d) -> (B, k, n)."""
    return None  # your code


exercises.check_router_scores(router_scores)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def router_scores(patches, routers):
#     return routers @ patches.transpose(1, 2)
# ```
#
# </details>

# %% [markdown]
# ## Step 2: who gets what
#
# A **mask** is a tensor of True and False. Yours says which patch goes to which expert. In **expert choice** each expert
# takes the `count` patches that it scores highest: it looks along the last axis, `dim=-1`. In **token choice** each patch
# takes the `count` experts that score it highest: it looks along axis 1. So one function does both.
#
# `scores.topk(count, dim=dim).indices` gives the places of the largest. `mask.scatter(dim, places, True)` writes True at
# places along an axis, into `torch.zeros_like(scores, dtype=torch.bool)`.


# %%
def chosen(scores, count, dim):
    """Marks the `count` largest scores along dim: (B, k, n) -> (B, k, n) of True and False."""
    return None  # your code


exercises.check_chosen(chosen)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def chosen(scores, count, dim):
#     import torch
#
#     mask = torch.zeros_like(scores, dtype=torch.bool)
#     return mask.scatter(dim, scores.topk(count, dim=dim).indices, True)
# ```
#
# </details>

# %% [markdown]
# ## Step 3: gates
#
# A **gate** is how much a chosen patch counts. It is a softmax over the chosen, and 0 elsewhere:
#
# $$G_{s,j} = \frac{e^{g_{s,j}}}{\sum_{i \in J_s} e^{g_{s,i}}} \quad \text{for } j \in J_s, \qquad G_{s,j} = 0 \text{ otherwise.}$$
#
# $e^{-\infty} = 0$. So put $-\infty$ (`-torch.inf`) where the mask is False, with `torch.where` or `masked_fill`, and then
# take `.softmax(dim)`.


# %%
def softmax_gates(scores, mask, dim):
    """The softmax over the marked scores along dim, 0 elsewhere: (B, k, n) -> (B, k, n)."""
    return None  # your code


exercises.check_softmax_gates(softmax_gates)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def softmax_gates(scores, mask, dim):
#     import torch
#
#     return torch.softmax(torch.where(mask, scores, -torch.inf), dim)
# ```
#
# </details>

# %% [markdown]
# ## Step 4: the experts
#
# Each expert gives each patch a number: $V_{s,j} = \sum_r a_{r,s}\,\mathrm{ReLU}(\langle w_{r,s}, x^{(j)}\rangle)$. The
# **ReLU** keeps what is positive and replaces the rest by 0. A real layer computes only what is chosen. Here compute all
# of it: the gates are 0 where nothing is to be counted.


# %%
def expert_outputs(patches, hidden, outputs):
    """What every expert says of every patch: (B, n, d), (k, h, d) and (k, h) -> (B, k, n)."""
    return None  # your code


exercises.check_expert_outputs(expert_outputs)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def expert_outputs(patches, hidden, outputs):
#     import torch
#
#     active = torch.relu(torch.einsum("khd,bnd->bknh", hidden, patches))
#     return (active * outputs[:, None]).sum(-1)
# ```
#
# </details>

# %% [markdown]
# ## Step 5: the sum
#
# The output adds up gate times value over experts and patches, and divides by $l$, the patches that an expert keeps:
#
# $$f(x) = \frac{1}{l} \sum_{s=1}^{k} \sum_{j=1}^{n} G_{s,j} V_{s,j}. \tag{1}$$
#
# Its sign is the class.


# %%
def mixture(gates, values, kept):
    """The output f of every sample: (B, k, n) and (B, k, n) -> (B,)."""
    return None  # your code


exercises.check_mixture(mixture)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def mixture(gates, values, kept):
#     return (gates * values).sum(dim=(1, 2)) / kept
# ```
#
# </details>

# %% [markdown]
# ## Step 6: the loss
#
# The **loss** says how wrong $f$ is. The logistic loss of a sample is $\log(1 + e^{-y f})$. It is near 0 where $yf$ is
# large, and grows like $-yf$ where the sample is wrong. Take the mean over the batch. (`torch.nn.functional.softplus`
# is $\log(1 + e^z)$ for any $z$.)


# %%
def logistic_loss(f, y):
    """The mean logistic loss: outputs (B,) and labels -1 or 1 (B,) -> one number."""
    return None  # your code


exercises.check_logistic_loss(logistic_loss)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def logistic_loss(f, y):
#     import torch
#
#     return torch.nn.functional.softplus(-y * f).mean()
# ```
#
# </details>

# %% [markdown]
# ## Put it together
#
# This collects your six functions. Those that are not right yet are replaced by the course's:

# %%
my = exercises.assemble(router_scores, chosen, softmax_gates, expert_outputs, mixture, logistic_loss)
my

# %% [markdown]
# Now train it. **Autograd** is torch's bookkeeping: it notes what is computed from weights with `requires_grad`. Then
# `loss.backward()` walks back through the notes and leaves the gradient of the loss at each weight. The **optimiser**
# takes one step downhill. That is SGD, stochastic gradient descent: each step sees 20 samples only.

# %%
weights = [routers.requires_grad_(), hidden.requires_grad_()]
optimiser = torch.optim.SGD(weights, lr=5.0)
kept, rows = 6, {}
for epoch in range(21):
    with torch.no_grad():  # nothing to learn from the test
        scores = my.router_scores(test_patches, routers)
        gates = my.softmax_gates(scores, my.chosen(scores, kept, -1), -1)
        f = my.mixture(gates, my.expert_outputs(test_patches, hidden, outputs), kept)
        rows[epoch] = {
            "test loss": my.logistic_loss(f, test_y).item(),
            "right": (f * test_y > 0).float().mean().item(),
        }
    for batch in torch.randperm(200, generator=generator).split(20):
        scores = my.router_scores(patches[batch], routers)
        gates = my.softmax_gates(scores, my.chosen(scores, kept, -1), -1)
        f = my.mixture(gates, my.expert_outputs(patches[batch], hidden, outputs), kept)
        loss = my.logistic_loss(f, y[batch])
        optimiser.zero_grad()  # or the gradients of all steps would add up
        loss.backward()
        optimiser.step()
pd.DataFrame(rows).T.rename_axis("epoch").iloc[[0, 2, 5, 10, 20]].round(2)

# %% [markdown]
# Your layer begins by guessing and ends close to 100 %. Where did its routers turn? The cosines with $o_1$ and $o_2$ say it:

# %%
signals = task.class_patterns().float()
cosines = torch.nn.functional.cosine_similarity(routers.detach()[:, None], signals[None], dim=2)
rows = [f"router {s}" for s in range(1, k + 1)]
pd.DataFrame(cosines.numpy(), columns=["o₁", "o₂"], index=rows).T.round(2)

# %% [markdown]
# ## The Lab, with your layer
#
# `my.layer()` wraps your functions in a model that the library can train: as many trials as you like, measured, drawn.
# (`help(moe_lab.patch_routing.OwnModel)` says how to do that for any model, and so does "My own model" among the site's
# how-to pages.) Here it stands in the place of the course's mixture:

# %%
layer = my.layer()
lab = RouterAlignmentLab(source="synthetic", mixture=layer, seed=SEED)
lab

# %% [markdown]
# *What to see.* **Left:** your routers leave the middle and turn to $o_1$ or $o_2$. **Middle:** the framed patches are those
# that `chosen` marks. **Right:** in ink the accuracy of your layer, in grey that of a CNN, which sees all patches. All
# sliders work: they change $k$, $l$ and $m$ of your layer.
#
# Go back, spoil a function on purpose (leave out the ReLU, say), and run the notebook from there. The check
# notices, and the course's function stands in.
#
# The library's own mixture has its gradient written by hand. Does yours, by autograd, learn the same?

# %%
settings = {"samples": 200, "trials": 4, "epochs": 20, "seed": SEED, "until": "epochs"}
runs = {"my layer": layer, "CNN": CNN()}
runs = {name: collect(train(model, task, **settings)) for name, model in runs.items()}
theirs = collect(train(JointMoE(), task, **settings))
gap = abs(runs["my layer"]["test_accuracy"] - theirs["test_accuracy"]).max()
print("largest difference of any accuracy from the library's mixture:", round(float(gap), 2))
curves(runs, "test_accuracy")

# %% [markdown]
# *What to see.* Same data, same start, same numbers up to rounding. The band is one standard deviation over four trials.
#
# ## Who chooses?
#
# Prediction 1. With `dim=1` patches choose. A patch that picks $t$ experts makes $nt$ pairs, experts that keep $l$
# patches make $kl$. With $n=16$ and $k=8$ that is the same for $l = 2t$:

# %%
rows = {}
for each in (2, 4, 6):
    for chooser in ("experts", "patches"):
        model = my.layer(patches_per_expert=each, chooser=chooser)
        last = final(train(model, task, samples=200, trials=4, seed=SEED, measure="last"))
        about = {"chooser": chooser, "pairs": 8 * each, "accuracy": last["test_accuracy"].mean()}
        rows[len(rows)] = {**about, "o gets through, worse class": last["coverage"].min(axis=1).mean()}
pd.DataFrame(rows).T.set_index(["pairs", "chooser"]).astype(float).round(2)

# %%
experts, patches_choose = (rows[row]["accuracy"] for row in (0, 1))
outcome = "c" if abs(experts - patches_choose) < 0.02 else "a" if experts > patches_choose else "b"
prediction.seen(outcome, "Experts compare patches with each other, and that is what is asked here.")

# %% [markdown]
# Experts do better, most of all where there are few pairs. With one pick a patch's gate is 1 whatever the scores are: its
# router has no gradient (notebook 01). Experts compare *patches*, and that is the question here: which of 16 decides.
#
# ## Equal gates
#
# Prediction 2. The same layer, but each of the chosen counts the same:

# %%
even = Steps(softmax_gates=lambda scores, mask, dim: mask / mask.sum(dim, keepdim=True))
run = collect(train(stepwise(even), task, samples=200, trials=3, epochs=20, seed=SEED))
moved = abs(run["alignment"].isel(step=-1) - run["alignment"].isel(step=0)).max()
print("largest change of any alignment:", float(moved))
print("accuracy of each trial:", *run["test_accuracy"].isel(step=-1).values.round(2))

# %% [markdown]
# ## What happened and why
#
# They do not turn at all: not small, exactly 0. Follow the loss back to the router. From $f$ to the values, and to the
# gates, there is a gradient. From the gates to the scores there is one *if* gates are made of scores. The mask is made of
# scores, too, but it jumps: True stays True for a small change of a score, so its derivative is 0. **A router learns through
# its gates alone.** What it changes is the choice.
#
# So a mixture of experts is a gamble that pays. The choice has no gradient, and still gets better: patches that are
# chosen and help get larger gates, larger gates come from larger scores, and larger scores are chosen more often. A patch
# that is never chosen teaches nothing.
#
# You have seen each part before: scores and gates in notebook 01, the pull of the gates in 02. Layers of language models
# are the same six steps with matrices in place of numbers, $a$ that is learned, and a loss that keeps the load even (10).

# %% [markdown]
# ## Exercises
#
# One thing was not yours: the optimiser's step. `loss` is a function of the weights. Make a copy that autograd
# follows (`weights.clone().requires_grad_()`), ask `torch.autograd.grad` for the gradient, and go down by `rate` times it.


# %%
def sgd_step(weights, loss, rate):
    """The weights after one step of SGD; loss takes weights and gives one number."""
    return None  # your code


exercises.check_sgd_step(sgd_step)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def sgd_step(weights, loss, rate):
#     import torch
#
#     free = weights.clone().requires_grad_()
#     (gradient,) = torch.autograd.grad(loss(free), free)
#     return weights - rate * gradient
# ```
#
# </details>

# %% [markdown]
# And without a check, each a line or two to change, with `Steps(...)` as above, and the Lab to look at it:
#
# 1. **Temperature.** Divide the scores by 0.1 before the softmax. Do routers turn sooner? Are they right sooner?
# 2. **A shared expert.** Let expert 1 see all patches, with gates of $1/n$. What is left for the others?
# 3. **Sigmoid gates.** Each gate is $\sigma(g)$, for chosen patches, with no sum to divide by. Does $l=1$ learn now?

# %% [markdown]
# ## For readers of the paper
#
# *This part is optional: the core of the notebook ends here.* It is for those who compare it with the paper.
#
# - The layer is eq. 1 of pmoe2023 with the gates of eq. 4, and the loss is eq. 2. Its routers start as in eq. 7 in the
#   Lab; in the loop above simply at a thousandth of a normal number.
# - A layer that computes only chosen pairs gathers their patches. Here all pairs are computed and most of them multiplied by 0:
#   easier to read, and at these sizes faster.
# - Token choice has no capacity limit here, so that no patch is turned away. Notebook 11 has limits.

# %% [markdown]
# ## Before you go
#
# Your layer is also a model of the library: `train`, `sweep` and the figures take `my.layer(...)` wherever they take a
# model.
#
# *Done? Choose File › Close and Shut Down Notebook. Each notebook holds 450 to 740 MB until its kernel is shut down, and
# Binder allows 2 GB in all.*
