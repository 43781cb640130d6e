"""The third panel of the patch-map Lab's picture: the accuracy of WRN-pMoE and of its controls."""

from __future__ import annotations

import numpy as np

from moe_lab import theme
from moe_lab_widgets.drawing.lines import inside
from moe_lab_widgets.drawing.scene import Scene
from moe_lab_widgets.drawing.trials import MOST_LINES
from moe_lab_widgets.drawing.words import percent
from moe_lab_widgets.patch_map.panels.curves import LINES, Curves
from moe_lab_widgets.patch_map.record import Frame
from moe_lab_widgets.patch_map.settings import MODELS


class Accuracy(Curves):
    """Test accuracy against the step: thin lines are trials, thick ones medians."""

    LEFT, TOP, WIDTH, HEIGHT = 924, 96, 104, 290

    def __init__(self, scene: Scene) -> None:
        box = (self.LEFT, self.TOP, self.WIDTH, self.HEIGHT)
        super().__init__(scene, (868, 1100), box, MODELS, "accuracy")
        theme.header(scene.figure, 872, 3, "Test accuracy")

    def set(self, trials: int, total: int) -> None:
        """Writes what lines are, and the last step."""
        if not self.renew(trials, total):
            return
        many = trials > MOST_LINES
        several = f"half, 90 % of {trials:,} trials," if many else f"thin: each of {trials} trials,"
        self.write(884, 50, several if trials > 1 else "the one trial")
        if trials > 1:
            self.write(884, 66, "thick: their median")
        y = inside(self.box, 0, 0.25 / 1.02)[1]
        self.write(self.LEFT + self.WIDTH - 2, y + 10, "guessing", ha="right")
        self.number_steps(total)
        self.show_pins()

    def update(self, record: Frame) -> None:
        ends = {model: self.draw(record, model, "test_accuracy") for model in LINES}
        known = [ends[model] if np.isfinite(ends[model]) else 0.25 for model in MODELS]
        places = theme.spread(known, 0.14, 0.06, 0.96)
        with self.names.anew() as names:
            for model, place in zip(MODELS, places, strict=True):
                words = model, percent(ends[model])
                names.lines(*inside(self.box, 1.04, place / 1.02), *words, colour=LINES[model][0].colour)

    def keep(self, record: Frame) -> None:
        """Pins the medians up to a record."""
        self.keep_median(record, "test_accuracy")

    def note_place(self) -> tuple[float, float]:
        return 930, 104
