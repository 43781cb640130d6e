"""The first panel of the phase-transition Lab's picture: the share of trainings that succeed, as a map of l and N."""

from __future__ import annotations

from moe_lab import theme
from moe_lab.patch_routing.phase_live import PhaseRecord
from moe_lab_widgets.drawing.picture import Picture
from moe_lab_widgets.drawing.rate_map import RateMap
from moe_lab_widgets.phase_transition.settings import Setting

MAP = (66, 84, 468, 296)
"""Left, top, width and height of the map; the other panels share its rows."""


class Success:
    """The map with its 90 % line and its key."""

    def __init__(self, picture: Picture) -> None:
        theme.header(picture.figure, 14, 1, "")
        up = "l,  patches each expert keeps"
        self.map = RateMap(picture, MAP, "N,  training samples", up, "from here on at least 90 % succeed")
        self.map.add_key(62)
        self.axes = self.map.axes

    def set(self, setting: Setting) -> None:
        """Names rows and columns."""
        parts = [f"l = {kept}, N = {count}" for kept in setting.kept for count in setting.samples]
        self.map.set([str(kept) for kept in setting.kept], [str(count) for count in setting.samples], parts)

    def update(self, record: PhaseRecord) -> None:
        row = {kept: number for number, kept in enumerate(record.patches_per_expert)}
        column = {count: number for number, count in enumerate(record.samples)}
        counts, trials = record.counts, record.trials
        places = [(row[kept], column[count]) for kept, count in record.running]
        self.map.update(record.share, counts / trials, {place: f"{counts[place]}/{trials}" for place in places})
