"""A picture in three layers: a stage that never changes, a set that changes with a slider, and the live artists.

A moved slider then draws the few parts of the set (10 ms), not the whole figure with its axes and headers (80 ms).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D
from numpy.typing import NDArray

from moe_lab import look
from moe_lab_widgets.picture import Picture


class Scene(Picture):
    """See the module's text. Artists made with `prop`, `write` and `head_at` belong to the set; `strike` clears it."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(scale=scale)
        self.scale = scale
        self._stage: Any = None
        self._set: list[Artist] = []
        self._actors: list[Artist] = []

    def spot(self, x: float, y: float) -> tuple[float, float]:
        """Pixels from the top left as figure fractions."""
        return look.spot(self.figure, x, y)

    def prop(self, artist: Artist) -> None:
        """Takes an artist into the set."""
        artist.set_animated(True)
        self._set.append(artist)
        self.invalidate()

    def actor(self, artist: Artist) -> None:
        """A live artist that goes when the set is cleared."""
        self._actors.append(self.live(artist))

    def drop(self, artist: Artist) -> None:
        """Removes one artist of the set."""
        self._set.remove(artist)
        artist.remove()
        self.invalidate()

    def strike(self) -> None:
        """Clears the set."""
        for artist in self._set:
            artist.remove()
        for artist in self._actors:
            self.still(artist)
        self._set, self._actors = [], []
        self.invalidate()

    def write(self, x: float, y: float, words: str, **style: Any) -> Text:
        """Small words at pixels from the top left."""
        given = {"size": look.SMALL_SIZE, "color": look.MUTED, "va": "center", **style}
        text = self.figure.text(*self.spot(x, y), words, **given)
        self.prop(text)
        return text

    def head_at(self, x: float, y: float, number: int, size: float) -> None:
        """An expert's mark and number at pixels from the top left."""
        style, place = look.expert(number), self.spot(x, y)
        common: dict[str, Any] = {"linestyle": "none", "transform": self.figure.transFigure}
        shape = {"marker": style.marker, "markersize": size, "color": style.colour, "markeredgewidth": 0}
        digit = {"marker": f"${number + 1}$", "markersize": 0.5 * size, "color": style.on, "markeredgewidth": 0.3}
        for look_of in (shape, digit):
            line = Line2D([place[0]], [place[1]], **{**look_of, **common})
            self.figure.add_artist(line)
            self.prop(line)

    def live_text(self, axes: Axes, colour: str, size: float = look.TEXT_SIZE) -> Text:
        """Words at the right end of axes that change from frame to frame."""
        style: dict[str, Any] = {"color": colour, "size": size, "weight": "bold", "va": "center", "linespacing": 1.1}
        return self.live(axes.text(1.04, 0, "", clip_on=False, **style))

    def live_marks(self, words: str, size: float, colour: str, **style: Any) -> Line2D:
        """The same words or sign at many places of the figure."""
        common: dict[str, Any] = {"linestyle": "none", "transform": self.figure.transFigure, "markeredgewidth": 0}
        return self.live(
            Line2D([], [], marker=glyph(words), markersize=size, color=colour, zorder=4, **common, **style)
        )

    def _pixels(self) -> NDArray[np.uint8]:
        if self._stage is None:
            self.canvas.draw()
            self._stage = self.canvas.copy_from_bbox(self.figure.bbox)
        renderer = self.canvas.get_renderer()
        if self._background is None:
            self.canvas.restore_region(self._stage)
            for artist in sorted(self._set, key=lambda one: one.get_zorder()):
                artist.draw(renderer)
            self._background = self.canvas.copy_from_bbox(self.figure.bbox)
        else:
            self.canvas.restore_region(self._background)
        for artist in self._live:
            artist.draw(renderer)
        return np.asarray(self.canvas.buffer_rgba())

    def close(self) -> None:
        super().close()
        self._stage, self._set, self._actors = None, [], []


@lru_cache(maxsize=16)
def glyph(words: str) -> Path:
    """Words as a marker, centred: it costs a tenth of a Text."""
    path = TextPath((0, 0), words, size=1, prop=FontProperties(family="DejaVu Sans", weight="bold"))
    box = path.get_extents()
    scale = Affine2D().translate(-(box.x0 + box.x1) / 2, -(box.y0 + box.y1) / 2).scale(1 / max(box.width, box.height))
    return scale.transform_path(path)
