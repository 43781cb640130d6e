"""The third panel of the balance Lab's picture: accuracy through training, and all ways to balance in numbers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.collections import LineCollection

from moe_lab import theme
from moe_lab_widgets.balance.record import Frame
from moe_lab_widgets.balance.settings import NAMES, NONE
from moe_lab_widgets.drawing.lines import inside, put
from moe_lab_widgets.drawing.picture import Name
from moe_lab_widgets.drawing.pins import Pin, PinnedPanel
from moe_lab_widgets.drawing.scene import Scene
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.drawing.tables import Table
from moe_lab_widgets.drawing.trials import HALF, MOST_LINES, SPREAD, Trials
from moe_lab_widgets.drawing.words import median, middle, percent

NONE_LINE, BESIDE_LINE = "none", "beside"
LINES: dict[str, tuple[theme.Style, float, Any]] = {
    NONE_LINE: (theme.OTHER, 2.0, (3, 1.5)),
    BESIDE_LINE: (theme.MODEL, 2.6, (None, None)),
}
COLUMNS = ("accuracy", "experts' worth", "own cluster")
LOWEST = 0.5


class Outcome(PinnedPanel):
    """Above, the accuracy of the two mixtures on show; below, the medians of all five.

    "Experts' worth" is the exponential of the load's entropy: how many equally loaded experts have the same.
    """

    LEFT, TOP, WIDTH, HEIGHT = 760, 86, 214, 138
    BOX = (LEFT, TOP, WIDTH, HEIGHT)
    HIGH = 1.02
    TABLE = (806, 280, 26, 96)
    """Left and top of the table, and height and width of a cell."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (706, 1100))
        theme.header(scene.figure, 712, 3, "What comes out")
        self.axes = axes = theme.axes(scene.figure, *self.BOX, xlim=(0, 1), ylim=(LOWEST, self.HIGH))
        axes.set_yticks([0.5, 0.75, 1], ["50 %", "75 %", "100 %"])
        axes.set_xticks([0, 1], ["", ""])
        self.trials, self.thick = {}, {}
        for name, (style, wide, dashes) in LINES.items():
            thin = LineCollection([], colors=style.colour, linestyles=style.line, linewidths=0.7, alpha=0.5, zorder=2)
            self.trials[name] = Trials(scene, axes, thin, style.colour)
            (line,) = axes.plot([], [], color=style.colour, linewidth=wide, dashes=dashes, zorder=3)
            self.thick[name] = scene.live(line)
            scene.name(thin, partial(self._named, name, "a trial"))
            scene.name(self.trials[name].bands, partial(self._named, name, HALF))
            scene.name(self.trials[name].spread, partial(self._named, name, SPREAD))
            scene.name(line, partial(self._named, name, "median"))
        self.ends, self.cells = scene.live(Sheet()), scene.live(Sheet())
        left, top, high, wide = self.TABLE
        self._table = Table(left, top, len(NAMES), len(COLUMNS), high, wide)
        scene.name(self.cells, {"parts": self._table.names(list(NAMES.values()), COLUMNS)})
        self._total, self._experts, self._beside = 1, 1, str(NONE)

    def _named(self, line: str, which: str) -> Name:
        along, words = self.scene.along, NAMES[NONE if line == NONE_LINE else self._beside]
        x, y = along("step", self.axes, "x", (0, self._total)), along("accuracy", self.axes, "y", percent=True)
        return {"name": f"{words}, {which}", "x": x, "y": y}

    def set(self, experts: int, trials: int, total: int, beside: str) -> None:
        """Writes what lines and numbers are."""
        if not self.renew(experts, trials, total, beside):
            return
        self._total, self._experts, self._beside = total, experts, beside
        many = trials > MOST_LINES
        several = f"bands: half, 90 % of {trials:,}" if many else f"thin: each of {trials} trials"
        self.write(724, 48, "test accuracy; " + (f"{several}, thick: median" if trials > 1 else "the one trial"))
        bottom = self.TOP + self.HEIGHT + 12
        self.write(self.LEFT, bottom, "0", ha="center")
        self.write(self.LEFT + self.WIDTH, bottom, str(total), ha="center")
        left, top, high, wide = self.TABLE
        for column, words in enumerate((COLUMNS[0], f"worth (of {experts})", COLUMNS[2])):
            self.write(left + (column + 0.5) * wide, top - 10, words, ha="center")
        for row, name in enumerate(NAMES):
            firm = name in (NONE, beside)
            style = {"weight": "bold", "color": theme.INK} if firm else {}
            self.write(left - 7, top + (row + 0.5) * high, NAMES[name], ha="right", **style)
        foot = "worth: equally loaded experts of the same entropy"
        self.write(724, 422, foot)
        self.write(724, 437, "own cluster: of the expert's most frequent one")
        self.show_pins()

    def update(self, record: Frame, beside: str) -> None:
        heights = []
        for line, name in ((NONE_LINE, NONE), (BESIDE_LINE, beside)):
            steps, values = record.measured(name, "test_accuracy")
            here = steps / self._total
            self.trials[line].show(here, values)
            middles = median(values)
            put(self.thick[line], here, middles)
            heights.append(float(middles[-1]) if len(middles) else np.nan)
        known = [height if np.isfinite(height) else LOWEST for height in heights]
        parts = [(height - LOWEST) / (self.HIGH - LOWEST) for height in known]
        places = theme.spread(parts, 0.3, 0.1, 0.95)
        with self.ends.anew() as ends:
            for (style, _, _), name, height, place in zip(LINES.values(), (NONE, beside), heights, places, strict=True):
                ends.lines(*inside(self.BOX, 1.04, place), NAMES[name], percent(height, 1), colour=style.colour)
        with self.cells.anew() as cells:
            numbers = np.array([self._numbers(record, name) for name in NAMES])
            scale = np.array([1, self._experts, 1])
            words = [_word(number, column) for row in numbers for column, number in enumerate(row)]
            self._table.fill(cells, words, np.nan_to_num(numbers / scale), size=theme.TEXT_SIZE)

    @staticmethod
    def _numbers(record: Frame, name: str) -> list[float]:
        """Returns the medians of accuracy, experts' worth and agreement."""
        values = record.latest(name, "test_accuracy"), record.worth(name), record.latest(name, "agreement")
        return [middle(each) for each in values]

    def keep(self, record: Frame, beside: str) -> None:
        """Pins the medians of the accuracy up to a record."""
        kept = []
        for line, name in ((NONE_LINE, NONE), (BESIDE_LINE, beside)):
            steps, values = record.measured(name, "test_accuracy")
            kept.append(Pin(line, steps, median(values)))
        self.pin(kept)

    def draw_pin(self, pin: Pin) -> list[Artist]:
        return [self.pin_line(self.axes, pin.steps / self._total, pin.values, color=LINES[pin.name][0].colour)]

    def note_place(self) -> tuple[float, float]:
        return 980, 76


def _word(number: float, column: int) -> str:
    """Returns a median in words."""
    if not np.isfinite(number):
        return "–"
    return f"{number:.1f}" if column == 1 else percent(number, 1)
