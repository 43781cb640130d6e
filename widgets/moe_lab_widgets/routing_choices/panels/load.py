"""The second panel of the routing-choices Lab's picture: how many places each expert fills, and whom it turns away."""

from __future__ import annotations

import numpy as np

from moe_lab import theme
from moe_lab_widgets.drawing.lines import inside
from moe_lab_widgets.drawing.picture import Name
from moe_lab_widgets.drawing.scene import Panel, Scene
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.routing_choices.record import Frame


class Load(Panel):
    """A bar for each expert: patches of a sample with a place, and, hollow above them, patches without."""

    BOX = (566, 96, 166, 276)

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (516, 752))
        theme.header(scene.figure, 520, 2, "Load of the experts")
        self.axes = theme.axes(scene.figure, *self.BOX, xlim=(0, 1), ylim=(0, 1))
        self.axes.set_xticks([])
        self.axes.set_yticks([])
        self.bars = scene.live(Sheet(zorder=2))
        self.counts = scene.live(Sheet())
        scene.name(self.bars, self._named)
        self._experts, self._patches = 1, 1

    def _named(self) -> Name:
        what = ("with a place", "turned away", *["the edge of turned away"] * 4)
        return {"parts": [f"expert {s + 1}: patches {words}" for s in range(self._experts) for words in what]}

    def set(self, routing: str, patches: int, experts: int, places: int, shown: int) -> None:
        """Numbers the axis, and draws the line of the places that there are."""
        self._experts, self._patches = experts, patches
        if not self.renew(routing, patches, experts, places, shown):
            return
        self.write(532, 50, f"patches of a sample, trial {shown + 1}")
        self.write(532, 66, "hollow: turned away; dashed: C")
        for number in (0, patches // 2, patches):
            _, y = inside(self.BOX, 0, number / patches)
            self.write(self.BOX[0] - 6, y, str(number), ha="right")
        (line,) = self.axes.plot([0, 1], [places / patches] * 2, color=theme.INK, linewidth=1.2, dashes=(4, 2))
        self.fix(line)
        for s in range(experts):
            x = self.BOX[0] + self.BOX[2] * (s + 0.5) / experts
            self.head_at(x, self.BOX[1] + self.BOX[3] + 16, s, 13 if experts <= 4 else 11)

    def update(self, record: Frame, shown: int) -> None:
        taken, refused = (np.nan_to_num(record.study[name][shown]) for name in ("places_taken", "turned_away"))
        wide = 0.7 / self._experts
        with self.bars.anew() as bars, self.counts.anew() as counts:
            for s, (full, away) in enumerate(zip(taken, refused, strict=True)):
                left = (s + 0.5) / self._experts - wide / 2
                x, top = inside(self.BOX, left, full / self._patches)
                right, bottom = inside(self.BOX, left + wide, 0)
                above = inside(self.BOX, 0, min(full + away, self._patches) / self._patches)[1]
                bars.box(x, top, right, bottom, theme.expert(s).colour)
                hollow = theme.PAPER if away > 0 else "none"
                bars.box(x, above, right, top, hollow)
                bars.frame(x, above, right, top, theme.REFERENCE if away > 0 else "none")
                if self._experts <= 4:
                    counts.write((x + right) / 2, above - 9, f"{full + away:.1f}", "center", colour=theme.MUTED)
