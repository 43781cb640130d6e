"""What chen2022 publishes of its synthetic data, as labelled data to lay beside what is measured.

Accuracies are shares, entropies in nats; a standard deviation that the paper does not give is NaN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from moe_lab.core.config import require

ERRATA = {
    "table 3": "the single cubic expert of setting 3 is table 7's, on other data: alpha and gamma from (1, 2)",
    "table 7": "its linear expert is table 3's in setting 3, on other data: alpha and gamma from (0.5, 2)",
    "table 8": "the caption gives sigma_p = 1 for setting 2, where 2 is meant (section 6.1)",
    "single models": "section 6.1 trains them by gradient descent, appendix A.2 by Adam",
    "initial scale": "sigma_0 is not stated",
}
"""Where the paper contradicts itself, or is silent."""

_SETTINGS = (1, 2, 3, 4)
_ACCURACY = {  # %, of settings 1 to 4
    "moe-cubic": (99.46, 98.09, 99.99, 98.92),
    "moe-linear": (92.99, 88.48, 95.93, 93.30),
    "single-cubic": (79.48, 72.29, 72.69, 68.60),
    "single-linear": (68.71, 60.59, 74.81, 74.63),
    "single-cubic-512": (78.18, 52.09, 67.78, 61.65),
    "single-linear-512": (67.63, 63.04, 74.54, 72.98),
}
_ACCURACY_STD = {"moe-cubic": (0.55, 1.27, 0.02, 1.18), "moe-linear": (2.11, 1.96, 1.34, 1.48)}
_ENTROPY = {"moe-cubic": (0.098, 0.171, 0.008, 0.089), "moe-linear": (1.300, 1.294, 1.160, 1.160)}
_ENTROPY_STD = {"moe-cubic": (0.087, 0.103, 0.011, 0.120), "moe-linear": (0.044, 0.036, 0.100, 0.155)}
_BALANCED, _BALANCED_STD = (93.81, 89.20, 95.12, 92.50), (1.02, 2.20, 0.58, 1.55)
_ACTIVATIONS = ("linear", "cubic", "relu", "celu", "gelu", "tanh")
_SINGLE = {  # %, by activation
    1: (68.71, 79.48, 72.28, 81.75, 79.04, 81.72),
    2: (60.59, 72.29, 80.12, 78.99, 82.01, 81.03),
    3: (74.81, 72.69, 73.45, 76.91, 74.01, 74.76),
}
_DISPATCH = {  # the four rows of clusters
    "table 4": (
        1.0,
        (1921, 2032, 1963, 1969, 2075, 1980, 2027, 2033),
        ((0, 0, 0, 0, 0, 3971, 0, 0), (0, 0, 4009, 0, 0, 0, 0, 0), (0,) * 7 + (4041,), (0, 3979, 0, 0, 0, 0, 0, 0)),
    ),
    "table 5": (
        0.9995,
        (1978, 2028, 2018, 1968, 2000, 2046, 2000, 1962),
        (
            (0, 0, 3971, 0, 0, 0, 0, 0),
            (0, 0, 0, 0, 0, 4, 4005, 0),
            (8, 4, 4, 6, 0, 1304, 4, 2711),
            (3979, 0, 0, 0, 0, 0, 0, 0),
        ),
    ),
    "table 6": (
        0.9061,
        (1969, 2037, 1983, 2007, 1949, 1905, 2053, 2097),
        (
            (0, 630, 1629, 1298, 27, 87, 4, 296),
            (136, 1107, 1884, 651, 0, 0, 0, 231),
            (0, 594, 1976, 1471, 0, 0, 0, 0),
            (0, 377, 1480, 1891, 0, 0, 0, 231),
        ),
    ),
}
PLACES = ("table 1", "table 3", "table 4", "table 5", "table 6", "table 7", "table 8", "table 9")


def published(place: str) -> xr.Dataset:
    """Returns one of the paper's tables as published.

    Args:
      place: "table 1", "table 3" ... "table 9".

    Returns:
      Tables 1, 3, 7, 8 and 9: test_accuracy and its `_std` over (setting, model); tables 1 and 3 have dispatch_entropy
      and its `_std` too. Tables 4 to 6: initial_dispatch(expert), final_dispatch(cluster, expert) and test_accuracy.

    Raises:
      ValueError: there is no such table of synthetic data.
    """
    require(place in PLACES, f"place must be one of {', '.join(PLACES)}", place=place)
    attrs = {"paper": f"chen2022, {place}"} | ({"errata": ERRATA[place]} if place in ERRATA else {})
    if place in _DISPATCH:
        accuracy, initial, final = _DISPATCH[place]
        counts = {"initial_dispatch": ("expert", np.array(initial))}
        coords = {"cluster": np.arange(1, 5), "expert": np.arange(1, 9)}
        final_counts = (("cluster", "expert"), np.array(final))
        return xr.Dataset({**counts, "final_dispatch": final_counts, "test_accuracy": accuracy}, coords, attrs)
    if place in ("table 7", "table 8"):
        settings = [3] if place == "table 7" else [1, 2]
        return _table("model", [f"single-{name}" for name in _ACTIVATIONS], settings, _SINGLE, {}, attrs)
    if place == "table 9":
        rows, spreads = {"moe-linear": _BALANCED, "moe-cubic": _ACCURACY["moe-cubic"]}, dict(_ACCURACY_STD)
        spreads["moe-linear"] = _BALANCED_STD
        return _table("setting", _SETTINGS, list(rows), rows, spreads, attrs)
    names = [name for name in _ACCURACY if place == "table 3" or not name.endswith("512")]
    data = _table("setting", _SETTINGS, names, _ACCURACY, _ACCURACY_STD, attrs)
    for name, rows in (("dispatch_entropy", _ENTROPY), ("dispatch_entropy_std", _ENTROPY_STD)):
        data[name] = ("setting", "model"), _stacked(names, rows, len(_SETTINGS)).T, {"units": "nats"}
    return data if place == "table 3" else data.sel(setting=[1, 2])


def _stacked(names: Sequence[Any], rows: Mapping[Any, Sequence[float]], length: int) -> np.ndarray:
    """The named rows; NaN where there is none."""
    return np.array([rows.get(name, (np.nan,) * length) for name in names])


def _table(
    across: str,
    labels: Sequence[Any],
    names: Sequence[Any],
    rows: Mapping[Any, Sequence[float]],
    spreads: Mapping[Any, Sequence[float]],
    attrs: Mapping[str, Any],
) -> xr.Dataset:
    """test_accuracy and its standard deviation over (setting, model), from rows of percents along `across`."""
    down = "model" if across == "setting" else "setting"
    about = {"long_name": "share of test samples with the right label"}
    values = {"test_accuracy": rows, "test_accuracy_std": spreads}
    data = xr.Dataset(
        {name: ((down, across), _stacked(names, part, len(labels)) / 100, about) for name, part in values.items()},
        coords={down: list(names), across: list(labels)},
        attrs=dict(attrs),
    )
    return data.transpose("setting", "model")
