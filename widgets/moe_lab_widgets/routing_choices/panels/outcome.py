"""The third panel of the routing-choices Lab's picture: accuracy of all routings, and what each of them keeps."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib.artist import Artist

from moe_lab import theme
from moe_lab_widgets.drawing.lines import inside, put
from moe_lab_widgets.drawing.picture import Name
from moe_lab_widgets.drawing.pins import Pin, PinnedPanel
from moe_lab_widgets.drawing.scene import Scene
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.drawing.tables import Table
from moe_lab_widgets.drawing.words import median, middle, percent
from moe_lab_widgets.routing_choices.record import Frame
from moe_lab_widgets.routing_choices.settings import BESIDE, MODELS, STUDY

DASHES: dict[str, Any] = {
    "expert choice": (4, 1.5),
    "token choice": (1, 1.2),
    "soft MoE": (6, 1.5, 1, 1.5),
    "hash": (2.5, 2.5),
    STUDY: (None, None),
}
"""Of every model, from back to front."""
COLUMNS = ("accuracy", "o kept", "lost")
LOWEST = 0.4


class Outcome(PinnedPanel):
    """Medians over the trials: accuracy against the step, and a table of the latest numbers."""

    CURVES, TABLE = (800, 92, 160, 164), (870, 304)
    HIGH, WIDE = 22, 70

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (752, 1100))
        theme.header(scene.figure, 756, 3, "What comes out")
        self.axes = axes = theme.axes(scene.figure, *self.CURVES, xlim=(0, 1), ylim=(LOWEST, 1.01))
        axes.set_yticks([0.5, 0.75, 1], ["50 %", "75 %", "100 %"])
        axes.set_xticks([0, 1], ["", ""])
        axes.axhline(0.5, color=theme.RULE, linewidth=0.8)
        self.lines = {}
        for name, dashes in DASHES.items():
            chosen = name == STUDY
            style: dict[str, Any] = {
                "color": theme.INK if chosen else theme.REFERENCE,
                "linewidth": 2.8 if chosen else 1.8,
                "zorder": 3 if chosen else 2.4,
            }
            (line,) = axes.plot([], [], dashes=dashes, **style)
            self.lines[name] = scene.live(line)
            scene.name(line, partial(self._named, name))
        self.names, self.numbers = scene.live(Sheet()), scene.live(Sheet(zorder=2))
        self.table = Table(*self.TABLE, len(MODELS), len(COLUMNS), self.HIGH, self.WIDE)
        scene.name(self.numbers, {"parts": self.table.names(MODELS, COLUMNS)})
        self._total = 1

    def _named(self, name: str) -> Name:
        x = self.scene.along("step", self.axes, "x", (0, self._total))
        return {"name": f"{name}, median", "x": x, "y": self.scene.along("accuracy", self.axes, "y", percent=True)}

    def set(self, trials: int, total: int) -> None:
        """Writes the last step, and the heads of the table."""
        if not self.renew(trials, total):
            return
        self._total = total
        of = f"median of {trials:,} trials" if trials > 1 else "one trial"
        self.write(768, 50, f"test accuracy, {of};")
        self.write(768, 66, "all of them have as many places")
        left, top, width, height = self.CURVES
        for at, words in ((left, "0"), (left + width, str(total))):
            self.write(at, top + height + 12, words, ha="center")
        self.write(left + width / 2, top + height + 12, "SGD step", ha="center", color=theme.INK)
        x, y = self.TABLE
        for column, words in enumerate(COLUMNS):
            self.write(x + self.WIDE * (column + 0.5), y - 11, words, ha="center")
        for row, name in enumerate(MODELS):
            chosen = {"color": theme.INK, "weight": "bold"} if name == STUDY else {"color": theme.INK}
            self.write(x - 8, y + self.HIGH * (row + 0.5), name, ha="right", **chosen)
        self.show_pins()

    def update(self, record: Frame) -> None:
        ends = []
        for name in MODELS:
            steps, values = record.measured(name, "test_accuracy")
            accuracy = median(values) if len(values) else np.zeros(0)
            if len(values) and steps[-1] < record.step:  # a model that has ended stays where it is
                steps, accuracy = np.append(steps, record.step), np.append(accuracy, accuracy[-1])
            put(self.lines[name], steps / self._total, accuracy)
            ends.append(float(accuracy[-1]) if len(accuracy) else np.nan)
        known = [end if np.isfinite(end) else 0.5 for end in ends]
        places = theme.spread(known, 0.085, LOWEST + 0.02, 0.99)
        with self.names.anew() as names:
            for name, place, end in zip(MODELS, places, ends, strict=True):
                if np.isfinite(end):
                    high = (place - LOWEST) / (1.01 - LOWEST)
                    colour = theme.INK if name == STUDY else theme.REFERENCE
                    names.lines(*inside(self.CURVES, 1.03, high), name, size=theme.SMALL_SIZE, colour=colour)
        measures = ("test_accuracy", "signal_kept", "lost")
        table = np.array([[middle(record.latest(name, measure)) for measure in measures] for name in MODELS])
        with self.numbers.anew() as numbers:
            self.table.fill(numbers, [percent(value) for value in table.ravel()], table)

    def keep(self, record: Frame) -> None:
        """Pins the medians up to a record."""
        runs = {name: record.measured(name, "test_accuracy") for name in (STUDY, *BESIDE)}
        self.pin(Pin(name, steps, median(values)) for name, (steps, values) in runs.items() if len(values))

    def draw_pin(self, pin: Pin) -> list[Artist]:
        style = {"color": theme.INK if pin.name == STUDY else theme.REFERENCE, "linewidth": 1.4}
        return [self.pin_line(self.axes, pin.steps / self._total, pin.values, **style)]

    def note_place(self) -> tuple[float, float]:
        return 866, 244
