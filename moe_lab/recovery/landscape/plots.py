"""Draws the Datasets of `figures`: one function a figure, onto an Axes or several.

They return nothing and never train. Thin: a trial; thick: the one that ends in the middle, for the mean of starts that
get stuck and of others lies where no start is. L4, and what is under study, is in ink; l2 and other references are grey
and dashed. `picture` draws any of them on a page of its own, with heads and a caption.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from moe_lab.drawing import theme
from moe_lab.drawing.pictures import Box, Head, Pictures, panels_of, side_by_side
from moe_lab.drawing.style import in_fixed_style
from moe_lab.recovery.landscape import findings
from moe_lab.recovery.landscape.stuck import STUCK_ERROR

PICTURES = Pictures("gated2019")
caption, picture = PICTURES.caption, PICTURES.picture

_LOWEST = 1e-5
_STYLES = {
    "L4": theme.MODEL,
    "l2": theme.OTHER,
    "true": theme.Style(theme.MUTED, "D", ":"),
    "torch": theme.MODEL,
    "paper": theme.OTHER,
}
_WORDS = {"L4": "L₄", "l2": "ℓ₂", "true": "true regressors", "torch": "torch: r ∘ (Wh + b)", "paper": "paper: W(r ∘ h)"}
_TOP, _TALL = 82, 300


def _starts(data: xr.Dataset) -> str:
    return f"thin: one of {data.sizes['trial']} starts, thick: the middle one"


def _stuck_starts(data: xr.Dataset) -> str:
    last, count = data["regressor_error"].isel(step=-1), data.sizes["trial"]
    four, two = (data["stuck"].sel(loss=name) for name in ("L4", "l2"))
    worst = float(last.sel(loss="L4").max())
    text = (
        f"From the same {count} starts L₄ is stuck in {int(four.sum())} (largest error {worst:.1g}), "
        f"ℓ₂ in {int(two.sum())}"
    )
    falling = data["still_falling"].sum("trial").values
    if falling.any():
        text += f" ({falling[0]} and {falling[1]} still falling)"
    if bool(two.any()) and "gate_to_regressors" in data:
        along = float(data["gate_to_regressors"].where(two).median())
        text += f"; there ℓ₂'s gate lies along a₁* − a₂*, which the gate should not know (|cos| {along:.2f})"
    return f"{text}."


def _start_heads(data: xr.Dataset) -> list[Head]:
    stuck = f"✗: over {STUCK_ERROR:g} and falls no more, △: still falls"
    parallel = "one mark a start; 1: parallel, 0: a right angle"
    return [
        (16, "Error through training", _starts(data)),
        (380, "Where starts end", stuck),
        (728, "What ℓ₂ found instead", parallel),
    ]


@PICTURES.of(
    "figure 2 (a)",
    finding=findings.who_is_stuck,
    caption=_stuck_starts,
    heads=_start_heads,
    boxes=lambda _: [(88, _TOP, 270, _TALL), (452, _TOP, 250, _TALL), (800, _TOP, 270, _TALL)],
)
def l4_against_l2(data: xr.Dataset, axes: Any) -> None:
    """Figure 2 (a) on three Axes: errors through time, where each start ended, and where l2's gates point."""
    left, middle, right = panels_of(axes, 3)
    _curves(left, data["regressor_error"], "loss", "regressor error, 1 − |cos|")
    _ends(middle, data)
    theme.plain(right)
    right.set(xlim=(-0.05, 1.05), ylim=(-0.05, 1.05))
    right.set_xlabel("|cos| of gate and true gate")
    right.set_ylabel("|cos| of gate and a₁* − a₂*")
    if "gate_to_gate" not in data:
        return
    lost = (data["stuck"] | data["still_falling"]).sel(loss="l2").values
    x, y = data["gate_to_gate"].values, data["gate_to_regressors"].values
    right.plot(x[~lost], y[~lost], **_marks(theme.INK, "o"), gid="recovered")
    right.plot(x[lost], y[lost], **_marks(theme.FAILURE, "x"), gid="stuck")
    words: dict[str, Any] = {"size": theme.SMALL_SIZE, "weight": "bold"}
    if lost.any():
        beyond = float(data["excess"].values[lost].mean())
        note = f"{lost.sum()} in the other valley,\ntheir loss {beyond:.4f} larger"
        right.text(0.06, 0.98, note, va="top", color=theme.FAILURE, **words)
    if (~lost).any():
        right.text(0.97, 0.06, f"{(~lost).sum()} at the true one", ha="right", color=theme.INK, **words)


