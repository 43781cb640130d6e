"""Draws the Datasets of `figures`: one function a figure, onto an Axes or several.

They draw and return nothing; they never train. Thin: a trial; thick: the mean of the trials, as in the paper, for the
median of a loss that gets stuck from half of all starts says nothing. L4, and what is under study, is in ink; l2 and
other references are grey and dashed. `picture` sets any of them on a page of its own, with heads and a sentence below.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from moe_lab import theme
from moe_lab.config import require
from moe_lab.recovery.landscape.captions import caption, kind_of
from moe_lab.recovery.landscape.stuck import STUCK_ERROR

_LOWEST = 1e-5
_STYLES = {
    "L4": theme.MODEL,
    "l2": theme.OTHER,
    "true": theme.Style(theme.MUTED, "D", ":"),
    "torch": theme.MODEL,
    "paper": theme.OTHER,
}
_WORDS = {"L4": "L₄", "l2": "ℓ₂", "true": "true regressors", "torch": "torch: r ∘ (Wh + b)", "paper": "paper: W(r ∘ h)"}


def l4_against_l2(data: xr.Dataset, axes: Any) -> None:
    """Figure 2 (a) on three Axes: errors through time, where each start ended, and where l2's gates point."""
    left, middle, right = _panels(axes, 3)
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
        right.text(0.06, 0.98, f"{lost.sum()} in the other valley,\ntheir loss {beyond:.4f} larger", va="top",
                   color=theme.FAILURE, **words)  # fmt: skip
    if (~lost).any():
        right.text(0.97, 0.06, f"{(~lost).sum()} at the true one", ha="right", color=theme.INK, **words)


def gates_given_regressors(data: xr.Dataset, axes: Axes) -> None:
    """Figure 2 (b): the gate's error on L_log with regressors from three sources."""
    _curves(axes, data["gating_error"], "regressors", "gating error, 1 − |cos|")


def random_gates(data: xr.Dataset, axes: Any) -> None:
    """Figure 3 on two Axes: L4's regressors, then L_log's gates."""
    left, right = _panels(axes, 2)
    _curves(left, data["regressor_error"], None, "regressor error, 1 − |cos|")
    _curves(right, data["gating_error"].rename(gate_step="step"), None, "gating error, 1 − |cos|")


def small_batches(data: xr.Dataset, axes: Any) -> None:
    """Figure 4: L4 with small batches; one Axes a batch size."""
    panels = _panels(axes, data.sizes["batch"])
    for panel, size in zip(panels, data["batch"].values, strict=True):
        _curves(panel, data["regressor_error"].sel(batch=size), None, "regressor error, 1 − |cos|")


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
        axes.annotate(name, at, xytext=(0, -20 if down else 13), textcoords="offset points", ha="center",
                      size=theme.SMALL_SIZE, weight="bold", color=theme.INK, bbox=box, zorder=7)  # fmt: skip
    axes.set(xlim=(u[0], u[-1]), ylim=(v[0], v[-1]), aspect="equal")
    axes.set_xlabel(data["u"].attrs["long_name"])
    axes.set_ylabel(data["v"].attrs["long_name"])


def descent(data: xr.Dataset, axes: Axes) -> None:
    """The error along a loss surface's path."""
    theme.plain(axes)
    _error_axis(axes, "regressor error, 1 − |cos|")
    axes.set_xlim(0, int(data["step"].values[-1]))
    axes.set_xlabel("step")
    values = np.clip(data["regressor_error"].values, _LOWEST, None)
    axes.plot(data["step"].values, values, color=theme.INK, linewidth=2.2, gid="median")


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
        axes.plot(places, median, color=style.colour, linestyle=style.line, linewidth=2.6, marker=style.marker,
                  markersize=6, gid="median", clip_on=False)  # fmt: skip
        ends.append((float(median[-1]), _WORDS[name], style.colour))
    for height, words, colour in ends:
        axes.annotate(words, (places[-1], height), xytext=(10, 0), textcoords="offset points", va="center",
                      color=colour, size=theme.SMALL_SIZE, weight="bold", annotation_clip=False)  # fmt: skip


PLOTS: dict[str, tuple[Callable[..., None], ...]] = {
    "figure 2 (a)": (l4_against_l2,),
    "figure 2 (b)": (gates_given_regressors,),
    "figure 3": (random_gates,),
    "figure 4": (small_batches,),
    "loss surface": (loss_surface, descent),
    "section 2": (gate_sharpness,),
}
_PLACES: dict[str, list[tuple[float, float]]] = {
    "figure 2 (a)": [(88, 270), (452, 250), (800, 270)],
    "figure 2 (b)": [(88, 840)],
    "figure 3": [(88, 410), (622, 410)],
    "loss surface": [(88, 320), (540, 500)],
    "section 2": [(88, 780)],
}
_HEADS = {
    "figure 2 (a)": ("Error through training", "Where starts end", "What ℓ₂ found instead"),
    "figure 2 (b)": ("The gate's error on L_log, with regressors from three sources",),
    "figure 3": ("Regressors by L₄, random gates", "Gates by L_log"),
    "loss surface": ("The loss and the path on it", "Error along the path"),
    "section 2": ("A GRU cell and the mixture of eq. 5",),
}


