"""The landscape Lab's picture: two losses from above, and the error through time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moe_lab_widgets.drawing.scene import Scene
from moe_lab_widgets.landscape.panels.errors import Errors
from moe_lab_widgets.landscape.panels.maps import Maps
from moe_lab_widgets.landscape.record import Frame


class LandscapePicture(Scene):
    """See the module's text.

    Attributes:
      wanted: the trial whose paths are drawn, counted from 0; the last one where there are fewer.
    """

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(scale)
        self.wanted = 0
        self.maps, self.errors = Maps(self), Errors(self)

    def shown(self, trials: int) -> int:
        """Returns the trial on show, counted from 0."""
        return min(self.wanted, trials - 1)

    def set_view(self, values: dict[str, Any]) -> None:
        self.wanted = values["shown"] - 1

    def begin(self, values: dict[str, Any]) -> None:
        self.errors.set(values["trials"], values["steps"])

    def update(self, record: Frame) -> None:
        shown = self.shown(record.trials)  # another may be asked for in the middle of a run
        self.maps.set(record.runs[0].task.experts, record.trials, shown)
        self.maps.update(record, shown)
        self.errors.update(record)

    def pin(self, records: Sequence[Frame]) -> None:
        self.errors.keep(records[-1])

    def unpin(self) -> None:
        self.errors.unpin()
