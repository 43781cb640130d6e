"""Where the panels of a picture lie on its page, and what their heads say."""

from __future__ import annotations

import json

import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from moe_lab import theme

_HEADS = {
    "table 3": ("Test accuracy", "Dispatch entropy"),
    "table 4": ("Who gets which cluster",),
    "table 7": ("One expert for all clusters",),
    "table 9": ("Does load balancing help linear experts?", "Dispatch entropy"),
    "figure 1": ("Linear experts", "Cubic experts"),
    "figure 3": ("Dispatch entropy through training",),
    "figure 4": ("What experts and routers learn",),
}


def page_height(kind: str) -> int:
    """In pixels; two rows of panels need more."""
    return 640 if kind == "figure 4" else 480


def panels_of(data: xr.Dataset, kind: str, page: Figure) -> list[Axes]:
    """Puts heads and empty Axes on a page.

    Args:
      data: what will be drawn.
      kind: a key of `plots.PLOTS`.
    """
    across = _places(kind, data.sizes.get("setting", 1))
    for number, (title, note) in enumerate(zip(_HEADS[kind], _notes(data, kind), strict=True)):
        left = across[number][0] - (12 if kind == "figure 1" else 60)
        theme.header(page, left, number + 1, title, note)
    if kind == "figure 4":
        return [theme.axes(page, left, top, wide, 205) for top in (94, 356) for left, wide in across]
    top, tall = {"table 7": (104, 272), "figure 3": (104, 272), "figure 1": (78, 352)}.get(kind, (78, 310))
    return [theme.axes(page, left, top, wide, tall) for left, wide in across]


def _places(kind: str, settings: int) -> list[tuple[float, float]]:
    """Left edges and widths in pixels of the panels side by side."""
    fixed = {
        "table 3": [(74.0, 420.0), (704.0, 250.0)],
        "table 9": [(74.0, 420.0), (704.0, 250.0)],
        "table 4": [(160.0, 860.0)],
        "figure 1": [(20.0, 520.0), (560.0, 520.0)],
        "figure 4": [(76.0, 380.0), (610.0, 380.0)],
    }
    if kind in fixed:
        return fixed[kind]
    gap = 46 if kind == "table 7" else 120  # names at the ends of lines need room
    wide = (1000 - gap * (settings - 1) - (gap if kind == "figure 3" else 0)) / settings
    return [(76 + number * (wide + gap), wide) for number in range(settings)]


def _notes(data: xr.Dataset, kind: str) -> list[str]:
    trials = data.sizes.get("trial", 1)
    place = data.attrs["paper"].replace("chen2022", "the paper")
    marks = f"small mark: one of {trials} trials, bar: their median, star: {place}"
    if kind in ("table 3", "table 9"):
        return [marks, "0: every expert serves one cluster"]
    if kind == "table 4":
        return [f"{_experts(data)}: training samples that each gets, after training and (last row) in the first step"]
    if kind == "figure 1":
        how = "colour and shape: expert; filled: class +, open: class −; ground: the answer"
        return [how, "the same samples; cross: wrong answer"]
    return {
        "table 7": [marks],
        "figure 3": [f"thin: one of {trials} trials, thick: their median"],
        "figure 4": [f"{_experts(data)}; one line for each expert and signal, thick: the largest of each expert"],
    }[kind]


def _experts(data: xr.Dataset) -> str:
    return f"{json.loads(data.attrs['config'])[0]['model']['activation']} experts"
