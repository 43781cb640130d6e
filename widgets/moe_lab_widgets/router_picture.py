"""The router-alignment Lab's picture: where routers point, what each expert receives, what comes out.

Three layers: a stage that never changes (headers, axes), a set that changes with a slider (the ellipse, the experts'
heads, the example patches), and the live artists. So a moved slider draws the few parts of the set, not the whole figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D
from numpy.typing import NDArray

from moe_lab import look
from moe_lab.datasets import digits
from moe_lab.patch_routing import DigitTask, PatternTask
from moe_lab_widgets.picture import Picture, Strip
from moe_lab_widgets.router_record import Frame
from moe_lab_widgets.router_settings import task_of, total_steps
from moe_lab_widgets.router_tiles import Layout, Tiles, arrange, digit_faces, pattern_faces

TILES_LEFT, TILES_WIDTH = 374, 438
BANDS_TOP, BANDS_HEIGHT, CLASS_HEIGHT = 90, 148, 189
OUT_LEFT, OUT_WIDTH = 889, 135
LOWEST_ACCURACY = 0.4


class RouterPicture(Picture):
    """See the module's text. `shown` is the trial whose routers and patches are on show, counted from 0."""

    shown = 0

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(scale=scale)
        self.scale = scale
        self._stage: Any = None
        self._set: list[Artist] = []
        self._key: Any = None
        self.overlap = 0.0
        self._tiles: list[Tiles] | None = None
        self._layout: Layout | None = None
        self._pinned: list[Artist] = []
        self._make_plane()
        self._make_patches()
        self._make_outcome()
        self._heads: list[tuple[Line2D, Line2D]] = []
        self.trails: list[Line2D] = []

    # ---- the stage and the live artists that are always there ----

    def _make_plane(self) -> None:
        look.header(
            self.figure,
            14,
            1,
            "Where routers point",
            "cosine between each router w and the two\npatches that decide the class",
        )
        self.plane = axes = look.axes(self.figure, 58, 92, 268, 282, xlim=(-1.12, 1.2), ylim=(-1.17, 1.27))
        axes.set_aspect("equal", anchor="NW")
        axes.set_xticks([-1, 0, 1])
        axes.set_yticks([-1, 0, 1])
        for draw in (axes.axhline, axes.axvline):
            draw(0, color=look.RULE, linewidth=0.8, zorder=1.5)
        (self.others,) = axes.plot(
            [], [], "o", color=look.REFERENCE, markersize=2.8, alpha=0.75, zorder=3, markeredgewidth=0
        )
        self.live(self.others)

    def _make_patches(self) -> None:
        look.header(self.figure, 340, 2, "What each expert receives")
        self.strips = [self.live(Strip(TILES_LEFT, self._band_top(side))) for side in range(2)]
        line: dict[str, Any] = {
            "linestyle": "none",
            "transform": self.figure.transFigure,
            "markeredgewidth": 0,
            "zorder": 4,
        }
        self.ticks, self.crosses, self.pointers = [], [], []
        for side, colour in enumerate(look.CLASSES):
            self.ticks.append(self.live(Line2D([], [], marker=glyph("✔"), markersize=15, color=colour, **line)))
            self.crosses.append(
                self.live(Line2D([], [], marker=glyph("✗"), markersize=9, color=look.REFERENCE, alpha=0.8, **line))
            )
            self.pointers.append(
                self.live(
                    Line2D([], [], marker=glyph("▲ " + look.CLASS_NAMES[side]), markersize=27, color=colour, **line)
                )
            )

    def _make_outcome(self) -> None:
        look.header(self.figure, 850, 3, "What comes out")
        self.accuracy = axes = look.axes(
            self.figure, OUT_LEFT, 80, OUT_WIDTH, 160, xlim=(0, 1), ylim=(LOWEST_ACCURACY, 1.01)
        )
        axes.set_yticks([0.5, 0.75, 1], ["50 %", "75 %", "100 %"])
        axes.set_xticks([0, 1], ["", ""])
        axes.axhline(0.5, color=look.RULE, linewidth=0.8)
        axes.text(0.98, 0.492, "guessing", color=look.MUTED, size=look.SMALL_SIZE, ha="right", va="top")
        thin: dict[str, Any] = {"linewidths": 0.6, "alpha": 0.45}
        self.thin = {
            "cnn": self.live(
                axes.add_collection(LineCollection([], colors=look.OTHER.colour, linestyles="--", zorder=2, **thin))
            ),
            "joint": self.live(axes.add_collection(LineCollection([], colors=look.MODEL.colour, zorder=2.1, **thin))),
        }
        self.thick = {
            "cnn": self.live(axes.plot([], [], color=look.OTHER.colour, linewidth=2, dashes=(3, 1.5), zorder=3)[0]),
            "joint": self.live(axes.plot([], [], color=look.MODEL.colour, linewidth=2.6, zorder=3.1)[0]),
        }
        self.names = [self._live_text(axes, style.colour) for style in (look.MODEL, look.OTHER)]
        note = "coverage in trial 1: % of test\nsamples whose o gets there"
        self.figure.text(
            *look.spot(self.figure, 862, 278), note, color=look.MUTED, size=look.SMALL_SIZE, va="top", linespacing=1.35
        )
        self.cover = axes = look.axes(self.figure, OUT_LEFT, 318, OUT_WIDTH, 96, xlim=(0, 1), ylim=(0, 1.04))
        axes.set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
        axes.set_xticks([])
        for height in (0.5, 1):
            axes.axhline(height, color=look.RULE, linewidth=0.6, zorder=0.5)
        self.bars = self.live(axes.add_collection(PolyCollection([], linewidths=0, zorder=2)))
        self.shares = [self._live_text(axes, colour, look.SMALL_SIZE) for colour in look.CLASSES]

    def _live_text(self, axes: Any, colour: str, size: float = look.TEXT_SIZE) -> Any:
        made = axes.text(
            1.04, 0, "", color=colour, size=size, weight="bold", va="center", clip_on=False, linespacing=1.1
        )
        return self.live(made)

    # ---- the set: what changes with a slider ----

    def begin(self, values: dict[str, Any]) -> None:
        task, total = task_of(values), total_steps(values)
        signals = task.signals((self.shown,), values["seed"])[0]
        self.overlap = float(signals[0] @ signals[1])
        key = (
            task.patches, values["experts"], values["patches_per_expert"], values["trials"], total,
            round(self.overlap, 4), isinstance(task, DigitTask) and task.digits,
        )  # fmt: skip
        self._task, self._tiles, self._total = task, None, total
        if key == self._key:
            return
        self._key = key
        for artist in self._set:
            artist.remove()
        for artist in [*self.trails, *(part for head in self._heads for part in head)]:
            self.still(artist)
        self._set = []
        experts = values["experts"]
        names = [f"digit {d}" for d in task.digits] if isinstance(task, DigitTask) else ["pattern o₁", "pattern o₂"]
        self._layout = arrange(task.patches, experts, TILES_WIDTH, BANDS_HEIGHT, self.scale)
        self._set_plane(self.overlap, names, values["trials"])
        self._set_patches(names, experts, values["patches_per_expert"])
        self._set_outcome(values["trials"], experts)
        trail = {"linewidth": 2.4 if experts <= 4 else 1.6, "markersize": 4.5, "marker": "o", "markevery": [-1]}
        self.trails = [
            self.live(
                self.plane.plot([], [], color=look.expert(s).colour, zorder=4, solid_joinstyle="round", **trail)[0]
            )
            for s in range(experts)
        ]
        self._heads = [look.expert_head(self.plane, s, 14 if experts <= 4 else 12) for s in range(experts)]
        for artist in (part for head in self._heads for part in head):
            artist.set_clip_on(False)
            self.live(artist)
        self.invalidate()

    def _place(self, artist: Artist) -> None:
        artist.set_animated(True)
        self._set.append(artist)

    def _write(self, x: float, y: float, words: str, **style: Any) -> None:
        given = {"size": look.SMALL_SIZE, "color": look.MUTED, "va": "center", **style}
        self._place(self.figure.text(*look.spot(self.figure, x, y), words, **given))

    def _set_plane(self, overlap: float, names: Sequence[str], trials: int) -> None:
        axes, angle = self.plane, float(np.arccos(np.clip(overlap, -1, 1)))
        turn = np.linspace(angle / 2 - np.pi, angle / 2, 60)
        for side, phi in enumerate((turn, turn + np.pi)):
            (half,) = axes.fill(np.cos(phi), np.cos(phi - angle), color=look.CLASSES_TINT[side], linewidth=0, zorder=1)
            self._place(half)
        phi = np.linspace(0, 2 * np.pi, 160)
        (rim,) = axes.plot(np.cos(phi), np.cos(phi - angle), color=look.REFERENCE, linewidth=1, zorder=2)
        self._place(rim)
        for side, (x, y) in enumerate(((1.0, overlap), (overlap, 1.0))):
            (star,) = axes.plot(
                x, y, "*", color=look.CLASSES[side], markersize=15, markeredgecolor="white", zorder=2.5, clip_on=False
            )
            self._place(star)
            away = {"ha": "left", "va": "center"} if side == 0 else {"ha": "center", "va": "bottom"}
            apart = 0.15 if overlap > 0.5 else 0  # near twins: their names part, so that heads hide neither
            dx, dy = ((0.09, -apart), (-1.4 * apart, 0.09))[side]
            style = {"color": look.CLASSES[side], "size": look.TITLE_SIZE, "weight": "bold", **away}
            self._place(axes.text(x + dx, y + dy, look.CLASS_NAMES[side], zorder=2.5, **style))
        colours = {"size": look.TEXT_SIZE, "ha": "center"}
        self._write(192, 408, f"cos(w, o₁)   → looks for {names[0]}", **{**colours, "color": look.CLASSES[0]})
        self._write(
            22, 233, f"cos(w, o₂)   → looks for {names[1]}", rotation=90, **{**colours, "color": look.CLASSES[1]}
        )
        others = f"trial {self.shown + 1}; grey dots: {trials - 1} other trial{'s' * (trials > 2)}" if trials > 1 else "one trial"
        self._write(192, 430, others, ha="center")

    def _set_patches(self, names: Sequence[str], experts: int, kept: int) -> None:
        layout = self._layout
        assert layout is not None
        plural = "" if kept == 1 else "es"
        self._write(352, 50, f"framed: the l = {kept} patch{plural} of an example that each expert scores highest")
        size = 14 if layout.band / self.scale > 24 else 11
        for side in range(2):
            top = self._band_top(side)
            title = f"class {look.CLASS_SIGNS[side]}:  one patch is {look.CLASS_NAMES[side]} ({names[side]})"
            self._write(352, top - 14, title, color=look.CLASSES[side], size=look.TEXT_SIZE, weight="bold")
            for s in range(experts):
                self._head_at(*look.spot(self.figure, 358, top + layout.middle(s) / self.scale), s, size)

    def _head_at(self, x: float, y: float, number: int, size: float) -> None:
        style = look.expert(number)
        common: dict[str, Any] = {"linestyle": "none", "transform": self.figure.transFigure}
        shape = Line2D([x], [y], marker=style.marker, markersize=size, color=style.colour, markeredgewidth=0, **common)
        digit = Line2D(
            [x], [y], marker=f"${number + 1}$", markersize=0.5 * size, color=style.on, markeredgewidth=0.3, **common
        )
        for artist in (shape, digit):
            self.figure.add_artist(artist)
            self._place(artist)

    def _set_outcome(self, trials: int, experts: int) -> None:
        self._write(862, 50, f"test accuracy, {trials} trial{'s each' if trials > 1 else ' each'}")
        for x, words, align in ((OUT_LEFT, "0", "center"), (OUT_LEFT + OUT_WIDTH, f"{self._total}", "center")):
            self._write(x, 252, words, ha=align)
        self._write(OUT_LEFT + OUT_WIDTH / 2, 252, "SGD step", ha="center", size=look.TEXT_SIZE, color=look.INK)
        for s in range(experts):
            x = OUT_LEFT + OUT_WIDTH * (s + 0.5) / experts
            self._head_at(*look.spot(self.figure, x, 428), s, 13 if experts <= 5 else 9.5)

    @staticmethod
    def _band_top(side: int) -> int:
        return BANDS_TOP + side * CLASS_HEIGHT

    # ---- a frame ----

    def update(self, record: Frame) -> None:
        if self._tiles is None:
            self._begin_tiles(record)
        self._update_plane(record)
        self._update_patches(record)
        self._update_outcome(record)

    def _update_plane(self, record: Frame) -> None:
        paths = record.alignment()
        now = paths[-1]
        rest = np.delete(now, self.shown, axis=0).reshape(-1, 2)
        self.others.set_data(rest[:, 0], rest[:, 1])
        own = paths[:, self.shown]
        own = own[np.isfinite(own).all((1, 2))]
        if len(self.trails) > 4:
            own = own[-25:]
        here = own[-1] if len(own) else np.full((len(self.trails), 2), np.nan)
        heads = look.push_apart(here, 0.2 if len(self.trails) <= 4 else 0.17, rounds=20)
        for s, (trail, head) in enumerate(zip(self.trails, self._heads, strict=True)):
            trail.set_data(own[:, s, 0], own[:, s, 1])
            for part in head:
                part.set_data(heads[s : s + 1, 0], heads[s : s + 1, 1])

    def _begin_tiles(self, record: Frame) -> None:
        """The example patches' faces; they stay the same for a whole run."""
        assert self._layout is not None
        self._tiles = []
        patches, roles, sides = (record.joint[f"example_{name}"][self.shown] for name in ("patches", "roles", "sides"))
        for side in range(2):
            if isinstance(self._task, PatternTask):
                faces = pattern_faces(roles[side], sides[side], self._layout.cell, self._task.noise)
            else:
                faces = digit_faces(patches[side].astype(float), self._layout.cell, *_mean_digit())
            signal = int(np.flatnonzero(roles[side] == 0)[0])
            self._tiles.append(Tiles(self._layout, faces, signal, side))

    def _update_patches(self, record: Frame) -> None:
        assert self._tiles is not None and self._layout is not None
        chosen = np.nan_to_num(record.joint["example_kept"][self.shown]).astype(bool)  # (class, expert, patch)
        for side, tiles in enumerate(self._tiles):
            self.strips[side].set_pixels(tiles.pixels(chosen[side]))
            top = self._band_top(side)
            received = chosen[side][:, tiles.signal]
            places = [
                look.spot(self.figure, TILES_LEFT + TILES_WIDTH + 16, top + tiles.layout.middle(s) / self.scale)
                for s in range(len(received))
            ]
            for line, wanted in ((self.ticks[side], received), (self.crosses[side], ~received)):
                picked = [place for place, takes in zip(places, wanted, strict=True) if takes]
                line.set_data([x for x, _ in picked], [y for _, y in picked])
            left, _ = tiles.layout.corner(0, tiles.signal)
            x = TILES_LEFT + (left + tiles.layout.cell / 2) / self.scale + 7
            self.pointers[side].set_data(
                *([part] for part in look.spot(self.figure, x, top + tiles.layout.height / self.scale + 12))
            )

    def _update_outcome(self, record: Frame) -> None:
        steps = record.steps / self._total
        ends = []
        for model in ("joint", "cnn"):
            values = record.accuracy(model)
            lines = np.stack(np.broadcast_arrays(steps[:, None], values), axis=-1).swapaxes(0, 1)
            self.thin[model].set_segments([line for line in lines if np.isfinite(line).all()])
            middle = median(values)
            self.thick[model].set_data(steps, middle)
            ends.append(float(middle[-1]))
        for name, text, place, end in zip(
            ("pMoE", "CNN"), self.names, look.spread(ends, 0.145, 0.46, 0.96), ends, strict=True
        ):
            text.set_text(f"{name}\n{percent(end)}")
            text.set_y(place)
        cover = record.joint["expert_coverage"][self.shown]
        best = np.nanmax(cover, axis=0, initial=0)
        slot, wide = 1 / len(cover), 0.36 / len(cover)
        bars, colours = [], []
        for s, side in np.ndindex(*cover.shape):
            left, high = (s + 0.5) * slot + (side - 1) * wide, max(np.nan_to_num(cover[s, side]), 0.015)
            bars.append([(left, 0), (left, high), (left + wide * 0.94, high), (left + wide * 0.94, 0)])
            colours.append(look.CLASSES[side] if cover[s, side] >= best[side] - 1e-9 else look.CLASSES_PALE[side])
        self.bars.set_verts(bars)
        self.bars.set_facecolor(colours)
        for side, (text, place) in enumerate(zip(self.shares, look.spread(best.tolist(), 0.19, 0.08, 0.98), strict=True)):
            text.set_text(f"{look.CLASS_NAMES[side]} {percent(best[side])}")
            text.set_y(place)

    # ---- pinned curves ----

    def pin(self, records: Sequence[Frame]) -> None:
        self.unpin()
        last = records[-1]
        for model, style in (("joint", look.MODEL), ("cnn", look.OTHER)):
            drawn = self.accuracy.plot(
                last.steps / self._total,
                median(last.accuracy(model)),
                color=style.colour,
                linewidth=1.4,
                linestyle=":",
                zorder=2.5,
            )
            self._pinned += drawn
            for line in drawn:
                line.set_animated(True)
        x, y = OUT_LEFT + OUT_WIDTH - 2, 224
        note = self.figure.text(
            *look.spot(self.figure, x, y),
            "dotted: pinned",
            color=look.MUTED,
            size=look.SMALL_SIZE,
            ha="right",
            animated=True,
        )
        self._pinned.append(note)
        self.invalidate()

    def unpin(self) -> None:
        for artist in self._pinned:
            artist.remove()
        self._pinned = []
        self.invalidate()

    # ---- three layers ----

    def _pixels(self) -> NDArray[np.uint8]:
        if self._stage is None:
            self.canvas.draw()
            self._stage = self.canvas.copy_from_bbox(self.figure.bbox)
        renderer = self.canvas.get_renderer()
        if self._background is None:
            self.canvas.restore_region(self._stage)
            for artist in sorted([*self._set, *self._pinned], key=lambda one: one.get_zorder()):
                artist.draw(renderer)
            self._background = self.canvas.copy_from_bbox(self.figure.bbox)
        else:
            self.canvas.restore_region(self._background)
        for artist in self._live:
            artist.draw(renderer)
        return np.asarray(self.canvas.buffer_rgba())


def percent(share: float) -> str:
    return f"{100 * share:.0f} %" if np.isfinite(share) else "–"


def median(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(records, trial) -> (records,), over the trials that have not diverged."""
    some = np.isfinite(values).any(1)
    result = np.full(len(values), np.nan)
    result[some] = np.nanmedian(values[some], axis=1)
    return result


@lru_cache(maxsize=16)
def glyph(words: str) -> Path:
    """Words as a marker, centred: it costs a tenth of a Text."""
    path = TextPath((0, 0), words, size=1, prop=FontProperties(family="DejaVu Sans", weight="bold"))
    box = path.get_extents()
    scale = Affine2D().translate(-(box.x0 + box.x1) / 2, -(box.y0 + box.y1) / 2).scale(1 / max(box.width, box.height))
    return scale.transform_path(path)


@lru_cache(maxsize=1)
def _mean_digit() -> tuple[NDArray[np.float64], float]:
    """The mean of the 8x8 digits, which their preparation takes away, and the usual norm of what is left."""
    images = digits.load().images
    images = images.reshape(len(images), -1)
    mean = images.mean(axis=0)
    return mean, float(np.linalg.norm(images - mean, axis=1).mean())
