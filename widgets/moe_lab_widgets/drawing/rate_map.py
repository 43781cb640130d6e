"""A panel with a map: how often runs succeed over two parameters, and the line from which on most of them do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab_widgets.drawing.lines import put
from moe_lab_widgets.drawing.picture import Picture
from moe_lab_widgets.drawing.share_map import ShareMap

ENOUGH = 0.9
"""The share of runs that must succeed, which the line shows."""
UNSURE = (0, (2.2, 1.1))
"""The line's dashes, in its widths, until all runs of the map have ended."""
INSET = 6.5
"""Pixels by which the line runs inside its rows, so that it never lies on their boundaries."""


def enough_from(share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the column from which on at least 90 % succeed, for every row.

    Args:
      share: (rows, columns), NaN where nothing has run.

    Returns:
      (rows,) its number; the number of columns where the last is not enough, NaN where too little has run.
    """
    found = np.full(len(share), np.nan)
    for row, shares in enumerate(share):
        run = np.flatnonzero(np.isfinite(shares))
        if not len(run):
            continue
        failing = run[shares[run] < ENOUGH - 1e-9]
        first = 0 if not len(failing) else int(failing[-1]) + 1
        if first == len(shares) or np.isfinite(shares[first]):
            found[row] = first
    return found


class RateMap:
    """The map with its line.

    Args:
      place: left, top, width and height, in pixels from the top left at 100 dpi.
      across, up: what its axes are.
      border: the name of the line.
    """

    def __init__(
        self, picture: Picture, place: tuple[float, float, float, float], across: str, up: str, border: str
    ) -> None:
        self.picture, self.place = picture, place
        self.axes = theme.axes(picture.figure, *place)
        for spine in self.axes.spines.values():
            spine.set_visible(False)
        self.axes.tick_params(length=0)
        self.axes.set_xlabel(across, size=theme.TEXT_SIZE, color=theme.INK)
        self.axes.set_ylabel(up, size=theme.TEXT_SIZE, color=theme.INK)
        self.points = picture.live(ShareMap(*place))
        steps = self.axes.plot([], [], color="white", linewidth=5, zorder=4, solid_joinstyle="miter", clip_on=False)
        steps += self.axes.plot(
            [], [], color=theme.FAILURE, linewidth=2.6, zorder=4.1, solid_joinstyle="miter", clip_on=False
        )
        self.steps = [picture.live(line) for line in steps]
        self._sure = True
        for line in self.steps:
            picture.name(line, {"name": border})

    def add_key(self, away: float) -> None:
        """Draws what the colours mean, so many pixels to the right of the map."""
        left, top, width, height = self.place
        bar = theme.axes(self.picture.figure, left + width + away, top, 12, height)
        self.picture.figure.colorbar(ScalarMappable(Normalize(0, 1), theme.RAMP), cax=bar)
        bar.set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
        bar.tick_params(colors=theme.MUTED, labelsize=theme.SMALL_SIZE, length=0)
        for spine in bar.spines.values():
            spine.set_visible(False)
        bar.axhline(ENOUGH, color=theme.FAILURE, linewidth=2.6)
        bar.text(1.45, ENOUGH, "90 %", color=theme.FAILURE, size=theme.SMALL_SIZE, weight="bold", va="center")

    def set(self, rows: Sequence[str], columns: Sequence[str], parts: Sequence[str]) -> None:
        """Names rows, columns and, row by row, the grid points."""
        self.axes.set_ylim(-0.5, len(rows) - 0.5)
        self.axes.set_yticks(range(len(rows)), rows)
        self.axes.set_xlim(-0.5, len(columns) - 0.5)
        self.axes.set_xticks(range(len(columns)), columns)
        self.picture.name(self.points, {"parts": list(parts)})

    def keep(self, same: bool) -> None:
        """Keeps the map under the next one; see `ShareMap.keep`."""
        self.points.keep(same)

    def update(
        self, share: NDArray[np.float64], filled: NDArray[np.float64], running: Mapping[tuple[int, int], str]
    ) -> None:
        """Draws the shares and the line, dashed while it may still move; see `ShareMap.set_points`."""
        self.points.set_points(share, filled, dict(running))
        sure = bool((filled >= 1).all())
        if sure != self._sure:
            self._sure = sure
            self.steps[-1].set_linestyle("-" if sure else UNSURE)
        self.update_steps(share)

    def update_steps(self, share: NDArray[np.float64]) -> None:
        """Draws the line, a little inside the grid points that it encloses."""
        rows, columns = share.shape
        across, down = 0.5 * INSET * columns / self.place[2], INSET * rows / self.place[3]
        xs, ys = [], []
        for row, column in enumerate(enough_from(share)):
            if np.isnan(column):
                xs.append(np.nan)
                ys.append(float(row))
                continue
            x = column - 0.5 + across
            before = xs[-1] if xs else np.nan
            low, high = row - 0.5, row + 0.5
            if np.isfinite(before) and before != x:
                # the horizontal part lies inside the row that succeeds there
                shift = -down if x > before else down
                ys[-1] += shift
                low += shift
            xs += [x, x]
            ys += [low, high]
        for line in self.steps:
            put(line, xs, ys)
