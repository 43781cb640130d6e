"""Numbers as words, and the medians that they state."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def median(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the medians (records,) of values (records, trial), over the trials that have not diverged."""
    if np.isfinite(values).all() and values.size:
        return np.asarray(np.median(values, axis=1))  # a tenth of the time
    result = np.full(len(values), np.nan)
    some = np.isfinite(values).any(1)
    result[some] = np.nanmedian(values[some], axis=1)
    return result


def middle(values: NDArray[np.float64]) -> float:
    """Returns the median of values (trial,), over the trials that have not diverged."""
    return float(median(values[None])[0])


def percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %" if np.isfinite(share) else "–"


def two_digits(value: float) -> str:
    """Returns a number with two significant digits."""
    return f"{value:.2g}" if np.isfinite(value) else "–"
