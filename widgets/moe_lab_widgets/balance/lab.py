"""BalanceLab: one expert begins with a lead and takes everything; four ways to balance the load act beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moe_lab_widgets.balance import settings as of
from moe_lab_widgets.balance.picture import BalancePicture
from moe_lab_widgets.balance.record import Frame, frames
from moe_lab_widgets.balance.stories import STORIES
from moe_lab_widgets.drawing.trials import spread_words
from moe_lab_widgets.drawing.words import middle, percent
from moe_lab_widgets.engine.several import SeveralLab


class BalanceLab(SeveralLab):
    """Five mixtures on the same samples from the same start: without balancing, with three losses, and with a bias."""

    title = "Balance and collapse"
    knobs = of.KNOBS
    stories = STORIES

    def check(self, values: Mapping[str, Any]) -> None:
        of.runs(values)

    def start(self, values: dict[str, Any]) -> Iterator[Frame]:
        return frames(of.runs(values), values["steps"])

    def work(self, values: Mapping[str, Any]) -> float:
        return of.work(values)

    def make_picture(self, values: dict[str, Any]) -> BalancePicture:
        return BalancePicture(scale=self.scale)

    def code(self, values: dict[str, Any]) -> str:
        return of.code(values)

    # ---- words ----

    def diverged(self, name: str, trials: str) -> str:
        words = "without balancing" if name == of.NONE else f"with {of.NAMES[name]}"
        return f"The loss {words} became infinite in {trials}: try a smaller rate of the router."

    def caption(self, record: Frame) -> str:
        if record.step == 0:
            worth = middle(record.worth(of.NONE))
            return f"Step 0: the load is that of {worth:.1f} of {record.experts} experts; nobody has learned anything."
        ends = [
            f"{of.NAMES[name]} {percent(middle(part['test_accuracy']), 1)} ({middle(record.worth(name)):.1f})"
            for name, part in record.parts.items()
        ]
        return (
            f"Step {record.step} of {record.total}: median accuracy (and experts' worth of load, of {record.experts}): "
            f"{', '.join(ends)}.{spread_words(record.trials)}"
        )
