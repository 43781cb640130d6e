"""What the pruning Lab offers: its knobs, the run that their values mean, and its code. Live settings are all here."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from moe_lab.config import Knob, require
from moe_lab.pruning import BranchStart, PlantedStart, RandomStart, Run, TokenMoE, TokenTask, Weights
from moe_lab.pruning.criteria import CRITERIA, Criterion, Scores, Statistics, router_norm_change
from moe_lab_widgets.engine.lab import given, pick

LOOKS = ("rho", "criterion", "fine_tune", "tuning_steps", "shown")
"""Knobs that change nothing of the training."""
TEST_SAMPLES = 200
RECORDS = 55
"""About how many records a training has: 4 seconds at 15 records a second."""
SLOWEST_RECORD = 0.05
"""Seconds: where steps are dear, fewer of them make a record, so that a slider is answered soon."""
CHUNK = 10
"""Steps of fine-tuning a pruned layer from one record to the next."""

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
    """Values with which a start and a routing work: the defaults of these knobs there."""
    return _RECIPES[start] | (_TOKENS_CHOOSE[start] if routing == TOKENS_CHOOSE else {})


# --- criteria -------------------------------------------------------------------------------------------------------


def reversed_norm_change(before: Weights, after: Weights, statistics: Statistics) -> Scores:
    """The paper's criterion turned round: prunes those whose routers grew the most."""
    return -router_norm_change(before, after, statistics)


REVERSED = "reversed-norm-change"
OFFERED: dict[str, Criterion] = {**CRITERIA, REVERSED: reversed_norm_change}
NAMES = {
    "router-norm-change": "norm change",
    "random": "random",
    "importance-score": "importance",
    "router-magnitude": "router norm",
    "neuron-magnitude": "neuron norm",
    "neuron-magnitude-change": "neuron change",
    "router-difference-norm": "difference",
    REVERSED: "reversed",
}
"""Short names, for the ends of lines."""
SCORES = {
    "router-norm-change": "change of the router's norm, Δ",
    "random": "a random number",
    "importance-score": "share of tokens won × mean gate",
    "router-magnitude": "norm of the router",
    "neuron-magnitude": "mean norm of the neurons",
    "neuron-magnitude-change": "mean change of the neurons' norms",
    "router-difference-norm": "norm of the router's difference",
    REVERSED: "−Δ, the change of the norm reversed",
}
"""What each criterion measures."""

# --- knobs ----------------------------------------------------------------------------------------------------------

# Short words, so that three sliders stand side by side, and ranges in which a run stays live.
_WORDS = {
    "experts": "experts",
    "top": "picked by each",
    "routing": "who chooses",
    "loss": "gradient of",
    "steps": "training steps",
    "router_learning_rate": "routers' rate",
    "patterns": "patterns",
    "tokens": "tokens",
    "important": "important each",
    "others_norm": "others' router norm",
    "others_neurons": "others' neurons",
    "trials": "trials",
}
_SYMBOLS = {"eta_r": "η_r"}
_RANGES = {
    "experts": (4, 24, 2),
    "top": (1, 12, 1),
    "router_learning_rate": (0.005, 0.1, 0.005),
    "patterns": (100, 300, 20),
    "steps": (10, 300, 10),
    "trials": (1, 10, 1),
}


def _offer(*knobs: Knob) -> dict[str, Knob]:
    return {
        knob.name: dataclasses.replace(
            knob,
            symbol=_SYMBOLS.get(knob.symbol, knob.symbol),
            meaning=_WORDS[knob.name],
            slider=_RANGES.get(knob.name, knob.slider),
        )
        for knob in knobs
    }


