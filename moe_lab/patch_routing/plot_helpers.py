"""Plotting helpers: curves with bands, axes of shares and sizes, stars for published values."""

from __future__ import annotations

from typing import Any

import numpy as np
import seaborn as sns
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

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


def percent(axes: Axes, low: float, label: str) -> None:
    theme.plain(axes)
    axes.set_ylim(low, 1 + 0.02 * (1 - low))
    axes.yaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f} %"))
    axes.set_ylabel(label)


def floor(values: xr.DataArray, step: float = 0.05) -> float:
    """A round share below nearly all that will be drawn."""
    spread = values.mean("trial") - values.std("trial")
    lowest = float(spread.min())
    return max(0.0, np.floor(lowest / step) * step) if np.isfinite(lowest) else 0.0


def sizes(axes: Axes, data: xr.Dataset) -> None:
    counts = data["samples"].values
    axes.set_xscale("log")
    axes.set_xlim(counts.min() / 1.12, counts.max() * 1.12)
    ticks(axes, counts)
    axes.set_xlabel("N, training samples")


def ticks(axes: Axes, values: np.ndarray) -> None:
    """A tick at every value, with its number where there is room for it."""
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


def line_at(axes: Axes, level: float, name: str) -> None:
    low, high = axes.get_ylim()
    if low < level < high:
        axes.axhline(level, color=theme.FAILURE, linewidth=1.2, linestyle=(0, (5, 3)), zorder=1)
        axes.text(axes.get_xlim()[0], level, f" {name}", color=theme.FAILURE, size=theme.SMALL_SIZE, va="bottom")


def star(axes: Axes, x: float, y: float, note: str, colour: str, side: str = "center") -> None:
    """What the paper publishes; the note stands below, to the "left" or "right" if need be."""
    low, high = axes.get_xlim()
    if not low <= x <= high:
        return
    edge: dict[str, Any] = {"markerfacecolor": theme.PAPER, "markeredgecolor": colour, "markeredgewidth": 1.6}
    axes.plot([x], [y], marker="*", markersize=16, linestyle="none", zorder=5, **edge)
    away = {"left": -9, "center": 0, "right": 9}[side]
    axes.annotate(
        note,
        (x, y),
        xytext=(away, -13),
        textcoords="offset points",
        ha={"left": "right", "center": "center", "right": "left"}[side],
        va="top",
        color=colour,
        size=theme.SMALL_SIZE,
        zorder=6,
        bbox={"facecolor": to_rgba(theme.PAPER, 0.8), "edgecolor": "none", "pad": 1},
    )


def class_name(number: int) -> str:
    return theme.CLASS_NAMES[number] if number < len(theme.CLASS_NAMES) else f"o{number + 1}"
