"""What the phase-transition Lab reads off a record, which is `moe_lab.patch_routing.phase_live.PhaseRecord`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moe_lab.patch_routing.phase_live import PhaseRecord
from moe_lab_widgets.drawing.rate_map import enough_from


def samples_needed(record: PhaseRecord) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Returns the fewest samples from which on at least 90 % of the trainings succeed, for every l.

    Returns:
      (l,) N, infinite where the largest N is not enough, NaN where too little has run; and (l,) whether all
      of that row's grid points are complete.
    """
    column = enough_from(record.share)
    counts = np.array([*record.samples, np.inf])
    needed = np.where(np.isnan(column), np.nan, counts[np.nan_to_num(column).astype(int)])
    return needed, np.asarray(record.complete.all(axis=1))


def coverage_at(record: PhaseRecord) -> tuple[int | None, NDArray[np.float64]]:
    """Returns the largest N that has run at every l, and (l, 3) the 10 %, 50 % and 90 % points of coverage there."""
    levels = np.full((len(record.patches_per_expert), 3), np.nan)
    known = np.flatnonzero(np.isfinite(record.coverage).any(-1).all(0))
    if not len(known):
        return None, levels
    levels[:] = np.nanquantile(record.coverage[:, known[-1]], (0.1, 0.5, 0.9), axis=-1).T
    return record.samples[known[-1]], levels
