"""Tables of shaded cells with a number in each, as pixels: a live one costs a tenth of images and Texts.

Each word is drawn by the font library once and cached; a frame copies it into the cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from matplotlib.font_manager import FontProperties, findfont, get_font
from numpy.typing import NDArray

from moe_lab import theme

FAINTEST = 0.04
"""The shade of an empty cell, so that it can be seen."""


@lru_cache(maxsize=512)
def stamp(words: str, size: float, dpi: float, bold: bool = False) -> NDArray[np.float64]:
    """Returns words as (height, width) coverage from 0 to 1, cropped to the ink; `size` in points."""
    font = get_font(findfont(FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")))
    font.set_size(size, dpi)
    font.set_text(words, 0.0)
    font.draw_glyphs_to_bitmap(antialiased=True)
    ink = np.asarray(font.get_image(), dtype=np.float64) / 255
    rows, columns = np.flatnonzero(ink.any(1)), np.flatnonzero(ink.any(0))
    if not len(rows):
        return np.zeros((0, 0), dtype=np.float64)
    return ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def write(pixels: NDArray[np.uint8], words: NDArray[np.float64], colour: str, middle: tuple[float, float]) -> None:
    """Draws stamped words with their middle at (row, column), cropped where they leave the pixels."""
    high, wide = words.shape
    top, left = round(middle[0] - high / 2), round(middle[1] - wide / 2)
    rows = slice(max(top, 0), min(top + high, pixels.shape[0]))
    columns = slice(max(left, 0), min(left + wide, pixels.shape[1]))
    if rows.start >= rows.stop or columns.start >= columns.stop:
        return
    ink = words[rows.start - top : rows.stop - top, columns.start - left : columns.stop - left, None]
    under = pixels[rows, columns]
    under[..., :3] = np.rint(under[..., :3] * (1 - ink) + theme.rgba(colour)[:3] * ink)
    under[..., 3] = np.maximum(under[..., 3], np.rint(255 * ink[..., 0]))


@dataclass(frozen=True)
class Grid:
    """Places of the cells of a table, in device pixels.

    Attributes:
      rows, columns: how many.
      high, wide: one cell with its gap, at 100 dpi.
      scale: device pixels per pixel at 100 dpi.
    """

    rows: int
    columns: int
    high: float
    wide: float
    scale: float = 1.0

    def edges(self, row: int, column: int) -> tuple[int, int, int, int]:
        """(top, bottom, left, right) of a cell without its gap."""
        gap = max(round(self.scale), 1)
        top, left = round(row * self.high * self.scale), round(column * self.wide * self.scale)
        bottom, right = round((row + 1) * self.high * self.scale), round((column + 1) * self.wide * self.scale)
        return top, bottom - gap, left, right - gap

    def middle(self, row: int, column: int) -> tuple[float, float]:
        """The (row, column) of a cell's middle."""
        top, bottom, left, right = self.edges(row, column)
        return (top + bottom) / 2, (left + right) / 2

    def blank(self) -> NDArray[np.uint8]:
        """Returns paper of the size of the table."""
        high, wide = round(self.rows * self.high * self.scale), round(self.columns * self.wide * self.scale)
        return np.full((high, wide, 4), theme.rgba(theme.PAPER), dtype=np.uint8)

    def table(self, shades: NDArray[np.float64], words: list[list[str]], size: float) -> NDArray[np.uint8]:
        """(height, width, 4) RGBA of cells shaded from 0 to 1, each with its words.

        Args:
          shades: (rows, columns); outside 0 to 1 they are cut, NaN is as 0.
          words: for each row the words of its cells; "" for none.
          size: points.
        """
        pixels = self.blank()
        levels = np.rint(255 * np.clip(np.nan_to_num(shades), FAINTEST, 1)).astype(int)
        for row, column in np.ndindex(self.rows, self.columns):
            top, bottom, left, right = self.edges(row, column)
            shape = (bottom - top, right - left)
            cell = (int(levels[row, column]), words[row][column], shape, size, theme.BASE_DPI * self.scale)
            pixels[top:bottom, left:right] = _cell(*cell)
        return pixels


@lru_cache(maxsize=4096)
def _cell(level: int, words: str, shape: tuple[int, int], size: float, dpi: float) -> NDArray[np.uint8]:
    """One cell, shaded from 0 to 255, with words in its middle."""
    shade = level / 255
    pixels = np.full((*shape, 4), theme.ramp(shade), dtype=np.uint8)
    if words:
        write(pixels, stamp(words, size, dpi), theme.ink_on(shade), (shape[0] / 2, shape[1] / 2))
    return pixels


def key(grid: Grid, most: float, size: float) -> NDArray[np.uint8]:
    """Returns the key of a table: a row of cells in even steps from 0 to `most`, each with its value."""
    shades = np.linspace(0, 1, grid.columns)
    return grid.table(shades[None], [[f"{number:.3g}" for number in most * shades]], size)


def number_table(rows: list[list[str]], wide: float, scale: float) -> NDArray[np.uint8]:
    """Returns a small table of words without shades, 17 pixels per row."""
    grid = Grid(len(rows), len(rows[0]), 17, wide, scale)
    pixels = grid.blank()
    for (row, column), word in np.ndenumerate(np.array(rows)):
        ink = stamp(str(word), theme.TEXT_SIZE, theme.BASE_DPI * scale, bold=True)
        write(pixels, ink, theme.INK, grid.middle(row, column))
    return pixels
