"""What the router-alignment Lab offers: its knobs, and the runs that their values mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from moe_lab.config import Knob
from moe_lab.patch_routing import CNN, DigitTask, JointMoE, PatternTask, Run, Samples
from moe_lab.patch_routing.data import Split
from moe_lab_widgets.engine.lab import given, pick

DIGITS, SYNTHETIC = "digits", "synthetic"
OWN_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    DIGITS: {"patches_per_expert": 4, "samples": 100, "steps": 100, "noise": 0.0},
    SYNTHETIC: {"patches_per_expert": 6, "samples": 200, "steps": 200, "noise": 0.3},
}
"""Where the two kinds of patches are at home; changing from one to the other moves what still stands at these."""
ONLY_SYNTHETIC = ("distractors", "gap", "delta_d", "delta_r")
"""Knobs that digits do not have."""
TEST_SAMPLES = 200
RECORDS = 100
"""About how many records a whole run has: 5 seconds at 20 records a second."""

# Short words, so that three sliders stand side by side.
_WORDS = {
    "patches_per_expert": "patches each keeps",
    "patches": "patches of a sample",
    "neurons": "neurons of all",
    "distractors": "distractors",
    "gap": "lean of distractors",
    "delta_d": "overlap of o₁, o₂",
    "delta_r": "of o and others",
    "noise": "relative to a patch",
    "trials": "trials",
}


def _short(knob: Knob) -> Knob:
    symbol = knob.symbol.replace("delta", "δ")
    return dataclasses.replace(knob, meaning=_WORDS.get(knob.name, knob.meaning), symbol=symbol)


KNOBS = (
    Knob("source", "", "patches are", DIGITS, None, None, "", None, (DIGITS, SYNTHETIC)),
    *(_short(knob) for knob in pick(JointMoE, "patches_per_expert", "experts", patches_per_expert=4, experts=4)),
    *(_short(knob) for knob in pick(PatternTask, "patches")),
    *(_short(knob) for knob in pick(Run, "samples", samples=100)),
    *(_short(knob) for knob in pick(PatternTask, "noise", noise=0.0)),
    *(_short(knob) for knob in pick(JointMoE, "neurons")),
    *(_short(knob) for knob in pick(Run, "trials", trials=8)),
    Knob("steps", "S", "SGD steps at most", 100, 1, None, "", (20, 1000, 20), None),
    *(_short(knob) for knob in pick(PatternTask, "distractors", "gap", "delta_d", "delta_r")),
)


def changed_source(values: Mapping[str, Any]) -> dict[str, Any]:
    """What moves along when the patches become `values["source"]`: knobs that still stand at the other's defaults."""
    here = values["source"]
    there = OWN_DEFAULTS[SYNTHETIC if here == DIGITS else DIGITS]
    return {name: own for name, own in OWN_DEFAULTS[here].items() if values[name] == there[name]}


def task_of(values: Mapping[str, Any]) -> PatternTask | DigitTask:
    """The task that the values mean."""
    return (
        given(DigitTask, {**values, "source": "digits"}) if values["source"] == DIGITS else given(PatternTask, values)
    )


def models(values: Mapping[str, Any]) -> tuple[JointMoE, CNN]:
    """The pMoE, and the CNN with as many neurons."""
    return given(JointMoE, values), given(CNN, values)


def runs(values: Mapping[str, Any]) -> list[Run]:
    """The two runs that the values mean, checked.

    Raises:
      ConfigError: a value or a combination breaks a rule.
    """
    task = task_of(values)
    return [Run(model=model, task=task, **settings(values)) for model in models(values)]


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """What `train` needs besides model and task; the same for both models.

    The device is the CPU: it has finished a run this small before a GPU has started.
    """
    _, epochs, epoch = _epochs(values)
    return {
        "samples": values["samples"],
        "trials": values["trials"],
        "seed": values["seed"],
        "epochs": epochs,
        "test_samples": TEST_SAMPLES,
        "record_every": max(1, round(epochs * epoch / RECORDS)),
        "device": "cpu",
    }


def total_steps(values: Mapping[str, Any]) -> int:
    """The most steps that a run can take: whole passes over the data, at least `steps`."""
    return _epochs(values)[0]


def _epochs(values: Mapping[str, Any]) -> tuple[int, int, int]:
    """(total steps, passes over the data, steps of a pass)"""
    epoch = -(-max(values["samples"], 1) // CNN().batch_size)
    epochs = max(1, -(-values["steps"] // epoch))
    return epochs * epoch, epochs, epoch


def code(values: Mapping[str, Any]) -> str:
    """Python that runs as it is pasted and gives the numbers of the Lab."""
    model, cnn = models(values)
    task = task_of(values)
    given_settings = ", ".join(f"{name}={value!r}" for name, value in settings(values).items())
    return "\n".join(
        (
            f"from moe_lab.patch_routing import CNN, JointMoE, {type(task).__name__}, train",
            "from moe_lab.training import final",
            "",
            f"task = {task.code()}",
            f"settings = dict({given_settings})",
            f"pmoe = final(train({model.code()}, task, **settings))",
            f"cnn = final(train({cnn.code()}, task, **settings))",
            'print("pMoE", pmoe["test_accuracy"], "coverage", pmoe["coverage"])',
            'print("CNN ", cnn["test_accuracy"])',
        )
    )


class Drawn:
    """The samples of one Lab, kept while the sliders mean the same ones.

    Both models train on them, l, k and m leave them as they are, and N leaves the test samples.
    """

    def __init__(self) -> None:
        self._kept: dict[Split, tuple[Any, Samples]] = {}

    def get(self, run: Run) -> tuple[Samples, Samples]:
        """The training and test samples of a run."""
        return self._part(run, "train", run.samples), self._part(run, "test", run.test_samples)

    def _part(self, run: Run, split: Split, count: int) -> Samples:
        key = (run.task, run.trials, run.seed, count)
        if split not in self._kept or self._kept[split][0] != key:
            trials = run.trial_numbers
            self._kept[split] = (
                key,
                run.task.sample(count, trials=trials, seed=run.seed, split=split, device=run.device),
            )
        return self._kept[split][1]
