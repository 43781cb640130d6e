"""Maps of how often runs succeed over two parameters, with the line from which on most do, on Axes.

`share_map` and `share_key` furnish Axes, `shares` and `bound` draw a record, `track` and `reaches` beside its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from numpy.typing import NDArray

from moe_lab.drawing import theme
from moe_lab.drawing.map_marks import ENOUGH
from moe_lab_widgets.drawing.on_axes import bars, box_of, name_cells, reads, spans, write
from moe_lab_widgets.drawing.share_map import ShareMap

UNSURE = (0, (2.2, 1.1))
"""The line's dashes, in its widths, until all runs of the map have ended."""
INSET = 6.5
"""Pixels by which the line runs inside its rows, so that it never lies on their boundaries."""
Shares = NDArray[np.float64]
"""(rows, columns) 0 to 1, NaN where nothing has run."""


# ---- furniture ----


def share_map(
    ax: Axes, rows: Sequence[str], columns: Sequence[str], cells: Sequence[str], across: str, up: str, first: int
) -> None:
    """Furnishes Axes for `shares`; `cells` names the grid points, row by row; `first` is the first row's height."""
    ax.set(xlim=(-0.5, len(columns) - 0.5), xlabel=across, ylabel=up, ylim=(first - 0.5, first + len(rows) - 0.5))
    ax.set_yticks(range(first, first + len(rows)), rows)
    ax.set_xticks(range(len(columns)), columns)
    reads(ax, x=None, y=None)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    name_cells(ax, cells)


def share_key(ax: Axes, away: float) -> None:
    """Draws a key to the colours, some pixels to the right of Axes."""
    width = box_of(ax)[2]
    bar = ax.inset_axes(((width + away) / width, 0, 12 / width, 1))
    ax.figure.colorbar(ScalarMappable(Normalize(0, 1), theme.RAMP), cax=bar)
    bar.set_yticks([0, 0.5, 1], ["0 %", "50 %", "100 %"])
    bar.tick_params(colors=theme.MUTED, labelsize=theme.SMALL_SIZE, length=0)
    bar.spines[:].set_visible(False)
    bar.axhline(ENOUGH, color=theme.FAILURE, linewidth=2.6)
    bar.text(1.45, ENOUGH, "90 %", color=theme.FAILURE, size=theme.SMALL_SIZE, weight="bold", va="center")


def bound(ax: Axes, at: float, words: str) -> None:
    """Draws a named line across a map, a little beyond its right edge."""
    left, right = ax.get_xlim()
    looks: dict[str, Any] = {"colors": [theme.PAPER, theme.INK], "linewidths": [5, 2], "linestyles": ["-", (0, (4, 2))]}
    spans(ax, [at, at], left, right + 0.08, zorder=3.5, clip_on=False, label=words, **looks)
    write(ax, right, at, [words], ha="left", bold=True, right=12)


# ---- a record ----


def shares(
    ax: Axes,
    share: Shares,
    filled: NDArray[np.float64],
    running: Mapping[tuple[int, int], str],
    before: Shares,
    enough: NDArray[np.float64],
    border: str,
) -> None:
    """Draws the shares of a map, and the line from which on at least 90 % succeed.

    Args:
      share: what is drawn.
      filled: (rows, columns) the share of the runs that have ended; the line is dashed while some have not.
      running: (row, column) -> what is written into a grid point that is running.
      before: the map before, drawn in pale colours where this one is not complete.
      enough: (rows,) the column at which the line stands (`enough_from`).
      border: the name of the line.
    """
    place = box_of(ax)
    cells = ShareMap(place, share, filled, running, before)
    cells.parts = ax.names_of_cells  # type: ignore[attr-defined]
    ax.add_artist(cells)
    first = round(ax.get_ylim()[0] + 0.5)
    x, y = steps(enough, share.shape[1], *place[2:], first)
    style: dict[str, Any] = {"solid_joinstyle": "miter", "clip_on": False}
    ax.plot(x, y, color="white", linewidth=5, zorder=4, **style)
    (line,) = ax.plot(x, y, color=theme.FAILURE, linewidth=2.6, zorder=4.1, label=border, **style)
    if (filled < 1).any():
        line.set_linestyle(UNSURE)


# ---- beside the rows of a map, the first one at y = 1 ----


