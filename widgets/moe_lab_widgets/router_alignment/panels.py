"""Two panels of the router-alignment Lab's picture: the plane in which routers turn, and what comes out of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab_widgets.drawing.scene import Panel, Scene
from moe_lab_widgets.router_alignment.record import Frame

LOWEST_ACCURACY = 0.4
SMALLEST_BAR = 0.015  # so that a coverage of 0 can be seen


class Plane(Panel):
    """Every router's cosines with o1 and o2: where it is, how it came there, and where it can be at all."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (0, 340))
        note = "cosine between each router w and the two\npatches that decide the class"
        theme.header(scene.figure, 14, 1, "Where routers point", note)
        self.axes = axes = theme.axes(scene.figure, 58, 92, 268, 282, xlim=(-1.12, 1.2), ylim=(-1.17, 1.27))
        axes.set_aspect("equal", anchor="NW")
        axes.set_xticks([-1, 0, 1])
        axes.set_yticks([-1, 0, 1])
        for draw in (axes.axhline, axes.axvline):
            draw(0, color=theme.RULE, linewidth=0.8, zorder=1.5)
        dots: dict[str, Any] = {"markersize": 2.8, "alpha": 0.75, "markeredgewidth": 0, "zorder": 3}
        self.others = scene.live(axes.plot([], [], "o", color=theme.REFERENCE, **dots)[0])
        self._trails: list[Line2D] = []
        self._heads: list[tuple[Line2D, Line2D]] = []
        self.trails: list[Line2D] = []
        self.heads: list[tuple[Line2D, Line2D]] = []

    def set(self, overlap: float, names: Sequence[str], trials: int, shown: int, experts: int) -> None:
        """The ellipse of unit vectors, tinted by the nearer o, and the experts' trails and heads."""
        self._cast(experts)
        if not self.renew(round(overlap, 4), names, trials):
            return
        axes, angle = self.axes, float(np.arccos(np.clip(overlap, -1, 1)))
        turn = np.linspace(angle / 2 - np.pi, angle / 2, 60)
        for side, phi in enumerate((turn, turn + np.pi)):
            (half,) = axes.fill(np.cos(phi), np.cos(phi - angle), color=theme.CLASSES_TINT[side], linewidth=0, zorder=1)
            self.prop(half)
        phi = np.linspace(0, 2 * np.pi, 160)
        self.prop(axes.plot(np.cos(phi), np.cos(phi - angle), color=theme.REFERENCE, linewidth=1, zorder=2)[0])
        apart = 0.15 if overlap > 0.5 else 0  # near twins: their names part, so that heads hide neither
        places = (("left", "center", 1.09, overlap - apart), ("center", "bottom", overlap - 1.4 * apart, 1.09))
        for side, (ha, va, x, y) in enumerate(places):
            colour = theme.CLASSES[side]
            star: dict[str, Any] = {"markersize": 15, "markeredgecolor": "white", "zorder": 2.5, "clip_on": False}
            self.prop(axes.plot(*((1, overlap), (overlap, 1))[side], "*", color=colour, **star)[0])
            name: dict[str, Any] = {"size": theme.TITLE_SIZE, "weight": "bold", "zorder": 2.5, "ha": ha, "va": va}
            self.prop(axes.text(x, y, theme.CLASS_NAMES[side], color=colour, **name))
            turned = {"x": 22, "y": 233, "rotation": 90} if side else {"x": 192, "y": 408}
            words = f"cos(w, {theme.CLASS_NAMES[side]})   → looks for {names[side]}"
            self.write(words=words, ha="center", size=theme.TEXT_SIZE, color=colour, **turned)
        others = f"trial {shown + 1}; grey dots: {trials - 1} other trial{'s' * (trials > 2)}"
        self.write(192, 430, others if trials > 1 else "one trial", ha="center")

    def _cast(self, experts: int) -> None:
        """A trail and a numbered head for each expert; those that were made stay, for the next time."""
        style: dict[str, Any] = {"markersize": 4.5, "marker": "o", "markevery": [-1], "solid_joinstyle": "round"}
        for s in range(len(self._trails), experts):
            (trail,) = self.axes.plot([], [], color=theme.expert(s).colour, zorder=4, **style)
            head = theme.expert_head(self.axes, s)
            self._trails.append(self.scene.live(trail))
            self._heads.append(head)
            for part in head:
                part.set_clip_on(False)
                self.scene.live(part)
        for s, (trail, head) in enumerate(zip(self._trails, self._heads, strict=True)):
            for part in (trail, *head):
                part.set_visible(s < experts)
            trail.set_linewidth(2.4 if experts <= 4 else 1.6)
            for part, size in zip(head, (14, 6.7) if experts <= 4 else (12, 5.8), strict=True):
                part.set_markersize(size)
        self.trails, self.heads = self._trails[:experts], self._heads[:experts]

    def update(self, record: Frame, shown: int) -> None:
        paths = record.alignment()
        rest = np.delete(paths[-1], shown, axis=0).reshape(-1, 2)
        self.others.set_data(rest[:, 0], rest[:, 1])
        own = paths[:, shown]
        own = own[np.isfinite(own).all((1, 2))]
        if len(self.trails) > 4:
            own = own[-25:]
        here = own[-1] if len(own) else np.full((len(self.trails), 2), np.nan)
        heads = theme.push_apart(here, 0.2 if len(self.trails) <= 4 else 0.17, rounds=20)
        for s, (trail, head) in enumerate(zip(self.trails, self.heads, strict=True)):
            trail.set_data(own[:, s, 0], own[:, s, 1])
            for part in head:
                part.set_data(heads[s : s + 1, 0], heads[s : s + 1, 1])


