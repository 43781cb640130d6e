"""A picture as panels side by side (see panel.py): furniture once for each run, all else anew for each record.

`show(record)` draws a record, `pixels()` is the frame, and `png(caption)` the whole picture with its caption, for files
and saved notebooks. How frames reach a page is not the picture's concern (see frames/).
"""

from __future__ import annotations

import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

from moe_lab.drawing import theme
from moe_lab.drawing.style import fixed_style
from moe_lab_widgets.drawing.panel import Panel
from moe_lab_widgets.drawing.placed import PlacedPanel
from moe_lab_widgets.drawing.sheet import Sheet

Name = Mapping[str, Any]
PINNED: dict[str, Any] = {"linewidth": 1.6, "linestyle": ":", "zorder": 2.5, "label": "pinned"}
PIN_NOTE = (14, 24)
"""Where the note on pinned lines ends: pixels from the right of its panel, and from the top."""


class _DrawingLock:
    """A lock that its thread may take again. Whoever holds it draws in the one style of all pictures."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._styles: list[AbstractContextManager[None]] = []

    def __enter__(self) -> None:
        self._lock.acquire()
        self._styles.append(fixed_style())
        self._styles[-1].__enter__()

    def __exit__(self, *error: Any) -> None:
        self._styles.pop().__exit__(*error)
        self._lock.release()

    def mine(self) -> bool:
        """Whether the present thread holds it."""
        return bool(self._lock._is_owned())  # type: ignore[attr-defined]


drawing_lock = _DrawingLock()
"""Held while artists are touched: Labs draw on their own threads, and figures share matplotlib's font caches."""


def encode(pixels: NDArray[np.uint8], level: int = 1) -> bytes:
    """Encodes RGB(A) pixels (height, width, 3 or 4) as PNG without alpha, in half the time of Pillow at level 1."""
    height, width = pixels.shape[:2]
    rows = np.zeros((height, 1 + 3 * width), dtype=np.uint8)  # each row starts with its filter: 0, none
    rows[:, 1:].reshape(height, width, 3)[:] = pixels[..., :3]
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.data, level)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


