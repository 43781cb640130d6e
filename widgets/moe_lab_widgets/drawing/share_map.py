"""The grid points of a map of shares: colours, numbers, hatching and frames.

A grid point with only some of its trainings done is drawn smaller than its place, with hatching around it. Where the
map before is known, its pale colours stand in place of the hatching.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from moe_lab.drawing import theme
from moe_lab_widgets.drawing.sheet import Pixels, Sheet

PALE = 0.08
SMALLEST = 0.6
"""The side of a grid point that has only begun, as a share of its place."""
GHOST = 0.7
"""How far the colours of the map before are faded."""
GAP = (1, 1, -1, -1)
"""Hairlines between a grid point and the edges of its place."""
Box = tuple[float, float, float, float]


class ShareMap(Sheet):
    """A map of grid points, row 0 at the bottom.

    Args:
      place: left, top, width and height in pixels from the top left of the figure at 100 dpi.
      share: (rows, columns) 0 to 1, NaN where not run.
      filled: (rows, columns) the share of the trainings that have ended.
      running: (row, column) -> its running count.
      before: (rows, columns) the shares of the map before.
    """

    def __init__(
        self,
        place: Box,
        share: NDArray[np.float64],
        filled: NDArray[np.float64],
        running: Mapping[tuple[int, int], str],
        before: NDArray[np.float64] | None = None,
    ) -> None:
        super().__init__(zorder=2)
        self.place, self.share, self.filled, self.running, self.before = place, share, filled, running, before
        left, top, width, height = place
        places = grid(place, *share.shape)
        self.image(left, top, left + width, top + height, hatched)
        self.add([(*place, 0, 0, 0, 0) for place in places])
        if before is not None:
            self._ghost(places, before)
        self._rules(*share.shape)
        colours = np.ascontiguousarray(theme.ramp(share)).view("<u4").ravel().tolist()
        values, parts = share.ravel().tolist(), filled.ravel().tolist()
        counts = {row * share.shape[1] + column: words for (row, column), words in running.items()}
        for cell, (corner, value) in enumerate(zip(places, values, strict=True)):
            if cell in counts:
                self._frame(cell, corner, counts[cell])
            elif np.isfinite(value):
                self._point(cell, corner, value, parts[cell], colours[cell])

    def _ghost(self, places: list[Box], before: NDArray[np.float64]) -> None:
        """Adds the map before, where this one is not complete."""
        seen = np.flatnonzero((self.filled < 1) & np.isfinite(before)).tolist()
        pale = np.ascontiguousarray(theme.faded(theme.ramp(before), GHOST)).view("<u4").ravel()
        self.add([(*places[cell], 0, 0, 0, 0) for cell in seen], pale[seen].tolist())

    def _rules(self, rows: int, columns: int) -> None:
        """Adds the paper between grid points."""
        left, top, width, height = self.place
        for row in range(1, rows):
            y = top + height - row * height / rows
            self.box(left, y, left + width, y, theme.PAPER, (0, -1, 0, 1))
        for column in range(1, columns):
            x = left + column * width / columns
            self.box(x, top, x, top + height, theme.PAPER, (-1, 0, 1, 0))

    def _point(self, cell: int, place: Box, value: float, filled: float, colour: int) -> None:
        place, moved = inner(place, filled), GAP
        if value < PALE:  # hardly differs from paper: an edge shows that it has run
            self.box(*place, theme.RULE, moved)
            moved = (2, 2, -2, -2)
        self.add([(*place, *moved)], [colour])
        self.label(cell, f"{100 * value:.0f}", size=theme.SMALL_SIZE, colour=theme.ink_on(value))

    def _frame(self, cell: int, place: Box, count: str) -> None:
        left, top, right, bottom = place
        self.box(*place, theme.INK, GAP)
        self.box(left + 3, top + 3, right - 3, bottom - 3, "white", GAP)
        self.label(cell, count, size=theme.SMALL_SIZE, colour=theme.INK, bold=True)


def grid(place: Box, rows: int, columns: int) -> list[Box]:
    """Returns the places of grid points (left, top, right, bottom), row 0 at the bottom."""
    left, top, width, height = place
    wide, high, bottom = width / columns, height / rows, top + height
    return [
        (left + column * wide, bottom - (row + 1) * high, left + (column + 1) * wide, bottom - row * high)
        for row in range(rows)
        for column in range(columns)
    ]


def inner(place: Box, filled: float) -> Box:
    """Returns the part of its place that a grid point covers, for a share of its trainings."""
    left, top, right, bottom = place
    free = 0.0 if filled >= 1 else (1 - SMALLEST - (0.9 - SMALLEST) * filled) / 2
    across, down = free * (right - left), free * (bottom - top)
    return left + across, top + down, right - across, bottom - down


@lru_cache(maxsize=4)
def hatched(wide: int, high: int, scale: float) -> Pixels:
    """Paints pale diagonal lines, where nothing has run."""
    row, column = np.indices((high, wide))
    period = max(round(7 * scale), 4)
    ground, lines = map(theme.rgba, theme.HATCHED)
    pixels = np.broadcast_to(ground, (high, wide, 4)).copy()
    pixels[(row + column) % period < max(round(scale), 1)] = lines
    return pixels
