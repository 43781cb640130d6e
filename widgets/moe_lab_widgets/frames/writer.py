"""The frames of a picture as bytes: furniture is drawn once for each change of it, the record for every frame."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_agg import RendererAgg

from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.frames.renderer import CanvasRenderer, UnsupportedError

if TYPE_CHECKING:
    from moe_lab_widgets.drawing.picture import Name, Picture
    from moe_lab_widgets.drawing.placed import PlacedPanel


def stage(picture: Picture, spans: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Returns the data of a picture that a page needs before its first frame (see page/player.js).

    Args:
      spans: left and right of each part that a narrow page may stack.
    """
    spans = [list(span) for span in spans]
    return {"width": picture.width, "height": picture.height, "scale": picture.scale, "spans": spans}


class FrameWriter:
    """Writes the frames of one picture for one audience.

    Args:
      picture: what it shows; hold `drawing_lock` while a frame is written.

    Attributes:
      unsupported: what had to be sent as pixels, because a page cannot draw it.
    """

    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        wide, high = picture.canvas.get_width_height()
        self.size = (wide, high - picture.foot)
        self._canvas = CanvasRenderer(wide, high, picture.figure.dpi)
        self.unsupported: set[str] = set()
        self._furniture: dict[int, tuple[int, bytes]] = {}
        """Of each panel, the version that was written last, and its operations."""
        self._sheets: dict[int, tuple[Any, Name | None, bytes]] = {}
        """Of the sheets in the last frame, by their places: their content, their names, and their operations."""

    @property
    def full(self) -> bool:
        """Whether it is time for another writer, because a page would run out of numbers for things."""
        return self._canvas.resources.full

    def frame(self, record: int) -> bytes:
        """Returns the present picture as the frame of a record (its body: see resources.py)."""
        self._canvas.take()  # what an artist has left that failed
        self.picture.figure.patch.draw(self._canvas)  # the paper
        parts = [self._canvas.take(), *map(self._write_furniture, self.picture.placed)]
        parts += [self._write(place, artist) for place, artist in enumerate(self.picture.content())]
        body = b"".join(parts)
        return self._canvas.resources.news() + struct.pack("<BII", 4, record, len(body)) + body

    def _write_furniture(self, placed: PlacedPanel) -> bytes:
        """Returns the operations of a panel's furniture, written once for each change of it."""
        version, written = self._furniture.get(placed.number, (None, b""))
        if version != placed.version:
            self._canvas.drawing(f"furniture {placed.number}")
            placed.draw_furniture(self._canvas)
            written = self._canvas.take()
            self._furniture[placed.number] = placed.version, written
        return written

    def _write(self, place: int, artist: Any) -> bytes:
        """Returns the operations of one artist of this frame; pixels where it asks for what a page cannot draw.

        A sheet like that at its place in the last frame is not written again, and of images only the tiles that differ.
        """
        words = self.picture.names.get(artist)
        content = artist.content() if isinstance(artist, Sheet) else None
        if content is not None and place in self._sheets:
            *before, written = self._sheets[place]
            if before == [content, words]:
                return written
        self._canvas.drawing(f"{type(artist).__name__} {place}")
        if words is not None:
            self._canvas.name(words)
        named = self._canvas.take()
        try:
            artist.draw(self._canvas)
        except UnsupportedError as reason:
            self.unsupported.add(f"{type(artist).__name__}: {reason}")
            self._canvas.take()
            self._by_agg(artist)
        if words is not None:
            self._canvas.name(None)
        written = named + self._canvas.take()
        if content is not None:
            self._sheets[place] = content, words, written
        return written

    def _by_agg(self, artist: Any) -> None:
        wide, high = self._canvas.get_canvas_width_height()
        renderer = RendererAgg(wide, high, self._canvas.dpi)
        artist.draw(renderer)
        pixels = np.asarray(renderer.buffer_rgba())
        rows, columns = np.flatnonzero(pixels[..., 3].any(1)), np.flatnonzero(pixels[..., 3].any(0))
        if len(rows):
            cut = pixels[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
            self._canvas.image(int(columns[0]), int(rows[0]), np.ascontiguousarray(cut))


class Stream:
    """Bodies as pieces of one raw deflate stream, so that what repeats costs little."""

    def __init__(self) -> None:
        self._zip = zlib.compressobj(6, zlib.DEFLATED, -15, 9)

    def pack(self, body: bytes) -> bytes:
        """Returns the piece that makes the body whole on the other side."""
        return self._zip.compress(body) + self._zip.flush(zlib.Z_SYNC_FLUSH)
