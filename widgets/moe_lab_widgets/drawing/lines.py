"""Changing artists only where they change: what stays as it was is neither drawn nor sent again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D


def put(line: Line2D, x: Any, y: Any) -> None:
    """Moves the points of a line."""
    now = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    before = line.get_data(orig=True)
    if any(np.asarray(old, dtype=float).tobytes() != new.tobytes() for old, new in zip(before, now, strict=True)):
        line.set_data(*now)


def put_segments(collection: LineCollection, segments: Sequence[Any]) -> bool:
    """Sets the lines of a collection, each (n, 2); returns whether they have changed."""
    now = [np.asarray(segment, dtype=float).reshape(-1, 2) for segment in segments]
    before = [path.vertices for path in collection.get_paths()]
    if [line.tobytes() for line in now] == [np.asarray(line).tobytes() for line in before]:
        return False
    collection.set_segments(now)
    return True


def inside(box: tuple[float, float, float, float], x: float, y: float) -> tuple[float, float]:
    """Returns a place in a box (left, top, width, height), given in parts of it from the lower left."""
    left, top, width, height = box
    return left + x * width, top + (1 - y) * height
