"""Heads and empty Axes for each kind of picture of gridlock2019; places are in pixels from the top left."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from moe_lab.drawing import theme
from moe_lab.drawing.pictures import heads, row

_WITHIN = ("algorithm", "iteration", "trial", "gate_algorithm", "gate_iteration")
_MAP_ROW = 58  # pixels for a row of the map of who is stuck
_RIGHT = 952  # where panels end, so that names of lines have room
MOST_COLUMNS = 3
"""More sizes than these are drawn as a map of who is stuck."""


def points_across(data: xr.Dataset, axes: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The points of all axes that are not within a panel, the last changing fastest."""
    names = [str(name) for name in data["error"].dims if name not in _WITHIN] if axes is None else list(axes)
    values = [[value.item() for value in data[name].values] for name in names]
    return [dict(zip(names, one, strict=True)) for one in itertools.product(*values)]


def tables(data: xr.Dataset, page: Figure) -> list[Axes]:
    """Two Axes, for regressors and gates."""
    paper = str(data.attrs["paper"]).replace("gridlock2019", "the paper")
    heads(
        page,
        (16, "Regressors found", f"{_marks(data)}, star: {paper}"),
        (570, "Gates found", "star: mean ± spread as printed"),
    )
    return [theme.axes(page, 76, 84, 330, 300), theme.axes(page, 630, 84, 340, 300)]


def gates(data: xr.Dataset, page: Figure) -> list[Axes]:
    """An Axes for each kind of gates."""
    task = json.loads(data.attrs["config"])[0]["task"]
    inputs = "N(0, I)" if task["first_share"] is None else f"two Gaussians, p = {task['first_share']:g}"
    heads(page, (16, "Gates by moments and by EM", f"k = 2, σ = {task['noise']:g}, inputs {inputs}; {_marks(data)}"))
    return row(page, data.sizes["gating"], 76, _RIGHT + 10, 106, 272, gap=158)


def is_map(data: xr.Dataset) -> bool:
    """Whether a result of `stuck_rate` has more sizes than columns would show."""
    return bool(data.sizes["k"] * data.sizes["samples"] > MOST_COLUMNS)


def stuck_height(data: xr.Dataset) -> int:
    """Pixels of the page for who is stuck."""
    return 214 + _MAP_ROW * data.sizes["k"] if is_map(data) else 480


def stuck(data: xr.Dataset, page: Figure) -> list[Axes]:
    """Two Axes, for errors and verdicts; as a map, an Axes for each method."""
    if not is_map(data):
        heads(page, (16, "How far from the truth", f"{_marks(data)}, ×: stuck"), (570, "Who is stuck", _test(data)))
        return [theme.axes(page, 76, 84, 330, 300), theme.axes(page, 700, 84, 370, 300)]
    shade = f"number and shade: trials of {data.sizes['trial']} that found all regressors (fit ≥ .95)"
    heads(page, (16, "Who finds the regressors, and who is stuck", f"{shade}; {_test(data)}"))
    return row(page, data.sizes["algorithm"], 76, 1040, 106, _MAP_ROW * data.sizes["k"], gap=40)


def figure3(data: xr.Dataset, page: Figure) -> list[Axes]:
    """An Axes for the gates alone, then one for each k."""
    count = data.sizes["k"]
    wide = (_RIGHT - 76 - 26 - 46 * count) / (count + 1)
    second = 76 + wide + 46 + 26
    note = f"{_lines(data)}; dashed purple: EM from the truth"
    heads(page, (16, "Gates alone", "regressors fixed"), (second - 60, "The error through EM", note))
    return [theme.axes(page, 76, 106, wide, 272), *row(page, count, second, _RIGHT, 106, 272, gap=46)]


def curves_height(data: xr.Dataset) -> int:
    """Pixels of the page for curves: four panels come in two rows."""
    return 720 if len(points_across(data)) == 4 else 480


def curves(data: xr.Dataset, page: Figure) -> list[Axes]:
    """An Axes for each point of `points_across`."""
    best = "dashed purple: EM from the true parameters, about the least that the samples allow"
    heads(page, (16, "The error through EM", f"{_lines(data)}; {best}"))
    count = len(points_across(data))
    if count == 4:
        return [axes for top in (106, 402) for axes in row(page, 2, 76, _RIGHT, top, 220, gap=60)]
    return row(page, count, 76, _RIGHT, 106, 272, gap=46)


def real_data(data: xr.Dataset, page: Figure) -> Axes:
    """One Axes."""
    rows = json.loads(data.attrs["data"])["rows"]
    note = f"{data.attrs['source']}, {rows} rows; mark: one of {data.sizes['trial']} divisions 75/25, bar: their median"
    heads(page, (60, "How well mixtures predict real data", note))
    return theme.axes(page, 190, 84, 700, 300)


def _marks(data: xr.Dataset) -> str:
    return f"mark: one of {data.sizes['trial']} trials, bar: their median"


def _lines(data: xr.Dataset) -> str:
    return f"thin: one of {data.sizes['trial']} trials, thick: their median"


def _test(data: xr.Dataset) -> str:
    """How it was decided who is stuck."""
    gain, window = 100 * float(data.attrs["gain"]), int(data.attrs["window"])
    return f"stuck: regressor fit < .95, error fell < {gain:g} % in {window} iterations"
