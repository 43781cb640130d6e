"""A picture as panels side by side (see panel.py): furniture once for each run, all else anew for each record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab_widgets.drawing.laid import Laid
from moe_lab_widgets.drawing.panel import Panel
from moe_lab_widgets.drawing.picture import Name, Picture
from moe_lab_widgets.drawing.sheet import Sheet

PINNED: dict[str, Any] = {"linewidth": 1.6, "linestyle": ":", "zorder": 2.5, "label": "pinned"}
PIN_NOTE = (14, 24)
"""Where the note on pinned lines ends: pixels from the right of its panel, and from the top."""


class PanelPicture(Picture):
    """Shows panels side by side, each of a width in proportion to its `Panel.width`.

    Attributes:
      laid: the panels in their places.
    """

    anew = True
    """Whether every frame has artists of its own (see frames/reel.py)."""

    def __init__(self, panels: Sequence[Panel], scale: float = 1.0) -> None:
        super().__init__(scale=scale)
        edges = np.cumsum([0, *(panel.width for panel in panels)])
        edges = np.rint(edges / edges[-1] * self.width).astype(int).tolist()
        self.spans = list(pairwise(edges))
        self.laid = [
            Laid(self.figure, panel, number, span, self.height, lambda: self.canvas.get_renderer())
            for number, (panel, span) in enumerate(zip(panels, self.spans, strict=True), 1)
        ]
        self._drawn_versions = [-1] * len(self.laid)
        self._known_names: dict[Any, tuple[int, Name]] = {}
        self._view: dict[str, Any] = {}
        self._pins: list[tuple[Laid, Callable[[], None]]] = []
        self._pinned: list[tuple[Laid, list[Artist]]] = []

    # ---- what the Lab calls ----

    def set_view(self, values: dict[str, Any]) -> None:
        self._view = dict(values)

    def begin(self, values: dict[str, Any]) -> None:
        for laid in self.laid:
            laid.begin(values)

    def update(self, record: Any) -> None:
        now = record.seen_with(self._view) if self._view else record
        for laid in self.laid:
            laid.update(now)
        self._draw_pins()

    @property
    def advice(self) -> str:
        """What would make drawing faster, in words; empty while it is fast."""
        return "; ".join(laid.advice for laid in self.laid if laid.advice)

    # ---- pins ----

    def pin(self, records: Sequence[Any]) -> None:
        self._pins = []
        self.update(records[-1])
        now = records[-1].seen_with(self._view) if self._view else records[-1]
        for laid in self.laid:
            if laid.panel.pin is not None:
                self._pins.append((laid, partial(laid.panel.pin, laid.target, now)))
            elif kept := [_copied(one) for one in laid.content if _kept_by_a_pin(one)]:
                self._pins.append((laid, partial(_draw_dotted, laid, kept, noted=not self._pins)))
        self._draw_pins()

    def unpin(self) -> None:
        self._pins = []
        for laid, artists in self._pinned:
            laid.take_away([one for one in artists if one in laid.content])
        self._pinned = []

    def _draw_pins(self) -> None:
        self._pinned = []
        for laid, draw in self._pins:
            artists = laid.added(draw)
            laid.content += artists
            self._pinned.append((laid, artists))

    # ---- what the frames ask ----

    def set_scale(self, scale: float) -> None:
        super().set_scale(scale)
        for laid in self.laid:
            laid.touch()

    def background(self) -> NDArray[np.uint8]:
        versions = [laid.version for laid in self.laid]
        if self._background is not None and versions == self._drawn_versions:
            return self._background
        renderer = self.canvas.get_renderer()
        drawn, made = np.asarray(self.canvas.buffer_rgba()), self._background
        known = self._drawn_versions if made is not None else [-1] * len(versions)
        made = np.full_like(drawn, theme.rgba(theme.PAPER)) if made is None else made.copy()
        for laid, before in zip(self.laid, known, strict=True):
            if laid.version == before:
                continue
            drawn[:] = theme.rgba(theme.PAPER)
            laid.draw_furniture(renderer)
            left, right = (round(edge * self.scale) for edge in laid.span)
            made[:, left:right] = drawn[:, left:right]  # what is wider than its panel is cut off
        self._background, self._drawn_versions = made, versions
        return made

    def live_artists(self) -> Iterator[tuple[Artist, int]]:
        for laid in self.laid:
            begun = time.thread_time()
            for artist in sorted(laid.content, key=lambda one: one.get_zorder()):
                if artist.get_visible():
                    self._name(laid, artist)
                    yield artist, 0
            laid.watch_time(laid.seconds + time.thread_time() - begun)  # what the caller took to draw them

    def _name(self, laid: Laid, artist: Artist) -> None:
        """Names an artist after its label, and says how places along the axes are read."""
        parts, ax = getattr(artist, "parts", None), artist.axes
        if parts is None and (ax is None or not _labelled(artist)):
            return
        key = (id(ax), tuple(parts) if parts else artist.get_label())
        version, name = self._known_names.get(key, (-1, {}))
        if version != laid.version:  # other limits are read otherwise
            name = {"parts": parts} if parts else {"name": artist.get_label(), **self._read(ax)}
            self._known_names[key] = laid.version, name
        self.names[artist] = name

    def _read(self, ax: Any) -> Name:
        """How places along the axes that have ticks are read."""
        read = {}
        for axis in "xy":
            one = getattr(ax, f"{axis}axis")
            if len(one.get_ticklocs()):
                words = one.label.get_text() or getattr(ax, f"reads_{axis}", axis)
                percent = isinstance(one.get_major_formatter(), PercentFormatter)
                log = getattr(ax, f"get_{axis}scale")() == "log"
                read[axis] = self.along(words, ax, axis, log=log, percent=percent)
        return read

    def close(self) -> None:
        super().close()
        self.laid, self._pins, self._pinned = [], [], []
        self._known_names.clear()


def _labelled(artist: Artist) -> bool:
    return not str(artist.get_label() or "_").startswith("_")


def _kept_by_a_pin(artist: Artist) -> bool:
    """Whether an artist is a labelled line with points."""
    return (
        isinstance(artist, Line2D)
        and _labelled(artist)
        and artist.get_linestyle() != "None"
        and np.size(artist.get_xdata(orig=True)) > 0
    )


def _copied(line: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Returns the Axes of a line, its points, and its looks: the line itself goes with its frame."""
    return line.axes, line.get_data(orig=True), {"color": line.get_color(), "clip_on": line.get_clip_on()}


def _draw_dotted(laid: Laid, lines: Sequence[tuple[Any, Any, dict[str, Any]]], *, noted: bool) -> None:
    """Draws pinned lines, and says so in the first panel that has some."""
    for ax, points, looks in lines:
        ax.plot(*points, **{**PINNED, **looks})
    if noted:
        words = Sheet()
        words.write(laid.span[1] - PIN_NOTE[0], PIN_NOTE[1], "dotted: pinned", "right", colour=theme.MUTED)
        laid.axes[0].add_artist(words)
