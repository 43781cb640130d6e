"""The third panel of the phase-transition Lab's picture: coverage, which explains the map."""

from __future__ import annotations

import numpy as np
from matplotlib.collections import LineCollection

from moe_lab import theme
from moe_lab.patch_routing.phase_live import PhaseRecord
from moe_lab_widgets.drawing.lines import put_segments
from moe_lab_widgets.drawing.picture import Picture
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.phase_transition.panels.needed import NOTE
from moe_lab_widgets.phase_transition.panels.success import MAP
from moe_lab_widgets.phase_transition.record import coverage_at
from moe_lab_widgets.phase_transition.settings import Setting

LEFT, WIDTH = 914, 158


class Coverage:
    """Median and spread of coverage at the largest N that has run, for each l."""

    def __init__(self, picture: Picture) -> None:
        theme.header(picture.figure, LEFT - 26, 3, "Why: coverage")
        self.axes = theme.axes(picture.figure, LEFT, MAP[1], WIDTH, MAP[3], xlim=(0, 1))
        self.axes.set_xlabel("coverage  (ink: 10–90 %)", size=theme.TEXT_SIZE, color=theme.INK)
        self.axes.set_xticks([0, 0.5, 1], ["0", "50 %", "100 %"])
        self.axes.tick_params(axis="y", length=0)
        teal = theme.RAMP(0.6)
        self.bars = LineCollection([], colors=[teal], zorder=2, capstyle="butt")
        self.spans = LineCollection([], colors=theme.INK, linewidths=2, zorder=3, clip_on=False)
        for bars in (self.bars, self.spans):
            self.axes.add_collection(bars)
            picture.live(bars)
        self.where = picture.live(Sheet())

    def set(self, setting: Setting) -> None:
        """Names rows."""
        rows = len(setting.kept)
        self.axes.set_ylim(-0.5, rows - 0.5)
        self.axes.set_yticks(range(rows), [str(kept) for kept in setting.kept])
        self.bars.set_linewidth(0.62 * MAP[3] / rows * 72 / theme.BASE_DPI)

    def update(self, record: PhaseRecord) -> None:
        count, levels = coverage_at(record)
        with self.where.anew() as where:
            if count is not None:
                where.write(LEFT - 14, NOTE - 4, f"worse class, N = {count}", colour=theme.MUTED)
        some = [(row, *level) for row, level in enumerate(levels) if np.isfinite(level[1])]
        put_segments(self.bars, [[(0, row), (middle, row)] for row, _, middle, _ in some])
        ranges = [[(low, row), (high, row)] for row, low, _, high in some if high - low > 0.01]
        put_segments(self.spans, ranges)
