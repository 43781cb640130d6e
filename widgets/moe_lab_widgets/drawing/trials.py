"""Curves of many trials: a thin line for each of a few; of more, bands that hold half and nine tenths, and a density.

Bands hide how trials part: one half at 50 % and the other at 100 % look like trials anywhere between. So the density of
the latest values stands at the right edge, as an outline whose width is the share of the trials at that height.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from numpy.typing import NDArray

from moe_lab.drawing import theme
from moe_lab_widgets.drawing.on_axes import line
from moe_lab_widgets.drawing.words import median

MOST_LINES = 12
"""Trials from which on bands are drawn, so that a frame does not grow with the trials."""
BANDS = ((0.05, 0.95), (0.25, 0.75))
SHADES = (0.13, 0.22)
"""Opacity of each band; the inner one lies on the outer one."""
HALF = "edge of half or of 90 % of the trials"
"""What a pointer finds at a band, in words."""
SPREAD = "how many trials are here now"
"""What a pointer finds at the density, in words."""
SPREAD_WORDS = " Outline at the right edge: where the {trials} trials are now."
STEPS, WIDE = 40, 0.15
"""Of the density: its steps along the axis, and its largest width in parts of the axes."""
_KERNEL = np.array([1.0, 4.0, 6.0, 4.0, 1.0]) / 16


def bands(x: NDArray[Any], values: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Returns the outlines (2 m, 2) of the bands of values (m, trial), over the trials that have not diverged."""
    some = np.isfinite(values).any(1)
    if some.sum() < 2:
        return []
    x, values = np.asarray(x, dtype=float)[some], values[some]
    shares = [share for band in BANDS for share in band]
    quantile = np.quantile if np.isfinite(values).all() else np.nanquantile
    edges = quantile(values, shares, axis=1).reshape(len(BANDS), 2, -1)
    return [np.stack((np.r_[x, x[::-1]], np.r_[low, high[::-1]]), axis=1) for low, high in edges]


def density(values: NDArray[np.float64], limits: tuple[float, float, float, float]) -> list[NDArray[np.float64]]:
    """Returns the outline (n, 2) of how values (trial,) lie, from the right edge of the axes to the left.

    A histogram, smoothed over a step to each side; its largest width is `WIDE` for any number of trials. Values beyond
    the axes count at their edge; those of trials that have diverged do not count.

    Args:
      limits: left, right, lower and upper limit of the axes.
    """
    left, right, low, high = limits
    finite = values[np.isfinite(values)]
    if len(finite) < 2:
        return []
    counts, edges = np.histogram(np.clip(finite, low, high), STEPS, (low, high))
    smooth = np.convolve(np.pad(counts, 2, mode="symmetric"), _KERNEL, mode="valid")
    widths = smooth / smooth.max()
    some = np.flatnonzero(widths > 0)
    shown = slice(some[0], some[-1] + 1)
    x = right - WIDE * (right - left) * widths[shown]
    y = ((edges[:-1] + edges[1:]) / 2)[shown]
    ends = (edges[shown.start], edges[shown.stop])
    return [np.stack((np.r_[right, x, right], np.r_[ends[0], y, ends[1]]), axis=1)]


def spread_words(trials: int) -> str:
    """Returns the sentence that explains the density; empty where there is none."""
    return SPREAD_WORDS.format(trials=f"{trials:,}") if trials > MOST_LINES else ""


def few(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Returns the trials that stand for all: every one of a few, else as many at even ranks of their values (trial,).

    A mark for each is then a quantile dot plot (Kay et al. 2016): it stands for as many trials as the next one.
    """
    count = len(values)
    if count <= MOST_LINES:
        return np.arange(count)
    ranks = ((np.arange(MOST_LINES) + 0.5) / MOST_LINES * count).astype(np.int64)
    return np.asarray(np.argsort(values, kind="stable")[ranks])


def trials(
    ax: Axes, x: NDArray[Any], values: NDArray[np.float64], style: theme.Style, name: str, firm: int | None = 0
) -> None:
    """Draws a thin line for each of a few trials; of more, the bands that hold half and 90 %, and their density now.

    Args:
      x: (m,).
      values: (m, trial).
      style: of the lines.
      name: of the curves, for the pointer.
      firm: the trial whose line is drawn more firmly, and beside the bands; None for none.
    """
    count = values.shape[1]
    many = count > MOST_LINES
    shown = range(count) if not many else () if firm is None else (firm,)
    if count > 1 and len(shown) and len(x) > 1:
        lines = [np.column_stack((x, values[:, trial])) for trial in shown]
        firmly = [trial == firm for trial in shown]
        ax.add_collection(
            LineCollection(
                [line[np.isfinite(line).all(1)] for line in lines],
                linestyles=style.line,
                label=f"{name}, a trial",
                linewidths=[1.3 if one else 0.7 for one in firmly],
                colors=[(style.colour, 0.95 if one else 0.45) for one in firmly],
                zorder=2,
            ),
            autolim=False,
        )
    if not many or not len(x):
        return
    faces = [(style.colour, shade) for shade in SHADES]
    band = PolyCollection(bands(x, values), facecolors=faces, linewidths=0, zorder=1.7, label=f"{name}, {HALF}")
    outline: dict[str, Any] = {"edgecolors": style.colour, "linestyles": style.line, "linewidths": 1.3, "zorder": 2.6}
    shape = _density(ax, values[-1])
    spread = PolyCollection(shape, facecolors=[(style.colour, 0.3)], label=f"{name}, {SPREAD}", **outline)
    for collection in (band, spread):
        ax.add_collection(collection, autolim=False)


def trials_and_median(
    ax: Axes,
    x: NDArray[Any],
    values: NDArray[np.float64],
    style: theme.Style,
    name: str,
    firm: int | None = 0,
    **looks: Any,
) -> float:
    """Draws trials (see `trials`) and their median over them; `looks` are those of the median's line.

    Returns:
      Where the median ends; NaN as long as there is none.
    """
    trials(ax, x, values, style, name, firm)
    middles = median(values)
    line(ax, x, middles, color=style.colour, zorder=3, label=f"{name}, median", **looks)
    return float(middles[-1]) if len(middles) else np.nan


def _density(ax: Axes, values: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Returns the outline of how values lie (see `density`), on whatever scales the axes have."""
    across, up = ax.xaxis.get_transform(), ax.yaxis.get_transform()
    limits = *across.transform(np.array(ax.get_xlim())), *up.transform(np.array(ax.get_ylim()))
    shapes = density(up.transform(values), limits)
    back = across.inverted(), up.inverted()
    return [np.column_stack([scale.transform(shape[:, axis]) for axis, scale in enumerate(back)]) for shape in shapes]
