"""The first panel of the patch-map Lab's picture: test images, a row for each expert, with the patches that it keeps.

An image is sent once: what changes from frame to frame are the colours of boxes over it and behind it. A veil covers
the patches that an expert does not keep; through the gaps between patches shows the expert's colour around kept ones.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab_widgets.drawing.picture import Name
from moe_lab_widgets.drawing.scene import Panel, Scene
from moe_lab_widgets.drawing.sheet import Sheet, integer
from moe_lab_widgets.drawing.words import percent
from moe_lab_widgets.patch_map.record import Frame
from moe_lab_widgets.patch_map.settings import EXAMPLES, KEEPING

CELLS = 4
"""Patches along a side of an image."""
VEIL = 0.72
"""How much of a patch that is not kept is covered."""
LEVELS = 6
"""Steps from covered to lit, where gates are soft."""
GREYS = 12
"""Shades of an image: a page is sent each new pixel."""
FRAME = theme.CLASSES[0]
NOTES = {
    "learned": "lit and outlined: patches that the expert keeps",
    "random": "lit and outlined: patches that chance gives to the expert",
    "none": "every expert gets all patches",
    "soft": "every expert gets all patches; the more lit, the larger its gate",
}


class Maps(Panel):
    """Eight test images of one trial for each expert; the object's patches are framed."""

    LEFT, TOP, ACROSS, HEIGHT = 38, 96, 70, 300
    LARGE, SMALL = 64, 32
    """Sides of an image, for up to four experts and for more."""
    SHARES = 622
    """The middle of the column of shares."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (0, 652))
        theme.header(scene.figure, 14, 1, "Which patches each expert keeps")
        self.behind, self.images = scene.live(Sheet(zorder=2.0)), scene.live(Sheet(zorder=2.2))
        self.veils, self.frames = scene.live(Sheet(zorder=2.4)), scene.live(Sheet(zorder=2.6))
        self.words = scene.live(Sheet(zorder=3))
        scene.name(self.behind, {"name": "patches that an expert keeps"})
        scene.name(self.images, {"name": "test images"})
        scene.name(self.veils, self._named)
        scene.name(self.frames, {"name": "the digit that decides the class"})
        self._experts = 0
        self._edges: list[tuple[float, ...]] = []
        """Of all patches, expert by expert and image by image."""

    def _named(self) -> Name:
        places = np.ndindex(self._experts, EXAMPLES, CELLS**2)
        return {"parts": [f"expert {s + 1}, image {i + 1}, patch {j + 1}" for s, i, j in places]}

    @property
    def side(self) -> int:
        """Of an image, in pixels at 100 dpi."""
        return self.LARGE if self._experts <= 4 else self.SMALL

    def corner(self, expert: int, example: int) -> tuple[float, float]:
        """(left, top) of an image."""
        down = min(self.HEIGHT / self._experts, self.LARGE + 10)
        inset = (self.LARGE - self.side) / 2
        return self.LEFT + self.ACROSS * example + inset, self.TOP + round(down * expert)

    def set(self, experts: int, gates: str, shown: int) -> None:
        """Lays out the images, and writes what they show."""
        if not self.renew(experts, gates, shown):
            return
        self._experts = experts
        cell = self.side / CELLS
        self._edges = []
        for s, i in np.ndindex(experts, EXAMPLES):
            left, top = self.corner(s, i)
            for row, column in np.ndindex(CELLS, CELLS):
                x, y = left + cell * column, top + cell * row
                self._edges.append((x, y, x + cell, y + cell, 0, 0, 0, 0))
        note = f"{EXAMPLES} test images of trial {shown + 1}; {NOTES[gates]}"
        self.write(26, 50, note)
        self.write(26, 66, "blue frame: the digit that decides the class (0 to 3); the three others do not")
        middle = self.LEFT / 2
        self.write(middle, 85, "is", ha="center")
        self.write(middle, self.foot, "said", ha="center")
        if gates != "soft":
            self.write(self.SHARES, 85, "in object", ha="center")
        for s in range(experts):
            self.head_at(middle, self.corner(s, 0)[1] + self.side / 2, s, 15 if experts <= 4 else 13)

    @property
    def foot(self) -> float:
        """The height of the words below the images."""
        return self.corner(self._experts - 1, 0)[1] + self.side + 13

    def update(self, record: Frame, shown: int) -> None:
        study = record.study
        images, boxes = (study[f"example_{name}"][shown] for name in ("images", "boxes"))
        lit = self._lit(record, shown)
        veils, outlines = (shades(level, theme.PAPER) for level in (VEIL, 1.0))
        levels = np.rint((LEVELS - 1) * lit).astype(int)
        with self.veils.anew() as sheet:
            sheet.add(self._edges, [veils[LEVELS - 1 - level] for level in levels.ravel().tolist()])
        colours = [integer(theme.expert(s).colour) for s in range(len(levels))]
        with self.behind.anew() as sheet:
            kept = levels == LEVELS - 1
            fills = np.where(kept, np.array(colours)[:, None, None], outlines[-1])
            sheet.add(self._edges, fills.ravel().tolist())
        with self.images.anew() as sheet:
            for i, pixels in enumerate(self._pixels(images)):
                for s in range(self._experts):
                    left, top = self.corner(s, i)
                    sheet.image(left, top, left + self.side, top + self.side, thumbnail, pixels)
        with self.frames.anew() as sheet:
            self._frame(sheet, np.nan_to_num(boxes), images.shape[-1])
        self._write(record, shown)

    def _lit(self, record: Frame, shown: int) -> NDArray[np.float64]:
        """Returns (expert, example, patch) from 0, covered, to 1, lit."""
        name = "example_gates" if record.gates == "soft" else "example_kept"
        values = np.nan_to_num(record.study[name][shown]).swapaxes(0, 1)
        return values / np.maximum(values.max(-1, keepdims=True), 1e-12)

    @staticmethod
    def _pixels(images: NDArray[np.float64]) -> list[bytes]:
        """Returns the first channel of every image in a few shades, as something that a cache can keep."""
        ink = np.clip(np.nan_to_num(images[:, 0]), 0, 1)
        return [one.tobytes() for one in np.rint((GREYS - 1) * ink).astype(np.uint8)]

    def _frame(self, sheet: Sheet, boxes: NDArray[np.float64], pixels: int) -> None:
        """Frames the object of every image, two hairlines thick."""
        unit = self.side / pixels
        for s, i in np.ndindex(self._experts, EXAMPLES):
            (left, top), (down, right, height, width) = self.corner(s, i), unit * boxes[i]
            x, y = left + right, top + down
            if height and width:
                sheet.frame(x - 1, y - 1, x + width + 1, y + height + 1, FRAME)
                sheet.frame(x, y, x + width, y + height, FRAME)

    def _write(self, record: Frame, shown: int) -> None:
        """Writes the digits, what the model says, and each expert's share in the object."""
        study = record.study
        labels, said = study["example_labels"][shown], study["example_predicted"][shown]
        shares = study["expert_kept_in_object"][shown]
        with self.words.anew() as words:
            for i, (label, answer) in enumerate(zip(labels, said, strict=True)):
                x = self.LEFT + self.ACROSS * i + self.LARGE / 2
                words.write(x, 85, number(label), "center", size=theme.TEXT_SIZE, colour=FRAME, bold=True)
                right = label == answer
                words.write(
                    x, self.foot, f"{number(answer)} {'✔' if right else '✗'}", "center", size=theme.TEXT_SIZE,
                    colour=theme.INK if right else theme.REFERENCE, bold=bool(right),
                )  # fmt: skip
            for s, share in enumerate(shares if record.gates != "soft" else ()):
                y = self.corner(s, 0)[1] + self.side / 2
                kept = record.gates in KEEPING
                colour = theme.INK if kept else theme.REFERENCE
                words.write(self.SHARES, y, percent(share), "center", size=theme.TEXT_SIZE, colour=colour, bold=kept)


