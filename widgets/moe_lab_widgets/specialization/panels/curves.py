"""Two panels of the specialisation Lab's picture: the dispatch entropy over the steps, and every trial's accuracy."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab_widgets.drawing.scene import Panel, Scene, letters
from moe_lab_widgets.specialization.record import FALL, Frame

STYLES = {"study": theme.MODEL, "reference": theme.OTHER}
DASHES = {"study": (None, None), "reference": (3, 1.5)}
WIDTHS = {"study": 2.6, "reference": 2.0}


def median(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(records, trial) -> (records,), over the trials that have not diverged."""
    if np.isfinite(values).all() and values.size:
        return np.asarray(np.median(values, axis=1))  # a tenth of the time
    result = np.full(len(values), np.nan)
    some = np.isfinite(values).any(1)
    result[some] = np.nanmedian(values[some], axis=1)
    return result


def percent(share: float) -> str:
    """With one digit after the point, which tells 99.9 from 99.5."""
    return f"{100 * share:.1f} %" if np.isfinite(share) else "–"


def number(value: float) -> str:
    """An entropy in words; no minus before a rounded zero."""
    return f"{abs(value) if abs(value) < 0.005 else value:.2f}" if np.isfinite(value) else "–"


class Pinned(Panel):
    """A panel that keeps medians of an earlier run, dotted, until they are taken away."""

    def __init__(self, scene: Scene, span: tuple[int, int]) -> None:
        super().__init__(scene, span)
        self.pins: list[tuple[str, NDArray[np.int64], NDArray[np.float64]]] = []
        self.shown_pins: list[Artist] = []

    def keep(self, record: Frame, name: str) -> None:
        """Keeps the medians of a measure up to a record."""
        self.unpin()
        for model in STYLES:
            self.pins.append((model, record.steps, median(record.values(model, name))))
        self.show_pins()

    def show_pins(self) -> None:
        """Draws what is kept."""
        raise NotImplementedError

    def unpin(self) -> None:
        """Takes the kept curves away."""
        for artist in self.shown_pins:
            self.drop(artist)
        self.pins, self.shown_pins = [], []

    def _pin_line(self, axes: Axes, x: Any, y: Any, model: str) -> None:
        (line,) = axes.plot(x, y, color=STYLES[model].colour, linewidth=1.6, linestyle=":", zorder=2.5)
        self.prop(line)
        self.shown_pins.append(line)


class Entropy(Pinned):
    """How mixed the clusters of an expert are, from 0 to log K: a thin line for each trial, a thick one for all."""

    LEFT, TOP, WIDTH, HEIGHT = 594, 84, 192, 304
    LOW, HIGH = -0.09, 1.06

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (545, 880))
        theme.header(scene.figure, 550, 2, "Dispatch entropy")
        self.axes = axes = theme.axes(scene.figure, self.LEFT, self.TOP, self.WIDTH, self.HEIGHT, xlim=(0, 1))
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
        self.names = {model: self.live_words(axes, style.colour) for model, style in STYLES.items()}
        self.activations = ("", "")
        self._most, self._total = 1.0, 1

    def set(self, activations: tuple[str, str], clusters: int, trials: int, shown: int, total: int) -> None:
        """The numbers at the axes; `activations` are those of the two models."""
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
        self.shown_pins = []
        self.show_pins()

    def update(self, record: Frame) -> None:
        steps, ends = record.steps / self._total, []
        for model in STYLES:
            values = record.values(model, "dispatch_entropy") / self._most
            here = steps[: len(values)]
            lines = np.stack(np.broadcast_arrays(here[:, None], values), axis=-1).swapaxes(0, 1)
            several = values.shape[1] > 1  # the line of one trial is its median
            self.thin[model].set_segments([line[np.isfinite(line).all(1)] for line in lines] if several else [])
            middle = median(values)
            self.thick[model].set_data(here, middle)
            ends.append(float(middle[-1]) if len(middle) else np.nan)
        at = ends[0] if np.isfinite(ends[0]) else 0.5  # of one that has not begun, or diverged
        places = theme.spread([end if np.isfinite(end) else at for end in ends], 0.14, 0.03, 0.95)
        for model, activation, place, end in zip(STYLES, self.activations, places, ends, strict=True):
            self.say(self.names[model], place, activation, number(end * self._most))

    def show_pins(self) -> None:
        for model, steps, values in self.pins:
            if len(values):
                self._pin_line(self.axes, steps[: len(values)] / self._total, values / self._most, model)
        if self.pins:
            self.shown_pins.append(self.write(562, 66, "dotted: pinned"))


