"""The knobs of the phase-transition Lab, and the map that their values describe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from moe_lab.patch_routing import DigitTask, JointMoE, PatternTask, SeparateMoE
from moe_lab.patch_routing.grid_points import make_task
from moe_lab.patch_routing.phase_live import PhaseRecord, phase_records
from moe_lab.patch_routing.run import Run
from moe_lab_widgets.engine.knobs import LabKnob, given, offer, placed
from moe_lab_widgets.engine.mnist import HOW, MNIST, files_of

DIGITS, SYNTHETIC = "digits", "synthetic"
SEPARATE, JOINT = "separate", "joint"
KEPT = (1, 2, 3, 4, 5, 6, 7, 8)
"""The values of l; those above n are left out."""
SAMPLES: Mapping[tuple[str, str], tuple[int, ...]] = {
    (SYNTHETIC, SEPARATE): (40, 60, 100, 140, 200, 300, 400, 560),
    (SYNTHETIC, JOINT): (20, 40, 60, 80, 100, 140, 200, 300),
    (DIGITS, SEPARATE): (60, 100, 140, 200, 300, 400, 560, 800),
    (DIGITS, JOINT): (20, 40, 60, 80, 100, 140, 200, 300),
    (MNIST, SEPARATE): (60, 100, 140, 200, 300, 400, 500, 600, 700, 800),
    (MNIST, JOINT): (20, 40, 60, 80, 100, 140, 200, 300),
}
"""The values of N, by data and training: where the transition is."""
NOISE = {SYNTHETIC: 0.3, DIGITS: 0.0, MNIST: 0.0}
"""The default of noise, by data."""
TEST_SAMPLES = {SYNTHETIC: 400, DIGITS: 400, MNIST: 1000}
LEARNING_RATE = {SYNTHETIC: 10.0, DIGITS: 10.0, MNIST: None}
"""Twice the usual rate: the same success in half the steps. On MNIST it is the paper's map, at the usual rate."""
FIRST_TRAININGS = 5
"""Trainings of every grid point that run first."""


def _synthetic(values: Mapping[str, Any]) -> bool:
    return bool(values["source"] == SYNTHETIC)


# Short words, so that three sliders stand side by side, and ranges that keep l* on the map and a map live.
KNOBS = (
    LabKnob(
        name="source", main=True, meaning="patches are", default=SYNTHETIC, choices=(SYNTHETIC, DIGITS), reason=HOW
    ),
    LabKnob(name="training", main=True, meaning="router training", default=SEPARATE, choices=(SEPARATE, JOINT)),
    LabKnob(
        name="experts",
        symbol="k",
        meaning="experts (if joint)",
        default=4,
        low=1,
        choices=(1, 2, 4, 5, 8),
        enabled_when=lambda values: values["training"] == JOINT,
    ),
    offer(PatternTask, "patches", meaning="patches of a sample", slider=(4, 32, 1), far=64, main=True),
    offer(
        PatternTask,
        "distractors",
        meaning="distractors",
        default=2,
        slider=(0, 6, 1),
        enabled_when=_synthetic,
        main=True,
    ),
    offer(PatternTask, "gap", meaning="lean of distractors", default=1.2, enabled_when=_synthetic, main=True),
    offer(PatternTask, "delta_d", symbol="δ_d", meaning="overlap of o₁, o₂", enabled_when=_synthetic),
    offer(PatternTask, "delta_r", symbol="δ_r", meaning="overlap of others", enabled_when=_synthetic),
    offer(PatternTask, "noise", meaning="in each patch", follows=lambda values: NOISE[values["source"]], main=True),
    LabKnob(name="trials", symbol="T", meaning="trainings a cell", default=20, low=1, slider=(5, 40, 5), far=100),
)


@dataclass(frozen=True)
class Setting:
    """What does not change in the picture during a run.

    Attributes:
      kept, samples: the values of l and of N.
      l_star: l*, or None where it is unknown.
      trials: trainings per grid point.
      first: how many of them run first.
      trained: how routers train, in a few words.
    """

    kept: tuple[int, ...]
    samples: tuple[int, ...]
    l_star: int | None
    trials: int
    first: int
    trained: str


def task_of(values: Mapping[str, Any]) -> PatternTask | DigitTask:
    """Returns the task that the values describe."""
    if values["source"] == DIGITS:
        return given(DigitTask, {**values, "source": "digits"})
    if values["source"] == MNIST:
        return make_task("mnist", patches=values["patches"], **files_of(values))
    return given(PatternTask, values)


def model_of(values: Mapping[str, Any]) -> SeparateMoE | JointMoE:
    """Returns the model that the values describe, at l = 1. Separate training has one expert per class: k = 2."""
    rate = LEARNING_RATE[values["source"]]
    if values["training"] == JOINT:
        return JointMoE(experts=values["experts"], patches_per_expert=1, learning_rate=rate)
    return SeparateMoE(patches_per_expert=1, learning_rate=rate)


def grid_of(values: Mapping[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the values of l, which cannot exceed n, and of N."""
    kept = tuple(kept for kept in KEPT if kept <= values["patches"])
    return kept, SAMPLES[values["source"], values["training"]]


def setting_of(values: Mapping[str, Any]) -> Setting:
    """Returns what the picture needs to know."""
    task, (kept, samples) = task_of(values), grid_of(values)
    experts = values["experts"] if values["training"] == JOINT else task.classes
    trained = f"{values['training']} training (k = {experts})"
    l_star = task.l_star if isinstance(task, PatternTask) else None
    return Setting(kept, samples, l_star, values["trials"], min(FIRST_TRAININGS, values["trials"]), trained)


def records_of(values: Mapping[str, Any]) -> Iterator[PhaseRecord]:
    """Yields the map that the values describe, while it fills.

    Raises:
      ConfigError: a value or a combination breaks a rule.
    """
    kept, samples = grid_of(values)
    tested = TEST_SAMPLES[values["source"]]
    own: dict[str, Any] = {"quick_look": FIRST_TRAININGS, "test_samples": tested, **placed(values)}
    return phase_records(task_of(values), model_of(values), kept, samples, values["trials"], values["seed"], **own)


def work(values: Mapping[str, Any]) -> float:
    """Returns the numbers that a step touches: all l of one N train together."""
    kept, samples = grid_of(values)
    model, task = model_of(values), task_of(values)
    many = [model.replace(patches_per_expert=count) for count in kept]
    return sum(Run(model=one, task=task, samples=max(samples), trials=values["trials"]).numbers for one in many)


def code(values: Mapping[str, Any]) -> str:
    """Returns Python that runs as it is pasted and computes the numbers of the Lab."""
    task, model, (kept, samples) = task_of(values), model_of(values), grid_of(values)
    return "\n".join(
        (
            f"from moe_lab.patch_routing import {', '.join(sorted((type(task).__name__, type(model).__name__)))}",
            "from moe_lab.patch_routing.figures import phase_map",
            "from moe_lab.patch_routing.plots import picture",
            "",
            "result = phase_map(",
            f"    patches_per_expert={kept},",
            f"    samples={samples},",
            f"    trials={values['trials']},",
            f"    seed={values['seed']},",
            f"    task={task.code()},",
            f"    model={model.code()},",
            f"    test_samples={TEST_SAMPLES[values['source']]},",
            *(f'    device="{device}",' for device in placed(values).values()),
            ")",
            'print(result["success"].mean("trial").to_pandas())',
            "picture(result)",
        )
    )
