"""The grid points of a success map as pixels: colours, numbers, hatching and frames, composed in NumPy.

Sixty-four matplotlib texts and rectangles cost 80 ms per frame; the same as pixels costs 2. A grid point with only some
of its trainings done is drawn smaller than its place, with hatching around it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.text import Text
from numpy.typing import NDArray

from moe_lab import theme

Pixels = NDArray[np.uint8]
PALE = 0.08
SMALLEST = 0.6
"""The side of a grid point that has only begun, as a share of its place."""


@lru_cache(maxsize=512)
def word(text: str, dpi: float, bold: bool = False) -> NDArray[np.float32]:
    """Returns (height, width) the ink of a short text, 0 to 1."""
    high, wide = round(dpi / 4), round(dpi * (0.1 + 0.12 * len(text)))
    renderer = RendererAgg(wide, high, dpi)
    weight = "bold" if bold else "normal"
    properties = FontProperties(family="DejaVu Sans", size=theme.SMALL_SIZE, weight=weight)
    label = Text(wide / 2, high / 2, text, color="black", fontproperties=properties, ha="center", va="center_baseline")
    label.set_figure(Figure(dpi=dpi))
    label.draw(renderer)
    ink = np.asarray(renderer.buffer_rgba())[..., 3] / np.float32(255)
    rows, columns = np.flatnonzero(ink.any(1)), np.flatnonzero(ink.any(0))
    return np.asarray(ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1], dtype=np.float32)


class SuccessMap(Artist):
    """A map of grid points at a fixed place, row 0 at the bottom.

    Args:
      left, top, width, height: pixels from the top left of the figure at 100 dpi.
    """

    def __init__(self, left: float, top: float, width: float, height: float) -> None:
        super().__init__()
        self.place = (left, top, width, height)
        self.set_zorder(2)
        self.share: NDArray[np.float64] = np.full((1, 1), np.nan)
        self.filled: NDArray[np.float64] = np.zeros((1, 1))
        self.running: dict[tuple[int, int], str] = {}

    def set_points(
        self, share: NDArray[np.float64], filled: NDArray[np.float64], running: dict[tuple[int, int], str]
    ) -> None:
        """Sets what is label.

        Args:
          share: (rows, columns) 0 to 1, NaN where not run.
          filled: (rows, columns) the share of the trainings that have ended.
          running: (row, column) -> its running count.
        """
        self.share, self.filled, self.running = share, filled, running
        self.stale = True

    def corners(self, size: float, count: int) -> NDArray[np.int64]:
        """Returns the edges of `count` grid points on `size` pixels."""
        return np.asarray(np.rint(np.linspace(0, size, count + 1)), dtype=np.int64)

    def pixels(self, scale: float) -> Pixels:
        """Returns (height, width, 4) the map, top row first."""
        rows, columns = self.share.shape
        height, width = round(self.place[3] * scale), round(self.place[2] * scale)
        pixels = _hatching(height, width, scale).copy()
        ys, xs = self.corners(height, rows), self.corners(width, columns)
        colours, gap = theme.ramp(self.share), max(1, round(scale))
        for shift in range(-gap, gap):
            pixels[height - ys[1:-1] + shift] = theme.rgba(theme.PAPER)
            pixels[:, xs[1:-1] + shift] = theme.rgba(theme.PAPER)
        for row in range(rows):
            for column in range(columns):
                box = (height - ys[row + 1] + gap, height - ys[row] - gap, xs[column] + gap, xs[column + 1] - gap)
                value, count = self.share[row, column], self.running.get((row, column))
                if count is not None:
                    self._frame(pixels, box, count, scale)
                elif np.isfinite(value):
                    top, bottom, left, right = _inner(box, self.filled[row, column])
                    if value < PALE:  # hardly differs from paper: an edge shows that it has run
                        pixels[top:bottom, left:right] = theme.rgba(theme.RULE)
                        top, bottom, left, right = top + gap, bottom - gap, left + gap, right - gap
                    pixels[top:bottom, left:right] = colours[row, column]
                    _write(pixels, box, word(f"{100 * value:.0f}", 100 * scale), theme.ink_on(value))
        return pixels

    @staticmethod
    def _frame(pixels: Pixels, box: tuple[int, int, int, int], count: str, scale: float) -> None:
        top, bottom, left, right = box
        thick = round(3 * scale)
        pixels[top:bottom, left:right] = theme.rgba(theme.INK)
        pixels[top + thick : bottom - thick, left + thick : right - thick] = theme.rgba("white")
        _write(pixels, box, word(count, 100 * scale, bold=True), theme.INK)

    def draw(self, renderer: Any) -> None:
        if not self.get_visible():
            return
        scale = renderer.dpi / theme.BASE_DPI
        pixels = self.pixels(scale)
        bottom = renderer.height - round(self.place[1] * scale) - len(pixels)
        context = renderer.new_gc()
        renderer.draw_image(context, round(self.place[0] * scale), bottom, np.ascontiguousarray(pixels[::-1]))
        context.restore()


def _inner(box: tuple[int, int, int, int], filled: float) -> tuple[int, int, int, int]:
    """Returns the part of its place that a grid point covers, for a share of its trainings."""
    top, bottom, left, right = box
    side = 1.0 if filled >= 1 else SMALLEST + (0.9 - SMALLEST) * filled
    across, down = round((1 - side) / 2 * (right - left)), round((1 - side) / 2 * (bottom - top))
    return top + down, bottom - down, left + across, right - across


def _write(pixels: Pixels, box: tuple[int, int, int, int], ink: NDArray[np.float32], colour: str) -> None:
    """Writes a word into the middle of a box."""
    top, bottom, left, right = box
    high, wide = ink.shape
    y, x = (top + bottom - high) // 2, (left + right - wide) // 2
    under = pixels[y : y + high, x : x + wide, :3]
    amount = ink[: under.shape[0], : under.shape[1], None]
    under[:] = (under * (1 - amount) + theme.rgba(colour)[:3] * amount).astype(np.uint8)


@lru_cache(maxsize=4)
def _hatching(height: int, width: int, scale: float) -> Pixels:
    """Returns the background where nothing has run: pale diagonal lines."""
    row, column = np.indices((height, width))
    period = max(round(7 * scale), 4)
    pixels = np.broadcast_to(theme.rgba("#F1F0EC"), (height, width, 4)).copy()
    pixels[(row + column) % period < max(round(scale), 1)] = theme.rgba("#DCDBD6")
    return pixels
