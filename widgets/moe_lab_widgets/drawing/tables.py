"""The shades of tables: colours of cells and of the words in them, and the key that explains them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from moe_lab.drawing import theme
from moe_lab_widgets.drawing.sheet import Sheet, integer

FAINTEST = 0.04
"""The shade of an empty cell, so that it can be seen."""


@lru_cache(maxsize=1)
def colours() -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Returns for the 256 shades the colours of a cell and of its words."""
    shades = np.arange(256) / 255
    inks = np.array([integer(theme.ink_on(shade)) for shade in shades], dtype="<u4")
    return np.ascontiguousarray(theme.ramp(shades)).view("<u4")[:, 0], inks


def fills(shades: NDArray[np.float64]) -> tuple[list[int], list[int]]:
    """Returns the colours of cells of some shades, from 0 to 1, NaN as 0, and of the words in them, row by row."""
    levels = np.rint(255 * np.fmin(np.fmax(shades, FAINTEST), 1)).astype(int).ravel()
    cells, inks = colours()
    return cells[levels].tolist(), inks[levels].tolist()


def key(left: float, top: float, steps: int, high: float, wide: float, most: float) -> Sheet:
    """Returns the key of a table: a row of cells in even steps from 0 to `most`, each with its value."""
    sheet, shades = Sheet(), np.linspace(0, 1, steps)
    boxes = [(left + step * wide, top, left + (step + 1) * wide, top + high, 0, 0, -1, -1) for step in range(steps)]
    colours, inks = fills(shades)
    sheet.add(boxes, colours)
    sheet.texts = [(f"{number:.3g}", theme.SMALL_SIZE, False, False) for number in most * shades]
    sheet.spots = [(0.0, 0.0, 0.5, step) for step in range(steps)]
    sheet.inks = inks
    return sheet
