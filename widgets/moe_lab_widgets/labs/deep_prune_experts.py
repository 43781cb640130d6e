"""The first panel of DeepPruneLab: every expert's change, its number, the patches that it receives, and its share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from moe_lab.drawing import theme
from moe_lab.vision.deep import DigitRun
from moe_lab_widgets.drawing.on_axes import bars, name_cells, note, paint, write
from moe_lab_widgets.drawing.panel import Seen
from moe_lab_widgets.engine.now import Now
from moe_lab_widgets.labs.deep_prune_record import TILES, Frame

EXPERTS = DigitRun().model.num_experts
# Layers stand one above the other; heights are pixels from the top of a layer.
ZERO, LONGEST = 53, 30
"""Where the axis of Delta is, and the length of its longest bar."""
CHIP, PATCHES, SHARE = 108, 121, 165
"""Where an expert's number, its patches and its share of the tokens stand."""
ACROSS, SIDE, GAP = 3, 16, 1
"""Patches side by side, and the pixels of a patch and between two."""


def longest_change(values: Mapping[str, Any]) -> float:
    """Returns where the axes of Delta end."""
    return 0.2 if values["learning_rate"] <= 0.05 else 0.4


def furnish_experts(axes: list[Axes], values: Seen) -> None:
    most = values.of(longest_change)
    for ax, block in zip(axes, DigitRun().model.layers, strict=True):
        ax.set(xlim=(-0.5, EXPERTS - 0.5), ylim=(177, 0))
        ax.set_xticks([])
        ax.set_yticks([ZERO - LONGEST, ZERO, ZERO + LONGEST], [signed(most, 1), "Δ  0", signed(-most, 1)])
        ax.spines[:].set_visible(False)
        ax.axhline(ZERO, color=theme.REFERENCE, linewidth=0.8)
        note(ax, -36, 0, f"layer in block {block}", theme.INK)
        name_cells(ax, [f"expert {number + 1} of block {block}" for number in range(EXPERTS)])


def draw_experts(axes: list[Axes], now: Now) -> None:
    record: Frame = now.of()
    kept, most = record.kept(now.values["criterion"], now.values["pruned"]), longest_change(now.values)
    words = "Δ: change of the router's norm in fine-tuning" + ("; grey: pruned" if record.table is not None else "")
    write(axes[0], -0.5, 0, [words], theme.MUTED, ha="left", size=theme.SMALL_SIZE, right=-36, down=-21)
    for row, ax in enumerate(axes):
        stays = np.ones(EXPERTS, dtype=bool) if kept is None else kept[row]
        _draw_changes(ax, record.changes[row], most, stays, named=record.table is not None)
        _draw_numbers(ax, stays, filled=kept is not None)
        if record.tiles is not None:
            high = TILES // ACROSS * (SIDE + GAP) - GAP
            paint(ax, range(EXPERTS), PATCHES, (ACROSS * (SIDE + GAP) - GAP, high), painted, record.tiles[row])
        if record.received is not None:
            shares = [f"{100 * share:.0f} %" for share in record.received[row]]
            write(ax, -0.5, SHARE, ["tokens"], theme.MUTED, ha="left", size=theme.SMALL_SIZE, right=-46)
            write(ax, range(EXPERTS), SHARE, shares, theme.MUTED, size=theme.SMALL_SIZE)


def _draw_changes(
    ax: Axes, changes: NDArray[np.float64], most: float, stays: NDArray[np.bool_], *, named: bool
) -> None:
    """Draws a layer's bars of Delta, those of pruned experts pale, with their numbers once training has ended."""
    heights = LONGEST * np.clip(np.nan_to_num(changes), -most, most) / most
    colours = np.where(stays, theme.INK, theme.REFERENCE)
    fills, names = np.where(stays, theme.INK, theme.RULE), [f"{name}: Δ" for name in ax.names_of_cells]  # type: ignore[attr-defined]
    bars(ax, range(EXPERTS), -heights, 0.56, fills, begin=ZERO, names=names)
    bars(ax, range(EXPERTS), [3] * EXPERTS, 0.56, colours, begin=ZERO - heights - 1.5, names=names)
    if named:
        places = ZERO - heights + np.where(heights >= 0, -9, 9)
        write(ax, range(EXPERTS), places, [*map(signed, changes)], colours, size=theme.SMALL_SIZE, bold=stays)


def _draw_numbers(ax: Axes, stays: NDArray[np.bool_], *, filled: bool) -> None:
    """Draws experts' numbers in boxes, which are filled where an expert stays and hollow where it is pruned."""
    colours = np.where(stays, theme.INK, theme.REFERENCE)
    bars(ax, range(EXPERTS), [17] * EXPERTS, 0.34, colours, begin=CHIP - 8.5, names=ax.names_of_cells)  # type: ignore[attr-defined]
    hollow = np.where(stays & filled, 0.0, 14.0)
    bars(ax, range(EXPERTS), hollow, 0.31, theme.PAPER, begin=CHIP - 7, names=ax.names_of_cells)  # type: ignore[attr-defined]
    inks = np.where(stays, theme.PAPER if filled else theme.INK, theme.REFERENCE)
    numbers = [str(number + 1) for number in range(EXPERTS)]
    write(ax, range(EXPERTS), CHIP, numbers, inks, size=theme.SMALL_SIZE, bold=filled & stays)


def signed(value: float, digits: int = 2) -> str:
    """Returns a number with its sign, none where it rounds to 0."""
    words = f"{value:+.{digits}f}".replace("-", "−")
    return words if words.strip("+−0.") else words[1:]


@lru_cache(maxsize=256)
def painted(grey: bytes, wide: int, high: int, scale: float) -> NDArray[np.uint8]:
    """Paints patches of equal size in rows: paper is 0, ink 255; where one is missing, nothing."""
    patches = np.frombuffer(grey, np.uint8).reshape(-1, 4, 4)
    pixels = np.zeros((high, wide, 4), np.uint8)
    paper, ink = (theme.rgba(colour).astype(float) for colour in (theme.BACKGROUND, theme.INK))
    step, side = (SIDE + GAP) * scale, round(SIDE * scale)
    places = np.arange(side) * 4 // side
    for number, patch in enumerate(patches):
        row, column = divmod(number, ACROSS)
        top, left = round(row * step), round(column * step)
        level = patch[np.ix_(places, places)][..., None] / 255
        part = pixels[top : top + side, left : left + side]
        part[:] = np.rint(paper + level * (ink - paper))[: part.shape[0], : part.shape[1]]
    return pixels
