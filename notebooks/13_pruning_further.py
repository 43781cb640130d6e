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
# # 13 · Pruning, further
#
# **35 minutes · no GPU · after notebook 05**
#
# *This notebook is optional.* In notebook 05 one rule was right in every trial. But we had planted the checkpoint, the loss
# was the one of the proof, and experts chose their tokens. Here you change these three things, one at a time, and see what
# is left of the rule. At the end you compare the paper's theorems with runs.
#
# **After this notebook you can**
# - tell the change of a norm from the norm of a change,
# - say what another loss and another routing do to a pruned layer,
# - compare a theorem with a run: what holds, what fails, and what was never promised.

# %% [markdown] tags=["badges"]
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/moe-lab/moe_lab/blob/v0.1.0/notebooks/13_pruning_further.ipynb)
# [![Open on Binder](https://mybinder.org/badge_logo.svg)](https://mybinder.org/v2/gh/moe-lab/moe_lab/v0.1.0?urlpath=lab/tree/notebooks/13_pruning_further.ipynb)

# %% [markdown] tags=["papers"]
# *The paper: [Chowdhury et al., ICML 2024](https://arxiv.org/abs/2405.16646).*

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

from moe_lab import exercises
from moe_lab.drawing import theme
from moe_lab.pruning import (
    BranchStart,
    PlantedStart,
    RandomStart,
    TokenMoE,
    TokenRun,
    TokenTask,
    figures,
    fine_tune,
    plots,
    theory,
)
from moe_lab_widgets import PruningLab, predict

SEED = 0
torch.set_num_threads(1)  # these models are small: more threads only wait for each other
pd.set_option("display.precision", 3, "display.max_colwidth", 90)

# %% [markdown]
# ## Two rules that sound alike
#
# The layer, the task and the rules are those of notebook 05. One rule is new:
#
# $$\underbrace{\Delta_s = \lVert w_s^{(T)}\rVert - \lVert w_s^{(0)}\rVert}_{\text{change of the router's norm}}
# \qquad\qquad
# \underbrace{D_s = \lVert w_s^{(T)} - w_s^{(0)}\rVert}_{\text{norm of the router's difference}}$$
#
# $\Delta_s$ (`router-norm-change`) says how much longer a router became. $D_s$ (`router-difference-norm`) says how far it
# moved. A router that only turns moves far, but $\Delta_s = 0$.
#
# We compare them on a checkpoint that nobody planted. Four branches of experts were pre-trained, each on a task of its own
# with two patterns of its own. Then all twenty experts were put side by side in one layer. One of the four tasks is ours,
# and the layer is fine-tuned on it.
#
# ## First, your prediction

# %%
prediction = predict(
    "Nine tenths of these experts are pruned. Which rule loses accuracy?",
    ["change of the router's norm", "norm of the router's difference", "router norm", "none of the three"],
)
prediction

# %%
rules = ("router-norm-change", "router-difference-norm", "router-magnitude", "importance-score", "random")
found = figures.criteria(
    start="pretrained", rho=(0.5, 0.7, 0.9), trials=4, seed=SEED, criteria=rules, fine_tuning_steps=0
)
accuracy = found["test_accuracy"].mean("trial").squeeze().to_pandas()
accuracy

# %% jupyter={"source_hidden": true} tags=["compare"]
# Compares your prediction with the result.
three = accuracy.loc[list(rules[:3]), 0.9]
outcome = dict(zip(rules, "abc", strict=False))[three.idxmin()] if three.min() < 0.97 else "d"
prediction.seen(outcome, "It keeps some experts that only turned away from another task.")

# %% [markdown]
# ## What happened and why
#
# Look at all routers of this checkpoint, in four trials:

# %%
task = TokenTask()
branches = fine_tune(TokenRun(model=TokenMoE(), task=task, start=BranchStart(), trials=4, seed=SEED))
change, moved = (branches.scores(name).numpy() for name in ("router-norm-change", "router-difference-norm"))
ours = pd.DataFrame([theory.kinds(branches, trial) for trial in range(4)]).to_numpy() == "important"
figure, panel = plt.subplots(figsize=(7, 4), facecolor=theme.PAPER, layout="constrained")
theme.plain(panel)
panel.plot([0, 5], [0, 5], color=theme.RULE, linewidth=1, zorder=0)
panel.plot(moved[ours], change[ours], "o", color=theme.INK)
panel.plot(moved[~ours], change[~ours], "x", color=theme.REFERENCE)
panel.text(2.1, 4.2, "experts of this task", color=theme.INK)
panel.text(4.3, 1, "all others", color=theme.REFERENCE)
panel.set(xlabel="D, norm of the router's difference", ylabel="Δ, change of the router's norm")
plt.show()

