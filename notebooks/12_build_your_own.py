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
# So far you have watched mixtures of experts. Now you write one in plain torch, in six short functions. Each function
# is checked as soon as you have written it. Then your layer trains, first in a loop that you can read in full, then in
# the Lab.
#
# You can leave a step empty. The course's own function stands in for it until yours is right.
#
# **After this notebook you can**
# - write the forward pass of a mixture of experts: scores, choice, gates, experts, sum,
# - train it with autograd and an optimiser,
# - say which of its steps have a gradient, and what follows from that,
# - give a layer of your own to the library, which trains and draws it like its own,
# - make a Lab of your own in one cell.

# %% [markdown] tags=["badges"]
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/moe-lab/moe_lab/blob/v0.1.0/notebooks/12_build_your_own.ipynb)
# [![Open on Binder](https://mybinder.org/badge_logo.svg)](https://mybinder.org/v2/gh/moe-lab/moe_lab/v0.1.0?urlpath=lab/tree/notebooks/12_build_your_own.ipynb)

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
import pandas as pd
import torch

from moe_lab import collect, exercises, final
from moe_lab.drawing.plots import curves
from moe_lab.patch_routing import CNN, JointMoE, PatternTask, train
from moe_lab.patch_routing.stepwise import Steps, stepwise
from moe_lab_widgets import RouterAlignmentLab, predict

SEED = 0
torch.set_num_threads(1)  # these models are small: more threads only wait for each other

# %% [markdown]
# ## First, your prediction
#
# Experts can choose their patches, or patches can choose their experts. You will write one function that does both.
# Compare experts that choose 2 of 16 patches each with patches that choose 1 of 8 experts each. Both make 16 pairs of a
# patch and an expert.

# %%
prediction = predict(
    "Which classifies better: experts that choose, or patches that choose?",
    ["experts that choose 2 patches each", "patches that choose 1 expert each", "no difference"],
)
prediction

# %% [markdown]
# Now replace the softmax of the gates by equal gates for all chosen patches. The choice itself still depends on the
# scores.

# %%
prediction_gates = predict(
    "With equal gates for all chosen patches, how do the routers turn during training?",
    ["towards o₁ or o₂, as before", "away from o₁ and o₂", "they do not turn at all"],
)
prediction_gates

# %% [markdown]
# ## The data
#
# A sample has $n=16$ patches of $d=32$ numbers. One patch is $o_1$ (class $+$) or $o_2$ (class $-$), at a random place.
# The other 15 say nothing about the class. A **tensor** is an array of torch. Its **shape** is the number of entries
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
# Take $k=8$ experts. Each has a **router**, which is a vector of $d$ numbers, and a small network with $h=5$
# **neurons**. Neuron $r$ of expert $s$ has a vector $w_{r,s}$ of $d$ numbers, which says what it responds to, and one
# number $a_{r,s}$, the weight of its response. The routers start close to 0, so at first no expert prefers anything.
# The $a_{r,s}$ are drawn once and are not trained.

# %%
k, h, d = 8, 5, 32
generator = torch.Generator().manual_seed(SEED)
routers = torch.randn(k, d, generator=generator) / 1000
hidden = torch.randn(k, h, d, generator=generator) / 6
outputs = torch.randn(k, h, generator=generator)

# %% [markdown]
# ## Step 1: scores
#
# All arguments of the following functions are torch tensors, unless stated otherwise. $B$ is the number of samples in a
# batch.
#
# The score of patch $x^{(j)}$ for expert $s$ is $g_{s,j} = \langle w_s, x^{(j)} \rangle$, the inner product of the
# router $w_s$ and the patch. Compute the scores of all samples, experts and patches at once. There are two ways:
#
# - `torch.einsum("kd,bnd->bkn", ...)` names the axes, and sums over those that the result does not have.
# - `@` multiplies matrices, and `.transpose(1, 2)` swaps two axes.


