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
# # 09 · Prune a model that people use
#
# **30 minutes · no GPU · after notebooks 00, 01 and 05**
#
# Notebook 05 pruned a layer that was made for a proof. Mixtral, OLMoE, Qwen-MoE, DeepSeek, gpt-oss and their kin are
# stacks of such layers, which thousands of people download, fine-tune and then cannot fit into their GPU. Here you build
# a Mixtral small enough to train in seconds, fine-tune it, throw half of its experts away, and save what is left as a
# *checkpoint*, a folder of weights that anybody can load. Then you ask whether you chose the right half.
#
# **After this notebook you can**
# - prune a mixture of experts of Hugging Face's library `transformers`, in memory or on disk,
# - say which way of pruning saves memory and which saves operations and time, and which can be saved,
# - compare a criterion with chance, and say what fine-tuning after pruning mends.
#
# It needs `transformers` beside the course: `pip install 'moe-lab[hub]'`. Nothing is downloaded.

# %% [markdown] tags=["badges"]
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/moe-lab/moe_lab/blob/main/notebooks/09_prune_a_model.ipynb)
# [![Open on Binder](https://mybinder.org/badge_logo.svg)](https://mybinder.org/v2/gh/moe-lab/moe_lab/main?urlpath=lab/tree/notebooks/09_prune_a_model.ipynb)

# %% tags=["setup"]
# On Colab this installs moe_lab beside the torch, numpy and ipywidgets there. Elsewhere it does nothing.
import sys

if "google.colab" in sys.modules:
    import subprocess
    from importlib.metadata import version

    keep = [f"{name}=={version(name)}" for name in ("torch", "numpy", "ipywidgets")]
    source = "moe-lab[hub] @ git+https://github.com/moe-lab/moe_lab"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", source, "anywidget", *keep], check=True)

# %%
import os
import subprocess
import sys
import tempfile
import timeit
from pathlib import Path

# Read when transformers is imported: nothing in this notebook needs the network.
os.environ["HF_HUB_OFFLINE"] = "1"

import pandas as pd
import torch
from matplotlib import pyplot as plt

from moe_lab import exercises, theme
from moe_lab.hub import example, experts_of, families, plots, prune_experts
from moe_lab_widgets import predict

SEED = 0
torch.set_num_threads(1)  # these models are small: more threads only wait for each other
pd.set_option("display.precision", 2)

# The library itself. Where it is missing, a sentence says what to install.
transformers = families.transformers()
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

# %% [markdown]
# ## The model and its task
#
# A *token* is what a language model reads and writes, as a number; here the numbers 0 to 10, and one token for each of
# five rules. A question is three tokens, and the model answers with a fourth, modulo 11:

# %%
asked, answers = example.questions("a + 2b")
print(f"a + 2b: {len(asked)} questions, such as {asked[38].tolist()}, which is answered by {answers[38]}")
model = example.tiny_mixtral(seed=SEED)
survey = experts_of(model)
pd.Series({"family": survey.family, "experts of a token (top-k)": survey.top, **survey.layers}, name="")

# %% [markdown]
# `experts_of` reads any model of `transformers`, says where its experts are, and whether it can be pruned, or why not.
# Here are two layers of $E=8$ experts. In each layer a *router* scores all experts for a token $x$, one inner product
# for each, and the token goes to the $K=2$ experts with the largest scores (*top-k*). Their *gates*, a softmax over the
# two scores, weigh what they answer.
#
# We *pre-train* it on four rules: that is the **base** model, which in your case somebody else has trained. Then we
# *fine-tune* it, with a smaller step, to a fifth rule that it has never seen:

# %% tags=["varies"]
known, new = ["a + b", "a - b", "a + 2b", "2a + b"], "a + 3b"
base = example.taught(model, *known, steps=300, seed=SEED)
tuned = example.taught(base, new, steps=60, learning_rate=1e-3, seed=SEED + 1)
models = {"base": base, "fine-tuned": tuned}
pd.DataFrame(
    {name: {rule: example.accuracy(one, rule) for rule in example.RULES} for name, one in models.items()}
).T

