"""The first panel of the balance Lab's picture: each expert's load through training, without and with balancing."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab_widgets.balance.record import Frame
from moe_lab_widgets.balance.settings import NAMES, NONE
from moe_lab_widgets.drawing.lines import inside, put_segments
from moe_lab_widgets.drawing.picture import Name
from moe_lab_widgets.drawing.scene import Panel, Scene
from moe_lab_widgets.drawing.sheet import Sheet

NAMED, APART, MOST = 0.04, 0.1, 2
"""Loads from which a line's expert is named at its end, the distance of two names, and most numbers in one."""


class Load(Panel):
    """Two axes, above none and below the balancing beside it: a line for the load of each expert, in one trial."""

    LEFT, TOPS, WIDTH, HEIGHT = 56, (86, 274), 226, 132
    HIGH = 1.04

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (0, 330))
        theme.header(scene.figure, 14, 1, "Load of each expert")
        self.axes, self.lines = [], []
        for top in self.TOPS:
            axes = theme.axes(scene.figure, self.LEFT, top, self.WIDTH, self.HEIGHT, xlim=(0, 1), ylim=(0, self.HIGH))
            axes.set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
            axes.set_xticks([0, 1], ["", ""])
            lines = LineCollection([], linewidths=1.7, zorder=3)
            axes.add_collection(lines, autolim=False)
            self.axes.append(axes)
            self.lines.append(scene.live(lines))
        self.names = scene.live(Sheet())
        self._total = 1
        for place, lines in enumerate(self.lines):
            scene.name(lines, partial(self._named, place))

    def _named(self, place: int) -> Name:
        along, axes = self.scene.along, self.axes[place]
        x, y = along("step", axes, "x", (0, self._total)), along("load", axes, "y", percent=True)
        return {"name": "an expert", "x": x, "y": y}

    def set(self, experts: int, trials: int, shown: int, total: int, beside: str) -> None:
        """Writes what lines are, and the numbers at the axes."""
        if not self.renew(experts, trials, shown, total, beside):
            return
        self._total = total
        of = f"trial {shown + 1} of {trials}" if trials > 1 else "the one trial"
        self.write(26, 48, f"test samples, {of}; dashed: all alike")
        styles = [theme.expert(number) for number in range(experts)]
        for lines in self.lines:
            lines.set_colors([style.colour for style in styles])
            lines.set_linestyle(["-" if number % 8 < 4 else (0, (4, 1.5)) for number in range(experts)])
        for top, name, axes in zip(self.TOPS, (NONE, beside), self.axes, strict=True):
            self.write(26, top - 19, NAMES[name] if name != NONE else "no balancing", weight="bold", color=theme.INK)
            (even,) = axes.plot([0, 1], [1 / experts] * 2, color=theme.MUTED, linewidth=1, linestyle=(0, (6, 3)))
            self.fix(even)
            bottom = top + self.HEIGHT + 12
            self.write(self.LEFT, bottom, "0", ha="center")
            self.write(self.LEFT + self.WIDTH, bottom, str(total), ha="center")
        middle: dict[str, Any] = {"ha": "center", "size": theme.TEXT_SIZE, "color": theme.INK}
        self.write(self.LEFT + self.WIDTH / 2, self.TOPS[1] + self.HEIGHT + 22, "training step", **middle)

    def update(self, record: Frame, beside: str, shown: int) -> None:
        with self.names.anew() as names:
            for lines, top, name in zip(self.lines, self.TOPS, (NONE, beside), strict=True):
                steps, loads = record.measured(name, "expert_load")
                here, own = steps / self._total, loads[:, shown]  # (records, expert)
                put_segments(lines, [np.stack((here, load), axis=1) for load in own.T])
                if len(here) and np.isfinite(own[-1]).all():
                    self._number(names, top, float(here[-1]), own[-1])

    def _number(self, names: Sheet, top: float, end: float, loads: NDArray[np.float64]) -> None:
        """Writes the numbers of experts at the ends of their lines, those that nearly coincide side by side."""
        box, near = (self.LEFT, top, self.WIDTH, self.HEIGHT), dict[int, list[int]]()
        for expert in np.argsort(-loads, kind="stable").tolist():
            if loads[expert] >= NAMED:
                near.setdefault(round(loads[expert] / APART), []).append(expert)
        for place, experts in near.items():
            numbers = sorted(expert + 1 for expert in experts)
            words = " ".join(map(str, numbers[:MOST])) + " …" * (len(numbers) > MOST)
            x, y = inside(box, end, place * APART / self.HIGH)
            names.write(x + 6, y, words, colour=theme.INK, bold=True)
