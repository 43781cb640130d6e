"""The first panel of the deep pruning Lab's picture: every expert's change, its number, its patches and its share."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab_widgets.deep_prune.record import TILES, Frame, View
from moe_lab_widgets.deep_prune.settings import EXPERTS
from moe_lab_widgets.drawing.scene import Panel, Scene
from moe_lab_widgets.drawing.sheet import Sheet

GREY = theme.REFERENCE
ACROSS = 3
"""Patches side by side."""
SIDE, GAP = 16, 1
"""Pixels of a patch, and between two."""


class Layers(Panel):
    """Two layers of experts, one above the other.

    Below the bar of an expert stand its number (filled while it stays), the patches that it receives with the largest
    gates, and the share of the tokens that it receives.

    Attributes:
      heights: (block, expert) pixels of the bars, as they are drawn.
      kept: (block, expert) which experts stay, or None.
    """

    LEFT, SLOT, BAR = 62, 61, 34
    TOPS = (68, 258)
    ZERO, HALF = 53, 30
    """From the top of a layer to the axis of its bars, and from there to their longest."""
    CHIP, TILES, SHARE = 100, 121, 165

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (0, 556))
        theme.header(scene.figure, 14, 1, "Experts, and the patches they receive")
        self.bars, self.patches = scene.live(Sheet()), scene.live(Sheet(zorder=2.9))
        self.heights = np.zeros((2, EXPERTS))
        self.kept: NDArray[np.bool_] | None = None
        self._most = 0.2
        self._blocks: tuple[int, ...] = (1, 3)
        scene.name(self.bars, self._names)
        scene.name(self.patches, self._names)

    def set(self, most: float, blocks: tuple[int, ...]) -> None:
        """Draws the axes of Delta, from -`most` to `most`."""
        self._most, self._blocks = most, blocks
        if not self.renew(most, blocks):
            return
        for top, block in zip(self.TOPS, blocks, strict=True):
            self.write(26, top, f"layer in block {block}", size=theme.TEXT_SIZE, weight="bold", color=theme.INK)
            zero = top + self.ZERO
            for value in (most, 0.0, -most):
                y = zero - value / most * self.HALF
                self.write(self.LEFT - 12, y, signed(value, 1) if value else "0", ha="right")
                self._line(self.LEFT - 9, self.LEFT - 5, y)
            self._line(self.LEFT - 5, self.LEFT + EXPERTS * self.SLOT, zero)
            self.write(16, zero, "Δ", size=theme.TEXT_SIZE, color=theme.INK)

    def update(self, record: Frame, view: View) -> None:
        self.kept = record.kept(view)
        changes = record.changes
        shown = np.clip(np.nan_to_num(changes), -self._most, self._most)
        self.heights = shown / self._most * self.HALF
        with self.bars.anew() as sheet:
            sheet.add(self._columns())
            words = "Δ: change of the router's norm in fine-tuning"
            sheet.write(26, 47, f"{words}; grey: pruned" if record.table is not None else words, colour=theme.MUTED)
            for block, top in enumerate(self.TOPS):
                for expert in range(EXPERTS):
                    self._expert(top, block, expert, float(changes[block, expert]), record.table is not None)
        with self.patches.anew() as sheet:
            if record.tiles is not None:
                self._tiles(record, record.tiles)

    def _expert(self, top: float, block: int, expert: int, change: float, ended: bool) -> None:
        """Draws the bar of an expert, and its number."""
        sheet, x, zero, height = self.bars, self._x(expert), top + self.ZERO, float(self.heights[block, expert])
        stays = self.kept is None or bool(self.kept[block, expert])
        colour, left, right, end = theme.INK if stays else GREY, x - self.BAR / 2, x + self.BAR / 2, zero - height
        if stays:
            sheet.box(left, min(end, zero), right, max(end, zero), colour)
        else:
            sheet.stripes(left, min(end, zero), right, max(end, zero), colour)
        sheet.box(left, end - 1.5, right, end + 1.5, colour)
        if ended and np.isfinite(change):
            sheet.write(x, end - 9 if height >= 0 else end + 9, signed(change), "center", colour=colour, bold=stays)
        box = (x - 11, top + self.CHIP, x + 11, top + self.CHIP + 17)
        if self.kept is not None and stays:
            sheet.box(*box, theme.INK)
            sheet.write(x, box[1] + 8.5, str(expert + 1), "center", colour="white", bold=True)
        else:
            sheet.frame(*box, colour)
            sheet.write(x, box[1] + 8.5, str(expert + 1), "center", colour=colour)

    def _tiles(self, record: Frame, tiles: Any) -> None:
        """Draws the patches of every expert, and the share of the tokens that it receives."""
        wide, high = ACROSS * (SIDE + GAP) - GAP, TILES // ACROSS * (SIDE + GAP) - GAP
        received = record.received
        for block, (top, own) in enumerate(zip(self.TOPS, tiles, strict=True)):
            for expert, grey in enumerate(own):
                left, upper = self._x(expert) - wide / 2, top + self.TILES
                self.patches.image(left, upper, left + wide, upper + high, painted, grey)
                if received is not None:
                    words = f"{100 * received[block, expert]:.0f} %"
                    self.patches.write(left + wide / 2, top + self.SHARE, words, "center", colour=theme.MUTED)
            if received is not None:
                self.patches.write(16, top + self.SHARE, "tokens", colour=theme.MUTED)

    def _names(self) -> dict[str, list[str]]:
        """Returns what a pointer over each expert's column shows."""
        return {"parts": [f"expert {number} of block {block}" for block in self._blocks for number in _numbers()]}

    def _columns(self) -> list[tuple[float, ...]]:
        half = self.SLOT / 2
        return [
            (self._x(expert) - half, top + 8, self._x(expert) + half, top + self.SHARE + 10, 0, 0, 0, 0)
            for top in self.TOPS
            for expert in range(EXPERTS)
        ]

    def _x(self, expert: int) -> float:
        """Returns the middle of an expert's column."""
        return self.LEFT + (expert + 0.5) * self.SLOT

    def _line(self, left: float, right: float, y: float) -> None:
        figure = self.scene.figure
        x, places = zip(*(theme.spot(figure, end, y) for end in (left, right)), strict=True)
        line = Line2D(x, places, transform=figure.transFigure, color=GREY, linewidth=0.8)
        figure.add_artist(line)
        self.fix(line)


def _numbers() -> range:
    return range(1, EXPERTS + 1)


def signed(value: float, digits: int = 2) -> str:
    """Returns a number with its sign, none where it rounds to 0."""
    words = f"{value:+.{digits}f}".replace("-", "−")
    return words if words.strip("+−0.") else words[1:]


@lru_cache(maxsize=256)
def painted(grey: bytes, wide: int, high: int, scale: float) -> NDArray[np.uint8]:
    """Paints patches of equal size in rows: paper is 0, ink 255; where one is missing, nothing."""
    patches = np.frombuffer(grey, np.uint8).reshape(-1, 4, 4)
    pixels = np.zeros((high, wide, 4), np.uint8)
    paper, ink = (theme.rgba(colour).astype(float) for colour in (theme.BACKGROUND, theme.INK))
    step, side = (SIDE + GAP) * scale, round(SIDE * scale)
    places = np.arange(side) * 4 // side
    for number, patch in enumerate(patches):
        row, column = divmod(number, ACROSS)
        top, left = round(row * step), round(column * step)
        level = patch[np.ix_(places, places)][..., None] / 255
        part = pixels[top : top + side, left : left + side]
        part[:] = np.rint(paper + level * (ink - paper))[: part.shape[0], : part.shape[1]]
    return pixels
