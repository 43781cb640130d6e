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
# # 05 · Pruning
#
# **45 minutes · no GPU · after notebooks 00 and 01**
#
# A layer has twenty experts, and only four of them know anything about your task. Throw the others away and the layer
# needs a fifth of the memory and of the time. But which four? Here you fine-tune a layer, prune it with seven different
# rules, and see why one of them comes with a proof: keep the experts whose *routers grew*.
#
# **After this notebook you can**
# - say what the change of a router's norm measures, and why it marks the experts that learned,
# - show a checkpoint where size, or the number of tokens, picks exactly the wrong experts, and say how it was chosen,
# - say what fine-tuning after pruning mends and what it cannot,
# - hold a theorem against a run: what holds, what fails, and what was never promised.

# %% [markdown] tags=["badges"]
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/moe-lab/moe_lab/blob/main/notebooks/05_pruning.ipynb)
# [![Open on Binder](https://mybinder.org/badge_logo.svg)](https://mybinder.org/v2/gh/moe-lab/moe_lab/main?urlpath=lab/tree/notebooks/05_pruning.ipynb)

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

from moe_lab import exercises, theme
from moe_lab.pruning import (
    BranchStart,
    PlantedStart,
    RandomStart,
    Run,
    TokenMoE,
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
# ## The task and the layer
#
# A sample holds $n=100$ tokens out of $d=200$ orthonormal patterns. Exactly one of them is $o_1$ (class $+1$) or $o_2$
# (class $-1$). All others are drawn alike in both classes: they mean nothing. Three samples, their first 16 tokens, as
# numbers of patterns; $o_1$ is pattern 0, $o_2$ is pattern 1:

# %%
task = TokenTask()
drawn = task.sample(3, trials=[0], seed=SEED)
rows = [f"y = {label:+d}" for label in drawn.labels[0].int().tolist()]
place = [f"token {int((row <= 1).nonzero()[0]) + 1} of 100 decides" for row in drawn.tokens[0]]
pd.DataFrame(drawn.tokens[0, :, :16].numpy(), rows).assign(where=place)

# %% [markdown]
# The layer has $k=20$ experts of $m=20$ neurons. Expert $s$ has a router $w_s$, with which it chooses its $l=5$ tokens
# (expert-choice), and a fixed vote $a^{(s)}$: the first ten say $+$, the others $-$ (section 4.2):
#
# $$f(x) = \sum_{s=1}^{k} a^{(s)} \sum_{j \in J_s} G_j^{(s)}\, \sigma_j^{(s)}, \qquad
# \sigma_j^{(s)} = \sum_{r=1}^{m} \mathrm{ReLU}\big(\langle w_r^{(s)}, x^{(j)}\rangle\big), \qquad
# G^{(s)} = \mathrm{softmax}\big(\langle w_s, x^{(j)}\rangle\big)_{j \in J_s}.$$
#
# We begin with a *planted checkpoint*, so that we know the truth: of each half, two experts are **important**. Their
# routers are short and put their class's pattern a little above all others. The other sixteen are specialists of
# something else: their routers are long, up to 24, and rank $o_1$ and $o_2$ last. Then all of them are fine-tuned.
#
# ## First, your prediction
#
# 16 of 20 experts must go. You may look at one number per expert. Which of these would you take, and which do you expect
# to fail?
#
# 1. the length of its router, $\|w_s\|$, after fine-tuning,
# 2. how many tokens it wins, times its confidence in them,
# 3. how much longer its router got in fine-tuning, $\Delta_s = \|w_s^{(T)}\| - \|w_s^{(0)}\|$,
# 4. the length of its router's way, $\|w_s^{(T)} - w_s^{(0)}\|$.
#
# And: if a rule has thrown out the wrong experts, does fine-tuning what is left repair it?

# %%
prediction = predict(
    "Which of the first two rules does worse than pruning at random here?",
    ["the length of the router", "tokens won times confidence", "both", "neither"],
)
prediction

# %% [markdown]
# ## The Lab

# %%
lab = PruningLab(seed=SEED)
lab

# %% [markdown]
# *What to see.* **Left:** a bar for each expert, how much its router has grown. Two blue bars ($+$) and two orange ones
# ($-$) pass the dashed line $1.5 \log l$, the others stay near 0. Below, what the chosen rule ranks by; experts that
# $\rho$ prunes turn grey. Moving $\rho$ or the rule trains nothing. **Middle:** accuracy against $\rho$, the chosen rule
# in ink, the others grey. **Right:** what is left of accuracy, memory and FLOPs.
#
# Try, and write down what you see:
#
# 1. Move **ρ** up to .9. How many experts stay? Then change **prune by**, and look at your four candidates.
# 2. Choose the router's norm, then lower the **others' router norm** to 1. Why does it work now?
# 3. Choose a rule that fails and switch **fine-tune what is left** on. When does it help?
# 4. Set $l=1$. What does the Lab say, and why?
# 5. The stories have more: one expert too many, tokens that choose, the true hinge loss.

# %% [markdown]
# ## What happened and why
#
# Write down one step of gradient descent for expert $s$, along one pattern $q$. With $P_q$ the gate that the expert gives
# to $q$ in a sample, and $F_s$ its output there:
#
# $$\text{each active neuron:}\quad +\,\eta_e\, a^{(s)}\, \overline{y\, P_q}, \qquad\qquad
# \text{the router:}\quad +\,\eta_r\, a^{(s)}\, \overline{y\, P_q\, (\sigma_q - F_s)}.$$
#
# **1. Neurons.** For an expert that votes $+$, every sample with $o_1$ has $y=+1$: the neurons move up along $o_1$ in
# every step. Along an irrelevant $q$, $y$ is $+1$ as often as $-1$: it cancels. So $\sigma_{o_1}$ grows, the rest stays.
#
# **2. Router.** Once $\sigma_{o_1} > F_s$, the router moves towards $o_1$, which makes the gate larger, and so on. The
# router *grows*, in one direction.
#
# **3. Who never meets $o_1$ learns nothing.** An unimportant expert ranks $o_1$ below five other tokens. All it sees
# cancels, so its router stays as long as it was. That is the paper's rule: prune the experts with the smallest
# $\Delta_s$, among those that vote $+$ and among those that vote $-$.
#
# Here is all that in one trained layer. The change after 110 steps:

# %%
planted = fine_tune(Run(model=TokenMoE(), task=task, seed=SEED))
seen = theory.evidence(planted, trial=0)
columns = ["router_norm", "norm_change", "proficiency", "gate", "own_sum"]
table = pd.DataFrame({name: seen.after[name] for name in columns}, index=[f"expert {s}" for s in range(1, 21)])
table.insert(0, "norm before", seen.before["router_norm"])
table.insert(0, "kind", theory.kinds(planted, trial=0))
table.sort_values("norm_change", ascending=False).head(7).round(3)

# %% [markdown]
# `proficiency` is $p$, the share of its class's samples in which the expert gets its own pattern with a gate of at least
# $1/l$; `gate` the mean gate; `own_sum` is $\sigma_o$. Four routers grew from .3 to 4. The others stayed as they were,
# however long or short. (A long router is also a stiff one: where a gate is 1 already, $\sigma_q - F_s = 0$.)
#
# ### Why one fine-tuning serves every rule
#
# In the two steps above nothing of the other experts occurs. The gradient of $1 - yf$ along the weights of expert $s$
# knows $F_s$ alone. So an expert becomes exactly the same whether the others are there or not, and the Lab can fine-tune
# *every* pruned layer at once. Where tokens choose their experts, the experts share a softmax, and that is lost. The
# largest difference between the two trainings, over the largest weight (float64):

# %%
models = {"expert-choice": TokenMoE(), "token-choice": TokenMoE(routing="token-choice", top=2)}
gaps = {}
for name, model in models.items():
    tuned = fine_tune(Run(model=model, task=task, steps=60, trials=1, seed=SEED, precision="float64"))
    gaps[name] = float(theory.decoupling(tuned, tuned.kept("random", 0.5), steps=60).max())
pd.Series(gaps, name="largest difference").round(3).to_frame()

# %% [markdown]
# ### Without planting: figure 3 of the paper
#
# Nobody has to plant anything. Start all routers and neurons near 0 (variances $10^{-8}$ and $10^{-4}$) and train:

# %%
three = figures.figure3(seed=SEED)
plots.picture(three)

# %% [markdown]
# *What to see.* **1:** a few routers of each half end far above $1.5 \log l$, the others near 0. **2:** the largest router
# of those that vote $+$ has a component along $o_1$ and none along the 199 other patterns, and so have most of its
# expert's neurons. **3:** the smallest has nothing. It is not always like that (the picture shows the first trial in
# which it is): in some trials a class finds *no* expert.

# %%
rows = {
    "large routers": three["large"].sum("expert").values,
    "a class without any": three["violated"].values,
    "accuracy": three["test_accuracy"].values,
}
pd.DataFrame(rows).T.rename_axis(columns="trial")

# %% [markdown]
# In 80 trials (seeds 0 and 1) there were 1 to 7 large routers; in 21 trials a class had none. The theory assumes one per
# class. Such a trial need not fail: where the experts of one class are quiet, those of the other can decide alone. Five of
# the 21 did, with an accuracy below .9.
#
# ### The norm of the difference is another thing
#
# $\Delta_s$ is a difference of norms, not the norm of the difference: a router that *turns* has gone a long way and has
# $\Delta_s \approx 0$. To see routers turn, take a checkpoint that nobody planted: four branches of experts are
# pre-trained on four tasks, and put side by side. The first of these tasks is ours.

# %%
branches = fine_tune(Run(model=TokenMoE(), task=task, start=BranchStart(), trials=4, seed=SEED))
change, way = (branches.scores(name).numpy() for name in ("router-norm-change", "router-difference-norm"))
ours = pd.DataFrame([theory.kinds(branches, trial) for trial in range(4)]).to_numpy() == "important"
figure, panel = plt.subplots(figsize=(7, 4), facecolor=theme.PAPER, layout="constrained")
theme.plain(panel)
panel.plot([0, 5], [0, 5], color=theme.RULE, linewidth=1, zorder=0)
panel.plot(way[ours], change[ours], "o", color=theme.INK)
panel.plot(way[~ours], change[~ours], "x", color=theme.REFERENCE)
panel.text(2.1, 4.2, "this task's specialists", color=theme.INK)
panel.text(4.3, 1, "all others", color=theme.REFERENCE)
panel.set(xlabel="norm of the difference", ylabel="Δ, difference of the norms")
plt.show()

# %% [markdown]
# *What to see.* Dots are this task's specialists, in four trials. They lie on the diagonal: their routers went straight
# on, and got as much longer as they went far. Crosses are all other experts. Many had grown for another task and turned:
# some went 5.6 far and got 2.5 longer. Ranked from the top, by $\Delta$, all dots come first. Ranked from the right, by
# the norm of the difference, some crosses do, and a rule by it keeps the wrong ones:

# %%
names = ("router-norm-change", "router-difference-norm", "router-magnitude", "importance-score", "random")
found = figures.criteria(
    start="pretrained", rho=(0.5, 0.7, 0.9), trials=4, seed=SEED, criteria=names, fine_tuning_steps=0
)
found["test_accuracy"].mean("trial").squeeze().to_pandas()

# %% [markdown]
# On this checkpoint, the most natural one, every sensible rule does well: the router's length too.
#
# ## Measure it
#
# ### What pruning saves
#
# Pruned experts are gone from memory. A larger layer of vectors ($d=256$, $m=1024$), with real products:

# %% tags=["varies"]
plots.picture(figures.efficiency(rho=(0.0, 0.4, 0.8), repeats=3, samples=8, seed=SEED))

# %% [markdown]
# *What to see.* FLOPs and memory fall in proportion to the share of experts that go, and the measured time nearly so.
# Torch's own counter (marks) agrees with the formula. In token-choice the routers stay, which costs next to nothing. A
# vision model saves less, because everything but its MoE layers remains: the paper has 40 % of the FLOPs for 75 % of the
# experts.
#
# ### What it costs
#
# Ten planted layers, six rules, all shares of pruned experts:

# %%
compared = figures.criteria(start="planted", rho=figures.CURVE, trials=10, seed=SEED)
plots.picture(compared)

# %% [markdown]
# *What to see.* **1:** important experts and others fall apart by $\Delta$, in all trials. **2:** pruning by $\Delta$
# (ink) costs nothing at any $\rho$. The router's length, the neurons' length and the token count drop below random and
# stay there. **3:** 60 steps of fine-tuning what is left do not change the order.
#
# Why do the others fail?
#
# - **The router's length** keeps the long routers, which were long before and learned nothing.
# - **The token count** (importance score) asks who wins many tokens with a large gate. 99 of 100 tokens mean nothing, and
#   the experts that want them win more of them.
# - **The neurons' length** keeps the large neurons of the others, of the same kind.
# - **The change of the neurons' length** works as well as $\Delta$. In nothing that we tried on this layer is it clearly
#   beaten; in the paper's vision models it is, a little.
#
# These contrasts are **chosen**. The checkpoint was made such that a long, confident router is a useless one. Make the
# others short, and length does as well as change:

# %%
pruned = (
    compared["test_accuracy"].sel(rho=0.8, method="nearest").sel(fine_tuned=False).mean("trial").to_series()
)
fails = [bool(pruned[rule] < pruned["random"]) for rule in ("router-magnitude", "importance-score")]
outcome = {(True, False): "a", (False, True): "b", (True, True): "c", (False, False): "d"}[tuple(fails)]
prediction.seen(
    outcome, "Long routers were long before, and who wins many tokens wins those that mean nothing."
)

# %%
rules = ("router-norm-change", "router-magnitude", "importance-score", "neuron-magnitude")
norms = {}
for norm in (12.0, 4.0, 1.0):
    start = PlantedStart(others_norm=norm)
    found = figures.criteria(start=start, rho=0.5, trials=6, seed=SEED, criteria=rules, fine_tuning_steps=0)
    norms[f"others {norm:g}"] = found["test_accuracy"].mean("trial").squeeze().to_series()
pd.DataFrame(norms)

# %% [markdown]
# And from the random start of figure 3 nothing can be told apart by routers at all: first norms are .001, so the norm
# *is* its change.
#
# ### What fine-tuning mends
#
# A layer that was fine-tuned too briefly (60 steps), and the others' norm 8. Mean and worst of ten trials at $\rho=.3$:

# %%
rules = ("router-norm-change", "random", "router-magnitude")
brief = figures.criteria(
    start=PlantedStart(others_norm=8.0), steps=60, rho=0.3, trials=10, seed=SEED, criteria=rules
)
accuracy = brief["test_accuracy"].squeeze("rho").transpose("criterion", "fine_tuned", "trial")
rows = {"mean": accuracy.mean("trial"), "worst": accuracy.min("trial")}
pd.concat({name: one.to_pandas() for name, one in rows.items()}, axis=1, names=["", "fine-tuned"])

# %% [markdown]
# Fine-tuning lets those who know their pattern learn it to the end: .95 (worst .67) becomes 1.00. It does nothing for a
# layer whose important experts are gone: the others never meet $o_1$ or $o_2$, so there is nothing that they could learn
# from. **What was thrown away does not come back.**
#
# All this was with the paper's gradient, of $1 - yf$, which goes on teaching samples that are right already. The *true*
# hinge loss stops there. What the important experts say is then just loud enough for the whole layer, in which the noise
# of the others nearly cancels. Prune a few of the others, and it does not:

# %%
rules = ("router-norm-change", "neuron-magnitude-change", "random")
hinge = figures.criteria(
    rho=(0.3, 0.6, 0.8), trials=3, seed=SEED, criteria=rules, loss="hinge", fine_tuning_steps=30
)
accuracy = hinge["test_accuracy"].mean("trial")
tables = {bool(tuned): accuracy.sel(fine_tuned=tuned).to_pandas() for tuned in hinge["fine_tuned"]}
pd.concat(tables, axis=1, names=["fine-tuned", "rho"])

# %% [markdown]
# The unpruned layers are right in all samples. $\Delta$ keeps the right experts (at $\rho=.8$ only the important ones are
# left), yet at $\rho=.3$ and $.6$ the accuracy falls, and the change of the neurons' length does better. Here fine-tuning
# does repair: those who know their pattern are all there.
#
# ### When tokens choose
#
# In token-choice each token picks $l=2$ experts. Then routers of pruned experts stay (eq. 5), so that nobody else's gate
# changes, and a pruned expert's share is lost. The theory says nothing of it; the rule works here too:

# %%
found = figures.criteria(routing="token-choice", trials=6, seed=SEED, fine_tuning_steps=0)
found["test_accuracy"].mean("trial").squeeze("fine_tuned").to_pandas()

# %% [markdown]
# For this, the others' neurons had to be made small (.02 in place of .2): now all 100 tokens go through the layer, and
# their noise adds up. With .2 it hides the class in some samples before anything is pruned, and pruning the noisy experts
# *raises* the accuracy:

# %%
noisy = figures.criteria(
    PlantedStart(), "token-choice", trials=4, seed=SEED, criteria="router-norm-change", fine_tuning_steps=0
)
rows = {"unpruned": noisy["unpruned_accuracy"].values}
rows |= {f"rho = {rho:g}": noisy["test_accuracy"].sel(rho=rho).squeeze().values for rho in noisy["rho"].values}
pd.DataFrame(rows).T.rename_axis(columns="trial")

# %% [markdown]
# And with $l=1$ the rule is not defined: the only gate is 1, whatever the router says, and a constant has no slope.

# %%
try:
    figures.criteria(routing="token-choice", top=1, trials=1, seed=SEED)
except ValueError as error:
    print(error)

# %% [markdown]
# ## Exercises
#
# First $\Delta_s$ itself. `before` and `after` are $(k, d)$, a router in each row.


# %%
def norm_change(before, after):
    """The change of each router's norm -> (k,)."""
    return None  # your code


exercises.check_norm_change(norm_change)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def norm_change(before, after):
#     import numpy as np
#
#     return np.linalg.norm(after, axis=1) - np.linalg.norm(before, axis=1)
# ```
#
# </details>

# %% [markdown]
# Who stays? `scores` and `signs` are $(k,)$. A share of `rho` of each sign's experts goes, rounded down to whole experts,
# and the largest scores stay.


# %%
def kept_experts(scores, signs, rho):
    """True for the experts that stay -> (k,)."""
    return None  # your code


exercises.check_kept_experts(kept_experts)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def kept_experts(scores, signs, rho):
#     import numpy as np
#
#     kept = np.zeros(len(scores), dtype=bool)
#     for sign in (1, -1):
#         mine = np.flatnonzero(signs == sign)
#         lost = int(rho * len(mine) + 1e-9)
#         kept[mine[np.argsort(scores[mine])[lost:]]] = True
#     return kept
# ```
#
# </details>

# %% [markdown]
# Eq. 5: tokens choose. `scores` and `values` are $(n, k)$: $\langle w_s, x^{(j)}\rangle$ and $\sigma_j^{(s)}$; `signs` and
# `kept` are $(k,)$; `top` is $l$. Beware: who is chosen, and with which gate, does not depend on who is kept.


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
# Last, the rival: the importance score. `gates` is (tokens, $k$), 0 where a token does not go to an expert. top1 is the
# share of all tokens whose largest gate is this expert's, conf the mean of these gates, and the score their product.


# %%
def importance_score(gates):
    """top1 times conf of every expert -> (k,)."""
    return None  # your code


exercises.check_importance_score(importance_score)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def importance_score(gates):
#     import numpy as np
#
#     scores = np.zeros(gates.shape[1])
#     for token in gates:
#         if token.any():
#             # top1 times conf is the sum of the winning gates, over the number of tokens.
#             scores[token.argmax()] += token.max()
#     return scores / len(gates)
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
# Lemma 4.1: important experts, $p^{(0)} = \Omega(1)$, get $p = 1$, gates above 1/2, large neurons, and $\Delta >
# 1.5 \log l$. Lemma 4.2: unimportant ones, $p^{(0)} = O(1/d)$, stay so. Theorem 4.3: so all unimportant ones can go.
# Theorem 4.5: with fine-tuning, all but one of each half. First a run within all assumptions that have no hidden constant,
# which asks for first routers of at most $\frac{1}{2} \log l = .8$:

# %%
close = fine_tune(Run(model=TokenMoE(), task=task, start=PlantedStart(others_norm=0.4), trials=2, seed=SEED))
for finding in (
    *theory.lemma_4_1(close),
    *theory.lemma_4_2(close),
    theory.theorem_4_3(close),
    theory.theorem_4_5(close),
):
    print(finding)

# %% [markdown]
# All hold. Now think: no first norm exceeds .8, and important routers grow by 2.4 or more. Then the *length* after
# fine-tuning marks them just as well. The theorem is true of pruning by length, too; it is the checkpoints outside of its
# assumptions where the two rules part, as the Lab's does:

# %%
print(theory.theorem_4_3(close, criterion="router-magnitude"), "\n")
print(theory.theorem_4_3(planted))
print(theory.theorem_4_3(planted, criterion="router-magnitude"))

# %% [markdown]
# What else does the paper ask for? The conditions of the Lab's run, with every hidden constant read as 1:

# %%
for finding in theory.conditions(planted, later_steps=60):
    print(finding)

# %% [markdown]
# Six are met, seven are not, and the conclusions are true all the same: these conditions suffice, they are not needed.
# Now from random weights. In trial 1 both classes find experts, in trial 7 one does not:

# %%
recipe = {"start": RandomStart(), "batch": 100, "steps": 300, "seed": SEED, "trials": 8}
scratch = fine_tune(Run(model=TokenMoE(router_learning_rate=0.01), task=task, **recipe))
for finding in (*theory.lemma_4_2(scratch, trial=1), theory.theorem_4_3(scratch, trial=1)):
    print("trial 1,", finding)
print("trial 7,", theory.theorem_4_3(scratch, trial=7))

# %% [markdown]
# Lemma 4.2 **fails** in trial 1: experts with $p^{(0)}=0$ became important. Its proof uses a margin that tiny random
# routers do not have: every pattern that an unimportant router puts above $o_1$ must be ahead by about $1/d$. The paper
# assumes that of important experts only. Figure 3 lives on such late starters. How many experts of each class are
# important *before* training, $p^{(0)} \ge .1$?

# %%
before = [theory.evidence(scratch, trial).per_class() for trial in range(8)]
pd.DataFrame(before, columns=["of class +1", "of class -1"]).T.rename_axis(columns="trial")

# %% [markdown]
# Six of these eight trials are outside of the theorem, which wants one of each class. All but trial 7 do well.

# %% [markdown]
# ### What cannot be checked here
#
# The paper's main evidence is from vision models, V-MoE and E³, on CIFAR and ImageNet. This notebook has the analysed
# layer only. Which of the paper's numbers have a counterpart here, and which have none:

# %%
stated = figures.published().to_dataframe()
vision = stated[(stated["in_kind"] | (stated["function"] == "")) & (stated["unit"] == "")]
columns = {"place": "place", "value": "share", "words": "what", "function": "closest function in figures"}
vision[list(columns)].rename(columns=columns).reset_index(drop=True)

# %% [markdown]
# ### What is ours
#
# - The **planted checkpoint** is our own, and so are its contrasts. The paper starts its synthetic layer from random
#   weights, where length and change are one.
# - The paper does not state $m$, the learning rates, the batch or the number of steps of figure 3. Ours are $m=20$,
#   $\eta_e=.1$, $\eta_r=.01$, $B=100$, 300 steps.
# - The **true hinge loss** as an option. The proofs do not cover it, and the vision models are trained by a loss that stops
#   teaching, as it does.
#
# ### Errata and loose ends
#
# - **Eq. 6**, the gates of a pruned expert-choice layer, has $g_j^{(i)}$ in the denominator, where $g_i^{(s)}$ is meant: the
#   softmax is over the tokens of expert $s$.
# - **Appendix C** writes $p^{(s,t)}$ with the gate $G^{(s,0)}$ of step 0. As printed, $p$ could never grow:

# %%
seen = theory.evidence(scratch, trial=1)
columns = {"p at step 0": seen.before["proficiency"], "p at the end": seen.after["proficiency"]}
columns["as printed"] = theory.printed_proficiency(scratch, trial=1)
pd.DataFrame(columns, index=range(1, 21)).query("`p at the end` == 1").rename_axis("expert")

# %% [markdown]
# - **$P(q \in x) = O(1/d)$** for every pattern contradicts $n=100$ tokens out of $d=200$ patterns: each occurs in 39 % of
#   the samples.
# - **(8) bounds the routers' rate from above only.** With $\eta_r = 0$, which it allows, routers do not move and lemma 4.1
#   (iv) is false. The proof needs a rate of that size. The lemmas' full versions in the appendix ask for another factor
#   $1/d$.
# - **(8) and (9) with constants of 1** ask for $\eta_r = 10^{-6}$, $B = 10^6$ and $T = 4485$. With these $\eta_r$ and $T$
#   (and $B=50$) we measured $\Delta = .03$: far below $1.5 \log l$. The constants matter; those of this notebook's runs
#   are 50,000 times as large for $\eta_r$.
# - **Lemma 4.4 turned round.** A router may grow without learning its own pattern: in the pre-trained checkpoint one that
#   votes $+$ grows towards $o_2$. It has nothing to say there, and that is what it learned: to keep quiet in class $-1$.
#   Its first norm of 3.7 is outside of the assumptions:

# %%
for finding in theory.lemma_4_4(branches, trial=0, steps=60)[:2]:
    print(finding)

# %% [markdown]
# ## Before you go
#
# You have seen that what an expert *is* tells less than what fine-tuning *did* to it. Keep in mind how you found out: with
# a checkpoint where you knew the truth, and by asking each rule where it would fail.
#
# *Done? Choose File › Close and Shut Down Notebook. Each notebook holds 450 to 740 MB until its kernel is shut down, and
# Binder allows 2 GB in all.*
