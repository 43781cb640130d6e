"""Two panels of the gridlock Lab's picture: the error over EM's iterations, and how the start is found."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from matplotlib.artist import Artist
from matplotlib.collections import LineCollection
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab.recovery.gridlock.grid_points import FOUND, GAIN, WINDOW
from moe_lab.training import Snapshot
from moe_lab_widgets.drawing.cells import Grid, stamp, write
from moe_lab_widgets.drawing.picture import Strip
from moe_lab_widgets.drawing.scene import Panel, Scene
from moe_lab_widgets.gridlock import settings as of
from moe_lab_widgets.gridlock.panels.regressors import COLOURS, NAMES, TEAL
from moe_lab_widgets.gridlock.record import METHODS, Frame
from moe_lab_widgets.specialization.panels.curves import median

TOP, HEIGHT = 84, 262
TABLE = 398
"""Pixels from the top to the middle of the first line under both panels."""
LINES = {"spectral": "-", "joint": "--"}


def numbers(scene: Scene, rows: list[list[str]], wide: float) -> NDArray[np.uint8]:
    """A small table of words without shades, 17 pixels a row."""
    grid = Grid(len(rows), len(rows[0]), 17, wide, scene.scale)
    pixels = grid.blank()
    for (row, column), word in np.ndenumerate(np.array(rows)):
        ink = stamp(str(word), theme.TEXT_SIZE, theme.BASE_DPI * scene.scale, bold=True)
        write(pixels, ink, theme.INK, grid.middle(row, column))
    return pixels


class Errors(Panel):
    """E(A, W) over the iterations of EM, both logarithmic: thin lines are trials, thick ones medians."""

    LEFT, WIDTH = 594, 168
    COLUMNS, WIDE = 656, 62

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (545, 845))
        theme.header(scene.figure, 550, 2, "Error over EM's iterations")
        self.axes = axes = theme.axes(scene.figure, self.LEFT, TOP, self.WIDTH, HEIGHT, xlim=(0, 1), ylim=(0, 1))
        axes.set_xticks([])
        axes.set_yticks([])
        self.thin, self.thick, self.stuck, self.falling, self.names = {}, {}, {}, {}, {}
        open_: dict[str, Any] = {"markerfacecolor": theme.PAPER, "markeredgewidth": 1.4}
        common: dict[str, Any] = {"linestyle": "none", "clip_on": False, "zorder": 5}
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
        (best,) = axes.plot([], [], color=TEAL, linewidth=1.2, linestyle=":", zorder=1.5)
        self.best = scene.live(best)
        self.best_name = self.live_words(axes, TEAL)
        self.counts = scene.live(Strip(self.COLUMNS, TABLE + 8))
        self.words: list[list[str]] = []
        self._low, self._high, self._longest = 0.1, 10.0, 10
        self.pins: list[tuple[str, NDArray[np.int64], NDArray[np.float64]]] = []
        self.shown_pins: list[Artist] = []

    def set(self, trials: int, longest: int, limits: tuple[float, float]) -> None:
        """Ticks and names.

        Args:
          longest: iterations of EM of the method that has more.
          limits: of the error.
        """
        if not self.renew(trials, longest, limits):
            return
        (self._low, self._high), self._longest = limits, longest
        bottom, middle = TOP + HEIGHT, self.LEFT + self.WIDTH / 2
        self.write(
            562, 50, f"E(A, W); thin: {trials} trials, thick: median" if trials > 1 else "E(A, W), the one trial"
        )
        self.write(562, 66, f"✗ stuck: < {100 * GAIN:.0f} % less in {WINDOW} iterations")
        for tick in ticks(*limits):
            height = bottom - HEIGHT * float(self._y(np.array(tick)))
            self.write(self.LEFT - 7, height, f"{tick:g}", ha="right")
            self.write(self.LEFT - 2, height, "–", ha="center", color=theme.REFERENCE)
        for step in (0, *(10**power for power in range(6) if 10**power <= longest)):
            self.write(self.LEFT + self.WIDTH * float(self._x(np.array(step))), bottom + 12, f"{step}", ha="center")
        name: dict[str, Any] = {"ha": "center", "size": theme.TEXT_SIZE, "color": theme.INK}
        self.write(middle, bottom + 29, "EM iteration", **name)
        for column, words in enumerate(("✓ found", "✗ stuck", "▽ falling")):
            colour = (TEAL, theme.FAILURE, theme.MUTED)[column]
            self.write(self.COLUMNS + (column + 0.5) * self.WIDE, TABLE, words, ha="center", color=colour)
        for row, method in enumerate(METHODS):
            style: dict[str, Any] = {"color": COLOURS[method], "weight": "bold"}
            self.write(self.COLUMNS - 6, TABLE + 17 * (row + 1), NAMES[method], ha="right", **style)
        self.shown_pins = []
        self.show_pins()

    def _x(self, steps: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray(np.log10(1 + steps) / np.log10(1 + self._longest))

    def _y(self, errors: NDArray[Any]) -> NDArray[np.float64]:
        """Places on the axis; what lies outside lies at its edge."""
        with np.errstate(divide="ignore"):
            places = np.log(np.asarray(errors, dtype=float) / self._low) / np.log(self._high / self._low)
        return np.asarray(np.clip(places, 0, 1))

    def update(self, record: Frame) -> None:
        ends = []
        for method in METHODS:
            steps, errors = record.errors(method)
            x, y, middle = self._x(steps), self._y(errors), median(errors)
            lines = [np.stack((x, one), axis=1) for one in y.T] if y.shape[1] > 1 else []
            self.thin[method].set_segments([line[np.isfinite(line).all(1)] for line in lines])
            self.thick[method].set_data(x, self._y(middle))
            for marks, which in ((self.stuck, record.stuck(method)), (self.falling, record.falling(method))):
                last = y[-1][which] if len(y) else y.reshape(-1)[:0]
                marks[method].set_data(np.repeat(x[-1:], len(last)), last)
            ends.append(float(middle[-1]) if len(middle) else np.nan)
        best = record.best()
        floor = float(np.median(best)) if best is not None else np.nan
        self.best.set_data([0, 1], self._y(np.array([floor, floor])))
        self._name([*ends, floor])
        self.words = [
            [str(int(which.sum())) for which in (record.whole(method), record.stuck(method), record.falling(method))]
            for method in METHODS
        ]
        self.counts.set_pixels(numbers(self.scene, self.words, self.WIDE))

    def _name(self, ends: list[float]) -> None:
        """The three lines' names and numbers, pushed apart."""
        lines = (*(self.names[method] for method in METHODS), self.best_name)
        known = [i for i, end in enumerate(ends) if np.isfinite(end)]
        places = theme.spread([float(self._y(np.array(ends[i]))) for i in known], 0.15, 0.03, 0.97)
        for line in lines:
            line.set_data([], [])
        for i, place in zip(known, places, strict=True):
            words = ("spectral", "joint EM", "EM from")[i], ("+ EM ", "", "truth ")[i] + short(ends[i])
            self.say(lines[i], place, *words, size=theme.SMALL_SIZE if i == 2 else theme.TEXT_SIZE)
            lines[i].set_data([1.08], [place])

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
            (kept,) = self.axes.plot(self._x(steps), self._y(values), **line)
            self.prop(kept)
            self.shown_pins.append(kept)
        if self.pins:
            self.shown_pins.append(self.write(self.LEFT + 6, TOP + HEIGHT - 12, "dotted: pinned"))

    def unpin(self) -> None:
        """Takes the kept curves away."""
        for artist in self.shown_pins:
            self.drop(artist)
        self.pins, self.shown_pins = [], []


