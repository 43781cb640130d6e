"""The phase-transition Lab's picture: the map that fills, the samples that each l needs, and why: coverage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.ticker import NullLocator
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab.patch_routing.phase_live import PhaseRecord
from moe_lab_widgets.drawing.picture import Picture
from moe_lab_widgets.phase_transition.map import CellMap
from moe_lab_widgets.phase_transition.settings import KNOBS, Setting, setting_of

ENOUGH = 0.9
"""The share of trainings that must succeed: the 90 % line."""
MAP = (66, 84, 468, 296)
"""Left, top, width and height of the map; the other panels share its rows."""
NEEDED_LEFT, NEEDED_WIDTH = 716, 140
COVER_LEFT, COVER_WIDTH = 914, 158
FEWEST, MOST = 17, 1000
"""Limits of the axis of samples needed, the same for every setting, so that pinned curves compare."""
EDGE = 930
"""Where the triangles stand that say "more than the largest N"."""
NOTE = 55
"""Where the notes below the headers stand: their baseline, in pixels from the top."""
SMALL: dict[str, Any] = {"color": theme.MUTED, "size": theme.SMALL_SIZE}
INSET = 6.5
"""Pixels by which the 90 % line runs inside its rows, so that it never lies on the l* line."""


def samples_needed(record: PhaseRecord) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The fewest samples from which on at least 90 % of the trainings succeed, for every l.

    Returns:
      (l,) N, infinite where the largest N is not enough, NaN where too little has run to say; and (l,) whether all of
      that row's cells are complete.
    """
    needed = np.full(len(record.patches_per_expert), np.nan)
    for row, shares in enumerate(record.share):
        run = np.flatnonzero(np.isfinite(shares))
        if not len(run):
            continue
        failing = run[shares[run] < ENOUGH - 1e-9]
        first = 0 if not len(failing) else failing[-1] + 1
        if first < len(shares) and np.isfinite(shares[first]):
            needed[row] = record.samples[first]
        elif first == len(shares):
            needed[row] = np.inf
    return needed, np.asarray(record.complete.all(axis=1))


def coverage_at(record: PhaseRecord) -> tuple[int | None, NDArray[np.float64]]:
    """The largest N that has run at every l, and (l, 3) the 10 %, 50 % and 90 % points of coverage there."""
    levels = np.full((len(record.patches_per_expert), 3), np.nan)
    known = np.flatnonzero(np.isfinite(record.coverage).any(-1).all(0))
    if not len(known):
        return None, levels
    levels[:] = np.nanquantile(record.coverage[:, known[-1]], (0.1, 0.5, 0.9), axis=-1).T
    return record.samples[known[-1]], levels