class Picture:
    """Shows panels side by side, each of a width in proportion to its `Panel.width`.

    Args:
      panels: from left to right.
      scale: 1 on a screen, 1.5 for a projector.
      width, height: pixels at 100 dpi; the caption takes the lowest `CAPTION_HEIGHT`.

    Attributes:
      width, height: of the panels, in pixels at 100 dpi.
      placed: the panels in their places.
      spans: left and right of each panel at 100 dpi: a narrow page stacks them.
      names: what a pointer over an artist of the record shows: `{"name": words}`, with `x` and `y` (see `_along`) where
        places are read along axes; for boxes their words as `parts`, in the order in which they are drawn.
    """

    CAPTION_HEIGHT = 32
    width, height = 1100, 480 - CAPTION_HEIGHT

    def __init__(self, panels: Sequence[Panel], scale: float = 1.0) -> None:
        with drawing_lock:
            self._make(panels, scale)
        self.names: WeakKeyDictionary[Artist, Name] = WeakKeyDictionary()
        self._known_names: dict[Any, tuple[int, Name]] = {}
        self._background: NDArray[np.uint8] | None = None
        self._drawn_versions: list[int] = []
        self._view: dict[str, Any] = {}
        self._pins: list[tuple[PlacedPanel, Callable[[Any], None]]] = []
        self._pinned: list[tuple[PlacedPanel, list[Artist]]] = []

    def _make(self, panels: Sequence[Panel], scale: float) -> None:
        """Makes the figure and the panels in their places."""
        self.figure = theme.figure(self.width, self.height + self.CAPTION_HEIGHT, scale)
        self.canvas = FigureCanvasAgg(self.figure)
        edges = np.cumsum([0, *(panel.width for panel in panels)], dtype=float)
        edges = np.rint(edges / max(edges[-1], 1) * self.width).astype(int)
        self.spans: list[tuple[int, int]] = list(pairwise(edges.tolist()))
        self.placed = [
            PlacedPanel(self.figure, panel, number, span, self.height, lambda: self.canvas.get_renderer())
            for number, (panel, span) in enumerate(zip(panels, self.spans, strict=True), 1)
        ]

    @property
    def scale(self) -> float:
        """Device pixels per pixel at 100 dpi."""
        return float(self.figure.dpi / theme.BASE_DPI)

    @property
    def foot(self) -> int:
        """Device pixels of the caption."""
        return round(self.CAPTION_HEIGHT * self.scale)

    # ---- what the Lab calls ----

    def set_view(self, values: dict[str, Any]) -> None:
        """Keeps the values of the view-only knobs for the next update. Called from any thread: draws nothing."""
        self._view = dict(values)

    def begin(self, values: dict[str, Any]) -> None:
        """Furnishes the panels for a run with these values."""
        with drawing_lock:
            for placed in self.placed:
                placed.begin(values)

    def show(self, record: Any) -> None:
        """Draws a `Record`."""
        with drawing_lock:
            self.update(record)

    def update(self, record: Any) -> None:
        """Draws a record. Called with `drawing_lock` held."""
        now = record.seen_with(self._view) if self._view else record
        for placed in self.placed:
            if self._view:
                placed.keep_up(now.values)
            placed.update(now)
        self._draw_pins(now)

    @property
    def advice(self) -> str:
        """What would make drawing faster, in words; empty while it is fast."""
        return "; ".join(placed.advice for placed in self.placed if placed.advice)

    # ---- pins ----

    def pin(self, records: Sequence[Any]) -> None:
        """Keeps the latest of these records, to compare with later ones. Called with `drawing_lock` held."""
        self._pins = []
        self.update(records[-1])
        now = records[-1].seen_with(self._view) if self._view else records[-1]
        for placed in self.placed:
            if placed.panel.pin is not None:
                self._pins.append((placed, partial(placed.panel.pin, placed.target, now)))
            elif kept := [_copied(placed, one) for one in placed.content if _kept_by_a_pin(placed, one)]:
                self._pins.append((placed, partial(_draw_dotted, placed, kept, noted=not self._pins)))
        self._draw_pins(now)

    def unpin(self) -> None:
        """Removes what is kept. Called with `drawing_lock` held."""
        self._pins = []
        for placed, artists in self._pinned:
            placed.take_away([one for one in artists if one in placed.content])
        self._pinned = []

    def _draw_pins(self, now: Any) -> None:
        self._pinned = []
        for placed, draw in self._pins:
            artists = placed.added(partial(draw, now))
            placed.content += artists
            self._pinned.append((placed, artists))

    # ---- what the frames ask ----

    def set_scale(self, scale: float) -> None:
        """Draws everything larger or smaller from the next `update` on. A recording of frames must be restarted."""
        with drawing_lock:
            self.figure.set_dpi(theme.BASE_DPI * scale)
            self.canvas = FigureCanvasAgg(self.figure)
            self._background = None
            for placed in self.placed:
                placed.touch()

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

    def _drawn(self) -> NDArray[np.uint8]:
        background = self.background()
        pixels = np.asarray(self.canvas.buffer_rgba())
        pixels[:] = background
        renderer = self.canvas.get_renderer()
        for artist in self.content():
            artist.draw(renderer)
        return pixels

    def background(self) -> NDArray[np.uint8]:
        """Returns the furniture of all panels (height, width, 4); only that which has changed is drawn again."""
        versions, made = [placed.version for placed in self.placed], self._background
        if made is not None and versions == self._drawn_versions:
            return made
        renderer = self.canvas.get_renderer()
        drawn = np.asarray(self.canvas.buffer_rgba())
        known = self._drawn_versions if made is not None else [-1] * len(versions)
        made = np.full_like(drawn, theme.rgba(theme.PAPER)) if made is None else made.copy()
        for placed, before in zip(self.placed, known, strict=True):
            if placed.version == before:
                continue
            drawn[:] = theme.rgba(theme.PAPER)
            placed.draw_furniture(renderer)
            left, right = (round(edge * self.scale) for edge in placed.span)
            made[:, left:right] = drawn[:, left:right]  # what is wider than its panel is cut off
        self._background, self._drawn_versions = made, versions
        return made

    def content(self) -> Iterator[Artist]:
        """Yields the visible artists of the record, panel by panel, from back to front."""
        for placed in self.placed:
            begun = time.thread_time()
            for artist in sorted(placed.content, key=lambda one: one.get_zorder()):
                if artist.get_visible():
                    self._name(placed, artist)
                    yield artist
            placed.watch_time(placed.seconds + time.thread_time() - begun)  # what the caller took to draw them

    def _name(self, placed: PlacedPanel, artist: Artist) -> None:
        """Names an artist after its label, and says how places along the axes are read."""
        parts, table, ax = getattr(artist, "parts", None), getattr(artist, "table", None), artist.axes
        if parts is None and table is None and (ax is None or not _labelled(artist)):
            return
        key = table or (id(ax), tuple(parts) if parts else artist.get_label())
        version, name = self._known_names.get(key, (-1, {}))
        if version != placed.version:  # other limits are read otherwise
            if table:
                name = dict(zip(("name", "rows", "columns"), table, strict=True))
            else:
                name = {"parts": parts} if parts else {"name": artist.get_label(), **self._read(ax)}
            self._known_names[key] = placed.version, name
        self.names[artist] = name

    def _read(self, ax: Any) -> Name:
        """How places along the axes that have ticks are read."""
        read = {}
        for axis in "xy":
            one = getattr(ax, f"{axis}axis")
            words = getattr(ax, f"reads_{axis}", one.label.get_text() or axis)
            if words is not None and len(one.get_ticklocs()):
                percent = isinstance(one.get_major_formatter(), PercentFormatter)
                log = getattr(ax, f"get_{axis}scale")() == "log"
                read[axis] = self._along(words, ax, axis, log=log, percent=percent)
        return read

    def _along(self, words: str, ax: Axes, axis: str, *, log: bool, percent: bool) -> list[Any]:
        """Returns how a place along an axis is read: values at its ends, and where these are."""
        box = ax.get_window_extent()
        high = self.figure.bbox.height
        ends = (box.x0, box.x1) if axis == "x" else (high - box.y0, high - box.y1)
        low, most = getattr(ax, f"get_{axis}lim")()
        return [words, float(low), float(most), *(round(float(end), 1) for end in ends), int(log), int(percent)]

    def close(self) -> None:
        """Frees the pixels and the artists."""
        with drawing_lock:
            self.placed, self._pins, self._pinned, self._background = [], [], [], None
            self.names.clear()
            self._known_names.clear()
            for ax in self.figure.axes:
                self.figure.delaxes(ax)  # not `clear`, which makes every axis anew


