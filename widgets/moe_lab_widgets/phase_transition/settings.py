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
from moe_lab_widgets.engine.mnist import DATA_WORDS, HOW, MNIST, files_of

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
    LabKnob(name="source", main=True, meaning="Data", default=SYNTHETIC, choices=(SYNTHETIC, DIGITS), words=DATA_WORDS,
            reason=HOW,
            effect="Of synthetic patches l* is known; of real digits it is blurred."),
    LabKnob(name="training", main=True, meaning="training of the routers", default=SEPARATE, choices=(SEPARATE, JOINT),
            words={SEPARATE: "separate (before the experts)", JOINT: "joint (with the experts)"},
            effect="Joint training needs fewer samples, and l matters less to it."),
    LabKnob(name="experts", main=True, symbol="k", meaning="experts", default=4, low=1, choices=(1, 2, 4, 5, 8),
            enabled_when=lambda values: values["training"] == JOINT,
            effect="With more experts each class more surely finds a router. The neurons are divided among them.",
            applies="only to joint training; separate training has one expert for each class"),
    offer(PatternTask, "patches", main=True, meaning="patches per sample", slider=(4, 32, 1), far=64,
          effect="More patches that do not matter: more samples are needed, but l* stays."),
    offer(PatternTask, "distractors", main=True, symbol="", meaning="distractors per sample (l* − 1)", default=2,
          slider=(0, 6, 1), enabled_when=_synthetic,
          effect="The cliff moves up with it: l* is one more than the distractors.",
          applies="only to synthetic patches"),
    offer(PatternTask, "gap", main=True, meaning="how much distractors resemble o", default=1.2,
          enabled_when=_synthetic,
          effect="The larger, the more strongly distractors pull routers to the class that they imitate.",
          applies="only to synthetic patches"),
    offer(PatternTask, "delta_d", main=True, symbol="δ_d", meaning="overlap of o₁ and o₂", enabled_when=_synthetic,
          effect="The closer to 1, the more alike both classes look, and the more samples are needed.",
          applies="only to synthetic patches"),
    offer(PatternTask, "noise", main=True, symbol="", meaning="noise added to every patch",
          follows=lambda values: NOISE[values["source"]],
          effect="More noise asks for more samples. Much noise moves l* as well."),
    offer(PatternTask, "delta_r", symbol="δ_r", meaning="overlap of others with o", enabled_when=_synthetic,
          effect="The larger, the more of o may be in a patch that does not matter.",
          applies="only to synthetic patches"),
    LabKnob(name="trials", symbol="T", meaning="trainings per cell", default=20, low=1, slider=(5, 40, 5), far=100,
            effect="More trainings make the shares in all cells steadier and the map slower."),
)  # fmt: skip


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
