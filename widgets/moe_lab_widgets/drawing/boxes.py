"""The patches of a sample, and which of them have a place at which expert, as boxes in a row for each expert."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from moe_lab.drawing import theme
from moe_lab_widgets.drawing.on_axes import bars, box_of, heads, pixels, write
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.drawing.tiles import ROLES

CROSS = "a patch without a place at this expert"
LEVELS = 5
"""Shades of a box."""
HIGH = 142.0
"""Pixels of the Axes. Their vertical axis counts pixels, the horizontal one patches."""
WIDEST = 40
"""Pixels from one patch to the next, at most."""


def furnish(ax: Axes, patches: int, experts: int, title: str, colour: str) -> None:
    """Furnishes Axes for the boxes of a class."""
    ax.set(xlim=(-0.5, max(patches, box_of(ax)[2] / WIDEST) - 0.5), ylim=(HIGH, 0), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    write(ax, -0.5, 0, [title], colour, ha="left", bold=True, right=-30, down=-14)
    tops, down = _rows_of(ax, experts)
    heads(ax, [-0.5] * experts, tops[:-1] + down / 2, 12 if down >= 15 else 8.5, right=-14)
    write(ax, -0.5, tops[-1] + down / 2, ["lost"], theme.MUTED, ha="right", size=theme.SMALL_SIZE, right=-6)


def draw(
    ax: Axes,
    side: int,
    weights: NDArray[np.float64],
    refused: NDArray[np.bool_],
    lost: NDArray[np.bool_],
    looks: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> None:
    """Draws the patches of a sample of a class, and the boxes below them (see the mark `Places`).

    Args:
      looks: roles and sides of the patches.
    """
    experts = len(weights)
    _draw_tiles(ax, side, *looks, experts)
    _draw_boxes(ax, side, np.rint((LEVELS - 1) * weights).astype(int), lost)
    tops, down = _rows_of(ax, experts)
    expert, patch = np.nonzero(refused)
    cross: dict[str, Any] = {"color": theme.MUTED, "markersize": 4.5, "markeredgewidth": 1.2, "clip_on": False}
    ax.plot(patch, tops[expert] + down / 2, "x", label=CROSS, zorder=3, **cross)  # above the boxes, which it is in


def _across(ax: Axes) -> float:
    """Returns the pixels from one patch to the next."""
    left, right = ax.get_xlim()
    return box_of(ax)[2] / (right - left)


def _rows_of(ax: Axes, experts: int) -> tuple[NDArray[np.float64], float]:
    """Returns the tops (expert + 1,) of the rows of boxes, the last one of what is lost, and their height."""
    tile = min(_across(ax), 26.0)  # of a patch, above the boxes
    down = min((HIGH - tile) / (experts + 1), 18.0)
    tops = tile + down * np.arange(experts + 1, dtype=np.float64)
    tops[-1] += 4
    return tops, down


def _draw_boxes(ax: Axes, side: int, levels: NDArray[np.int64], lost: NDArray[np.bool_]) -> None:
    experts, patches = levels.shape
    tops, down = _rows_of(ax, experts)
    rows, columns = (each.ravel() for each in np.indices((experts + 1, patches)))
    black = [theme.INK if one else theme.PAPER for one in lost]
    colours = [_shade(row, int(level)) for row, line in enumerate(levels) for level in line] + black
    words = [*(f"expert {expert + 1}" for expert in range(experts)), "lost"]
    names = [f"class {theme.CLASS_SIGNS[side]}, patch {j + 1}, {row}" for row in words for j in range(patches)]
    bars(ax, columns, [down - 2] * len(rows), 1 - 2 / _across(ax), colours, begin=tops[rows] + 1, names=names)


def _draw_tiles(ax: Axes, side: int, roles: NDArray[np.int64], sides: NDArray[np.int64], experts: int) -> None:
    """Draws the patches, and a frame around the column of the one that decides."""
    tiles, frame = Sheet(zorder=2.2), Sheet(zorder=2.6)
    tiles.set_label("the patches of an example")
    frame.set_label("the patch that decides the class")
    tops, down = _rows_of(ax, experts)
    across, places = _across(ax), pixels(ax, np.arange(len(roles)), 0)
    wide = min(tops[0] - 3, across - 2)
    for (x, y), role, imitates in zip(places, roles.tolist(), sides.tolist(), strict=True):
        tiles.image(x - wide / 2, y, x + wide / 2, y + wide, _face, role, max(imitates, 0))
        if ROLES[role] == "signal":
            edge = across / 2
            frame.frame(x - edge, y - 2, x + edge, y + tops[-1] + down + 1, theme.CLASSES[side])
    ax.add_artist(tiles)
    ax.add_artist(frame)


@lru_cache(maxsize=64)
def _face(role: int, side: int, wide: int, high: int, scale: float) -> NDArray[np.uint8]:
    """Paints a patch as it looks."""
    return theme.tile(ROLES[role], side, min(wide, high))


@lru_cache(maxsize=64)
def _shade(expert: int, level: int) -> str:
    """Returns an expert's colour in steps from nearly paper to full."""
    colour = theme.rgba(theme.expert(expert).colour if level else theme.BACKGROUND)
    mixed = theme.faded(colour, 1 - level / (LEVELS - 1) if level else 0.6)[:3]
    return "#" + "".join(f"{part:02X}" for part in mixed.tolist())
