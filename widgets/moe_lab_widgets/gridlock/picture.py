"""The gridlock Lab's picture: the estimates of both methods, their errors, and how the start is found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moe_lab_widgets.drawing.scene import Scene
from moe_lab_widgets.gridlock import settings as of
from moe_lab_widgets.gridlock.panels.errors import Errors
from moe_lab_widgets.gridlock.panels.regressors import Matrices
from moe_lab_widgets.gridlock.panels.stages import Stages
from moe_lab_widgets.gridlock.record import Frame


class GridlockPicture(Scene):
    """See the module's text.

    Attributes:
      wanted: the trial whose matrices and stages are drawn, counted from 0; the last one where there are fewer.
    """

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(scale)
        self.wanted = 0
        self.matrices, self.errors, self.stages = Matrices(self), Errors(self), Stages(self)
        self._values: dict[str, Any] = {}

    def shown(self, trials: int) -> int:
        """Returns the trial on show, counted from 0."""
        return min(self.wanted, trials - 1)

    def set_view(self, values: dict[str, Any]) -> None:
        self.wanted = values["shown"] - 1

    def begin(self, values: dict[str, Any]) -> None:
        self._values = values
        longest = max(values["iterations"], of.GATE_ITERATIONS + of.EVERYTHING_ITERATIONS)
        self.errors.set(values["trials"], longest, of.error_limits(values))
        self._set(self.shown(values["trials"]))

    def _set(self, shown: int) -> None:
        experts, trials = self._values["experts"], self._values["trials"]
        self.matrices.set(experts, trials, shown)
        self.stages.set(experts * of.POWER_ITERATIONS, trials, shown)

    def update(self, record: Frame) -> None:
        shown = self.shown(record.trials)
        self._set(shown)  # another trial may be asked for in the middle of a run
        self.matrices.update(record, shown)
        self.errors.update(record)
        self.stages.update(record, shown)

    def pin(self, records: Sequence[Frame]) -> None:
        self.errors.keep(records[-1])

    def unpin(self) -> None:
        self.errors.unpin()
