"""Curves with bands, on seaborn, and ticks at measured sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import seaborn as sns
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from moe_lab.drawing import theme

_MARKERS = ("o", "^", "D", "s", "v", "P", "X", "h")
_LINES = ("-", "--", "-.", ":")


def style_of(number: int, colour: str) -> theme.Style:
    """The style of line `number` of several that share a colour."""
    return theme.Style(colour, _MARKERS[number % len(_MARKERS)], _LINES[number % len(_LINES)])


def curve(axes: Axes, values: xr.DataArray, dim: str, style: theme.Style, hollow: bool = False) -> float:
    """Mean and band of one standard deviation over the trials; returns where the line ends."""
    across, trials = values.transpose(dim, "trial"), values.sizes["trial"]
    x = np.repeat(across[dim].values, trials)
    sns.lineplot(
        x=x,
        y=across.values.ravel(),
        ax=axes,
        errorbar="sd",
        color=style.colour,
        linestyle=style.line,
        linewidth=2.2,
        marker=style.marker,
        markersize=7.5,
        markerfacecolor=theme.PAPER if hollow else style.colour,
        markeredgecolor=style.colour if hollow else theme.PAPER,
        markeredgewidth=1.6 if hollow else 1.0,
        err_kws={"alpha": 0.13, "linewidth": 0},
        legend=False,
        zorder=3,
    )
    mean = across.mean("trial").dropna(dim).sortby(dim)
    return float(mean[-1]) if mean.size else float("nan")


def log_ticks(axes: Axes, values: np.ndarray) -> None:
    """A tick at every value of a horizontal axis that is logarithmic, with its number where there is room for it."""
    axes.set_xticks(values, [str(value) for value in _apart(values, axes)])
    axes.xaxis.set_minor_locator(NullLocator())


def _apart(values: np.ndarray, axes: Axes) -> list[Any]:
    """The values, the empty text in place of those that would stand too near to the one before."""
    wide = axes.get_window_extent().width * theme.BASE_DPI / axes.figure.dpi
    places = np.log(values) - np.log(np.min(values))
    places = places / max(places.max(), 1e-9) * wide
    shown, last = [], -np.inf
    for value, place in zip(values, places, strict=True):
        near = place - last < 9 + 7 * len(str(value))
        shown.append("" if near else value)
        last = last if near else place
    return shown
