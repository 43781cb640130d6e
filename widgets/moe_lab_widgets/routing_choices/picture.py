"""The routing-choices Lab's picture: where the patches go, how full the experts are, and what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moe_lab.patch_routing import RoutedMoE
from moe_lab_widgets.drawing.scene import Scene
from moe_lab_widgets.engine.knobs import given
from moe_lab_widgets.routing_choices.panels.load import Load
from moe_lab_widgets.routing_choices.panels.outcome import Outcome
from moe_lab_widgets.routing_choices.panels.places import Places
from moe_lab_widgets.routing_choices.record import Frame
from moe_lab_widgets.routing_choices.settings import total_steps


class RoutingPicture(Scene):
    """See the module's text. `shown` is the trial whose examples and loads are drawn, counted from 0."""

    shown = 0

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(scale)
        self.places, self.load, self.outcome = Places(self), Load(self), Outcome(self)

    def begin(self, values: dict[str, Any]) -> None:
        model, patches = given(RoutedMoE, values), values["patches"]
        self.places.begin()
        self.places.set(model.routing, patches, model.experts, self.shown)
        self.load.set(model.routing, patches, model.experts, model.places(patches), self.shown)
        self.outcome.set(values["trials"], total_steps(values))

    def update(self, record: Frame) -> None:
        self.places.update(record, self.shown)
        self.load.update(record, self.shown)
        self.outcome.update(record)

    def pin(self, records: Sequence[Frame]) -> None:
        self.outcome.keep(records[-1])

    def unpin(self) -> None:
        self.outcome.unpin()
