"""Draws a routing table: which expert gets which patch, with which gate, and which patches are dropped."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from moe_lab.core.config import require
from moe_lab.core.numbers import finite_array
from moe_lab.drawing import theme
from moe_lab.drawing.style import in_fixed_style

_WIDE = 1.5
"""The width of a cell in its heights, so that "dropped" fits under it."""


@in_fixed_style
def gate_table(axes: Axes, gates: ArrayLike, title: str = "") -> None:
    """Draws gates, (experts, patches), as a table; a framed cell is routed, its shade and number are the gate.

    The right margin counts the patches of each expert, the lower one the experts of each patch; a patch that no expert
    gets is marked as dropped.

    Raises:
      ValueError: gates is not a table of finite numbers.
    """
    table = finite_array("gates", gates)
    require(table.ndim == 2 and table.size > 0, "gates must have the axes (experts, patches)", shape=table.shape)
    experts, patches = table.shape
    for row, column in np.ndindex(experts, patches):
        _cell(axes, row, column, float(table[row, column]))
    routed = table > 0
    note: dict[str, Any] = {"size": theme.SMALL_SIZE, "color": theme.MUTED, "va": "center"}
    for row in range(experts):
        style = theme.expert(row)
        axes.plot(-1.2, row, marker=style.marker, markersize=17, color=style.colour, markeredgecolor="white")
        axes.text(-1.2, row, str(row + 1), size=theme.TEXT_SIZE, color=style.on, ha="center", va="center_baseline")
        count = int(routed[row].sum())
        axes.text(_WIDE * (patches - 0.4), row, f"{count} patch{'' if count == 1 else 'es'}", ha="left", **note)
    for column in range(patches):
        count = int(routed[:, column].sum())
        words = f"to {count}" if count else "× dropped"
        weight = "normal" if count else "bold"
        axes.text(_WIDE * column, -0.72, f"patch {column + 1}", ha="center", **note)
        axes.text(_WIDE * column, experts - 0.28, words, ha="center", weight=weight, **note)
    axes.set(xlim=(-1.6, _WIDE * patches + 0.9), ylim=(experts, -1.05), aspect="equal", xticks=[], yticks=[])
    axes.set_title(title, color=theme.INK, size=theme.TITLE_SIZE, weight="bold", loc="left")
    axes.set_facecolor(theme.PAPER)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _cell(axes: Axes, row: int, column: int, gate: float) -> None:
    routed = gate > 0
    box = Rectangle(
        (_WIDE * (column - 0.47), row - 0.44),
        _WIDE * 0.94,
        0.88,
        facecolor=theme.RAMP(min(gate, 1.0)) if routed else theme.PAPER,
        edgecolor=theme.INK if routed else theme.RULE,
        linewidth=2 if routed else 0.8,
    )
    axes.add_patch(box)
    if routed:
        axes.text(
            _WIDE * column, row, f"{gate:.2f}", ha="center", va="center", size=theme.TEXT_SIZE, color=theme.ink_on(gate)
        )