# %%
def router_scores(patches, routers):
    """Computes the scores of all patches for all routers: (B, n, d) and (k, d) -> (B, k, n)."""
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
# ## Step 2: the choice
#
# A **mask** is a tensor of True and False. Here it says which patch goes to which expert. In **expert choice** each
# expert takes the `count` patches that it scores highest, so it compares along the last axis, `dim=-1`. In **token
# choice** each patch takes the `count` experts that score it highest, so it compares along axis 1. One function does
# both.
#
# `scores.topk(count, dim=dim).indices` gives the places of the largest scores. `mask.scatter(dim, places, True)`
# returns a mask with True at these places. Start from `torch.zeros_like(scores, dtype=torch.bool)`.


# %%
def chosen(scores, count, dim):
    """Marks the `count` largest scores along axis `dim`: (B, k, n) -> (B, k, n) of True and False."""
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
# A **gate** is the weight of a chosen patch. It is a softmax over the chosen patches $J_s$ of expert $s$, and 0
# elsewhere:
#
# $$G_{s,j} = \frac{e^{g_{s,j}}}{\sum_{i \in J_s} e^{g_{s,i}}} \quad \text{for } j \in J_s, \qquad G_{s,j} = 0 \text{ otherwise.}$$
#
# In token choice the softmax is over the chosen experts of a patch. The argument `dim` says which it is.
#
# Since $e^{-\infty} = 0$, you can put $-\infty$ (`-torch.inf`) where the mask is False, with `torch.where` or
# `masked_fill`, and then take `.softmax(dim)`.


# %%
def softmax_gates(scores, mask, dim):
    """Computes the softmax of marked scores along `dim`, 0 elsewhere: (B, k, n) and mask -> (B, k, n)."""
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
# Each expert computes one number from each patch,
# $V_{s,j} = \sum_r a_{r,s}\,\mathrm{ReLU}(\langle w_{r,s}, x^{(j)}\rangle)$. The **ReLU** keeps positive numbers and
# replaces the others by 0. A large model computes $V_{s,j}$ for chosen pairs only. Here compute all of them, because
# the gates of all other pairs are 0.


# %%
def expert_outputs(patches, hidden, outputs):
    """Computes the number of every expert for every patch: (B, n, d), (k, h, d) and (k, h) -> (B, k, n)."""
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
# The output is the sum of gate times value over experts and patches, divided by $l$, the number of patches that each
# expert keeps:
#
# $$f(x) = \frac{1}{l} \sum_{s=1}^{k} \sum_{j=1}^{n} G_{s,j} V_{s,j}. \tag{1}$$
#
# The sign of $f$ is the predicted class. The argument `count` is $l$, a whole number.


# %%
def mixture(gates, values, count):
    """Computes the output f of every sample: (B, k, n), (B, k, n) and a whole number -> (B,)."""
    return None  # your code


exercises.check_mixture(mixture)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def mixture(gates, values, count):
#     return (gates * values).sum(dim=(1, 2)) / count
# ```
#
# </details>

# %% [markdown]
# ## Step 6: the loss
#
# The **loss** measures how wrong $f$ is. The logistic loss of a sample is $\log(1 + e^{-y f})$. It is close to 0 where
# $yf$ is large, and grows like $-yf$ where the sample is misclassified. Take the mean over the batch. The function
# `torch.nn.functional.softplus` computes $\log(1 + e^z)$ for any $z$.


# %%
def logistic_loss(f, y):
    """Computes the mean logistic loss: outputs (B,) and labels -1 or 1 (B,) -> one number."""
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
# The next cell collects your six functions. Functions that are not right yet are replaced by those of the course:

# %%
my = exercises.assemble(router_scores, chosen, softmax_gates, expert_outputs, mixture, logistic_loss)
my

# %% [markdown]
# Now train the layer. **Autograd** is the part of torch that computes gradients. It records every computation with
# weights that have `requires_grad`. `loss.backward()` then follows the record backwards and stores the gradient of the
# loss at each weight. The **optimiser** takes one step downhill. Here it is SGD, stochastic gradient descent: each step
# uses only 20 samples.

