"""Panels that keep curves of an earlier run, to compare with the present one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from numpy.typing import NDArray

from moe_lab_widgets.drawing.scene import Panel, Scene


class Pin(NamedTuple):
    """A kept curve: the name of its model, its steps (m,) and its values (m,)."""

    name: str
    steps: NDArray[Any]
    values: NDArray[np.float64]


class PinnedPanel(Panel):
    """A panel with pins: curves that stay, dotted, until they are removed.

    Attributes:
      pins: the kept curves.
      shown_pins: their artists.
    """

    def __init__(self, scene: Scene, span: tuple[int, int]) -> None:
        super().__init__(scene, span)
        self.pins: list[Pin] = []
        self.shown_pins: list[Artist] = []

    def pin(self, pins: Iterable[Pin]) -> None:
        """Keeps curves in place of the earlier ones."""
        self.unpin()
        self.pins = list(pins)
        self.show_pins()

    def unpin(self) -> None:
        """Removes the kept curves."""
        for artist in self.shown_pins:
            self.drop(artist)
        self.pins, self.shown_pins = [], []

    def show_pins(self) -> None:
        """Draws the kept curves, when they are new and whenever the fixed artists of the panel are made again."""
        self.shown_pins = [artist for pin in self.pins if len(pin.values) for artist in self.draw_pin(pin)]
        if self.pins and (place := self.note_place()) is not None:
            self.shown_pins.append(self.write(*place, "dotted: pinned"))

    def draw_pin(self, pin: Pin) -> list[Artist]:
        """Draws one kept curve and returns its artists."""
        raise NotImplementedError(f"{type(self).__name__} must write draw_pin(pin)")

    def note_place(self) -> tuple[float, float] | None:
        """Returns where the note "dotted: pinned" stands; None for no note."""
        return None

    def pin_line(self, axes: Axes, x: Any, y: Any, **style: Any) -> Artist:
        """Draws a dotted line as a fixed artist."""
        (line,) = axes.plot(x, y, **{"linewidth": 1.6, "linestyle": ":", "zorder": 2.5, **style})
        self.fix(line)
        return line
