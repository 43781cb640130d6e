"""The router-alignment Lab's picture: where routers point, what each expert receives, what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moe_lab.patch_routing import DigitTask
from moe_lab_widgets.drawing.scene import Scene
from moe_lab_widgets.router_alignment.panels.outcome import Outcome
from moe_lab_widgets.router_alignment.panels.patches import Patches
from moe_lab_widgets.router_alignment.panels.plane import Plane
from moe_lab_widgets.router_alignment.record import Frame
from moe_lab_widgets.router_alignment.settings import task_of, total_steps


class RouterPicture(Scene):
    """See the module's text. `shown` is the trial whose routers and patches are drawn, counted from 0."""

    shown = 0

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(scale)
        self.overlap = 0.0
        self.plane, self.patches, self.outcome = Plane(self), Patches(self), Outcome(self)

    def begin(self, values: dict[str, Any]) -> None:
        task, total = task_of(values), total_steps(values)
        signals = task.signals((self.shown,), values["seed"])[0]
        self.overlap = float(signals[0] @ signals[1])
        self.patches.begin(task)
        digits_shown = task.digits if isinstance(task, DigitTask) else ()
        experts, kept, trials = values["experts"], values["patches_per_expert"], values["trials"]
        names = [f"digit {digit}" for digit in digits_shown] or ["pattern o₁", "pattern o₂"]
        self.plane.set(self.overlap, names, trials, self.shown, experts)
        self.patches.set(names, task.patches, experts, kept)
        self.outcome.set(trials, experts, total)

    def update(self, record: Frame) -> None:
        self.plane.update(record, self.shown)
        self.patches.update(record, self.shown)
        self.outcome.update(record, self.shown)

    def pin(self, records: Sequence[Frame]) -> None:
        self.outcome.keep(records[-1])

    def unpin(self) -> None:
        self.outcome.unpin()
