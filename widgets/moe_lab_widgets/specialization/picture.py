"""The specialisation Lab's picture: who serves which cluster, how mixed that is over time, and what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moe_lab_widgets.drawing.scene import Scene
from moe_lab_widgets.specialization.panels.accuracy import Accuracy
from moe_lab_widgets.specialization.panels.dispatch import Tables
from moe_lab_widgets.specialization.panels.entropy import Entropy
from moe_lab_widgets.specialization.record import Frame
from moe_lab_widgets.specialization.settings import lowest_accuracy, models


class SpecializationPicture(Scene):
    """See the module's text. `shown` is the trial whose tables are drawn, counted from 0."""

    shown = 0

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(scale)
        self.tables, self.entropy, self.accuracy = Tables(self), Entropy(self), Accuracy(self)

    def begin(self, values: dict[str, Any]) -> None:
        study, reference = models(values)
        both, steps = (study.activation, reference.activation), values["steps"]
        clusters, trials = values["clusters"], values["trials"]
        self.tables.set(study.experts, clusters, trials, self.shown, study.learning_rate * steps, study.activation)
        self.entropy.set(both, clusters, trials, self.shown, steps)
        self.accuracy.set(both, trials, lowest_accuracy(values))

    def update(self, record: Frame) -> None:
        self.tables.update(record, self.shown)
        self.entropy.update(record)
        self.accuracy.update(record)

    def pin(self, records: Sequence[Frame]) -> None:
        self.entropy.keep(records[-1])
        self.accuracy.keep(records[-1])

    def unpin(self) -> None:
        self.entropy.unpin()
        self.accuracy.unpin()
