"""The router-alignment Lab's knobs, and the two runs that their values describe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor

from moe_lab.core.config import Config, RunConfig, require
from moe_lab.core.snapshots import Snapshot
from moe_lab.core.trials import device_and_dtype
from moe_lab.drawing import theme
from moe_lab.patch_routing import (
    CNN,
    DigitTask,
    JointMoE,
    PatchRun,
    PatchSamples,
    PatternTask,
    grid_points,
    train_batch,
)
from moe_lab.patch_routing.data import Split
from moe_lab.patch_routing.stepwise import StepwiseMoE
from moe_lab_widgets.engine.knobs import MORE_TRIALS, LabKnob, config_from, offer
from moe_lab_widgets.engine.mnist import DATA_WORDS, HOW, MNIST, files_of

DIGITS, SYNTHETIC = "digits", "synthetic"
OWN_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    DIGITS: {"patches_per_expert": 4, "samples": 100, "steps": 100, "noise": 0.0},
    SYNTHETIC: {"patches_per_expert": 6, "samples": 200, "steps": 200, "noise": 0.3},
    MNIST: {"patches_per_expert": 6, "samples": 300, "steps": 300, "noise": 0.0},
}
"""Defaults that depend on the source of the patches."""
Values = Mapping[str, Any]
Mixture = JointMoE | StepwiseMoE
"""What can stand in the mixture's place: routers of k experts, each of which receives l patches."""

# ---- knobs ----


def _own(config: type[Config], name: str, **changes: Any) -> LabKnob:
    """A knob whose default depends on the source of the patches."""
    return offer(
        config,
        name,
        default=OWN_DEFAULTS[DIGITS][name],
        follows=lambda values: OWN_DEFAULTS[values["source"]][name],
        **changes,
    )


def _synthetic(values: Values) -> bool:
    return bool(values["source"] == SYNTHETIC)


KNOBS = (
    LabKnob(name="source", main=True, meaning="Data", default=DIGITS, choices=(DIGITS, SYNTHETIC), words=DATA_WORDS,
            reason=HOW,
            effect="Digits show what routers look for; of synthetic patches you set every property."),
    _own(JointMoE, "patches_per_expert", main=True, meaning="patches per expert",
         effect="Each expert sees more of a sample: o more often, and more of the others."),
    offer(JointMoE, "experts", default=4, main=True,
          effect="More experts, among whom the m neurons are divided."),
    offer(PatternTask, "patches", main=True, meaning="patches per sample",
          effect="o hides among more patches that do not matter."),
    _own(PatchRun, "samples", main=True, effect="More samples for both models to learn from."),
    _own(PatternTask, "noise", main=True, symbol="", meaning="noise on each patch",
         effect="More noise hides the patterns."),
    offer(PatternTask, "distractors", main=True, symbol="", meaning="distractors (l* − 1)",
          enabled_when=_synthetic,
          effect="More patches imitate a class.",
          applies="only to synthetic patches"),
    offer(PatternTask, "delta_d", main=True, symbol="δ_d", meaning="overlap of o₁, o₂", enabled_when=_synthetic,
          effect="The closer to 1, the more alike both classes look. Below 0 they point apart.",
          applies="only to synthetic patches"),
    offer(PatternTask, "gap", meaning="distractors like o", enabled_when=_synthetic,
          effect="The larger, the more strongly distractors pull routers to the class that they imitate.",
          applies="only to synthetic patches"),
    offer(PatternTask, "delta_r", symbol="δ_r", meaning="overlap of others with o", enabled_when=_synthetic,
          effect="The larger, the more of o may be in a patch that does not matter.",
          applies="only to synthetic patches"),
    offer(JointMoE, "neurons", meaning="neurons in all",
          effect="Both models can represent more, and each step takes longer."),
    LabKnob(name="steps", meaning="maximum number of SGD steps", default=OWN_DEFAULTS[DIGITS]["steps"],
            follows=lambda values: OWN_DEFAULTS[values["source"]]["steps"], low=1, slider=(20, 1000, 20),
            effect="More steps give the slower of the two models time to catch up."),
    offer(PatchRun, "trials", meaning="trials", default=8, far=1000, effect=MORE_TRIALS),
)  # fmt: skip


