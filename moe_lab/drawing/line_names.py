"""Names of lines, in place of a legend: at the end of a line that stays, along a line that falls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Text
from matplotlib.transforms import BboxBase
from numpy.typing import NDArray

from moe_lab.drawing import theme

FALLS = 0.25
"""The part of the vertical axis from which a line falls. Lines that all end low cannot be told apart at their ends."""
ALONG = (0.5, 0.75, 0.25, 0.62, 0.38, 0.87)
"""Where on its fall a line is named, as parts of its height: the first where no other name is. Else it is named at its
end."""
APART = 16.0
"""The least distance between the names at two lines' ends, in pixels at 100 dpi."""
BESIDE = 4.0
"""How far from its line a name stands, clear of the line's marks."""


@dataclass(frozen=True)
class Line:
    """A line with its name.

    Attributes:
      x, y: (points,) in data units, x rising.
      name: what it is called.
      colour: of the name.
    """

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    name: str
    colour: str


def name_lines(axes: Axes, lines: Sequence[Line]) -> list[Text]:
    """Names each line once: along its fall where it falls, else at its end. The limits of the Axes must be set.

    Lines without a finite value get no name.
    """
    low, high = axes.get_ylim()
    texts: list[Text] = []
    at_end = []
    for line in lines:
        falls = np.ptp(_finite(line)[1]) > FALLS * (high - low)
        text = _along(axes, line, [other.get_window_extent() for other in texts]) if falls else None
        if text is None:
            at_end.append((float(line.y[-1]), line.name, line.colour))
        else:
            texts.append(text)
    right = max((float(line.x[-1]) for line in lines), default=1.0)
    return [*tied_names(axes, right, at_end), *texts]


def tied_names(axes: Axes, x: float, ends: Sequence[tuple[float, str, str]], pixels: float = APART) -> list[Text]:
    """Names to the right of the axes, pushed apart, each tied to the end of its line by a thin one; grey is not bold.

    Args:
      x: where the lines end, in data units.
      ends: (y of the line's end, name, colour) each; those that have no end get no name.
      pixels: the least distance between two names at 100 dpi.
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
    return texts


def _along(axes: Axes, line: Line, taken: Sequence[BboxBase]) -> Text | None:
    """Names a falling line to its right and parallel to it, where no other name is; None where there is no room."""
    x, y = _finite(line)
    points = axes.transData.transform(np.column_stack((x, y))) * theme.BASE_DPI / axes.figure.dpi
    for part in ALONG:
        place, way = _crossing(points, part)
        beside = place + BESIDE * np.array([-way[1], way[0]]) / np.hypot(*way)
        left, low = axes.transData.inverted().transform(beside * axes.figure.dpi / theme.BASE_DPI)
        angle = float(np.degrees(np.arctan2(way[1], way[0])))
        style: dict[str, Any] = {"rotation_mode": "anchor", "ha": "center", "va": "bottom", "size": theme.SMALL_SIZE}
        text = axes.text(left, low, line.name, rotation=angle, color=line.colour, **style, zorder=5)
        if not text.get_window_extent().count_overlaps(taken):
            return text
        text.remove()
    return None


def _crossing(points: NDArray[np.float64], part: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns where a line first crosses a part of its height, and its direction there, in pixels."""
    heights = points[:, 1]
    level = heights.min() + part * np.ptp(heights)
    first = int(np.flatnonzero((heights[:-1] - level) * (heights[1:] - level) <= 0)[0])
    way = points[first + 1] - points[first]
    share = (level - heights[first]) / way[1] if way[1] else 0.5
    return points[first] + share * way, way


def _finite(line: Line) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    known = np.isfinite(line.y)
    return (line.x[known], line.y[known]) if known.any() else (line.x[:1], np.zeros(1))
