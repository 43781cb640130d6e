"""The first panel of the phase-transition Lab's picture: the share of trainings that succeed, as a map of l and N."""

from __future__ import annotations

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab.patch_routing.phase_live import PhaseRecord
from moe_lab_widgets.drawing.lines import put
from moe_lab_widgets.drawing.picture import Picture
from moe_lab_widgets.phase_transition.panels.success_map import SuccessMap
from moe_lab_widgets.phase_transition.record import ENOUGH
from moe_lab_widgets.phase_transition.settings import Setting

MAP = (66, 84, 468, 296)
"""Left, top, width and height of the map; the other panels share its rows."""
INSET = 6.5
"""Pixels by which the 90 % line runs inside its rows, so that it never lies on the l* line."""


class Success:
    """The map with its 90 % line and its key."""

    def __init__(self, picture: Picture) -> None:
        left, top, width, height = MAP
        theme.header(picture.figure, 14, 1, "")
        self.axes = theme.axes(picture.figure, *MAP)
        for spine in self.axes.spines.values():
            spine.set_visible(False)
        self.axes.tick_params(length=0)
        self.axes.set_xlabel("N,  training samples", size=theme.TEXT_SIZE, color=theme.INK)
        self.axes.set_ylabel("l,  patches each expert keeps", size=theme.TEXT_SIZE, color=theme.INK)
        self.points = picture.live(SuccessMap(*MAP))
        steps = self.axes.plot([], [], color="white", linewidth=5, zorder=4, solid_joinstyle="miter", clip_on=False)
        steps += self.axes.plot(
            [], [], color=theme.FAILURE, linewidth=2.6, zorder=4.1, solid_joinstyle="miter", clip_on=False
        )
        self.steps = [picture.live(line) for line in steps]
        bar = theme.axes(picture.figure, left + width + 62, top, 12, height)
        picture.figure.colorbar(ScalarMappable(Normalize(0, 1), theme.RAMP), cax=bar)
        bar.set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
        bar.tick_params(colors=theme.MUTED, labelsize=theme.SMALL_SIZE, length=0)
        for spine in bar.spines.values():
            spine.set_visible(False)
        bar.axhline(ENOUGH, color=theme.FAILURE, linewidth=2.6)
        bar.text(1.45, ENOUGH, "90 %", color=theme.FAILURE, size=theme.SMALL_SIZE, weight="bold", va="center")

    def set(self, setting: Setting) -> None:
        """Names rows and columns."""
        rows, columns = len(setting.kept), len(setting.samples)
        self.axes.set_ylim(-0.5, rows - 0.5)
        self.axes.set_yticks(range(rows), [str(kept) for kept in setting.kept])
        self.axes.set_xlim(-0.5, columns - 0.5)
        self.axes.set_xticks(range(columns), [str(count) for count in setting.samples])

    def update(self, record: PhaseRecord, needed: NDArray[np.float64]) -> None:
        row = {kept: number for number, kept in enumerate(record.patches_per_expert)}
        column = {count: number for number, count in enumerate(record.samples)}
        counts, trials = record.counts, record.trials
        places = [(row[kept], column[count]) for kept, count in record.running]
        running = {place: f"{counts[place]}/{trials}" for place in places}
        self.points.set_points(record.share, counts / trials, running)
        self.update_steps(record, needed)

    def update_steps(self, record: PhaseRecord, needed: NDArray[np.float64]) -> None:
        """Draws the 90 % line, a little inside the grid points that it encloses."""
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
            put(line, xs, ys)
