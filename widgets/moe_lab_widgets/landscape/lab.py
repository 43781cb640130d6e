"""LandscapeLab: the loss L4 beside the squared error, descended from the same start on the same samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moe_lab.recovery.landscape.run import L4Loss
from moe_lab.recovery.landscape.training import descend_run
from moe_lab_widgets.drawing.trials import spread_words
from moe_lab_widgets.drawing.words import middle, two_digits
from moe_lab_widgets.engine.pair import PairLab
from moe_lab_widgets.landscape import settings as of
from moe_lab_widgets.landscape.panels.errors import NAMES
from moe_lab_widgets.landscape.picture import LandscapePicture
from moe_lab_widgets.landscape.record import METHODS, Frame, frames
from moe_lab_widgets.landscape.stories import STORIES


class LandscapeLab(PairLab):
    """The loss L4 of gated2019 and the squared error l2, from the same parameters and on the same batches."""

    title = "Landscapes"
    knobs = of.KNOBS
    stories = STORIES

    picture: LandscapePicture

    def check(self, values: Mapping[str, Any]) -> None:
        of.descents(values)

    def start(self, values: dict[str, Any]) -> Iterator[Frame]:
        l4, l2 = runs = of.runs(values)
        return frames(descend_run(l4), lambda: descend_run(l2), runs)

    def work(self, values: Mapping[str, Any]) -> float:
        return of.work(values)

    def make_picture(self, values: dict[str, Any]) -> LandscapePicture:
        return LandscapePicture(scale=self.scale)

    def code(self, values: dict[str, Any]) -> str:
        return of.code(values)

    # ---- words ----

    def diverged(self, name: str, trials: str) -> str:
        return f"{NAMES[name]} became infinite in {trials}: try a smaller learning rate."

    def trouble(self, record: Frame) -> str:
        vanished = int((record.lengths() == 0).any(1).sum())
        if not vanished:
            return super().trouble(record)
        model = record.runs[0].model
        assert isinstance(model, L4Loss)
        sentence = (
            "δ must be less than 4 λ p for every expert's share p, or L₄ is least where that expert's row is 0: "
            f"got δ={model.ridge:g}, λ={model.penalty:g} (in {vanished} of {record.trials} trials). Lower δ or raise λ."
        )
        return f"{super().trouble(record)} {sentence}".strip()

    def progress(self, record: Frame) -> str:
        return f"step {record.step} of {record.total}"

    def caption(self, record: Frame) -> str:
        if record.of("l2") is None:
            return "Start: both losses begin at the same random regressors; ℓ₂ moves gates, too."
        trials, step = record.trials, record.step
        ours, theirs = (two_digits(middle(part["regressor_error"])) for part in record.parts.values())
        found = [int(record.found(method).sum()) for method in METHODS]
        text = (
            f"Step {step} of {record.total}: L₄ has found the regressors in {found[0]} of {trials} "
            f"trial{'s' * (trials > 1)} (median error {ours}), ℓ₂ in {found[1]} ({theirs})"
        )
        spread = spread_words(trials)
        if not record.ended:
            return f"{text}.{spread}"
        (a, c), (b, d) = (tuple(int(which.sum()) for which in record.verdicts(method)) for method in METHODS)
        return text + f"; stuck: {a} against {b}" + (f" ({c} and {d} still falling)." if c + d else ".") + spread
