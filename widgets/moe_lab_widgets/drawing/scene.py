"""A picture in three layers: a base that never changes, panels' fixed artists that change with a slider, live artists.

A moved slider then draws the few fixed artists of one panel (10 ms), not the whole figure with its axes (80 ms).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.lines import Line2D
from matplotlib.text import Text
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab_widgets.drawing.ink import glyph
from moe_lab_widgets.drawing.picture import Picture


class Scene(Picture):
    """A figure whose panels stand side by side; see the module's text."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(scale=scale)
        self.panels: list[Panel] = []
        self._base: NDArray[np.uint8] | None = None

    @property
    def spans(self) -> Sequence[tuple[int, int]]:  # type: ignore[override]
        return sorted(panel.span for panel in self.panels)

    def set_scale(self, scale: float) -> None:
        super().set_scale(scale)
        self._base = None

    def background(self) -> NDArray[np.uint8]:
        if self._base is None:
            self.canvas.draw()
            self._base = np.array(self.canvas.buffer_rgba())
            self.invalidate()
        changed = [panel for panel in self.panels if panel.changed or self._background is None]
        if changed or self._background is None:
            pixels, renderer = np.asarray(self.canvas.buffer_rgba()), self.canvas.get_renderer()
            pixels[:] = self._base if self._background is None else self._background
            for panel in changed:
                left, right = (round(edge * self.scale) for edge in panel.span)
                pixels[:, left:right] = self._base[:, left:right]
                for artist in sorted(panel.fixed, key=lambda artist: artist.get_zorder()):
                    artist.draw(renderer)
                panel.changed = False
            self._background = pixels.copy()
        return self._background

    def close(self) -> None:
        super().close()
        self._base = None
        self.panels.clear()


class Panel:
    """One panel of a Scene and its fixed artists, which change only when a slider changes what they show.

    Args:
      scene: the picture.
      span: pixels from the left at which the panel begins and ends; its fixed artists must stay between them.
    """

    def __init__(self, scene: Scene, span: tuple[int, int]) -> None:
        self.scene, self.span = scene, span
        self.fixed: list[Artist] = []
        self.changed = False
        self._key: Any = None
        scene.panels.append(self)

    def renew(self, *key: Any) -> bool:
        """Removes the fixed artists if they were made for another `key`; returns whether they must be made again."""
        if key == self._key:
            return False
        self._key = key
        for artist in self.fixed:
            artist.remove()
        self.fixed, self.changed = [], True
        return True

    def fix(self, artist: Artist) -> None:
        """Adds a fixed artist. One without a figure is added to the picture's."""
        if artist.get_figure() is None:
            self.scene.figure.add_artist(artist)
        artist.set_animated(True)
        self.fixed.append(artist)
        self.changed = True

    def drop(self, artist: Artist) -> None:
        """Removes a fixed artist."""
        self.fixed.remove(artist)
        artist.remove()
        self.changed = True

    def write(self, x: float, y: float, words: str, **style: Any) -> Text:
        """Writes small text at pixels from the top left."""
        given = {"size": theme.SMALL_SIZE, "color": theme.MUTED, "va": "center", **style}
        text = self.scene.figure.text(*theme.spot(self.scene.figure, x, y), words, **given)
        self.fix(text)
        return text

    def head_at(self, x: float, y: float, number: int, size: float) -> None:
        """Draws an expert's mark and number at pixels from the top left."""
        style, place = theme.expert(number), theme.spot(self.scene.figure, x, y)
        common: dict[str, Any] = {"linestyle": "none", "transform": self.scene.figure.transFigure, "markeredgewidth": 0}
        shape = {"marker": style.marker, "markersize": size, "color": style.colour}
        digit = {"marker": glyph(str(number + 1)), "markersize": 0.55 * size, "color": style.on}
        for kind in (shape, digit):
            line = Line2D([place[0]], [place[1]], **{**kind, **common})
            self.fix(line)

    def live_marks(self, words: str, size: float, colour: str, **style: Any) -> Line2D:
        """Returns a live artist for the same words or sign at many places of the figure."""
        common: dict[str, Any] = {"linestyle": "none", "transform": self.scene.figure.transFigure, "markeredgewidth": 0}
        marks = Line2D([], [], marker=glyph(words), markersize=size, color=colour, zorder=4, **common, **style)
        return self.scene.live(marks)
