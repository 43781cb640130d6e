"""Draws the demo: for each task the routers' directions, the experts' coverage and the models' accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from moe_lab.drawing import theme
from moe_lab.drawing.scales import percents
from moe_lab.drawing.style import in_fixed_style
from moe_lab.patch_routing.plots import MODELS

Results = Mapping[tuple[str, str], xr.Dataset]

_ROWS = {"patterns": "synthetic patterns", "digits": "handwritten digits, 6 or 7"}
_NAMES = {"joint": "joint", "separate": "separate", "cnn": "CNN"}
_MARKERS = ("o", "s")  # of the classes
_TOPS, _HIGH = (124, 400), 200


@in_fixed_style
def draw(results: Results, samples: Mapping[str, int], scale: float = 1.5) -> Figure:
    """Draws the demo.

    Args:
      results: (task, model) -> what `collect` returned.
      samples: task -> N, to name it.
      scale: 1 for 100 dots per inch.
    """
    trials = next(iter(results.values())).sizes["trial"]
    page = theme.figure(1100, 690, scale)
    theme.header(page, 8, 1, "Where joint routers point", "cosine of router and class pattern;\ngrey: before training")
    theme.header(page, 350, 2, "What reaches an expert", "test samples whose o reaches\nthe class's best expert")
    theme.header(
        page,
        716,
        3,
        "What comes out",
        f"test accuracy of {trials} trials;\nbar and number: mean, ± one standard deviation",
    )
    for (task, name), top in zip(_ROWS.items(), _TOPS, strict=True):
        label = f"{name}, N = {samples[task]}"
        page.text(*theme.spot(page, 20, top - 22), label, size=theme.TEXT_SIZE, weight="bold", color=theme.INK)
        routers = theme.axes(page, 70, top, 200, _HIGH)
        _routers(routers, results[task, "joint"])
        routers.set_xlabel("cos(w, o₁)" if top == _TOPS[-1] else "")
        _coverage(theme.axes(page, 444, top, 210, _HIGH), results, task)
        _accuracy(theme.axes(page, 790, top, 290, _HIGH), results, task)
    theme.caption(page, caption(results, samples))
    return page


def caption(results: Results, samples: Mapping[str, int]) -> str:
    """Returns a sentence on what the picture shows."""
    parts, reach = [], []
    for task, words in {"patterns": "patterns", "digits": "digits"}.items():
        means = " / ".join(_mean(results[task, model]["test_accuracy"]) for model in _NAMES)
        parts.append(f"{words} (N = {samples[task]}) {means} %")
        reach.append(_mean(results[task, "joint"]["coverage"]))
    return (
        f"Joint / separate / CNN get right: {', '.join(parts)}; o reaches a joint expert in {' and '.join(reach)} % "
        "of test samples."
    )


def _mean(values: xr.DataArray) -> str:
    mean = float(values.isel(step=-1).mean())
    return f"{100 * mean:.0f}" if np.isfinite(mean) else "(diverged)"


def _routers(axes: Axes, data: xr.Dataset) -> None:
    """The plane of cosines with o_1 and o_2: every router of every trial, before and after training."""
    overlap = data.attrs["class_overlap"]
    angle = np.linspace(0, 2 * np.pi, 200)
    across = np.sqrt(1 - overlap**2)
    axes.plot(np.cos(angle), overlap * np.cos(angle) + across * np.sin(angle), color=theme.RULE, linewidth=1)
    axes.axhline(0, color=theme.RULE, linewidth=0.6)
    axes.axvline(0, color=theme.RULE, linewidth=0.6)
    alignment = data["alignment"].transpose("step", "trial", "expert", "class")
    start, end = (alignment.isel(step=step).values.reshape(-1, 2) for step in (0, -1))
    axes.plot(*start.T, ".", color=theme.REFERENCE, markersize=4, alpha=0.6)
    nearer = (end[:, 1] > end[:, 0]).astype(int)
    for number, star in enumerate([(1.0, overlap), (overlap, 1.0)]):
        colour, marker = theme.CLASSES[number], _MARKERS[number]
        edge: dict[str, Any] = {"markeredgecolor": theme.PAPER, "markeredgewidth": 0.6}
        axes.plot(*end[nearer == number].T, marker, color=colour, markersize=6, alpha=0.75, **edge)
        axes.plot(*star, marker="*", markersize=15, color=colour, markeredgecolor="white", zorder=5)
        aside: dict[str, Any] = (
            {"xytext": (0, 8), "ha": "center", "va": "bottom"}
            if number
            else {"xytext": (9, 0), "ha": "left", "va": "center"}
        )
        text: dict[str, Any] = {"textcoords": "offset points", "weight": "bold", "size": theme.TEXT_SIZE}
        axes.annotate(theme.CLASS_NAMES[number], star, color=colour, **text, **aside)
    axes.set(xlim=(-1.12, 1.12), ylim=(-1.12, 1.12), ylabel="cos(w, o₂)")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MultipleLocator(1))
    axes.yaxis.labelpad = -2


def _coverage(axes: Axes, results: Results, task: str) -> None:
    """A bar for each model and class, a mark for each trial."""
    places, names = [], []
    for row, model in enumerate(("joint", "separate")):
        final = results[task, model]["coverage"].isel(step=-1).transpose("trial", "class").values
        for number in range(2):
            y = 2.5 * row + number
            places.append(y)
            names.append(f"{_NAMES[model]}, {theme.CLASS_NAMES[number]}")
            shares = final[np.isfinite(final[:, number]), number]
            if not len(shares):
                axes.text(0.03, y, "diverged", color=theme.FAILURE, va="center", size=theme.SMALL_SIZE)
                continue
            axes.barh(y, shares.mean(), height=0.8, color=theme.CLASSES_PALE[number], zorder=2)
            style: dict[str, Any] = {"color": theme.CLASSES[number], "linestyle": "none", "markersize": 4.5}
            axes.plot(shares, y + _spread(len(shares), 0.22), marker=_MARKERS[number], zorder=3, clip_on=False, **style)
            axes.text(0.03, y, f"{100 * shares.mean():.0f} %", va="center", size=theme.SMALL_SIZE, zorder=4)
    axes.set_yticks(places, names)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, 1)
    percents(axes.xaxis)
    axes.xaxis.set_major_locator(MultipleLocator(0.5))
    axes.invert_yaxis()


def _accuracy(axes: Axes, results: Results, task: str) -> None:
    """A mark for each trial and a bar for the mean; each model is a column."""
    finals = {model: results[task, model]["test_accuracy"].isel(step=-1).values for model in _NAMES}
    low = np.floor(20 * min(float(np.nanmin(values, initial=1.0)) for values in finals.values()) - 0.2) / 20
    for column, (model, values) in enumerate(finals.items()):
        style = MODELS[model]
        known = values[np.isfinite(values)]
        if not len(known):
            axes.text(column, low, "diverged", color=theme.FAILURE, ha="center", va="bottom")
            continue
        mean, deviation = known.mean(), known.std()
        marks: dict[str, Any] = {"color": style.colour, "marker": style.marker, "alpha": 0.5, "linestyle": "none"}
        axes.plot(column + _spread(len(known), 0.14), known, markersize=8, markeredgewidth=0, clip_on=False, **marks)
        axes.plot([column - 0.3, column + 0.3], [mean, mean], color=style.colour, linewidth=3, zorder=4)
        where: dict[str, Any] = {"ha": "center", "va": "bottom", "transform": axes.get_xaxis_transform()}
        axes.text(column, 0.15, f"{100 * mean:.1f} %", color=style.colour, size=13, weight="bold", **where)
        axes.text(column, 0.06, f"± {100 * deviation:.1f}", color=theme.MUTED, size=theme.SMALL_SIZE, **where)
    axes.set(xlim=(-0.6, 2.6), ylim=(low - 0.35 * (1 - low), 1 + 0.03 * (1 - low)), xlabel="", ylabel="")
    axes.set_xticks(range(len(_NAMES)), list(_NAMES.values()))
    axes.tick_params(axis="x", length=0, labelsize=theme.TEXT_SIZE, labelcolor=theme.INK)
    step = 0.05 if low >= 0.75 else 0.1
    ticks = [tick for tick in np.arange(0, 1 + step / 2, step) if tick >= low - 1e-9]
    axes.set_yticks(ticks, [f"{100 * tick:.0f} %" for tick in ticks])


def _spread(count: int, width: float) -> np.ndarray:
    """Places the marks of several trials beside each other: offsets from -width to width; 0 for a single one."""
    return np.linspace(-width, width, count) if count > 1 else np.zeros(1)
