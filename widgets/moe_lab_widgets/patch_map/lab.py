"""PatchMapLab: which patches of an image each expert of a convolutional network keeps, live, beside two controls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moe_lab_widgets.drawing.trials import spread_words
from moe_lab_widgets.drawing.words import middle, percent
from moe_lab_widgets.engine.several import SeveralLab
from moe_lab_widgets.patch_map import settings as of
from moe_lab_widgets.patch_map.picture import PatchMapPicture
from moe_lab_widgets.patch_map.record import Frame, frames
from moe_lab_widgets.patch_map.stories import STORIES


class PatchMapLab(SeveralLab):
    """WRN-pMoE of pmoe2023, the same network without gates and a network without experts, on digits in quadrants.

    At these sizes gates bring no accuracy; what there is to see is where the kept patches lie.
    """

    title = "Patch map"
    knobs = of.KNOBS
    stories = STORIES

    def check(self, values: Mapping[str, Any]) -> None:
        of.runs(values)

    def start(self, values: dict[str, Any]) -> Iterator[Frame]:
        return frames(of.runs(values), values["gates"], of.total_steps(values))

    def work(self, values: Mapping[str, Any]) -> float:
        return of.work(values)

    def make_picture(self, values: dict[str, Any]) -> PatchMapPicture:
        return PatchMapPicture(scale=self.scale)

    def code(self, values: dict[str, Any]) -> str:
        return of.code(values)

    # ---- words ----

    def diverged(self, name: str, trials: str) -> str:
        return f"The loss of {name} became infinite in {trials}: try a smaller step size."

    def caption(self, record: Frame) -> str:
        share, chance = (percent(middle(record.study[name])) for name in (record.share, "chance"))
        subject = "of the gates' sum falls" if record.gates == "soft" else "of kept patches lie"
        if record.gates == "none":
            found = "no gates, so every expert gets all patches"
        else:
            found = f"{share} {subject} in the object (chance {chance})"
        if record.step == 0:
            return f"Step 0: {found}."
        accuracies = ", ".join(
            f"{name} {percent(middle(record.latest(name, 'test_accuracy')))}" for name in record.parts
        )
        text = f"Step {record.step} of {record.total}: {found}; accuracy {accuracies}"
        if not record.ended:
            return f"{text}.{spread_words(record.trials)}"
        trials = f"{record.trials} trial{'s' * (record.trials > 1)}"
        return f"{text}; ahead of no gate in {record.ahead()} of {trials}.{spread_words(record.trials)}"