# %% [markdown]
# The share of right answers. The fine-tuned model has learned `a + 3b`, and has begun to forget the others.
#
# A rule has 121 questions, and we train and test on the same ones: what is measured is what *pruning* loses, and nothing
# of how a model generalises. (Your numbers differ from these by some hundredths. Which experts a token goes to is a
# choice, and the smallest rounding can turn it.)
#
# ## First, your prediction
#
# Half of the experts of each layer go, and the model keeps those whose routers grew most in fine-tuning (notebook 05).
# It is asked `a + 3b` again. Write down:
#
# 1. How many of 100 questions does it still get right? And if the experts are chosen at random?
# 2. What falls by half: the memory, the operations that a token costs, or both?
# 3. Fine-tune to a rule that the base model knew *already*. Does what the routers learned say more then, or less?
# 4. Forty more steps of fine-tuning after pruning: what do they rescue, the rule's choice, the random one, or both?

# %%
prediction = predict(
    "Half of the experts go, and every token chooses again among those left. What falls by nearly half?",
    ["the memory", "the operations for a token", "both"],
)
prediction

# %% [markdown]
# ## Half of the experts
#
# The criterion of notebook 05 for expert $s$ is the change of its router's norm, $\Delta_s = \|w_s^{(T)}\| -
# \|w_s^{(0)}\|$, from base to fine-tuned. `share` is what goes:

# %% tags=["varies"]
pruned = prune_experts(tuned, before=base, criterion="router-norm-change", share=0.5)
pd.Series(pruned.kept, name="numbers of the experts that stay").to_frame()

# %% tags=["varies"]
figure, panels = plt.subplots(1, 2, figsize=(10, 3.2), facecolor=theme.PAPER, layout="constrained", sharey=True)
for panel, (layer, scores) in zip(panels, pruned.scores.items(), strict=True):
    plots.scores(scores, pruned.kept[layer], panel)
    panel.set_title(layer, loc="left")
panels[0].set_ylabel("Δ, change of the router's norm")
plt.show()

# %% [markdown]
# *What to see.* A bar for each expert, dark where it stays. In notebook 05 four bars towered over sixteen that had not
# moved. Here all routers have moved, by a little, and some have shrunk. There is no gap that says where to stop: the
# first warning. `share` is your choice, not the criterion's.
#
# ### Two ways, and what each saves
#
# What becomes of a token whose expert is gone? There are two answers. With $J_x$ the $K$ experts that token $x$ chooses
# and $S$ those that stay,
#
# $$y_{\text{rerouted}} = \sum_{s \in J_x} G_s\, f_s(x), \quad J_x = \text{the } K \text{ best of } S,
# \qquad\qquad
# y_{\text{silent}} = \sum_{s \in J_x \cap S} G_s\, f_s(x), \quad J_x = \text{the } K \text{ best of all } E,$$
#
# where $f_s(x)$ is what expert $s$ answers and $G_s$ its gate, in both a softmax over $J_x$.
#
# - **Rerouted** cuts the router's rows too: a token chooses again, among those left. It meets $K$ experts as before.
# - **Silent** is the paper's way: the router stays whole, and a pruned expert answers 0. A token meets fewer experts.

# %% tags=["varies"]
both = {mode: prune_experts(tuned, base, "router-norm-change", 0.5, mode) for mode in ("rerouted", "silent")}
costs = pruned.costs.to_dataframe().T.drop(index="active_parameters")
costs.index = [name.replace("_", " ") for name in costs.index]
answers = [example.accuracy(one, new) for one in (tuned, both["rerouted"].model, both["silent"].model)]
pd.concat(
    [costs.astype(int).astype(object), pd.DataFrame([answers], [f"right, {new}"], costs.columns).round(2)]
)

