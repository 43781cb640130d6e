"""A panel in its place: its Axes, its furniture, and what it draws of one record."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from moe_lab.core.errors import InputError
from moe_lab.drawing import theme
from moe_lab_widgets.drawing.panel import Panel, PanelValues

USUAL = (44.0, 14.0, 66.0, 40.0)
"""Margins of a panel that has none of its own, before they are widened."""
SLOW, OFTEN = 0.015, 10
"""Seconds that a panel may take to draw a record; and how often in a row it takes longer before it says so."""
CHEAPER = {
    "Rectangle": "bars",
    "Text": "write",
    "Annotation": "write",
    "AxesImage": "image",
    "Legend": "ends",
    "Table": "cells",
}
"""The helper of `moe_lab_widgets.drawing.on_axes` that draws, for a fraction of the time, what these artists show."""

Box = tuple[float, float, float, float]


class PlacedPanel:
    """A panel in a figure.

    Args:
      figure: in which it draws.
      number: of the panel, from 1.
      span: pixels from the left at which it begins and ends.
      height: of the picture without its caption, in pixels.
      renderer: returns what measures text.

    Attributes:
      axes: of the panel; `furnish` may add more (twins, insets), which are in `family`.
      content: the artists of the present record, pins among them.
      version: grows each time that the furniture changes.
      advice: what would make drawing faster, in words; empty while it is fast.
    """

    def __init__(
        self,
        figure: Figure,
        panel: Panel,
        number: int,
        span: tuple[int, int],
        height: float,
        renderer: Callable[[], Any],
    ) -> None:
        self.figure, self.panel, self.number, self.span = figure, panel, number, span
        self._height, self._renderer = height, renderer
        self.margins: Box = panel.margins or USUAL
        self.axes = [theme.axes(figure, *box) for box in self._boxes()]
        self.family: list[Axes] = list(self.axes)
        self.head: list[Artist] = []
        self.content: list[Artist] = []
        self.version, self.advice = 0, ""
        self._furnished = False
        self._seen: PanelValues | None = None
        self.seconds = 0.0
        """That `draw` took for the present record."""
        self._slow = 0
        self._hidden: list[Artist] = []
        self._look: tuple[Any, ...] = ()
        self._free: list[str] = []
        self._data: list[Any] = []
        """Where the data lie that `furnish` has drawn, in each of the family."""
        self._containers: list[int] = []
        """How many groups of artists (bars, error bars) `furnish` has made in each of the family."""
        self._fresh: set[tuple[int, str]] = set()
        """Open limits that no data have set yet, by the number of the Axes and the axis."""

    @property
    def target(self) -> Any:
        """The argument of the panel's functions: its Axes, or the list of them."""
        return self.axes if len(self.axes) > 1 else self.axes[0]

    # ---- a run begins ----

    def keep_up(self, values: Mapping[str, Any]) -> None:
        """Furnishes the Axes again where a value that is only viewed has changed what they show."""
        if self._seen is not None and not self._seen.same(values):
            self.begin(values)

    def begin(self, values: Mapping[str, Any]) -> None:
        """Furnishes the Axes, unless all values that `furnish` has read are unchanged."""
        self.take_away(self.content)
        if self._seen is not None and self._seen.same(values):
            self._open_limits()
            return
        self._seen = None  # or a `furnish` that fails would not be asked again
        for artist in [*self.head, *(ax for ax in self.family if ax not in self.axes)]:
            artist.remove()
        self.head, self.family = [], list(self.axes)
        self.margins = self.panel.margins or USUAL  # what other ticks have needed is forgotten
        self._place()
        for ax in self.axes if self._furnished else ():  # new Axes are clear, and clearing takes as long as making them
            ax.clear()
            theme.plain(ax)
        self._furnished = True
        seen, known = PanelValues(values), set(map(id, self.figure.get_children()))
        self.panel.furnish(self.target, seen)
        made: list[Any] = [one for one in self.figure.get_children() if id(one) not in known]
        insets: list[Any] = [inset for ax in self.axes for inset in ax.child_axes]
        self.family += [*(one for one in made if isinstance(one, Axes)), *insets]
        self.head = [one for one in made if not isinstance(one, Axes)]
        self._write_head(self.panel.note_of(seen))
        self._free = [("x" * ax.get_autoscalex_on()) + ("y" * ax.get_autoscaley_on()) for ax in self.family]
        self._data = [ax.dataLim.frozen() for ax in self.family]
        self._containers = [len(ax.containers) for ax in self.family]
        self._open_limits()
        self._fit()
        self._look = self._looks()
        self._seen = seen
        self.version += 1

    def _write_head(self, note: str) -> None:
        before = set(map(id, self.figure.get_children()))
        left = self.span[0] + (14 if self.number == 1 else 4)
        theme.header(self.figure, left, self.number, self.panel.title)
        place = theme.spot(self.figure, left + 12, 42)
        self.figure.text(*place, note, color=theme.MUTED, size=theme.SMALL_SIZE, va="top", linespacing=1.2)
        self.head += [one for one in self.figure.get_children() if id(one) not in before]

    def _boxes(self) -> list[Box]:
        """Returns left, top, width and height of the Axes."""
        left, right, top, bottom = self.margins
        heights, columns, gap = self.panel.heights, self.panel.columns, self.panel.gap
        free = self._height - top - bottom - (len(heights) - 1) * gap
        wide = (self.span[1] - self.span[0] - left - right - (columns - 1) * gap) / columns
        boxes: list[Box] = []
        for part in heights:
            high = free * part / sum(heights)
            boxes += [(self.span[0] + left + column * (wide + gap), top, wide, high) for column in range(columns)]
            top += high + gap
        return boxes

    def _fit(self) -> bool:
        """Widens margins that ticks and labels need, where the panel has none of its own; returns whether it did."""
        if self.panel.margins is not None:
            return False
        scale = self.figure.dpi / theme.BASE_DPI
        self._show(False)
        boxes: list[Any] = [ax.get_tightbbox(self._renderer()) for ax in self.family]
        self._show(True)
        foot = self.figure.bbox.height / scale - self._height
        over = (
            self.span[0] + 6 - min(box.x0 for box in boxes) / scale,
            max(box.x1 for box in boxes) / scale - self.span[1] + 6,
            0.0,
            foot + 8 - min(box.y0 for box in boxes) / scale,
        )
        if max(over) <= 0.5:
            return False
        left, right, top, bottom = (one + max(more, 0) for one, more in zip(self.margins, over, strict=True))
        self.margins = left, right, top, bottom
        self._place()
        return True

    def _place(self) -> None:
        """Puts the Axes within the margins."""
        wide, high = self.figure.get_size_inches() * theme.BASE_DPI
        for ax, (x, y, width, height) in zip(self.axes, self._boxes(), strict=True):
            ax.set_position((*theme.spot(self.figure, x, y + height), width / wide, height / high))

    # ---- a record is drawn ----

    def update(self, now: Any) -> None:
        """Draws a record; once more where that has changed the furniture so that it needs more room."""
        begun = time.thread_time()
        self._draw(now)
        self.seconds = time.thread_time() - begun
        if (look := self._looks()) != self._look:
            self._look = look
            self.version += 1
            if self._fit():
                self._draw(now)

    def _draw(self, now: Any) -> None:
        self.take_away(self.content)
        for ax, count in zip(self.family, self._containers, strict=True):
            ax.set_prop_cycle(None)  # or colours would wander from frame to frame
            del ax.containers[count:]  # or legends would name what is gone
        self.content = self.added(lambda: self.panel.draw(self.target, now))
        for place, (ax, free) in enumerate(zip(self.family, self._free, strict=True)):
            for axis in free:
                self._grow(ax, place, axis)

    def added(self, draw: Callable[[], None]) -> list[Artist]:
        """Returns the artists that a function adds to the Axes, or to the figure; none stay where it fails.

        Raises:
          ValueError: it adds Axes, whose artists would be lost, or clears those that there are.
        """
        before, axes = set(map(id, self._artists())), set(map(id, self._all_axes()))
        patches, places = [ax.patch for ax in self.axes], [ax.get_position(original=True) for ax in self.axes]
        try:
            draw()
            if any(ax.patch is not patch for ax, patch in zip(self.axes, patches, strict=True)):
                self._seen = None  # the furniture is gone: the next run must not take it for granted
                rule = "draw must not clear its Axes, which hold what furnish has drawn"
                raise InputError(f"{rule}: got panel={self.panel.title!r}")
            if len(self._all_axes()) > len(axes):
                rule = "draw must not make Axes (twinx, inset_axes, colorbar): make them in furnish"
                raise InputError(f"{rule}: got panel={self.panel.title!r}")
        except BaseException:
            self._take_back(before, axes)
            for ax, place in zip(self.axes, places, strict=True):
                ax.set_position(place)  # of which a colour bar would have taken a part
            raise
        return [one for one in self._artists() if id(one) not in before]

    def _take_back(self, before: set[int], axes: set[int]) -> None:
        """Removes all artists and Axes but those that were there before."""
        for ax in self._all_axes():
            if id(ax) not in axes:
                ax.remove()
        if self._seen is not None:  # else they were cleared
            for artist in self._artists():
                if id(artist) not in before:
                    artist.remove()

    def _artists(self) -> list[Artist]:
        known: set[Any] = set(self.figure.axes)
        return [
            *(one for ax in self.family for one in ax.get_children()),
            *(one for one in self.figure.get_children() if one not in known),
        ]

    def _all_axes(self) -> list[Any]:
        return [*self.figure.axes, *(inset for ax in self.family for inset in ax.child_axes)]

    def take_away(self, artists: Sequence[Artist]) -> None:
        """Removes artists of the record, and does not draw them again."""
        for artist in artists:
            artist.remove()
        gone = set(map(id, artists))
        self.content = [one for one in self.content if id(one) not in gone]

    def watch_time(self, seconds: float) -> None:
        """Takes how long a record took to be drawn. Where that is too long again and again, keeps what is faster."""
        self._slow = self._slow + 1 if seconds > SLOW else 0
        if self._slow < OFTEN or self.advice:
            return
        kinds = Counter(type(one).__name__ for one in self.content)
        named = sorted({CHEAPER[kind] for kind in kinds if kind in CHEAPER})
        if named:  # else a busy machine may be to blame
            instead = f"{' and '.join(named)} of moe_lab_widgets.drawing.on_axes would be faster"
            self.advice = f"drawing “{self.panel.title}” takes {1000 * seconds:.0f} ms a frame: {instead}"

    # ---- limits that are left open ----

    def _open_limits(self) -> None:
        """Has the next record set the limits that the furniture leaves open."""
        for place, (ax, free, data) in enumerate(zip(self.family, self._free, self._data, strict=True)):
            ax.set_autoscale_on(False)
            ax.dataLim = data.frozen()
            self._fresh |= {(place, axis) for axis in free}

    def _grow(self, ax: Axes, place: int, axis: str) -> None:
        """Widens open limits where data lie outside, by so much that it need not be done again soon."""
        sharing = getattr(ax, f"get_shared_{axis}_axes")().get_siblings(ax)
        together = [one for one in self.family if one in sharing]
        if together[0] is not ax:
            return  # they have been widened together
        log = getattr(ax, f"get_{axis}scale")() == "log"
        lows, highs = zip(*(getattr(one.dataLim, f"interval{axis}") for one in together), strict=True)
        low, high = min(lows), max(highs)
        if log:
            low = max(low, min(getattr(one.dataLim, f"minpos{axis}") for one in together))
        there: Callable[[Any], Any] = np.log10 if log else np.asarray
        with np.errstate(invalid="ignore", divide="ignore"):
            low, high = there([low, high])
            before = there(np.sort(getattr(ax, f"get_{axis}lim")()))
        if not np.isfinite([low, high]).all():
            return
        room, fresh = 0.4 * (high - low) or 0.5, (place, axis) in self._fresh
        under, over = fresh or not before[0] <= low, fresh or not high <= before[1]
        if not under and not over:
            return
        self._fresh.discard((place, axis))
        margin = 0.1 * room if fresh else room
        ends = np.array([low - margin if under else before[0], high + margin if over else before[1]])
        getattr(ax, f"set_{axis}lim")(*(10.0**ends if log else ends), auto=False)

    # ---- what is drawn when ----

    def draw_furniture(self, renderer: Any) -> None:
        """Draws what does not belong to a record."""
        self._show(False)
        drawn: set[Any] = set(self.figure.axes)
        parts = [*self.head, *(ax for ax in self.family if ax in drawn)]
        for artist in sorted(parts, key=lambda one: one.get_zorder()):
            artist.draw(renderer)
        self._show(True)

    def _show(self, shown: bool) -> None:
        """Hides what belongs to the record, or shows it again."""
        if shown:
            for artist in self._hidden:
                artist.set_visible(True)
            return
        self._hidden = [artist for artist in self.content if artist.get_visible()]
        for artist in self._hidden:
            artist.set_visible(False)

    def touch(self) -> None:
        """Has the furniture drawn again."""
        self.version += 1

    def _looks(self) -> tuple[Any, ...]:
        """What the furniture depends on, as far as a function that draws may change it."""
        return tuple(
            (
                tuple(ax.viewLim.intervalx),
                tuple(ax.viewLim.intervaly),
                ax.get_xscale(),
                ax.get_yscale(),
                ax.get_title(),
                ax.xaxis.label.get_text(),
                ax.yaxis.label.get_text(),
                _ticks(ax.xaxis),
                _ticks(ax.yaxis),
                ax.get_aspect(),
                ax.axison,
            )
            for ax in self.family
        )


def _ticks(axis: Any) -> tuple[Any, ...]:
    """The kinds of locator and formatter, and what they hold: `set_yscale` makes new ones that are the same."""
    locator, formatter = axis.get_major_locator(), axis.get_major_formatter()
    return type(locator), tuple(getattr(locator, "locs", ())), type(formatter), tuple(getattr(formatter, "seq", ()))
