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
# Notebook 05 pruned a layer that was made for a proof. Mixtral, OLMoE, Qwen-MoE, DeepSeek and gpt-oss are stacks of such
# layers. Thousands of people download and fine-tune them, and then cannot fit them into their GPU. Here you build a
# Mixtral that trains in seconds. You fine-tune it, throw half of its experts away, and save the rest as a *checkpoint*, a
# folder of weights that anybody can load. Then you ask whether you kept the right half.
#
# **After this notebook you can**
# - prune a mixture of experts from Hugging Face's library `transformers`, in memory or on disk,
# - say which way of pruning saves memory, which saves operations and time, and which can be saved,
# - compare a pruning criterion with chance, and say what fine-tuning after pruning repairs.
#
# It needs `transformers` beside the course. Where that is missing, `moe-lab doctor` prints the command that installs it. No
# model is downloaded.

# %% [markdown] tags=["badges"]
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/moe-lab/moe_lab/blob/v0.1.0/notebooks/09_prune_a_model.ipynb)
# [![Open on Binder](https://mybinder.org/badge_logo.svg)](https://mybinder.org/v2/gh/moe-lab/moe_lab/v0.1.0?urlpath=lab/tree/notebooks/09_prune_a_model.ipynb)

# %% [markdown] tags=["papers"]
# *The paper: [Chowdhury et al., ICML 2024](https://arxiv.org/abs/2405.16646).*

# %% tags=["setup"] jupyter={"source_hidden": true}
# On Colab this installs moe_lab v0.1.0 from github.com/moe-lab/moe_lab, and keeps
# the torch, numpy and ipywidgets there. Elsewhere it does nothing.
import sys

if "google.colab" in sys.modules:
    import subprocess
    from importlib.metadata import version

    source = "moe-lab[hub] @ git+https://github.com/moe-lab/moe_lab@v0.1.0"
    print(f"Installing {source}")
    keep = [f"{name}=={version(name)}" for name in ("torch", "numpy", "ipywidgets")]
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

import numpy as np
import pandas as pd
import torch

from moe_lab import exercises
from moe_lab_hub import example, experts_of, families, planted, prune_experts
from moe_lab_hub.repair import prune_and_repair
from moe_lab_widgets import ModelPruningLab, predict

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
# A *token* is what a language model reads and writes, as a number. Here tokens are the numbers 0 to 10, and one for each of
# five rules of arithmetic. A question is three tokens. The model answers with a fourth, modulo 11:

# %%
asked, answers = example.questions("a + 2b")
print(f"a + 2b: {len(asked)} questions, such as {asked[38].tolist()}, which is answered by {answers[38]}")
model = example.tiny_mixtral(seed=SEED)
survey = experts_of(model)
pd.Series({"family": survey.family, "experts of a token (top-k)": survey.top, **survey.layers}, name="")

# %% [markdown]
# `experts_of` reads any model of `transformers`. It says where the experts are, and whether they can be pruned. This model has
# two layers of $E=8$ experts. In each layer a *router* scores all experts for a token $x$, one inner product each. The
# token goes to the $K=2$ experts with the largest scores (*top-k*). Their *gates*, a softmax over the two scores, weigh
# their answers.
#
# We *pre-train* the model on four rules. This is the **base** model, which somebody else would have trained for you. Then we
# *fine-tune* it, with a smaller step size, to a fifth rule that it has never seen:

# %% tags=["varies"]
known, new = ["a + b", "a - b", "a + 2b", "2a + b"], "a + 3b"
base = example.taught(model, *known, steps=300, seed=SEED)
tuned = example.taught(base, new, steps=60, learning_rate=1e-3, seed=SEED + 1)
models = {"base": base, "fine-tuned": tuned}
pd.DataFrame(
    {name: {rule: example.accuracy(one, rule) for rule in example.RULES} for name, one in models.items()}
).T

# %% [markdown]
# The table shows the share of right answers. The fine-tuned model has learned `a + 3b`, and has begun to forget the others.
#
# A rule has 121 questions, and we train and test on the same ones. So we measure what *pruning* loses, not how well a
# model generalises. (Your numbers differ by some hundredths. Which experts a token goes to is a discrete choice, and
# rounding can change it.)
#
# ## First, your prediction
#
# Half of the experts of each layer go. The model keeps those with the largest change of the router's norm (notebook 05).
# Every token then chooses again among the experts that are left.

