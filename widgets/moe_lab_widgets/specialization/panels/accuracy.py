"""The third panel of the specialisation Lab's picture: every trial's accuracy."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np
from matplotlib.artist import Artist
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab_widgets.drawing.lines import inside, put
from moe_lab_widgets.drawing.picture import Name
from moe_lab_widgets.drawing.pins import Pin, PinnedPanel
from moe_lab_widgets.drawing.scene import Scene
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.drawing.trials import MOST_LINES, few
from moe_lab_widgets.drawing.words import median, percent
from moe_lab_widgets.drawing.words import middle as middle_of
from moe_lab_widgets.specialization.panels.entropy import STYLES
from moe_lab_widgets.specialization.record import FALL, Frame


class Accuracy(PinnedPanel):
    """Test accuracy: a mark for every trial and a bar at the median, the model under study beside the reference."""

    LEFT, TOP, WIDTH, HEIGHT = 938, 84, 150, 270
    BOX = (LEFT, TOP, WIDTH, HEIGHT)
    PLACES: ClassVar[dict[str, float]] = {"study": 0.25, "reference": 0.75}
    MARK = 8.0
    """Pixels below which two marks overlap."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (880, 1100))
        theme.header(scene.figure, 884, 3, "Test accuracy")
        self.axes = axes = theme.axes(scene.figure, *self.BOX, xlim=(0, 1))
        axes.set_ylim(0, 1.03)  # in parts of the axis, so that a new axis is new words and not a new background
        axes.set_yticks(np.linspace(0, 1, 6), [""] * 6)
        axes.set_xticks([])
        for height in np.linspace(0, 1, 6)[1:]:
            axes.axhline(height, color=theme.RULE, linewidth=0.6, zorder=0.5)
        self.marks, self.bars, self.low, self.crosses = ({} for _ in range(4))
        common: dict[str, Any] = {"linestyle": "none", "clip_on": False}
        edge: dict[str, Any] = {"markeredgecolor": theme.PAPER, "markeredgewidth": 0.7}
        for model, style in STYLES.items():
            (bar,) = axes.plot([], [], color=style.colour, linewidth=3, zorder=2, clip_on=False)
            (mark,) = axes.plot([], [], style.marker, color=style.colour, markersize=7.5, zorder=4, **edge, **common)
            (low,) = axes.plot([], [], "v", color=style.colour, markersize=8, zorder=4, **edge, **common)
            (cross,) = axes.plot([], [], "X", color=theme.FAILURE, markersize=9, zorder=5, **edge, **common)
            self.bars[model], self.marks[model] = scene.live(bar), scene.live(mark)
            self.low[model], self.crosses[model] = scene.live(low), scene.live(cross)
        self.medians = scene.live(Sheet())
        self._lowest, self._activations = 0.9, ("", "")
        for model in STYLES:
            scene.name(self.bars[model], partial(self._named, model, "median"))
            for marks in (self.marks, self.low, self.crosses):
                scene.name(marks[model], partial(self._named, model, "a trial"))

    def _named(self, model: str, which: str) -> Name:
        limits = self._lowest, self._lowest + 1.03 * (1 - self._lowest)
        return {
            "name": f"{self._activations[list(STYLES).index(model)]} experts, {which}",
            "y": self.scene.along("accuracy", self.axes, "y", limits, percent=True),
        }

    def set(self, activations: tuple[str, str], trials: int, lowest: float) -> None:
        """Writes the numbers at the axis, and the models' names under it."""
        if not self.renew(activations, trials, lowest):
            return
        self._lowest, self._activations = lowest, activations
        each = "a mark for each of" if trials <= MOST_LINES else f"a mark: a {MOST_LINES}th of"
        self.write(896, 50, f"{each} {trials:,} trials," if trials > 1 else "the one trial")
        if trials > 1:
            self.write(896, 66, "bar: their median")
        for part in np.linspace(0, 1, 6):
            words = f"{100 * (lowest + part * (1 - lowest)):.0f} %"
            self.write(self.LEFT - 7, self.TOP + self.HEIGHT * (1 - part / 1.03), words, ha="right")
        for model, activation in zip(STYLES, activations, strict=True):
            middle = self.LEFT + self.WIDTH * self.PLACES[model]
            name: dict[str, Any] = {"ha": "center", "size": theme.TEXT_SIZE, "weight": "bold"}
            self.write(middle, self.TOP + self.HEIGHT + 16, activation, color=STYLES[model].colour, **name)
        self.write(896, 414, "▼ below the axis")
        self.write(896, 431, f"✖ fell {100 * FALL:.0f} points from its best", color=theme.FAILURE)
        self.show_pins()

    def part(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns accuracies as parts of the axis, clipped at its lower edge."""
        return np.maximum((values - self._lowest) / (1 - self._lowest), 0)

    def update(self, record: Frame) -> None:
        medians = []
        for model in STYLES:
            values = record.measured(model, "test_accuracy")
            last = values[-1] if len(values) else np.full(record.trials, np.nan)
            marked = few(last)
            x, y = self._swarm(self.part(last[marked]), self.PLACES[model])
            fallen, low = record.collapsed(model)[marked], last[marked] < self._lowest
            plain = ~fallen & ~low
            put(self.marks[model], x[plain], y[plain])
            put(self.low[model], x[low & ~fallen], y[low & ~fallen])
            put(self.crosses[model], x[fallen], y[fallen])
            middle = middle_of(last)
            height = self.part(np.array([middle, middle]))
            half = 0.22 if np.isfinite(middle) and middle >= self._lowest else 0
            ends = self.PLACES[model] + np.array([-half, half])
            put(self.bars[model], ends, height if half else [np.nan, np.nan])
            medians.append(percent(middle, 1))
        with self.medians.anew() as sheet:
            for (model, style), words in zip(STYLES.items(), medians, strict=True):
                place = inside(self.BOX, self.PLACES[model], -0.14 / 1.03)
                sheet.write(*place, words, "center", size=theme.TEXT_SIZE, colour=style.colour, bold=True)

    def _swarm(self, heights: NDArray[np.float64], middle: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Moves marks that would overlap sideways, to the nearest free place from the middle."""
        tall, wide = self.HEIGHT / 1.03, min(self.MARK + 1, 62 / max(len(heights) - 1, 1))
        places = np.full(len(heights), np.nan)
        for mark in np.argsort(heights, kind="stable"):
            near = np.abs(heights - heights[mark]) * tall < self.MARK
            taken = {round(place) for place in places[near & np.isfinite(places)]}
            places[mark] = next(turn for turn in _turns() if turn not in taken)
        return middle + places * wide / self.WIDTH, heights

    def keep(self, record: Frame) -> None:
        """Pins the medians of a record."""
        self.pin(Pin(model, record.steps, median(record.measured(model, "test_accuracy"))) for model in STYLES)

    def draw_pin(self, pin: Pin) -> list[Artist]:
        if not np.isfinite(pin.values[-1:]).any():
            return []
        ends = self.PLACES[pin.name] + np.array([-0.23, 0.23])
        return [self.pin_line(self.axes, ends, self.part(pin.values[-1:]).repeat(2), color=STYLES[pin.name].colour)]


def _turns() -> Iterator[int]:
    """0, 1, -1, 2, -2, ..."""
    yield 0
    for turn in range(1, 1000):
        yield turn
        yield -turn
