"""RoutingChoicesLab: who gets which patches, which patches are lost, and what that costs, live at equal compute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moe_lab_widgets.drawing.words import middle, percent
from moe_lab_widgets.engine.several import SeveralLab
from moe_lab_widgets.routing_choices import settings as of
from moe_lab_widgets.routing_choices.picture import RoutingPicture
from moe_lab_widgets.routing_choices.record import Frame, frames
from moe_lab_widgets.routing_choices.stories import STORIES


class RoutingChoicesLab(SeveralLab):
    """One routing in the sliders' hands, and four others with as many places for each expert.

    The task is the synthetic patches of pmoe2023: one patch of each sample decides its class.
    """

    title = "Routing choices"
    knobs = of.KNOBS
    stories = STORIES

    def __init__(self, /, **values: Any) -> None:
        self._samples = of.SampleCache()
        super().__init__(**values)

    def check(self, values: Mapping[str, Any]) -> None:
        of.runs(values)

    def start(self, values: dict[str, Any]) -> Iterator[Frame]:
        return self._records(of.runs(values))

    def _records(self, runs: dict[str, Any]) -> Iterator[Frame]:
        yield from frames(runs, self._samples.get(runs[of.STUDY]))  # not before the run begins: it may wait for Play

    def work(self, values: Mapping[str, Any]) -> float:
        return of.work(values)

    def make_picture(self, values: dict[str, Any]) -> RoutingPicture:
        return RoutingPicture(scale=self.scale)

    def code(self, values: dict[str, Any]) -> str:
        return of.code(values)

    # ---- words ----

    def diverged(self, name: str, trials: str) -> str:
        return f"The loss of {name} became infinite in {trials}: try a smaller step size."

    def caption(self, record: Frame) -> str:
        kept, lost, dropped = (percent(middle(record.study[name])) for name in ("signal_kept", "lost", "dropped"))
        places = f"{record.places} place{'s' * (record.places > 1)} an expert"
        found = f"{places}: o is kept in {kept}, {lost} of patches are lost"
        if record.routing in ("token-choice", "hash"):
            found += f", {dropped} of choices find no place"
        if record.routing == "soft":
            share = percent(middle(record.study["signal_share"]))
            found = f"{places}: nothing is lost, and o is {share} of what experts receive"
        if record.step == 0:
            return f"Step 0, {found}."
        accuracy = percent(middle(record.study["test_accuracy"]))
        beside = ", ".join(
            f"{name} {percent(middle(record.latest(name, 'test_accuracy')))}"
            for name in of.BESIDE
            if name in record.parts
        )
        return f"Step {record.step} of {record.total}, {found}; accuracy {accuracy} ({beside})."
