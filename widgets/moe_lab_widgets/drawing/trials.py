"""Curves of many trials: a thin line for each of a few, bands that hold half and nine tenths of more."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from numpy.typing import NDArray

from moe_lab_widgets.drawing.lines import put_segments
from moe_lab_widgets.drawing.scene import Scene

MOST_LINES = 12
"""Trials from which on bands are drawn, so that a frame does not grow with the trials."""
BANDS = ((0.05, 0.95), (0.25, 0.75))
SHADES = (0.13, 0.22)
"""Opacity of each band; the inner one lies on the outer one."""
HALF = "edge of half or of 90 % of the trials"
"""What a pointer finds at a band, in words."""


class Trials:
    """The trials behind the median of one model.

    Args:
      thin: the lines of few trials, with their style; added to the axes.
      colour: of the bands.

    Attributes:
      thin, bands: live artists.
    """

    def __init__(self, scene: Scene, axes: Axes, thin: LineCollection, colour: Any) -> None:
        faces = [(colour, shade) for shade in SHADES]
        self.bands = PolyCollection([], facecolors=faces, linewidths=0, zorder=thin.get_zorder() - 0.3)
        self.thin = thin
        for collection in (self.bands, thin):
            axes.add_collection(collection, autolim=False)
            scene.live(collection)

    def show(self, x: NDArray[Any], values: NDArray[np.float64], firm: int | None = None) -> None:
        """Draws values (m, trial) at places x (m,); the line of one trial is its median, and is not drawn.

        Args:
          firm: the number of a trial whose line is drawn beside the bands.
        """
        trials = values.shape[1]
        many = trials > MOST_LINES
        one_by_one = ([] if firm is None else [firm]) if many else range(trials if trials > 1 else 0)
        lines = [np.stack((x, values[:, trial]), axis=1) for trial in one_by_one]
        put_segments(self.thin, [line[np.isfinite(line).all(1)] for line in lines])
        self._put_bands(bands(x, values) if many else [])

    def _put_bands(self, shapes: list[NDArray[np.float64]]) -> None:
        before = [np.asarray(path.vertices)[:-1] for path in self.bands.get_paths()]  # the last one closes the path
        if [shape.tobytes() for shape in shapes] != [shape.tobytes() for shape in before]:
            self.bands.set_verts(shapes)


def bands(x: NDArray[Any], values: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Returns the outlines (2 m, 2) of the bands of values (m, trial), over the trials that have not diverged."""
    some = np.isfinite(values).any(1)
    if some.sum() < 2:
        return []
    x, values = np.asarray(x, dtype=float)[some], values[some]
    shares = [share for band in BANDS for share in band]
    quantile = np.quantile if np.isfinite(values).all() else np.nanquantile
    edges = quantile(values, shares, axis=1).reshape(len(BANDS), 2, -1)
    return [np.stack((np.r_[x, x[::-1]], np.r_[low, high[::-1]]), axis=1) for low, high in edges]


def few(values: NDArray[np.float64], most: int = MOST_LINES) -> NDArray[np.int64]:
    """Returns the trials that stand for all: every one of a few, else as many at even ranks of their values (trial,).

    A mark for each is then a quantile dot plot (Kay et al. 2016): it stands for as many trials as the next one.
    """
    count = len(values)
    if count <= most:
        return np.arange(count)
    ranks = ((np.arange(most) + 0.5) / most * count).astype(np.int64)
    return np.asarray(np.argsort(values, kind="stable")[ranks])
