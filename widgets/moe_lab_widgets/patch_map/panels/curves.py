"""Lines over the steps, for the second and third panel of the patch-map Lab's picture: thin trials, thick medians."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.collections import LineCollection

from moe_lab import theme
from moe_lab_widgets.drawing.lines import put
from moe_lab_widgets.drawing.picture import Name
from moe_lab_widgets.drawing.pins import Pin, PinnedPanel
from moe_lab_widgets.drawing.scene import Scene
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.drawing.trials import HALF, SPREAD, Trials
from moe_lab_widgets.drawing.words import median
from moe_lab_widgets.patch_map.record import Frame
from moe_lab_widgets.patch_map.settings import CONV, NO_GATE, STUDY

LINES: dict[str, tuple[theme.Style, float, Any]] = {
    CONV: (theme.Style(theme.REFERENCE, "^", ":"), 2.2, (1, 1.2)),
    NO_GATE: (theme.OTHER, 2.0, (3, 1.5)),
    STUDY: (theme.MODEL, 2.6, (None, None)),
}
"""Of every model, from back to front: its style, and the width and the dashes of its median."""


class Curves(PinnedPanel):
    """Shares from 0 to 1 of several models over the steps.

    Args:
      span: see `Panel`.
      box: left, top, width and height of the axes.
      models: whose curves are shown.
      words: what is measured.
    """

    def __init__(
        self, scene: Scene, span: tuple[int, int], box: tuple[int, int, int, int], models: Sequence[str], words: str
    ) -> None:
        super().__init__(scene, span)
        self.box, self.models, self.measured = box, models, words
        self.axes = axes = theme.axes(scene.figure, *box, xlim=(0, 1), ylim=(0, 1.02))
        axes.set_yticks(np.linspace(0, 1, 5), ["0", "25 %", "50 %", "75 %", "100 %"])
        axes.set_xticks([0, 1], ["", ""])
        axes.axhline(0.25, color=theme.MUTED, linewidth=1, linestyle=(0, (6, 3)), zorder=1)
        self.trials, self.thick = {}, {}
        for model in (model for model in LINES if model in models):
            style, wide, dashes = LINES[model]
            thin = LineCollection([], colors=style.colour, linestyles=style.line, linewidths=0.7, alpha=0.5, zorder=2)
            self.trials[model] = trials = Trials(scene, axes, thin, style.colour)
            (line,) = axes.plot([], [], color=style.colour, linewidth=wide, dashes=dashes, zorder=3)
            self.thick[model] = scene.live(line)
            scene.name(thin, partial(self._named, f"{model}, a trial"))
            scene.name(trials.bands, partial(self._named, f"{model}, {HALF}"))
            scene.name(trials.spread, partial(self._named, f"{model}, {SPREAD}"))
            scene.name(line, partial(self._named, f"{model}, median"))
        self.names = scene.live(Sheet())
        self._total = 1

    def _named(self, words: str) -> Name:
        along = self.scene.along
        x = along("step", self.axes, "x", (0, self._total))
        return {"name": words, "x": x, "y": along(self.measured, self.axes, "y", percent=True)}

    def number_steps(self, total: int) -> None:
        """Writes the numbers below the axes."""
        left, top, width, height = self.box
        self._total = total
        for at, words in ((left, "0"), (left + width, str(total))):
            self.write(at, top + height + 13, words, ha="center")
        middle: dict[str, Any] = {"ha": "center", "size": theme.TEXT_SIZE, "color": theme.INK}
        self.write(left + width / 2, top + height + 31, "SGD step", **middle)

    def draw(self, record: Frame, model: str, measure: str) -> float:
        """Draws a model's trials and their median, and returns where the median ends."""
        steps, values = record.measured(model, measure)
        where = steps / self._total
        self.trials[model].show(where, values)
        middle = median(values)
        put(self.thick[model], where, middle)
        return float(middle[-1]) if len(middle) else np.nan

    def keep_median(self, record: Frame, measure: str) -> None:
        """Pins the medians up to a record."""
        runs = {model: record.measured(model, measure) for model in self.models}
        self.pin(Pin(model, steps, median(values)) for model, (steps, values) in runs.items())

    def draw_pin(self, pin: Pin) -> list[Artist]:
        style = {"color": LINES[pin.name][0].colour, "linewidth": 1.3}
        return [self.pin_line(self.axes, pin.steps / self._total, pin.values, **style)]
