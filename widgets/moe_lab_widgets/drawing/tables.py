"""Tables of shaded cells with a number in each, on a Sheet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab_widgets.drawing.sheet import Sheet, integer

FAINTEST = 0.04
"""The shade of an empty cell, so that it can be seen."""
LINE = 17
"""Pixels of a row of words without shades."""


class Table:
    """The places of a table's cells.

    Args:
      left, top: of the table, in pixels at 100 dpi.
      rows, columns: how many.
      high, wide: one cell with the hairline that separates it from the next.
    """

    def __init__(self, left: float, top: float, rows: int, columns: int, high: float, wide: float) -> None:
        self.left, self.top, self.rows, self.columns, self.high, self.wide = left, top, rows, columns, high, wide
        self.edges = [
            (left + column * wide, top + row * high, left + (column + 1) * wide, top + (row + 1) * high, 0, 0, -1, -1)
            for row in range(rows)
            for column in range(columns)
        ]
        self._spots: list[tuple[float, float, float, int]] = []

    def names(self, rows: Sequence[str], columns: Sequence[str]) -> list[str]:
        """Returns what a pointer over the cells shows, for `Picture.name`, from the words of rows and columns."""
        return [", ".join(filter(None, (row, column))) for row in rows for column in columns]

    def fill(
        self,
        sheet: Sheet,
        words: Iterable[str],
        shades: NDArray[np.float64] | None = None,
        *,
        size: float = theme.SMALL_SIZE,
        colour: str = theme.INK,
        bold: bool = False,
    ) -> None:
        """Puts the cells on a sheet, row by row.

        Args:
          words: of every cell; "" for none.
          shades: (rows, columns) from 0 to 1, outside of which they are cut, NaN is as 0; without them cells are
            transparent and words have one `colour`.
          size: points.
        """
        fills, inks = None, [integer(colour)] * len(self.edges)
        if shades is not None:
            levels = np.rint(255 * np.clip(np.nan_to_num(shades), FAINTEST, 1)).astype(int).ravel()
            fills, inks = (table[levels].tolist() for table in colours())
        first = sheet.add(self.edges, fills)
        if not self._spots or self._spots[0][3] != first:
            self._spots = [(0.0, 0.0, 0.5, first + cell) for cell in range(len(self.edges))]
        sheet.texts += [(word, size, bold, False) for word in words]
        sheet.spots += self._spots
        sheet.inks += inks


@lru_cache(maxsize=1)
def colours() -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Returns for the 256 shades the colours of a cell and of its words."""
    shades = np.arange(256) / 255
    inks = np.array([integer(theme.ink_on(shade)) for shade in shades], dtype="<u4")
    return np.ascontiguousarray(theme.ramp(shades)).view("<u4")[:, 0], inks


def key(left: float, top: float, steps: int, high: float, wide: float, most: float) -> Sheet:
    """Returns the key of a table: a row of cells in even steps from 0 to `most`, each with its value."""
    sheet, shades = Sheet(), np.linspace(0, 1, steps)
    with sheet.anew():
        Table(left, top, 1, steps, high, wide).fill(sheet, [f"{number:.3g}" for number in most * shades], shades)
    return sheet
