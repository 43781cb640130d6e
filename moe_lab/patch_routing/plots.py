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
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Rectangle

from moe_lab.drawing import theme
from moe_lab.drawing.pictures import Kind, Pictures
from moe_lab.patch_routing import captions, illustration_plots, plot_helpers
from moe_lab.patch_routing.data import PatternTask
from moe_lab.patch_routing.figures import samples_for

MODELS = {
    "joint": theme.Style(theme.INK, "o", "-"),
    "separate": theme.Style(theme.INK, "^", ":"),
    "cnn": theme.Style(theme.REFERENCE, "s", "--"),
}
"""Both mixtures are in ink and differ in marker and line; the CNN is the reference."""
MODEL_NAMES = {"joint": "joint pMoE", "separate": "separate pMoE", "cnn": "CNN"}
_PUBLISHED_ROUTERS = 300  # the N of the shares that the paper's text gives for figures 8 and 9
_TOP_4, _LARGEST_GATE = (0.95, 0.95), (0.95, 0.92)


def sample_complexity(data: xr.Dataset, axes: Axes) -> None:
    """Figure 4: test accuracy of the three models against N; the star is the paper's claim of 60 % of the CNN's N."""
    accuracy = data["test_accuracy"]
    plot_helpers.percent(axes, plot_helpers.floor(accuracy), "test accuracy")
    plot_helpers.sizes(axes, data)
    ends = []
    for name, style in theme.styles(map(str, data["model"].values), MODELS).items():
        end = plot_helpers.curve(axes, accuracy.sel(model=name), "samples", style, hollow=name == "separate")
        ends.append((end, MODEL_NAMES.get(name, name), style.colour))
    plot_helpers.line_at(axes, 0.95, "95 %")
    if "cnn" in data["model"]:
        needed = float(samples_for(data, 0.95).sel(model="cnn"))
        if np.isfinite(needed):
            plot_helpers.star(axes, 0.6 * needed, 0.95, "paper: 60 % of\nthe CNN's N", theme.INK)
    theme.end_labels(axes, ends)


def phase_map(data: xr.Dataset, axes: Axes) -> None:
    """Figure 5: the share of trainings that succeed for every l and N; the staircase is where 90 % do from there on."""
    success = data["success"].transpose("patches_per_expert", "samples", "trial")
    share = success.mean("trial", skipna=False).sortby("patches_per_expert", ascending=False).sortby("samples")
    percent = 100 * share.values
    axes.set_facecolor(theme.PAPER)
    for row, column in zip(*np.nonzero(np.isnan(percent)), strict=True):  # not run
        hatch: dict[str, Any] = {"hatch": "////", "edgecolor": theme.RULE, "facecolor": theme.PAPER, "linewidth": 0}
        axes.add_patch(Rectangle((float(column), float(row)), 1, 1, **hatch))
    sns.heatmap(
        percent,
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
        mask=np.isnan(percent),
        xticklabels=[str(count) for count in share["samples"].values],
        yticklabels=[str(kept) for kept in share["patches_per_expert"].values],
    )
    for text in axes.texts:
        text.set_color(theme.ink_on(float(text.get_text()) / 100))
    _staircase(axes, percent >= 90)
    axes.tick_params(colors=theme.MUTED, labelsize=theme.SMALL_SIZE, length=0, rotation=0)
    axes.set_xlabel("N, training samples", size=theme.TEXT_SIZE, color=theme.INK)
    axes.set_ylabel("l, patches each expert keeps", size=theme.TEXT_SIZE, color=theme.INK)
    for side in axes.spines.values():
        side.set_visible(False)


def accuracy_by_experts(data: xr.Dataset, axes: Axes) -> None:
    """Figure 6: test accuracy of joint training against k, a line for each N."""
    _by_size(data, axes, "experts", "k, experts")