# %%
memory, work = (costs.loc[row, "rerouted"] / costs.loc[row, "whole"] < 0.75 for row in ("bytes", "operations"))
outcome = "c" if memory and work else "a" if memory else "b"
prediction.seen(outcome, "A token meets as many experts as before, chosen from fewer.")

# %% [markdown]
# *Parameters* are the numbers that the model holds, in *bytes* of memory; *operations* are the multiplications and
# additions for one token (FLOPs). Both ways free the experts' weights. **Rerouted saves memory**, and no operation but
# those of the rows. **Silent saves operations and time** as well: half of the choices lead nowhere. And it is not free:
# what those experts would have answered is missing, where a rerouted token gets a second opinion.
#
# Time is what a stop-watch says. In a model so small everything else takes longer than the experts, so we measure one
# with wider layers (256 dimensions, experts of 1024 neurons), in milliseconds:

# %% tags=["varies"]
wide = example.tiny_mixtral(width=256, hidden=1024, seed=SEED)
models = {"whole": wide}
models |= {
    mode: prune_experts(wide, None, "random", 0.5, mode, seed=SEED).model for mode in ("rerouted", "silent")
}
with torch.no_grad():
    best = {
        name: min(timeit.repeat(lambda one=one: one(asked), number=1, repeat=4)) for name, one in models.items()
    }
pd.Series({name: 1000 * seconds for name, seconds in best.items()}, name="ms").to_frame().T

# %% [markdown]
# ### Save it, load it
#
# Rerouted, the model is an ordinary Mixtral of four experts. It is saved as any other, and `transformers` reads it
# without knowing of us. Its *logits*, the scores of all tokens before the softmax, are the same to the last bit:

# %%
place = tempfile.TemporaryDirectory()  # gone when the notebook is closed
folder = Path(place.name)
for name, one in [("base", base), ("tuned", tuned), ("smaller", pruned.model)]:
    one.save_pretrained(folder / name)
read = transformers.AutoModelForCausalLM.from_pretrained(folder / "smaller")
with torch.no_grad():
    gap = (read(asked).logits - pruned.model(asked).logits).abs().max()
sizes = {name: (folder / name / "model.safetensors").stat().st_size / 1000 for name in ("tuned", "smaller")}
print(f"{type(read).__name__} with {read.config.num_local_experts} experts")
print(f"largest difference of logits: {float(gap)}")
print(f"on disk: {sizes['tuned']:.0f} kB before, {sizes['smaller']:.0f} kB after")

# %% [markdown]
# Silently pruned, it cannot be saved so: a checkpoint has one number of experts, for router and experts alike.

# %%
try:
    both["silent"].model.save_pretrained(folder / "silent")
except RuntimeError as error:
    print(error)

# %% [markdown]
# ### On disk
#
# A model of 47 billion parameters need not be built to be pruned. `moe-lab prune` reads a checkpoint's folder tensor by
# tensor and writes the smaller one, in a few megabytes of memory. In a terminal:
#
# ```
# moe-lab prune tuned smaller --before base --share .5 --dry-run
# ```
#
# `--dry-run` scores and prints, and writes nothing. This is the same command, from Python, on the folders just saved:

# %% tags=["varies"]
arguments = ["prune", "tuned", "smaller", "--before", "base", "--share", ".5", "--dry-run"]
plain = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"} | {"COLUMNS": "110"}
done = subprocess.run(
    [sys.executable, "-m", "moe_lab", *arguments], cwd=folder, env=plain, capture_output=True, text=True
)
print(done.stdout or done.stderr)

# %% [markdown]
# ## What happened and why
#
# ### Was it the right half?
#
# A criterion is worth what it adds to chance. So we prune by others too: the router's length (*magnitude*); the
# *importance score*, for which the model reads the questions and counts who wins tokens with a large gate (notebook
# 05); and random choice. First for the new rule, then for a model that was fine-tuned to `a + b`, which the base model
# knew already:

# %% tags=["varies"]
again = example.taught(base, "a + b", steps=60, learning_rate=1e-3, seed=SEED + 1)
compared = {"a new rule": example.compare(base, tuned, new, seed=SEED)}
compared["a known rule"] = example.compare(base, again, "a + b", seed=SEED)

figure, panels = plt.subplots(1, 2, figsize=(12, 4), facecolor=theme.PAPER, layout="constrained")
for panel, (title, data) in zip(panels, compared.items(), strict=True):
    plots.comparison(data, panel)
    panel.set_title(title, loc="left")
plt.show()

# %% [markdown]
# *What to see.* From left to right experts go: 8, 6, 4, 2 are left. The change of the router's norm is in ink, the
# others are grey. Hollow marks: two of the models of four experts, after 40 more steps of fine-tuning. Lines differ a lot
# from one seed to the next, so do not read this picture as a result. One run never is.
#
# Twenty runs (seeds 0 to 19; other models, other random choices) say more. Share of right answers, 6 / 4 / 2 experts left:
#
# | | a new rule | a known rule |
# | --- | --- | --- |
# | router norm change | .71 / .49 / .26 | .87 / .64 / .38 |
# | random | .68 / .44 / .24 | .83 / .62 / .39 |
# | router magnitude | .79 / .52 / .28 | .94 / .72 / .45 |
# | importance score | .87 / .67 / .37 | .97 / .86 / .61 |
# | 4 left, then 40 steps: norm change, random | .99, .98 | 1.00, 1.00 |
#
# - **For a new rule** the norm change is better than chance, a little: by .05 with 4 left (standard error .02).
# - **For a known rule** it is chance: better by .01 with 4 left (standard error .03), worse in 8 of 20 runs. $\Delta$
#   marks who learned in *fine-tuning*. Here there was next to nothing to learn, and those who knew the answers had grown
#   before. The rule keeps whoever moved, not whoever matters.
# - **It is no upper bound.** The importance score is better than chance by .23 with 4 left, for either rule (standard
#   error .02), and the router's length beats the norm change for the known one. In notebook 05 it was the other way
#   round, on a checkpoint that was made so. The importance score needs texts of your task, and the model in memory.
# - **Fine-tuning rescues both**, random choice included. That is the most useful line of the table: in so small a task
#   what was thrown away *does* come back, because the experts left see every token and can learn. In notebook 05 they
#   could not, since they never met the pattern.
#
# How far can few runs mislead? With another recipe (other rules, other sizes) we had four runs: .91 / .75 / .55 for the
# norm change against .87 / .65 / .48 at random on a new rule. And two on a known one, with 4 left: .79 against .90, *worse
# than random*. Whether that is the recipe or the two runs, two runs do not say. Test on *your* task, and more than once.
#
# ### When there is nothing to rank by
#
# Many people fine-tune by LoRA, small corrections of some weights, which usually leave routers alone. Then no norm has
# changed, and $\Delta$ is not 0 "for unimportant experts" but undefined. You get a sentence in place of a ranking:

# %%
try:
    prune_experts(base, before=base)
except ValueError as error:
    print(error)

# %% [markdown]
# ## Your own checkpoint
#
# Three lines, with your folders or names in place of the capitals (shown, not run; a large model needs its memory):
#
# ```python
# model, base = (AutoModelForCausalLM.from_pretrained(path, dtype="auto") for path in (FINE_TUNED, BASE))
# pruned = prune_experts(model, before=base, criterion="router-norm-change", share=0.25)
# pruned.model.save_pretrained(SMALLER)
# ```
#
# or `moe-lab prune FINE_TUNED SMALLER --before BASE --share .25`, which needs disk and hardly any memory. Then:
#
# 1. **Measure before and after on your task**, beside `criterion="random"` with three seeds.
# 2. If you have texts, try `criterion="importance-score", batches=[...]`, the model's inputs for some of them.
# 3. **Fine-tune what is left**, routers included, and measure again.

