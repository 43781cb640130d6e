"""The knobs of the pruning Lab, the run that their values describe, and its code."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from moe_lab.config import Config, require
from moe_lab.pruning import BranchStart, PlantedStart, RandomStart, Run, TokenMoE, TokenTask, Weights
from moe_lab.pruning.criteria import CRITERIA, Criterion, Scores, Statistics, router_norm_change
from moe_lab_widgets.drawing.words import CRITERION_NAMES
from moe_lab_widgets.engine.knobs import (
    ANOTHER_TRIAL,
    MORE_TRIALS,
    LabKnob,
    fewer,
    given,
    longest,
    offer,
    on_gpu,
    placed,
)

TEST_SAMPLES = 200
RECORDS = 55
"""Approximate number of records of a training: 4 seconds at 15 records per second."""
SLOWEST_RECORD = 0.05
"""Seconds. Expensive steps are grouped into smaller records, so that a slider is answered soon."""
CHUNK = 10
"""Steps of fine-tuning a pruned layer per record."""

PLANTED, RANDOM, BRANCHES = "planted", "random", "pre-trained"
EXPERTS_CHOOSE, TOKENS_CHOOSE = "expert-choice", "token-choice"
LIVE_BRANCHES = BranchStart(steps=40, batch=50, router_learning_rate=0.05)
"""A fifth of the default's pre-training, which would take 3 s: the specialists are the same."""
BATCHES = {PLANTED: 50, RANDOM: 100, BRANCHES: 50}
_RECIPES: dict[str, dict[str, Any]] = {
    PLANTED: {"top": 5, "steps": 110, "router_learning_rate": 0.05, "others_neurons": 0.2},
    RANDOM: {"top": 5, "steps": 300, "router_learning_rate": 0.01, "others_neurons": 0.2},
    BRANCHES: {"top": 5, "steps": 110, "router_learning_rate": 0.05, "others_neurons": 0.2},
}
_TOKENS_CHOOSE: dict[str, dict[str, Any]] = {
    PLANTED: {"top": 2, "steps": 200, "others_neurons": 0.02},
    RANDOM: {"top": 3},
    BRANCHES: {"top": 3},
}


def recipe(start: str, routing: str) -> dict[str, Any]:
    """Returns the defaults of the knobs that depend on the checkpoint and the routing."""
    return _RECIPES[start] | (_TOKENS_CHOOSE[start] if routing == TOKENS_CHOOSE else {})


# --- criteria -------------------------------------------------------------------------------------------------------


def reversed_norm_change(before: Weights, after: Weights, statistics: Statistics) -> Scores:
    """The paper's criterion reversed: prunes the experts whose routers grew the most."""
    return -router_norm_change(before, after, statistics)


REVERSED = "reversed-norm-change"
OFFERED: dict[str, Criterion] = {**CRITERIA, REVERSED: reversed_norm_change}
NAMES = {**CRITERION_NAMES, REVERSED: "reversed"}
"""Short names, for the ends of lines."""
SCORES = {
    "router-norm-change": "change of the router's norm, Δ",
    "random": "a random number",
    "importance-score": "share of tokens won × mean gate",
    "router-magnitude": "norm of the router",
    "neuron-magnitude": "mean norm of the neurons",
    "neuron-magnitude-change": "mean change of the neurons' norms",
    "router-difference-norm": "norm of the router's difference",
    "token-count": "share of tokens received",
    REVERSED: "−Δ, the change of the norm reversed",
}
"""The measure of each criterion."""


def undefined(criterion: str) -> str:
    """Says in few words why a criterion gives all experts the same score."""
    return "experts receive equally many tokens" if criterion == "token-count" else "no router has moved"


# --- knobs ----------------------------------------------------------------------------------------------------------


def _from_recipe(config: type[Config], name: str, **changes: Any) -> LabKnob:
    """A knob whose default depends on the checkpoint and the routing."""
    return offer(
        config,
        name,
        default=_RECIPES[PLANTED][name],
        follows=lambda values: recipe(values["start"], values["routing"])[name],
        **changes,
    )