def own_mixture(
    knobs: Sequence[LabKnob], mixture: Any, values: dict[str, Any]
) -> tuple[Sequence[LabKnob], dict[str, Any]]:
    """Takes the Lab's argument `mixture`, which changes neither knobs nor values."""
    rule = "mixture must be a StepwiseMoE, or a JointMoE with a router of your own"
    require(isinstance(mixture, Mixture), rule, mixture=mixture)
    return knobs, values


# ---- the two runs that the values describe ----


def task_of(values: Values) -> PatternTask | DigitTask:
    if values["source"] == MNIST:
        return grid_points.make_task("mnist", patches=values["patches"], **files_of(values))
    if values["source"] == DIGITS:
        return config_from(DigitTask, {**values, "source": "digits"})
    return config_from(PatternTask, values)


def runs(values: Values) -> dict[str, PatchRun]:
    """Returns the run of the mixture, or of the user's of its size, and that of a CNN with as many neurons."""
    mixture: Mixture = config_from(JointMoE, values)
    if (own := values.get("mixture")) is not None:
        sizes = ("experts", "patches_per_expert", "neurons")
        mixture = own.replace(**{name: getattr(mixture, name) for name in sizes})
    passes, _ = _passes(values)
    settings = {"task": task_of(values), "epochs": passes, "test_samples": 200}
    models = {"joint": mixture, "cnn": config_from(CNN, values)}
    return {name: config_from(PatchRun, values, model=model, **settings) for name, model in models.items()}


def steps(values: Values) -> int:
    """Returns the most steps that a run can take: whole passes over the data, at least as many as the slider says."""
    passes, steps_of_one = _passes(values)
    return passes * steps_of_one


def _passes(values: Values) -> tuple[int, int]:
    """Returns the passes over the data, and the steps of one."""
    steps_of_one = -(-max(values["samples"], 1) // CNN().batch_size)
    return max(1, -(-values["steps"] // steps_of_one)), steps_of_one


def begin(run: RunConfig, cache: dict[str, Any]) -> Iterator[Snapshot]:
    """Begins a run, on the samples that the Lab has kept if they are those of this run.

    Both models train on the same; l, k and m do not change them, and N does not change the test samples.
    """
    assert isinstance(run, PatchRun)
    return train_batch(
        [run], (_samples(run, "train", run.samples, cache), _samples(run, "test", run.test_samples, cache))
    )


def _samples(run: PatchRun, split: Split, count: int, cache: dict[str, Any]) -> PatchSamples:
    key = (run.task, run.trials, run.seed, count, run.device)
    if split not in cache or cache[split][0] != key:
        where: dict[str, Any] = {"split": split, "device": device_and_dtype(run)[0]}
        cache[split] = key, run.task.sample(count, trials=run.trial_numbers, seed=run.seed, **where)
    samples: PatchSamples = cache[split][1]
    return samples


# ---- what decides the class ----


def overlap(values: Values) -> Tensor:
    """Returns the cosine of o1 and o2, the same in all trials."""
    first, second = task_of(values).signals((0,), values["seed"])[0]
    return (first * second).sum()


def names_of(source: str) -> list[str]:
    """Returns what decides each class, in sentences: "the 6", or "o₁"."""
    digits = grid_points.DIGITS.get(source)
    return list(theme.CLASS_NAMES) if digits is None else [f"the {digit}" for digit in digits]


def patterns_of(source: str) -> list[str]:
    """Returns what decides each class, for labels: "digit 6", or "pattern o₁"."""
    digits = grid_points.DIGITS.get(source)
    return [f"pattern {name}" for name in theme.CLASS_NAMES] if digits is None else [f"digit {one}" for one in digits]
