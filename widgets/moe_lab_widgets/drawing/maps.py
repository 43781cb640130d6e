"""Maps of how often runs succeed over two parameters, with the line from which on most do, on Axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab_widgets.drawing.on_axes import box_of, name_cells
from moe_lab_widgets.drawing.rate_map import ENOUGH, INSET, UNSURE, enough_from
from moe_lab_widgets.drawing.share_map import ShareMap


def share_map(
    ax: Axes, rows: Sequence[str], columns: Sequence[str], cells: Sequence[str], across: str, up: str
) -> None:
    """Furnishes Axes for `shares`; `cells` names the grid points, row by row."""
    ax.set(xlim=(-0.5, len(columns) - 0.5), ylim=(-0.5, len(rows) - 0.5), xlabel=across, ylabel=up)
    ax.set_yticks(range(len(rows)), rows)
    ax.set_xticks(range(len(columns)), columns)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    name_cells(ax, cells)


def share_key(ax: Axes, away: float = 16) -> None:
    """Furnishes Axes with what the colours mean, pixels to their right."""
    width = box_of(ax)[2]
    bar = ax.inset_axes(((width + away) / width, 0, 12 / width, 1))
    ax.figure.colorbar(ScalarMappable(Normalize(0, 1), theme.RAMP), cax=bar)
    bar.set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
    bar.tick_params(colors=theme.MUTED, labelsize=theme.SMALL_SIZE, length=0)
    bar.spines[:].set_visible(False)
    bar.axhline(ENOUGH, color=theme.FAILURE, linewidth=2.6)
    bar.text(1.45, ENOUGH, "90 %", color=theme.FAILURE, size=theme.SMALL_SIZE, weight="bold", va="center")


def shares(
    ax: Axes,
    share: NDArray[np.float64],
    filled: NDArray[np.float64],
    running: Mapping[tuple[int, int], str],
    border: str,
    before: NDArray[np.float64] | None = None,
) -> None:
    """Draws the shares (rows, columns), NaN where not run, and the line, dashed while it may still move."""
    points = ShareMap(*box_of(ax))
    points.before = before if before is not None and before.shape == share.shape else None
    points.set_points(share, filled, dict(running))
    points.parts = ax.names_of_cells  # type: ignore[attr-defined]
    ax.add_artist(points)
    x, y = steps(share, *box_of(ax)[2:])
    style: dict[str, Any] = {"solid_joinstyle": "miter", "clip_on": False}
    ax.plot(x, y, color="white", linewidth=5, zorder=4, **style)
    sure = bool((filled >= 1).all())
    ax.plot(x, y, "-", color=theme.FAILURE, linewidth=2.6, zorder=4.1, label=border, **style)[0].set_linestyle(
        "-" if sure else UNSURE
    )


def steps(share: NDArray[np.float64], wide: float, high: float) -> tuple[list[float], list[float]]:
    """Returns the line from which on at least 90 % succeed, a little inside the grid points that it encloses."""
    rows, columns = share.shape
    across, down = 0.5 * INSET * columns / wide, INSET * rows / high
    xs: list[float] = []
    ys: list[float] = []
    for row, column in enumerate(enough_from(share)):
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
