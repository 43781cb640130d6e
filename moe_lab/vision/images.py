"""The images that tasks are made of, loaded once: embedded digits, and CIFAR from the user's files."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from moe_lab.datasets import ColourImages, cifar
from moe_lab.datasets import digits as embedded_digits

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
