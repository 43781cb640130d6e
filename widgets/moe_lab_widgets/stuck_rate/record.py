"""What the stuck-rate Lab reads off a record, which is `moe_lab.recovery.gridlock.stuck_live.StuckRecord`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moe_lab.recovery.gridlock.stuck_live import StuckRecord
from moe_lab_widgets.drawing.rate_map import ENOUGH


def most_experts(record: StuckRecord) -> list[int | None]:
    """Returns, for each method, the largest k up to which 90 % of the starts find all regressors at the largest n.

    None where not even the smallest k does, or has not been computed.
    """
    enough = np.nan_to_num(record.share("found")[:, :, -1]) >= ENOUGH - 1e-9
    counts = np.cumprod(enough, axis=1).sum(1)
    return [record.experts[count - 1] if count else None for count in counts]


def stuck_by_experts(record: StuckRecord) -> NDArray[np.float64]:
    """Returns (method, k) the share of the starts that are stuck, all computed n together; NaN where none is."""
    stuck, count = np.nan_to_num(record.share("stuck")).sum(2), record.done.sum(2)
    return np.where(count > 0, stuck / np.maximum(count, 1), np.nan)


def share_of(record: StuckRecord, verdict: str) -> list[float]:
    """Returns, for each method, the share of the starts computed so far that came to a verdict; NaN where none has."""
    found, count = np.nan_to_num(record.share(verdict)).sum((1, 2)), record.done.sum((1, 2))
    return [float(part / number) if number else float("nan") for part, number in zip(found, count, strict=True)]
