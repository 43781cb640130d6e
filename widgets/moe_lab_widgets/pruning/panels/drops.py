"""Where lines that fall are named: beside the place where they first fall, off other names and lines if possible."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab_widgets.drawing.ink import line

DROP = 0.1
"""Of accuracy, below the line's first value: from there on it has dropped."""
NEAR = 0.16
"""Share of experts pruned, after the drop, up to which a name still stands where the line drops."""
TALL, GAP, STEP = 15.0, 7.0, 4.0
"""Pixels: the height of a name, from a line to its name, and between the heights that are tried."""
Points = NDArray[np.float64]


class Spot(NamedTuple):
    """Where a name stands, in pixels from the top left: its edges, and the middle of its height."""

    left: float
    right: float
    y: float

    def meets(self, other: Spot) -> bool:
        """Whether two names touch."""
        apart = self.right + 3 < other.left or other.right + 3 < self.left
        return not apart and abs(self.y - other.y) < TALL


def width(words: str, size: float = theme.SMALL_SIZE, bold: bool = False) -> float:
    """Returns the pixels that words take at 100 dpi."""
    return float(line(words, size, theme.BASE_DPI, bold).shape[1])


def crossing(x: Points, y: Points, level: float) -> float:
    """Returns where a line (n,), (n,) first falls to a level; NaN where it does not."""
    below = np.flatnonzero(y <= level)
    if not len(below) or not below[0]:
        return np.nan
    last = below[0]
    part = (y[last - 1] - level) / (y[last - 1] - y[last])
    return float(x[last - 1] + part * (x[last] - x[last - 1]))


def beside_drops(
    curves: Mapping[str, tuple[Points, Points]],
    words: Mapping[str, str],
    box: tuple[float, float, float, float],
    limits: tuple[float, float, float, float],
    most: float,
) -> dict[str, Spot]:
    """Returns where names stand of those lines that fall; a line that finds no free place is left out.

    Args:
      curves: x and y (n,) of all lines, as data.
      words: of the lines that are to be named.
      box: left, top, width and height of the axes in pixels.
      limits: left, right, lower and upper limit of the axes.
      most: pixels from the left that no name may exceed.
    """
    left, top, wide, high = box
    low_x, high_x, low_y, high_y = limits
    across, down = wide / (high_x - low_x), high / (high_y - low_y)
    lines = {name: (left + (x - low_x) * across, top + (high_y - y) * down) for name, (x, y) in curves.items()}
    drops = {}
    for name in words:
        at = crossing(*curves[name], curves[name][1][0] - DROP)
        if np.isfinite(at):
            drops[name] = at
    dense = np.concatenate([_dense(*points) for points in lines.values()]) if lines else np.zeros((0, 2))
    placed: dict[str, Spot] = {}
    for name in sorted(drops, key=lambda name: (drops[name], name)):
        x, y = curves[name]
        begin = top + (high_y - (y[0] - DROP)) * down
        best: tuple[float, Spot | None] = (np.inf, None)
        for height in np.arange(begin - 0.8 * DROP * down, top + high - TALL, STEP):
            at = crossing(x, y, high_y - (height - top) / down)
            if not at <= drops[name] + NEAR:  # NaN is not less either
                break
            place, long = left + (at - low_x) * across, width(words[name])
            for spot in (
                Spot(place + GAP, place + GAP + long, float(height)),
                Spot(place - GAP - long, place - GAP, float(height)),
            ):
                if spot.left < left + 2 or spot.right > most or any(spot.meets(other) for other in placed.values()):
                    continue
                hidden = (np.abs(dense[:, 1] - height) < TALL / 2) & (dense[:, 0] > spot.left - 3)
                cost = float((hidden & (dense[:, 0] < spot.right + 3)).sum()) + abs(height - begin) / 20
                best = min(best, (cost, spot), key=lambda one: one[0])
        if best[1] is not None:
            placed[name] = best[1]
    return placed


def _dense(x: Points, y: Points) -> Points:
    """Returns points (n, 2) along a line, some pixels apart."""
    parts = np.linspace(0, len(x) - 1, 12 * (len(x) - 1) + 1)
    numbers = np.arange(len(x))
    return np.stack([np.interp(parts, numbers, x), np.interp(parts, numbers, y)], axis=1)
