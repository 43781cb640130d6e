"""The second panel of the pruning Lab's picture: accuracy against the share of experts pruned, for every criterion."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab.pruning.live import Pruned
from moe_lab_widgets.drawing.lines import put, put_segments
from moe_lab_widgets.drawing.picture import Name
from moe_lab_widgets.drawing.pins import Pin, PinnedPanel
from moe_lab_widgets.drawing.scene import Scene
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.drawing.words import median
from moe_lab_widgets.pruning.panels.drops import Spot, beside_drops, width
from moe_lab_widgets.pruning.record import Frame, View
from moe_lab_widgets.pruning.settings import NAMES, REVERSED

MARKERS = {
    "router-norm-change": "o",
    "random": "X",
    "importance-score": "^",
    "router-magnitude": "s",
    "neuron-magnitude": "D",
    "neuron-magnitude-change": "v",
    "router-difference-norm": "P",
    "token-count": ">",
    REVERSED: "<",
}
DASHES: dict[str, tuple[float, ...]] = {
    "router-norm-change": (4, 1.5),
    "random": (1, 1),
    "importance-score": (5, 1, 1, 1),
    "router-magnitude": (4, 1.5),
    "neuron-magnitude": (2.5, 1),
    "neuron-magnitude-change": (1, 1),
    "router-difference-norm": (4, 1.5),
    "token-count": (1, 2.5),
    REVERSED: (1, 1),
}
Segment = tuple[tuple[float, float], tuple[float, float]]
Range = tuple[Segment, str]
"""A vertical line and its colour."""
Points = dict[Line2D, tuple[Any, Any]]


class Curves(PinnedPanel):
    """The chosen criterion in ink, the others grey and dashed, and a line at rho.

    A grey line that falls is named beside its drop; the chosen one, and those that stay, at their ends.

    Attributes:
      names: where the name of every line stands.
    """

    LEFT, TOP, WIDTH, HEIGHT = 612, 94, 190, 306
    LOW, HIGH = 0.4, 1.02
    LABELS = 822

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (556, 938))
        theme.header(scene.figure, 566, 2, "Accuracy after pruning")
        self.axes = axes = theme.axes(scene.figure, self.LEFT, self.TOP, self.WIDTH, self.HEIGHT, xlim=(-0.02, 0.97))
        axes.set_ylim(self.LOW, self.HIGH)
        axes.set_yticks([0.5, 0.75, 1.0], ["50 %", "75 %", "100 %"])
        axes.set_xticks([0, 0.2, 0.4, 0.6, 0.8], ["0", "0.2", "0.4", "0.6", "0.8"])
        axes.set_xlabel("ρ, share of experts pruned")
        axes.axhline(0.5, color=theme.RULE, linewidth=0.8, zorder=0.5)
        axes.text(0.0, 0.41, "50 %: guessing", color=theme.MUTED, size=theme.SMALL_SIZE)
        self.others = {name: scene.live(self._grey(name)) for name in NAMES}
        ink: dict[str, Any] = {"color": theme.INK, "clip_on": False}
        (self.rule,) = axes.plot([], [], color=theme.INK, linewidth=1, zorder=2.2)
        (self.before,) = axes.plot([], [], linewidth=1.6, linestyle=":", marker="o", markersize=4, zorder=4, **ink)
        (self.chosen,) = axes.plot([], [], linewidth=2.8, marker="o", markersize=7, zorder=5, **ink)
        self.ranges = LineCollection([], linewidths=5, colors=[theme.INK, theme.REFERENCE], alpha=0.45, zorder=3)
        (self.paper,) = axes.plot([], [], color=theme.PAPER, linewidth=9, solid_capstyle="butt", zorder=2.7)
        self.leaders = LineCollection([], linewidths=0.7, colors=theme.REFERENCE, clip_on=False, zorder=1)
        for collection in (self.ranges, self.leaders):
            axes.add_collection(collection, autolim=False)
            scene.live(collection)
        for line in (self.rule, self.before, self.chosen, self.paper):
            scene.live(line)
        self.sheet = scene.live(Sheet())
        self.names: dict[str, Spot] = {}
        words: dict[Artist, str] = {line: NAMES[name] for name, line in self.others.items()}
        words |= {self.chosen: "the chosen criterion", self.before: "the chosen criterion, without fine-tuning"}
        words |= {self.ranges: "range of the trials", self.rule: "the share of experts pruned, ρ"}
        for artist, name in words.items():
            scene.name(artist, partial(self._named, name))

    def _named(self, words: str) -> Name:
        return {
            "name": words,
            "x": self.scene.along("ρ", self.axes, "x"),
            "y": self.scene.along("accuracy", self.axes, "y", percent=True),
        }

    def _grey(self, name: str) -> Line2D:
        (line,) = self.axes.plot([], [], color=theme.REFERENCE, marker=MARKERS[name], markersize=4.5, linewidth=1.5)
        line.set_dashes(DASHES[name])
        line.set_zorder(2.5)
        line.set_clip_on(False)
        return line

    def update(self, record: Frame, view: View) -> None:
        self.names = {}
        still = (self.chosen, self.before, self.rule, self.paper)
        lines: Points = dict.fromkeys((*self.others.values(), *still), ((), ()))
        ranges: list[Range] = []
        leaders: list[Segment] = []
        with self.sheet.anew() as sheet:
            if record.pruned is not None:
                self._pruned(record, record.pruned, view, lines, ranges, leaders)
            else:
                if record.accuracy is not None:
                    lines[self.chosen] = ([0], median(record.accuracy[None]))
                sheet.write(578, 47, "in training: nothing is pruned yet", colour=theme.MUTED)
        for line, (x, y) in lines.items():
            put(line, x, y)
        if put_segments(self.ranges, [segment for segment, _ in ranges]):
            self.ranges.set_color([colour for _, colour in ranges])
        put_segments(self.leaders, leaders)

    def _pruned(
        self, record: Frame, pruned: Pruned, view: View, lines: Points, ranges: list[Range], leaders: list[Segment]
    ) -> None:
        """Draws what pruning makes of the layer."""
        shares = np.arange(pruned.half) / pruned.half
        after = pruned.after(view, record.results) if view.fine_tune else {}
        shown = {name: after.get(name, (0, plain))[1] for name, plain in pruned.plain.items()}
        middles = {name: median(values) for name, values in shown.items()}
        for name, values in middles.items():
            lines[self.chosen if name == view.criterion else self.others[name]] = (shares, values)
        if view.criterion in after:
            lines[self.before] = (shares, median(pruned.plain[view.criterion]))
        gone = view.count(pruned.half)
        lines[self.rule] = ([gone / pruned.half] * 2, [self.LOW, self.HIGH])
        ranges += self._at_rho(shown, view, gone, gone / pruned.half)
        self._name_drops(shares, middles, view)
        lines[self.paper] = self._paper()
        leaders += self._label(middles, float(shares[-1]), view)
        self._describe(record, view, after[view.criterion][0] if view.criterion in after else 0)

    def _at_rho(self, shown: dict[str, NDArray[np.float64]], view: View, gone: int, share: float) -> list[Range]:
        """Names rho, and returns the ranges of the trials there, by the chosen criterion and at random."""
        ranges: list[Range] = []
        for name, place, colour in ((view.criterion, -0.018, theme.INK), ("random", 0.018, theme.REFERENCE)):
            values = shown[name][gone] if name in shown else np.array([np.nan])
            if np.isfinite(values).any() and not (name == "random" and view.criterion == "random" and place > 0):
                low, high = (max(float(end), self.LOW) for end in (np.nanmin(values), np.nanmax(values)))
                if high - low > 0.004:
                    ranges.append((((share + place, low), (share + place, high)), colour))
        x = self.LEFT + (share + 0.02) / 0.99 * self.WIDTH
        whole = f"ρ = {view.rho:g}: {gone} of {len(next(iter(shown.values())))} in each half"
        self.sheet.write(min(max(x, self.LEFT + 70), 812), self.TOP - 11, whole, "center", bold=True)
        return ranges

    def _name_drops(self, shares: NDArray[np.float64], middles: dict[str, NDArray[np.float64]], view: View) -> None:
        """Writes the names of the grey lines that fall, where they do."""
        known = {name: (shares, values) for name, values in middles.items() if np.isfinite(values).all()}
        words = {name: NAMES[name] for name in known if name != view.criterion}
        rule = view.count(len(shares)) / len(shares)
        known["ρ"] = np.array([rule, rule]), np.array([self.LOW, self.HIGH])
        box = (self.LEFT, self.TOP, self.WIDTH, self.HEIGHT)
        limits = (*self.axes.get_xlim(), self.LOW, self.HIGH)
        self.names = beside_drops(known, words, box, limits, self.LABELS - 6)
        for name, spot in self.names.items():
            self.sheet.write(spot.left, spot.y, NAMES[name], colour=theme.MUTED)

    def _paper(self) -> tuple[Any, Any]:
        """Returns strokes of paper under the names among the lines, as points of one line with gaps."""
        (low, high), tall = self.axes.get_xlim(), self.HIGH - self.LOW
        x, y = [], []
        for spot in self.names.values():
            x += [low + (edge - self.LEFT) / self.WIDTH * (high - low) for edge in (spot.left - 2, spot.right + 2)]
            y += [self.HIGH - (spot.y - self.TOP) / self.HEIGHT * tall] * 2
            x, y = [*x, np.nan], [*y, np.nan]
        return x, y

    def _label(self, middles: dict[str, NDArray[np.float64]], end: float, view: View) -> list[Segment]:
        """Writes the other names at the ends of the lines, pushed apart, and returns leaders from them to the lines."""
        ends = {
            name: float(values[-1])
            for name, values in middles.items()
            if np.isfinite(values[-1]) and name not in self.names
        }
        order = sorted(ends, key=lambda name: (ends[name], name == view.criterion))
        tall = self.HIGH - self.LOW
        gap, high = 16 * tall / self.HEIGHT, self.HIGH - 0.02
        places = theme.spread([ends[name] for name in order], gap, self.LOW + 0.02, high)
        x = (self.LABELS - 4 - self.LEFT) / self.WIDTH * 0.99 - 0.02
        leaders: list[Segment] = []
        for name, place in zip(order, places, strict=True):
            y = float(self.TOP + (self.HIGH - place) / tall * self.HEIGHT)
            mine = name == view.criterion
            colour = theme.INK if mine else theme.MUTED
            self.sheet.write(self.LABELS, y, NAMES[name], colour=colour, bold=mine)
            self.names[name] = Spot(self.LABELS, self.LABELS + width(NAMES[name], bold=mine), y)
            leaders.append(((end + 0.01, ends[name]), (x, float(place))))
        return leaders

    def _describe(self, record: Frame, view: View, steps: int) -> None:
        """Writes what is drawn."""
        several = record.run.trials > 1
        trials = f"median of {record.run.trials} trials, bars: range" if several else "the one trial"
        if not view.fine_tune:
            words = "no fine-tuning after pruning"
        elif steps == 0:
            words = "fine-tuning what is left ..."
        else:
            whose = "chosen line" if record.run.model.coupled else "all"
            words = f"{whose} fine-tuned {steps} steps; dotted: without"
        self.sheet.write(578, 47, words, colour=theme.MUTED)
        self.sheet.write(578, 63, f"{trials}{'; thin: pinned' * bool(self.pins)}", colour=theme.MUTED)

    # ---- pins ----

    def keep(self) -> None:
        """Pins the chosen curve as it is drawn."""
        x, y = (np.array(values, dtype=float) for values in self.chosen.get_data())
        self.pin([Pin("chosen", x, y)])

    def draw_pin(self, pin: Pin) -> list[Artist]:
        style: dict[str, Any] = {"color": theme.INK, "linewidth": 1.1, "linestyle": "-", "marker": "o", "markersize": 3}
        return [self.pin_line(self.axes, pin.steps, pin.values, **style, zorder=1.5)]
