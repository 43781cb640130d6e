"""Draws a mark for each trial in a column (`moe_lab.drawing.marks.Swarm`) on Axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from numpy.typing import NDArray

from moe_lab.drawing import marks, theme
from moe_lab_widgets.drawing import on_axes
from moe_lab_widgets.drawing.trials import few


def draw(ax: Axes, one: marks.Swarm, style: theme.Style) -> None:
    (low, high), values = ax.get_ylim(), np.asarray(one.values.numpy(), dtype=float)
    _, _, width, height = on_axes.box_of(ax)
    marked = few(values)
    shown, bad, below = np.maximum(values[marked], low), one.bad.numpy()[marked].astype(bool), values[marked] < low
    apart = min(9, 62 / max(len(marked) - 1, 1)) / width
    x = one.place + apart * swarm(shown, 8 / height * (high - low))
    edge: dict[str, Any] = {"markeredgecolor": theme.PAPER, "markeredgewidth": 0.7, "linestyle": "none"}
    for which, marker, colour, size in (
        (~bad & ~below, style.marker, style.colour, 7.5),
        (below & ~bad, "v", style.colour, 8),
        (bad, "X", theme.FAILURE, 9),
    ):
        if which.any():
            looks = {"marker": marker, "color": colour, "markersize": size, "zorder": 4, "clip_on": False, **edge}
            on_axes.line(ax, x[which], shown[which], label=f"{one.name}, a trial", **looks)
    center = float(marks.middle(one.values.to(torch.float64)))
    if center >= low:
        bar = [one.place - one.reach, one.place + one.reach]
        looks = {"color": style.colour, "linewidth": 3, "zorder": 2, "clip_on": False}
        on_axes.line(ax, bar, [center] * 2, label=f"{one.name}, median", **looks)


def swarm(heights: NDArray[np.float64], apart: float) -> NDArray[np.float64]:
    """Returns how many marks' widths each mark is moved sideways, so that none within `apart` overlap."""
    turns = np.full(len(heights), np.nan)
    for mark in np.argsort(heights, kind="stable"):
        near = np.abs(heights - heights[mark]) < apart
        taken = set(turns[near & np.isfinite(turns)])
        turns[mark] = next(turn for step in range(1000) for turn in (step, -step) if turn not in taken)
    return turns
