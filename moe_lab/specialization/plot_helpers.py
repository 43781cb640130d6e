"""Plotting helpers: styles and names of models, axes of accuracy and entropy, tables of counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

from moe_lab.drawing import theme

CUBIC = theme.Style(theme.INK, "o", "-")
LINEAR = theme.Style(theme.REFERENCE, "s", "--")


def style_of(model: str) -> theme.Style:
    """Ink for cubic experts, the model under study; grey for all others. Single experts have triangles."""
    kind, activation = (*model.split("-"), "")[:2]
    base = CUBIC if activation == "cubic" else LINEAR
    return base if kind == "moe" else theme.Style(base.colour, "^" if activation == "cubic" else "v", base.line)


def name_of(model: str) -> str:
    """A model in words: "moe-cubic" is "cubic mixture", "single-linear-512" is "single linear (512)"."""
    kind, activation, filters = (*model.split("-"), "", "")[:3]
    words = f"{activation} mixture" if kind == "moe" else f"single {activation}"
    return f"{words} ({filters})" if filters else words


def percent(axes: Axes, low: float, high: float = 1.0, vertical: bool = True) -> None:
    """An axis of accuracy from `low` to just above `high`."""
    limits, axis = (axes.set_ylim, axes.yaxis) if vertical else (axes.set_xlim, axes.xaxis)
    limits(low, high + 0.02 * (high - low))
    axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f} %"))


def floor(values: np.ndarray, step: float = 0.05) -> float:
    """A round share below all values, at most 90 %."""
    finite = values[np.isfinite(values)]
    return float(np.clip(np.floor(finite.min() / step + 1e-9) * step, 0, 0.9)) if finite.size else 0.0


def entropy_axis(axes: Axes, clusters: int, words: bool = True) -> None:
    """An axis of dispatch entropy with both its ends marked: 0 and log K."""
    top = float(np.log(clusters))
    axes.set_ylim(-0.09 * top, 1.09 * top)
    axes.set_yticks([0, 0.5, 1, top], ["0", "0.5", "1", f"log {clusters}"])
    for level in (0, top):
        axes.axhline(level, color=theme.RULE, linewidth=1, zorder=0)
    if words:
        note: dict[str, Any] = {"color": theme.MUTED, "size": theme.SMALL_SIZE, "transform": axes.get_yaxis_transform()}
        axes.text(0.99, top, "no specialisation", ha="right", va="bottom", **note)
        axes.text(0.99, -0.01 * top, "every expert serves one cluster", ha="right", va="top", **note)


def cells(axes: Axes, top: float, counts: np.ndarray) -> None:
    """Rows of numbered cells from `top` down, as dark as a cell's share of its row."""
    for row, line in enumerate(counts):
        total = float(line.sum())
        for column, count in enumerate(line):
            share = float(count) / total if total else 0.0
            where = (column + 0.02, top - row - 0.98)
            axes.add_patch(Rectangle(where, 0.96, 0.96, facecolor=tuple(theme.ramp(share) / 255), linewidth=0))
            style: dict[str, Any] = {"ha": "center", "va": "center", "size": theme.TEXT_SIZE}
            words = f"{count:.0f}" if count else "·"
            colour = theme.ink_on(share) if count else theme.REFERENCE
            axes.text(column + 0.5, top - row - 0.5, words, color=colour, gid="count", **style)