# %%
prediction = predict(
    "Before pruning nearly all answers are right. How many of 100 are right after it?",
    {"about 90": 90, "about 75": 75, "about 45": 45, "about 9, which is guessing": 9},
)
prediction

# %%
prediction_savings = predict(
    "What falls by nearly half?",
    ["the memory", "the operations for a token", "both"],
)
prediction_savings

# %% [markdown]
# ## Half of the experts
#
# We call a pruning rule a *criterion* here, because rules are arithmetic. That of notebook 05 ranks expert $s$ by the change
# of its router's norm, $\Delta_s = \|w_s^{(T)}\| - \|w_s^{(0)}\|$, from the base model to the fine-tuned one. In code it is
# `router-norm-change`. `share` is the share of experts that is pruned:

# %% tags=["varies"]
pruned = prune_experts(tuned, before=base, criterion="router-norm-change", share=0.5)
pd.Series(pruned.kept, name="numbers of the experts that stay").to_frame()

# %% jupyter={"source_hidden": true} tags=["compare", "varies"]
# Compares your prediction with the result.
answered = 100 * example.accuracy(pruned.model, new)
prediction.seen(answered, f"Here it is {answered:.0f}; the mean of twenty models is 47.")

# %% [markdown]
# ## The Lab
#
# The Lab does the same with every slider: it prunes this model, asks it again, and then fine-tunes what is left for 40 steps.
# It asks you first how much comes back. (A new <kbd>seed</kbd> is another model, which is trained in three seconds.)

# %% tags=["varies"]
lab = ModelPruningLab(seed=SEED, ask=True)
lab

# %% [markdown]
# *What to see.* **1:** The share of right answers, before pruning, right after it, and while the rest is fine-tuned. Black is
# the rule that the model was fine-tuned to, grey the other rules. **2:** A bar for each expert of the two layers, full if it
# stays. In notebook 05 four bars towered over sixteen that had not moved. Here all routers have moved a little, and there
# is no gap that says how many experts to keep. **3:** What is right after pruning by each criterion, and after four random
# choices. Below: what is left of the memory, and of the operations for a token.
#
# *Your turn.* The menu <kbd>goal</kbd> has three tasks. Bring each about with the sliders.

# %% [markdown]
# ### Two ways, and what each saves
#
# What happens to a token whose expert is gone? There are two answers. Let $J_x$ be the $K$ experts that token $x$ chooses,
# and $S$ the experts that stay:
#
# $$y_{\text{rerouted}} = \sum_{s \in J_x} G_s\, f_s(x), \quad J_x = \text{the } K \text{ best of } S,
# \qquad\qquad
# y_{\text{silent}} = \sum_{s \in J_x \cap S} G_s\, f_s(x), \quad J_x = \text{the } K \text{ best of all } E,$$
#
# Here $f_s(x)$ is the answer of expert $s$. Its gate $G_s$ is in both cases a softmax over $J_x$.
#
# - **Rerouted** also removes the rows of the router. A token chooses again among the experts that are left. It meets $K$
#   experts, as before.
# - **Silent** is the paper's way. The router stays whole, and a pruned expert answers 0. A token meets fewer experts.

# %% jupyter={"source_hidden": true} tags=["compare"]
# Compares your prediction with the result.
costs = pruned.costs.to_dataframe()
left = costs.loc["rerouted"] / costs.loc["whole"]
memory, work = left["bytes"] < 0.75, left["operations"] < 0.75
outcome = "c" if memory and work else "a" if memory else "b"
prediction_savings.seen(outcome, "A token meets as many experts as before, chosen from fewer.")

