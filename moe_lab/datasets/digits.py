"""scikit-learn's handwritten digits: 1797 images of 8x8 pixels that come with the package, so nothing is downloaded."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from moe_lab.datasets import Images

FILE = Path("datasets/data/digits.csv.gz")
"""In scikit-learn's folder: 64 grey values and the label of each image."""

LEVELS = 16
"""What a grey value of 1 is there."""


def load() -> Images:
    """Returns all 1797 digits in float64, in scikit-learn's order; there is no official split.

    scikit-learn's grey values run from 0 to 16; dividing by 16 loses nothing.

    References: Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998 (its test set).
    """
    rows = _rows()
    return Images(images=rows[:, :-1] / LEVELS, labels=rows[:, -1].astype(np.int64), side=8)


def _rows() -> UInt8[np.ndarray, "images pixels_and_label"]:
    """Reads scikit-learn's file itself, because importing scikit-learn takes longer than a Lab's first picture."""
    scikit_learn = find_spec("sklearn")
    if scikit_learn is not None and scikit_learn.origin is not None:
        path = Path(scikit_learn.origin).parent / FILE
        if path.is_file():
            return np.loadtxt(path, delimiter=",", dtype=np.uint8)
    from sklearn.datasets import load_digits  # a version that keeps the file elsewhere

    images, labels = load_digits(return_X_y=True)
    return np.column_stack((images, labels)).astype(np.uint8)
