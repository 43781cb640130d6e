"""The second panel of the patch-map Lab's picture: the share of kept patches that lie in the object."""

from __future__ import annotations

import numpy as np

from moe_lab import theme
from moe_lab_widgets.drawing.lines import inside
from moe_lab_widgets.drawing.scene import Scene
from moe_lab_widgets.drawing.words import percent
from moe_lab_widgets.patch_map.panels.curves import Curves
from moe_lab_widgets.patch_map.record import Frame
from moe_lab_widgets.patch_map.settings import STUDY

CHANCE = 0.25
"""One of four quadrants is the object, whatever l and k are."""


class Share(Curves):
    """The share in the object against the step, with the line of chance."""

    LEFT, TOP, WIDTH, HEIGHT = 706, 96, 112, 290

    def __init__(self, scene: Scene) -> None:
        box = (self.LEFT, self.TOP, self.WIDTH, self.HEIGHT)
        super().__init__(scene, (652, 868), box, (STUDY,), "share in the object")
        theme.header(scene.figure, 654, 2, "Found the object?")

    def set(self, gates: str, trials: int, total: int) -> None:
        """Writes what is measured, and the last step."""
        if not self.renew(gates, trials, total):
            return
        what = "share of the gates' sum" if gates == "soft" else "share of kept patches that lie"
        self.write(666, 50, what)
        self.write(666, 66, "in the blue frame")
        y = inside(self.box, 0, CHANCE / 1.02)[1]
        self.write(self.LEFT + self.WIDTH - 2, y + 10, "chance 25 %", ha="right")
        self.number_steps(total)
        self.show_pins()

    def update(self, record: Frame) -> None:
        end = self.draw(record, STUDY, record.share)
        with self.names.anew() as names:
            at = end if np.isfinite(end) else CHANCE
            names.lines(*inside(self.box, 1.05, at / 1.02), percent(end), colour=theme.INK)

    def keep(self, record: Frame) -> None:
        """Pins the median up to a record."""
        self.keep_median(record, record.share)

    def note_place(self) -> tuple[float, float]:
        return 714, 104
