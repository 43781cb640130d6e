"""A transparent sheet over a picture with boxes, words and small images, at places that any scale has.

Forty bars and chips, or a table of a hundred numbers, would cost 20 ms per frame as matplotlib's artists. A page draws
a sheet's boxes and words itself; Agg is given them as pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from numpy.typing import NDArray

from moe_lab.drawing import theme
from moe_lab_widgets.drawing.ink import Ink, line, stamp

Pixels = NDArray[np.uint8]
Painter = Callable[..., Pixels]
"""Returns the pixels (height, width, 4) of an image, given its arguments and then `wide, high, scale`."""
ANCHORS = {"left": 0.0, "center": 0.5, "right": 1.0}


@lru_cache(maxsize=256)
def integer(colour: str) -> int:
    """Returns a colour as one integer, RGBA from the lowest byte; "none" is transparent."""
    return 0 if colour == "none" else int(theme.rgba(colour).view("<u4")[0])


class Strip(Artist):
    """Pixels of the screen at a fixed place, handed to the renderer as they are.

    Args:
      left, top: pixels from the top left of the figure at 100 dpi.
      pixels: (height, width, 4) uint8 RGBA.
    """

    def __init__(self, left: float, top: float, pixels: Pixels) -> None:
        super().__init__()
        self.left, self.top, self.pixels = left, top, pixels
        self.set_zorder(3)

    def set_clip_path(self, path: Any, transform: Any = None) -> None:
        """Does nothing: pixels are not cut at Axes, and preparing for that takes longer than drawing them."""

    def draw(self, renderer: Any) -> None:
        if not self.get_visible():
            return
        scale = renderer.dpi / theme.BASE_DPI
        bottom = renderer.height - round(self.top * scale) - self.pixels.shape[0]
        context = renderer.new_gc()
        renderer.draw_image(context, round(self.left * scale), bottom, np.ascontiguousarray(self.pixels[::-1]))
        context.restore()


class Sheet(Artist):
    """See the module's text. Images lie below boxes, and boxes below words.

    Places are pixels at 100 dpi from the top left of the figure. They become whole device pixels when the sheet is
    drawn, which is when the scale is known. A hairline is one pixel at 100 dpi and at least one device pixel; edges may
    be moved by whole hairlines, so that gaps and frames are equally thick everywhere.
    """

    def __init__(self, zorder: float = 3) -> None:
        super().__init__()
        self.set_zorder(zorder)
        self._laid: tuple[tuple[int, float], NDArray[np.int64]] | None = None
        """The boxes in device pixels, with how many there were and at which scale."""
        self.edges: list[tuple[float, ...]] = []
        """Of boxes: left, top, right, bottom, and the hairlines by which each is moved right or down."""
        self.fills: list[int] = []
        self.texts: list[tuple[str, float, bool, bool]] = []
        """Of words: the words, size in points, whether they are bold, and on a line with others."""
        self.spots: list[tuple[float, float, float, int]] = []
        """Where words are: x, y and which part of their width is at x; or the number of the box that they are in."""
        self.inks: list[int] = []
        self.images: list[tuple[Any, ...]] = []

    def content(self) -> tuple[list[Any], ...]:
        """Returns what is on it: two sheets of equal content are drawn alike."""
        return self.edges, self.fills, self.texts, self.spots, self.inks, self.images

    @property
    def words(self) -> list[str]:
        """All words on it."""
        return [text[0] for text in self.texts]

    # ---- what panels write ----

    def box(
        self,
        left: float,
        top: float,
        right: float,
        bottom: float,
        colour: str,
        moved: tuple[int, int, int, int] = (0, 0, 0, 0),
    ) -> None:
        """Adds a filled box, at least one device pixel."""
        self.edges.append((left, top, right, bottom, *moved))
        self.fills.append(integer(colour))

    def add(self, edges: Sequence[tuple[float, ...]], fills: Sequence[int] | None = None) -> int:
        """Adds boxes, transparent ones where no fills are given, and returns the number of the first."""
        first = len(self.edges)
        self.edges += edges
        self.fills += [0] * len(edges) if fills is None else fills
        return first

    def frame(self, left: float, top: float, right: float, bottom: float, colour: str, gap: int = 0) -> None:
        """Adds the outline of a box, a hairline thick; `gap` hairlines are left free on the right and below."""
        self.box(left, top, right, top, colour, (0, 0, -gap, 1))
        self.box(left, bottom, right, bottom, colour, (0, -1 - gap, -gap, -gap))
        self.box(left, top, left, bottom, colour, (0, 0, 1, -gap))
        self.box(right, top, right, bottom, colour, (-1 - gap, 0, -gap, -gap))

    def image(self, left: float, top: float, right: float, bottom: float, paint: Painter, *arguments: Any) -> None:
        """Adds an image, painted when the sheet is drawn."""
        self.images.append((left, top, right, bottom, paint, arguments))

    def write(
        self,
        x: float,
        y: float,
        words: str,
        ha: str = "left",
        *,
        size: float = theme.SMALL_SIZE,
        colour: str = theme.INK,
        bold: bool = False,
    ) -> None:
        """Writes words with the middle of their height at y.

        Args:
          ha: what of them is at x: "left", "center" or "right".
        """
        self.texts.append((words, size, bold, True))
        self.spots.append((x, y, ANCHORS[ha], -1))
        self.inks.append(integer(colour))

    def lines(self, x: float, y: float, *words: str, size: float = theme.TEXT_SIZE, colour: str) -> None:
        """Writes bold lines from x on, the middle of their capitals at y."""
        em = size * theme.BASE_DPI / 72
        for row, one in enumerate(words):
            self.write(
                x + 1, y + (1.25 * (row - (len(words) - 1) / 2) + 0.1) * em, one, size=size, colour=colour, bold=True
            )

    def label(self, box: int, words: str, *, size: float, colour: str, bold: bool = False) -> None:
        """Writes words in the middle of a box, given by its number."""
        self.texts.append((words, size, bold, False))
        self.spots.append((0.0, 0.0, 0.5, box))
        self.inks.append(integer(colour))

    # ---- in device pixels ----

    def boxes_at(self, scale: float) -> NDArray[np.int64]:
        """Returns the boxes (n, 4): left, top, width, height."""
        key = len(self.edges), scale
        if self._laid is None or self._laid[0] != key:
            self._laid = key, device_boxes(self.edges, scale)
        return self._laid[1]

    def words_at(self, scale: float) -> tuple[list[Ink], NDArray[np.int64]]:
        """Returns the ink of all words, and their left and top (n, 2)."""
        boxes, dpi = self.boxes_at(scale), theme.BASE_DPI * scale
        inks = [(line if lined else stamp)(words, size, dpi, bold) for words, size, bold, lined in self.texts]
        sizes = np.array([ink.shape for ink in inks]).reshape(-1, 2)[:, ::-1]
        spots = np.array(self.spots).reshape(-1, 4)
        middles = spots[:, :2] * scale
        middles[:, 0] += (0.5 - spots[:, 2]) * sizes[:, 0]
        inside = spots[:, 3] >= 0
        if inside.any():
            around = boxes[spots[inside, 3].astype(int)]
            middles[inside] = around[:, :2] + around[:, 2:] / 2
        return inks, np.rint(middles - sizes / 2).astype(int)

    def images_at(self, scale: float) -> list[tuple[int, int, Pixels]]:
        """Returns left, top and pixels of every image."""
        made = []
        for *edges, paint, arguments in self.images:
            left, top, wide, high = device_boxes([(*edges, 0, 0, 0, 0)], scale)[0].tolist()
            made.append((left, top, paint(*arguments, wide, high, scale)))
        return made

    # ---- drawing ----

    def set_clip_path(self, path: Any, transform: Any = None) -> None:
        """Does nothing: a sheet is not cut at Axes, and preparing for that takes longer than drawing it."""

    def draw(self, renderer: Any) -> None:
        if not self.get_visible():
            return
        scale = renderer.dpi / theme.BASE_DPI
        if not hasattr(renderer, "stamps"):
            self._draw_pixels(renderer, scale)
            return
        for left, top, pixels in self.images_at(scale):
            renderer.image(left, top, pixels)
        if self.edges:
            renderer.boxes(self.boxes_at(scale), np.array(self.fills, dtype="<u4"))
        if self.texts:
            renderer.stamps(*self.words_at(scale), np.array(self.inks, dtype="<u4"))

    def _draw_pixels(self, renderer: Any, scale: float) -> None:
        wide, high = int(renderer.width), int(renderer.height)  # Agg has them as floats
        pixels, left, top = self.composed(scale, wide, high)
        if pixels.size:
            context = renderer.new_gc()
            renderer.draw_image(context, left, high - top - len(pixels), np.ascontiguousarray(pixels[::-1]))
            context.restore()

    def composed(self, scale: float, wide: int, high: int) -> tuple[Pixels, int, int]:
        """Returns the sheet as pixels, with their left and top, cropped to `wide` x `high` device pixels."""
        images, boxes, (inks, places) = self.images_at(scale), self.boxes_at(scale), self.words_at(scale)
        filled = np.array(self.fills, dtype="<u4") > 0
        spans = np.concatenate([
            np.array([(left, top, *part.shape[1::-1]) for left, top, part in images], dtype=int).reshape(-1, 4),
            boxes[filled],
            np.concatenate([places, np.array([ink.shape[::-1] for ink in inks], dtype=int).reshape(-1, 2)], axis=1),
        ])  # fmt: skip
        if not len(spans):
            return np.zeros((0, 0, 4), dtype=np.uint8), 0, 0
        x, y = np.maximum(spans[:, :2].min(0), 0).tolist()
        right, bottom = np.minimum((spans[:, :2] + spans[:, 2:]).max(0), (wide, high)).tolist()
        sheet = np.full((max(bottom - y, 0), max(right - x, 0), 4), (*theme.rgba(theme.PAPER)[:3], 0), dtype=np.uint8)
        for left, top, pixels in images:
            place = crop(left - x, top - y, pixels.shape[1], pixels.shape[0], sheet)
            part = pixels[: place[0].stop - place[0].start, : place[1].stop - place[1].start]
            sheet[place] = np.where(part[..., 3:] > 0, part, sheet[place])
        colours = np.array(self.fills, dtype="<u4").view(np.uint8).reshape(-1, 4)
        for (left, top, across, down), colour in zip(boxes[filled].tolist(), colours[filled], strict=True):
            sheet[crop(left - x, top - y, across, down, sheet)] = colour
        colours = np.array(self.inks, dtype="<u4").view(np.uint8).reshape(-1, 4)
        for ink, (left, top), colour in zip(inks, places.tolist(), colours, strict=True):
            lay(sheet, ink, left - x, top - y, colour)
        return sheet, x, y


def device_boxes(edges: Sequence[tuple[float, ...]], scale: float) -> NDArray[np.int64]:
    """Returns boxes (n, 4) of left, top, width and height in whole device pixels, at least one each."""
    given = np.array(edges, dtype=float).reshape(-1, 8)
    placed = np.rint(given[:, :4] * scale) + given[:, 4:] * max(round(scale), 1)
    return np.concatenate([placed[:, :2], np.maximum(placed[:, 2:] - placed[:, :2], 1)], axis=1).astype(int)


def crop(left: int, top: int, wide: int, high: int, sheet: Pixels) -> tuple[slice, slice]:
    """Returns a box's rows and columns within a sheet."""
    rows = slice(max(top, 0), max(min(top + high, sheet.shape[0]), max(top, 0)))
    return rows, slice(max(left, 0), max(min(left + wide, sheet.shape[1]), max(left, 0)))


def lay(sheet: Pixels, ink: Ink, left: int, top: int, colour: NDArray[np.uint8]) -> None:
    """Lays ink over what is there, cropped to the sheet."""
    high, wide = ink.shape
    place = crop(left, top, wide, high, sheet)
    rows, columns = place
    if rows.start >= rows.stop or columns.start >= columns.stop:
        return
    over = ink[rows.start - top : rows.stop - top, columns.start - left : columns.stop - left, None] / 255
    under = sheet[place]
    below = under[..., 3:] / 255 * (1 - over)
    whole = np.maximum(over + below, 1e-9)
    under[..., :3] = np.rint((over * colour[:3] + below * under[..., :3]) / whole)
    under[..., 3:] = np.rint(255 * (over + below))
