"""A matplotlib renderer that writes down what it is asked to draw, as operations that a page replays on a canvas.

The operations of a frame, little endian; places are i16 with the bits of `Resources` after the point,
in pixels from the top left::

    10 path     style u16, path (see resources.py)
    11 markers  style u16, shape u16, n u16, xy * n
    12 image    x y w h, pixels w h u16, tile side u8, 0 u8, tile u16 * tiles, row by row
    13 boxes    n u16, colour u16 * n, then x, y, w, h, each i16 * n: whole pixels
    14 stamps   n u16, stamp u16 * n, colour u16 * n, then x, y, each i16 * n: whole pixels
    20 name     u16 of what follows, or NOTHING
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.backend_bases import GraphicsContextBase, RendererBase
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.path import Path
from matplotlib.transforms import Affine2D
from numpy.typing import NDArray

from moe_lab_widgets.frames.resources import NOTHING, Resources, path_bytes

CAPS, JOINS = {"butt": 0, "round": 1, "projecting": 2}, {"miter": 0, "round": 1, "bevel": 2}
TILE = 32
_KEPT = 4000
"""Shapes of markers and words that are remembered."""

Pixels = NDArray[np.uint8]


class UnsupportedError(Exception):
    """An artist asks for something that a page cannot draw."""


class CanvasRenderer(RendererBase):
    """Records the operations of artists; see the module's text.

    Args:
      width, height, dpi: of the picture.
    """

    def __init__(self, width: int, height: int, dpi: float) -> None:
        super().__init__()
        self.width, self.height, self.dpi = width, height, dpi
        self.resources = Resources(4 if max(width, height) < 2000 else 3)
        self._agg = RendererAgg(width, height, dpi)
        self._flip = np.array([[1.0, 0, 0], [0, -1, height], [0, 0, 1]])
        self._shapes: dict[Any, tuple[int, Any]] = {}
        self._words: dict[Any, tuple[Pixels, int, int]] = {}
        self._looks: dict[Any, tuple[Any, ...]] = {}
        self._inks: dict[int, tuple[int, Pixels]] = {}
        self._named: dict[int, tuple[int, Mapping[str, Any]]] = {}
        self._tiled: dict[Any, tuple[NDArray[np.uint32], NDArray[np.uint16]]] = {}
        self._operations = bytearray()
        self.drawing(None)

    def drawing(self, artist: Any) -> None:
        """Says whose operations follow: of the images of one artist only the tiles that change are looked at."""
        self._artist, self._images = artist, 0

    def take(self) -> bytes:
        """Returns the operations since the last call."""
        taken, self._operations = bytes(self._operations), bytearray()
        return taken

    # ---- what matplotlib asks ----

    def new_gc(self) -> GraphicsContextBase:
        return GraphicsContextBase()

    def get_canvas_width_height(self) -> tuple[int, int]:
        return self.width, self.height

    def points_to_pixels(self, points: Any) -> Any:
        return points * self.dpi / 72

    def get_text_width_height_descent(self, *given: Any) -> tuple[float, float, float]:
        return self._agg.get_text_width_height_descent(*given)

    def option_image_nocomposite(self) -> bool:
        return True

    def draw_path(self, gc: Any, path: Path, transform: Any, rgbFace: Any = None) -> None:
        if gc.get_hatch() or gc.get_sketch_params():
            raise UnsupportedError("hatches and sketches")
        style, width, filled = self._style(gc, rgbFace)
        if style == NOTHING:
            return
        bounds = None if filled else (-1.0, -1.0, self.width + 1.0, self.height + 1.0)
        simplify = path.should_simplify and not filled
        snap, around = gc.get_snap(), self._flip @ transform.get_matrix()
        vertices, codes = _cleaned(path, around, bounds, simplify=simplify, stroke_width=width, snap=snap)
        if len(vertices):
            body = path_bytes(vertices, codes, self.resources.bits)
            self._operations += struct.pack("<BH", 10, style) + body

    def draw_markers(
        self, gc: Any, marker_path: Path, marker_trans: Any, path: Path, trans: Any, rgbFace: Any = None
    ) -> None:
        style, width, _ = self._style(gc, rgbFace)
        if style == NOTHING:
            return
        matrix = self._flip @ trans.get_matrix()
        if path.codes is None:
            where = np.asarray(path.vertices) @ matrix[:2, :2].T + matrix[:2, 2]
        else:
            where, _ = _cleaned(path, matrix, None, curves=False, snap=False)
        shape = self._marker(marker_path, marker_trans.get_matrix(), width, gc.get_snap())
        self.marks(style, shape, where)

    def draw_image(self, gc: Any, x: float, y: float, im: Any, transform: Any = None) -> None:
        if transform is not None:
            raise UnsupportedError("transformed images")
        self.image(x, self.height - y - im.shape[0], np.ascontiguousarray(im[::-1]))

    def draw_text(
        self, gc: Any, x: float, y: float, s: str, prop: Any, angle: float, ismath: Any = False, mtext: Any = None
    ) -> None:
        """Draws Agg's own letters, cut out once for each text and each fraction of a pixel at which it stands."""
        right, down = (round(64 * (place % 1)) / 64 for place in (x, y))  # FreeType knows 64ths of a pixel
        key = (s, hash(prop), angle, gc.get_rgb(), right, down)
        if key not in self._words:
            if len(self._words) > _KEPT:
                self._words.clear()
            self._words[key] = self._letters(gc, s, prop, angle, ismath, mtext, right, down)
        pixels, left, top = self._words[key]
        if pixels.size:
            self.image(math.floor(x) + left, math.floor(y) + top, pixels)

    # ---- what our artists ask ----

    def marks(self, style: int, shape: int, where: NDArray[np.float64]) -> None:
        """Puts a shape at places (n, 2)."""
        where = where[(np.abs(where) < 32767 >> self.resources.bits).all(1)]  # NaN is not less either
        if len(where):
            places = np.floor(where * (1 << self.resources.bits)).astype("<i2")
            self._operations += struct.pack("<BHHH", 11, style, shape, len(places)) + places.tobytes()

    def image(self, x: float, y: float, pixels: Pixels) -> None:
        """Puts pixels (height, width, 4) from the top left; tiles that the page has are not sent again."""
        high, wide = pixels.shape[:2]
        tiles = self._tiles_of(pixels.view(np.uint32)[..., 0])
        places = (round(x * (1 << self.resources.bits)), round(y * (1 << self.resources.bits)))
        size = (wide << self.resources.bits, high << self.resources.bits)
        self._operations += struct.pack("<B4h2HBB", 12, *places, *size, wide, high, TILE, 0)
        self._operations += tiles.tobytes()

    def boxes(self, boxes: NDArray[np.int16], colours: NDArray[np.uint32]) -> None:
        """Fills boxes (n, 4): left, top, width, height in whole pixels, with RGBA colours (n,)."""
        body = self.resources.colours(colours).tobytes() + np.ascontiguousarray(boxes.T, dtype="<i2").tobytes()
        self._operations += struct.pack("<BH", 13, len(boxes)) + body

    def stamps(self, inks: list[Pixels], places: NDArray[np.int16], colours: NDArray[np.uint32]) -> None:
        """Puts words, given as coverage (height, width) from 0 to 255, with their left and top at places (n, 2)."""
        numbers = np.array([self._stamp(ink) for ink in inks], dtype="<u2")
        body = self.resources.colours(colours).tobytes() + np.ascontiguousarray(places.T, dtype="<i2").tobytes()
        self._operations += struct.pack("<BH", 14, len(inks)) + numbers.tobytes() + body

    def name(self, words: Mapping[str, Any] | None) -> None:
        """Names what is drawn from here on."""
        number = NOTHING
        if words is not None:
            known = self._named.get(id(words))
            if known is None:
                known = self._named[id(words)] = self.resources.name(words), words
            number = known[0]
        self._operations += struct.pack("<BH", 20, number)

    # ---- helpers ----

    def _stamp(self, ink: Pixels) -> int:
        known = self._inks.get(id(ink))
        if known is None:
            if len(self._inks) > _KEPT:
                self._inks.clear()
            known = self._inks[id(ink)] = (
                self.resources.stamp(ink),
                ink,
            )  # the ink is kept, so that its id stays its own
        return known[0]

    def _tiles_of(self, now: NDArray[np.uint32]) -> NDArray[np.uint16]:
        """Returns the numbers of an image's tiles (rows, columns)."""
        high, wide = now.shape
        rows, columns = range(0, high, TILE), range(0, wide, TILE)
        slot, self._images = (self._artist, self._images, now.shape), self._images + 1
        before, tiles = self._tiled.get(slot, (None, None))
        if before is None or tiles is None:
            tiles = np.zeros((len(rows), len(columns)), dtype="<u2")
            changed = np.ones(tiles.shape, dtype=bool)
        else:
            different = before != now
            if not different.any():
                return tiles
            tiles = tiles.copy()
            changed = np.logical_or.reduceat(np.logical_or.reduceat(different, rows, axis=0), columns, axis=1)
        places = np.argwhere(changed)
        parts = [now[row * TILE : (row + 1) * TILE, column * TILE : (column + 1) * TILE] for row, column in places]
        tiles[changed] = self.resources.tiles([np.ascontiguousarray(part) for part in parts])
        self._tiled[slot] = now.copy(), tiles
        return tiles

    def _style(self, gc: Any, face: Any) -> tuple[int, float, bool]:
        """(number, or NOTHING where nothing would be seen; stroke width in pixels, for snapping; whether it fills)"""
        box, clip = gc.get_clip_rectangle(), gc.get_clip_path()[0]
        alpha = gc.get_alpha() if gc.get_forced_alpha() else 1
        offset, dashes = gc.get_dashes()
        key = (
            gc.get_rgb(), None if face is None else tuple(face), alpha, gc.get_linewidth(), gc.get_capstyle(),
            gc.get_joinstyle(), offset, None if dashes is None else tuple(dashes),
            None if box is None else box.bounds, id(clip),
        )  # fmt: skip
        known = self._looks.get(key)
        if known is None:
            known = self._looks[key] = (*self._new_style(gc, face), clip)  # clip is kept, so that its id stays its own
        return known[0], known[1], known[2]

    def _new_style(self, gc: Any, face: Any) -> tuple[int, float, bool]:
        red, green, blue, opacity = gc.get_rgb()
        width = self.points_to_pixels(gc.get_linewidth())
        stroke = _colour((red, green, blue), opacity) if width > 0 and opacity > 0 else bytes(4)
        fill = bytes(4)
        if face is not None:
            fill = _colour(face, gc.get_alpha() if gc.get_forced_alpha() or len(face) == 3 else face[3])
        if not stroke[3] and not fill[3]:
            return NOTHING, 0.0, False
        offset, dashes = gc.get_dashes()
        lengths = [] if dashes is None else [round(64 * self.points_to_pixels(one)) for one in dashes]
        start = round(64 * self.points_to_pixels(offset or 0))
        corners = CAPS[gc.get_capstyle()] << 4 | JOINS[gc.get_joinstyle()]
        body = stroke + fill + struct.pack("<HBBH", round(64 * width), corners, len(lengths), start)
        body += struct.pack(f"<{len(lengths)}H", *lengths) + self._clip(gc)
        return self.resources.style(body), width if stroke[3] else 0.0, fill[3] > 0

    def _clip(self, gc: Any) -> bytes:
        box, (path, transform) = gc.get_clip_rectangle(), gc.get_clip_path()
        edges, shape = (-1, -1, -1, -1), NOTHING
        if box is not None:
            edges = (round(box.x0), self.height - round(box.y1), round(box.x1), self.height - round(box.y0))
        if path is not None:
            shape = self.resources.shape(
                path_bytes(*_cleaned(path, self._flip @ transform.get_matrix(), None), self.resources.bits)
            )
        return struct.pack("<4hH", *edges, shape)

    def _marker(self, path: Path, matrix: NDArray[np.float64], width: float, snap: Any) -> int:
        """Returns the number of a marker's shape, put on the pixel grid as Agg puts it."""
        key = (id(path), matrix.tobytes(), width, snap)
        known = self._shapes.get(key)
        if known is None:
            turned = Affine2D(matrix).scale(1, -1).get_matrix()
            vertices, codes = _cleaned(path, turned, None, snap=snap, stroke_width=width)
            loose, _ = _cleaned(path, turned, None, snap=False, stroke_width=width)
            if np.allclose(vertices, loose):
                vertices = vertices + 0.5  # Agg snaps to the middle of a pixel
            bits = 8 if np.abs(vertices).max(initial=0) < 127 else 4
            if len(self._shapes) > _KEPT:
                self._shapes.clear()
            number = self.resources.shape(path_bytes(vertices, codes, bits))
            known = self._shapes[key] = number, path  # the path is kept, so that its id stays its own
        return known[0]

    def _letters(
        self, gc: Any, s: str, prop: Any, angle: float, ismath: Any, mtext: Any, right: float, down: float
    ) -> tuple[Pixels, int, int]:
        """(pixels, and where their left and top are from the pixel of the text's place, of which it stands a part)"""
        wide, high, _ = self._agg.get_text_width_height_descent(s, prop, ismath)
        reach = int(wide + high) + 8
        sheet = RendererAgg(2 * reach, 2 * reach, self.dpi)
        sheet.draw_text(gc, reach + right, reach + down, s, prop, angle, ismath, mtext)
        pixels = np.asarray(sheet.buffer_rgba())
        rows, columns = np.flatnonzero(pixels[..., 3].any(1)), np.flatnonzero(pixels[..., 3].any(0))
        if not len(rows):
            return np.zeros((0, 0, 4), np.uint8), 0, 0
        cut = pixels[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].copy()
        return cut, int(columns[0]) - reach, int(rows[0]) - reach


def _cleaned(
    path: Path, matrix: NDArray[np.float64], bounds: Any, **options: Any
) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """Returns a path's vertices and codes in pixels, without NaN and what lies outside, as Agg would draw it."""
    clean = path.cleaned(Affine2D(matrix), True, bounds, **{"curves": True, **options})
    return np.asarray(clean.vertices)[:-1], np.asarray(clean.codes)[:-1]  # the last one ends the path


def _colour(rgb: Any, alpha: float) -> bytes:
    return bytes(round(255 * part) for part in (*rgb[:3], alpha))
