"""Draws an image that is cut into patches, with the experts that keep them (`moe_lab.drawing.image_marks`), on Axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from moe_lab.drawing import theme
from moe_lab.drawing.image_marks import ImageAxes, PatchedImage
from moe_lab.drawing.marks import Mark
from moe_lab.drawing.words import written
from moe_lab_widgets.drawing.on_axes import box_of, head, pixels, write
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.drawing.tiles import inked

GREYS = 12
"""Shades of an image: a page is sent each new pixel."""
COVERED = 0.72
"""How much of a patch that no expert keeps is covered."""
FRAME = theme.CLASSES[0]
HEAD, LARGEST = 0.644, 17.0
"""The size of a head: its part of the room that it has, and points at most."""


def furnish(one: ImageAxes, ax: Axes) -> None:
    """Furnishes Axes for an image, as large as they allow."""
    _, _, wide, high = box_of(ax)
    unit = min(wide, high) / one.side
    ax.set(xlim=(0, wide / unit), ylim=(high / unit, 0), xticks=(), yticks=())
    ax.spines[:].set_visible(False)


def draw(one: PatchedImage, ax: Axes) -> None:
    """Draws an image, what covers its patches, the heads of the experts and the two lines."""
    side, patches = len(one.ink), one.patches
    kept, lit = (part.detach().numpy() > 0 for part in (one.kept, one.lit))
    (left, top), (right, bottom) = pixels(ax, [0, side], [0, side])
    image, frame = Sheet(zorder=2), Sheet(zorder=2.6)
    ink = one.ink.detach().numpy().clip(0, 1)
    shades = np.rint((GREYS - 1) * np.nan_to_num(ink)).astype(np.uint8)
    image.image(left, top, right, bottom, _painted, shades.tobytes(), lit.tobytes())
    edge = (right - left) / patches
    image.add([
        (left + j * edge, top + i * edge, left + (j + 1) * edge, top + (i + 1) * edge, 0, 0, 0, 0)
        for i, j in np.ndindex(patches, patches)
    ])  # fmt: skip
    image.parts = [_name(patch, kept[:, patch]) for patch in range(len(lit))]  # type: ignore[attr-defined]
    down, across, high, wide = (edge * patches / side * one.box.nan_to_num()).tolist()
    if high and wide:
        for hairlines in (0, 1, 2):
            x, y = left + across - hairlines, top + down - hairlines
            frame.frame(x, y, x + wide + 2 * hairlines, y + high + 2 * hairlines, FRAME)
    for sheet, name in ((image, "the image"), (frame, "the object that decides the class")):
        sheet.set_label(name)
        ax.add_artist(sheet)
    _heads(ax, kept, side / patches, edge)
    firm = bool(one.firm)
    write(ax, 0, 0, [written(one.above)], FRAME, bold=True, ha="left", down=-12)
    write(ax, 0, side, [written(one.below)], theme.INK if firm else theme.REFERENCE, bold=firm, ha="left", down=13)


def _name(patch: int, kept: NDArray[np.bool_]) -> str:
    """Returns what a pointer says of a patch."""
    experts = ", ".join(str(expert + 1) for expert in np.flatnonzero(kept))
    return f"patch {patch + 1}: {f'kept by {experts}' if experts else 'no expert is drawn here'}"


def _heads(ax: Axes, kept: NDArray[np.bool_], patch: float, edge: float) -> None:
    """Draws the heads of the experts, each at a place of its own within a patch.

    Args:
      patch: the side of a patch in data.
      edge: and in pixels.
    """
    across = int(np.ceil(len(kept) ** 0.5))
    size = min(HEAD * edge / across * 72 / theme.BASE_DPI, LARGEST)
    patches = round(kept.shape[1] ** 0.5)
    for expert, own in enumerate(kept):
        if own.any():
            rows, columns = np.divmod(np.flatnonzero(own), patches)
            x = patch * (columns + (expert % across + 0.5) / across)
            y = patch * (rows + (expert // across + 0.5) / across)
            head(ax, expert, x, y, size, edge=1, label=f"expert {expert + 1}")


@lru_cache(maxsize=64)
def _painted(shades: bytes, lit: bytes, wide: int, high: int, scale: float) -> NDArray[np.uint8]:
    """Paints an image, ink dark on paper, with covered patches pale and a hairline between patches."""
    side, patches = (round(len(some) ** 0.5) for some in (shades, lit))
    ink = np.frombuffer(shades, dtype=np.uint8).reshape(side, side) / (GREYS - 1)
    clear = np.frombuffer(lit, dtype=np.bool_).reshape(patches, patches)
    ink = ink * np.where(clear, 1.0, 1 - COVERED).repeat(side // patches, 0).repeat(side // patches, 1)
    rows, columns = np.arange(high) * side // high, np.arange(wide) * side // wide
    shown = ink[rows][:, columns, None]
    painted = inked(shown)
    hairline, rule = max(round(scale), 1), theme.rgba(theme.RULE)
    for place in range(patches + 1):
        down, along = (min(place * size // patches, size - hairline) for size in (high, wide))
        painted[down : down + hairline] = rule
        painted[:, along : along + hairline] = rule
    return painted


DRAWN: Mapping[type[Mark], Callable[[Any, Axes], None]] = {ImageAxes: furnish, PatchedImage: draw}
"""What draws each kind of mark."""
