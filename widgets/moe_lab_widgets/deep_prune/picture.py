"""The deep pruning Lab's picture: the experts and their patches, the accuracy after pruning, and what is left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moe_lab_widgets.deep_prune.panels.costs import Left
from moe_lab_widgets.deep_prune.panels.curves import Curves
from moe_lab_widgets.deep_prune.panels.layers import Layers
from moe_lab_widgets.deep_prune.record import Frame, View
from moe_lab_widgets.deep_prune.settings import longest_change, lowest_accuracy, plan_of
from moe_lab_widgets.drawing.scene import Scene


class DeepPrunePicture(Scene):
    """See the module's text.

    Attributes:
      view: the values of the view-only knobs.
    """

    view: View

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(scale)
        self.layers, self.curves, self.left = Layers(self), Curves(self), Left(self)

    def set_view(self, values: dict[str, Any]) -> None:
        self.view = View(**values)

    def begin(self, values: dict[str, Any]) -> None:
        plan = plan_of(values)
        self.layers.set(longest_change(plan), plan.tuning.model.layers)
        self.curves.set(lowest_accuracy(plan), plan.tuning.test_images)

    def update(self, record: Frame) -> None:
        view = self.view  # one for all panels, whatever a slider does meanwhile
        self.layers.update(record, view)
        self.curves.update(record, view)
        self.left.update(record, view)

    def pin(self, records: Sequence[Frame]) -> None:
        self.curves.keep()

    def unpin(self) -> None:
        self.curves.unpin()