def _ends(axes: Axes, data: xr.Dataset) -> None:
    """Every start's last error, a column for each loss; beside it how many are stuck."""
    theme.plain(axes)
    _error_axis(axes, "")
    axes.axhline(STUCK_ERROR, color=theme.FAILURE, linewidth=1)
    names = list(map(str, data["loss"].values))
    axes.set_xlim(-0.5, len(names) - 0.3)
    axes.set_xticks(range(len(names)), [_WORDS[name] for name in names])
    for place, name in enumerate(names):
        one = data.sel(loss=name)
        last = np.clip(one["regressor_error"].isel(step=-1).values, _LOWEST, None)
        aside = place + 0.16 * np.linspace(-1, 1, len(last))[np.random.default_rng(0).permutation(len(last))]
        stuck, falling = one["stuck"].values, one["still_falling"].values
        good = ~(stuck | falling)
        axes.plot(aside[good], last[good], **_marks(_STYLES[name].colour, _STYLES[name].marker), gid="recovered")
        axes.plot(aside[stuck], last[stuck], **_marks(theme.FAILURE, "x"), gid="stuck")
        axes.plot(aside[falling], last[falling], **_marks(theme.FAILURE, "^"), gid="still falling")
        lost = int(stuck.sum())
        words: dict[str, Any] = {"size": theme.SMALL_SIZE, "weight": "bold", "ha": "center", "va": "top"}
        words["color"] = theme.FAILURE if lost else theme.INK
        axes.text(place, 0.6 * STUCK_ERROR, f"{lost} of {len(last)} stuck", **words)


def _marks(colour: str, marker: str) -> dict[str, Any]:
    face = theme.PAPER if marker == "^" else colour
    return {
        "linestyle": "none",
        "marker": marker,
        "markersize": 6,
        "markeredgecolor": colour,
        "markerfacecolor": face,
        "markeredgewidth": 1.4,
        "alpha": 0.8,
    }


def _gating_errors(data: xr.Dataset) -> str:
    last = data["gating_error"].isel(step=-1).mean("trial")
    words = {"L4": "L₄'s", "l2": "ℓ₂'s", "true": "the true"}
    parts = [f"{words[str(name)]} {float(last.sel(regressors=name)):.2g}" for name in data["regressors"].values]
    return f"Mean gating error after {int(data['step'][-1])} steps on L_log, with regressors: {', '.join(parts)}."


@PICTURES.of(
    "figure 2 (b)",
    finding=findings.best_source,
    caption=_gating_errors,
    heads=lambda data: [(16, "The gate's error on L_log, with regressors from three sources", _starts(data))],
    boxes=lambda _: [(88, _TOP, 840, _TALL)],
)
def gates_given_regressors(data: xr.Dataset, axes: Axes) -> None:
    """Figure 2 (b): the gate's error on L_log with regressors from three sources."""
    _curves(axes, data["gating_error"], "regressors", "gating error, 1 − |cos|")


def _largest_errors(data: xr.Dataset) -> str:
    regressors = float(data["regressor_error"].isel(step=-1).max())
    gates = float(data["gating_error"].isel(gate_step=-1).max())
    return (
        f"The largest of {data.sizes['trial']} regressor errors is {regressors:.2g}, the largest gating error "
        f"{gates:.2g}."
    )


def _stage_heads(data: xr.Dataset) -> list[Head]:
    return [(16, "Regressors by L₄, random gates", _starts(data)), (550, "Gates by L_log", _starts(data))]


@PICTURES.of(
    "figure 3",
    finding=findings.any_gates,
    caption=_largest_errors,
    heads=_stage_heads,
    boxes=lambda _: side_by_side(2, 88, 1032, _TOP, _TALL, gap=124),
)
def random_gates(data: xr.Dataset, axes: Any) -> None:
    """Figure 3 on two Axes: L4's regressors, then L_log's gates."""
    left, right = panels_of(axes, 2)
    _curves(left, data["regressor_error"], None, "regressor error, 1 − |cos|")
    _curves(right, data["gating_error"].rename(gate_step="step"), None, "gating error, 1 − |cos|")


def _largest_by_batch(data: xr.Dataset) -> str:
    last = data["regressor_error"].isel(step=-1)
    parts = [f"{size} a batch: {float(last.sel(batch=size).max()):.2g}" for size in data["batch"].values]
    return f"Largest error of {data.sizes['trial']} starts after {int(data['step'][-1])} steps, {'; '.join(parts)}."


def _batch_heads(data: xr.Dataset) -> list[Head]:
    boxes = _batch_boxes(data)
    sizes = data["batch"].values
    return [(box[0] - 72, f"L₄ with batches of {size}", _starts(data)) for box, size in zip(boxes, sizes, strict=True)]


