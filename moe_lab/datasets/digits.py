"""scikit-learn's handwritten digits: 1797 images of 8x8 pixels that come with the package, so nothing is downloaded."""

from __future__ import annotations

import numpy as np

from moe_lab.datasets import Images


def load() -> Images:
    """All 1797 digits in float64, in scikit-learn's order; there is no official split.

    scikit-learn's grey values run from 0 to 16; dividing by 16 loses nothing.

    References: Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998 (its test set).
    """
    from sklearn.datasets import load_digits  # here, because importing scikit-learn takes a second

    images, labels = load_digits(return_X_y=True)
    return Images(images=images / 16, labels=labels.astype(np.int64), side=8)
