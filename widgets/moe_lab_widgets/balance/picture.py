"""The balance Lab's picture: load through training, who gets which cluster, and five ways to balance in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moe_lab_widgets.balance.panels.load import Load
from moe_lab_widgets.balance.panels.outcome import Outcome
from moe_lab_widgets.balance.panels.tables import Tables
from moe_lab_widgets.balance.record import Frame
from moe_lab_widgets.drawing.scene import Scene


class BalancePicture(Scene):
    """See the module's text.

    Attributes:
      beside: the way to balance that is drawn beside none.
      shown: the trial whose loads and tables are drawn, counted from 0.
    """

    shown = 0

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(scale)
        self.beside = "importance"
        self.load, self.tables, self.outcome = Load(self), Tables(self), Outcome(self)
        self._values: dict[str, Any] = {}

    def set_view(self, values: dict[str, Any]) -> None:
        self.beside = values["balancing"]

    def begin(self, values: dict[str, Any]) -> None:
        self._values = values

    def update(self, record: Frame) -> None:
        values, beside = self._values, self.beside  # another may be asked for in the middle of a run
        experts, trials = values["experts"], values["trials"]
        self.load.set(experts, trials, self.shown, values["steps"], beside)
        self.tables.set(experts, values["clusters"], beside)
        self.outcome.set(experts, trials, values["steps"], beside)
        self.load.update(record, beside, self.shown)
        self.tables.update(record, beside, self.shown)
        self.outcome.update(record, beside)

    def pin(self, records: Sequence[Frame]) -> None:
        self.outcome.keep(records[-1], self.beside)

    def unpin(self) -> None:
        self.outcome.unpin()
