"""Draws the Datasets of `figures`, one function per figure, onto an Axes (figure 8: a Figure or SubFigure of 2 panels).

Lines are means over trials, bands one standard deviation, open stars published values. Names are at the ends of lines,
to the right of the axes. `picture` draws any of them on a page of its own, with a head and a caption.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import seaborn as sns
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Rectangle

from moe_lab.core.words import percent, series
from moe_lab.drawing import theme
from moe_lab.drawing.curves import curve, log_ticks, style_of
from moe_lab.drawing.pictures import Box, Head, Pictures
from moe_lab.drawing.scales import floor, share_axis
from moe_lab.patch_routing import findings, illustration_plots
from moe_lab.patch_routing.data import PatternTask
from moe_lab.patch_routing.figures import samples_for
from moe_lab.patch_routing.illustration_plots import illustrations as illustrations

PICTURES = Pictures("pmoe2023").including(illustration_plots.PICTURES)
caption, picture = PICTURES.caption, PICTURES.picture

MODELS = {
    "joint": theme.Style(theme.INK, "o", "-"),
    "separate": theme.Style(theme.INK, "^", ":"),
    "cnn": theme.Style(theme.REFERENCE, "s", "--"),
}
"""Both mixtures are in ink and differ in marker and line; the CNN is the reference."""
MODEL_NAMES = {"joint": "joint pMoE", "separate": "separate pMoE", "cnn": "CNN"}
_SHORT_NAMES = {"joint": "joint", "separate": "separate", "cnn": "CNN"}
_PUBLISHED_ROUTERS = 300  # the N of the shares that the paper's text gives for figures 8 and 9
_TOP_4, _LARGEST_GATE = (0.95, 0.95), (0.95, 0.92)
_MEAN = "{} trials; line: mean, band: ± one standard deviation"
_STAR = f"{_MEAN}; star: what the paper reports for MNIST"
_SHARE = "% of {} trials with a test accuracy of at least 95 %; staircase: 90 % from here on"


def _head(title: str, note: str = _MEAN) -> Callable[[xr.Dataset], list[Head]]:
    """Returns the one head of a page, with the number of trials as its note."""
    return lambda data: [(8, title, note.format(data.sizes["trial"]))]


def _panel(_: xr.Dataset) -> list[Box]:
    return [(84, 84, 880, 300)]


# --- figures 4 to 7 --------------------------------------------------------------------------------------------------


def _samples_needed(data: xr.Dataset) -> str:
    at = 100 if 100 in data["samples"] else int(data["samples"][0])
    mean = data["test_accuracy"].mean("trial")
    names = [str(name) for name in data["model"].values]
    reached = series(f"{_SHORT_NAMES.get(name, name)} {percent(mean.sel(model=name, samples=at))}" for name in names)
    needed = samples_for(data, 0.95)
    least = int(data["samples"].min())

    def count(name: str) -> str:
        found = float(needed.sel(model=name))
        if np.isnan(found):
            return f"{_SHORT_NAMES.get(name, name)} more than {int(data['samples'].max())}"
        return f"{_SHORT_NAMES.get(name, name)} {f'at most {least}' if found <= least else f'about {found:.0f}'}"

    return f"N = {at}: {reached}. Samples for 95 %: {series(map(count, names))}."


@PICTURES.of(
    "figure 4",
    finding=findings.fewest_samples,
    caption=_samples_needed,
    heads=_head("How many samples each model needs", _STAR),
    boxes=_panel,
)
def sample_complexity(data: xr.Dataset, axes: Axes) -> None:
    """Figure 4: test accuracy of the three models against N; the star is the paper's claim of 60 % of the CNN's N."""
    accuracy = data["test_accuracy"]
    _accuracy_axis(axes, accuracy, "test accuracy")
    _sample_axis(axes, data)
    ends = []
    for name, style in theme.styles(map(str, data["model"].values), MODELS).items():
        end = curve(axes, accuracy.sel(model=name), "samples", style, hollow=name == "separate")
        ends.append((end, MODEL_NAMES.get(name, name), style.colour))
    _line_at(axes, 0.95, "95 %")
    if "cnn" in data["model"]:
        needed = float(samples_for(data, 0.95).sel(model="cnn"))
        if np.isfinite(needed):
            _star(axes, 0.6 * needed, 0.95, "paper: 60 % of\nthe CNN's N", theme.INK)
    theme.end_labels(axes, ends)


def _cheapest(data: xr.Dataset) -> str:
    least = findings.least_samples(data)
    if not np.isfinite(least).any():
        return f"No l reaches 95 % accuracy in 90 % of the trials with {int(data['samples'].max())} samples."
    best = float(least.min())
    cheapest = [str(per_expert) for per_expert in data["patches_per_expert"].values[least.values == best]]
    top = int(data["patches_per_expert"].max())
    last = float(least.sel(patches_per_expert=top))
    needs = f"needs {last:.0f}" if np.isfinite(last) else f"needs more than {int(data['samples'].max())}"
    return f"Cheapest: l = {series(cheapest)} with {best:.0f} samples; l = {top} {needs}."


@PICTURES.of(
    "figure 5",
    finding=findings.cheapest,
    caption=_cheapest,
    heads=_head("How often separate training succeeds", _SHARE),
    boxes=_panel,
)
def phase_map(data: xr.Dataset, axes: Axes) -> None:
    """Figure 5: the share of trainings that succeed for every l and N; the staircase is where 90 % do from there on."""
    success = data["success"].transpose("patches_per_expert", "samples", "trial")
    share = success.mean("trial", skipna=False).sortby("patches_per_expert", ascending=False).sortby("samples")
    percentages = 100 * share.values
    axes.set_facecolor(theme.PAPER)
    for row, column in zip(*np.nonzero(np.isnan(percentages)), strict=True):  # not run
        hatch: dict[str, Any] = {"hatch": "////", "edgecolor": theme.RULE, "facecolor": theme.PAPER, "linewidth": 0}
        axes.add_patch(Rectangle((float(column), float(row)), 1, 1, **hatch))
    sns.heatmap(
        percentages,
        ax=axes,
        cmap=theme.RAMP,
        vmin=0,
        vmax=100,
        cbar=False,
        annot=True,
        fmt=".0f",
        annot_kws={"size": theme.TEXT_SIZE},
        linewidths=1,
        linecolor=theme.PAPER,
        mask=np.isnan(percentages),
        xticklabels=[str(count) for count in share["samples"].values],
        yticklabels=[str(per_expert) for per_expert in share["patches_per_expert"].values],
    )
    for text in axes.texts:
        text.set_color(theme.ink_on(float(text.get_text()) / 100))
    _staircase(axes, percentages >= 90)
    axes.tick_params(colors=theme.MUTED, labelsize=theme.SMALL_SIZE, length=0, rotation=0)
    axes.set_xlabel("N, training samples", size=theme.TEXT_SIZE, color=theme.INK)
    axes.set_ylabel("l, patches each expert keeps", size=theme.TEXT_SIZE, color=theme.INK)
    for side in axes.spines.values():
        side.set_visible(False)


def _staircase(axes: Axes, enough: np.ndarray) -> None:
    """A line along the left and lower borders of the cells from which on all cells of their row are enough."""
    from_here = np.flip(np.logical_and.accumulate(np.flip(enough, axis=1), axis=1), axis=1)
    rows, columns = from_here.shape
    first = columns - from_here.sum(axis=1)
    style: dict[str, Any] = {"color": theme.FAILURE, "linewidth": 2.6, "solid_capstyle": "round", "clip_on": False}
    for row in range(rows):
        if first[row] < columns:
            axes.plot([first[row], first[row]], [row, row + 1], **style)
        if row + 1 < rows and first[row] != first[row + 1]:
            axes.plot([first[row], first[row + 1]], [row + 1, row + 1], **style)
    starts = np.flatnonzero(first < columns)
    if len(starts):
        top = starts[0]
        where: dict[str, Any] = {"xytext": (0, 4), "textcoords": "offset points", "ha": "center", "weight": "bold"}
        axes.annotate("90 %", (first[top], top), color=theme.FAILURE, size=theme.SMALL_SIZE, **where)


def _best_size(data: xr.Dataset, dim: str, symbol: str) -> str:
    mean = data["test_accuracy"].mean("trial")

    def at(count: int) -> str:
        curve = mean.sel(samples=count)
        if curve.isnull().all():
            return f"N = {count}: every training diverged"
        best, values = int(curve[dim][int(np.nanargmax(curve.values))]), curve[dim].values
        ends = f"{percent(curve[0])} at {symbol} = {values[0]}, {percent(curve[-1])} at {symbol} = {values[-1]}"
        return f"N = {count}: {ends}, best {percent(curve.max())} at {symbol} = {best}"

    return "; ".join(at(int(count)) for count in data["samples"].values) + "."


@PICTURES.of(
    "figure 6",
    finding=findings.by_experts,
    caption=partial(_best_size, dim="experts", symbol="k"),
    heads=_head("Does the number of experts matter?"),
    boxes=_panel,
)
def accuracy_by_experts(data: xr.Dataset, axes: Axes) -> None:
    """Figure 6: test accuracy of joint training against k, a line for each N."""
    _by_size(data, axes, "experts", "k, experts")


@PICTURES.of(
    "figure 7",
    finding=findings.by_patches,
    caption=partial(_best_size, dim="patches_per_expert", symbol="l"),
    heads=_head("Does it matter how many patches an expert keeps?"),
    boxes=_panel,
)
def accuracy_by_patches(data: xr.Dataset, axes: Axes) -> None:
    """Figure 7: test accuracy of joint training against l, a line for each N, and l* where it is known."""
    _by_size(data, axes, "patches_per_expert", "l, patches each expert keeps")
    known = l_star(data)
    if known is not None:
        low, high = axes.get_ylim()
        axes.axvline(known[0], color=theme.MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        place = low + 0.04 * (high - low)
        axes.text(known[0], place, f" l* = {known[0]}{known[1]}", color=theme.MUTED, size=theme.SMALL_SIZE)


def l_star(data: xr.Dataset) -> tuple[int, str] | None:
    """Returns l* of the figure's task and its source; None for digits, for which it is not known."""
    task = json.loads(data.attrs["config"])["task"]
    if task["name"] == "PatternTask":
        return PatternTask(**{name: value for name, value in task.items() if name != "name"}).l_star, ""
    return (6, " (the paper)") if task.get("source") == "mnist" else None


