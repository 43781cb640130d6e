"""Plotting helpers: styles of criteria, thresholds, maps of components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter

from moe_lab.drawing import theme

_LINES: dict[str, tuple[str, Any]] = {
    "router-norm-change": ("o", "-"),
    "random": ("X", (0, (1, 1.2))),
    "importance-score": ("^", (0, (6, 1.5, 1, 1.5))),
    "router-magnitude": ("s", (0, (5, 2))),
    "neuron-magnitude": ("D", (0, (9, 2.5))),
    "neuron-magnitude-change": ("v", (0, (2.5, 1.5))),
    "router-difference-norm": ("P", (0, (6, 1.2, 1, 1.2, 1, 1.2))),
    "token-count": ("<", (0, (1, 3))),
}
ROUTINGS = {"expert-choice": theme.MODEL, "token-choice": theme.OTHER}
GROUPS = ("+", "-")
LOW = 0.4
"""Where axes of accuracy begin: below the 50 % of guessing, with room for samples to scatter."""


def style_of(criterion: str, chosen: str, names: Sequence[str] = ()) -> tuple[str, str, Any]:
    """Colour, marker and dashes: ink and solid for the chosen criterion, grey for the others, each with its own.

    Criteria that are none of ours have colours of their own, in the order of `names`.
    """
    if criterion not in _LINES and criterion != chosen and criterion in names:
        own = theme.styles([name for name in names if name not in _LINES], {})[criterion]
        return own.colour, own.marker, own.line
    marker, dashes = _LINES.get(criterion, ("*", ":"))
    return (
        (theme.INK, marker, "-")
        if criterion == chosen
        else (theme.REFERENCE, marker, "--" if dashes == "-" else dashes)
    )


def percent(axes: Axes, low: float, high: float = 1.0) -> None:
    """A vertical axis of shares from `low` to just above `high`, with a tick at every tenth or fifth."""
    axes.set_ylim(low, high + 0.03 * (1 - low))
    axes.set_yticks(np.arange(round(10 * low), 11, 1 if low >= LOW else 2) / 10)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f} %"))


def names(axes: Axes, x: float, ends: Sequence[tuple[float, str, str]], pixels: float = 16) -> None:
    """Names to the right of the axes, pushed apart, each tied to the end of its line by a thin one; grey is not bold.

    Args:
      x: where the lines end, in data units.
      ends: (y of the line's end, name, colour) each; those that have no end get no name.
    """
    left, right = axes.get_xlim()
    wide = axes.get_window_extent().width * theme.BASE_DPI / axes.figure.dpi
    gap = 14 * (right - left) / wide
    known = [end for end in ends if np.isfinite(end[0])]
    texts = theme.end_labels(axes, known, pixels, right + gap)
    for text, (y, _, colour) in zip(texts, known, strict=True):
        if colour == theme.REFERENCE:
            text.set_fontweight("normal")
        tie = ([x, right, right + gap], [y, y, text.get_position()[1]])
        axes.plot(*tie, color=colour, linewidth=0.7, alpha=0.8, clip_on=False, zorder=1, gid="tie")


def threshold(axes: Axes, level: float, words: str, x: float = 0.99, ha: Literal["left", "right"] = "right") -> None:
    """A dashed line of theory, with its name above it."""
    axes.axhline(level, color=theme.INK, linewidth=1.4, linestyle=(0, (6, 2.5)), zorder=1, gid="threshold")
    ground = {"facecolor": theme.PAPER, "alpha": 0.85, "linewidth": 0, "pad": 0.6}
    axes.annotate(
        words,
        (x, level),
        xycoords=axes.get_yaxis_transform(),
        xytext=(0, 3.5),
        textcoords="offset points",
        ha=ha,
        va="bottom",
        color=theme.INK,
        size=theme.SMALL_SIZE,
        bbox=ground,
        zorder=5,
    )


def components(axes: Axes, values: np.ndarray, largest: float, wide: int = 36, gap: int = 6) -> None:
    """Rows of components as a map: columns o1 and o2 wide, then the irrelevant patterns, one narrow column each.

    As in the paper, darker is larger; what is negative is as pale as 0.

    Args:
      values: (rows, patterns), o1 and o2 first.
      largest: what is darkest.
    """
    shades = theme.ramp(np.clip(values / (largest or 1.0), 0, 1))
    empty = np.broadcast_to(theme.rgba(theme.PAPER), (len(values), gap, 4))
    thin = max(1, round(198 / max(values.shape[1] - 2, 1)))
    parts = [shades[:, :1].repeat(wide, 1), shades[:, 1:2].repeat(wide, 1), empty, shades[:, 2:].repeat(thin, 1)]
    image = np.concatenate(parts, axis=1)
    rows, across = image.shape[:2]
    axes.imshow(image, extent=(0, across, rows, 0), aspect="auto", interpolation="nearest", zorder=1)
    axes.set_xlim(0, across)
    axes.set_ylim(rows, 0)
    axes.tick_params(length=0)
    frame: dict[str, Any] = {"fill": False, "edgecolor": theme.RULE, "linewidth": 0.8, "zorder": 2}
    for left, right in ((0, wide), (wide, 2 * wide), (2 * wide + gap, across)):
        axes.add_patch(Rectangle((left, 0), right - left, rows, clip_on=False, **frame))
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xticks([wide / 2, 1.5 * wide, (2 * wide + gap + across) / 2], ["", "", ""])