class Stages(Panel):
    """|cos| of every regressor and gate of one trial: power iterations, then EM of the gates, then of everything."""

    LEFT, WIDTH = 892, 196
    EDGES: ClassVar[tuple[float, ...]] = (0, 0.4, 0.67, 1)
    """Where the three stages begin, as parts of the axis: each has room, however long it is."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (845, 1100))
        theme.header(scene.figure, 850, 3, "How the start is found")
        self.axes = axes = theme.axes(scene.figure, self.LEFT, TOP, self.WIDTH, HEIGHT, xlim=(0, 1), ylim=(0, 1.03))
        axes.set_xticks([])
        axes.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
        axes.axvspan(self.EDGES[1], 1, color=theme.BACKGROUND, alpha=0.5, zorder=0, linewidth=0)
        for edge in self.EDGES[1:3]:
            axes.axvline(edge, color=theme.REFERENCE, linewidth=0.8, zorder=1)
        axes.axhline(FOUND, color=theme.FAILURE, linewidth=1, zorder=1)
        regressors = LineCollection([], colors=[(theme.INK, 0.8)], linewidths=1.4, zorder=3)
        gates = LineCollection([], colors=[TEAL], linewidths=1.4, linestyles="--", zorder=4)
        axes.add_collection(regressors)
        axes.add_collection(gates)
        self.regressors, self.gates = scene.live(regressors), scene.live(gates)
        self.counts = scene.live(Strip(self.LEFT, TABLE + 8))
        self.words: list[list[str]] = []
        self._ends = (1, 1, 1)

    def set(self, power: int, trials: int, shown: int) -> None:
        """The stages' names.

        Args:
          power: iterations of the power method in all.
        """
        if not self.renew(power, trials, shown):
            return
        self._ends = (power, power + of.GATE_ITERATIONS, power + of.GATE_ITERATIONS + of.EVERYTHING_ITERATIONS)
        which = f"trial {shown + 1}: " if trials > 1 else ""
        self.write(862, 50, f"{which}|cos| with the true one")
        self.write(862, 66, "— regressors", color=theme.INK, weight="bold")
        self.write(978, 66, "- - gates", color=TEAL, weight="bold")
        bottom = TOP + HEIGHT
        spans = zip(self.EDGES, self.EDGES[1:], ("power", "gates", "all"), (0, *self._ends), self._ends, strict=False)
        for left, right, name, first, last in spans:
            middle = self.LEFT + self.WIDTH * (left + right) / 2
            self.write(middle, bottom + 12, name, ha="center", color=theme.INK)
            each = of.POWER_ITERATIONS if name == "power" else last - first
            self.write(middle, bottom + 29, f"{each} each" if name == "power" else f"{each} it.", ha="center")
        self.write(self.LEFT - 7, TOP + HEIGHT * (1 - FOUND / 1.03), f"{FOUND:g}", ha="right", color=theme.FAILURE)
        self.write(862, TABLE, "✓ found at the end of each stage", color=TEAL)
        self.write(self.LEFT - 6, TABLE + 17, "a", ha="right", color=theme.INK, weight="bold")
        self.write(self.LEFT - 6, TABLE + 34, "w", ha="right", color=TEAL, weight="bold")

    def places(self, steps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Where steps stand on the axis."""
        return np.asarray(np.interp(steps, (0, *self._ends), self.EDGES))

    def update(self, record: Frame, shown: int) -> None:
        shots, power = record.shots("spectral"), self._ends[0]
        em = [shot for shot in shots if shot.step >= power]
        x = self.places(np.array([shot.step for shot in em], dtype=np.int64))
        best = np.array([shot["cosines"][shown].max(0) for shot in em])  # (shots, estimate)
        gates = np.array([shot["gate_cosines"][shown] for shot in em])
        lines = [np.stack((x, one), axis=1) for one in np.nan_to_num(best).T]
        self.regressors.set_segments([*self._components(record, shown), *lines])
        self.gates.set_segments([np.stack((x, one), axis=1) for one in np.nan_to_num(gates).T])
        self.words = self._counts(shots, shown)
        self.counts.set_pixels(self._table(self.words))

    def _components(self, record: Frame, shown: int) -> list[NDArray[np.float64]]:
        """For each component that power iterations have sought so far, (m, 2) its iterations and best |cos|."""
        curves = record.past.components(shown)
        wide = self.EDGES[1] / of.POWER_ITERATIONS
        done = min(record.spectral.step, self._ends[0])
        seen = [curve[: max(done - of.POWER_ITERATIONS * i, 0)] for i, curve in enumerate(curves)]
        return [np.stack((wide * np.arange(1, len(one) + 1), one), axis=1) for one in seen if len(one)]

    def _counts(self, shots: list[Snapshot], shown: int) -> list[list[str]]:
        """For regressors and gates, how many are found at the end of each stage."""
        rows: list[list[str]] = [[], []]
        steps, first = np.array([shot.step for shot in shots]), 0
        for stage, last in enumerate(self._ends):
            here = np.flatnonzero((steps > first) & (steps <= last))
            first = last
            shot = shots[here[-1]] if len(here) else None
            for row, name in zip(rows, ("cosines", "gate_cosines"), strict=True):
                if shot is None or (name == "gate_cosines" and stage == 0):
                    row.append("–")
                    continue
                values = shot[name][shown]
                values = np.diagonal(values) if values.ndim == 2 else values
                row.append(f"{int((values >= FOUND).sum())} of {len(values)}")
        return rows

    def _table(self, rows: list[list[str]]) -> NDArray[np.uint8]:
        scale = self.scene.scale
        pixels = Grid(2, 1, 17, self.WIDTH, scale).blank()
        for (row, column), word in np.ndenumerate(np.array(rows)):
            ink = stamp(str(word), theme.SMALL_SIZE, theme.BASE_DPI * scale, bold=True)
            middle = self.WIDTH * (self.EDGES[column] + self.EDGES[column + 1]) / 2
            write(pixels, ink, (theme.INK, TEAL)[row], ((17 * row + 8.5) * scale, middle * scale))
        return pixels


def ticks(low: float, high: float) -> list[float]:
    """The numbers 1, 2 and 5 times a power of ten between limits."""
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    return [digit * 10.0**power for power in powers for digit in (1, 2, 5) if low <= digit * 10.0**power <= high]


def short(error: float) -> str:
    """An error with two digits."""
    return f"{error:.2g}" if np.isfinite(error) else "–"