# %%
weights = [routers.requires_grad_(), hidden.requires_grad_()]
optimiser = torch.optim.SGD(weights, lr=5.0)
count, rows = 6, {}
for epoch in range(21):
    with torch.no_grad():  # the test needs no gradient
        scores = my.router_scores(test_patches, routers)
        gates = my.softmax_gates(scores, my.chosen(scores, count, -1), -1)
        f = my.mixture(gates, my.expert_outputs(test_patches, hidden, outputs), count)
        rows[epoch] = {
            "test loss": my.logistic_loss(f, test_y).item(),
            "right": (f * test_y > 0).float().mean().item(),
        }
    for batch in torch.randperm(200, generator=generator).split(20):
        scores = my.router_scores(patches[batch], routers)
        gates = my.softmax_gates(scores, my.chosen(scores, count, -1), -1)
        f = my.mixture(gates, my.expert_outputs(patches[batch], hidden, outputs), count)
        loss = my.logistic_loss(f, y[batch])
        optimiser.zero_grad()  # or the gradients of all steps would add up
        loss.backward()
        optimiser.step()
pd.DataFrame(rows).T.rename_axis("epoch").iloc[[0, 2, 5, 10, 20]].round(2)

# %% [markdown]
# Your layer starts at chance and ends close to 100 %. The cosines of its routers with $o_1$ and $o_2$ show where they
# turned:

# %%
signals = task.class_patterns().float()
cosines = torch.nn.functional.cosine_similarity(routers.detach()[:, None], signals[None], dim=2)
rows = [f"router {s}" for s in range(1, k + 1)]
pd.DataFrame(cosines.numpy(), columns=["o₁", "o₂"], index=rows).T.round(2)

# %% [markdown]
# ## The Lab, with your layer
#
# `my.layer()` wraps your functions in a model that the library can train, measure and draw, with as many trials as you
# like. `help(moe_lab.patch_routing.OwnModel)` and the how-to page "My own model" of the site say how to do this for any
# model. In the next cell your layer takes the place of the course's mixture:

# %%
layer = my.layer()
lab = RouterAlignmentLab(source="synthetic", mixture=layer, seed=SEED)
lab

# %% [markdown]
# *What to see.* The Lab opens with $k=4$ experts; move the slider to 8 for as many as above. **Left:** Most of your
# routers leave the middle and turn to $o_1$ or $o_2$. **Middle:** The framed patches are those that `chosen` marks.
# **Right:** The accuracy of your layer (black) and of a CNN, which sees all patches (grey). All sliders work. They
# change $k$, $l$ and the number of neurons $m$ of your layer.
#
# To see the checks at work, go back and break a function on purpose, for example by leaving out the ReLU. Run the
# notebook from there. The check says what is wrong, and the course's function stands in.
#
# The gradient of the library's own mixture is written by hand. The next cell compares it with your layer, which uses
# autograd:

# %%
settings = {"samples": 200, "trials": 4, "epochs": 20, "seed": SEED, "until": "epochs"}
runs = {"my layer": layer, "CNN": CNN()}
runs = {name: collect(train(model, task, **settings)) for name, model in runs.items()}
theirs = collect(train(JointMoE(), task, **settings))
gap = abs(runs["my layer"]["test_accuracy"] - theirs["test_accuracy"]).max()
print("largest difference of any accuracy from the library's mixture:", round(float(gap), 2))
curves(runs, "test_accuracy")

# %% [markdown]
# *What to see.* With the same data and the same start the two mixtures give the same numbers up to rounding. The band
# is one standard deviation over four trials.
#
# ## Who chooses?
#
# With `dim=1` the patches choose. If each patch picks $t$ experts, there are $nt$ pairs. If each expert keeps $l$
# patches, there are $kl$ pairs. With $n=16$ and $k=8$ these numbers are equal for $l = 2t$:

# %%
rows = {}
for each in (2, 4, 6):
    for chooser in ("experts", "patches"):
        model = my.layer(patches_per_expert=each, chooser=chooser)
        last = final(train(model, task, samples=200, trials=4, seed=SEED, measure="last"))
        rows[8 * each, chooser] = {
            "accuracy": last["test_accuracy"].mean(),
            "o gets through, worse class": last["coverage"].min(axis=1).mean(),
        }
