"""A matplotlib figure as a live picture: each frame redraws only what changes, over a fixed background.

A Lab's picture in five steps::

    class MyPicture(Picture):
        def __init__(self, values, scale=1.0):
            super().__init__(scale=scale)                   # 1100 x 480 px; the lowest 32 are the caption's
            theme.header(self.figure, 14, 1, "What moves", "a note")
            self.axes = theme.axes(self.figure, 60, 100, 280, 290)   # pixels from the top left
            (line,) = self.axes.plot([], [], color=theme.INK)
            self.line = self.live(line)                         # 1. register every artist that changes
        def begin(self, values):                                # 2. a run starts: limits may change here, nowhere else
            self.limits(self.axes, x=(0, values["epochs"]), y=(0, 1))   # redraws the background only when they differ
        def update(self, record):                               # 3. put a record into the artists; never draw here
            self.line.set_data(record.steps, record.losses)     # records are complete: they hold their own history
        def pin(self, records):                                 # 4. keep the present curves, as fixed artists
            ...; self.invalidate()
        def unpin(self):                                        # 5. and remove them again
            ...; self.invalidate()

`show(record)` updates the artists, `pixels()` is the frame, and `png(caption)` the whole picture with its caption, for
files and saved notebooks. How frames reach a page is not the picture's concern (see frames/). A `Sheet` (sheet.py)
shows boxes, tables and words that change, at a twentieth of the cost of patches and Texts; `put` (lines.py)
moves a line only where it changes; `Strip` shows uint8 RGBA pixels. Artists may be made in begin() too (other experts,
other rows): `remove(artist)` removes one; then `invalidate()`.
"""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from numpy.typing import NDArray

from moe_lab import theme

AnyArtist = TypeVar("AnyArtist", bound=Artist)
Name = Mapping[str, Any]

drawing_lock = threading.RLock()
"""Held while artists are touched: Labs draw on their own threads, and figures share matplotlib's font caches."""


def encode(pixels: NDArray[np.uint8], level: int = 1) -> bytes:
    """RGB(A) pixels (height, width, 3 or 4) as PNG; alpha is dropped. Half the time of Pillow at level 1."""
    height, width = pixels.shape[:2]
    rows = np.zeros((height, 1 + 3 * width), dtype=np.uint8)  # each row starts with its filter: 0, none
    rows[:, 1:].reshape(height, width, 3)[:] = pixels[..., :3]
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.data, level)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


class Strip(Artist):
    """Pixels at a fixed place, each `zoom` screen pixels wide, handed to the renderer as they are.

    Args:
      left, top: pixels from the top left of the figure at 100 dpi.
      zoom: screen pixels per pixel at 100 dpi; at a projector's 150 dpi it is rounded down to a whole number.
    """

    def __init__(self, left: float, top: float, zoom: int = 1, zorder: float = 3) -> None:
        super().__init__()
        self.left, self.top, self.zoom = left, top, zoom
        self.set_zorder(zorder)
        self.pixels: NDArray[np.uint8] | None = None

    def set_pixels(self, pixels: NDArray[np.uint8] | None) -> None:
        """(height, width, 4) uint8 RGBA, or None for nothing."""
        self.pixels = pixels
        self.stale = True

    def set_clip_path(self, path: Any, transform: Any = None) -> None:
        """Does nothing: pixels are not cut at Axes, and preparing for that takes longer than drawing them."""

    def draw(self, renderer: Any) -> None:
        if self.pixels is None or not self.get_visible():
            return
        scale = renderer.dpi / theme.BASE_DPI
        zoom = max(int(self.zoom * scale), 1)
        shown = self.pixels.repeat(zoom, axis=0).repeat(zoom, axis=1) if zoom > 1 else self.pixels
        bottom = renderer.height - round(self.top * scale) - shown.shape[0]
        context = renderer.new_gc()
        renderer.draw_image(context, round(self.left * scale), bottom, np.ascontiguousarray(shown[::-1]))
        context.restore()


