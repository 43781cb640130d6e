"""The second panel of the deep pruning Lab's picture: accuracy in training, and against the experts pruned."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab_widgets.deep_prune.record import Frame, View
from moe_lab_widgets.deep_prune.settings import MOST, NAMES
from moe_lab_widgets.drawing.lines import inside, put, put_segments
from moe_lab_widgets.drawing.picture import Name
from moe_lab_widgets.drawing.pins import Pin, PinnedPanel
from moe_lab_widgets.drawing.scene import Scene
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.drawing.words import percent

MARKERS = dict(zip(NAMES, ("o", "X", "^", "s", "D", "v"), strict=True))
DASHES: dict[str, tuple[float, ...]] = dict(
    zip(NAMES, ((4, 1.5), (1, 1), (5, 1, 1, 1), (4, 1.5), (2.5, 1), (1, 1)), strict=True)
)
HIGH = 1.03
"""Of the axis of accuracy, whose 100 % are at 1."""
Points = dict[Line2D, tuple[Any, Any]]


class Curves(PinnedPanel):
    """Above, the accuracy of the training that runs or has run. Below, the chosen criterion in ink, the others grey.

    Accuracies below the axis are drawn at its lower end.

    Attributes:
      names: (pixels from the top, name) of every label, as they are written.
    """

    BOX = (620, 192, 166, 196)
    TRAINING = (620, 84, 166, 50)
    LABELS = 802

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (556, 906))
        theme.header(scene.figure, 566, 2, "Accuracy")
        self.training = theme.axes(scene.figure, *self.TRAINING, xlim=(0, 1), ylim=(0, HIGH))
        self.axes = axes = theme.axes(scene.figure, *self.BOX, xlim=(-0.25, MOST + 0.25), ylim=(0, HIGH))
        self.training.set_yticks([0, 1], ["0", "100 %"])
        self.training.set_xticks([])
        axes.set_yticks(np.linspace(0, 1, 5), [""] * 5)
        for height in np.linspace(0, 1, 5)[1:]:
            axes.axhline(height, color=theme.RULE, linewidth=0.6, zorder=0.5)
        axes.set_xticks(range(MOST + 1))
        axes.set_xlabel("experts pruned of each layer's 8")
        ink: dict[str, Any] = {"color": theme.INK, "clip_on": False}
        (self.tested,) = self.training.plot([], [], linewidth=2, marker="o", markersize=3.5, zorder=4, **ink)
        self.others = {name: scene.live(self._grey(name)) for name in NAMES}
        (self.rule,) = axes.plot([], [], color=theme.INK, linewidth=1, zorder=2.2)
        (self.chosen,) = axes.plot([], [], linewidth=2.8, marker="o", markersize=7, zorder=5, **ink)
        self.error = LineCollection([], linewidths=5, colors=[theme.INK], alpha=0.4, zorder=3)
        self.leaders = LineCollection([], linewidths=0.7, colors=theme.REFERENCE, clip_on=False, zorder=1)
        for collection in (self.error, self.leaders):
            axes.add_collection(collection, autolim=False)
        live: tuple[Artist, ...] = (self.error, self.leaders, self.rule, self.chosen, self.tested)
        for moving in live:
            scene.live(moving)
        self.sheet = scene.live(Sheet())
        self.names: list[tuple[float, str]] = []
        self._lowest, self._images = 0.5, 500
        words: dict[Artist, str] = {line: NAMES[name] for name, line in self.others.items()}
        words |= {self.chosen: "the chosen criterion", self.error: "± a standard error", self.rule: "experts pruned"}
        for artist, name in words.items():
            scene.name(artist, partial(self._named, name))
        scene.name(self.tested, {"name": "accuracy in training"})

    def _named(self, words: str) -> Name:
        limits = self._lowest, self._lowest + HIGH * (1 - self._lowest)
        return {
            "name": words,
            "x": self.scene.along("pruned", self.axes, "x"),
            "y": self.scene.along("accuracy", self.axes, "y", limits, percent=True),
        }

    def _grey(self, name: str) -> Line2D:
        (line,) = self.axes.plot([], [], color=theme.REFERENCE, marker=MARKERS[name], markersize=4.5, linewidth=1.5)
        line.set_dashes(DASHES[name])
        line.set_zorder(2.5)
        line.set_clip_on(False)
        return line

    def set(self, lowest: float, images: int) -> None:
        """Writes the numbers at the axis, which begins at `lowest`."""
        self._lowest, self._images = lowest, images
        if not self.renew(lowest, images):
            return
        for part in np.linspace(0, 1, 5):
            _, y = inside(self.BOX, 0, part / HIGH)
            self.write(self.BOX[0] - 8, y, f"{100 * (lowest + part * (1 - lowest)):.0f} %", ha="right")
        self.show_pins()

    def part(self, values: Any) -> NDArray[np.float64]:
        """Returns accuracies as parts of the axis, clipped at its lower end."""
        return np.maximum((np.asarray(values, dtype=float) - self._lowest) / (1 - self._lowest), 0)

    def update(self, record: Frame, view: View) -> None:
        self.names = []
        lines: Points = dict.fromkeys((*self.others.values(), self.chosen, self.rule), ((), ()))
        errors: list[Any] = []
        leaders: list[Any] = []
        put(self.tested, record.tested[:, 0] / max(record.total, 1), record.tested[:, 1])
        with self.sheet.anew() as sheet:
            self._describe_training(record)
            if record.table is None:
                sheet.write(578, 156, "after pruning: nothing is pruned yet", colour=theme.MUTED)
            else:
                curves = record.curves(view)
                for name, values in curves.items():
                    known = np.flatnonzero(np.isfinite(values))
                    line = self.chosen if name == view.criterion else self.others[name]
                    lines[line] = (known, self.part(values[known]))
                lines[self.rule] = ([view.pruned] * 2, [0, HIGH])
                errors = self._error(record, view)
                leaders = self._label(curves, view)
                sheet.write(578, 156, f"after pruning, {view.mode}; bar: ± a standard error", colour=theme.MUTED)
                left, top, wide, _ = self.BOX
                x = left + wide * (view.pruned + 0.25) / (MOST + 0.5)
                words = f"{view.pruned} pruned: {percent(record.left(view), 1)}"
                sheet.write(min(max(x, left + 56), left + wide - 20), top - 13, words, "center", bold=True)
        for line, (x, y) in lines.items():
            put(line, x, y)
        put_segments(self.error, errors)
        put_segments(self.leaders, leaders)

    def _describe_training(self, record: Frame) -> None:
        """Writes what is trained, how far, and how well."""
        loss = np.nan if record.shot is None else float(record.shot["train_loss"][0])
        before = record.stage == "pre-training"
        what = "pre-training on ten digits" if before else "fine-tuning on upside-down digits"
        self.sheet.write(578, 47, what, colour=theme.MUTED)
        words = f"step {record.step} of {record.total}" + (f", loss {loss:.2f}" if np.isfinite(loss) else "")
        self.sheet.write(578, 64, words, colour=theme.MUTED, apart=True)
        if np.isfinite(record.accuracy):
            left, top, wide, high = self.TRAINING
            y = top + (1 - record.accuracy / HIGH) * high
            x = left + wide * record.tested[-1, 0] / max(record.total, 1)
            self.sheet.write(x + 10, y, percent(record.accuracy, 1), bold=True)

    def _error(self, record: Frame, view: View) -> list[Any]:
        """Returns the line from a standard error below the accuracy on show to one above it."""
        share = record.left(view)
        if not np.isfinite(share):
            return []
        error = float(np.sqrt(share * (1 - share) / self._images))
        return [((view.pruned, low), (view.pruned, high)) for low, high in [self.part([share - error, share + error])]]

    def _label(self, curves: dict[str, NDArray[np.float64]], view: View) -> list[Any]:
        """Writes names at the ends of the lines, pushed apart, and returns thin leaders from them to their curves."""
        ends = {}
        for name, values in curves.items():
            for known in np.flatnonzero(np.isfinite(values))[-1:]:
                ends[name] = (int(known), float(self.part(values[known])))
        order = sorted(ends, key=lambda name: (ends[name][1], name == view.criterion))
        left, top, wide, high = self.BOX
        places = theme.spread([ends[name][1] for name in order], 16 * HIGH / high, 0.02, HIGH - 0.02)
        x = (self.LABELS - 4 - left) / wide * (MOST + 0.5) - 0.25
        leaders: list[Any] = []
        for name, place in zip(order, places, strict=True):
            y, mine = top + (1 - place / HIGH) * high, name == view.criterion
            colour = theme.INK if mine else theme.MUTED
            self.sheet.write(self.LABELS, y, NAMES[name], colour=colour, bold=mine)
            self.names.append((float(y), NAMES[name]))
            leaders.append(((ends[name][0] + 0.1, ends[name][1]), (x, float(place))))
        return leaders

    # ---- pins ----

    def keep(self) -> None:
        """Pins the chosen curve as it is drawn, with accuracies."""
        x, y = (np.array(values, dtype=float) for values in self.chosen.get_data())
        self.pin([Pin("chosen", x, self._lowest + y * (1 - self._lowest))])

    def draw_pin(self, pin: Pin) -> list[Artist]:
        style: dict[str, Any] = {"color": theme.INK, "linewidth": 1.1, "linestyle": "-", "marker": "o", "markersize": 3}
        return [self.pin_line(self.axes, pin.steps, self.part(pin.values), **style, zorder=1.5)]

    def note_place(self) -> tuple[float, float]:
        left, top, _, high = self.BOX
        return left + 6, top + high - 12