def picture(data: xr.Dataset, scale: float = 1.0) -> Figure:
    """The plot of a Dataset on a page of its own, with its heads, and its caption below.

    Args:
      data: what a function of `figures` returned.
      scale: 1 for 100 dots per inch, 1.5 for a projector.

    Raises:
      ValueError: the Dataset is not one of theirs.
    """
    kind = kind_of(data)
    page = theme.figure(scale=scale)
    if kind == "figure 4":
        wide = (968 - 90 * (data.sizes["batch"] - 1)) / data.sizes["batch"]
        places = [(88 + number * (wide + 90), wide) for number in range(data.sizes["batch"])]
        heads = tuple(f"L₄ with batches of {size}" for size in data["batch"].values)
    else:
        places, heads = _PLACES[kind], _HEADS[kind]
    for number, ((left, _), head, note) in enumerate(zip(places, heads, _notes(data, kind), strict=True)):
        theme.header(page, left - 72, number + 1, head, note)
    panels = [theme.axes(page, left, 82, wide, 300) for left, wide in places]
    draws = PLOTS[kind]
    if len(draws) == 1:
        draws[0](data, panels if len(panels) > 1 else panels[0])
    else:
        for draw, panel in zip(draws, panels, strict=True):
            draw(data, panel)
    theme.caption(page, caption(data))
    return page


# --- pieces ----------------------------------------------------------------------------------------------------------


def _notes(data: xr.Dataset, kind: str) -> list[str]:
    trials = f"thin: one of {data.sizes.get('trial', 1)} starts, thick: their mean"
    if kind == "figure 2 (a)":
        stuck = f"✗: over {STUCK_ERROR:g} and falls no more, △: still falls"
        return [trials, stuck, "one mark a start; 1: parallel, 0: a right angle"]
    if kind == "loss surface":
        off = float(data["off"].max())
        loss, rest = data["surface"].attrs["long_name"].split(" ", 1)
        return [f"{_WORDS[loss]} {rest}; the path is at most {off:.2f} off this plane", "the same descent"]
    if kind == "section 2":
        return ["median over inputs and states; thin: one of "
                f"{data.sizes['cell']} random cells, thick: their median"]  # fmt: skip
    return [trials] * (data.sizes["batch"] if kind == "figure 4" else len(_HEADS[kind]))


def _curves(axes: Axes, values: xr.DataArray, across: str | None, words: str) -> None:
    """One thin line a trial and a thick mean for each label of an axis; diverged trials end."""
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
        known = np.isfinite(lines).any(1)
        mean = np.full(len(lines), np.nan)
        mean[known] = np.nanmean(lines[known], axis=1)
        axes.plot(steps, mean, color=style.colour, linestyle=style.line, linewidth=2.8, zorder=3, gid="mean")
        if name is not None and np.isfinite(mean[-1]):
            ends.append((math.log10(mean[-1]), _WORDS[name], style.colour))
    low, high = (math.log10(limit) for limit in axes.get_ylim())
    per_pixel = (high - low) / 300
    for place, (_, name, colour) in zip(
        theme.spread([end[0] for end in ends], 15 * per_pixel, low, high), ends, strict=True
    ):
        axes.text(steps[-1], 10**place, f" {name}", color=colour, size=theme.SMALL_SIZE, weight="bold", va="center")


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
        axes.text(place, 0.6 * STUCK_ERROR, f"{lost} of {len(last)} stuck", ha="center", va="top",
                  size=theme.SMALL_SIZE,
                  weight="bold", color=theme.FAILURE if lost else theme.INK)  # fmt: skip


def _marks(colour: str, marker: str) -> dict[str, Any]:
    face = theme.PAPER if marker == "^" else colour
    return {"linestyle": "none", "marker": marker, "markersize": 6, "markeredgecolor": colour, "markerfacecolor": face,
            "markeredgewidth": 1.4, "alpha": 0.8}  # fmt: skip


def _error_axis(axes: Axes, words: str) -> None:
    axes.set_yscale("log")
    axes.set_ylim(_LOWEST, 1.15)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}" if value >= 1e-4 else "10⁻⁵"))
    axes.minorticks_off()
    axes.set_ylabel(words)


def _panels(axes: Any, count: int) -> list[Axes]:
    panels = list(np.atleast_1d(np.asarray(axes, dtype=object)).ravel())
    require(len(panels) == count, f"axes must be {count} Axes", got=len(panels))
    return panels
