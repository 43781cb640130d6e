"""Draws the Datasets of `figures`: one function a figure, onto an Axes or an array of them.

They return nothing and never run a method. A small mark or thin line is a trial, a thick bar or line the
median of the trials, an open star what the paper publishes. What starts from moments is in ink, what it is compared
with in grey. `picture` draws any of them on a page of its own, with heads and a caption.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from moe_lab.core.words import counted, span
from moe_lab.drawing import theme
from moe_lab.drawing.pictures import Box, Head, Pictures, panels_of, side_by_side
from moe_lab.drawing.published import measured, star, title, trials
from moe_lab.drawing.scales import decades, floor, plain_numbers
from moe_lab.recovery.gridlock import findings, stuck_plots
from moe_lab.recovery.gridlock.method_names import marks, name_of, points_across, style_of, words_of
from moe_lab.recovery.gridlock.published import PLACES, published
from moe_lab.recovery.gridlock.stuck_plots import stuck as stuck

PICTURES = Pictures("gridlock2019").including(stuck_plots.PICTURES)
caption, picture = PICTURES.caption, PICTURES.picture

_MOST = 10.0  # errors above are drawn at the edge, as a triangle
_RIGHT = 952  # where panels end, so that names of lines have room


def _lines(data: xr.Dataset) -> str:
    return f"thin: one of {data.sizes['trial']} trials, thick: their median"


# --- tables 1 and 2, theorem 3 ---------------------------------------------------------------------------------------


def _mean_fits(data: xr.Dataset) -> str:
    parts = []
    for method in map(str, data["algorithm"].values):
        one = data.sel(algorithm=method).mean("trial")
        regressors, gates = (span(one[name].values) for name in ("regressor_fit", "gating_fit"))
        parts.append(f"{name_of(method)} {regressors} and {gates}")
    return f"Mean fits of regressors and gates over {counted(data.sizes['trial'])}: {'; '.join(parts)}."


def _fit_heads(data: xr.Dataset) -> list[Head]:
    paper = str(data.attrs["paper"]).replace("gridlock2019", "the paper")
    first = f"{marks(data)}, star: {paper}"
    return [(16, "Regressors found", first), (570, "Gates found", "star: mean ± spread as printed")]


@PICTURES.of(
    "table 1",
    "table 2",
    finding=findings.regressors_found,
    caption=_mean_fits,
    heads=_fit_heads,
    boxes=lambda _: [(76, 84, 330, 300), (630, 84, 340, 300)],
)
def fits(data: xr.Dataset, axes: Any) -> None:
    """Tables 1 and 2: regressor fit and gating fit, measured beside published.

    Args:
      data: what `figures.table1` or `table2` returned.
      axes: two Axes, for the regressor fit and the gating fit.
    """
    across = "gating" if "gating" in data.dims else "first_share"
    place = str(data.attrs.get("figure", ""))
    theirs = published(place) if place in PLACES else None
    labels = data[across].values
    words = [f"{label}\ngates" if across == "gating" else f"p = {label}" for label in labels]
    for panel, name in zip(panels_of(axes, 2), ("regressor_fit", "gating_fit"), strict=True):
        _cosine_axis(panel, floor(data[name].values, least=0.5, most=0.95, below=0.01))
        _columns(panel, data[name], [{across: label} for label in labels], words, {})
        _edge(panel, data[name].values)
        for place_of, label in enumerate(labels):
            if theirs is not None and label in theirs[across].values:
                here = theirs.sel({across: label})
                star(panel, place_of - 0.4, float(here[name]), float(here[f"{name}_std"]))
        panel.set_ylabel("regressor fit, smallest |cos|" if name == "regressor_fit" else "gating fit, smallest |cos|")


def _cosine_axis(axes: Axes, low: float) -> None:
    theme.plain(axes)
    axes.set_ylim(low, 1 + 0.02 * (1 - low))
    axes.axhline(1, color=theme.RULE, linewidth=0.8, zorder=0)


def _edge(axes: Axes, values: np.ndarray) -> None:
    """Says how many values lie below the axis."""
    below = int((values < axes.get_ylim()[0]).sum())
    if below:
        style: dict[str, Any] = {"size": theme.SMALL_SIZE, "color": theme.MUTED, "transform": axes.transAxes}
        axes.text(0.02, 0.015, f"▽ {below} trials lie below", ha="left", va="bottom", **style)


def _gating_fits(data: xr.Dataset) -> str:
    mean, parts = data["gating_fit"].mean("trial"), []
    for samples in data["samples"].values:
        one = mean.sel(samples=samples)
        numbers = [
            f"{name_of('gates-em' if m == 'spectral' else str(m))} {span(one.sel(algorithm=m).values)}"
            for m in data["algorithm"].values
        ]
        parts.append(f"n = {samples:,}: {', '.join(numbers)}")
    return f"Mean gating fit over {counted(data.sizes['trial'])}, with no EM of the regressors. {'; '.join(parts)}."


def _gate_heads(data: xr.Dataset) -> list[Head]:
    task = json.loads(data.attrs["config"])[0]["task"]
    inputs = "N(0, I)" if task["first_share"] is None else f"two Gaussians, p = {task['first_share']:g}"
    note = f"k = 2, σ = {task['noise']:g}, inputs {inputs}; {marks(data)}"
    return [(16, "Gates by moments and by EM", note)]


@PICTURES.of(
    "theorem 3",
    finding=findings.gates_found,
    caption=_gating_fits,
    heads=_gate_heads,
    boxes=lambda data: side_by_side(data.sizes["gating"], 76, _RIGHT + 10, 106, 272, gap=158),
)
def gates(data: xr.Dataset, axes: Any) -> None:
    """Theorem 3: the gate's angle from moments and EM, for each n with estimated and with the true regressors.

    Args:
      data: what `figures.gates_by_moments` returned.
      axes: an Axes for each kind of gates.
    """
    points = points_across(data, ("samples", "regressors"))
    words = [f"{words_of({'samples': point['samples']})}\n{point['regressors']}" for point in points]
    panels = panels_of(axes, data.sizes["gating"])
    fit = data["gating_fit"]
    angles = fit.copy(data=np.degrees(np.arccos(fit.values.clip(0, 1))))
    high = 1.05 * float(angles.max().fillna(90))
    for panel, gating in zip(panels, data["gating"].values, strict=True):
        theme.plain(panel)
        panel.set_ylim(0, high)
        _columns(panel, angles.sel(gating=gating), points, words, {"spectral": "gates-em"})
        title(panel, f"{gating} gates")
        panel.set_xlabel("regressors that the gates are found with")
    panels[0].set_ylabel("angle to the true gate, degrees")


def _columns(
    panel: Axes, values: xr.DataArray, points: list[dict[str, Any]], words: list[str], styled_as: Mapping[str, str]
) -> None:
    """A group of columns for each point, in it one for each method: all trials and their median.

    Args:
      styled_as: the name in `plot_helpers` of a method that has another style and name than its own.
    """
    panel.set_xlim(-0.5, len(points) - 0.4)
    panel.set_xticks(range(len(points)), words)
    panel.tick_params(axis="x", length=0)
    for border in range(1, len(points)):
        panel.axvline(border - 0.5, color=theme.RULE, linewidth=0.8, zorder=0)
    methods, ends = [str(name) for name in values["algorithm"].values], []
    for number, method in enumerate(methods):
        known_as, end = styled_as.get(method, method), float("nan")
        style = style_of(known_as)
        aside = 0.8 * ((number + 1) / (len(methods) + 1) - 0.5) + 0.05
        for place, point in enumerate(points):
            end = measured(panel, place + aside, values.sel({**point, "algorithm": method}).values, style)
        ends.append((end, name_of(known_as), style.colour))
    theme.end_labels(panel, ends)


# --- figures 3 to 6 --------------------------------------------------------------------------------------------------


def _trials_that_reach(data: xr.Dataset) -> str:
    there = findings.reached(data)
    total = int(np.prod([size for name, size in there.sizes.items() if name != "algorithm"]))
    parts = [f"{name_of(str(name))} {int(there.sel(algorithm=name).sum())}" for name in data["algorithm"].values]
    best = span(data["best_error"].median("trial").values, "{:.2g}")
    return (
        f"After {int(data['iteration'][-1])} iterations, of {total} trials each: {', '.join(parts)} reach the error "
        f"of EM from the truth ({best})."
    )


def _curve_heads(data: xr.Dataset) -> list[Head]:
    best = "dashed purple: EM from the true parameters, about the least that the samples allow"
    return [(16, "The error through EM", f"{_lines(data)}; {best}")]


def _curve_boxes(data: xr.Dataset) -> list[Box]:
    """One for each point of `points_across`; four come in two rows."""
    count = len(points_across(data))
    if count == 4:
        return [box for top in (106, 402) for box in side_by_side(2, 76, _RIGHT, top, 220, gap=60)]
    return side_by_side(count, 76, _RIGHT, 106, 272, gap=46)


@PICTURES.of(
    "figure 4",
    "figure 5",
    finding=findings.truth_reached,
    caption=_trials_that_reach,
    heads=_curve_heads,
    boxes=_curve_boxes,
    height=lambda data: 720 if len(points_across(data)) == 4 else 480,
)
def curves(data: xr.Dataset, axes: Any) -> None:
    """Figures 3 (b, c), 4 and 5: the error through EM, an Axes a cell; the dotted line is EM from the truth."""
    points = points_across(data)
    bounds = decades(np.clip(data["error"].values, None, _MOST))
    for number, (point, panel) in enumerate(zip(points, panels_of(axes, len(points)), strict=True)):
        theme.plain(panel)
        panel.set_yscale("log")
        panel.set_ylim(*bounds)
        panel.set_xlim(0, int(data["iteration"].max()))
        title(panel, words_of(point, ", "))
        panel.set_xlabel("iteration of EM")
        if number == 0:
            panel.set_ylabel("error E(A, W)")
        best = float(data["best_error"].sel(point).median())
        panel.axhline(best, color=theme.FAILURE, linewidth=1.2, linestyle=(0, (5, 3)), zorder=1, gid="best")
        ends = []
        for method in map(str, data["algorithm"].values):
            style = style_of(method)
            shown = data["error"].sel({**point, "algorithm": method})
            end = trials(panel, shown, "iteration", style)
            ends.append((min(end, _MOST), name_of(method), style.colour))
        plain_numbers(panel)
        if number == len(points) - 1 or (len(points) == 4 and number == 1):
            theme.end_labels(panel, [*ends, (best, "EM from the truth", theme.FAILURE)])


def _gates_first_boxes(data: xr.Dataset) -> list[Box]:
    """One for the gates alone, then one for each k."""
    count = data.sizes["k"]
    wide = (_RIGHT - 76 - 26 - 46 * count) / (count + 1)
    return [(76, 106, wide, 272), *side_by_side(count, 76 + wide + 46 + 26, _RIGHT, 106, 272, gap=46)]


def _gates_first_heads(data: xr.Dataset) -> list[Head]:
    second = _gates_first_boxes(data)[1][0] - 60
    note = f"{_lines(data)}; dashed purple: EM from the truth"
    return [(16, "Gates alone", "regressors fixed"), (second, "The error through EM", note)]


@PICTURES.of(
    "figure 3",
    finding=findings.truth_reached,
    caption=_trials_that_reach,
    heads=_gates_first_heads,
    boxes=_gates_first_boxes,
)
def figure3(data: xr.Dataset, axes: Any) -> None:
    """Figure 3: the gating fit through EM of the gates alone, then `curves`; one Axes more than there are k."""
    panels = panels_of(axes, 1 + data.sizes["k"])
    first = panels[0]
    gates = data["gates_alone"]
    _cosine_axis(first, 0.0)
    first.set_xlim(0, int(gates["gate_iteration"].max()))
    title(first, "k = 2")
    first.set_xlabel("iteration of EM of the gates")
    first.set_ylabel("gating fit")
    for method in map(str, gates["gate_algorithm"].values):
        style = style_of("spectral+em" if method == "spectral" else method)
        trials(first, gates.sel(gate_algorithm=method), "gate_iteration", style)
    note: dict[str, Any] = {"size": theme.SMALL_SIZE, "transform": first.transAxes, "ha": "right"}
    first.text(0.98, 0.16, "Newton's M-step: solid", color=theme.INK, weight="bold", **note)
    first.text(0.98, 0.08, "gradient M-step: dashed", color=theme.REFERENCE, weight="bold", **note)
    curves(data, panels[1:])


def _test_errors(data: xr.Dataset) -> str:
    medians = data["test_error"].median("trial")
    parts = [
        f"{name_of(str(name))} {float(medians.sel(algorithm=name)):.3f}"
        if medians.sel(algorithm=name).notnull()
        else f"{name_of(str(name))} has no start"
        for name in data["algorithm"].values
    ]
    source = str(data.attrs.get("source", "")).capitalize()
    return f"{source}, medians of {data.sizes['trial']} divisions: {', '.join(parts)}."


def _division_heads(data: xr.Dataset) -> list[Head]:
    rows = json.loads(data.attrs["data"])["rows"]
    note = f"{data.attrs['source']}, {rows} rows; mark: one of {data.sizes['trial']} divisions 75/25, bar: their median"
    return [(60, "How well mixtures predict real data", note)]


@PICTURES.of(
    "figure 6",
    finding=findings.predicts_best,
    caption=_test_errors,
    heads=_division_heads,
    boxes=lambda _: [(190, 84, 700, 300)],
)
def figure6(data: xr.Dataset, axes: Axes) -> None:
    """Figure 6: the test error of every division and method, on one Axes; an empty row is one without a start."""
    theme.plain(axes)
    names = [str(name) for name in data["algorithm"].values]
    values = data["test_error"].transpose("algorithm", "trial").values
    known = [np.quantile(row[np.isfinite(row)], 0.5, method="higher") for row in values if np.isfinite(row).any()]
    top = 1.15 * float(max(known, default=1.0))  # no median lies beyond
    axes.set_xlim(0, top)
    axes.set_ylim(-len(names) + 0.4, 0.6)
    axes.set_yticks(-np.arange(len(names)), [name_of(name) for name in names])
    axes.tick_params(axis="y", length=0)
    for row, (name, errors) in enumerate(zip(names, values, strict=True)):
        style = style_of(name)
        middle = measured(axes, -row, np.minimum(errors, top), style, vertical=False, reach=0.3)
        beyond = int((errors > top).sum())
        lost = int(np.isnan(errors).sum())
        if beyond:
            axes.plot([top], [-row], marker=">", markersize=7, color=style.colour, clip_on=False, gid="beyond")
        words = f"{np.nanmedian(errors):.3f}" if np.isfinite(middle) else ""
        words += f"  ({beyond} beyond)" if beyond else ""
        words += f"  ({lost} without a start)" if lost else ""
        place: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center", "size": theme.SMALL_SIZE}
        axes.text(1.02, -row, words, color=theme.INK, clip_on=False, gid="median", **place)
    axes.set_xlabel("mean squared error on test rows, target scaled to (−1, 1)")
