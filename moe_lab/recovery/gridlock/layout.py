"""Where the panels of a picture of this room's figures lie on its page, and what their heads say."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from moe_lab import theme

_HEADS = {
    "tables": ("Regressors found", "Gates found"),
    "theorem 3": ("Gates by moments and by EM",),
    "stuck": ("How far from the truth", "Who is stuck"),
    "stuck map": ("Who finds the regressors, and who is stuck",),
    "figure 3": ("Gates alone", "The error through EM"),
    "figure 4": ("The error through EM",),
    "figure 6": ("How well mixtures predict real data",),
}
_NOT_CELLS = ("algorithm", "iteration", "trial", "gate_algorithm", "gate_iteration")
_MAP_ROW = 58  # pixels for a row of the map of who is stuck
_NAMES = 148  # pixels at the right for the names of lines


def cells_of(data: xr.Dataset, axes: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The points of all axes that are not within a panel, the last changing fastest."""
    names = [str(name) for name in data["error"].dims if name not in _NOT_CELLS] if axes is None else list(axes)
    values = [[value.item() for value in data[name].values] for name in names]
    return [dict(zip(names, one, strict=True)) for one in itertools.product(*values)]


def page_height(data: xr.Dataset, kind: str) -> int:
    """In pixels; two rows of panels need more."""
    if kind == "stuck map":
        return 214 + _MAP_ROW * data.sizes["k"]
    return 720 if kind == "figure 4" and len(cells_of(data)) == 4 else 480


def panels_of(data: xr.Dataset, kind: str, page: Figure) -> list[Axes]:
    """Puts heads and empty Axes on a page.

    Args:
      data: what will be drawn.
      kind: a key of `plots.PLOTS`.
    """
    places = _places(data, kind)
    lefts = [places[0][0], places[1][0]] if len(_HEADS[kind]) == 2 else [places[0][0]]
    for number, (left, title, note) in enumerate(zip(lefts, _HEADS[kind], _notes(data, kind), strict=True)):
        aside = 130 if kind == "figure 6" or (kind == "stuck" and number) else 60
        theme.header(page, left - aside, number + 1, title, note)
    return [theme.axes(page, *place) for place in places]


def _places(data: xr.Dataset, kind: str) -> list[tuple[float, float, float, float]]:
    """Left, top, width and height of each panel in pixels."""
    if kind == "tables":
        return [(76.0, 84.0, 330.0, 300.0), (630.0, 84.0, 340.0, 300.0)]
    if kind == "stuck":
        return [(76.0, 84.0, 330.0, 300.0), (700.0, 84.0, 370.0, 300.0)]
    if kind == "figure 6":
        return [(190.0, 84.0, 700.0, 300.0)]
    if kind == "theorem 3":
        each = (1100 - 76) / data.sizes["gating"]
        return [(76 + number * (each + 10), 106.0, each - _NAMES, 272.0) for number in range(data.sizes["gating"])]
    if kind == "stuck map":
        each, tall = (1100 - 76 - 20) / data.sizes["algorithm"], _MAP_ROW * data.sizes["k"]
        return [(76 + number * each, 106.0, each - 40, tall) for number in range(data.sizes["algorithm"])]
    count = len(cells_of(data))
    if kind == "figure 4" and count == 4:
        wide = (1100 - 76 - 60 - _NAMES) / 2
        return [(76 + column * (wide + 60), top, wide, 220.0) for top in (106.0, 402.0) for column in (0, 1)]
    first = 1 if kind == "figure 3" else 0
    gap = 46.0
    wide = (1100 - 76 - gap * (count + first - 1) - 26 * first - _NAMES) / (count + first)
    return [
        (76 + number * (wide + gap) + (26 if first and number else 0), 106.0, wide, 272.0)
        for number in range(count + first)
    ]


def _notes(data: xr.Dataset, kind: str) -> list[str]:
    trials = data.sizes["trial"]
    paper = str(data.attrs["paper"]).replace("gridlock2019", "the paper")
    if kind == "tables":
        return [f"mark: one of {trials} trials, bar: their median, star: {paper}", "star: mean ± spread as printed"]
    if kind == "stuck":
        return [f"mark: one of {trials} trials, bar: their median, ×: stuck", _test(data)]
    if kind == "stuck map":
        return [f"number and shade: trials of {trials} that found all regressors (fit ≥ .95); {_test(data)}"]
    if kind == "theorem 3":
        task = json.loads(data.attrs["config"])[0]["task"]
        inputs = "N(0, I)" if task["first_share"] is None else f"two Gaussians, p = {task['first_share']:g}"
        return [f"k = 2, σ = {task['noise']:g}, inputs {inputs}; mark: one of {trials} trials, bar: their median"]
    lines = f"thin: one of {trials} trials, thick: their median"
    if kind == "figure 6":
        rows = json.loads(data.attrs["data"])["rows"]
        return [f"{data.attrs['source']}, {rows} rows; mark: one of {trials} divisions 75/25, bar: their median"]
    if kind == "figure 3":
        return ["regressors fixed", f"{lines}; dashed purple: EM from the truth"]
    return [f"{lines}; dashed purple: EM from the true parameters, about the least that the samples allow"]


def _test(data: xr.Dataset) -> str:
    """How it was decided who is stuck."""
    gain, window = 100 * float(data.attrs["gain"]), int(data.attrs["window"])
    return f"stuck: regressor fit < .95, error fell < {gain:g} % in {window} iterations"
