"""Digits at random places: scikit-learn's 8x8 digits on a larger square, upright or upside down."""

from __future__ import annotations

from functools import cache
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from moe_lab.core.config import Config, knob
from moe_lab.core.trials import stream
from moe_lab.datasets import digits

SIDE = 12
_TEST = 500  # digits for tests; as many again for validation, the rest for training
_SPLITS = {"train": slice(2 * _TEST, None), "test": slice(0, _TEST), "validation": slice(_TEST, 2 * _TEST)}


class Labelled(NamedTuple):
    """Images and their labels.

    Attributes:
      images: (N, 12, 12, 3) from -1 (paper) to 1 (ink), three equal channels.
      labels: (N,) the digit.
    """

    images: Float[Tensor, "N 12 12 3"]
    labels: Int[Tensor, " N"]


class DigitTask(Config):
    """Which digit is it? Each image shows one of scikit-learn's digits at one of 25 places on 12 x 12 pixels.

    The digits of the splits "train", "test" and "validation" are different ones, the same for every seed.

    Raises:
      ConfigError: a value is out of bounds.
    """

    classes: int = knob(10, meaning="digits to tell apart", ge=2, le=10, slider=(2, 10, 1))
    upside_down: bool = knob(False, meaning="whether digits are turned by 180 degrees")

    paper: ClassVar[str] = "pruning2024, section 5.2"

    def sample(
        self, count: int, split: Literal["train", "test", "validation"], generator: np.random.Generator
    ) -> Labelled:
        """Draws digits of a split, each as often as any other, and their places.

        Args:
          count: N.
          split: "train", "test" or "validation".
          generator: the random stream.
        """
        images, labels = _digits(split, self.classes, self.upside_down)
        passes = -(-count // len(labels))
        chosen = np.concatenate([generator.permutation(len(labels)) for _ in range(passes)])[:count]
        rows, columns = generator.integers(SIDE - 7, size=(2, count))
        square = np.zeros((count, SIDE, SIDE), np.float32)
        number, pixel = np.arange(count)[:, None, None], np.arange(8)
        square[number, (rows[:, None] + pixel)[:, :, None], (columns[:, None] + pixel)[:, None]] = images[chosen]
        grey = torch.from_numpy(2 * square - 1)
        return Labelled(grey[..., None].expand(-1, -1, -1, 3).contiguous(), torch.from_numpy(labels[chosen]))


@cache
def _digits(split: str, classes: int, upside_down: bool) -> tuple[np.ndarray, np.ndarray]:
    every = digits.load()
    order = stream(0, 0, "digits/splits").permutation(len(every.labels))[_SPLITS[split]]
    images, labels = every.images[order].reshape(-1, 8, 8), every.labels[order]
    wanted = labels < classes
    return images[wanted, ::-1, ::-1] if upside_down else images[wanted], labels[wanted]