class Accuracy(Pinned):
    """Test accuracy: a mark for every trial and a bar at the median, the model under study beside the reference."""

    LEFT, TOP, WIDTH, HEIGHT = 938, 84, 150, 270
    PLACES: ClassVar[dict[str, float]] = {"study": 0.25, "reference": 0.75}
    MARK = 8.0
    """Pixels from one mark to the next that would lie on it."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (880, 1100))
        theme.header(scene.figure, 884, 3, "Test accuracy")
        self.axes = axes = theme.axes(scene.figure, self.LEFT, self.TOP, self.WIDTH, self.HEIGHT, xlim=(0, 1))
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
        self.medians = {model: self.live_words(axes, style.colour) for model, style in STYLES.items()}
        self._lowest = 0.9

    def set(self, activations: tuple[str, str], trials: int, lowest: float) -> None:
        """The numbers at the axis, and the models' names under it."""
        if not self.renew(activations, trials, lowest):
            return
        self._lowest = lowest
        self.write(896, 50, f"a mark for each of {trials} trials," if trials > 1 else "the one trial")
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
        self.shown_pins = []
        self.show_pins()

    def part(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Accuracies as parts of the axis; those below it lie at its edge."""
        return np.maximum((values - self._lowest) / (1 - self._lowest), 0)

    def update(self, record: Frame) -> None:
        for model in STYLES:
            values = record.values(model, "test_accuracy")
            last = values[-1] if len(values) else np.full(record.study.trials, np.nan)
            x, y = self._swarm(self.part(last), self.PLACES[model])
            fallen, low = record.collapsed(model), last < self._lowest
            plain = ~fallen & ~low
            self.marks[model].set_data(x[plain], y[plain])
            self.low[model].set_data(x[low & ~fallen], y[low & ~fallen])
            self.crosses[model].set_data(x[fallen], y[fallen])
            middle = float(median(last[None])[0])
            height = self.part(np.array([middle, middle]))
            half = 0.22 if np.isfinite(middle) and middle >= self._lowest else 0
            ends = self.PLACES[model] + np.array([-half, half])
            self.bars[model].set_data(ends, height if half else [np.nan, np.nan])
            self._say_below(self.medians[model], self.PLACES[model], percent(middle))

    def _say_below(self, line: Line2D, x: float, words: str) -> None:
        """Puts words under the axes, with their middle at x."""
        self.say(line, 0, words)
        line.set_data([x - _width(words) / 2 / self.WIDTH], [-0.14])

    def _swarm(self, heights: NDArray[np.float64], middle: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Marks beside one another where they would lie on one another: the nearest free place from the middle."""
        tall, wide = self.HEIGHT / 1.03, min(self.MARK + 1, 62 / max(len(heights) - 1, 1))
        places = np.full(len(heights), np.nan)
        for one in np.argsort(heights, kind="stable"):
            near = np.abs(heights - heights[one]) * tall < self.MARK
            taken = {round(place) for place in places[near & np.isfinite(places)]}
            places[one] = next(turn for turn in _turns() if turn not in taken)
        return middle + places * wide / self.WIDTH, heights

    def show_pins(self) -> None:
        for model, _, values in self.pins:
            if len(values) and np.isfinite(values[-1]):
                height = self.part(values[-1:]).repeat(2)
                self._pin_line(self.axes, self.PLACES[model] + np.array([-0.23, 0.23]), height, model)


@lru_cache(maxsize=1024)
def _width(words: str) -> float:
    """Pixels that `say` needs for a line of words."""
    return float(letters((words,)).get_extents().width * theme.TEXT_SIZE * theme.BASE_DPI / 72)


def _turns() -> Iterator[int]:
    """0, 1, -1, 2, -2, ..."""
    yield 0
    for turn in range(1, 1000):
        yield turn
        yield -turn
