"""Draws the Datasets of `figures`: one function a figure, onto an Axes or several.

They return nothing and never train. Experts that vote + are blue, those that vote - orange; the chosen
criterion is in ink, the others are grey, each with its own dashes and marker. `picture` draws any of them on a page of
its own, with heads and a caption.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from moe_lab.core.saliency import name_of
from moe_lab.core.words import counted
from moe_lab.drawing import theme
from moe_lab.drawing.line_names import Line, name_lines, tied_names
from moe_lab.drawing.pictures import Box, Head, Pictures, panels_of, side_by_side
from moe_lab.drawing.published import band
from moe_lab.drawing.scales import percents, share_axis
from moe_lab.drawing.style import in_fixed_style
from moe_lab.pruning import findings, router_plots
from moe_lab.pruning.costs import relative
from moe_lab.pruning.router_plots import GROUPS, TALL, TOP, settings_of, threshold
from moe_lab.pruning.router_plots import routers as routers

PICTURES = Pictures("pruning2024").including(router_plots.PICTURES)
caption, picture = PICTURES.caption, PICTURES.picture

_LINES: dict[str, tuple[str, Any]] = {
    "router-norm-change": ("o", "-"),
    "random": ("X", (0, (1, 1.2))),
    "importance-score": ("^", (0, (6, 1.5, 1, 1.5))),
    "router-magnitude": ("s", (0, (5, 2))),
    "neuron-magnitude": ("D", (0, (9, 2.5))),
    "neuron-magnitude-change": ("v", (0, (2.5, 1.5))),
    "router-difference-norm": ("P", (0, (6, 1.2, 1, 1.2, 1, 1.2))),
    "token-count": ("<", (0, (1, 3))),
}
_ROUTINGS = {"expert-choice": theme.MODEL, "token-choice": theme.OTHER}
_LOW = 0.4
"""Where axes of accuracy begin: below the 50 % of guessing, with room for samples to scatter."""
_COSTS = {"operations": "FLOPs", "bytes": "memory", "seconds": "time"}
_STARTS = {"PlantedStart": "planted", "RandomStart": "random", "BranchStart": "pre-trained"}


# --- criteria --------------------------------------------------------------------------------------------------------


def _accuracies(data: xr.Dataset) -> str:
    last = data.sortby("rho").isel(rho=-1).sel(fine_tuned=False)
    parts = []
    for name in map(str, data["criterion"].values):
        values = last["test_accuracy"].sel(criterion=name)
        parts.append(f"{name_of(name)} {_whole(values.median())} (worst {_whole(values.min())})")
    return (
        f"ρ = {float(last['rho']):g}, {int(last['experts_kept'])} of {data.sizes['expert']} experts left, median of "
        f"{counted(data.sizes['trial'])} without fine-tuning: {', '.join(parts)}."
    )


def _whole(share: xr.DataArray) -> str:
    value = float(share)
    return f"{100 * value:.0f}\u00a0%" if np.isfinite(value) else "diverged"  # not to be broken


def _curve_heads(data: xr.Dataset) -> list[Head]:
    settings = settings_of(data)
    start = _STARTS.get(settings["start"]["kind"], settings["start"]["kind"])
    note = f"median of {counted(data.sizes['trial'])}"
    if "random" in data["criterion"]:
        note += "; grey: range of random"
    moved = (12, "Which routers moved", f"{start} start, {settings['model']['routing']}")
    if data.sizes["fine_tuned"] == 1:
        return [moved, (546, "After pruning", note)]
    tuned = f"{data.attrs['fine_tuning_steps']} steps on fresh samples"
    return [moved, (308, "After pruning", note), (696, "… and fine-tuning", tuned)]


def _curve_boxes(data: xr.Dataset) -> list[Box]:
    if data.sizes["fine_tuned"] == 2:
        return [(62, TOP, 230, TALL - 12), (352, TOP, 212, TALL), (740, TOP, 212, TALL)]
    return [(62, TOP, 420, TALL - 12), (590, TOP, 312, TALL)]


@PICTURES.of(
    "figure 5",
    finding=findings.best_criteria,
    caption=_accuracies,
    heads=_curve_heads,
    boxes=_curve_boxes,
)
def criteria(data: xr.Dataset, axes: Any, chosen: str = "router-norm-change") -> None:
    """Figures 4a, 5 and 9 in kind: what moved, and the accuracy against rho by each criterion.

    Args:
      data: what `figures.criteria` returned.
      axes: one Axes for Delta and one for each value of fine_tuned.
      chosen: the criterion in ink; the first one where this is not among the data's.
    """
    panels = panels_of(axes, 1 + data.sizes["fine_tuned"])
    norm_changes(data, panels[0])
    for panel, tuned in zip(panels[1:], data["fine_tuned"].values, strict=True):
        pruning_curve(data, panel, bool(tuned), chosen)


@in_fixed_style
def norm_changes(data: xr.Dataset, axes: Axes) -> None:
    """Delta of every expert in every trial, those planted as important apart from the others."""
    theme.plain(axes)
    known = "important" in data
    columns = [(sign, flag) for sign in GROUPS for flag in ((True, False) if known else (None,))]
    for place, (sign, flag) in enumerate(columns):
        mine = data["norm_change"].sel(expert=data["group"] == sign)
        if flag is not None:
            mine = mine.where(data["important"].sel(expert=data["group"] == sign) == flag)
        values = mine.values.ravel()
        values = np.sort(values[np.isfinite(values)])
        aside = place + 0.22 * np.resize([0, -1, 1, -0.5, 0.5], len(values)) * (len(values) > 1)
        colour = theme.CLASSES[GROUPS.index(sign)]
        face = theme.PAPER if flag is False else colour
        mark: dict[str, Any] = {"marker": "os"[sign == "-"], "linestyle": "none", "markersize": 4.5, "clip_on": False}
        axes.plot(aside, values, **mark, markerfacecolor=face, markeredgecolor=colour, alpha=0.65, gid=f"{sign} {flag}")
    words = {True: "important", False: "others", None: "experts"}
    ticks = [f"{words[flag]}\nvote {theme.CLASS_SIGNS[sign == '-']}" for sign, flag in columns]
    axes.set_xticks(range(len(columns)), ticks)
    for label, (sign, _) in zip(axes.get_xticklabels(), columns, strict=True):
        label.set(color=theme.CLASSES[GROUPS.index(sign)], size=theme.SMALL_SIZE)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    model = settings_of(data)["model"]
    known_theory = model["routing"] == "expert-choice" and model["top"] > 1
    level = 1.5 * np.log(model["top"]) if known_theory else 0.0
    finite = data["norm_change"].values[np.isfinite(data["norm_change"].values)]
    low, high = min(0.0, float(finite.min(initial=0))), max(level, float(finite.max(initial=1)))
    axes.set_ylim(low - 0.04 * (high - low), high + 0.1 * (high - low))
    if known_theory:  # lemma 4.1 is about experts that choose
        threshold(axes, level, f"theory: 1.5 log l = {level:.2f}")
    axes.set_ylabel("Δ, change of the router's norm")


@in_fixed_style
def pruning_curve(data: xr.Dataset, axes: Axes, fine_tuned: bool = False, chosen: str = "router-norm-change") -> None:
    """Median test accuracy against rho, a line for each criterion; the ground is random's range from trial to trial.

    Args:
      data: what `figures.criteria` returned; `rho=figures.CURVE` gives a fine grid.
      fine_tuned: which of the two.
      chosen: see `criteria`.
    """
    theme.plain(axes)
    values = data["test_accuracy"].sel(fine_tuned=fine_tuned).sortby("rho")
    rho = values["rho"].values
    names = [str(name) for name in data["criterion"].values]
    chosen = chosen if chosen in names else names[0]
    finite = values.values[np.isfinite(values.values)]
    low = _LOW if finite.min(initial=1) >= _LOW else 0.0
    share_axis(axes, low, 1 + 0.03 * (1 - low), ticks=np.arange(low, 1.05, 0.1 if low else 0.2))
    axes.set_xlim(min(0.0, float(rho[0])) - 0.02, float(rho[-1]) + 0.03)
    axes.axhline(0.5, color=theme.RULE, linewidth=1, zorder=0)
    if "random" in names:
        band(axes, values.sel(criterion="random"), "rho", "range of random")
    lines = []
    for name in sorted(reversed(names), key=lambda name: name == chosen):  # the last of equals is named on top
        colour, marker, dashes = style_of(name, chosen, names)
        median = values.sel(criterion=name).median("trial").values
        mine = name == chosen
        line: dict[str, Any] = {"color": colour, "linestyle": dashes, "linewidth": 3.4 if mine else 1.6}
        mark: dict[str, Any] = {"marker": marker, "markersize": 8 if mine else 5.5}
        mark |= {"markeredgecolor": theme.PAPER, "markeredgewidth": 0.6}
        axes.plot(rho, median, **line, **mark, zorder=4 if mine else 3, clip_on=False, gid=name)
        lines.append(Line(rho, median, name_of(name), colour))
    name_lines(axes, lines)
    axes.set_xlabel("ρ, share of experts pruned")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def style_of(criterion: str, chosen: str, names: Sequence[str] = ()) -> tuple[str, str, Any]:
    """Colour, marker and dashes: ink and solid for the chosen criterion, grey for the others, each with its own.

    Criteria that are none of ours have colours of their own, in the order of `names`.
    """
    if criterion not in _LINES and criterion != chosen and criterion in names:
        own = theme.styles([name for name in names if name not in _LINES], {})[criterion]
        return own.colour, own.marker, own.line
    marker, dashes = _LINES.get(criterion, ("*", ":"))
    return (
        (theme.INK, marker, "-")
        if criterion == chosen
        else (theme.REFERENCE, marker, "--" if dashes == "-" else dashes)
    )


# --- costs -----------------------------------------------------------------------------------------------------------


def _savings(data: xr.Dataset) -> str:
    parts = []
    for routing in map(str, data["routing"].values):
        here = {name: float(relative(data, name).sel(routing=routing).isel(rho=-1)) for name in _COSTS}
        words = [f"{100 * here[name]:.0f}\u00a0% of the {_COSTS[name]}" for name in _COSTS]
        parts.append(f"{routing} {words[0]}, {words[1]} and {words[2]}")
    off = float(abs(data["counted_operations"] / data["operations"] - 1).max())
    agree = "torch counts the same FLOPs" if off < 1e-6 else f"torch's count of FLOPs is up to {100 * off:.1f} % off"
    left, whole = int(data["experts_kept"][-1]), int(data["experts_kept"].sel(rho=0.0))
    return f"With {left} of {whole} experts left: {'; '.join(parts)}. {agree[0].upper()}{agree[1:]}."


def _cost_heads(data: xr.Dataset) -> list[Head]:
    settings, whole = settings_of(data), data.sel(rho=0.0)
    size = f"k = {settings['experts']}, d = {settings['dimension']}, m = {settings['neurons']}"
    calls = f"{counted(settings['samples'], 'sample')}, marks: {counted(data.sizes['repeat'], 'run')}"
    flops = _amounts(whole["operations"] / 1e6, "{:.0f}", "MFLOP")
    memory = _amounts(whole["bytes"] / 1e6, "{:.0f}", "MB")
    time = _amounts(1e3 * whole["seconds"].median("repeat"), "{:.1f}", "ms")
    return [
        (12, "FLOPs of a sample", f"100 % = {flops}\nline: formula, marks: torch's counter"),
        (370, "Memory of the layer", f"100 % = {memory}\n{size}"),
        (728, "Inference time", f"100 % = {time}\n{calls}"),
    ]


def _amounts(values: xr.DataArray, form: str, unit: str) -> str:
    """One number, or those of all routings where they are written differently."""
    written = dict.fromkeys(form.format(float(value)) for value in values)
    return f"{' and '.join(written)} {unit}"


@PICTURES.of(
    "figure 6",
    finding=findings.saved,
    caption=_savings,
    heads=_cost_heads,
    boxes=lambda _: side_by_side(3, 64, 964, TOP + 12, TALL - 12, gap=174),
)
def efficiency(data: xr.Dataset, axes: Any) -> None:
    """Figures 6 and 10 in kind: FLOPs, memory and time of the pruned layer against the share of experts pruned.

    Lines are FLOPs by formula, bytes, and median times; marks are FLOPs as torch counts them, and every measured time.

    Args:
      data: what `figures.efficiency` returned.
      axes: three Axes.
    """
    share = data["pruned_share"].values
    for panel, quantity in zip(panels_of(axes, 3), _COSTS, strict=True):
        theme.plain(panel)
        panel.plot([0, 1], [1, 0], color=theme.RULE, linewidth=1, zorder=0, gid="in proportion")
        ends, highest = [], 1.0
        for routing in map(str, data["routing"].values):
            style = _ROUTINGS[routing]
            curve = relative(data, quantity).sel(routing=routing).values
            thick: dict[str, Any] = {"linewidth": 2.8 if style is theme.MODEL else 2, "zorder": 3}
            panel.plot(share, curve, color=style.colour, linestyle=style.line, **thick, clip_on=False, gid=routing)
            marks = _marks(data, quantity, routing)
            highest = max(highest, float(marks.max()))
            across = np.repeat(share, marks.shape[1])
            face = style.colour if style is theme.MODEL else theme.PAPER
            mark: dict[str, Any] = {"marker": style.marker, "markersize": 5, "markerfacecolor": face}
            mark |= {"color": style.colour, "linestyle": "none", "zorder": 4, "clip_on": False}
            panel.plot(across, marks.ravel(), **mark, gid=f"{routing} marks")
            slope = float(data["slope"].sel(quantity=quantity, routing=routing))
            words = f"{routing}\n slope {slope:.2f}".replace("-0", "−0").replace("-1", "−1")
            ends.append((float(curve[-1]), words, style.colour))
        panel.set_xlim(0, 1)
        share_axis(panel, 0.0, highest + 0.03, ticks=np.arange(0, 1.05, 0.2))
        tied_names(panel, float(share[-1]), ends, 30)
        panel.set_xlabel("share of experts pruned")
        percents(panel.xaxis)
        panel.set_xticks([0, 0.5, 1])


def _marks(data: xr.Dataset, quantity: str, routing: str) -> np.ndarray:
    """(rho, marks) what is marked on a line of `efficiency`, as shares of the unpruned layer's."""
    one = data.sel(routing=routing)
    if quantity == "seconds":
        seconds = one["seconds"].transpose("rho", "repeat")
        return np.asarray((seconds / seconds.sel(rho=0.0).median()).values)
    counted = one["counted_operations" if quantity == "operations" else quantity]
    return np.asarray((counted / counted.sel(rho=0.0)).values)[:, None]
