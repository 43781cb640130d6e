"""The user's own patches in place of generated ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
import torch
from jaxtyping import Float
from pydantic import field_validator, model_validator
from torch import Tensor

from moe_lab.core.arrays import (
    ArrayConfig,
    check_counted,
    check_lengths,
    held_out_count,
    samples_array,
    split_order,
)
from moe_lab.core.config import knob, require
from moe_lab.core.numbers import integer_array
from moe_lab.patch_routing.data import BACKGROUND, SIGNAL, PatchSamples, Split, check_balance, joined


class ArrayTask(ArrayConfig):
    """Samples of patches from arrays: the patches of images, for example, or embedded words.

    Each trial divides the samples of every class at random into training and test samples, and takes the classes in
    turn, so that they are balanced. Patches keep their positions. They are divided by the root mean square norm of the
    patches of the trial's training samples (`norm`), so that their unit is of no account; `example_patches` and weights
    belong to patches so divided. If the deciding patch is unknown, omit `signal`: the measures that need it, such as
    `coverage` and `alignment`, are then NaN.

    >>> from moe_lab.patch_routing import ArrayTask, JointMoE, train
    >>> random = np.random.default_rng(0)
    >>> patches, classes, place = random.normal(size=(300, 9, 16)), np.arange(300) % 2, random.integers(9, size=300)
    >>> patches[np.arange(300), place] += np.where(classes, 2, -2)[:, None]  # the patch that decides
    >>> task = ArrayTask(x=patches, y=classes, signal=place)
    >>> run = train(JointMoE(patches_per_expert=3), task, samples=200, test_samples=60, trials=2, epochs=2)
    >>> coverages = [snapshot["coverage"] for snapshot in run]

    Args:
      x: (samples, patches, d), in any unit.
      y: (samples,) the class of each sample, counted from 0.
      signal: (samples,) the position of the patch that decides, counted from 0; None if it is not known.
      test_share: the share of test samples in each class.

    Raises:
      ConfigError: the arrays do not fit together, or contain other values.
    """

    x: Any = knob(..., meaning="patches of each sample")
    y: Any = knob(..., meaning="class of each sample")
    signal: Any = knob(None, meaning="place of the patch that decides")
    test_share: float = knob(0.25, meaning="share of test samples", gt=0, lt=1)

    paper: ClassVar[str] = "pmoe2023, section 4.2"
    learning_rate: ClassVar[float] = 2.0  # as for MNIST's images, whose norm is 1 too

    @field_validator("x")
    @classmethod
    def _patches(cls, x: Any) -> np.ndarray:
        return samples_array(x, "x must be an array (samples, patches, d)", (3,))

    @field_validator("y", "signal")
    @classmethod
    def _whole_numbers(cls, values: Any, info: Any) -> np.ndarray | None:
        return integer_array(str(info.field_name), values)

    @model_validator(mode="after")
    def _fit(self) -> Self:
        require(self.y is not None, "y must be an array", y=self.y)
        check_lengths(x=self.x, y=self.y, signal=self.signal)
        check_counted("y", self.y)
        counts = np.bincount(self.y).tolist()
        require(len(counts) >= 2, "y must hold two or more classes", y=list(range(len(counts))))
        require(min(counts) >= 2, "each class must have two samples, one of them for the test", samples=counts)
        if self.signal is not None:
            outside = self.signal[(self.signal < 0) | (self.signal >= self.patches)][:5].tolist()
            require(not outside, f"signal must count the {self.patches} patches from 0", signal=outside)
        return self

    @property
    def classes(self) -> int:
        return int(self.y.max()) + 1

    @property
    def patches(self) -> int:
        """n, the patches in a sample."""
        return int(self.x.shape[1])

    @property
    def dimension(self) -> int:
        """d, the numbers in a patch."""
        return int(self.x.shape[2])

    def signals(self, trials: Sequence[int], seed: int) -> Float[Tensor, "trials classes d"]:
        """Returns each class's mean deciding patch, a unit vector in float64, alike in all trials; NaN if unknown."""
        if self.signal is None:
            return torch.full((len(trials), self.classes, self.dimension), torch.nan, dtype=torch.float64)
        decides = self.x[np.arange(len(self.x)), self.signal] / np.abs(self.x).max()
        means = np.stack([decides[self.y == label].mean(axis=0) for label in range(self.classes)])
        unit = torch.as_tensor(means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12))
        return unit.expand(len(trials), -1, -1)

    def check(self, samples: int, split: Split) -> None:
        """Raises a ValueError if there are fewer training or test samples, with the classes balanced."""
        tests = [held_out_count(self.test_share, count) for count in np.bincount(self.y)]
        each = tests if split == "test" else np.bincount(self.y) - tests
        there = self.classes * int(min(each))
        name, symbol = ("samples", "N") if split == "train" else ("test_samples", "N_test")
        rule = f"{name} ({symbol}) must be at most what the smallest class allows, {there}"
        require(samples <= there, rule, **{symbol: samples})

    def divided(self, trial: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the numbers of a trial's training samples and of its test samples, class after class."""
        order = split_order(seed, trial, len(self.x))
        own = [order[self.y[order] == label] for label in range(self.classes)]
        tests = [held_out_count(self.test_share, len(numbers)) for numbers in own]
        pairs = list(zip(own, tests, strict=True))
        return np.concatenate([part[at:] for part, at in pairs]), np.concatenate([part[:at] for part, at in pairs])

    def sample(
        self,
        samples: int,
        *,
        trials: Sequence[int],
        seed: int,
        split: Split = "train",
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> PatchSamples:
        """Returns the first N training or test samples of each trial's own division, classes in rotation.

        Raises:
          ValueError: samples is not a positive multiple of the number of classes, or there are fewer.
        """
        check_balance(samples, self.classes)
        self.check(samples, split)
        made = []
        for trial in trials:
            trained, tested = self.divided(trial, seed)
            chosen = self._in_turn(samples, tested if split == "test" else trained)
            made.append(self._samples(chosen, trained).to("cpu", dtype))
        return joined(made, one_bank=False).to(device, dtype)

    def _in_turn(self, samples: int, numbers: np.ndarray) -> np.ndarray:
        """The first of the samples with these numbers, the classes in turn."""
        each = samples // self.classes
        return np.stack([numbers[self.y[numbers] == label][:each] for label in range(self.classes)], axis=1).ravel()

    def _samples(self, chosen: np.ndarray, trained: np.ndarray) -> PatchSamples:
        """The samples of a trial with these numbers, whose bank holds their patches one after another."""
        count, labels = len(chosen), self.y[chosen]
        index = np.arange(count * self.patches, dtype=np.int32).reshape(count, self.patches)
        signal = np.zeros(count, dtype=np.int64) if self.signal is None else self.signal[chosen]
        roles, sides = np.full(index.shape, BACKGROUND), np.full(index.shape, -1)
        if self.signal is not None:
            roles[np.arange(count), signal], sides[np.arange(count), signal] = SIGNAL, labels
        bank = self.in_unit(chosen, trained).reshape(count * self.patches, -1)
        return PatchSamples(*(torch.from_numpy(part)[None] for part in (bank, index, labels, signal, roles, sides)))
