"""The phase-transition Lab's picture: the map that fills, the samples that each l needs, and why: coverage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.artist import Artist

from moe_lab import theme
from moe_lab.patch_routing.phase_live import PhaseRecord
from moe_lab_widgets.drawing.picture import Picture
from moe_lab_widgets.phase_transition.panels.coverage import Coverage
from moe_lab_widgets.phase_transition.panels.needed import FEWEST, MOST, NOTE, SMALL, Needed
from moe_lab_widgets.phase_transition.panels.success import Success
from moe_lab_widgets.phase_transition.record import samples_needed
from moe_lab_widgets.phase_transition.settings import Setting, setting_of


class PhasePicture(Picture):
    """See the module's text. `setting` is that of the latest run."""

    spans = ((0, 664), (664, 878), (878, 1100))

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(scale=scale)
        self.setting: Setting | None = None
        self.record: PhaseRecord | None = None
        self.success, self.needed, self.coverage = Success(self), Needed(self), Coverage(self)
        self._fixed: list[Artist] = []
        """Artists that depend on the setting."""

    def begin(self, values: dict[str, Any]) -> None:
        setting = setting_of(values)
        same = self.setting is not None and (setting.kept, setting.samples) == (self.setting.kept, self.setting.samples)
        self.success.map.keep(same)
        if setting != self.setting:
            self.setting = setting
            self._draw_setting(setting)
        self.needed.begin(values)

    def _draw_setting(self, setting: Setting) -> None:
        for artist in self._fixed:
            self.remove(artist)
        for panel in (self.success, self.needed, self.coverage):
            panel.set(setting)
        head: dict[str, Any] = {"color": theme.INK, "size": theme.TITLE_SIZE, "weight": "bold", "va": "center_baseline"}
        title = f"How often {setting.trained} succeeds"
        note = f"% of {setting.trials} trainings that reach 95 % test accuracy"
        if setting.trials > setting.first:
            note += f"   (small cell: {setting.first} have run; pale: the map before)"
        self._fixed = [
            self.figure.text(*theme.spot(self.figure, *place), words, **style)
            for words, place, style in ((title, (43, 24), head), (note, (26, NOTE), SMALL))
        ]
        if setting.l_star is not None and setting.l_star <= setting.kept[-1] + 1:
            self._draw_l_star(setting.l_star - 1.5, f"l* = {setting.l_star}")
        self.invalidate()

    def _draw_l_star(self, y: float, name: str) -> None:
        dashes: dict[str, Any] = {"color": theme.INK, "linewidth": 2, "linestyle": (0, (4, 2)), "clip_on": False}
        ends = self.success.axes.get_xlim()
        panels = (
            (self.success.axes, (ends[0], ends[1] + 0.08)),
            (self.needed.axes, (FEWEST, MOST)),
            (self.coverage.axes, (0, 1)),
        )
        for axes, (low, high) in panels:
            for style in ({"color": theme.PAPER, "linewidth": 5, "clip_on": False}, dashes):
                (line,) = axes.plot([low, high], [y, y], **style, zorder=3.5)
                self._fixed.append(self.name(self.live(line), {"name": name}))
        self._fixed.append(
            self.success.axes.text(
                ends[1] + 0.17, y, name, color=theme.INK, size=theme.TEXT_SIZE, weight="bold", va="center"
            )
        )

    def update(self, record: PhaseRecord) -> None:
        self.record = record
        needed, sure = samples_needed(record)
        self.success.update(record)
        self.needed.update(needed, sure)
        self.coverage.update(record)

    def pin(self, records: Sequence[PhaseRecord]) -> None:
        self.needed.pin(records[-1])

    def unpin(self) -> None:
        self.needed.unpin()
