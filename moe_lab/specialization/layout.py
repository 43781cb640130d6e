"""Heads and empty Axes for each kind of picture of chen2022; places are in pixels from the top left."""

from __future__ import annotations

import json

import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from moe_lab.drawing import theme
from moe_lab.drawing.pictures import heads, row


def table3(data: xr.Dataset, page: Figure, title: str = "Test accuracy") -> list[Axes]:
    """Two Axes, for accuracy and entropy."""
    heads(page, (14, title, _marks(data)), (644, "Dispatch entropy", "0: every expert serves one cluster"))
    return [theme.axes(page, 74, 78, 420, 310), theme.axes(page, 704, 78, 250, 310)]


def load_balancing(data: xr.Dataset, page: Figure) -> list[Axes]:
    """As `table3`, under another title."""
    return table3(data, page, "Does load balancing help linear experts?")


def dispatch_table(data: xr.Dataset, page: Figure) -> Axes:
    """One Axes."""
    note = f"{_experts(data)}: training samples that each gets, after training and (last row) in the first step"
    heads(page, (100, "Who gets which cluster", note))
    return theme.axes(page, 160, 78, 860, 310)


def single_experts(data: xr.Dataset, page: Figure) -> list[Axes]:
    """An Axes for each setting."""
    heads(page, (16, "One expert for all clusters", _marks(data)))
    return row(page, data.sizes["setting"], 76, 1076, 104, 272, gap=46)


def entropy_through_time(data: xr.Dataset, page: Figure) -> list[Axes]:
    """An Axes for each setting, with room for names at the ends of lines."""
    note = f"thin: one of {data.sizes['trial']} trials, thick: their median"
    heads(page, (16, "Dispatch entropy through training", note))
    return row(page, data.sizes["setting"], 76, 956, 104, 272, gap=120)


def inner_products(data: xr.Dataset, page: Figure) -> list[Axes]:
    """Two rows of two Axes."""
    note = f"{_experts(data)}; one line for each expert and signal, thick: the largest of each expert"
    heads(page, (16, "What experts and routers learn", note))
    return [axes for top in (94, 356) for axes in row(page, 2, 76, 990, top, 205, gap=154)]


def tsne(data: xr.Dataset, page: Figure) -> list[Axes]:
    """An Axes for each of two models."""
    how = "colour and shape: expert; filled: class +, open: class −; ground: the answer"
    heads(page, (8, "Linear experts", how), (548, "Cubic experts", "the same samples; cross: wrong answer"))
    return row(page, 2, 20, 1080, 78, 352, gap=20)


def _marks(data: xr.Dataset) -> str:
    place = data.attrs["paper"].replace("chen2022", "the paper")
    return f"small mark: one of {data.sizes['trial']} trials, bar: their median, star: {place}"


def _experts(data: xr.Dataset) -> str:
    return f"{json.loads(data.attrs['config'])[0]['model']['activation']} experts"