pd.DataFrame(rows).T.rename_axis(["pairs", "chooser"]).round(2)

# %% jupyter={"source_hidden": true} tags=["compare"]
# Compares your prediction with the result.
lead = rows[16, "experts"]["accuracy"] - rows[16, "patches"]["accuracy"]
outcome = "c" if abs(lead) < 0.02 else "a" if lead > 0 else "b"
prediction.seen(outcome, "With one expert a patch's gate is always 1, so that it cannot learn.")

# %% [markdown]
# Experts do better, most clearly with few pairs. This is not because $o$ is lost: with 16 pairs it gets through equally
# often. The gates make the difference. If a patch picks one expert, its gate is 1 whatever the scores are. So the
# router has no gradient (notebook 01), and $o$ counts no more than other patches. If experts choose, their gates
# compare *patches*, and $o$ can get the largest one. From two experts per patch on, the gates of either kind can learn.
#
# ## Equal gates
#
# The next cell trains the same layer with equal gates for all chosen patches. The *alignment* is the cosine of a router
# with $o_1$ or $o_2$:

# %%
even = Steps(softmax_gates=lambda scores, mask, dim: mask / mask.sum(dim, keepdim=True))
run = collect(train(stepwise(even), task, samples=200, trials=3, epochs=20, seed=SEED))
moved = abs(run["alignment"].isel(step=-1) - run["alignment"].isel(step=0)).max()
print("largest change of any alignment:", float(moved))
print("accuracy of each trial:", *run["test_accuracy"].isel(step=-1).values.round(2))

# %% jupyter={"source_hidden": true} tags=["compare"]
# Compares your prediction with the result.
change = abs(run["alignment"]).isel(step=-1).mean() - abs(run["alignment"]).isel(step=0).mean()
outcome = "c" if moved == 0 else "a" if change > 0 else "b"
prediction_gates.seen(outcome, "The change is exactly 0, because equal gates do not depend on the scores.")

# %% [markdown]
# ## What happened and why
#
# With equal gates the routers do not turn at all. Follow the loss back to the router. There is a gradient from $f$ to
# the values and to the gates. There is one from the gates to the scores *if* the gates are computed from scores. The
# mask is computed from scores as well, but it does not change when a score changes a little, so its derivative is 0.
# **A router learns through its gates alone.** What it changes is the choice.
#
# So the choice has no gradient and still improves. Chosen patches that help get larger gates. Larger gates come from
# larger scores, and patches with larger scores are chosen more often. A patch that is never chosen teaches the router
# nothing.
#
# You have seen each part before: scores and gates in notebook 01, the pull of the gates in notebook 02. The layers of
# language models use the same six steps. They have matrices in place of numbers, train $a$ as well, and add a loss that
# keeps the load even (notebook 10).

# %% [markdown]
# ## Exercises
#
# The step of the optimiser was not yours yet. The argument `loss` is a function of the weights. Make a copy of the
# weights that autograd follows (`weights.clone().requires_grad_()`), compute the gradient with `torch.autograd.grad`,
# and move by `rate` times the gradient downhill.


# %%
def sgd_step(weights, loss, rate):
    """Computes the weights after one step of SGD.

    Args:
      weights: torch tensor.
      loss: function of such a tensor, which returns one number.
      rate: a number.

    Returns:
      torch tensor of the same shape.
    """
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
# Three changes to try without a check. Each takes a line or two, with `Steps(...)` as above:
#
# 1. **Temperature.** Divide the scores by 0.1 before the softmax. Compare how soon the routers turn, and how soon the
#    accuracy rises.
# 2. **A shared expert.** Let expert 1 see all patches, with gates of $1/n$. See what the other experts still learn.
# 3. **Sigmoid gates.** Let each gate of a chosen patch be $\sigma(g)$, the sigmoid of its score, without a sum to
#    divide by. See whether the routers now learn with $l=1$.