class PhasePicture(Picture):
    """See the module's text. `setting` is that of the latest run."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(scale=scale)
        self.setting: Setting | None = None
        self.record: PhaseRecord | None = None
        self._set: list[Artist] = []
        self._values: dict[str, Any] = {}
        self._pinned: tuple[dict[str, Any], tuple[int, ...], NDArray[np.float64]] | None = None
        self._pinned_artists: list[Artist] = []
        self._pin_changed = False
        left, top, width, height = MAP
        theme.header(self.figure, 14, 1, "")
        theme.header(self.figure, NEEDED_LEFT - 42, 2, "Samples needed")
        theme.header(self.figure, COVER_LEFT - 26, 3, "Why: coverage")
        self.figure.text(*theme.spot(self.figure, NEEDED_LEFT - 30, NOTE), "N from which on ≥ 90 %", **SMALL)
        self.map = theme.axes(self.figure, left, top, width, height)
        self.needed = theme.axes(self.figure, NEEDED_LEFT, top, NEEDED_WIDTH, height, xscale="log", xlim=(FEWEST, MOST))
        self.cover = theme.axes(self.figure, COVER_LEFT, top, COVER_WIDTH, height, xlim=(0, 1))
        self._make_map()
        self._make_needed()
        self._make_cover()

    # ---- what is always there ----

    def _make_map(self) -> None:
        for spine in self.map.spines.values():
            spine.set_visible(False)
        self.map.tick_params(length=0)
        self.map.set_xlabel("N,  training samples", size=theme.TEXT_SIZE, color=theme.INK)
        self.map.set_ylabel("l,  patches each expert keeps", size=theme.TEXT_SIZE, color=theme.INK)
        self.cells = self.live(CellMap(*MAP))
        steps = self.map.plot([], [], color="white", linewidth=5, zorder=4, solid_joinstyle="miter", clip_on=False)
        steps += self.map.plot(
            [], [], color=theme.FAILURE, linewidth=2.6, zorder=4.1, solid_joinstyle="miter", clip_on=False
        )
        self.steps = [self.live(line) for line in steps]
        left, top, width, height = MAP
        bar = theme.axes(self.figure, left + width + 62, top, 12, height)
        self.figure.colorbar(ScalarMappable(Normalize(0, 1), theme.RAMP), cax=bar)
        bar.set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
        bar.tick_params(colors=theme.MUTED, labelsize=theme.SMALL_SIZE, length=0)
        for spine in bar.spines.values():
            spine.set_visible(False)
        bar.axhline(ENOUGH, color=theme.FAILURE, linewidth=2.6)
        bar.text(1.45, ENOUGH, "90 %", color=theme.FAILURE, size=theme.SMALL_SIZE, weight="bold", va="center")

    def _make_needed(self) -> None:
        self.needed.xaxis.set_minor_locator(NullLocator())
        self.needed.set_xticks([20, 60, 200, 600], ["20", "60", "200", "600"])
        self.needed.tick_params(axis="y", length=0)
        self.needed.grid(axis="x", color=theme.RULE, linewidth=0.5)
        self.needed.set_axisbelow(True)
        style: dict[str, Any] = {"color": theme.FAILURE, "markersize": 7, "zorder": 4, "clip_on": False}
        edge: dict[str, Any] = {"markeredgecolor": theme.FAILURE, "markeredgewidth": 1.6, "linestyle": "none"}
        (line,) = self.needed.plot([], [], linewidth=2.4, **style)
        (sure,) = self.needed.plot([], [], "o", **edge, **style)
        (maybe,) = self.needed.plot([], [], "o", **edge, **{**style, "color": theme.PAPER})
        (beyond,) = self.needed.plot([], [], ">", **edge, **{**style, "color": theme.PAPER, "markersize": 9})
        self.line, self.sure, self.maybe, self.beyond = (self.live(one) for one in (line, sure, maybe, beyond))

    def _make_cover(self) -> None:
        self.cover.set_xlabel("coverage  (ink: 10–90 %)", size=theme.TEXT_SIZE, color=theme.INK)
        self.cover.set_xticks([0, 0.5, 1], ["0", "50 %", "100 %"])
        self.cover.tick_params(axis="y", length=0)
        teal = theme.RAMP(0.6)
        self.bars = LineCollection([], colors=[teal], zorder=2, capstyle="butt")
        self.spans = LineCollection([], colors=theme.INK, linewidths=2, zorder=3, clip_on=False)
        for bars in (self.bars, self.spans):
            self.cover.add_collection(bars)
            self.live(bars)
        self.where = self.live(self.figure.text(*theme.spot(self.figure, COVER_LEFT - 14, NOTE), "", **SMALL))

    # ---- what changes with a slider ----

    def begin(self, values: dict[str, Any]) -> None:
        setting = setting_of(values)
        if setting != self.setting:
            self.setting = setting
            self._draw_setting(setting)
        self._values, self._pin_changed = values, True

    def _draw_setting(self, setting: Setting) -> None:
        for artist in self._set:
            self.still(artist)
        self._set = []
        rows, columns = len(setting.kept), len(setting.samples)
        for axes in (self.map, self.needed, self.cover):
            axes.set_ylim(-0.5, rows - 0.5)
            axes.set_yticks(range(rows), [str(kept) for kept in setting.kept])
        self.map.set_xlim(-0.5, columns - 0.5)
        self.map.set_xticks(range(columns), [str(count) for count in setting.samples])
        self.bars.set_linewidth(0.62 * MAP[3] / rows * 72 / theme.BASE_DPI)
        head: dict[str, Any] = {"color": theme.INK, "size": theme.TITLE_SIZE, "weight": "bold", "va": "center_baseline"}
        title = f"How often {setting.trained} succeeds"
        note = f"% of {setting.trials} trainings that reach 95 % test accuracy"
        if setting.trials > setting.look:
            note += f"   (small cell: {setting.look} have run)"
        for words, place, style in ((title, (43, 24), head), (note, (26, NOTE), SMALL)):
            self._set.append(self.figure.text(*theme.spot(self.figure, *place), words, **style))
        beyond = f"N needed\n▷ more than {setting.samples[-1]}"
        self.needed.set_xlabel(beyond, size=theme.TEXT_SIZE, color=theme.INK, linespacing=1.1, labelpad=2)
        if setting.l_star is not None and setting.l_star <= setting.kept[-1] + 1:
            self._draw_l_star(setting.l_star - 1.5, f"l* = {setting.l_star}")
        self.invalidate()

    def _draw_l_star(self, y: float, name: str) -> None:
        dashes: dict[str, Any] = {"color": theme.INK, "linewidth": 2, "linestyle": (0, (4, 2)), "clip_on": False}
        ends = self.map.get_xlim()
        panels = ((self.map, (ends[0], ends[1] + 0.08)), (self.needed, (FEWEST, MOST)), (self.cover, (0, 1)))
        for axes, (low, high) in panels:
            for style in ({"color": theme.PAPER, "linewidth": 5, "clip_on": False}, dashes):
                (line,) = axes.plot([low, high], [y, y], **style, zorder=3.5)
                self._set.append(self.live(line))
        self._set.append(
            self.map.text(ends[1] + 0.17, y, name, color=theme.INK, size=theme.TEXT_SIZE, weight="bold", va="center")
        )

    # ---- a frame ----

    def update(self, record: PhaseRecord) -> None:
        self.record = record
        if self._pin_changed:
            self._draw_pinned()
        place = {kept: row for row, kept in enumerate(record.patches_per_expert)}
        column = {count: number for number, count in enumerate(record.samples)}
        counts, trials = record.counts, record.trials
        running = {
            (place[kept], column[count]): f"{counts[place[kept], column[count]]}/{trials}"
            for kept, count in record.running
        }
        self.cells.set_cells(record.share, counts / trials, running)
        needed, sure = samples_needed(record)
        self._update_steps(record, needed)
        rows = np.arange(len(needed))
        found, over = np.isfinite(needed), np.isinf(needed)
        edge = np.where(over, EDGE, needed)
        self.line.set_data(np.where(over, np.nan, needed), rows)
        for line, chosen in ((self.sure, found & sure), (self.maybe, found & ~sure), (self.beyond, over)):
            line.set_data(edge[chosen], rows[chosen])
        count, levels = coverage_at(record)
        self.where.set_text("" if count is None else f"worse class, N = {count}")
        some = [(row, *levels[row]) for row in rows if np.isfinite(levels[row, 1])]
        self.bars.set_segments([[(0, row), (middle, row)] for row, _, middle, _ in some])
        self.spans.set_segments([[(low, row), (high, row)] for row, low, _, high in some if high - low > 0.01])

    def _update_steps(self, record: PhaseRecord, needed: NDArray[np.float64]) -> None:
        """The 90 % line, a little inside the cells that it encloses."""
        across, down = 0.5 * INSET * len(record.samples) / MAP[2], INSET * len(needed) / MAP[3]
        xs, ys = [], []
        for row, count in enumerate(needed):
            if np.isnan(count):
                xs.append(np.nan)
                ys.append(float(row))
                continue
            x = (len(record.samples) if np.isinf(count) else record.samples.index(int(count))) - 0.5 + across
            before = xs[-1] if xs else np.nan
            low, high = row - 0.5, row + 0.5
            if np.isfinite(before) and before != x:
                # the horizontal part lies inside the row that succeeds there
                shift = -down if x > before else down
                ys[-1] += shift
                low += shift
            xs += [x, x]
            ys += [low, high]
        for line in self.steps:
            line.set_data(xs, ys)

    # ---- pinned ----

    def pin(self, records: Sequence[PhaseRecord]) -> None:
        record = records[-1]
        self._pinned = (self._values, record.patches_per_expert, samples_needed(record)[0])
        self._pin_changed = True  # drawn with the next frame: this may be another thread than the one that draws

    def unpin(self) -> None:
        self._pinned, self._pin_changed = None, True

    def _draw_pinned(self) -> None:
        self._pin_changed = False
        if not self._pinned_artists and self._pinned is None:
            return
        for artist in self._pinned_artists:
            artist.remove()
        self._pinned_artists = []
        if self._pinned is not None:
            before, kept, needed = self._pinned
            rows, beyond = np.array(kept) - 1, np.isinf(needed)
            style: dict[str, Any] = {"color": theme.REFERENCE, "linewidth": 1.8, "zorder": 2}
            self._pinned_artists += self.needed.plot(
                np.where(beyond, np.nan, needed), rows, "s--", markersize=5, **style
            )
            self._pinned_artists += self.needed.plot(
                np.full(beyond.sum(), EDGE), rows[beyond], ">", markersize=9, **style
            )
            place = theme.spot(self.figure, NEEDED_LEFT - 30, NOTE + 17)
            self._pinned_artists.append(self.figure.text(*place, f"grey: {pinned_name(before, self._values)}", **SMALL))
        self.invalidate()


def pinned_name(before: dict[str, Any], now: dict[str, Any]) -> str:
    """What tells a pinned map from the present one: the knob that differs, where it is only one."""
    different = [name for name in before if before[name] != now.get(name)]
    if len(different) != 1:
        return "pinned"
    symbols = {knob.name: knob.symbol for knob in KNOBS}
    value = before[different[0]]
    if isinstance(value, str):
        return value
    if different == ["distractors"]:
        return f"l* = {value + 1}"
    return f"{symbols.get(different[0], different[0])} = {value:g}"
