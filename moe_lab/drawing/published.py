"""What the pictures of published results share: trials with their median, published values, bands, cells and titles."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from moe_lab.drawing import theme


def title(axes: Axes, words: str) -> None:
    """A small bold title at the left."""
    axes.set_title(words, loc="left", size=theme.TEXT_SIZE, color=theme.INK, weight="bold")


def measured(
    axes: Axes, x: float, values: np.ndarray, style: theme.Style, vertical: bool = True, reach: float = 0.1
) -> float:
    """Draws a small mark for each trial and a thick bar at their median.

    Args:
      x: the place of the column, or of the row if not vertical.
      reach: half the length of the bar.

    Returns:
      The median; NaN if no value is finite.
    """
    finite = np.sort(values[np.isfinite(values)])
    if not len(finite):
        return float("nan")
    aside = x + 0.05 * np.resize([-1, 1, 0], len(finite)) * (len(finite) > 1)
    across, up = (aside, finite) if vertical else (finite, aside)
    face = style.colour if style.marker in "os" else theme.PAPER
    mark: dict[str, Any] = {"marker": style.marker, "linestyle": "none", "markersize": 5, "markerfacecolor": face}
    axes.plot(across, up, **mark, markeredgecolor=style.colour, alpha=0.6, zorder=3, gid="trials")
    middle = float(np.median(finite))
    bar = ([x - reach, x + reach], [middle, middle])
    (line,) = axes.plot(*(bar if vertical else bar[::-1]), color=style.colour, linewidth=3.2, zorder=4, gid="median")
    line.set_solid_capstyle("butt")
    return middle


def star(axes: Axes, x: float, value: float, spread: float, colour: str = theme.INK, vertical: bool = True) -> None:
    """Draws a published value as an open star, with its standard deviation unless that is NaN."""
    if not np.isfinite(value):
        return
    if np.isfinite(spread):
        bar = ([x, x], [value - spread, value + spread])
        axes.plot(*(bar if vertical else bar[::-1]), color=colour, linewidth=1.3, zorder=4, gid="spread")
    edge: dict[str, Any] = {"markerfacecolor": theme.PAPER, "markeredgecolor": colour, "markeredgewidth": 1.3}
    where = ([x], [value]) if vertical else ([value], [x])
    axes.plot(*where, marker="*", markersize=12, linestyle="none", zorder=5, gid="paper", **edge)


def trials(axes: Axes, curves: xr.DataArray, along: str, style: theme.Style) -> float:
    """Draws a thin line for each trial and a thick median; returns the last finite median, NaN if there is none."""
    across = curves.transpose(along, "trial")
    steps, median = across[along].values, across.median("trial").values
    line: dict[str, Any] = {"color": style.colour, "linestyle": style.line}
    axes.plot(steps, across.values, **line, linewidth=0.8, alpha=0.55, zorder=2, gid="trials")
    axes.plot(steps, median, **line, linewidth=2.8, zorder=3, gid="median")
    known = median[np.isfinite(median)]
    return float(known[-1]) if len(known) else float("nan")


def band(axes: Axes, curves: xr.DataArray, along: str, gid: str) -> None:
    """Draws a grey band from the smallest to the largest value of the trials."""
    across = curves.transpose(along, "trial")
    style: dict[str, Any] = {"color": theme.BACKGROUND, "alpha": 0.45, "linewidth": 0, "zorder": 0}
    axes.fill_between(across[along], across.min("trial"), across.max("trial"), gid=gid, **style)


def cells(axes: Axes, top: float, counts: np.ndarray) -> None:
    """Draws rows of numbered cells from `top` down, as dark as a cell's share of its row."""
    style: dict[str, Any] = {"ha": "center", "va": "center", "size": theme.TEXT_SIZE, "gid": "count"}
    for row, line in enumerate(counts):
        shares = line / (line.sum() or 1)
        for column, (count, share) in enumerate(zip(line, shares, strict=True)):
            where = (column + 0.02, top - row - 0.98)
            axes.add_patch(Rectangle(where, 0.96, 0.96, facecolor=tuple(theme.ramp(share) / 255), linewidth=0))
            words, colour = (f"{count:.0f}", theme.ink_on(share)) if count else ("·", theme.REFERENCE)
            axes.text(column + 0.5, top - row - 0.5, words, color=colour, **style)


def without_frame(axes: Axes) -> None:
    """Hides the lines of ticks and spines, as for a table of cells."""
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
