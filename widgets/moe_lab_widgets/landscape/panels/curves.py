"""The second panel of the landscape Lab's picture: the regressors' error through time, for both losses."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.collections import LineCollection
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab.recovery.landscape.stuck import STUCK_ERROR, STUCK_GAIN
from moe_lab_widgets.drawing.picture import Strip
from moe_lab_widgets.drawing.scene import Panel, Scene
from moe_lab_widgets.gridlock.panels.curves import numbers, short
from moe_lab_widgets.landscape.record import METHODS, Frame
from moe_lab_widgets.specialization.panels.curves import median

TOP, HEIGHT = 100, 246
TABLE = 398
LOWEST, HIGHEST = 1e-5, 1.0
"""Of the error, 1 - |cos|, which cannot be more than 1; under a hundred-thousandth it is drawn at the edge."""
NAMES = {"L4": "L₄", "l2": "ℓ₂"}
COLOURS = {"L4": theme.INK, "l2": theme.REFERENCE}
LINES = {"L4": "-", "l2": "--"}
_TICKS = {1e-5: "10⁻⁵", 1e-4: "10⁻⁴", 1e-3: "10⁻³", 1e-2: "10⁻²", 1e-1: "10⁻¹", 1.0: "1"}


def height_of(errors: NDArray[Any]) -> NDArray[np.float64]:
    """Places on the error's axis, from 0 to 1; what lies outside lies at its edge."""
    with np.errstate(divide="ignore"):
        places = np.log(np.asarray(errors, dtype=float) / LOWEST) / np.log(HIGHEST / LOWEST)
    return np.asarray(np.clip(places, 0, 1))


