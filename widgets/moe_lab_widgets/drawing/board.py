"""A transparent sheet over a part of a picture on which boxes and words are drawn as pixels in each frame.

Forty bars and chips as artists would cost 10 ms per frame; here they cost 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab_widgets.drawing.picture import Strip
from moe_lab_widgets.drawing.tables import stamp


class Board(Strip):
    """See the module's text. All places are pixels from the top left of the figure at 100 dpi.

    Args:
      left, top, width, height: the part of the figure.
      scale: device pixels per pixel at 100 dpi.
    """

    def __init__(self, left: float, top: float, width: float, height: float, scale: float, zorder: float = 3) -> None:
        super().__init__(left, top, zorder=zorder)
        self.scale = scale
        self._blank = np.full((round(height * scale), round(width * scale), 4), theme.rgba(theme.PAPER), dtype=np.uint8)
        self._blank[..., 3] = 0
        self.words: list[str] = []
        """All words on it."""
        self.clear()

    def clear(self) -> None:
        """Removes everything."""
        self.set_pixels(self._blank.copy())
        self.words = []

    @property
    def sheet(self) -> NDArray[np.uint8]:
        """(height, width, 4) RGBA, to be drawn on."""
        assert self.pixels is not None
        return self.pixels

    def box(self, left: float, top: float, right: float, bottom: float, colour: str) -> None:
        """Draws a filled box; at least one device pixel, cropped to the board."""
        rows, columns = self._rows(top, bottom), self._columns(left, right)
        self.sheet[rows, columns] = theme.rgba(colour)

    def frame(self, left: float, top: float, right: float, bottom: float, colour: str, wide: float = 1.2) -> None:
        """Draws the outline of a box."""
        self.box(left, top, right, top + wide, colour)
        self.box(left, bottom - wide, right, bottom, colour)
        self.box(left, top, left + wide, bottom, colour)
        self.box(right - wide, top, right, bottom, colour)

    def stripes(self, left: float, top: float, right: float, bottom: float, colour: str, every: int = 4) -> None:
        """Draws a box of diagonal stripes: a second cue beside its colour."""
        part = self.sheet[self._rows(top, bottom), self._columns(left, right)]
        row, column = np.indices(part.shape[:2])
        period = max(round(every * self.scale), 2)
        part[(row + column) % period < period / 2] = theme.rgba(colour)

    def picture(self, pixels: NDArray[np.uint8], middle: float, top: float) -> None:
        """Draws device pixels with the middle of their upper edge at a place."""
        high, wide = pixels.shape[:2]
        row, column = round((top - self.top) * self.scale), round((middle - self.left) * self.scale - wide / 2)
        self.sheet[row : row + high, column : column + wide] = pixels

    def write(self, x: float, y: float, words: str, ha: str = "left", **style: Any) -> float:
        """Writes words with the middle of their height at y.

        Args:
          ha: what of them is at x: "left", "center" or "right".
          style: size in points, colour, bold.

        Returns:
          Their width.
        """
        size, colour, bold = (
            style.get("size", theme.SMALL_SIZE),
            style.get("colour", theme.INK),
            style.get("bold", False),
        )
        ink = _line(words, size, theme.BASE_DPI * self.scale, bold)
        wide = ink.shape[1] / self.scale
        middle = x + wide * {"left": 0.5, "center": 0.0, "right": -0.5}[ha]
        self._ink(ink, colour, (y - self.top) * self.scale, (middle - self.left) * self.scale)
        self.words.append(words)
        return wide

    def _ink(self, ink: NDArray[np.float64], colour: str, row: float, column: float) -> None:
        """Lays coverage over what is there, with its middle at a place; cropped to the board."""
        high, wide = ink.shape
        top, left = round(row - high / 2), round(column - wide / 2)
        rows = slice(max(top, 0), min(top + high, self.sheet.shape[0]))
        columns = slice(max(left, 0), min(left + wide, self.sheet.shape[1]))
        if rows.start >= rows.stop or columns.start >= columns.stop:
            return
        over = ink[rows.start - top : rows.stop - top, columns.start - left : columns.stop - left, None]
        under = self.sheet[rows, columns]
        below = under[..., 3:] / 255 * (1 - over)
        whole = np.maximum(over + below, 1e-9)
        under[..., :3] = np.rint((over * theme.rgba(colour)[:3] + below * under[..., :3]) / whole)
        under[..., 3:] = np.rint(255 * (over + below))

    def _rows(self, top: float, bottom: float) -> slice:
        return self._between(top - self.top, bottom - self.top, self.sheet.shape[0])

    def _columns(self, left: float, right: float) -> slice:
        return self._between(left - self.left, right - self.left, self.sheet.shape[1])

    def _between(self, low: float, high: float, most: int) -> slice:
        first = round(low * self.scale)
        last = max(round(high * self.scale), first + 1)
        return slice(min(max(first, 0), most), min(max(last, 0), most))


def _line(words: str, size: float, dpi: float, bold: bool) -> NDArray[np.float64]:
    """Returns words stamped on one base line: stamps are cropped to their ink and would not share it."""
    tall = stamp("Ag|", size, dpi, bold).shape[0]
    with_bar = stamp(f"|{words}", size, dpi, bold)
    bar = stamp("|", size, dpi, bold)
    ink = with_bar[:, bar.shape[1] :]
    columns = np.flatnonzero(ink.any(0))
    ink = ink[:, columns[0] :] if len(columns) else ink
    return ink if ink.shape[0] >= tall else np.pad(ink, ((0, tall - ink.shape[0]), (0, 0)))
