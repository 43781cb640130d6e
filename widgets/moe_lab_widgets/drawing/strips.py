"""Draws marks of experts that are pruned (`moe_lab.drawing.pruning_marks`) on Axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from moe_lab.drawing import pruning_marks, theme
from moe_lab.drawing.marks import Mark
from moe_lab.drawing.words import written
from moe_lab_widgets.drawing import on_axes
from moe_lab_widgets.drawing.styles import INKS

CROWDED = 24
"""Experts from which on there is no room for the numbers of their changes."""
CAP = 0.02
"""The height of the thick end of each bar, so that a router that did not grow still shows."""
NUMBERS, PATTERNS, LOST = -0.15, -0.26, -0.35
SCORES, SCORES_TOP = -0.9, -0.53
"""Heights, where 0 is no change and 1 where the axis ends: rows below the changes, and the bars of the scores."""
LOWEST = -0.4
BLOCKS, WIDE = 20, 0.85
"""Each stands for 5 %; and the width of one, where that of its place is 1."""
GAUGE = 9.2
"""From one gauge to the next."""
SHAPES = {"dot": ("o", 7), "small": ("o", 4), "cross": ("X", 5.5), "square": ("s", 4.5), "": ("", 0)}
DASHES = {"": (), "dashed": (4, 1.5), "dotted": (1, 1.65)}


def columns(experts: int) -> NDArray[np.float64]:
    """Returns (expert,) where the experts stand: those that vote + on the left, after a gap those that vote -."""
    numbers = np.arange(float(experts))
    return np.where(numbers < experts // 2, numbers, numbers + 0.034 * experts)


def furnish_strip(one: pruning_marks.StripTable, ax: Axes) -> None:
    experts, most, bound = round(float(one.experts)), float(one.most), float(one.bound)
    x = columns(experts)
    ax.set(xlim=(-0.5, x[-1] + 0.5), ylim=(SCORES, 1))
    ax.set_xticks([])
    ax.set_yticks(np.arange(most) / most, [f"{tick:g}" for tick in np.arange(most)])
    ax.spines[:].set_visible(False)
    on_axes.note(ax, -40, 88, one.name, theme.INK)
    for height in (0, SCORES):
        ax.axhline(height, color=theme.REFERENCE, linewidth=0.8, clip_on=False)
    ax.axhline(bound / most, color=theme.INK, linewidth=1.4, dashes=(5, 2))
    middle = (x[experts // 2 - 1] + x[experts // 2]) / 2
    ax.vlines([middle] * 2, [LOST, SCORES], [1.13, SCORES_TOP], color=theme.RULE, linewidth=1, clip_on=False)
    style: dict[str, Any] = {"ha": "center", "va": "center", "size": theme.TEXT_SIZE, "weight": "bold"}
    for side, place in enumerate(((-0.5 + middle) / 2, (middle + x[-1] + 0.5) / 2)):
        ax.text(place, 1.09, f"experts that vote {theme.CLASS_SIGNS[side]}", color=theme.CLASSES[side], **style)
    ax.most_of_strip = most  # type: ignore[attr-defined]


def strip(one: pruning_marks.Strip, ax: Axes) -> None:
    most: float = ax.most_of_strip  # type: ignore[attr-defined]
    changes, scores, carries = (part.numpy() for part in (one.change, one.scores, one.carries))
    stays, pruned, lost = one.stays.numpy(), bool(one.pruned), one.lost.numpy()
    experts, half = len(changes), len(changes) // 2
    x, classes = columns(experts), np.repeat(theme.CLASSES, half)
    colours, wide = np.where(stays, classes, theme.REFERENCE), np.where(stays, 0.75, 0.4)
    heights, full = np.clip(np.nan_to_num(changes) / most, LOWEST, 1), np.ones(experts)
    lengths = scores * (SCORES_TOP - SCORES) + CAP / 2
    drawn: list[tuple[Any, ...]] = [  # length, width, begin, colours
        (heights, wide, 0 * full, colours),
        (CAP * full, wide, heights - CAP / 2, colours),
        (np.where(stays & pruned, 0.1, np.nan), 0.85 * full, NUMBERS - 0.05 * full, colours),
        (lengths, wide, SCORES * full, np.where(stays, theme.INK, theme.REFERENCE)),
        ((1 - SCORES) * full, full, SCORES * full, np.full(experts, "none")),  # a pointer finds the whole column
    ]
    long, widths, begin, fills = (np.concatenate(part) for part in zip(*drawn, strict=True))
    names = [f"expert {number + 1}, votes {theme.CLASS_SIGNS[number // half]}" for number in range(experts)]
    on_axes.bars(ax, np.tile(x, len(drawn)), long, widths, fills, begin=begin, names=names * len(drawn))
    small: dict[str, Any] = {"size": theme.SMALL_SIZE}
    numbers = np.where(stays, "white", theme.REFERENCE) if pruned else classes
    on_axes.write(ax, x, NUMBERS, [str(number + 1) for number in range(experts)], numbers, bold=stays, **small)
    told = np.flatnonzero(changes >= one.notable) if experts < CROWDED else np.zeros(0, dtype=int)
    words = [f"{'▲' if changes[expert] > most else ''}{changes[expert]:.1f}" for expert in told]
    on_axes.write(ax, x[told], heights[told], words, colours[told], bold=True, down=-10, **small)
    carriers, gone = np.flatnonzero(carries), np.flatnonzero(lost)
    patterns = [theme.CLASS_NAMES[expert // half] for expert in carriers]
    on_axes.write(ax, x[carriers], PATTERNS, patterns, classes[carriers], bold=True)
    on_axes.write(ax, x[gone], LOST, ["✖"] * len(gone), theme.FAILURE)


def series(one: pruning_marks.Series, ax: Axes) -> None:
    if not bool(one.y.isfinite().any()):
        return
    marker, size = SHAPES[one.shape]
    looks: dict[str, Any] = {"linewidth": one.width, "marker": marker, "markersize": size, "color": INKS[one.style]}
    if one.dash:
        looks["dashes"] = DASHES[one.dash]
    name = one.name + written(one.words)
    order = 2.5 if one.style == "rule" else 4 if one.shape != "dot" else 5
    on_axes.line(ax, one.x.numpy(), one.y.numpy(), label=name, clip_on=False, zorder=order, **looks)


def span(one: pruning_marks.Span, ax: Axes) -> None:
    low, high = max(float(one.low), ax.get_ylim()[0]), float(one.high)
    if not np.isfinite(low + high):
        return
    _, _, wide, _ = on_axes.box_of(ax)
    begin, end = ax.get_xlim()
    x = float(one.x) + one.aside / wide * (end - begin)
    looks: dict[str, Any] = {"linewidth": 5, "alpha": 0.45, "solid_capstyle": "butt", "zorder": 3}
    on_axes.line(ax, [x, x], [low, high], color=INKS[one.style], label=one.name, clip_on=False, **looks)


def gauges(one: pruning_marks.Gauges, ax: Axes) -> None:
    count = len(one.titles)
    ax.set(xlim=(0, BLOCKS / 2), ylim=(GAUGE * count - 1.6, 0))
    ax.set_axis_off()
    tops = GAUGE * np.arange(count)
    shares = np.array([float(share) for share in one.shares])
    row, column = np.divmod(np.arange(BLOCKS), BLOCKS // 2)
    y, x = (tops[:, None] + 4.4 + row).ravel(), np.tile(column, count)
    filled = np.clip(np.nan_to_num(shares)[:, None] * BLOCKS - np.arange(BLOCKS), 0, 1).ravel()
    names = [f"{title}: a block is 5 %" for title in one.titles for _ in range(BLOCKS)]
    on_axes.bars(ax, y, np.full(len(y), WIDE), WIDE, theme.BACKGROUND, begin=x, across=True, names=names)
    part = np.where(filled > 0.1, WIDE * filled, np.nan)
    on_axes.bars(ax, y, part, WIDE, begin=x, across=True, names=names)
    left: dict[str, Any] = {"ha": "left"}
    on_axes.write(ax, 0, tops + 0.4, one.titles, theme.MUTED, size=theme.TEXT_SIZE, **left)
    on_axes.write(ax, 0, tops + 2.3, [written(words) for words in one.words], bold=True, size=19, **left)
    on_axes.write(ax, 0, tops + 6.6, [written(note) for note in one.notes], theme.MUTED, size=theme.SMALL_SIZE, **left)


DRAWN: Mapping[type[Mark], Callable[[Any, Axes], None]] = {
    pruning_marks.StripTable: furnish_strip,
    pruning_marks.Strip: strip,
    pruning_marks.Series: series,
    pruning_marks.Span: span,
    pruning_marks.Gauges: gauges,
}
"""What draws each mark."""