# %% [markdown]
# *What to see.* Dots are the experts that were pre-trained on this task. They lie on the diagonal: their routers moved
# straight outward, so distance equals growth. Crosses are all other experts. Many of their routers had grown for another
# task and now turn. Some moved by 5.6 but grew by only 2.5. Ranked by $\Delta$, all dots come before all crosses. Ranked
# by $D$, some crosses come first.
#
# The router norm does well here, too: the experts of this task end with the largest norms. The contrast of notebook 05 was
# a choice.
#
# ### Random weights: figure 3 of the paper
#
# The paper starts without any pre-training. All routers and neurons begin near 0 (variances $10^{-8}$ and $10^{-4}$), so
# a router's norm and its change are nearly the same:

# %%
three = figures.figure3(seed=SEED)
plots.picture(three)

# %% [markdown]
# *What to see.* **1:** A few routers of each vote end far above $1.5 \log l$, the others stay near 0. **2:** The largest
# router that votes $+$ has a component along $o_1$ and none along the 199 other patterns. Most neurons of its expert look
# the same. **3:** The smallest router has nothing. The picture shows the first trial in which both classes have a large
# router. In some trials a class has none:

# %%
rows = {
    "large routers": three["large"].sum("expert").values,
    "a class without any": three["violated"].values,
    "accuracy": three["test_accuracy"].values,
}
pd.DataFrame(rows).T.rename_axis(columns="trial")

# %% [markdown]
# In 80 trials (seeds 0 and 1) there were 1 to 7 large routers, and in 21 trials a class had none. The theory assumes one
# for each class. Such a trial need not fail: if the experts of one class are silent, those of the other can decide alone.
# Only five of the 21 ended with an accuracy below .9.
#
# ## A loss that stops teaching
#
# So far every sample taught in every step: the gradient was that of $1 - yf$. The *hinge loss* $\max(0, 1 - yf)$ stops
# teaching a sample once $yf \ge 1$. We fine-tune the planted checkpoint with it until the layer is right in all samples.
# Then 30 % of the experts go, by `router-norm-change`. It keeps all important experts.

# %%
prediction_loss = predict(
    "What happens to the accuracy when 30 % of the experts are pruned?",
    ["it stays at 100 %", "it falls, and fine-tuning repairs it", "it falls, and fine-tuning does not help"],
)
prediction_loss

# %%
rules = ("router-norm-change", "neuron-magnitude-change", "random")
hinge = figures.criteria(
    rho=(0.3, 0.6, 0.8), trials=3, seed=SEED, criteria=rules, loss="hinge", fine_tuning_steps=30
)
accuracy = hinge["test_accuracy"].mean("trial")
tables = {bool(tuned): accuracy.sel(fine_tuned=tuned).to_pandas() for tuned in hinge["fine_tuned"]}
pd.concat(tables, axis=1, names=["fine-tuned", "rho"])

# %% jupyter={"source_hidden": true} tags=["compare"]
# Compares your prediction with the result.
pruned, repaired = (table.loc["router-norm-change", 0.3] for table in (tables[False], tables[True]))
outcome = "a" if pruned > 0.97 else "b" if repaired > 0.97 else "c"
prediction_loss.seen(outcome, "What the important experts say is only just loud enough for the whole layer.")

# %% [markdown]
# The important experts stop learning as soon as their output exceeds the noise of the whole layer. In that noise the
# contributions of sixteen other experts nearly cancel. If only some of the sixteen are pruned, the others cancel less, and
# their noise exceeds the output of the important experts. At $\rho=.8$ all sixteen are gone, and with them the noise.
# Fine-tuning repairs both rules at every $\rho$, because the experts that know the patterns are still there. Without it, the
# change of the neuron norm does better.
#
# ## When tokens choose
#
# In *token choice* each token picks the $l$ experts with the largest scores, and its gates are a softmax over these. The
# paper prunes such a layer *silently* (eq. 5): all routers stay, and a pruned expert answers 0. So no other gate changes.
# The theory does not cover this case. Does the rule work?

# %%
found = figures.criteria(routing="token-choice", trials=6, seed=SEED, fine_tuning_steps=0)
found["test_accuracy"].mean("trial").squeeze("fine_tuned").to_pandas()

# %% [markdown]
# It does. But we had to make the neurons of the unimportant experts small (.02 in place of .2). Now all 100 tokens pass
# through the layer, and the answers to 99 of them are noise. With .2 there is one trial among four in which the noise hides
# the class. Before any pruning this trial is right in less than 60 % of its samples.

# %%
prediction_noise = predict(
    "Half of the experts are pruned by router-norm-change. What happens to the accuracy of this trial?",
    ["it rises", "it stays", "it falls to 50 %, which is guessing"],
)
prediction_noise