# %% [markdown]
# ## For readers of the paper
#
# *This part is optional. The core of the notebook ends here.* It compares your layer with the paper.
#
# - The layer is eq. 1 of pmoe2023 with the gates of eq. 4, and the loss is eq. 2. In the Lab its routers start as in
#   eq. 7. In the loop above they start as normal numbers divided by a thousand.
# - A layer that computes chosen pairs only has to gather their patches. Here all pairs are computed and most of them
#   are multiplied by 0. This is easier to read, and faster at these sizes.
# - Token choice has no capacity limit here, so no patch is turned away. Notebook 11 has limits.

# %% [markdown]
# ## Optional: a Lab of your own
#
# A Lab is a function that trains, some sliders, and functions that draw. The next cell is all of one. `train_mine` is
# the loop from above with your six functions. It *yields* a dictionary after each epoch. `draw_routers` and
# `draw_right` draw what is in it on Axes of matplotlib:


# %%
from moe_lab_widgets import Panel, lab, slider


def train_mine(count, rate, experts, seed, steps=40):
    random = torch.Generator().manual_seed(seed)
    routers = (torch.randn(experts, d, generator=random) / 1000).requires_grad_()
    hidden = (torch.randn(experts, h, d, generator=random) / 6).requires_grad_()
    outputs = torch.randn(experts, h, generator=random)

    def layer(patches):
        gates = my.router_scores(patches, routers)
        gates = my.softmax_gates(gates, my.chosen(gates, count, -1), -1)
        return my.mixture(gates, my.expert_outputs(patches, hidden, outputs), count)

    for epoch in range(steps + 1):
        directions = torch.nn.functional.cosine_similarity(routers.detach()[:, None], signals[None], dim=2)
        right = (layer(test_patches) * test_y > 0).float().mean().item()
        yield {"step": epoch, "right": right, "directions": directions.numpy()}
        for batch in torch.randperm(200, generator=random).split(20):
            loss = my.logistic_loss(layer(patches[batch]), y[batch])
            for weight, slope in zip(
                (routers, hidden), torch.autograd.grad(loss, (routers, hidden)), strict=True
            ):
                weight.data -= rate * slope


def draw_routers(ax, now):
    ax.set(xlim=(-1, 1), ylim=(-1, 1), xlabel="cosine with o₁", ylabel="cosine with o₂")
    ax.plot(*now["directions"].T, "ko", label="a router")


def draw_right(ax, now):
    ax.set(xlim=(0, 40), ylim=(0, 1.02), xlabel="epoch", ylabel="share of test samples that are right")
    ax.plot(*now.curve("right"), "k", label="right")


sliders = (slider("count", 6, 1, 16), slider("rate", 5.0, 0.0, 20.0), slider("experts", 8, 1, 16))
panels = (Panel("Where my routers point", draw_routers), Panel("How often my layer is right", draw_right))
MyLab = lab("My mixture", train_mine, knobs=sliders, panels=panels, name="MyLab")
MyLab(seed=SEED)

# %% [markdown]
# *What to see.* **Left:** The routers start without a preference. Five of the eight move to the top ($o_2$) or to the
# right ($o_1$). The other three keep neither pattern, so hardly anything pulls them (notebook 02). **Right:** The
# accuracy rises while the routers move. Set *rate* to 0, and nothing changes.
#
# *Pin*, *Copy as code*, *Save page* and the time slider work as in all Labs. `help(lab)` lists what else a Lab can have.
# The how-to page "A Lab of my own" of the site begins where this cell ends.

# %% [markdown]
# ## Before you go
#
# Your layer is also a model of the library. `train`, `sweep` and the figures take `my.layer(...)` wherever they take a
# model.
#
# What you have built, with its gradient written by hand and its training, is one file of the library, `moe_lab/plain.py`.
# Read it next; `python -m moe_lab.plain` runs it.
#
# *Done? Choose File › Close and Shut Down Notebook. Each notebook holds 450 to 740 MB until its kernel is shut down,
# and Binder allows 2 GB in all.*
