"""The stuck-rate Lab's picture: a map for random starts, one for the spectral start, and who is stuck."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.artist import Artist

from moe_lab import theme
from moe_lab.recovery.gridlock.stuck_live import StuckRecord
from moe_lab_widgets.drawing.picture import Picture
from moe_lab_widgets.drawing.rate_map import RateMap
from moe_lab_widgets.stuck_rate.panels.stuck import NOTE, Stuck
from moe_lab_widgets.stuck_rate.settings import Setting, setting_of

RANDOM, SPECTRAL = (66, 84, 330, 296), (488, 84, 330, 296)
"""Left, top, width and height of the two maps."""


class StuckPicture(Picture):
    """See the module's text. `setting` is that of the latest run."""

    spans = ((0, 436), (436, 884), (884, 1100))

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(scale=scale)
        self.setting: Setting | None = None
        self.record: StuckRecord | None = None
        theme.header(self.figure, 14, 1, "From random starts")
        theme.header(self.figure, 446, 2, "From the spectral start")
        words = "n,  samples", "k,  experts", "from here on at least 90 % find all regressors"
        self.maps = [RateMap(self, place, *words) for place in (RANDOM, SPECTRAL)]
        self.maps[1].add_key(16)
        self.stuck = Stuck(self)
        self._notes: list[Artist] = []

    def begin(self, values: dict[str, Any]) -> None:
        setting, last = setting_of(values), self.setting
        for one in self.maps:
            one.keep(last is not None and (setting.experts, setting.samples) == (last.experts, last.samples))
        if setting == last:
            return
        self.setting = setting
        for note in self._notes:
            self.remove(note)
        names = [str(k) for k in setting.experts], [f"{n:,}" for n in setting.samples]
        parts = [f"k = {k}, n = {n}" for k in setting.experts for n in setting.samples]
        for one in self.maps:
            one.set(*names, parts)
        self.stuck.set(setting)
        style: dict[str, Any] = {"color": theme.MUTED, "size": theme.SMALL_SIZE}
        found = f"% of {setting.trials} starts that find all regressors"
        notes = (26, f"{setting.moved} of everything: {found}"), (458, f"then EM of everything: {found}")
        self._notes = [self.figure.text(*theme.spot(self.figure, x, NOTE + 6), words, **style) for x, words in notes]
        self.invalidate()

    def update(self, record: StuckRecord) -> None:
        self.record = record
        shares = record.share("found")
        for method, one, share, done in zip(record.methods, self.maps, shares, record.done, strict=True):
            running: dict[tuple[int, int], str] = {}
            if record.running is not None and record.running[0] == method:
                _, k, n = record.running
                running[record.experts.index(k), record.samples.index(n)] = "…"
            one.update(share, done.astype(float), running)
        self.stuck.update(record)

    def pin(self, records: Sequence[StuckRecord]) -> None:
        self.stuck.pin(records[-1])

    def unpin(self) -> None:
        self.stuck.unpin()