def _batch_boxes(data: xr.Dataset) -> list[Box]:
    return side_by_side(data.sizes["batch"], 88, 1056, _TOP, _TALL, gap=90)


@PICTURES.of("figure 4", finding=findings.batches, caption=_largest_by_batch, heads=_batch_heads, boxes=_batch_boxes)
def small_batches(data: xr.Dataset, axes: Any) -> None:
    """Figure 4: L4 with small batches; one Axes a batch size."""
    panels = panels_of(axes, data.sizes["batch"])
    for panel, size in zip(panels, data["batch"].values, strict=True):
        _curves(panel, data["regressor_error"].sel(batch=size), None, "regressor error, 1 − |cos|")


def _curves(axes: Axes, values: xr.DataArray, across: str | None, words: str) -> None:
    """One thin line a trial for each label of an axis, thick the one that ends in the middle; diverged trials end."""
    theme.plain(axes)
    _error_axis(axes, words)
    steps = values["step"].values
    axes.set_xlim(0, int(steps[-1]))
    axes.set_xlabel("step")
    ends = []
    for name in [None] if across is None else list(map(str, values[across].values)):
        style = theme.MODEL if name is None else _STYLES[name]
        one = values if name is None else values.sel({across: name})
        lines = np.clip(one.transpose("step", "trial").values, _LOWEST, None)
        thin: dict[str, Any] = {"color": style.colour, "linestyle": style.line, "linewidth": 0.8, "alpha": 0.5}
        axes.plot(steps, lines, **thin, zorder=2, gid="trials")
        last = np.sort(lines[-1][np.isfinite(lines[-1])])
        middle = lines[:, lines[-1] == last[len(last) // 2]][:, 0] if len(last) else np.full(len(lines), np.nan)
        axes.plot(steps, middle, color=style.colour, linestyle=style.line, linewidth=2.8, zorder=3, gid="middle")
        if name is not None:
            ends.append((float(middle[-1]), _WORDS[name], style.colour))
    theme.end_labels(axes, ends)


def _error_axis(axes: Axes, words: str) -> None:
    axes.set_yscale("log")
    axes.set_ylim(_LOWEST, 1.15)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}" if value >= 1e-4 else "10⁻⁵"))
    axes.minorticks_off()
    axes.set_ylabel(words)


def _where_it_ends(data: xr.Dataset) -> str:
    error = float(data["regressor_error"].isel(step=-1))
    name = _WORDS[data["surface"].attrs["long_name"].split()[0]]
    end = "arrives at a solution" if error <= STUCK_ERROR else "ends away from every solution"
    return f"{name} from this start {end}: regressor error {error:.2g} after {int(data['step'][-1])} steps."


def _surface_heads(data: xr.Dataset) -> list[Head]:
    loss, rest = data["surface"].attrs["long_name"].split(" ", 1)
    note = f"{_WORDS[loss]} {rest}; the path is at most {float(data['off'].max()):.2f} off this plane"
    return [(16, "The loss and the path on it", note), (468, "Error along the path", "the same descent")]


@PICTURES.of(
    "loss surface",
    finding=findings.where_it_ends,
    caption=_where_it_ends,
    heads=_surface_heads,
    boxes=lambda _: [(88, _TOP, 320, _TALL), (540, _TOP, 500, _TALL)],
)
def surface_and_descent(data: xr.Dataset, axes: Any) -> None:
    """A loss on a plane with the path of a descent, and the error along that path; two Axes."""
    left, right = panels_of(axes, 2)
    loss_surface(data, left)
    descent(data, right)


@in_fixed_style
def loss_surface(data: xr.Dataset, axes: Axes) -> None:
    """A loss on a plane, darker where it is larger, with the path from start to end.

    Levels are even in the root of what the loss has beyond its least value, so that flat valleys show.
    """
    theme.plain(axes)
    values = data["surface"].transpose("v", "u").values
    u, v = data["u"].values, data["v"].values
    root = np.sqrt(np.clip(values - values.min(), 0, None))
    levels = np.linspace(0, float(root.max()) or 1.0, 22)
    axes.contourf(u, v, root, levels=levels, cmap=theme.RAMP, vmin=0, vmax=1.7 * levels[-1])
    axes.contour(u, v, root, levels=levels, colors=[theme.MUTED], linewidths=0.35)
    x, y = data["path_u"].values, data["path_v"].values
    axes.plot(x, y, color=theme.PAPER, linewidth=4.4, zorder=3)
    axes.plot(x, y, color=theme.INK, linewidth=2.2, zorder=4, gid="path")
    shapes = {"start": ("o", theme.PAPER), "end": ("o", theme.INK), "solution": ("*", theme.EXPERTS[2].colour)}
    placed: list[tuple[float, float]] = []
    for name in map(str, data["mark"].values):
        marker, face = shapes.get(name, ("*", theme.PAPER))
        here = data.sel(mark=name)
        at = (float(here["mark_u"]), float(here["mark_v"]))
        size = 17 if marker == "*" else 9
        axes.plot(*at, marker=marker, markersize=size, color=face, markeredgecolor=theme.INK, zorder=6, gid=name)
        down = any(math.hypot(at[0] - a, at[1] - b) < 0.1 * (u[-1] - u[0]) for a, b in placed)
        placed.append(at)
        box = {"facecolor": theme.PAPER, "edgecolor": "none", "pad": 1.2, "alpha": 0.85}
        axes.annotate(
            name,
            at,
            xytext=(0, -20 if down else 13),
            textcoords="offset points",
            ha="center",
            size=theme.SMALL_SIZE,
            weight="bold",
            color=theme.INK,
            bbox=box,
            zorder=7,
        )
    axes.set(xlim=(u[0], u[-1]), ylim=(v[0], v[-1]), aspect="equal")
    axes.set_xlabel(data["u"].attrs["long_name"])
    axes.set_ylabel(data["v"].attrs["long_name"])


@in_fixed_style
def descent(data: xr.Dataset, axes: Axes) -> None:
    """The error along a loss surface's path."""
    theme.plain(axes)
    _error_axis(axes, "regressor error, 1 − |cos|")
    axes.set_xlim(0, int(data["step"].values[-1]))
    axes.set_xlabel("step")
    values = np.clip(data["regressor_error"].values, _LOWEST, None)
    axes.plot(data["step"].values, values, color=theme.INK, linewidth=2.2, gid="median")


def _typical_gaps(data: xr.Dataset) -> str:
    gap = data["median"].median("cell")
    beta = float(data["sharpness"][-1])
    ending = "binary gates" if math.isinf(beta) else f"β = {beta:g}"
    parts = []
    for name, words in (("torch", "torch's convention"), ("paper", "the paper's")):
        first, last = (float(gap.sel(convention=name).isel(sharpness=place)) for place in (0, -1))
        parts.append(f"in {words} from {first:.2g} to {last:.2g}")
    return f"From β = {float(data['sharpness'][0]):g} to {ending} the typical gap goes {', '.join(parts)}."


def _sharpness_heads(data: xr.Dataset) -> list[Head]:
    note = f"median over inputs and states; thin: one of {data.sizes['cell']} random cells, thick: their median"
    return [(16, "A GRU cell and the mixture of eq. 5", note)]


@PICTURES.of(
    "section 2",
    finding=findings.sharper,
    caption=_typical_gaps,
    heads=_sharpness_heads,
    boxes=lambda _: [(88, _TOP, 780, _TALL)],
)
def gate_sharpness(data: xr.Dataset, axes: Axes) -> None:
    """How far a GRU cell is from eq. 5 at each sharpness of its gates; thin: a cell, thick: their median."""
    theme.plain(axes)
    betas = data["sharpness"].values
    places = np.arange(len(betas))
    axes.set_yscale("symlog", linthresh=1e-6, linscale=0.5)
    axes.set_ylim(-2e-7, 1)
    axes.set_yticks([0, 1e-6, 1e-4, 1e-2, 1], ["0", "10⁻⁶", "10⁻⁴", "10⁻²", "1"])
    axes.set_xlim(-0.3, len(betas) - 0.7)
    axes.set_xticks(places, ["binary" if math.isinf(beta) else f"{beta:g}" for beta in betas])
    axes.set_xlabel("β, sharpness of the gates σ(β · score)")
    axes.set_ylabel("|GRU − mixture|, largest unit")
    ends = []
    for name in map(str, data["convention"].values):
        style = _STYLES[name]
        values = data["median"].sel(convention=name).transpose("sharpness", "cell").values
        thin: dict[str, Any] = {"color": style.colour, "linestyle": style.line, "linewidth": 0.8, "alpha": 0.55}
        axes.plot(places, values, **thin, gid="trials")
        median = np.median(values, axis=1)
        thick: dict[str, Any] = {"color": style.colour, "linestyle": style.line, "linewidth": 2.6}
        thick |= {"marker": style.marker, "markersize": 6, "clip_on": False}
        axes.plot(places, median, **thick, gid="median")
        ends.append((float(median[-1]), _WORDS[name], style.colour))
    for height, words, colour in ends:
        axes.annotate(
            words,
            (places[-1], height),
            xytext=(10, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            size=theme.SMALL_SIZE,
            weight="bold",
            annotation_clip=False,
        )
