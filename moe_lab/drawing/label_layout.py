"""Moves labels and marks apart that would overlap, as little as possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def spread(wanted: Sequence[float], gap: float, low: float = -np.inf, high: float = np.inf) -> NDArray[np.float64]:
    """Finds the nearest places (least squares) that keep the order and at least `gap` between neighbours.

    Args:
      wanted: the ideal place of each label.
      gap: the least distance, in the same unit.
      low, high: the limits; labels are spaced evenly if they do not fit with `gap`.

    Returns:
      The places, in the order of `wanted`.
    """
    places = np.asarray(wanted, dtype=float)
    count = len(places)
    if count == 0:
        return places
    if count > 1:
        gap = min(gap, (high - low) / (count - 1))
    order = np.argsort(places, kind="stable")
    steps = gap * np.arange(count)
    pooled = _isotonic(places[order] - steps)  # the nearest shifted places that do not decrease
    settled = np.clip(pooled, low, high - steps[-1]) + steps
    result = np.empty(count)
    result[order] = settled
    return result


def _isotonic(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Finds the nearest sequence that does not decrease, by pooling adjacent violators.

    As `scipy.optimize.isotonic_regression` (tested), whose import would be half of the wait for a Lab's first picture.
    """
    means: list[float] = []
    counts: list[int] = []
    for mean in values.tolist():
        count = 1
        while means and means[-1] > mean:
            more = counts.pop()
            mean = (means.pop() * more + mean * count) / (more + count)
            count += more
        means.append(mean)
        counts.append(count)
    return np.repeat(means, counts)


def push_apart(points: Any, gap: float, rounds: int = 60) -> NDArray[np.float64]:
    """Moves marks in the plane until no two are nearer than `gap` (up to `rounds` passes). (k, 2) in, (k, 2) out."""
    moved = np.array(points, dtype=float)
    for _ in range(rounds):
        crowded = False
        for i in range(len(moved)):
            for j in range(i):
                between = moved[i] - moved[j]
                distance = float(np.hypot(*between))
                if distance >= gap - 1e-9 or not np.isfinite(distance):
                    continue
                crowded = True
                angle = 2.4 * (i + j)  # marks on one spot part in different directions
                way = between / distance if distance > 1e-9 else np.array([np.cos(angle), np.sin(angle)])
                moved[i] += way * (gap - distance) / 2
                moved[j] -= way * (gap - distance) / 2
        if not crowded:
            break
    return moved