def _planted(values: Mapping[str, Any]) -> bool:
    return bool(values["start"] == PLANTED)


# Short words, so that three sliders stand side by side, and ranges in which a run stays live.
KNOBS = (
    LabKnob(name="rho", main=True, symbol="ρ", meaning="share of experts pruned", default=0.8, low=0, high=1,
            slider=(0.0, 0.95, 0.05), view_only=True,
            effect="More experts go. That costs nothing until one goes that matters. Nothing is trained anew."),
    LabKnob(name="criterion", main=True, meaning="prune by", default="router-norm-change", choices=tuple(OFFERED),
            words=NAMES, view_only=True,
            effect="The experts with the smallest score go. Nothing is trained anew."),
    LabKnob(name="fine_tune", main=True, meaning="fine-tune what is left", default=False, view_only=True,
            effect="Trains the experts that stay for T' further steps."),
    offer(TokenMoE, "routing", main=True, meaning="who chooses",
          words={EXPERTS_CHOOSE: "experts choose tokens", TOKENS_CHOOSE: "tokens choose experts"},
          effect="Each expert keeps its l best tokens, or each token visits its l best experts."),
    _from_recipe(TokenMoE, "top", main=True, meaning="how many each of them picks", slider=(1, 12, 1),
                 effect="More tokens for each expert, or more experts for each token. With one, no router learns."),
    _from_recipe(Run, "steps", main=True, meaning="training steps", slider=(10, 300, 10),
                 effect="With more steps the routers that matter grow further above the others."),
    offer(TokenTask, "tokens", main=True, meaning="tokens per sample",
          effect="The one token that decides hides among more others."),
    offer(TokenMoE, "experts", main=True, meaning="experts", slider=(4, 24, 2),
          effect="More experts that can go; as few as before are important."),
    LabKnob(name="tuning_steps", symbol="T'", meaning="fine-tuning steps", default=60, low=0, slider=(10, 200, CHUNK),
            view_only=True,
            effect="Gives the experts that are left more time to recover."),
    LabKnob(name="start", meaning="checkpoint", default=PLANTED, choices=(PLANTED, RANDOM, BRANCHES),
            words={PLANTED: "planted", RANDOM: "random weights", BRANCHES: "pre-trained branches"},
            effect="Training begins with it. In the planted one we know which experts matter."),
    _from_recipe(TokenMoE, "router_learning_rate", symbol="η_r", meaning="routers' learning rate",
                 slider=(0.005, 0.1, 0.005),
                 effect="Routers move faster, so that their norms change more."),
    offer(TokenMoE, "loss", meaning="loss", words={"linear": "1 − y f (the paper's)", "hinge": "hinge loss"},
          effect="The hinge loss learns no more from a sample that is right by a margin; 1 − y f goes on."),
    LabKnob(name="shown", meaning="trial on show", default=1, low=1, slider=(1, 10, 1), at_most="trials",
            view_only=True, effect=ANOTHER_TRIAL,
            applies="only with more than one trial"),
    offer(PlantedStart, "others_norm", meaning="norm of unimportant routers", enabled_when=_planted,
          effect="Longer ones mislead rules that look at size alone.", applies="only to the planted checkpoint"),
    offer(PlantedStart, "important", meaning="important experts per class", enabled_when=_planted,
          effect="More experts carry each class, and fewer are superfluous.", applies="only to the planted checkpoint"),
    _from_recipe(PlantedStart, "others_neurons", meaning="size of unimportant neurons", enabled_when=_planted,
                 effect="Larger ones drown the token that decides.", applies="only to the planted checkpoint"),
    offer(TokenTask, "patterns", meaning="patterns", slider=(100, 300, 20),
          effect="More kinds of tokens, of which two decide."),
    offer(Run, "trials", meaning="trials", slider=(1, 10, 1), far=1000, effect=MORE_TRIALS),
)  # fmt: skip

# --- the run --------------------------------------------------------------------------------------------------------