def _labelled(artist: Artist) -> bool:
    return not str(artist.get_label() or "_").startswith("_")


def _kept_by_a_pin(placed: PlacedPanel, artist: Artist) -> bool:
    """Whether an artist is a labelled line with points, in Axes of the panel."""
    return (
        isinstance(artist, Line2D)
        and artist.axes in placed.family
        and _labelled(artist)
        and artist.get_linestyle() != "None"
        and np.size(artist.get_xdata(orig=True)) > 0
    )


def _copied(placed: PlacedPanel, line: Any) -> tuple[int, Any, dict[str, Any]]:
    """Returns in which Axes a line is, its points, and its looks: the line itself goes with its frame."""
    looks = {"color": line.get_color(), "clip_on": line.get_clip_on()}
    return placed.family.index(line.axes), line.get_data(orig=True), looks


def _draw_dotted(placed: PlacedPanel, lines: Sequence[tuple[int, Any, dict[str, Any]]], _: Any, *, noted: bool) -> None:
    """Draws pinned lines, and says so in the first panel that has some; another run may have fewer Axes."""
    for place, points, looks in lines:
        if place < len(placed.family):
            placed.family[place].plot(*points, **{**PINNED, **looks})
    if noted:
        words = Sheet()
        words.write(placed.span[1] - PIN_NOTE[0], PIN_NOTE[1], "dotted: pinned", "right", colour=theme.MUTED)
        placed.axes[0].add_artist(words)
