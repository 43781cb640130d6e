"""What the router-alignment Lab offers: its knobs, and the runs that their values mean."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from pydantic import PrivateAttr

from moe_lab.config import Knob
from moe_lab.patch_routing import CNN, DigitTask, JointMoE, PatternTask, Run, Samples
from moe_lab.patch_routing.data import Split
from moe_lab_widgets.lab import given, pick

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
    """What moves along when the patches change to `values["source"]`: knobs that still stand at the other's defaults."""
    here = values["source"]
    there = OWN_DEFAULTS[SYNTHETIC if here == DIGITS else DIGITS]
    return {name: own for name, own in OWN_DEFAULTS[here].items() if values[name] == there[name]}


def plain_task(values: Mapping[str, Any]) -> PatternTask | DigitTask:
    """The task that the values mean."""
    return given(DigitTask, {**values, "source": "digits"}) if values["source"] == DIGITS else given(PatternTask, values)


def models(values: Mapping[str, Any]) -> tuple[JointMoE, CNN]:
    """The pMoE, and the CNN with as many neurons."""
    return given(JointMoE, values), given(CNN, values)


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
    task = plain_task(values)
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


# ---- samples are drawn once ------------------------------------------------------------------------------------------


class Keeper:
    """The last few draws. Both models train on the same samples, and most sliders leave them as they are."""

    def __init__(self, most: int = 6, most_numbers: int = 16_000_000) -> None:
        self.most, self.most_numbers = most, most_numbers
        self._kept: OrderedDict[Any, Samples] = OrderedDict()

    def get(self, key: Any, make: Any) -> Samples:
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        drawn = make()
        self._kept[key] = drawn
        while len(self._kept) > 1 and (len(self._kept) > self.most or self._numbers() > self.most_numbers):
            self._kept.popitem(last=False)
        return drawn

    def _numbers(self) -> int:
        return sum(one.bank.numel() for one in self._kept.values())


class DrawnOnce(PatternTask):
    """A PatternTask that keeps its last draws."""

    _keeper: Keeper = PrivateAttr(default_factory=Keeper)

    @classmethod
    def of(cls, task: PatternTask, keeper: Keeper) -> Self:
        made = cls(**task.model_dump())
        made._keeper = keeper
        return made

    def draw(
        self,
        samples: int,
        *,
        trials: Sequence[int],
        seed: int,
        split: Split = "train",
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> Samples:
        how: dict[str, Any] = {"trials": trials, "seed": seed, "split": split, "device": device, "dtype": dtype}
        key = (self.code(), samples, tuple(trials), seed, split, str(device), dtype)
        return self._keeper.get(key, lambda: PatternTask.draw(self, samples, **how))

    def code(self) -> str:
        return PatternTask(**self.model_dump()).code()