def _by_size(data: xr.Dataset, axes: Axes, dim: str, label: str) -> None:
    """Accuracy against k or l, a line for each N."""
    accuracy, counts = data["test_accuracy"], data["samples"].values
    _accuracy_axis(axes, accuracy, "test accuracy")
    values = data[dim].values
    axes.set_xscale("log", base=2)
    axes.set_xlim(values.min() / 1.12, values.max() * 1.12)
    log_ticks(axes, values)
    axes.set_xlabel(label)
    ends = []
    for line, count in enumerate(counts):
        style = style_of(line, theme.INK)
        end = curve(axes, accuracy.sel(samples=count), dim, style, hollow=line % 2 == 1)
        ends.append((end, f"N = {count}", theme.INK))
    theme.end_labels(axes, ends)


# --- figures 8 and 9 -------------------------------------------------------------------------------------------------


def _covered(data: xr.Dataset) -> str:
    at = _near(data, 300)
    mean = data["coverage"].mean("trial").sel(samples=at)
    each = series(
        f"{_shares(mean.sel(patches_per_expert=per_expert))} (l = {per_expert})"
        for per_expert in mean.patches_per_expert.values
    )
    return f"N = {at}: the top l patches hold o₁ / o₂ in {each} of test samples."


@PICTURES.of(
    "figure 8",
    finding=findings.covered,
    caption=_covered,
    heads=_head("What separately trained routers find", _STAR),
    boxes=None,
)
def separate_routers(data: xr.Dataset, figure: Figure | SubFigure) -> None:
    """Figure 8: how often o is in the top l of the separately trained router, against N; one panel per class."""
    panels = figure.subplots(1, data.sizes["class"], sharey=True)
    figure.subplots_adjust(left=0.07, right=0.93, bottom=0.2, top=0.8, wspace=0.3)
    for number, axes in enumerate(np.atleast_1d(panels)):
        colour = theme.CLASSES[number % len(theme.CLASSES)]
        _accuracy_axis(axes, data["coverage"], "" if number else "o is in the top l", step=0.1)
        _sample_axis(axes, data)
        axes.set_title(_class_name(number), color=colour, size=theme.TITLE_SIZE, weight="bold", loc="left")
        ends = []
        for line, per_expert in enumerate(data["patches_per_expert"].values):
            style = style_of(line, colour)
            shares = data["coverage"].isel({"class": number}).sel(patches_per_expert=per_expert)
            ends.append((curve(axes, shares, "samples", style), f"l = {per_expert}", colour))
        if number < len(_TOP_4):
            _star(axes, _PUBLISHED_ROUTERS, _TOP_4[number], "paper, l = 4", colour)
        theme.end_labels(axes, ends)


