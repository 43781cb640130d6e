"""What the plots of this room are made of: measured marks beside published ones, and curves of trials."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator

from moe_lab import theme
from moe_lab.config import require

STYLES = {
    "spectral+em": theme.Style(theme.INK, "o", "-"),
    "spectral": theme.Style(theme.INK, "^", ":"),
    "spectral-gradient": theme.Style(theme.REFERENCE, "v", "--"),
    "moments": theme.Style(theme.INK, "v", "--"),
    "centred-moments": theme.Style(theme.INK, "D", "-."),
    "gates-em": theme.Style(theme.REFERENCE, "s", "--"),
    "orth-als": theme.Style(theme.REFERENCE, "v", "--"),
    "joint-em": theme.Style(theme.REFERENCE, "s", "--"),
    "joint-em-gradient": theme.Style(theme.REFERENCE, "X", "-."),
    "joint-em+bias": theme.Style(theme.REFERENCE, "D", "--"),
    "spectral-scaled": theme.Style(theme.INK, "v", "-"),
    "variance": theme.Style(theme.REFERENCE, "P", ":"),
    "ridge": theme.Style(theme.REFERENCE, "*", ":"),
}
"""Ink for what starts from moments, grey for what it is compared with; shapes and dashes tell the rest."""
NAMES = {
    "spectral+em": "spectral + EM",
    "spectral": "spectral",
    "spectral-gradient": "gradient EM",
    "moments": "moments",
    "centred-moments": "centred moments",
    "gates-em": "EM",
    "orth-als": "Orth-ALS",
    "joint-em": "joint EM",
    "joint-em-gradient": "joint EM (gradient)",
    "joint-em+bias": "joint EM (bias)",
    "spectral-scaled": "spectral (lengths fitted)",
    "variance": "variance of the target",
    "ridge": "ridge regression",
}


def style_of(method: str) -> theme.Style:
    """A method's ink, mark and line."""
    return STYLES.get(method, theme.Style(theme.REFERENCE, "s", "--"))


def name_of(method: str) -> str:
    """A method in a few words."""
    return NAMES.get(method, method)


def measured(axes: Axes, x: float, values: np.ndarray, style: theme.Style, vertical: bool = True) -> float:
    """A small mark for each trial and a thick bar at their median; returns the median, NaN if there is none."""
    finite = np.sort(values[np.isfinite(values)])
    if not len(finite):
        return float("nan")
    aside = x + 0.05 * np.resize([-1, 1, 0], len(finite)) * (len(finite) > 1)
    across, up = (aside, finite) if vertical else (finite, aside)
    face = style.colour if style.marker in "os" else theme.PAPER
    mark: dict[str, Any] = {"marker": style.marker, "linestyle": "none", "markersize": 4.5, "markerfacecolor": face}
    axes.plot(across, up, **mark, markeredgecolor=style.colour, alpha=0.5, zorder=3, gid="trials")
    middle = float(np.median(finite))
    reach = 0.09 if vertical else 0.3
    bar = ([x - reach, x + reach], [middle, middle])
    (line,) = axes.plot(*(bar if vertical else bar[::-1]), color=style.colour, linewidth=3.2, zorder=4, gid="median")
    line.set_solid_capstyle("butt")
    return middle


def star(axes: Axes, x: float, value: float, spread: float) -> None:
    """What the paper publishes: an open star with its spread."""
    axes.plot([x, x], [value - spread, value + spread], color=theme.INK, linewidth=1.2, zorder=4, gid="spread")
    edge: dict[str, Any] = {"markerfacecolor": theme.PAPER, "markeredgecolor": theme.INK, "markeredgewidth": 1.2}
    axes.plot([x], [value], marker="*", markersize=12, linestyle="none", zorder=5, gid="paper", **edge)


def trials(axes: Axes, curves: xr.DataArray, along: str, style: theme.Style) -> float:
    """One thin line a trial and a thick median; returns where the median ends."""
    across = curves.transpose(along, "trial")
    steps = across[along].values
    thin: dict[str, Any] = {"color": style.colour, "linestyle": style.line, "linewidth": 0.7, "alpha": 0.4}
    axes.plot(steps, across.values, **thin, zorder=2, gid="trials")
    median = across.median("trial").values
    axes.plot(steps, median, color=style.colour, linestyle=style.line, linewidth=2.6, zorder=3, gid="median")
    known = median[np.isfinite(median)]
    return float(known[-1]) if len(known) else float("nan")


def names(axes: Axes, ends: list[tuple[float, str, str]], pixels: float = 15) -> None:
    """Names at the ends of lines, at the right of the axes, on a linear or a logarithmic axis."""
    known = [end for end in ends if np.isfinite(end[0])]
    if axes.get_yscale() == "linear":
        theme.end_labels(axes, axes.get_xlim()[1], known, pixels)
        return
    low, high = np.log10(axes.get_ylim())
    tall = axes.get_window_extent().height * theme.BASE_DPI / axes.figure.dpi
    wanted = [float(np.log10(max(end[0], 1e-300))) for end in known]
    places = theme.spread(wanted, pixels * (high - low) / tall, low, high)
    note: dict[str, Any] = {"size": theme.SMALL_SIZE, "weight": "bold", "va": "center", "clip_on": False}
    for place, (_, name, colour) in zip(places, known, strict=True):
        axes.text(axes.get_xlim()[1], 10**place, f" {name}", color=colour, **note)


def panels(axes: Any, count: int) -> list[Axes]:
    panels = list(np.atleast_1d(np.asarray(axes, dtype=object)).ravel())
    require(len(panels) == count, f"axes must be {count} Axes", got=len(panels))
    return panels


def words_of(point: dict[str, Any], between: str = "\n") -> str:
    """ "k = 8, n = 6000" """
    symbols = {"k": "k = {}", "samples": "n = {:,}", "activation": "{}", "noise": "σ = {}"}
    words = {"relu": "ReLU", "leaky-relu": "leaky ReLU"}
    return between.join(symbols[name].format(words.get(value, value)) for name, value in point.items())


def decades(values: np.ndarray) -> tuple[float, float]:
    """Limits of a logarithmic axis that hold all values."""
    finite = values[np.isfinite(values) & (values > 0)]
    if not finite.size:
        return 0.1, 10.0
    return 0.8 * float(finite.min()), 1.25 * float(finite.max())


def plain_numbers(axes: Axes) -> None:
    """1, 2 and 5 of each decade (and more, where that is few), written as they are said."""
    low, high = axes.get_ylim()
    few = high / low < 10
    bases = (1, 1.5, 2, 3, 4, 5, 6, 8) if few else (1, 2, 5)
    marks = [base * 10.0**power for power in range(-4, 4) for base in bases if low <= base * 10.0**power <= high]
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_yticks(marks)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
