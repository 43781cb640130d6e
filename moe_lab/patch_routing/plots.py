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
from matplotlib.ticker import NullLocator

from moe_lab.core.words import percent, series
from moe_lab.drawing import theme
from moe_lab.drawing.pictures import Box, Head, Pictures, panels_of
from moe_lab.drawing.scales import floor, share_axis
from moe_lab.patch_routing.data import PatternTask
from moe_lab.patch_routing.figures import samples_for

PICTURES = Pictures("pmoe2023")
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
_MARKERS = ("o", "^", "D", "s", "v", "P", "X", "h")
_LINES = ("-", "--", "-.", ":")
_WIDEST = 5.0
"""Points, the line of a gate of 1."""
_MEAN = "{} trials; line: mean, band: ± one standard deviation"
_STAR = f"{_MEAN}; star: what the paper reports for MNIST"
_SHARE = "% of {} trials with a test accuracy of at least 95 %; staircase: 90 % from here on"


def _head(title: str, note: str = _MEAN) -> Callable[[xr.Dataset], list[Head]]:
    """A page's one head, whose note says how many trials there are."""
    return lambda data: [(8, title, note.format(data.sizes["trial"]))]


def _panel(_: xr.Dataset) -> list[Box]:
    return [(84, 84, 880, 300)]


# --- figures 1 to 3 --------------------------------------------------------------------------------------------------


def _keepers(data: xr.Dataset) -> str:
    """Says which experts keep the deciding patch, with which gates, and what the model answers."""
    words = []
    for number, name in enumerate(theme.CLASS_NAMES[: data.sizes["class"]]):
        own = data.isel({"class": number})
        gates = own["gate"].isel(patch=int(own["signal"]))
        kept = [f"{int(gate['expert'])} ({float(gate):.0%})" for gate in gates if gate > 0]
        keepers = f"expert{'s' if len(kept) > 1 else ''} {series(kept)}" if kept else "no expert"
        words.append(f"{name} is kept by {keepers}, f = {float(own['output']):.2g}")
    return f"{'; '.join(words)}. In brackets: its gate."


def _illustration_heads(data: xr.Dataset) -> list[Head]:
    kept = int((data["gate"][0, 0] > 0).sum())
    return [
        (8, "The samples (figure 3)", f"{data.sizes['patch']} patches; outlined: o₁ or o₂"),
        (360, "What experts keep (figure 1)", f"marks: experts, each with {kept} patches"),
        (690, "How that becomes f (figure 2)", "lines: gates, then output weights; dashed: below 0"),
    ]


