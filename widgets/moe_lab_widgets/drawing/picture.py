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

`picture.image` is the widget to show, `draw(record)` draws a frame (updates the artists, draws, encodes), and
`png(caption)` returns the whole picture with its caption, for files and saved notebooks. `Strip` shows uint8
RGBA pixels at a tenth of the cost of imshow. Artists may be made in begin() too (other experts, other rows):
`remove(artist)` removes one; then `invalidate()`.
Text is expensive (about 1 ms per word): draw numbers as markers, or into the background, or change them rarely.
"""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Sequence
from typing import Any, TypeVar

import ipywidgets
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from numpy.typing import NDArray

from moe_lab import theme

AnyArtist = TypeVar("AnyArtist", bound=Artist)

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

    def __init__(self, width: int = 1100, height: int = 480, scale: float = 1.0) -> None:
        self.figure = theme.figure(width, height, scale)
        self.canvas = FigureCanvasAgg(self.figure)
        self._live: list[Artist] = []
        self._background: Any = None
        self._foot = round(self.CAPTION_HEIGHT * scale)
        shown = height - self.CAPTION_HEIGHT
        layout = {"width": f"{width * scale:g}px", "max_width": "100%", "flex": "0 0 auto", "margin": "0"}
        self.image = ipywidgets.Image(
            format="png", layout=layout, width=f"{width * scale:g}", height=f"{shown * scale:g}"
        )

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

    # ---- what the Lab calls ----

    def draw(self, record: Any) -> None:
        """Draws one frame: updates the artists, draws them over the background, and sends the PNG."""
        with drawing_lock:
            self.update(record)
            png = encode(self._pixels()[: -self._foot])
        self.image.value = png

    def png(self, caption: str = "") -> bytes:
        """Returns the whole picture with the caption drawn in, compressed well."""
        with drawing_lock:
            self._pixels()
            renderer = self.canvas.get_renderer()
            added = theme.caption(self.figure, caption, self.CAPTION_HEIGHT)
            for artist in added:
                artist.draw(renderer)
                artist.remove()
            return encode(np.asarray(self.canvas.buffer_rgba()), level=9)

    def _pixels(self) -> NDArray[np.uint8]:
        if self._background is None:
            self.canvas.draw()
            self._background = self.canvas.copy_from_bbox(self.figure.bbox)
        else:
            self.canvas.restore_region(self._background)
        renderer = self.canvas.get_renderer()
        for artist in self._live:
            artist.draw(renderer)
        return np.asarray(self.canvas.buffer_rgba())

    def close(self) -> None:
        """Frees the widget and the pixels."""
        self.image.close()
        with drawing_lock:
            self._live.clear()
            self._background = None
            self.figure.clear()
