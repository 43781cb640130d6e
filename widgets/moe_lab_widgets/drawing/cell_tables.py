"""Furnishes Axes for tables of cells (`moe_lab.drawing.marks.Table`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from moe_lab.drawing import marks, theme
from moe_lab.drawing.words import written
from moe_lab_widgets.drawing import on_axes


def names_of(pattern: str | Sequence[str], count: int) -> list[str]:
    """Returns the names of rows or columns, of a pattern for their numbers or of all names."""
    return [pattern.format(place + 1) for place in range(count)] if isinstance(pattern, str) else list(pattern[:count])


def furnish(one: marks.Table, ax: Axes) -> None:
    """Furnishes Axes for a table."""
    rows, columns = (round(float(count)) for count in one.shape)
    names = names_of(one.rows, rows)
    small: dict[str, Any] = {"size": theme.SMALL_SIZE}
    heads = [written(head) for head in one.heads]
    on_axes.table(ax, names, heads or names_of(one.columns, columns), widest=one.widest, highest=one.highest)
    if heads:  # the table may be wider than the Axes
        ax.set_xlim(-0.5, on_axes.box_of(ax)[2] / one.widest - 0.5)
        on_axes.write(ax, range(columns), [-0.5] * columns, heads, theme.MUTED, down=-10, **small)
    if len(one.firm):
        ax.set_yticks([])
        firm = np.array([float(value) for value in one.firm]) > 0
        colours = np.where(firm, theme.INK, theme.MUTED)
        on_axes.write(ax, [-0.5] * rows, range(rows), names, colours, bold=firm, ha="right", right=-7, **small)
    if one.numbered:
        numbers = names_of("{}", columns)
        on_axes.write(ax, range(columns), [rows - 0.5] * columns, numbers, theme.MUTED, down=11, **small)
    if one.below:
        on_axes.write(ax, -0.5, rows - 0.5, [one.below], ha="left", down=29)
