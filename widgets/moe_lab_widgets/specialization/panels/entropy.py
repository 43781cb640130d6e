"""The second panel of the specialisation Lab's picture: the dispatch entropy over the steps."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.collections import LineCollection

from moe_lab import theme
from moe_lab_widgets.drawing.lines import inside, put
from moe_lab_widgets.drawing.pins import Pin, PinnedPanel
from moe_lab_widgets.drawing.scene import Scene
from moe_lab_widgets.drawing.sheet import Sheet
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
        self.thin, self.thick = {}, {}
        for model, style in reversed(STYLES.items()):
            trials = LineCollection([], linestyles=style.line, zorder=2)
            axes.add_collection(trials)
            self.thin[model] = scene.live(trials)
            thick = axes.plot([], [], color=style.colour, linewidth=WIDTHS[model], dashes=DASHES[model], zorder=3)[0]
            self.thick[model] = scene.live(thick)
        self.names = scene.live(Sheet())
        self.activations = ("", "")
        self._most, self._total = 1.0, 1

    def set(self, activations: tuple[str, str], clusters: int, trials: int, shown: int, total: int) -> None:
        """Writes the numbers at the axes; `activations` are those of the two models."""
        self.activations = activations
        if not self.renew(clusters, trials, shown, total):
            return
        self._most, self._total = float(np.log(clusters)), total
        for model, style in STYLES.items():
            self.thin[model].set_linewidth([1.3 if trial == shown else 0.7 for trial in range(trials)])
            self.thin[model].set_colors([(style.colour, 0.95 if trial == shown else 0.45) for trial in range(trials)])
        firm = f"thick: median of {trials} trials; firm thin line: trial {shown + 1}"
        self.write(562, 50, firm if trials > 1 else "the one trial")
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

    def update(self, record: Frame) -> None:
        steps, ends = record.steps / self._total, []
        for model in STYLES:
            values = record.measured(model, "dispatch_entropy") / self._most
            here = steps[: len(values)]
            lines = np.stack(np.broadcast_arrays(here[:, None], values), axis=-1).swapaxes(0, 1)
            several = values.shape[1] > 1  # the line of one trial is its median
            self.thin[model].set_segments([line[np.isfinite(line).all(1)] for line in lines] if several else [])
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
