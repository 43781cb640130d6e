"""Numbers as words, and the medians that they state."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def unended(progress: str) -> str:
    """Returns how far a run is, for what is kept of it before its end: "step 5 of 9, the run has not ended"."""
    return ", ".join(filter(None, (progress, "the run has not ended")))


def told(progress: str, caption: str) -> str:
    """Returns how far a run is and what is seen, for pictures that stand alone: "Step 5 of 9. The routers turn."."""
    return " ".join(filter(None, (f"{progress[:1].upper()}{progress[1:]}." if progress else "", caption)))


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


def trial_of(trial: int, trials: int) -> str:
    """Returns a trial, counted from 0, in words: "trial 1 of 8"."""
    return f"trial {trial + 1} of {trials}" if trials > 1 else "the one trial"


def percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %" if np.isfinite(share) else "–"


def two_digits(value: float) -> str:
    """Returns a number with two significant digits."""
    return f"{value:.2g}" if np.isfinite(value) else "–"


def short(share: float) -> str:
    """Returns a share in whole percents, but never a rounded 100 % or 0 %."""
    if not np.isfinite(share):
        return "–"
    percents = 100 * share
    return f"{percents:.0f} %" if percents in (0, 100) or 0.5 <= percents < 99.5 else f"{percents:.1f} %"


def worst(values: NDArray[np.float64]) -> str:
    """Returns the lowest of some shares in words, over the trials that have not diverged."""
    return short(float(np.nanmin(values))) if np.isfinite(values).any() else "–"