# %%
noisy = figures.criteria(
    PlantedStart(), "token-choice", trials=4, seed=SEED, criteria="router-norm-change", fine_tuning_steps=0
)
rows = {"unpruned": noisy["unpruned_accuracy"].values}
rows |= {f"rho = {rho:g}": noisy["test_accuracy"].sel(rho=rho).squeeze().values for rho in noisy["rho"].values}
pd.DataFrame(rows).T.rename_axis(columns="trial")

# %% jupyter={"source_hidden": true} tags=["compare"]
# Compares your prediction with the result.
worst = rows["unpruned"].argmin()
gain = rows["rho = 0.5"][worst] - rows["unpruned"][worst]
outcome = "a" if gain > 0.05 else "b" if gain > -0.05 else "c"
prediction_noise.seen(outcome, "The experts that go are the ones that make the noise.")

# %% [markdown]
# ## The Lab
#
# Each of these experiments is a setting of the Lab of notebook 05:

# %%
lab = PruningLab(seed=SEED)
lab

# %% [markdown]
# *What to see.* The panels are those of notebook 05. Choose in <kbd>goal</kbd>, one after the other:
#
# - *Pre-trained branches*. Set <kbd>prune by</kbd> to *difference*. Whose bars are long in the lower row?
# - *A random start, and the assumption fails*. Which class has no large router?
# - *Fine-tuning rescues under the true hinge*. Untick <kbd>fine-tune what is left</kbd> and move
#   <kbd>ρ · share pruned</kbd>. Where is the accuracy lowest?
# - The third task, *Raise the accuracy of the worst trial by pruning*: tokens choose there. What falls less than in expert
#   choice, memory or FLOPs? Why?
#
# ## Exercise
#
# Eq. 5, where tokens choose. `scores` and `values` are NumPy arrays of shape $(n, k)$: $\langle w_s, x^{(j)}\rangle$ and
# $\sigma_j^{(s)}$. `signs` and `kept` have shape $(k,)$, and `top` is $l$. Which experts a token chooses, and with which
# gates, does not depend on who is kept.


# %%
def pruned_output(scores, values, signs, kept, top):
    """f(x) of the pruned layer -> one number."""
    return None  # your code


exercises.check_pruned_output(pruned_output)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def pruned_output(scores, values, signs, kept, top):
#     import numpy as np
#
#     def softmax(scores, axis=-1):
#         powers = np.exp(scores - scores.max(axis=axis, keepdims=True))
#         return powers / powers.sum(axis=axis, keepdims=True)
#
#     output = 0.0
#     for score, value in zip(scores, values, strict=True):  # one token
#         chosen = np.argsort(-score)[:top]
#         for expert, gate in zip(chosen, softmax(score[chosen]), strict=True):
#             if kept[expert]:
#                 output += signs[expert] * gate * value[expert]
#     return output
# ```
#
# </details>

# %% [markdown]
# ## For readers of the paper
#
# *This part is optional: the core of the notebook ends here.* It is for those who compare it with the paper.

# %% [markdown]
# ### The theory, statement by statement
#
# - Lemma 4.1: important experts ($p^{(0)} = \Omega(1)$) end with $p = 1$, gates above 1/2, large neurons, and $\Delta > 1.5
#   \log l$.
# - Lemma 4.2: unimportant experts ($p^{(0)} = O(1/d)$) stay as they are.
# - Theorem 4.3: so all unimportant experts can go.
# - Theorem 4.5: with fine-tuning after pruning, all but one of each half can go.
#
# First a run that meets all assumptions without a hidden constant. They ask for first routers with norms of at most
# $\frac{1}{2} \log l = .8$:

# %%
close = fine_tune(
    TokenRun(model=TokenMoE(), task=task, start=PlantedStart(others_norm=0.4), trials=2, seed=SEED)
)
for finding in (
    *theory.lemma_4_1(close),
    *theory.lemma_4_2(close),
    theory.theorem_4_3(close),
    theory.theorem_4_5(close),
):
    print(finding)

# %% [markdown]
# All hold. But no first norm exceeds .8, and important routers grow by 2.4 or more. So the router norm after fine-tuning
# marks them just as well, and the theorem is true of pruning by `router-magnitude`, too. The two rules differ on checkpoints
# that do not meet the assumptions, such as that of notebook 05:

# %%
planted = fine_tune(TokenRun(model=TokenMoE(), task=task, seed=SEED))
print(theory.theorem_4_3(close, criterion="router-magnitude"), "\n")
print(theory.theorem_4_3(planted))
print(theory.theorem_4_3(planted, criterion="router-magnitude"))

# %% [markdown]
# What else does the paper ask for? Here are its conditions for the run of notebook 05, with every hidden constant read as 1:

# %%
for finding in theory.conditions(planted, later_steps=60):
    print(finding)

# %% [markdown]
# Six are met and seven are not. The conclusions are true all the same: these conditions are sufficient, not necessary.
#
# Now from random weights. In trial 1 both classes find experts, in trial 7 one does not:

# %%
recipe = {"start": RandomStart(), "batch": 100, "steps": 300, "seed": SEED, "trials": 8}
scratch = fine_tune(TokenRun(model=TokenMoE(router_learning_rate=0.01), task=task, **recipe))
for finding in (*theory.lemma_4_2(scratch, trial=1), theory.theorem_4_3(scratch, trial=1)):
    print("trial 1,", finding)
print("trial 7,", theory.theorem_4_3(scratch, trial=7))

# %% [markdown]
# Lemma 4.2 **fails** in trial 1: experts with $p^{(0)}=0$ became important. Its proof uses a margin that tiny random
# routers do not have. Every pattern that an unimportant router ranks above $o_1$ must be ahead by about $1/d$. The paper
# assumes this of important experts only. How many experts of each class are important before training, $p^{(0)} \ge .1$?

# %%
before = [theory.evidence(scratch, trial).per_class() for trial in range(8)]
pd.DataFrame(before, columns=["of class +1", "of class -1"]).T.rename_axis(columns="trial")

# %% [markdown]
# The theorem wants one of each class. Six of these eight trials do not have that, and yet all but trial 7 do well.
#
# ### What cannot be checked here
#
# The paper's main evidence is from vision models, V-MoE and E³, on CIFAR and ImageNet. These are its numbers, and the
# function that measures what is closest to each:

# %%
stated = figures.published().to_dataframe()
vision = stated[(stated["in_kind"] | (stated["function"] == "")) & (stated["unit"] == "")]
columns = {"place": "place", "value": "share", "words": "what", "function": "closest function in figures"}
vision[list(columns)].rename(columns=columns).reset_index(drop=True)

# %% [markdown]
# ### What is ours
#
# - The paper does not state $m$, the learning rates, the batch or the number of steps of figure 3. Ours are $m=20$,
#   $\eta_e=.1$, $\eta_r=.01$, $B=100$ and 300 steps.
# - The true hinge loss is an option of ours. The proofs do not cover it. The vision models are trained with a loss that
#   stops teaching in the same way.
#
# ### Errata and loose ends
#
# - **Eq. 6**, the gates of a pruned expert-choice layer, has $g_j^{(i)}$ in the denominator. It should be $g_i^{(s)}$,
#   because the softmax is over the tokens of expert $s$.
# - **Appendix C** writes $p^{(s,t)}$ with the gate $G^{(s,0)}$ of step 0. As printed, $p$ could never grow:

# %%
seen = theory.evidence(scratch, trial=1)
columns = {"p at step 0": seen.before["proficiency"], "p at the end": seen.after["proficiency"]}
columns["as printed"] = theory.printed_proficiency(scratch, trial=1)
pd.DataFrame(columns, index=range(1, 21)).query("`p at the end` == 1").rename_axis("expert")

# %% [markdown]
# - **$P(q \in x) = O(1/d)$** for every pattern contradicts $n=100$ tokens out of $d=200$ patterns. Each pattern occurs in
#   39 % of the samples.
# - **(8) bounds the routers' learning rate from above only.** It allows $\eta_r = 0$, with which no router moves and lemma
#   4.1 (iv) is false. The proof needs a rate of that size. The full versions of the lemmas in the appendix ask for another
#   factor $1/d$.
# - **(8) and (9) with constants of 1** ask for $\eta_r = 10^{-6}$, $B = 10^6$ and $T = 4485$. With these $\eta_r$ and $T$
#   (and $B=50$) we measured $\Delta = .03$, far below $1.5 \log l$. So the constants matter: $\eta_r$ in our runs is 50,000
#   times as large.
# - **The converse, lemma 4.4.** A router can grow without learning its own pattern. In the pre-trained checkpoint a router
#   that votes $+$ grows towards $o_2$. Its expert learned to be silent in class $-1$. Its first norm of 3.7 does not meet
#   the assumptions:

# %%
for finding in theory.lemma_4_4(branches, trial=0, steps=60)[:2]:
    print(finding)

# %% [markdown]
# ## Before you go
#
# The change of the router's norm kept the right experts on every checkpoint here. Even so, with the hinge loss the pruned
# layer was not safe without fine-tuning. A theorem says where a rule must work. Anywhere else you have to measure.
#
# *Done? Choose File › Close and Shut Down Notebook. Each notebook holds 450 to 740 MB until its kernel is shut down, and
# Binder allows 2 GB in all.*
