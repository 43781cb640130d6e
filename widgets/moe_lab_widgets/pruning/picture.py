"""The pruning Lab's picture: the routers that grew, the accuracy after pruning, and what is left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from moe_lab_widgets.drawing.scene import Scene
from moe_lab_widgets.pruning.panels.bars import Bars
from moe_lab_widgets.pruning.panels.blocks import Blocks
from moe_lab_widgets.pruning.panels.curves import Curves
from moe_lab_widgets.pruning.record import Frame, View
from moe_lab_widgets.pruning.settings import longest_change, run_of


class PruningPicture(Scene):
    """See the module's text.

    Attributes:
      view: the values of the view-only knobs.
    """

    view: View

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(scale)
        self.bars, self.curves, self.blocks = Bars(self), Curves(self), Blocks(self)

    def set_view(self, values: dict[str, Any]) -> None:
        self.view = View(**values)

    def begin(self, values: dict[str, Any]) -> None:
        run = run_of(values)
        self.bars.set(run.model.experts, longest_change(run), 1.5 * float(np.log(run.model.top)), run.trials)

    def update(self, record: Frame) -> None:
        view = self.view  # one for all panels, whatever a slider does meanwhile
        self.bars.update(record, view)
        self.curves.update(record, view)
        self.blocks.update(record, view)

    def pin(self, records: Sequence[Frame]) -> None:
        self.curves.keep()

    def unpin(self) -> None:
        self.curves.unpin()
