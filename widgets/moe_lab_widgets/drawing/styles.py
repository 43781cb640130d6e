"""How the styles of marks (`moe_lab.drawing.marks`) look on Axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moe_lab.drawing import theme

STYLES: Mapping[str, tuple[theme.Style, Mapping[str, Any]]] = {
    "model": (theme.MODEL, {}),
    "other": (theme.OTHER, {"dashes": (3, 1.5)}),
    "found": (theme.Style(theme.FOUND, "o", (0, (4, 2))), {"dashes": (4, 2)}),
    **{
        f"other {number + 1}": (theme.OTHER, {"dashes": dashes})
        for number, dashes in enumerate(((4, 1.5), (1, 1.2), (6, 1.5, 1, 1.5), (2.5, 2.5)))
    },
}
"""The style of a curve, and how its median's line differs from it."""
INKS = {
    "model": theme.INK, "other": theme.REFERENCE, "ink": theme.INK, "muted": theme.MUTED, "failure": theme.FAILURE,
    "rule": theme.RULE, "found": theme.FOUND, "gold": theme.GOLD,
    "class 1": theme.CLASSES[0], "class 2": theme.CLASSES[1],
    **{f"other {number}": theme.REFERENCE for number in (1, 2, 3, 4)},
}  # fmt: skip
SIGNS: Mapping[str, Mapping[str, Any]] = {
    "dot": {"marker": "o", "markersize": 2.8, "alpha": 0.75, "markeredgewidth": 0, "zorder": 3},
    "star": {"marker": "*", "markersize": 15, "markeredgecolor": "white", "zorder": 2.5},
    "target": {"marker": "*", "markersize": 17, "markeredgecolor": theme.INK, "zorder": 5},
    "ring": {"marker": "o", "markersize": 8, "markerfacecolor": theme.PAPER, "zorder": 5},
    "disc": {"marker": "o", "markersize": 9, "markeredgecolor": theme.PAPER, "zorder": 5},
    **{
        name: {"marker": marker, "markersize": 9, "markeredgecolor": theme.PAPER, "zorder": 5}
        for name, marker in (("left", "<"), ("right", ">"), ("up", "^"), ("down", "v"))
    },
    "cross": {"marker": "X", "markersize": 10, "markeredgecolor": theme.PAPER, "zorder": 5},
    "hollow": {"marker": "v", "markersize": 8, "markerfacecolor": theme.PAPER, "zorder": 5},
}
"""How the shapes of `Points` look."""
SIDES = {"class 1": 0, "class 2": 1}
LEVELS: Mapping[str, Mapping[str, Any]] = {
    "dashed": {"linewidth": 1, "linestyle": (0, (6, 3)), "zorder": 2},
    "rule": {"linewidth": 0.6, "zorder": 0.5},
    "axis": {"linewidth": 0.8, "zorder": 1.5, "color": theme.RULE},
    "bound": {"linewidth": 2, "linestyle": (0, (4, 2)), "color": theme.INK, "clip_on": False},
}
"""How lines across look where they are no level in a style."""
