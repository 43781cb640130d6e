"""Draws planes of parameters (`moe_lab.drawing.plane_marks`) on Axes."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from moe_lab.drawing import theme
from moe_lab_widgets.drawing.on_axes import box_of, line, name_cells, paint

LEVELS, DARKEST = 16, 0.62
"""Shades of a map; the darkest one, as a part of the ramp, so that a path in ink can be seen everywhere."""


def furnish(ax: Axes, x_name: str, y_name: str, name: str) -> None:
    """Furnishes the Axes of a plane."""
    name_cells(ax, [name])
    ax.set(xlim=(-1, 1), ylim=(-1, 1), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    ax.set_xlabel(x_name, color=theme.MUTED, size=theme.SMALL_SIZE)
    ax.set_ylabel(y_name, color=theme.MUTED, size=theme.SMALL_SIZE)


def relief(ax: Axes, values: NDArray[np.float64]) -> None:
    """Draws a function on a plane; nothing where it is NaN."""
    if np.isfinite(values).all():
        paint(ax, 0, 1, box_of(ax)[2:], _painted, [values.tobytes()])


def trail(ax: Axes, x: NDArray[np.float64], y: NDArray[np.float64], name: str) -> None:
    """Draws a line through places, which paper surrounds."""
    known = np.isfinite(x) & np.isfinite(y)
    line(ax, x[known], y[known], color=theme.PAPER, linewidth=4.6, zorder=3, solid_capstyle="round")
    line(ax, x[known], y[known], color=theme.INK, linewidth=2.2, zorder=4, solid_capstyle="round", label=name)


@lru_cache(maxsize=8)
def _painted(values: bytes, wide: int, high: int, scale: float) -> NDArray[np.uint8]:
    numbers = np.frombuffer(values)
    return shades(numbers.reshape([round(len(numbers) ** 0.5)] * 2), wide)


def shades(values: NDArray[np.float64], pixels: int) -> NDArray[np.uint8]:
    """Returns a loss as (pixels, pixels, 4) bands of the ramp, darker where it is larger, the second direction upwards.

    Levels are even in the root of what the loss has beyond its least value, so that flat valleys show.
    """
    root = np.sqrt(np.clip(values - values.min(), 0, None))
    root = root / (root.max() or 1.0)
    at = np.linspace(0, len(root) - 1, pixels)
    low = np.minimum(at.astype(int), len(root) - 2)
    part = (at - low)[:, None]
    tall = root[low] * (1 - part) + root[low + 1] * part
    fine = (tall[:, low].T * (1 - part) + tall[:, low + 1].T * part).T
    band = np.minimum((fine * LEVELS).astype(int), LEVELS - 1)
    image = theme.ramp(np.linspace(0, DARKEST, LEVELS))[band]
    edges = np.zeros(band.shape, dtype=bool)
    edges[1:] |= band[1:] != band[:-1]
    edges[:, 1:] |= band[:, 1:] != band[:, :-1]
    image[edges, :3] = (0.75 * image[edges, :3].astype(float) + 0.25 * theme.rgba(theme.MUTED)[:3]).astype(np.uint8)
    return np.ascontiguousarray(image[::-1])
