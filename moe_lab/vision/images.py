"""The images that tasks are made of, loaded once and drawn for trials: embedded digits, and CIFAR from files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.datasets import ColourImages, cifar
from moe_lab.datasets import digits as embedded_digits

Split = Literal["train", "test"]
_TEST_EVERY = 4  # without an official split, every fourth image of a digit is a test image


@lru_cache(maxsize=1)
def digit_images() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(1797, 8, 8) digits, (1797,) which digits they are, and which are test images."""
    loaded = embedded_digits.load()
    is_test = np.zeros(len(loaded.labels), dtype=bool)
    for digit in range(10):
        is_test[np.flatnonzero(loaded.labels == digit)[::_TEST_EVERY]] = True
    return loaded.images.reshape(-1, loaded.side, loaded.side), loaded.labels, is_test


@lru_cache(maxsize=2)
def cifar_images(name: str, root: Path | None, download: bool) -> ColourImages:
    """CIFAR-10 or CIFAR-100, as `cifar.load` reads it."""
    return cifar.load(root, name=name, download=download)


def checked(data: ColourImages) -> str:
    """Whether the images are known to be the official ones, in words for the attrs of results."""
    said = {True: "the official archive", False: "an archive of another SHA-256", None: "files, not hash-checked"}
    return said[data.official]


def images_of(is_test: Bool[np.ndarray, " N"], split: Split) -> Int[np.ndarray, " n"]:
    """Returns the numbers of the images that belong to a split."""
    return np.flatnonzero(is_test if split == "test" else ~is_test)


def drawn(
    draw: Callable[[int, int, int, Split], tuple[Any, Any, Any]],
    samples: int,
    trials: Sequence[int],
    seed: int,
    split: Split,
    device: torch.device | str,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """Draws each trial by itself: images, labels, and what else a task tells of each image, all with a trial axis.

    Args:
      draw: given samples, trial, seed and split, returns the three of one trial.

    Raises:
      ValueError: samples is less than 1, or no trials.
    """
    require(samples >= 1, "samples (N) must be at least 1", N=samples)
    require(len(trials) >= 1, "trials must name at least one trial", trials=list(trials))
    each = [draw(samples, trial, seed, split) for trial in trials]
    images = torch.stack([torch.as_tensor(part[0]).to(device, dtype) for part in each])
    labels, others = (torch.as_tensor(np.stack([part[place] for part in each]), device=device) for place in (1, 2))
    return images, labels, others