def track(
    ax: Axes,
    x: NDArray[np.float64],
    sure: NDArray[np.bool_],
    edge: float,
    colour: str,
    names: Sequence[str],
    pinned: bool = False,
) -> None:
    """Draws a number for each row: points on a line, hollow where not sure, triangles at `edge` where infinite.

    Args:
      names: of points, of hollow ones, and of triangles.
      pinned: whether it is thin, behind the present one.
    """
    rows, over, found = np.arange(1, len(x) + 1), np.isinf(x), np.isfinite(x)
    if pinned:
        faint: dict[str, Any] = {"color": colour, "linewidth": 1.8, "zorder": 2, "label": names[0]}
        ax.plot(np.where(over, np.nan, x), rows, "s--", markersize=5, **faint)
        if over.any():
            ax.plot(np.full(over.sum(), edge), rows[over], ">", markersize=9, **faint)
        return
    style: dict[str, Any] = {"color": colour, "zorder": 4, "clip_on": False}
    ax.plot(np.where(over, np.nan, x), rows, linewidth=2.4, label=names[0], **style)
    style |= {"linestyle": "none", "markeredgecolor": colour, "markeredgewidth": 1.6, "markersize": 7}
    hollow = {**style, "color": theme.PAPER}
    for which, looks, name in ((found & sure, style, names[0]), (found & ~sure, hollow, names[1])):
        if which.any():
            ax.plot(x[which], rows[which], "o", label=name, **looks)
    if over.any():
        ax.plot(np.full(over.sum(), edge), rows[over], ">", label=names[2], **{**hollow, "markersize": 9})


def reaches(
    ax: Axes,
    low: NDArray[np.float64],
    middle: NDArray[np.float64],
    high: NDArray[np.float64],
    names: Sequence[str],
) -> None:
    """Draws a bar from 0 for each row, and a line along it from `low` to `high`; `names` are those of both."""
    rows, known, wide = np.arange(1, len(middle) + 1), np.isfinite(middle), high - low > 0.01
    thick = 0.62 * box_of(ax)[3] / len(middle) * 72 / theme.BASE_DPI
    bars = {"colors": [theme.RAMP(0.6)], "linewidths": thick, "label": names[0]}
    spans(ax, rows[known], 0, middle[known], zorder=2, **bars)
    lines = {"colors": theme.INK, "linewidths": 2, "label": names[1]}
    spans(ax, rows[wide], low[wide], high[wide], zorder=3, clip_on=False, **lines)


def lying(ax: Axes, values: NDArray[np.float64], first: int, colours: Sequence[str], names: Sequence[str]) -> None:
    """Draws bars along rows, one for each part (rows, parts); `names` have {} for the row."""
    rows = np.arange(first, first + len(values))
    for part, up in enumerate(away(values.shape[1])):
        own = [names[part].format(row) for row in rows]
        bars(ax, rows + up, values[:, part], 0.27, colours[part], across=True, names=own)


# ---- arithmetic ----


def away(parts: int) -> list[float]:
    """Returns how far the bars of a row lie above its middle, the first one highest."""
    return [0.34 * ((parts - 1) / 2 - part) for part in range(parts)]


def steps(
    enough: NDArray[np.float64], columns: int, wide: float, high: float, first: int
) -> tuple[list[float], list[float]]:
    """Returns the line from which on at least 90 % succeed, a little inside the grid points that it encloses.

    Args:
      enough: (rows,) the column at which it stands (`enough_from`).
      columns: of the map.
      wide, high: of the map, in pixels.
      first: the height of the first row.
    """
    across, down = 0.5 * INSET * columns / wide, INSET * len(enough) / high
    xs: list[float] = []
    ys: list[float] = []
    for row, column in enumerate(enough.tolist(), first):
        if np.isnan(column):
            xs, ys = [*xs, np.nan], [*ys, float(row)]
            continue
        x, low = column - 0.5 + across, row - 0.5
        if xs and np.isfinite(xs[-1]) and xs[-1] != x:
            shift = -down if x > xs[-1] else down  # the horizontal part lies inside the row that succeeds there
            ys[-1] += shift
            low += shift
        xs, ys = [*xs, x, x], [*ys, low, row + 0.5]
    return xs, ys