def start_of(values: Mapping[str, Any]) -> PlantedStart | RandomStart | BranchStart:
    """Returns the checkpoint that the values describe."""
    if values["start"] == PLANTED:
        return given(PlantedStart, values)
    return RandomStart() if values["start"] == RANDOM else LIVE_BRANCHES


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of the run besides model, task and start."""
    own = {"batch": BATCHES[values["start"]], "test_samples": TEST_SAMPLES, **placed(values)}
    return {**{name: values[name] for name in ("steps", "trials", "seed")}, **own}


def run_of(values: Mapping[str, Any]) -> Run:
    """Returns the run that the values describe, checked.

    Raises:
      ConfigError: a value or a combination breaks a rule.
    """
    return Run(model=given(TokenMoE, values), task=given(TokenTask, values), start=start_of(values), **settings(values))


def check_view(values: Mapping[str, Any]) -> None:
    """Checks the view-only knobs.

    Raises:
      ValueError: rho, the fine-tuning steps or the trial on show are out of bounds.
    """
    rule = "rho, the share of experts pruned, must be at least 0 and less than 1"
    require(0 <= values["rho"] < 1, rule, rho=values["rho"])
    rule = f"tuning_steps (T') must be a positive multiple of {CHUNK}"
    require(values["tuning_steps"] > 0 and values["tuning_steps"] % CHUNK == 0, rule, T=values["tuning_steps"])
    require(values["shown"] >= 1, "shown, the trial on show, must be at least 1", shown=values["shown"])


def record_every(run: Run, values: Mapping[str, Any] = MappingProxyType({})) -> int:
    """Returns the steps per record: `RECORDS` in all, but none that takes long.

    Args:
      values: may say that the run measures rarely.
    """
    few = round(run.steps / fewer(RECORDS, values))
    quick = int(longest(SLOWEST_RECORD, values) / seconds_of_step(run))
    return max(1, few if on_gpu({"device": run.device}) else min(few, quick))


def seconds_of_step(run: Run) -> float:
    """Returns about how long a step takes on one CPU thread (measured)."""
    model, task = run.model, run.task
    if model.routing == EXPERTS_CHOOSE:
        numbers = run.trials * model.experts * run.batch * model.width(task.tokens, task.patterns)
    else:
        numbers = run.trials * (2 * task.patterns * run.batch + model.experts * task.patterns)
    return 5e-4 + 1.1e-8 * numbers


def work(values: Mapping[str, Any]) -> float:
    """Returns the numbers that a step of the training touches."""
    return run_of(values).numbers


def longest_change(run: Run) -> float:
    """Returns where the axis of Delta ends: the same for all runs but very long ones."""
    return 5.5 if run.steps * run.model.router_learning_rate <= 10 else 8.0


# --- code -----------------------------------------------------------------------------------------------------------


def code(values: Mapping[str, Any]) -> str:
    """Returns Python that runs as it is pasted: the training, the pruning, and the accuracies on show."""
    run = run_of(values)
    kind = type(run.start).__name__
    kinds = [] if run.start == PlantedStart() else [kind]
    lines = [f"from moe_lab.pruning import {', '.join([*kinds, 'Run', 'TokenMoE', 'TokenTask', 'fine_tune'])}"]
    criterion = repr(values["criterion"])
    if values["criterion"] == REVERSED:
        criterion = "reversed_norm_change"
        lines += [
            "from moe_lab.pruning.criteria import router_norm_change",
            "",
            "",
            "def reversed_norm_change(before, after, statistics):",
            "    return -router_norm_change(before, after, statistics)",
            "",
        ]
    steps = values["tuning_steps"] if values["fine_tune"] else 0
    return "\n".join(
        [
            *lines,
            "",
            f"run = {run.constructor_code()}",
            "tuned = fine_tune(run)",
            f"kept = tuned.kept({criterion}, {values['rho']!r})",
            "accuracy = tuned.accuracy(kept)",
            'print("before pruning", tuned.evaluation.accuracy(), "after", accuracy)',
            *([f"accuracy = tuned.accuracy(kept, steps={steps})"] if steps else []),
            *(['print("and after fine-tuning", accuracy)'] if steps else []),
        ]
    )
