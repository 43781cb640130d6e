"""The patch-map Lab's picture: which patches experts keep, how many lie in the object, and what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moe_lab_widgets.drawing.scene import Scene
from moe_lab_widgets.patch_map.panels.accuracy import Accuracy
from moe_lab_widgets.patch_map.panels.maps import Maps
from moe_lab_widgets.patch_map.panels.share import Share
from moe_lab_widgets.patch_map.record import Frame
from moe_lab_widgets.patch_map.settings import total_steps


class PatchMapPicture(Scene):
    """See the module's text. `shown` is the trial whose images are drawn, counted from 0."""

    shown = 0

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(scale)
        self.maps, self.share, self.accuracy = Maps(self), Share(self), Accuracy(self)

    def begin(self, values: dict[str, Any]) -> None:
        trials, total = values["trials"], total_steps(values)
        self.maps.set(values["experts"], values["gates"], self.shown)
        self.share.set(values["gates"], trials, total)
        self.accuracy.set(trials, total)

    def update(self, record: Frame) -> None:
        self.maps.update(record, self.shown)
        self.share.update(record)
        self.accuracy.update(record)

    def pin(self, records: Sequence[Frame]) -> None:
        self.share.keep(records[-1])
        self.accuracy.keep(records[-1])

    def unpin(self) -> None:
        self.share.unpin()
        self.accuracy.unpin()