@PICTURES.of(
    "figures 1 to 3",
    caption=_keepers,
    heads=_illustration_heads,
    boxes=lambda _: [(30, 90, 160, 160), (30, 274, 160, 160), (372, 90, 280, 280), (690, 80, 400, 360)],
)
def illustrations(data: xr.Dataset, axes: Any) -> None:
    """Figures 1 to 3 on four Axes: a sample of each class, what experts keep of the first, and the network."""
    *samples, marked, network = panels_of(axes, 4)
    for number, one in enumerate(samples):
        own = data.isel({"class": number})
        _grid(one, own, number)
        words = f"{theme.CLASS_NAMES[number]}\ny = {theme.CLASS_SIGNS[number]}1\nf = {float(own['output']):.2g}"
        place: dict[str, Any] = {"transform": one.transAxes, "va": "center", "size": theme.TEXT_SIZE}
        one.text(1.06, 0.5, words, color=theme.CLASSES[number], weight="bold", **place)
    first = data.isel({"class": 0})
    across = _grid(marked, first, 0)
    for expert, gates in enumerate(first["gate"].values):
        for patch in np.flatnonzero(gates):
            aside = (expert + 0.5) / len(first["gate"]) - 0.5
            _mark(marked, expert, patch % across + 0.8 * aside, patch // across + 0.32, 12)
    _network(network, first)


def _grid(axes: Axes, own: xr.Dataset, number: int) -> int:
    """Draws the patches of a sample in a square; returns how many there are in a row."""
    images, signal = own["image"].values, int(own["signal"])
    across = int(np.ceil(np.sqrt(len(images))))
    axes.set(xlim=(-0.52, across - 0.48), ylim=(across - 0.48, -0.52))
    axes.set_axis_off()
    for patch, image in enumerate(images):
        x, y = patch % across, patch // across
        axes.imshow(image, cmap="gray_r", vmin=0, vmax=1, extent=(x - 0.46, x + 0.46, y + 0.46, y - 0.46), zorder=1)
    corner = (signal % across - 0.48, signal // across - 0.48)
    axes.add_patch(Rectangle(corner, 0.96, 0.96, fill=False, edgecolor=theme.CLASSES[number], linewidth=3, zorder=3))
    axes.set(xlim=(-0.52, across - 0.48), ylim=(across - 0.48, -0.52))
    return across


def _network(axes: Axes, own: xr.Dataset) -> None:
    """Patches, experts with their neurons, and the output, from left to right."""
    gates, images = own["gate"].values, own["image"].values
    axes.set(xlim=(0, 400), ylim=(360, 0))
    axes.set_axis_off()
    rows = np.linspace(14, 346, len(images))
    half = min(12.0, 0.46 * 332 / max(1, len(images) - 1))
    shown = np.asarray((gates > 0).any(axis=0))
    for patch, (row, image) in enumerate(zip(rows, images, strict=True)):
        extent = (24 - half, 24 + half, row + half, row - half)
        axes.imshow(image, cmap="gray_r", vmin=0, vmax=1, alpha=1.0 if shown[patch] else 0.3, extent=extent, zorder=2)
    edge: dict[str, Any] = {"fill": False, "edgecolor": theme.CLASSES[0], "linewidth": 2.5, "zorder": 3}
    axes.add_patch(Rectangle((24 - half, rows[int(own["signal"])] - half), 2 * half, 2 * half, **edge))
    places = np.linspace(360 / len(gates) / 2, 360 - 360 / len(gates) / 2, len(gates))
    for expert, (place, row) in enumerate(zip(places, gates, strict=True)):
        style = theme.expert(expert)
        for kept in np.flatnonzero(row):
            width = max(0.6, _WIDEST * row[kept])
            axes.plot([24 + half, 150], [rows[kept], place], color=style.colour, linewidth=width, zorder=1, gid="gate")
        _mark(axes, expert, 160, place, 17)
        _neurons(axes, own, expert, place)
    axes.text(326, 180, f"f = {float(own['output']):.2g}", size=theme.TITLE_SIZE, weight="bold", va="center")
    axes.set(xlim=(0, 400), ylim=(360, 0))


def _neurons(axes: Axes, own: xr.Dataset, expert: int, place: float) -> None:
    """An expert's neurons as discs, as dark as their share of the largest |a_r| times what they pass on is."""
    member = np.flatnonzero(own["expert_of"].values == expert + 1)
    passed = np.abs(_passed(own))
    for row, neuron in zip(place + 26 * (np.arange(len(member)) - (len(member) - 1) / 2), member, strict=True):
        share, weight = passed[neuron] / max(passed.max(), 1e-12), float(own["output_weight"][neuron])
        axes.plot([170, 235], [place, row], color=theme.RULE, linewidth=1.2, zorder=1)
        line = "-" if weight >= 0 else (0, (4, 2))
        axes.plot([235, 320], [row, 180], color=theme.INK, linewidth=0.6 + 2.4 * share, linestyle=line, zorder=1)
        disc: dict[str, Any] = {"markeredgecolor": theme.INK, "markeredgewidth": 1, "linestyle": "none", "zorder": 2}
        face = tuple(theme.ramp(share) / 255)
        axes.plot([235], [row], "o", markersize=13, markerfacecolor=face, gid="neuron", **disc)


def _passed(own: xr.Dataset) -> np.ndarray:
    """(neuron,) each neuron's part of l f: a_r times the sum of its gated values."""
    gates = own["gate"].values[own["expert_of"].values - 1]
    return np.asarray(own["output_weight"].values * (gates * own["hidden"].values).sum(-1))


def _mark(axes: Axes, expert: int, x: float, y: float, size: float) -> None:
    for part in theme.expert_head(axes, expert, size):
        part.set_data([x], [y])


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
    caption=_samples_needed,
    heads=_head("How many samples each model needs", _STAR),
    boxes=_panel,
    first=4,
)
def sample_complexity(data: xr.Dataset, axes: Axes) -> None:
    """Figure 4: test accuracy of the three models against N; the star is the paper's claim of 60 % of the CNN's N."""
    accuracy = data["test_accuracy"]
    _accuracy_axis(axes, accuracy, "test accuracy")
    _sample_axis(axes, data)
    ends = []
    for name, style in theme.styles(map(str, data["model"].values), MODELS).items():
        end = _curve(axes, accuracy.sel(model=name), "samples", style, hollow=name == "separate")
        ends.append((end, MODEL_NAMES.get(name, name), style.colour))
    _line_at(axes, 0.95, "95 %")
    if "cnn" in data["model"]:
        needed = float(samples_for(data, 0.95).sel(model="cnn"))
        if np.isfinite(needed):
            _star(axes, 0.6 * needed, 0.95, "paper: 60 % of\nthe CNN's N", theme.INK)
    theme.end_labels(axes, ends)


def _cheapest(data: xr.Dataset) -> str:
    share = data["success"].mean("trial", skipna=False)
    enough = (share >= 0.9).sortby("samples", ascending=False).astype(int).cumprod("samples").astype(bool)
    least = enough["samples"].where(enough).min("samples")
    if not np.isfinite(least).any():
        return f"No l reaches 95 % accuracy in 90 % of the trials with {int(data['samples'].max())} samples."
    best = float(least.min())
    cheapest = [str(kept) for kept in data["patches_per_expert"].values[least.values == best]]
    top = int(data["patches_per_expert"].max())
    last = float(least.sel(patches_per_expert=top))
    needs = f"needs {last:.0f}" if np.isfinite(last) else f"needs more than {int(data['samples'].max())}"
    return f"Cheapest: l = {series(cheapest)} with {best:.0f} samples; l = {top} {needs}."


@PICTURES.of(
    "figure 5",
    caption=_cheapest,
    heads=_head("How often separate training succeeds", _SHARE),
    boxes=_panel,
    first=5,
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
        yticklabels=[str(kept) for kept in share["patches_per_expert"].values],
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
        best, values = int(curve[dim][int(np.nanargmax(curve.values))]), curve[dim].values
        ends = f"{percent(curve[0])} at {symbol} = {values[0]}, {percent(curve[-1])} at {symbol} = {values[-1]}"
        return f"N = {count}: {ends}, best {percent(curve.max())} at {symbol} = {best}"

    return "; ".join(at(int(count)) for count in data["samples"].values) + "."


@PICTURES.of(
    "figure 6",
    caption=partial(_best_size, dim="experts", symbol="k"),
    heads=_head("Does the number of experts matter?"),
    boxes=_panel,
    first=6,
)
def accuracy_by_experts(data: xr.Dataset, axes: Axes) -> None:
    """Figure 6: test accuracy of joint training against k, a line for each N."""
    _by_size(data, axes, "experts", "k, experts")


@PICTURES.of(
    "figure 7",
    caption=partial(_best_size, dim="patches_per_expert", symbol="l"),
    heads=_head("Does it matter how many patches an expert keeps?"),
    boxes=_panel,
    first=7,
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
    _ticks(axes, values)
    axes.set_xlabel(label)
    ends = []
    for line, count in enumerate(counts):
        style = _style_of(line, theme.INK)
        end = _curve(axes, accuracy.sel(samples=count), dim, style, hollow=line % 2 == 1)
        ends.append((end, f"N = {count}", theme.INK))
    theme.end_labels(axes, ends)


# --- figures 8 and 9 -------------------------------------------------------------------------------------------------


def _covered(data: xr.Dataset) -> str:
    at = _near(data, 300)
    mean = data["coverage"].mean("trial").sel(samples=at)
    each = series(
        f"{_shares(mean.sel(patches_per_expert=kept))} (l = {kept})" for kept in mean.patches_per_expert.values
    )
    return f"N = {at}: the top l patches hold o₁ / o₂ in {each} of test samples."


@PICTURES.of(
    "figure 8",
    caption=_covered,
    heads=_head("What separately trained routers find", _STAR),
    boxes=None,
    first=8,
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
        for line, kept in enumerate(data["patches_per_expert"].values):
            style = _style_of(line, colour)
            shares = data["coverage"].isel({"class": number}).sel(patches_per_expert=kept)
            ends.append((_curve(axes, shares, "samples", style), f"l = {kept}", colour))
        if number < len(_TOP_4):
            _star(axes, _PUBLISHED_ROUTERS, _TOP_4[number], "paper, l = 4", colour)
        theme.end_labels(axes, ends)


def _largest_gates(data: xr.Dataset) -> str:
    at = _near(data, 300)
    mean = data["largest_gate"].mean("trial").sel(samples=at)
    return f"N = {at}: o₁ / o₂ get the largest gate of their best expert in {_shares(mean)} of test samples."


@PICTURES.of(
    "figure 9",
    caption=_largest_gates,
    heads=_head("What jointly trained routers find", _STAR),
    boxes=_panel,
    first=9,
)
def joint_routers(data: xr.Dataset, axes: Axes) -> None:
    """Figure 9: how often o gets the largest gate of its class's best expert after joint training, against N."""
    _accuracy_axis(axes, data["largest_gate"], "o has the largest gate", step=0.1)
    _sample_axis(axes, data)
    ends = []
    for number in range(data.sizes["class"]):
        colour = theme.CLASSES[number % len(theme.CLASSES)]
        style = _style_of(number, colour)
        end = _curve(axes, data["largest_gate"].isel({"class": number}), "samples", style)
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


def _style_of(number: int, colour: str) -> theme.Style:
    """The style of line `number` of several that share a colour."""
    return theme.Style(colour, _MARKERS[number % len(_MARKERS)], _LINES[number % len(_LINES)])


def _curve(axes: Axes, values: xr.DataArray, dim: str, style: theme.Style, hollow: bool = False) -> float:
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


def _accuracy_axis(axes: Axes, values: xr.DataArray, label: str, step: float = 0.05) -> None:
    """A vertical axis of shares from a round one below nearly all that will be drawn."""
    share_axis(theme.plain(axes), floor(values.mean("trial") - values.std("trial"), step, most=0.95), ticks=7)
    axes.set_ylabel(label)


def _sample_axis(axes: Axes, data: xr.Dataset) -> None:
    counts = data["samples"].values
    axes.set_xscale("log")
    axes.set_xlim(counts.min() / 1.12, counts.max() * 1.12)
    _ticks(axes, counts)
    axes.set_xlabel("N, training samples")


def _ticks(axes: Axes, values: np.ndarray) -> None:
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


def _line_at(axes: Axes, level: float, name: str) -> None:
    low, high = axes.get_ylim()
    if low < level < high:
        axes.axhline(level, color=theme.FAILURE, linewidth=1.2, linestyle=(0, (5, 3)), zorder=1)
        axes.text(axes.get_xlim()[0], level, f" {name}", color=theme.FAILURE, size=theme.SMALL_SIZE, va="bottom")


def _star(axes: Axes, x: float, y: float, note: str, colour: str, side: str = "center") -> None:
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
