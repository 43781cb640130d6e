"""scikit-learn's diabetes data: 442 patients, 10 measurements, and the disease a year later. Nothing is downloaded."""

from __future__ import annotations

import numpy as np

from moe_lab.datasets import Regression


def load() -> Regression:
    """Returns all 442 patients, in scikit-learn's order, with the measurements in their own units.

    References: Efron, Hastie, Johnstone and Tibshirani, Least Angle Regression, Annals of Statistics, 2004.
    """
    from sklearn.datasets import load_diabetes  # here, because importing scikit-learn takes a second

    data = load_diabetes(scaled=False)
    x, y = np.asarray(data.data, dtype=np.float64), np.asarray(data.target, dtype=np.float64)
    return Regression(x, y, tuple(data.feature_names), "disease progression after a year")
