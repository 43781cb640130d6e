"""The third panel of the gridlock Lab's picture: how the spectral method finds its start."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from matplotlib.collections import LineCollection
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab.recovery.gridlock.grid_points import FOUND
from moe_lab.training import Snapshot
from moe_lab_widgets.drawing.error_curves import FOUND_COLOUR, TABLE
from moe_lab_widgets.drawing.scene import Panel, Scene
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.drawing.tables import LINE
from moe_lab_widgets.engine.pair import History
from moe_lab_widgets.gridlock import settings as of
from moe_lab_widgets.gridlock.record import Frame


class Stages(Panel):
    """|cos| of every regressor and gate of one trial: power iterations, then EM of the gates, then of everything."""

    LEFT, TOP, WIDTH, HEIGHT = 892, 84, 196, 262
    EDGES: ClassVar[tuple[float, ...]] = (0, 0.4, 0.67, 1)
    """Where the three stages begin, as parts of the axis, however long each is."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (845, 1100))
        theme.header(scene.figure, 850, 3, "How the start is found")
        self.axes = axes = theme.axes(
            scene.figure, self.LEFT, self.TOP, self.WIDTH, self.HEIGHT, xlim=(0, 1), ylim=(0, 1.03)
        )
        axes.set_xticks([])
        axes.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
        axes.axvspan(self.EDGES[1], 1, color=theme.BACKGROUND, alpha=0.5, zorder=0, linewidth=0)
        for edge in self.EDGES[1:3]:
            axes.axvline(edge, color=theme.REFERENCE, linewidth=0.8, zorder=1)
        axes.axhline(FOUND, color=theme.FAILURE, linewidth=1, zorder=1)
        regressors = LineCollection([], colors=[(theme.INK, 0.8)], linewidths=1.4, zorder=3)
        gates = LineCollection([], colors=[FOUND_COLOUR], linewidths=1.4, linestyles="--", zorder=4)
        axes.add_collection(regressors)
        axes.add_collection(gates)
        self.regressors, self.gates = scene.live(regressors), scene.live(gates)
        self.counts = scene.live(Sheet())
        self._ends = (1, 1, 1)
        self._powers: tuple[Snapshot, int] | None = None
        self._curves: list[NDArray[np.float64]] = []

    def set(self, power: int, trials: int, shown: int) -> None:
        """Writes the stages' names.

        Args:
          power: iterations of the power method in all.
        """
        if not self.renew(power, trials, shown):
            return
        self._ends = (power, power + of.GATE_ITERATIONS, power + of.GATE_ITERATIONS + of.EVERYTHING_ITERATIONS)
        which = f"trial {shown + 1}: " if trials > 1 else ""
        self.write(862, 50, f"{which}|cos| with the true one")
        self.write(862, 66, "— regressors", color=theme.INK, weight="bold")
        self.write(978, 66, "- - gates", color=FOUND_COLOUR, weight="bold")
        bottom = self.TOP + self.HEIGHT
        spans = zip(self.EDGES, self.EDGES[1:], ("power", "gates", "all"), (0, *self._ends), self._ends, strict=False)
        for left, right, name, first, last in spans:
            middle = self.LEFT + self.WIDTH * (left + right) / 2
            self.write(middle, bottom + 12, name, ha="center", color=theme.INK)
            each = of.POWER_ITERATIONS if name == "power" else last - first
            self.write(middle, bottom + 29, f"{each} each" if name == "power" else f"{each} it.", ha="center")
        self.write(
            self.LEFT - 7, self.TOP + self.HEIGHT * (1 - FOUND / 1.03), f"{FOUND:g}", ha="right", color=theme.FAILURE
        )
        self.write(862, TABLE, "✓ found at the end of each stage", color=FOUND_COLOUR)
        self.write(self.LEFT - 6, TABLE + 17, "a", ha="right", color=theme.INK, weight="bold")
        self.write(self.LEFT - 6, TABLE + 34, "w", ha="right", color=FOUND_COLOUR, weight="bold")

    def places(self, steps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns places of steps on the axis."""
        return np.asarray(np.interp(steps, (0, *self._ends), self.EDGES))

    def update(self, record: Frame, shown: int) -> None:
        shots, power = record.first, self._ends[0]
        steps = np.array([shot.step for shot in shots])
        begun = int(np.searchsorted(steps, power))
        em, x = shots[begun:], self.places(steps[begun:])
        best = np.array([shot["cosines"][shown].max(0) for shot in em])  # (shots, estimate)
        gates = np.array([shot["gate_cosines"][shown] for shot in em])
        lines = [np.stack((x, curve), axis=1) for curve in np.nan_to_num(best).T]
        self.regressors.set_segments([*self._components(record, shown), *lines])
        self.gates.set_segments([np.stack((x, curve), axis=1) for curve in np.nan_to_num(gates).T])
        self._write(self.counted(shots, steps, shown))

    def _components(self, record: Frame, shown: int) -> list[NDArray[np.float64]]:
        """Returns for each component sought so far (m, 2) its iterations, as places on the axis, and its best |cos|.

        They stay the same while EM runs, so the latest ones are kept.
        """
        last = record.last_power
        if self._powers is None or self._powers[0] is not last or self._powers[1] != shown:
            wide = self.EDGES[1] / of.POWER_ITERATIONS
            curves = record.components(shown)
            self._curves = [np.stack((wide * np.arange(1, len(curve) + 1), curve), axis=1) for curve in curves]
            self._powers = last, shown
        return self._curves

    def counted(self, shots: History, steps: NDArray[np.int64], shown: int) -> list[list[str]]:
        """Returns for regressors and gates how many are found at the end of each stage."""
        rows: list[list[str]] = [[], []]
        first = 0
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

    def _write(self, rows: list[list[str]]) -> None:
        top = TABLE + 8
        with self.counts.anew() as counts:
            for row, (words, colour) in enumerate(zip(rows, (theme.INK, FOUND_COLOUR), strict=True)):
                for column, word in enumerate(words):
                    left, right = (self.LEFT + self.WIDTH * edge for edge in self.EDGES[column : column + 2])
                    cell = counts.add([(left, top + LINE * row, right, top + LINE * (row + 1), 0, 0, 0, 0)])
                    counts.label(cell, word, size=theme.SMALL_SIZE, colour=colour, bold=True)
