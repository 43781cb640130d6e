"""A panel of errors over time on a logarithmic axis, for two methods: trials, medians, marks and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab_widgets.drawing.lines import put
from moe_lab_widgets.drawing.picture import Name
from moe_lab_widgets.drawing.pins import Pin, PinnedPanel
from moe_lab_widgets.drawing.scene import Scene
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.drawing.tables import LINE, Table
from moe_lab_widgets.drawing.trials import HALF, MOST_LINES, SPREAD, Trials, few
from moe_lab_widgets.drawing.words import median

FOUND_COLOUR = "#0B5F5A"
"""The dark end of the ramp."""
TABLE = 398
"""Pixels from the top to the middle of the line above the counts."""
HEADS = (("✓ found", FOUND_COLOUR), ("✗ stuck", theme.FAILURE), ("▽ falling", theme.MUTED))
"""Of the columns of counts."""


class ErrorHistory(NamedTuple):
    """The errors of one method.

    Attributes:
      steps: (m,).
      values: (m, trial).
      stuck, falling: (trial,) which trials get a mark at their end.
    """

    steps: NDArray[Any]
    values: NDArray[np.float64]
    stuck: NDArray[np.bool_]
    falling: NDArray[np.bool_]


def log_places(values: NDArray[Any], low: float, high: float) -> NDArray[np.float64]:
    """Returns places from 0 to 1 on a logarithmic axis, clipped at its ends."""
    with np.errstate(divide="ignore"):
        places = np.log(np.asarray(values, dtype=float) / low) / np.log(high / low)
    return np.asarray(np.clip(places, 0, 1))


class ErrorCurves(PinnedPanel):
    """Thin lines or bands are trials, thick lines medians.

    Subclasses write `x_of`, `y_of`, `read` and what stands at the axes.

    Args:
      names, colours: of the methods, by key.
      box: left, top, width and height of the axes.
      columns: left edge and width of the columns of counts.
    """

    def __init__(
        self,
        scene: Scene,
        span: tuple[int, int],
        *,
        names: Mapping[str, str],
        colours: Mapping[str, str],
        box: tuple[float, float, float, float],
        columns: tuple[int, int],
    ) -> None:
        super().__init__(scene, span)
        self.method_names, self.colours, self.box, self.columns = names, colours, box, columns
        self.axes: Axes = theme.axes(scene.figure, *box, xlim=(0, 1), ylim=(0, 1))
        self.axes.set_xticks([])
        self.axes.set_yticks([])
        self.lines = dict(zip(names, ("-", "--"), strict=True))
        self.trials: dict[str, Trials] = {}
        self.thick: dict[str, Line2D] = {}
        self.stuck: dict[str, Line2D] = {}
        self.falling: dict[str, Line2D] = {}
        for method in reversed(list(names)):
            self._add(method)
        self.names = scene.live(Sheet())
        self.counts = scene.live(Sheet())
        self._table = Table(columns[0], TABLE + 8, len(names), 3, LINE, columns[1])
        heads = [words for words, _ in HEADS]
        scene.name(self.counts, {"parts": self._table.names(list(names.values()), heads)})

    def _add(self, method: str) -> None:
        """Makes the live artists of a method."""
        axes, scene, colour, line = self.axes, self.scene, self.colours[method], self.lines[method]
        hollow: dict[str, Any] = {"markerfacecolor": theme.PAPER, "markeredgewidth": 1.4}
        common: dict[str, Any] = {"linestyle": "none", "clip_on": False, "zorder": 5}
        thin = LineCollection([], linestyles=line, colors=[(colour, 0.55)], linewidths=0.9, zorder=2)
        self.trials[method] = trials = Trials(scene, axes, thin, colour)
        (thick,) = axes.plot([], [], color=colour, linewidth=2.6, linestyle=line, zorder=3)
        (stuck,) = axes.plot([], [], "X", color=theme.FAILURE, markersize=9, markeredgecolor=theme.PAPER, **common)
        (falling,) = axes.plot([], [], "v", color=colour, markersize=8, **hollow, **common)
        self.thick[method] = scene.live(thick)
        self.stuck[method], self.falling[method] = scene.live(stuck), scene.live(falling)
        words = {
            trials.bands: HALF,
            trials.spread: SPREAD,
            thin: "a trial",
            thick: "median",
            stuck: "stuck",
            falling: "still falling",
        }
        for artist, what in words.items():
            scene.name(artist, partial(self.named, f"{self.method_names[method]}, {what}"))

    def head(self, measured: str, trials: int) -> str:
        """Returns the words above the axes: what is measured, and what stands for the trials."""
        if trials == 1:
            return f"{measured}, the one trial"
        if trials > MOST_LINES:
            return f"{measured}; half, 90 % of {trials:,} trials"
        return f"{measured}; thin: {trials} trials, thick: median"

    def named(self, words: str) -> Name:
        """Returns what a pointer over a curve shows."""
        return {"name": words, **self.read()}

    def read(self) -> Name:
        """Returns how places on both axes are read (see `Picture.along`)."""
        raise NotImplementedError(f"{type(self).__name__} must write read()")

    def x_of(self, steps: NDArray[Any]) -> NDArray[np.float64]:
        """Returns places of steps on the axis, from 0 to 1."""
        raise NotImplementedError(f"{type(self).__name__} must write x_of(steps)")

    def y_of(self, errors: NDArray[Any]) -> NDArray[np.float64]:
        """Returns places of errors on the axis, from 0 to 1."""
        raise NotImplementedError(f"{type(self).__name__} must write y_of(errors)")

    def write_axis(self, name: str, steps: Sequence[float]) -> None:
        """Writes the steps below the axis, its name, and the heads of the table of counts."""
        left, top, width, height = self.box
        for step in steps:
            self.write(
                left + width * float(self.x_of(np.array(step))), top + height + 12, f"{round(step)}", ha="center"
            )
        below: dict[str, Any] = {"ha": "center", "size": theme.TEXT_SIZE, "color": theme.INK}
        self.write(left + width / 2, top + height + 29, name, **below)
        edge, wide = self.columns
        for column, (words, colour) in enumerate(HEADS):
            self.write(edge + (column + 0.5) * wide, TABLE, words, ha="center", color=colour)
        for row, (method, words) in enumerate(self.method_names.items()):
            style: dict[str, Any] = {"color": self.colours[method], "weight": "bold"}
            self.write(edge - 6, TABLE + 17 * (row + 1), words, ha="right", **style)

    def show_errors(self, errors: Mapping[str, ErrorHistory]) -> dict[str, float]:
        """Draws the errors of all methods and returns their last medians, NaN where there are none."""
        ends = {}
        for method, (steps, values, *marked) in errors.items():
            x, y, middle = self.x_of(steps), self.y_of(values), median(values)
            self.trials[method].show(x, y)
            put(self.thick[method], x, self.y_of(middle))
            shown = few(y[-1]) if len(y) else np.zeros(0, dtype=np.int64)
            for marks, which in zip((self.stuck, self.falling), marked, strict=True):
                last = y[-1][shown[which[shown]]] if len(y) else y.reshape(-1)[:0]
                put(marks[method], np.repeat(x[-1:], len(last)), last)
            ends[method] = float(middle[-1]) if len(middle) else np.nan
        return ends

    def show_counts(self, words: list[list[str]]) -> None:
        """Writes for every method how many trials have found all, are stuck and are falling."""
        with self.counts.anew() as counts:
            self._table.fill(counts, [word for row in words for word in row], size=theme.TEXT_SIZE, bold=True)

    def keep(self, record: Any) -> None:
        """Pins all medians up to a record, whose `errors(method)` are the steps (m,) and the errors (m, trial)."""
        errors = {method: record.errors(method) for method in self.method_names}
        self.pin(Pin(method, steps, median(values)) for method, (steps, values) in errors.items())

    def draw_pin(self, pin: Pin) -> list[Artist]:
        return [self.pin_line(self.axes, self.x_of(pin.steps), self.y_of(pin.values), color=self.colours[pin.name])]

    def note_place(self) -> tuple[float, float]:
        left, top, _, height = self.box
        return left + 6, top + height - 12