def _largest_gates(data: xr.Dataset) -> str:
    at = _near(data, 300)
    mean = data["largest_gate"].mean("trial").sel(samples=at)
    return f"N = {at}: o₁ / o₂ get the largest gate of their best expert in {_shares(mean)} of test samples."


@PICTURES.of(
    "figure 9",
    finding=findings.largest_gates,
    caption=_largest_gates,
    heads=_head("What jointly trained routers find", _STAR),
    boxes=_panel,
)
def joint_routers(data: xr.Dataset, axes: Axes) -> None:
    """Figure 9: how often o gets the largest gate of its class's best expert after joint training, against N."""
    _accuracy_axis(axes, data["largest_gate"], "o has the largest gate", step=0.1)
    _sample_axis(axes, data)
    ends = []
    for number in range(data.sizes["class"]):
        colour = theme.CLASSES[number % len(theme.CLASSES)]
        style = style_of(number, colour)
        end = curve(axes, data["largest_gate"].isel({"class": number}), "samples", style)
        ends.append((end, _class_name(number), colour))
        if number < len(_LARGEST_GATE):
            note = f"paper, {_class_name(number)}: {_LARGEST_GATE[number]:.0%}"
            _star(axes, _PUBLISHED_ROUTERS, _LARGEST_GATE[number], note, colour, "right" if number else "left")
    theme.end_labels(axes, ends)


