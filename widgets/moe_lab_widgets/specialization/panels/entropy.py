"""The second panel of the specialisation Lab's picture: the dispatch entropy over the steps."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.collections import LineCollection

from moe_lab import theme
from moe_lab_widgets.drawing.lines import inside, put
from moe_lab_widgets.drawing.picture import Name
from moe_lab_widgets.drawing.pins import Pin, PinnedPanel
from moe_lab_widgets.drawing.scene import Scene
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.drawing.trials import HALF, MOST_LINES, SPREAD, Trials
from moe_lab_widgets.drawing.words import median
from moe_lab_widgets.specialization.record import Frame

STYLES = {"study": theme.MODEL, "reference": theme.OTHER}
DASHES = {"study": (None, None), "reference": (3, 1.5)}
WIDTHS = {"study": 2.6, "reference": 2.0}


def number(value: float) -> str:
    """Returns an entropy in words, without a minus before a rounded zero."""
    return f"{abs(value) if abs(value) < 0.005 else value:.2f}" if np.isfinite(value) else "–"


class Entropy(PinnedPanel):
    """How mixed the clusters of an expert are, from 0 to log K: a thin line for each trial, a thick one for all."""

    LEFT, TOP, WIDTH, HEIGHT = 594, 84, 192, 304
    BOX = (LEFT, TOP, WIDTH, HEIGHT)
    LOW, HIGH = -0.09, 1.06

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (545, 880))
        theme.header(scene.figure, 550, 2, "Dispatch entropy")
        self.axes = axes = theme.axes(scene.figure, *self.BOX, xlim=(0, 1))
        axes.set_ylim(self.LOW, self.HIGH)  # in parts of log K, so that moving K moves no axis
        axes.set_yticks([])
        axes.set_xticks([0, 0.5, 1], ["", "", ""])
        edge: dict[str, Any] = {"linewidth": 1.2, "zorder": 1}
        axes.axhline(1, color=theme.FAILURE, **edge)
        axes.axhline(0, color=theme.MUTED, **edge)
        self.trials, self.thick = {}, {}
        for model, style in reversed(STYLES.items()):
            self.trials[model] = Trials(scene, axes, LineCollection([], linestyles=style.line, zorder=2), style.colour)
            thick = axes.plot([], [], color=style.colour, linewidth=WIDTHS[model], dashes=DASHES[model], zorder=3)[0]
            self.thick[model] = scene.live(thick)
        self.names = scene.live(Sheet())
        self.activations = ("", "")
        self._most, self._total, self._shown = 1.0, 1, 0
        for model in STYLES:
            scene.name(self.trials[model].thin, partial(self._named, model, "a trial"))
            scene.name(self.trials[model].bands, partial(self._named, model, HALF))
            scene.name(self.trials[model].spread, partial(self._named, model, SPREAD))
            scene.name(self.thick[model], partial(self._named, model, "median"))

    def set(self, activations: tuple[str, str], clusters: int, trials: int, shown: int, total: int) -> None:
        """Writes the numbers at the axes; `activations` are those of the two models."""
        self.activations = activations
        if not self.renew(clusters, trials, shown, total):
            return
        self._most, self._total, self._shown = float(np.log(clusters)), total, shown
        for model, style in STYLES.items():
            drawn = range(trials) if trials <= MOST_LINES else [shown]
            self.trials[model].thin.set_linewidth([1.3 if trial == shown else 0.7 for trial in drawn])
            self.trials[model].thin.set_colors([(style.colour, 0.95 if trial == shown else 0.45) for trial in drawn])
        firm = f"thick: median of {trials} trials; firm thin line: trial {shown + 1}"
        bands = f"median, half, 90 % of {trials:,} trials; thin: trial {shown + 1}"
        self.write(562, 50, bands if trials > MOST_LINES else firm if trials > 1 else "the one trial")
        bottom, height = self.TOP + self.HEIGHT, self.HEIGHT / (self.HIGH - self.LOW)
        zero = bottom + self.LOW * height
        words = f"log {clusters} = {self._most:.2f}: nobody specialises"
        self.write(self.LEFT + 5, zero - height - 9, words, color=theme.FAILURE)
        self.write(self.LEFT + 5, zero + 11, "0: each has one cluster")
        for value in np.arange(0, self._most - 0.1, 0.5):
            self.write(self.LEFT - 7, zero - height * value / self._most, f"{value:g}", ha="right")
        self.write(self.LEFT - 7, zero - height, "log K", ha="right")
        for at, step in ((0, 0), (0.5, total / 2), (1, total)):
            self.write(self.LEFT + at * self.WIDTH, bottom + 14, f"{step:g}", ha="center")
        name: dict[str, Any] = {"ha": "center", "size": theme.TEXT_SIZE, "color": theme.INK}
        self.write(self.LEFT + self.WIDTH / 2, bottom + 32, "training step", **name)
        self.show_pins()

    def _named(self, model: str, which: str) -> Name:
        limits = self.LOW * self._most, self.HIGH * self._most
        return {
            "name": f"{self.activations[list(STYLES).index(model)]} experts, {which}",
            "x": self.scene.along("step", self.axes, "x", (0, self._total)),
            "y": self.scene.along("entropy", self.axes, "y", limits),
        }

    def update(self, record: Frame) -> None:
        steps, ends = record.steps / self._total, []
        for model in STYLES:
            values = record.measured(model, "dispatch_entropy") / self._most
            here = steps[: len(values)]
            self.trials[model].show(here, values, self._shown)
            middle = median(values)
            put(self.thick[model], here, middle)
            ends.append(float(middle[-1]) if len(middle) else np.nan)
        at = ends[0] if np.isfinite(ends[0]) else 0.5  # of one that has not begun, or diverged
        places = theme.spread([end if np.isfinite(end) else at for end in ends], 0.14, 0.03, 0.95)
        with self.names.anew() as names:
            for style, activation, place, end in zip(STYLES.values(), self.activations, places, ends, strict=True):
                high = (place - self.LOW) / (self.HIGH - self.LOW)
                words = activation, number(end * self._most)
                names.lines(*inside(self.BOX, 1.04, high), *words, colour=style.colour)

    def keep(self, record: Frame) -> None:
        """Pins the medians up to a record."""
        self.pin(Pin(model, record.steps, median(record.measured(model, "dispatch_entropy"))) for model in STYLES)

    def draw_pin(self, pin: Pin) -> list[Artist]:
        steps = pin.steps[: len(pin.values)] / self._total
        return [self.pin_line(self.axes, steps, pin.values / self._most, color=STYLES[pin.name].colour)]

    def note_place(self) -> tuple[float, float]:
        return 562, 66
