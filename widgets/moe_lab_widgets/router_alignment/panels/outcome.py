"""The third panel of the router-alignment Lab's picture: accuracy and coverage."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.collections import LineCollection
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab_widgets.drawing.lines import inside, put
from moe_lab_widgets.drawing.picture import Name
from moe_lab_widgets.drawing.pins import Pin, PinnedPanel
from moe_lab_widgets.drawing.scene import Scene
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.drawing.trials import HALF, MOST_LINES, SPREAD, Trials
from moe_lab_widgets.drawing.words import median, percent
from moe_lab_widgets.router_alignment.record import Frame

STYLES = {"joint": theme.MODEL, "cnn": theme.OTHER}
LOWEST_ACCURACY, HIGHEST_ACCURACY = 0.4, 1.01
SMALLEST_BAR = 0.015  # so that a coverage of 0 can be seen


class Outcome(PinnedPanel):
    """Accuracy of both models over the steps, and how often o reaches each expert."""

    NOTE, LEFT, WIDTH = 810, 838, 186
    CURVES, BARS = (LEFT, 74, WIDTH, 194), (LEFT, 326, WIDTH, 88)

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (796, 1100))
        theme.header(scene.figure, 798, 3, "What comes out")
        limits: dict[str, Any] = {"xlim": (0, 1), "ylim": (LOWEST_ACCURACY, HIGHEST_ACCURACY)}
        self.axes = axes = theme.axes(scene.figure, *self.CURVES, **limits)
        axes.set_yticks([0.5, 0.75, 1], ["50 %", "75 %", "100 %"])
        axes.set_xticks([0, 1], ["", ""])
        axes.axhline(0.5, color=theme.RULE, linewidth=0.8)
        axes.text(0.98, 0.492, "guessing", color=theme.MUTED, size=theme.SMALL_SIZE, ha="right", va="top")
        self.trials, self.thick = {}, {}
        for model, wide, dashes in (("cnn", 2, (3, 1.5)), ("joint", 2.6, (None, None))):
            style = STYLES[model]
            thin = LineCollection([], colors=style.colour, linestyles=style.line, linewidths=0.6, alpha=0.45, zorder=2)
            self.trials[model] = Trials(scene, axes, thin, style.colour)
            self.thick[model] = scene.live(
                axes.plot([], [], color=style.colour, linewidth=wide, dashes=dashes, zorder=3)[0]
            )
        self.names = scene.live(Sheet())
        note: dict[str, Any] = {"color": theme.MUTED, "size": theme.SMALL_SIZE, "va": "top", "linespacing": 1.35}
        words = "coverage in trial 1: % whose o gets there"
        scene.figure.text(*theme.spot(scene.figure, self.NOTE, 302), words, **note)
        self.cover = axes = theme.axes(scene.figure, *self.BARS, xlim=(0, 1), ylim=(0, 1.04))
        axes.set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
        axes.set_xticks([])
        for height in (0.5, 1):
            axes.axhline(height, color=theme.RULE, linewidth=0.6, zorder=0.5)
        self.bars = scene.live(Sheet(zorder=2))
        self.shares = scene.live(Sheet())
        self._total, self._experts = 1, 1
        for model, words in (("joint", "pMoE"), ("cnn", "CNN")):
            scene.name(self.trials[model].thin, partial(self._named, f"{words}, a trial"))
            scene.name(self.trials[model].bands, partial(self._named, f"{words}, {HALF}"))
            scene.name(self.trials[model].spread, partial(self._named, f"{words}, {SPREAD}"))
            scene.name(self.thick[model], partial(self._named, f"{words}, median"))
        scene.name(self.bars, self._named_bars)

    def _named(self, words: str) -> Name:
        return {
            "name": words,
            "x": self.scene.along("step", self.axes, "x", (0, self._total)),
            "y": self.scene.along("accuracy", self.axes, "y", percent=True),
        }

    def _named_bars(self) -> Name:
        experts = [f"expert {number}" for number in range(1, self._experts + 1)]
        return {"parts": [f"{expert}: coverage of {name}" for expert in experts for name in theme.CLASS_NAMES]}

    def set(self, trials: int, experts: int, total: int) -> None:
        """Writes the last step, and the experts under their bars."""
        if not self.renew(trials, experts, total):
            return
        self._total, self._experts = total, experts
        right = self.LEFT + self.WIDTH
        several = f"test accuracy, {trials} trial{'s each' if trials > 1 else ' each'}"
        bands = f"accuracy; half, 90 % of {trials:,} trials"
        self.write(self.NOTE, 50, several if trials <= MOST_LINES else bands)
        for at, words in ((self.LEFT, "0"), (right, str(total))):
            self.write(at, 280, words, ha="center")
        self.write(self.LEFT + self.WIDTH / 2, 280, "SGD step", ha="center", size=theme.TEXT_SIZE, color=theme.INK)
        for s in range(experts):
            x = self.LEFT + self.WIDTH * (s + 0.5) / experts
            self.head_at(x, 428, s, 13 if experts <= 5 else 9.5)
        self.show_pins()

    def update(self, record: Frame, shown: int) -> None:
        ends = []
        for model in ("joint", "cnn"):
            values = record.accuracy(model)
            steps = record.steps / record.total
            self.trials[model].show(steps, values)
            middle = median(values)
            put(self.thick[model], steps, middle)
            ends.append(float(middle[-1]))
        places = theme.spread([end if np.isfinite(end) else 0.5 for end in ends], 0.145, 0.46, 0.96)
        with self.names.anew() as names:
            for name, style, place, end in zip(("pMoE", "CNN"), STYLES.values(), places, ends, strict=True):
                high = (place - LOWEST_ACCURACY) / (HIGHEST_ACCURACY - LOWEST_ACCURACY)
                names.lines(*inside(self.CURVES, 1.04, high), name, percent(end), colour=style.colour)
        self._update_coverage(np.nan_to_num(record.joint["expert_coverage"][shown]))

    def _update_coverage(self, cover: NDArray[np.float64]) -> None:
        best = cover.max(axis=0)
        slot, wide = 1 / len(cover), 0.36 / len(cover)
        with self.bars.anew() as bars:
            for s, side in np.ndindex(*cover.shape):
                left, high = (s + 0.5) * slot + (side - 1) * wide, max(float(cover[s, side]), SMALLEST_BAR)
                strongest = cover[s, side] >= best[side] - 1e-9
                colour = theme.CLASSES[side] if strongest else theme.CLASSES_PALE[side]
                x, top = inside(self.BARS, left, high / 1.04)
                bars.box(x, top, x + 0.94 * wide * self.WIDTH, inside(self.BARS, 0, 0)[1], colour)
        with self.shares.anew() as shares:
            for side, place in enumerate(theme.spread(best.tolist(), 0.19, 0.08, 0.98)):
                words, style = f"{theme.CLASS_NAMES[side]} {percent(best[side])}", {"size": theme.SMALL_SIZE}
                shares.lines(*inside(self.BARS, 1.015, place / 1.04), words, colour=theme.CLASSES[side], **style)

    def keep(self, record: Frame) -> None:
        """Pins the median curves up to a record."""
        self.pin(Pin(model, record.steps, median(record.accuracy(model))) for model in record.names)

    def draw_pin(self, pin: Pin) -> list[Artist]:
        style = {"color": STYLES[pin.name].colour, "linewidth": 1.4}
        return [self.pin_line(self.axes, pin.steps / self._total, pin.values, **style)]

    def note_place(self) -> tuple[float, float]:
        return self.NOTE, 64