# %% [markdown]
# *Parameters* are the numbers that the model holds, in *bytes* of memory. *Operations* are the multiplications and
# additions for one token (FLOPs). Both ways free the experts' weights. **Rerouted saves memory**, and no operations but those
# of the router's rows. **Silent saves operations and time** as well. A choice that falls on a pruned expert computes nothing,
# and on average that is half of the choices. But what those experts would have answered is missing. Another expert answers
# a rerouted token instead.
#
# In a model this small everything else takes longer than the experts. So we measure the time of wider layers (256
# dimensions, experts of 1024 neurons), in milliseconds:

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
# The rerouted model is an ordinary Mixtral with four experts. It is saved like any other, and `transformers` loads it
# without our library. Its *logits*, the scores of all tokens before the softmax, are the same to the last bit:

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
# The silent model cannot be saved in this way. A checkpoint holds one number of experts, for the router and the experts:

# %%
try:
    silent = prune_experts(tuned, base, "router-norm-change", 0.5, "silent")
    silent.model.save_pretrained(folder / "silent")
except RuntimeError as error:
    print(error)

# %% [markdown]
# ### On disk
#
# A model of 47 billion parameters need not be built to be pruned. `moe-lab prune` reads a checkpoint tensor by tensor and
# writes the smaller one, with a few megabytes of memory. In a terminal:
#
# ```
# moe-lab prune tuned smaller --before base --share .5 --dry-run
# ```
#
# With `--dry-run` it prints the scores and writes a plan, but no model. Here is the same command, run from Python on the
# folders above:

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
# A criterion is worth what it adds to chance. The Lab's third panel compares it with chance, with the router norm
# (`router-magnitude`), and with the importance score. For the last the model reads the questions, and counts which experts
# win tokens with a large gate. Two models with four experts left are fine-tuned for 40 steps: one was pruned by
# `router-norm-change`, one at random.

# %%
prediction_tuned = predict(
    "Which of the two models is ahead after these 40 steps?",
    ["the one pruned by router-norm-change", "the one pruned at random", "neither: both are right again"],
)
prediction_tuned

# %% tags=["varies"]
repaired = {
    criterion: list(prune_and_repair(criterion=criterion, steps=40, seed=SEED))[-1]["accuracy"][0]
    for criterion in ("router-norm-change", "random")
}
pd.Series(repaired, name="right after 40 steps").to_frame().T

# %% jupyter={"source_hidden": true} tags=["compare", "varies"]
# Compares your prediction with the result.
chosen, by_chance = repaired.values()
outcome = "c" if abs(chosen - by_chance) < 0.05 else "a" if chosen > by_chance else "b"
prediction_tuned.seen(outcome, "The experts that are left see every token, so they can learn.")

# %% [markdown]
# One model is no result: move the <kbd>seed</kbd> of the Lab. Twenty models
# (`prune_and_repair(trials=20)`) say more. Here is the mean share of right answers with 6, 4 and 2 experts left:
#
# | | a new rule | a known rule |
# | --- | --- | --- |
# | `router-norm-change` | .72 / .47 / .26 | .83 / .62 / .39 |
# | `random`, mean of four choices | .69 / .45 / .25 | .84 / .61 / .38 |
# | `router-magnitude` | .77 / .54 / .30 | .92 / .71 / .43 |
# | `importance-score` | .88 / .69 / .39 | .97 / .88 / .60 |
# | 4 left, 40 more steps: `router-norm-change`, `random` | .99, .98 | 1.00, 1.00 |
#
# - **The change of the router's norm** is no better than chance here, for a new rule (by .02 with 4 experts left, standard
#   error .02) or a known one (.01, standard error .03). $\Delta$ marks the experts that learned in *fine-tuning*; the
#   experts that knew the answers had grown before.
# - **Other criteria do better.** With 4 experts left the importance score beats chance by .24 and .26 (standard error .02).
#   But it needs texts of your task, and the model in memory. In notebook 05 it was the other way round, on a checkpoint that
#   was made so.
# - **Fine-tuning repairs both**, random choice included. That is the most useful line of the table. What was thrown away
#   *does* come back in so small a task. In notebook 05 it could not, because the experts that were left never met the
#   pattern. But look at the other rules: a repair that asks for one rule goes on forgetting them.
#
# How far can few runs mislead? Twenty other models gave an advantage of .05 for a new rule (standard error .02), more than
# two standard errors. These twenty do not confirm it. Test on *your* task, and more than once.
#
# ### When there is nothing to rank by
#
# Many people fine-tune by LoRA, which adds small corrections to some weights and usually leaves the routers alone. Then no
# router has changed. This does not mean that all experts are unimportant: the criterion is undefined. You get a sentence:

# %% [markdown]
# ### Better than chance?
#
# You have one model, not twenty. `moe-lab compare` measures its loss on your texts with each criterion's choice, and with 40
# random choices of as many experts. To see that it tells the truth, we take a model whose important experts are known. This
# tiny OLMoE has learned one topic. Then it was fine-tuned to a second topic in three of its 16 experts alone, 2, 5 and 11:

# %% tags=["varies"]
planted.write(folder, planted.tiny_olmoe(SEED), experts=(2, 5, 11), seed=SEED)
arguments = ["compare", "after", "--before", "before", "--text", "text.jsonl", "--out", "compared"]
arguments += ["--shares", ".5,.75", "--criteria", "router-norm-change,router-magnitude"]
done = subprocess.run(
    [sys.executable, "-m", "moe_lab", *arguments], cwd=folder, env=plain, capture_output=True, text=True
)
print(done.stdout[done.stdout.index("OLMoE") :] if not done.returncode else done.stderr)

# %% [markdown]
# *What to see.* The loss hardly grows, whether eight of 16 experts go or twelve: both criteria keep the three that matter. Of 40
# random choices none does as well, so both are *better* than chance. Had no table a random row, nobody could tell.

# %%
try:
    prune_experts(base, before=base)
except ValueError as error:
    print(error)

# %% [markdown]
# ## Your own checkpoint
#
# Three lines are enough. Put your folders or names in place of the capitals. (A large model needs its memory.)
#
# ```python
# model, base = (AutoModelForCausalLM.from_pretrained(path, dtype="auto") for path in (FINE_TUNED, BASE))
# pruned = prune_experts(model, before=base, criterion="router-norm-change", share=0.25)
# pruned.model.save_pretrained(SMALLER)
# ```
#
# Or use `moe-lab prune FINE_TUNED SMALLER --before BASE --share .25`, which needs hardly any memory. Then:
#
# 1. **Measure before and after on your task**, and compare with `criterion="random"` for three seeds.
# 2. If you have texts, try `criterion="importance-score", batches=[...]`, with the model's inputs for some of them.
# 3. **Fine-tune what is left**, routers included, and measure again.

# %% [markdown]
# ## Exercises
#
# All arrays are NumPy arrays. First the gates after rerouting. `scores` has shape $(n, E)$ and holds $\langle w_s,
# x^{(j)}\rangle$ for all experts. `kept` holds the numbers of the $k$ experts that stay, in ascending order. `top` is $K$.


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
# What does each way cost in one layer? Each of `experts` experts has `expert` parameters, and everything else (attention and
# so on) has `rest`. `kept` experts stay, and a token chooses `top`. Leave the router out, and assume that every expert is
# chosen equally often. Return a row each for whole, rerouted and silent: the parameters that the layer holds, and those
# that a token meets on average.


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
# Last, is a criterion better than chance? `criterion` has shape $(n,)$, the accuracy in each of $n$ runs. `random` has shape
# $(n, d)$, the accuracy of $d$ random draws in the same runs. Return the mean difference and its standard error.


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
# - The paper prunes **silently** (eq. 5), in vision models whose experts choose their tokens. Its theory covers one such
#   layer. Language models let tokens choose, in many layers, and nothing is proved for them.
# - A silent model is not a checkpoint, so `save_pretrained` takes the **rerouted** one. The paper does not treat it.
# - The paper ranks the experts of each class separately. The experts of a language model have no class, so we rank all
#   experts of a layer together (or of each group, if the model has groups).
# - Our task is arithmetic on 121 questions. It shows that a criterion can fail to beat chance. It does not show how good a
#   criterion is on a model of billions of parameters. That you can measure.

# %% [markdown]
# ## Before you go
#
# Pruning a model takes three lines. Knowing whether it was pruned well takes a task, a baseline and more than one run.
#
# *Done? Choose File › Close and Shut Down Notebook. Each notebook holds 450 to 740 MB until its kernel is shut down, and
# Binder allows 2 GB in all.*