def accuracy_by_patches(data: xr.Dataset, axes: Axes) -> None:
    """Figure 7: test accuracy of joint training against l, a line for each N, and l* where it is known."""
    _by_size(data, axes, "patches_per_expert", "l, patches each expert keeps")
    known = l_star(data)
    if known is not None:
        low, high = axes.get_ylim()
        axes.axvline(known[0], color=theme.MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        place = low + 0.04 * (high - low)
        axes.text(known[0], place, f" l* = {known[0]}{known[1]}", color=theme.MUTED, size=theme.SMALL_SIZE)


def separate_routers(data: xr.Dataset, figure: Figure | SubFigure) -> None:
    """Figure 8: how often o is in the top l of the separately trained router, against N; one panel per class."""
    panels = figure.subplots(1, data.sizes["class"], sharey=True)
    figure.subplots_adjust(left=0.07, right=0.93, bottom=0.2, top=0.8, wspace=0.3)
    for number, axes in enumerate(np.atleast_1d(panels)):
        colour = theme.CLASSES[number % len(theme.CLASSES)]
        theme.plain(axes)
        plot_helpers.percent(
            axes, plot_helpers.floor(data["coverage"], 0.1), "o is in the top l" if number == 0 else ""
        )
        plot_helpers.sizes(axes, data)
        axes.set_title(plot_helpers.class_name(number), color=colour, size=theme.TITLE_SIZE, weight="bold", loc="left")
        ends = []
        for line, kept in enumerate(data["patches_per_expert"].values):
            style = plot_helpers.style_of(line, colour)
            shares = data["coverage"].isel({"class": number}).sel(patches_per_expert=kept)
            ends.append((plot_helpers.curve(axes, shares, "samples", style), f"l = {kept}", colour))
        if number < len(_TOP_4):
            plot_helpers.star(axes, _PUBLISHED_ROUTERS, _TOP_4[number], "paper, l = 4", colour)
        theme.end_labels(axes, ends)


def joint_routers(data: xr.Dataset, axes: Axes) -> None:
    """Figure 9: how often o gets the largest gate of its class's best expert after joint training, against N."""
    plot_helpers.percent(axes, plot_helpers.floor(data["largest_gate"], 0.1), "o has the largest gate")
    plot_helpers.sizes(axes, data)
    ends = []
    for number in range(data.sizes["class"]):
        colour = theme.CLASSES[number % len(theme.CLASSES)]
        style = plot_helpers.style_of(number, colour)
        end = plot_helpers.curve(axes, data["largest_gate"].isel({"class": number}), "samples", style)
        ends.append((end, plot_helpers.class_name(number), colour))
        if number < len(_LARGEST_GATE):
            note = f"paper, {plot_helpers.class_name(number)}: {_LARGEST_GATE[number]:.0%}"
            plot_helpers.star(
                axes, _PUBLISHED_ROUTERS, _LARGEST_GATE[number], note, colour, "right" if number else "left"
            )
    theme.end_labels(axes, ends)


def l_star(data: xr.Dataset) -> tuple[int, str] | None:
    """Returns l* of the figure's task and its source; None for digits, for which it is not known."""
    task = json.loads(data.attrs["config"])["task"]
    if task["name"] == "PatternTask":
        return PatternTask(**{name: value for name, value in task.items() if name != "name"}).l_star, ""
    return (6, " (the paper)") if task.get("source") == "mnist" else None


def _by_size(data: xr.Dataset, axes: Axes, dim: str, label: str) -> None:
    """Accuracy against k or l, a line for each N."""
    accuracy, counts = data["test_accuracy"], data["samples"].values
    plot_helpers.percent(axes, plot_helpers.floor(accuracy), "test accuracy")
    values = data[dim].values
    axes.set_xscale("log", base=2)
    axes.set_xlim(values.min() / 1.12, values.max() * 1.12)
    plot_helpers.ticks(axes, values)
    axes.set_xlabel(label)
    ends = []
    for line, count in enumerate(counts):
        style = plot_helpers.style_of(line, theme.INK)
        end = plot_helpers.curve(axes, accuracy.sel(samples=count), dim, style, hollow=line % 2 == 1)
        ends.append((end, f"N = {count}", theme.INK))
    theme.end_labels(axes, ends)


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


_MEAN = "{} trials; line: mean, band: ± one standard deviation"
_STAR = f"{_MEAN}; star: what the paper reports for MNIST"
_SHARE = "% of {} trials with a test accuracy of at least 95 %; staircase: 90 % from here on"


def _page(number: int, title: str, note: str = _MEAN, panel: bool = True) -> Callable[[xr.Dataset, Figure], Any]:
    """A layout with one head and one Axes, or, without a panel, with nothing below the head."""

    def lay_out(data: xr.Dataset, page: Figure) -> Any:
        theme.header(page, 8, number, title, note.format(data.sizes["trial"]))
        return theme.axes(page, 84, 84, 880, 300) if panel else page

    return lay_out


_BY_EXPERTS = partial(captions.by_size, dim="experts", symbol="k")
_BY_PATCHES = partial(captions.by_size, dim="patches_per_expert", symbol="l")
PICTURES = Pictures(
    "pmoe2023",
    {
        "figures 1 to 3": Kind(illustration_plots.caption, illustration_plots.draw, illustration_plots.lay_out),
        "figure 4": Kind(
            captions.sample_complexity, sample_complexity, _page(4, "How many samples each model needs", _STAR)
        ),
        "figure 5": Kind(captions.phase_map, phase_map, _page(5, "How often separate training succeeds", _SHARE)),
        "figure 6": Kind(_BY_EXPERTS, accuracy_by_experts, _page(6, "Does the number of experts matter?")),
        "figure 7": Kind(
            _BY_PATCHES, accuracy_by_patches, _page(7, "Does it matter how many patches an expert keeps?")
        ),
        "figure 8": Kind(
            captions.separate_routers,
            separate_routers,
            _page(8, "What separately trained routers find", _STAR, panel=False),
        ),
        "figure 9": Kind(captions.joint_routers, joint_routers, _page(9, "What jointly trained routers find", _STAR)),
    },
)
caption, picture = PICTURES.caption, PICTURES.picture
