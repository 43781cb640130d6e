"""The frames of a Picture as bytes: what changed since the last frame is drawn again, the rest is repeated."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_agg import RendererAgg

from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.frames.moved import Moved
from moe_lab_widgets.frames.tape import Tape, UnsupportedError

if TYPE_CHECKING:
    from moe_lab_widgets.drawing.picture import Name, Picture

BACKGROUND_TILE = 64


def stage(picture: Picture, spans: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Returns what a page needs to know of a picture before its first frame (see page/player.js).

    Args:
      spans: left and right of each part that a narrow page may stack.
    """
    spans = [list(span) for span in spans]
    return {"width": picture.width, "height": picture.height, "scale": picture.scale, "spans": spans}


class Reel:
    """Writes the frames of one Picture for one audience.

    Args:
      picture: what it shows; hold `drawing_lock` while a frame is written.

    Attributes:
      unsupported: what had to be sent as pixels, because a page cannot draw it.
    """

    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        wide, high = picture.canvas.get_width_height()
        self.size = (wide, high - picture.foot)
        self._tape = Tape(wide, high, picture.figure.dpi)
        self._moved = Moved()
        self.unsupported: set[str] = set()
        self._still: Any = None
        self._still_written = b""
        self._written: dict[int, tuple[int, Any, bytes]] = {}
        self._names: dict[int, tuple[Name, Any]] = {}
        self._sheets: dict[int, tuple[Any, Name | None, bytes]] = {}

    def forget_looks(self) -> None:
        """Has matplotlib draw every line that changes again, not only those whose looks are new."""
        self._moved.forget()

    @property
    def full(self) -> bool:
        """Whether it is time for another reel, because a page would run out of numbers for things."""
        return self._tape.book.full

    def frame(self, record: int) -> bytes:
        """Returns the body (see book.py) of what the picture shows now, as the frame of a record."""
        picture = self.picture
        if getattr(picture, "anew", False):  # every frame has artists of its own
            picture.figure.patch.draw(self._tape)  # the paper
            parts = [self._tape.take(), *(self._furniture(laid) for laid in picture.laid)]
            parts += [self._write_anew(place, artist) for place, (artist, _) in enumerate(picture.live_artists())]
            body = b"".join(parts)
            return self._tape.book.news() + struct.pack("<BII", 4, record, len(body)) + body
        still = picture.background()
        if still is not self._still:
            self._still = still
            self._tape.drawing("background")
            self._tape.image(0, 0, still[: self.size[1]], side=BACKGROUND_TILE)
            self._still_written = self._tape.take()
            self._written.clear()  # axes may have other limits, and artists may have been removed
            self._tape.forget_artists()
            self._moved.forget()
            self._names.clear()
        parts = [self._still_written]
        for artist, version in picture.live_artists():
            known = self._written.get(id(artist))
            if known is None or known[0] != version:
                known = self._written[id(artist)] = version, artist, self._write(artist)
            parts.append(known[2])
        body = b"".join(parts)
        return self._tape.book.news() + struct.pack("<BII", 4, record, len(body)) + body

    def _write(self, artist: Any) -> bytes:
        """Returns the operations of one artist; pixels where it asks for what a page cannot draw."""
        self._tape.take()  # what an artist has left that failed
        self._tape.drawing(artist)
        words = self._name_of(artist)
        if words is not None:
            self._tape.name(words)
        named = self._tape.take()
        if self._moved.write(artist, self._tape):
            return named + self._ended(words)
        try:
            artist.draw(self._tape)
            self._moved.learn(artist, self._tape.drawn)
        except UnsupportedError as reason:
            self.unsupported.add(f"{type(artist).__name__}: {reason}")
            self._tape.take()
            self._by_agg(artist)
        return named + self._ended(words)

    def _furniture(self, laid: Any) -> bytes:
        """Returns the operations of a panel's furniture, written once for each change of it."""
        known = self._written.get(id(laid))
        if known is None or known[0] != laid.version:
            self._tape.take()
            self._tape.drawing(f"furniture {laid.number}")
            laid.draw_furniture(self._tape)
            known = self._written[id(laid)] = laid.version, laid, self._tape.take()
        return known[2]

    def _write_anew(self, place: int, artist: Any) -> bytes:
        """Returns the operations of one artist of this frame.

        A Sheet like that at its place in the last frame is not written again, and of images only the tiles that differ.
        """
        words = self.picture.names.get(artist)
        content = artist.content() if isinstance(artist, Sheet) else None
        if content is not None:
            before = self._sheets.get(place)
            if before is not None and before[0] == content and before[1] is words:
                return before[2]
        self._tape.take()
        self._tape.drawing(f"{type(artist).__name__} {place}")
        if words is not None:
            self._tape.name(words)
        named = self._tape.take()
        try:
            artist.draw(self._tape)
        except UnsupportedError as reason:
            self.unsupported.add(f"{type(artist).__name__}: {reason}")
            self._tape.take()
            self._by_agg(artist)
        written = named + self._ended(words)
        if content is not None:
            self._sheets[place] = content, words, written
        return written

    def _ended(self, words: Name | None) -> bytes:
        """Returns the operations of an artist that has been drawn."""
        if words is not None:
            self._tape.name(None)
        return self._tape.take()

    def _name_of(self, artist: Any) -> Name | None:
        """Returns what names an artist; functions are asked once for each background."""
        words = self.picture.names.get(artist)
        if not callable(words):
            return words
        known = self._names.get(id(artist))
        if known is None:
            known = self._names[id(artist)] = words(), artist
        return known[0]

    def _by_agg(self, artist: Any) -> None:
        wide, high = self._tape.get_canvas_width_height()
        renderer = RendererAgg(wide, high, self._tape.dpi)
        artist.draw(renderer)
        pixels = np.asarray(renderer.buffer_rgba())
        rows, columns = np.flatnonzero(pixels[..., 3].any(1)), np.flatnonzero(pixels[..., 3].any(0))
        if len(rows):
            cut = pixels[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
            self._tape.image(int(columns[0]), int(rows[0]), np.ascontiguousarray(cut))


class Stream:
    """Bodies as pieces of one raw deflate stream, so that what repeats costs little."""

    def __init__(self) -> None:
        self._zip = zlib.compressobj(6, zlib.DEFLATED, -15, 9)

    def pack(self, body: bytes) -> bytes:
        """Returns the piece that makes the body whole on the other side."""
        return self._zip.compress(body) + self._zip.flush(zlib.Z_SYNC_FLUSH)
