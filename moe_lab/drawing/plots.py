"""A learning curve of any run: `curves(collect(train(...)))`. The rooms' own `plots` draw the figures of the papers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from moe_lab.core.arguments import checked
from moe_lab.core.config import require
from moe_lab.core.words import counted, series
from moe_lab.drawing import theme
from moe_lab.drawing.scales import percents
from moe_lab.drawing.style import in_fixed_style

_MOST = 8
"""Lines that can be told apart."""


@checked
@in_fixed_style
def curves(
    data: xr.Dataset | Mapping[str, xr.Dataset], measure: str | None = None, axes: Axes | None = None, title: str = ""
) -> Figure:
    """Draws a measure against the step: the mean over the trials, with a band of one standard deviation.

    >>> from moe_lab import collect
    >>> from moe_lab.drawing import plots
    >>> from moe_lab.patch_routing import CNN, JointMoE, PatternTask, train
    >>> runs = {model.name: collect(train(model, PatternTask(), epochs=2)) for model in (JointMoE(), CNN())}
    >>> page = plots.curves(runs, "test_accuracy")

    Args:
      data: what `collect` makes of a run; or several by name, the first in ink, the second as the reference.
      measure: of those that the runs have; one with a further axis, such as expert, gets a line for each of its
        labels. test_accuracy when None, or the first that changes with the step.
      axes: where to draw; a page of its own when None.
      title: of the page; the meaning of the measure if empty.

    Returns:
      The figure that has the curves.

    Raises:
      ValueError: no run, or one without the measure; a measure with more than one further axis, or too many lines.
    """
    runs = {"": data} if isinstance(data, xr.Dataset) else dict(data)
    require(len(runs) > 0, "curves needs at least one run", runs=[])
    name = measure or _usual(next(iter(runs.values())))
    lines = {label: line for run, of in runs.items() for label, line in _lines(of, name, run).items()}
    require(len(lines) <= _MOST, f"curves draws at most {_MOST} lines; choose some with .sel(...)", lines=len(lines))
    first = next(iter(lines.values()))
    meaning = first.attrs.get("long_name") or name
    page = None if axes is not None else theme.figure(900, 430)
    where = axes if axes is not None else theme.axes(page, 84, 70, 660, 268)  # type: ignore[arg-type]
    ends = _draw(where, lines, first)
    theme.plain(where)
    where.set_xlabel("step")
    where.set_ylabel(name.replace("_", " ") + (f", {unit}" if (unit := first.attrs.get("units")) else ""))
    theme.end_labels(where, ends)
    if page is None:
        figure = where.figure
        while not isinstance(figure, Figure):  # a part of a figure
            figure = figure.figure
        return figure
    note = f"mean over {counted(first.sizes['trial'])}; band: ± one standard deviation"
    theme.header(page, 8, 1, title or meaning, note)
    theme.caption(page, caption(lines, name))
    return page


def caption(lines: Mapping[str, xr.DataArray], name: str) -> str:
    """Describes the curves in a sentence with numbers."""

    def end(label: str, line: xr.DataArray) -> str:
        last = line.mean("trial").values
        known = last[np.isfinite(last)]
        return f"{label} {_number(known[-1], _is_share(line))}".strip() if len(known) else f"{label} nothing".strip()

    steps = max(int(line["step"][-1]) for line in lines.values())
    return f"{name.replace('_', ' ')} after at most {steps} steps: {series(end(*each) for each in lines.items())}."


def _draw(axes: Axes, lines: Mapping[str, xr.DataArray], first: xr.DataArray) -> list[tuple[float, str, str]]:
    """Draws every line with its band; returns where it ends, its name and its colour."""
    ends = []
    for number, (label, line) in enumerate(lines.items()):
        style, line = _style(number), line.dropna("step", how="all")
        mean, spread = line.mean("trial").values, line.std("trial").values
        steps = line["step"].values
        axes.fill_between(steps, mean - spread, mean + spread, color=style.colour, alpha=0.13, linewidth=0)
        every = max(1, len(steps) // 8)
        mark: dict[str, Any] = {"marker": style.marker, "markersize": 6, "markevery": (number * every // 3, every)}
        axes.plot(steps, mean, color=style.colour, linestyle=style.line, linewidth=2.2, **mark, gid=label)
        known = mean[np.isfinite(mean)]
        ends.append((float(known[-1]) if len(known) else float("nan"), label, style.colour))
    longest = max(int(line["step"][-1]) for line in lines.values())
    axes.set_xlim(0, max(1, longest))
    if _is_share(first):
        percents(axes.yaxis)
    return ends


def _lines(data: xr.Dataset, name: str, run: str) -> dict[str, xr.DataArray]:
    """The lines of a measure by what they are called: one, or one for each label of its further axis."""
    moving = [str(known) for known in data.data_vars if {"step", "trial"} <= set(data[known].dims)]
    rule = f"measure must be one of those that change with the step: {', '.join(moving)}"
    require(name in moving, rule, measure=name)
    values = data[name]
    further = [str(dim) for dim in values.dims if dim not in ("step", "trial")]
    rule = "a measure must have at most one axis besides step and trial; choose with .sel(...)"
    require(len(further) <= 1, rule, axes=further)
    if not further:
        return {run: values}
    (dim,) = further
    labels = data[dim].values if dim in data.coords else np.arange(1, values.sizes[dim] + 1)
    return {f"{run} {dim} {label}".strip(): values.isel({dim: place}) for place, label in enumerate(labels)}


def _usual(data: xr.Dataset) -> str:
    moving = [str(name) for name in data.data_vars if set(data[name].dims) == {"step", "trial"}]
    require(len(moving) > 0, "data must have a measure over step and trial, as `collect` gives it", data=list(data))
    return "test_accuracy" if "test_accuracy" in moving else moving[0]


def _style(number: int) -> theme.Style:
    return (theme.MODEL, theme.OTHER, *theme.OWN)[number % (2 + len(theme.OWN))]


def _is_share(line: xr.DataArray) -> bool:
    return not line.attrs.get("units") and str(line.attrs.get("long_name", "")).startswith("share")


def _number(value: float, share: bool) -> str:
    return f"{100 * value:.1f} %" if share else f"{value:.4g}"