# %% [markdown]
# ## Exercises
#
# First the gates after rerouting. `scores` is $(n, E)$, $\langle w_s, x^{(j)}\rangle$ of all experts; `kept` holds the
# numbers of the $k$ that stay, ascending; `top` is $K$.


# %%
def rerouted_gates(scores, kept, top):
    """The gates of the experts left, 0 where a token does not go -> (n, k)."""
    return None  # your code


exercises.check_rerouted_gates(rerouted_gates)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def rerouted_gates(scores, kept, top):
#     import numpy as np
#
#     def softmax(scores, axis=-1):
#         powers = np.exp(scores - scores.max(axis=axis, keepdims=True))
#         return powers / powers.sum(axis=axis, keepdims=True)
#
#     gates = np.zeros((len(scores), len(kept)))
#     for gate, score in zip(gates, np.array(scores)[:, kept], strict=True):  # one token
#         chosen = np.argsort(-score)[:top]
#         gate[chosen] = softmax(score[chosen])
#     return gates
# ```
#
# </details>

# %% [markdown]
# What does each way cost? One layer: `expert` parameters in each of `experts` experts, `rest` in all else (attention and
# so on), `kept` experts stay, a token chooses `top`. Leave the router out, and let it be even: every expert is chosen
# equally often. A row for whole, rerouted, silent; in each the parameters held, and those that a token meets on average.


# %%
def costs(expert, rest, experts, kept, top):
    """Parameters held and met: whole, rerouted, silent -> (3, 2)."""
    return None  # your code


exercises.check_costs(costs)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def costs(expert, rest, experts, kept, top):
#     return [
#         [rest + experts * expert, rest + top * expert],
#         [rest + kept * expert, rest + top * expert],
#         [rest + kept * expert, rest + top * kept / experts * expert],
#     ]
# ```
#
# </details>

# %% [markdown]
# Last: is it better than chance? `criterion` is $(n,)$, the accuracy in each of $n$ runs, and `random` $(n, d)$, that of
# $d$ random draws in the same runs. Return the mean difference, and its standard error.


# %%
def advantage(criterion, random):
    """Mean over runs of the advantage over chance, and its standard error -> (2,)."""
    return None  # your code


exercises.check_advantage(advantage)

# %% [markdown] tags=["solution"]
# <details><summary>Solution</summary>
#
# ```python
# def advantage(criterion, random):
#     import numpy as np
#
#     gained = np.array(criterion) - np.array(random).mean(axis=1)
#     return [gained.mean(), gained.std(ddof=1) / np.sqrt(len(gained))]
# ```
#
# </details>

# %% [markdown]
# ## For readers of the paper
#
# *This part is optional: the core of the notebook ends here.* It is for those who compare it with the paper.
#
# - The paper prunes **silently** (its eq. 5), in vision models whose experts choose their tokens, and the theory is of
#   one such layer. Language models let tokens choose, many layers deep, and nothing is proved for them.
# - A silent model is no checkpoint, so `save_pretrained` takes the **rerouted** one, of which the paper says nothing.
# - The paper's criterion counts experts within each class's half. A language model's experts have no sign: we rank all
#   experts of a layer together (of each group, where the model has groups).
# - Our task is arithmetic on 121 questions. What it shows is that a criterion can fail to beat chance; how good it is on
#   a model of billions is not shown here, and you can measure it.

# %% [markdown]
# ## Before you go
#
# Pruning a model takes three lines. Knowing whether it was pruned well takes a task, a baseline and more than one run.
#
# *Done? Choose File › Close and Shut Down Notebook. Each notebook holds 450 to 740 MB until its kernel is shut down, and
# Binder allows 2 GB in all.*