def number(value: float) -> str:
    """Returns a class in words."""
    return f"{value:.0f}" if np.isfinite(value) else "–"


@lru_cache(maxsize=8)
def shades(most: float, colour: str) -> list[int]:
    """Returns a colour in steps from transparent to `most` of opaque, each as one integer (see `sheet.integer`)."""
    opaque = integer(colour) & 0xFFFFFF
    return [opaque | round(255 * most * level / (LEVELS - 1)) << 24 for level in range(LEVELS)]


@lru_cache(maxsize=128)
def thumbnail(pixels: bytes, wide: int, high: int, scale: float) -> NDArray[np.uint8]:
    """Paints an image of a few shades, ink dark on paper, with gaps of a hairline around its patches."""
    side = round(len(pixels) ** 0.5)
    ink = np.frombuffer(pixels, dtype=np.uint8).reshape(side, side) / (GREYS - 1)
    rows, columns = np.arange(high) * side // high, np.arange(wide) * side // wide
    shown = ink[rows][:, columns, None]
    colours = theme.rgba(theme.PAPER)[:3] * (1 - shown) + theme.rgba(theme.INK)[:3] * shown
    painted = np.concatenate([colours.round(), np.full_like(shown, 255)], axis=-1).astype(np.uint8)
    line = max(round(scale), 1)
    for edge in np.rint(np.arange(CELLS + 1) * high / CELLS).astype(int):
        painted[max(edge - line, 0) : edge + line, :, 3] = 0
    for edge in np.rint(np.arange(CELLS + 1) * wide / CELLS).astype(int):
        painted[:, max(edge - line, 0) : edge + line, 3] = 0
    return painted