_KNOBS = {
    **_offer(
        *pick(TokenMoE, "experts", "top", "routing", "loss", "router_learning_rate"),
        *pick(TokenTask, "patterns", "tokens"),
        *pick(PlantedStart, "important", "others_norm", "others_neurons"),
        *pick(Run, "steps", "trials"),
    ),
    "rho": Knob("rho", "ρ", "share pruned", 0.8, 0, 1, "", (0.0, 0.95, 0.05), None),
    "criterion": Knob("criterion", "", "prune by", "router-norm-change", None, None, "", None, tuple(OFFERED)),
    "fine_tune": Knob("fine_tune", "", "fine-tune the rest", False, None, None, "", None, None),
    "tuning_steps": Knob("tuning_steps", "T'", "steps of that", 60, 0, None, "", (10, 200, CHUNK), None),
    "shown": Knob("shown", "", "trial on show", 1, 1, None, "", (1, 10, 1), None),
    "start": Knob("start", "", "checkpoint", PLANTED, None, None, "", None, (PLANTED, RANDOM, BRANCHES)),
}
_ORDER = (
    *("rho", "criterion", "fine_tune", "steps", "routing", "tuning_steps", "router_learning_rate", "start", "loss"),
    *("top", "experts", "shown", "others_norm", "important", "others_neurons", "tokens", "patterns", "trials"),
)
KNOBS = tuple(_KNOBS[name] for name in _ORDER)

# --- the run --------------------------------------------------------------------------------------------------------


def start_of(values: Mapping[str, Any]) -> PlantedStart | RandomStart | BranchStart:
    """The checkpoint that the values mean."""
    if values["start"] == PLANTED:
        return given(PlantedStart, values)
    return RandomStart() if values["start"] == RANDOM else LIVE_BRANCHES


def run_of(values: Mapping[str, Any]) -> Run:
    """The run that the values mean, checked. On the CPU: a run this small has ended there before a GPU has started.

    Raises:
      ConfigError: a value or a combination breaks a rule.
      ValueError: rho, the fine-tuning steps or the trial on show are out of bounds.
    """
    run = Run(
        model=given(TokenMoE, values),
        task=given(TokenTask, values),
        start=start_of(values),
        batch=BATCHES[values["start"]],
        test_samples=TEST_SAMPLES,
        device="cpu",
        **{name: values[name] for name in ("steps", "trials", "seed")},
    )
    check_looks(values)
    return run


def check_looks(values: Mapping[str, Any]) -> None:
    """Refuses looks that a run cannot offer.

    Raises:
      ValueError: rho, the fine-tuning steps or the trial on show are out of bounds.
    """
    rule = "rho, the share of experts pruned, must be at least 0 and less than 1"
    require(0 <= values["rho"] < 1, rule, rho=values["rho"])
    rule = f"tuning_steps (T') must be a positive multiple of {CHUNK}"
    require(values["tuning_steps"] > 0 and values["tuning_steps"] % CHUNK == 0, rule, T=values["tuning_steps"])
    require(values["shown"] >= 1, "shown, the trial on show, must be at least 1", shown=values["shown"])


def record_every(run: Run) -> int:
    """Steps from one record to the next: `RECORDS` in all, but none that takes long. Depends on nothing but the run."""
    model, task = run.model, run.task
    if model.routing == EXPERTS_CHOOSE:
        numbers = run.trials * model.experts * run.batch * model.width(task.tokens, task.patterns)
    else:
        numbers = run.trials * (2 * task.patterns * run.batch + model.experts * task.patterns)
    seconds = 5e-4 + 1.1e-8 * numbers  # of a step, measured on one CPU thread
    return max(1, min(round(run.steps / RECORDS), int(SLOWEST_RECORD / seconds)))


def longest_change(run: Run) -> float:
    """Where the axis of Delta ends: the same for all runs but very long ones."""
    return 5.5 if run.steps * run.model.router_learning_rate <= 10 else 8.0


# --- code -----------------------------------------------------------------------------------------------------------


def code(values: Mapping[str, Any]) -> str:
    """Python that runs as it is pasted: the training, the pruning, and the accuracies on show."""
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
