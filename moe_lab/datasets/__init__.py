"""Real data: images with labels, and tables of numbers with a target.

scikit-learn's 8x8 digits and diabetes records are embedded; MNIST, CIFAR, airfoil and concrete are read from files, or
downloaded when named.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8


@dataclass(frozen=True)
class Images:
    """Images, one per row, with their labels.

    Attributes:
      images: (count, pixels) grey values from 0 (paper) to 1 (ink), row by row.
      labels: (count,) the digit, 0 ... 9.
      side: pixels along one side, to show an image as a square.
      is_test: (count,) the official split into training and test images, or None where there is none.
    """

    images: Float[np.ndarray, "count pixels"]
    labels: Int[np.ndarray, " count"]
    side: int
    is_test: Bool[np.ndarray, " count"] | None = None


@dataclass(frozen=True)
class Regression:
    """Records with a number to predict, one per row, as in their source: neither centred nor scaled.

    Attributes:
      x: (count, features).
      y: (count,) the target.
      features: what each column of x is.
      target: what y is.
    """

    x: Float[np.ndarray, "count features"]
    y: Float[np.ndarray, " count"]
    features: tuple[str, ...]
    target: str


@dataclass(frozen=True)
class ColourImages:
    """Colour images with their labels.

    Attributes:
      images: (count, 3, side, side) red, green and blue from 0 to 255, row by row.
      labels: (count,) the class.
      is_test: (count,) the official split into training and test images.
      coarse: (count,) the class of classes, where the data set has them.
      official: whether the SHA-256 of the file read is that of the official archive. Files that were unpacked by
        others cannot be told: None.
    """

    images: UInt8[np.ndarray, "count 3 side side"]
    labels: Int[np.ndarray, " count"]
    is_test: Bool[np.ndarray, " count"]
    coarse: Int[np.ndarray, " count"] | None = None
    official: bool | None = None