class Errors(Panel):
    """1 - smallest |cos| of a regressor over the steps, logarithmic: thin lines are trials, thick ones medians.

    Marks appear where a descent has ended; see `stuck.stuck_at`.
    """

    LEFT, WIDTH = 606, 158
    COLUMNS, WIDE = 612, 66

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (552, 836))
        theme.header(scene.figure, 558, 2, "Error through time")
        self.axes = axes = theme.axes(scene.figure, self.LEFT, TOP, self.WIDTH, HEIGHT, xlim=(0, 1), ylim=(0, 1))
        axes.set_xticks([])
        axes.set_yticks(height_of(np.array(list(_TICKS))).tolist(), list(_TICKS.values()))
        axes.axhline(float(height_of(np.array(STUCK_ERROR))), color=theme.FAILURE, linewidth=1, zorder=1)
        self.thin, self.thick, self.stuck, self.falling, self.names = {}, {}, {}, {}, {}
        common: dict[str, Any] = {"linestyle": "none", "clip_on": False, "zorder": 5}
        open_: dict[str, Any] = {"markerfacecolor": theme.PAPER, "markeredgewidth": 1.4}
        for method in reversed(METHODS):
            colour = COLOURS[method]
            trials = LineCollection([], linestyles=LINES[method], colors=[(colour, 0.55)], linewidths=0.9, zorder=2)
            axes.add_collection(trials)
            self.thin[method] = scene.live(trials)
            (thick,) = axes.plot([], [], color=colour, linewidth=2.6, linestyle=LINES[method], zorder=3)
            (stuck,) = axes.plot([], [], "X", color=theme.FAILURE, markersize=9, markeredgecolor=theme.PAPER, **common)
            (falling,) = axes.plot([], [], "v", color=colour, markersize=8, **open_, **common)
            self.thick[method], self.stuck[method] = scene.live(thick), scene.live(stuck)
            self.falling[method] = scene.live(falling)
            self.names[method] = self.live_words(axes, colour)
        self.counts = scene.live(Strip(self.COLUMNS, TABLE + 8))
        self.words: list[list[str]] = []
        self._steps = 1
        self.pins: list[tuple[str, NDArray[np.int64], NDArray[np.float64]]] = []
        self.shown_pins: list[Artist] = []

    def set(self, trials: int, steps: int) -> None:
        """Ticks and names for so many trials and steps."""
        if not self.renew(trials, steps):
            return
        self._steps = steps
        bottom, middle = TOP + HEIGHT, self.LEFT + self.WIDTH / 2
        self.write(
            570, 50, f"1 − |cos|; thin: {trials} trials, thick: median" if trials > 1 else "1 − |cos|, one trial"
        )
        self.write(570, 66, f"✗ stuck at the end: over {STUCK_ERROR:g},")
        self.write(570, 82, f"< {100 * STUCK_GAIN:.0f} % less in the last tenth of steps")
        line = TOP + HEIGHT * (1 - float(height_of(np.array(STUCK_ERROR))))
        self.write(self.LEFT - 7, line, f"{STUCK_ERROR:g}", ha="right", color=theme.FAILURE)
        for part in (0, 0.5, 1):
            self.write(self.LEFT + self.WIDTH * part, bottom + 12, f"{round(steps * part)}", ha="center")
        self.write(middle, bottom + 29, "step", ha="center", size=theme.TEXT_SIZE, color=theme.INK)
        for column, words in enumerate(("✓ found", "✗ stuck", "▽ falling")):
            colour = ("#0B5F5A", theme.FAILURE, theme.MUTED)[column]
            self.write(self.COLUMNS + (column + 0.5) * self.WIDE, TABLE, words, ha="center", color=colour)
        for row, method in enumerate(METHODS):
            style: dict[str, Any] = {"color": COLOURS[method], "weight": "bold"}
            self.write(self.COLUMNS - 6, TABLE + 17 * (row + 1), NAMES[method], ha="right", **style)
        self.shown_pins = []
        self.show_pins()

    def update(self, record: Frame) -> None:
        ends = []
        for method in METHODS:
            steps, errors = record.errors(method)
            x, y, middle = steps / self._steps, height_of(errors), median(errors)
            lines = [np.stack((x, one), axis=1) for one in y.T] if y.shape[1] > 1 else []
            self.thin[method].set_segments([line[np.isfinite(line).all(1)] for line in lines])
            self.thick[method].set_data(x, height_of(middle))
            for marks, which in zip((self.stuck, self.falling), record.verdicts(method), strict=True):
                last = y[-1][which] if len(y) else y.reshape(-1)[:0]
                marks[method].set_data(np.repeat(x[-1:], len(last)), last)
            ends.append(float(middle[-1]) if len(middle) else np.nan)
        self._name(ends)
        self.words = [self._row(record, method) for method in METHODS]
        self.counts.set_pixels(numbers(self.scene, self.words, self.WIDE))

    @staticmethod
    def _row(record: Frame, method: str) -> list[str]:
        counts = [str(int(which.sum())) for which in (record.found(method), *record.verdicts(method))]
        return counts if record.ended(method) else [counts[0], "–", "–"]

    def _name(self, ends: list[float]) -> None:
        """The lines' names and numbers, pushed apart."""
        known = [i for i, end in enumerate(ends) if np.isfinite(end)]
        places = theme.spread([float(height_of(np.array(ends[i]))) for i in known], 0.16, 0.05, 0.95)
        for line in self.names.values():
            line.set_data([], [])
        for i, place in zip(known, places, strict=True):
            line = self.names[METHODS[i]]
            self.say(line, place, NAMES[METHODS[i]], short(ends[i]), size=theme.SMALL_SIZE)
            line.set_data([1.06], [place])

    def keep(self, record: Frame) -> None:
        """Keeps both medians up to a record."""
        self.unpin()
        for method in METHODS:
            steps, errors = record.errors(method)
            self.pins.append((method, steps, median(errors)))
        self.show_pins()

    def show_pins(self) -> None:
        """Draws what is kept."""
        for method, steps, values in self.pins:
            line: dict[str, Any] = {"color": COLOURS[method], "linewidth": 1.6, "linestyle": ":", "zorder": 2.5}
            (kept,) = self.axes.plot(steps / self._steps, height_of(values), **line)
            self.prop(kept)
            self.shown_pins.append(kept)
        if self.pins:
            self.shown_pins.append(self.write(self.LEFT + 6, TOP + HEIGHT - 12, "dotted: pinned"))

    def unpin(self) -> None:
        """Takes the kept curves away."""
        for artist in self.shown_pins:
            self.drop(artist)
        self.pins, self.shown_pins = [], []
