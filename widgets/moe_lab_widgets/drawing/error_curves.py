"""Errors of several methods on a logarithmic axis, as functions on Axes: trials, medians, marks, a table of counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from moe_lab.drawing import theme
from moe_lab_widgets.drawing.on_axes import box_of, cells, line, table
from moe_lab_widgets.drawing.trials import MOST_LINES, few, trials
from moe_lab_widgets.drawing.words import median

FOUND_COLOUR = "#0B5F5A"
"""The dark end of the ramp."""
HEADS = {"✓ found": FOUND_COLOUR, "✗ stuck": theme.FAILURE, "▽ falling": theme.MUTED}
"""The columns of counts, and their colours."""
LINE, UNDER = 17, 60
"""Pixels: a row of the table of counts, and its distance from the axis above."""


class Errors(NamedTuple):
    """The errors of one method.

    Attributes:
      name: of the method.
      steps: (m,).
      values: (m, trial).
      found: (trial,) which trials have found what they look for.
      stuck, falling: (trial,) which have not, and will not or still may; None as long as that cannot be told.
    """

    name: str
    steps: NDArray[Any]
    values: NDArray[np.float64]
    found: NDArray[np.bool_]
    stuck: NDArray[np.bool_] | None
    falling: NDArray[np.bool_] | None

    @property
    def counts(self) -> list[str]:
        """How many trials have found it, are stuck and are falling, in words."""
        return ["–" if which is None else str(int(which.sum())) for which in (self.found, self.stuck, self.falling)]


def furnish_errors(
    ax: Axes, ticks: Mapping[float, str], styles: Mapping[str, theme.Style], left: float, wide: float
) -> None:
    """Furnishes Axes for `draw_errors`: a logarithmic axis upwards, and under the Axes a table of counts.

    Args:
      ticks: the words at errors.
      styles: of the methods, by name.
      left: pixels from the left edge of the Axes to the first column of counts.
      wide: pixels of a column.
    """
    ax.set_yscale("log")
    ax.set_yticks(list(ticks), list(ticks.values()))
    ax.minorticks_off()
    _, _, width, height = box_of(ax)
    high = LINE * len(styles)
    counts = ax.inset_axes((left / width, -(UNDER + high) / height, len(HEADS) * wide / width, high / height))
    theme.plain(counts).set_facecolor("none")
    table(counts, list(styles), list(HEADS), widest=wide, highest=LINE)
    for label, style in zip(counts.get_yticklabels(), styles.values(), strict=True):
        label.set(color=style.colour, weight="bold")
    for column, (words, colour) in enumerate(HEADS.items()):
        counts.text(column, -1, words, ha="center", va="center", color=colour, size=theme.SMALL_SIZE)


def draw_errors(ax: Axes, methods: Sequence[Errors], styles: Mapping[str, theme.Style], firm: int) -> dict[str, float]:
    """Draws trials, medians, marks and counts, and returns the last median of each method, if there is one.

    Errors beyond the axis are drawn at its edge.

    Args:
      firm: the trial whose line is drawn more firmly.
    """
    last: dict[str, float] = {}
    for one in reversed(methods):
        style, shown, middles = styles[one.name], np.clip(one.values, *ax.get_ylim()), median(one.values)
        trials(ax, one.steps, shown, style, one.name, firm)
        looks: dict[str, Any] = {"linestyle": style.line, "color": style.colour, "linewidth": 2.6}
        line(ax, one.steps, np.clip(middles, *ax.get_ylim()), **looks, zorder=3, label=f"{one.name}, median")
        if len(middles):
            _mark(ax, one, shown[-1], style)
            last[one.name] = float(middles[-1])
    counts: Any = ax.child_axes[0]
    cells(counts, [word for one in methods for word in one.counts], shape=(len(methods), len(HEADS)), bold=True)
    return {one.name: last[one.name] for one in methods if np.isfinite(last.get(one.name, np.nan))}


def _mark(ax: Axes, one: Errors, heights: NDArray[np.float64], style: theme.Style) -> None:
    """Marks the ends of stuck trials with a cross, those of falling ones with an open triangle."""
    shown = few(heights)
    cross = {"marker": "X", "color": theme.FAILURE, "markersize": 9, "markeredgecolor": theme.PAPER}
    hollow = {"marker": "v", "color": style.colour, "markersize": 8, "markerfacecolor": theme.PAPER}
    for which, words, looks in ((one.stuck, "stuck", cross), (one.falling, "still falling", hollow)):
        if which is not None and which[shown].any():
            marked = heights[shown[which[shown]]]
            place: dict[str, Any] = {"linestyle": "none", "clip_on": False, "zorder": 5, **looks}
            line(ax, np.repeat(one.steps[-1:], len(marked)), marked, label=f"{one.name}, {words}", **place)


def lines_in_words(count: int) -> str:
    """Returns what lines and bands stand for, for a panel's note."""
    if count == 1:
        return "the one trial"
    if count > MOST_LINES:
        return f"median, half, 90 % of {count:,}; thin: trial shown"
    return f"thick: median of {count} trials; firm: trial shown"


def fates_in_words(methods: Sequence[Errors]) -> str:
    """Returns a sentence on how many trials of two methods are stuck, and still fall; empty where it cannot be told."""
    (_, stuck, falling), (_, stuck_too, falling_too) = (one.counts for one in methods)
    counts = {stuck, falling, stuck_too, falling_too}
    if "–" in counts:
        return ""
    if counts == {"0"}:
        return " No trial is stuck."
    first, second = (one.name for one in methods)
    trials = len(methods[0].found)
    of = f" of {trials} trials" if trials > 1 else ""
    rest = f"; {falling} and {falling_too} are still falling" if {falling, falling_too} != {"0"} else ""
    stuck, stuck_too = ("none" if count == "0" else count for count in (stuck, stuck_too))
    return f" {first[0].upper()}{first[1:]} is stuck in {stuck}{of}, {second} in {stuck_too}{rest}."