class Picture:
    """See the module's text for how to make one.

    Args:
      width, height: pixels at 100 dpi; the caption takes the lowest `CAPTION_HEIGHT`.
      scale: 1 on a screen, 1.5 for a projector.
    """

    CAPTION_HEIGHT = 32
    spans: Sequence[tuple[int, int]] = ()
    """Left and right of each panel at 100 dpi, from left to right: a narrow page stacks them."""

    def __init__(self, width: int = 1100, height: int = 480, scale: float = 1.0) -> None:
        self.width, self.height = width, height - self.CAPTION_HEIGHT
        self.figure = theme.figure(width, height, scale)
        self.canvas = FigureCanvasAgg(self.figure)
        self.names: WeakKeyDictionary[Artist, Name | Callable[[], Name]] = WeakKeyDictionary()
        """What a pointer over a live artist shows (see `name`)."""
        self._live: list[Artist] = []
        self._versions: WeakKeyDictionary[Artist, int] = WeakKeyDictionary()
        self._background: NDArray[np.uint8] | None = None

    @property
    def scale(self) -> float:
        """Device pixels per pixel at 100 dpi."""
        return float(self.figure.dpi / theme.BASE_DPI)

    @property
    def foot(self) -> int:
        """Device pixels of the caption."""
        return round(self.CAPTION_HEIGHT * self.scale)

    # ---- what a Lab's picture writes ----

    def begin(self, values: dict[str, Any]) -> None:
        """Prepares the picture for a run with these values. Limits change here and nowhere else."""

    def set_view(self, values: dict[str, Any]) -> None:
        """Keeps the values of the view-only knobs for the next update. Called from any thread: draw nothing here."""

    def update(self, record: Any) -> None:
        """Puts a record into the live artists."""
        raise NotImplementedError(f"{type(self).__name__} must write update(record)")

    def pin(self, records: Sequence[Any]) -> None:
        """Keeps the curves of these records, to compare with later ones. Called with `drawing_lock` held."""

    def unpin(self) -> None:
        """Removes the kept curves. Called with `drawing_lock` held."""

    # ---- what it uses ----

    def live(self, artist: AnyArtist) -> AnyArtist:
        """Registers an artist that changes from frame to frame. An artist without a figure is added to this one."""
        if artist.get_figure() is None:
            self.figure.add_artist(artist)
        artist.set_animated(True)
        self._live.append(artist)
        self._live.sort(key=lambda live: live.get_zorder())
        return artist

    def name(self, artist: AnyArtist, name: Name | Callable[[], Name]) -> AnyArtist:
        """Says what a pointer over a live artist shows, or gives a function that is asked once for each background.

        `{"name": words}`; for points and lines with `x` and `y`, each what `along` returns; for tables with the words
        of `rows` and `columns`; for boxes with their words as `parts`, in the order in which they are drawn.
        """
        self.names[artist] = name
        return artist

    def along(
        self,
        words: str,
        axes: Axes,
        axis: str,
        limits: tuple[float, float] | None = None,
        *,
        log: bool = False,
        percent: bool = False,
    ) -> list[Any]:
        """Returns how a place along an axis is read, for `name`: values at its ends (default: its limits)."""
        box = axes.get_window_extent()
        high = self.figure.bbox.height
        ends = (box.x0, box.x1) if axis == "x" else (high - box.y0, high - box.y1)
        low, most = limits or getattr(axes, f"get_{axis}lim")()
        return [words, float(low), float(most), *(round(float(end), 1) for end in ends), int(log), int(percent)]

    def remove(self, artist: Artist) -> None:
        """Removes an artist, live or not, from the picture."""
        if artist in self._live:
            self._live.remove(artist)
        artist.remove()

    def limits(self, axes: Axes, x: tuple[float, float] | None = None, y: tuple[float, float] | None = None) -> None:
        """Sets limits; the background is drawn again only when they differ."""
        if x is not None and tuple(axes.get_xlim()) != tuple(map(float, x)):
            axes.set_xlim(*x)
            self.invalidate()
        if y is not None and tuple(axes.get_ylim()) != tuple(map(float, y)):
            axes.set_ylim(*y)
            self.invalidate()

    def invalidate(self) -> None:
        """Marks the background as changed: the next frame draws it again (60-110 ms)."""
        self._background = None

    # ---- what the Lab and the frames call ----

    def set_scale(self, scale: float) -> None:
        """Draws everything larger or smaller from the next `update` on. A recording of frames must be begun anew."""
        with drawing_lock:
            self.figure.set_dpi(theme.BASE_DPI * scale)
            self.canvas = FigureCanvasAgg(self.figure)
            self.invalidate()

    def show(self, record: Any) -> None:
        """Updates the artists."""
        with drawing_lock:
            self.update(record)

    def pixels(self) -> NDArray[np.uint8]:
        """Returns what is shown, (height, width, 4) without the caption; valid until the next call."""
        with drawing_lock:
            return self._drawn()[: -self.foot]

    def png(self, caption: str = "") -> bytes:
        """Returns the whole picture with the caption drawn in, compressed well."""
        with drawing_lock:
            drawn = self._drawn()
            renderer = self.canvas.get_renderer()
            added = theme.caption(self.figure, caption, self.CAPTION_HEIGHT)
            for artist in added:
                artist.draw(renderer)
                artist.remove()
            return encode(drawn, level=9)

    def background(self) -> NDArray[np.uint8]:
        """Returns the fixed part (height, width, 4); another array only when something of it has changed."""
        if self._background is None:
            self.canvas.draw()
            self._background = np.array(self.canvas.buffer_rgba())
        return self._background

    def live_artists(self) -> Iterator[tuple[Artist, int]]:
        """Yields the visible live artists from back to front, each with a number that grows when it changes."""
        for artist in self._live:
            if artist.stale:
                artist.stale = False
                self._versions[artist] = self._versions.get(artist, 0) + 1
            if artist.get_visible():
                yield artist, self._versions.get(artist, 0)

    def _drawn(self) -> NDArray[np.uint8]:
        background = self.background()
        pixels = np.asarray(self.canvas.buffer_rgba())
        pixels[:] = background
        renderer = self.canvas.get_renderer()
        for artist, _ in self.live_artists():
            artist.draw(renderer)
        return pixels

    def close(self) -> None:
        """Frees the pixels."""
        with drawing_lock:
            self._live.clear()
            self.names.clear()
            self._background = None
            self.figure.clear()