def _near(data: xr.Dataset, wanted: int) -> int:
    counts = data["samples"].values
    return int(counts[np.abs(counts - wanted).argmin()])


def _shares(values: xr.DataArray) -> str:
    return " / ".join(f"{100 * float(value):.0f}" for value in values) + " %"


def _class_name(number: int) -> str:
    return theme.CLASS_NAMES[number] if number < len(theme.CLASS_NAMES) else f"o{number + 1}"


# --- curves ----------------------------------------------------------------------------------------------------------


def _accuracy_axis(axes: Axes, values: xr.DataArray, label: str, step: float = 0.05) -> None:
    """A vertical axis of shares from a round one below nearly all that will be drawn."""
    share_axis(theme.plain(axes), floor(values.mean("trial") - values.std("trial"), step, most=0.95), ticks=7)
    axes.set_ylabel(label)


def _sample_axis(axes: Axes, data: xr.Dataset) -> None:
    counts = data["samples"].values
    axes.set_xscale("log")
    axes.set_xlim(counts.min() / 1.12, counts.max() * 1.12)
    log_ticks(axes, counts)
    axes.set_xlabel("N, training samples")


def _line_at(axes: Axes, level: float, name: str) -> None:
    low, high = axes.get_ylim()
    if low < level < high:
        axes.axhline(level, color=theme.FAILURE, linewidth=1.2, linestyle=(0, (5, 3)), zorder=1)
        axes.text(axes.get_xlim()[0], level, f" {name}", color=theme.FAILURE, size=theme.SMALL_SIZE, va="bottom")


def _star(axes: Axes, x: float, y: float, note: str, colour: str, side: str = "center") -> None:
    """Marks a published result, with a note below it, or at its "left" or "right"."""
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
