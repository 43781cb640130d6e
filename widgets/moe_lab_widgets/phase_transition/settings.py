"""What the phase-transition Lab offers: its knobs, and the map that their values mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from moe_lab.config import Knob
from moe_lab.patch_routing import DigitTask, JointMoE, PatternTask, SeparateMoE
from moe_lab.patch_routing.phase_live import PhaseRecord, phase_records
from moe_lab_widgets.engine.lab import given, pick

DIGITS, SYNTHETIC = "digits", "synthetic"
SEPARATE, JOINT = "separate", "joint"
KEPT = (1, 2, 3, 4, 5, 6, 7, 8)
"""The values of l; those above n are left out."""
SAMPLES: Mapping[tuple[str, str], tuple[int, ...]] = {
    (SYNTHETIC, SEPARATE): (40, 60, 100, 140, 200, 300, 400, 560),
    (SYNTHETIC, JOINT): (20, 40, 60, 80, 100, 140, 200, 300),
    (DIGITS, SEPARATE): (60, 100, 140, 200, 300, 400, 560, 800),
    (DIGITS, JOINT): (20, 40, 60, 80, 100, 140, 200, 300),
}
"""The values of N, by data and training: where the transition is."""
NOISE = {SYNTHETIC: 0.3, DIGITS: 0.0}
"""Where noise is at home; changing from one kind of patches to the other moves it along when it stands there."""
ONLY_SYNTHETIC = ("distractors", "gap", "delta_d", "delta_r")
"""Knobs that digits do not have."""
TEST_SAMPLES = 400
LEARNING_RATE = 10.0
"""Twice the usual step: the same success in half the steps."""
QUICK_LOOK = 5

# Short words, so that three sliders stand side by side.
_WORDS = {
    "patches": "patches of a sample",
    "distractors": "distractors",
    "gap": "lean of distractors",
    "delta_d": "overlap of o₁, o₂",
    "delta_r": "of o and others",
    "noise": "of a patch",
}


def _short(knob: Knob) -> Knob:
    return dataclasses.replace(knob, meaning=_WORDS[knob.name], symbol=knob.symbol.replace("delta", "δ"))


_RANGES = {"patches": (4, 32, 1), "distractors": (0, 6, 1)}
"""Narrower than a Config offers: l* stays on the map, and a map takes seconds."""
_OFFERED = pick(PatternTask, "patches", "distractors", "gap", "delta_d", "delta_r", "noise", distractors=2, gap=1.2)
KNOBS = (
    Knob("source", "", "patches are", SYNTHETIC, None, None, "", None, (SYNTHETIC, DIGITS)),
    Knob("training", "", "router training", SEPARATE, None, None, "", None, (SEPARATE, JOINT)),
    Knob("experts", "k", "experts (if joint)", 4, 1, None, "", None, (1, 2, 4, 5, 8)),
    *(dataclasses.replace(_short(knob), slider=_RANGES.get(knob.name, knob.slider)) for knob in _OFFERED),
    Knob("trials", "T", "trainings a cell", 20, 1, None, "", (5, 40, 5), None),
)


@dataclass(frozen=True)
class Setting:
    """What stands still in the picture during a run.

    Attributes:
      kept, samples: the values of l and of N.
      l_star: l*, or None where the data do not say.
      trials: trainings of a cell.
      look: how many of them a first look takes.
      trained: how routers train, in a few words.
    """

    kept: tuple[int, ...]
    samples: tuple[int, ...]
    l_star: int | None
    trials: int
    look: int
    trained: str


def task_of(values: Mapping[str, Any]) -> PatternTask | DigitTask:
    """The task that the values mean."""
    if values["source"] == DIGITS:
        return given(DigitTask, {**values, "source": "digits"})
    return given(PatternTask, values)


def model_of(values: Mapping[str, Any]) -> SeparateMoE | JointMoE:
    """The model that the values mean, at l = 1. Separate training has one expert a class: k = 2."""
    if values["training"] == JOINT:
        return JointMoE(experts=values["experts"], patches_per_expert=1, learning_rate=LEARNING_RATE)
    return SeparateMoE(patches_per_expert=1, learning_rate=LEARNING_RATE)


def grid_of(values: Mapping[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The values of l, which cannot be more than n, and of N."""
    kept = tuple(kept for kept in KEPT if kept <= values["patches"])
    return kept, SAMPLES[values["source"], values["training"]]


def setting_of(values: Mapping[str, Any]) -> Setting:
    """What the picture must know of the values."""
    task, (kept, samples) = task_of(values), grid_of(values)
    experts = values["experts"] if values["training"] == JOINT else task.classes
    trained = f"{values['training']} training (k = {experts})"
    l_star = task.l_star if isinstance(task, PatternTask) else None
    return Setting(kept, samples, l_star, values["trials"], min(QUICK_LOOK, values["trials"]), trained)


def records_of(values: Mapping[str, Any]) -> Iterator[PhaseRecord]:
    """The map that the values mean, while it fills.

    The device is the CPU: batches this small have ended before a GPU has started.

    Raises:
      ConfigError: a value or a combination breaks a rule.
    """
    kept, samples = grid_of(values)
    own: dict[str, Any] = {"quick_look": QUICK_LOOK, "test_samples": TEST_SAMPLES, "device": "cpu"}
    return phase_records(task_of(values), model_of(values), kept, samples, values["trials"], values["seed"], **own)


def code(values: Mapping[str, Any]) -> str:
    """Python that runs as it is pasted and gives the numbers of the Lab."""
    task, model, (kept, samples) = task_of(values), model_of(values), grid_of(values)
    return "\n".join(
        (
            f"from moe_lab.patch_routing import {', '.join(sorted((type(task).__name__, type(model).__name__)))}",
            "from moe_lab.patch_routing.figures import phase_map",
            "",
            "result = phase_map(",
            f"    patches_per_expert={kept},",
            f"    samples={samples},",
            f"    trials={values['trials']},",
            f"    seed={values['seed']},",
            f"    task={task.code()},",
            f"    model={model.code()},",
            f"    test_samples={TEST_SAMPLES},",
            '    device="cpu",',
            ")",
            'print(result["success"].mean("trial").to_pandas())',
        )
    )