class Outcome(Panel):
    """Accuracy of both models over the steps, and how often o reaches each expert."""

    LEFT, WIDTH = 889, 135

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (848, 1100))
        theme.header(scene.figure, 850, 3, "What comes out")
        limits: dict[str, Any] = {"xlim": (0, 1), "ylim": (LOWEST_ACCURACY, 1.01)}
        self.axes = axes = theme.axes(scene.figure, self.LEFT, 80, self.WIDTH, 160, **limits)
        axes.set_yticks([0.5, 0.75, 1], ["50 %", "75 %", "100 %"])
        axes.set_xticks([0, 1], ["", ""])
        axes.axhline(0.5, color=theme.RULE, linewidth=0.8)
        axes.text(0.98, 0.492, "guessing", color=theme.MUTED, size=theme.SMALL_SIZE, ha="right", va="top")
        self.thin, self.thick = {}, {}
        for model, style, wide, dashes in (
            ("cnn", theme.OTHER, 2, (3, 1.5)),
            ("joint", theme.MODEL, 2.6, (None, None)),
        ):
            trials = LineCollection(
                [], colors=style.colour, linestyles=style.line, linewidths=0.6, alpha=0.45, zorder=2
            )
            axes.add_collection(trials)
            self.thin[model] = scene.live(trials)
            self.thick[model] = scene.live(
                axes.plot([], [], color=style.colour, linewidth=wide, dashes=dashes, zorder=3)[0]
            )
        self.names = [self.live_words(axes, style.colour) for style in (theme.MODEL, theme.OTHER)]
        note: dict[str, Any] = {"color": theme.MUTED, "size": theme.SMALL_SIZE, "va": "top", "linespacing": 1.35}
        words = "coverage in trial 1: % of test\nsamples whose o gets there"
        scene.figure.text(*theme.spot(scene.figure, 862, 278), words, **note)
        self.cover = axes = theme.axes(scene.figure, self.LEFT, 318, self.WIDTH, 96, xlim=(0, 1), ylim=(0, 1.04))
        axes.set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
        axes.set_xticks([])
        for height in (0.5, 1):
            axes.axhline(height, color=theme.RULE, linewidth=0.6, zorder=0.5)
        self.bars = PolyCollection([], linewidths=0, zorder=2)
        axes.add_collection(self.bars)
        scene.live(self.bars)
        self.shares = [self.live_words(axes, colour) for colour in theme.CLASSES]
        self._total = 1
        self._pinned: list[tuple[NDArray[np.int64], NDArray[np.float64], theme.Style]] = []
        self._shown_pins: list[Artist] = []

    def set(self, trials: int, experts: int, total: int) -> None:
        """The last step, and the experts under their bars."""
        if not self.renew(trials, experts, total):
            return
        self._total = total
        right = self.LEFT + self.WIDTH
        self.write(862, 50, f"test accuracy, {trials} trial{'s each' if trials > 1 else ' each'}")
        for at, words in ((self.LEFT, "0"), (right, str(total))):
            self.write(at, 252, words, ha="center")
        self.write(self.LEFT + self.WIDTH / 2, 252, "SGD step", ha="center", size=theme.TEXT_SIZE, color=theme.INK)
        for s in range(experts):
            x = self.LEFT + self.WIDTH * (s + 0.5) / experts
            self.head_at(x, 428, s, 13 if experts <= 5 else 9.5)
        self._shown_pins = []
        self._show_pins()

    def update(self, record: Frame, shown: int) -> None:
        ends = []
        for model in ("joint", "cnn"):
            values = record.accuracy(model)
            steps = record.steps / record.total
            lines = np.stack(np.broadcast_arrays(steps[:, None], values), axis=-1).swapaxes(0, 1)
            self.thin[model].set_segments([line for line in lines if np.isfinite(line).all()])
            middle = median(values)
            self.thick[model].set_data(steps, middle)
            ends.append(float(middle[-1]))
        places = theme.spread([end if np.isfinite(end) else 0.5 for end in ends], 0.145, 0.46, 0.96)
        for name, words, place, end in zip(("pMoE", "CNN"), self.names, places, ends, strict=True):
            self.say(words, place, name, percent(end))
        self._update_coverage(np.nan_to_num(record.joint["expert_coverage"][shown]))

    def _update_coverage(self, cover: NDArray[np.float64]) -> None:
        best = cover.max(axis=0)
        slot, wide = 1 / len(cover), 0.36 / len(cover)
        bars: list[NDArray[np.float64]] = []
        colours: list[str] = []
        for s, side in np.ndindex(*cover.shape):
            left, high = (s + 0.5) * slot + (side - 1) * wide, max(cover[s, side], SMALLEST_BAR)
            right = left + 0.94 * wide
            bars.append(np.array([(left, 0), (left, high), (right, high), (right, 0)]))
            strongest = cover[s, side] >= best[side] - 1e-9
            colours.append(theme.CLASSES[side] if strongest else theme.CLASSES_PALE[side])
        self.bars.set_verts(bars)
        self.bars.set_facecolor(colours)
        for side, place in enumerate(theme.spread(best.tolist(), 0.19, 0.08, 0.98)):
            words = f"{theme.CLASS_NAMES[side]} {percent(best[side])}"
            self.say(self.shares[side], place, words, size=theme.SMALL_SIZE)

    def pin(self, record: Frame) -> None:
        """Keeps the median curves up to a record."""
        self.unpin()
        for model, style in (("joint", theme.MODEL), ("cnn", theme.OTHER)):
            self._pinned.append((record.steps, median(record.accuracy(model)), style))
        self._show_pins()

    def _show_pins(self) -> None:
        for steps, values, style in self._pinned:
            (line,) = self.axes.plot(
                steps / self._total, values, color=style.colour, linewidth=1.4, linestyle=":", zorder=2.5
            )
            self.prop(line)
            self._shown_pins.append(line)
        if self._pinned:
            self._shown_pins.append(self.write(862, 65, "dotted: pinned"))

    def unpin(self) -> None:
        """Takes the kept curves away."""
        for artist in self._shown_pins:
            self.drop(artist)
        self._pinned, self._shown_pins = [], []


def percent(share: float) -> str:
    return f"{100 * share:.0f} %" if np.isfinite(share) else "–"


def median(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(records, trial) -> (records,), over the trials that have not diverged."""
    some = np.isfinite(values).any(1)
    result = np.full(len(values), np.nan)
    result[some] = np.nanmedian(values[some], axis=1)
    return result
