"""RouterAlignmentLab: routers learn which patches matter, live, beside a CNN that must look at all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from moe_lab import theme
from moe_lab.config import require
from moe_lab.patch_routing import Run, train_batch
from moe_lab_widgets.drawing.trials import spread_words
from moe_lab_widgets.drawing.words import middle, percent
from moe_lab_widgets.engine.knobs import LabKnob
from moe_lab_widgets.engine.mnist import with_mnist
from moe_lab_widgets.engine.pair import PairLab
from moe_lab_widgets.router_alignment import settings as of
from moe_lab_widgets.router_alignment.picture import RouterPicture
from moe_lab_widgets.router_alignment.record import Frame, frames
from moe_lab_widgets.router_alignment.stories import STORIES

POINTS_AT = 0.7
"""The least cosine (45 degrees) at which a router points at a pattern in the caption."""
COVERED = 0.6
"""Coverage of a class below which the caption reports a failure."""


class RouterAlignmentLab(PairLab):
    """A jointly trained pMoE and a CNN on the same samples, step by step.

    On digits, n, l, k, m, N and noise apply; on synthetic patches the whole data model of the paper does. Values left
    out take the defaults of the chosen source.

    Args:
      mnist: a folder of MNIST's IDX files, or "download" (fetched once and checked): offers 28x28 images, too, and
        begins with them.
      mixture: a model of your own in the pMoE's place, of the size that the sliders say: a `StepwiseMoE`, or a
        JointMoE whose subclass has a router of its own.

    Raises:
      ValueError: mixture is no such model.
    """

    title = "Router alignment"
    knobs: Sequence[LabKnob] = of.KNOBS
    stories = STORIES

    def __init__(self, /, *, mnist: Path | str | None = None, mixture: of.Mixture | None = None, **values: Any) -> None:
        rule = "mixture must be a StepwiseMoE, or a JointMoE with a router of your own"
        require(mixture is None or isinstance(mixture, of.Mixture), rule, mixture=mixture)
        self._samples, self._mixture = of.SampleCache(), mixture
        if mnist is not None:
            self.knobs, values = with_mnist(self.knobs, mnist, values)
        super().__init__(**values)

    def check(self, values: Mapping[str, Any]) -> None:
        of.runs(values, self._mixture)

    def start(self, values: dict[str, Any]) -> Iterator[Frame]:
        return self._records(of.runs(values, self._mixture), of.total_steps(values))

    def _records(self, runs: list[Run], total: int) -> Iterator[Frame]:
        samples = self._samples.get(runs[0])  # not before the run begins: it may have to wait for Play
        joint, cnn = (train_batch([run], samples) for run in runs)
        yield from frames(joint, cnn, total)

    def work(self, values: Mapping[str, Any]) -> float:
        return of.work(values, self._mixture)

    def make_picture(self, values: dict[str, Any]) -> RouterPicture:
        return RouterPicture(scale=self.scale)

    def code(self, values: dict[str, Any]) -> str:
        return of.code(values, self._mixture)

    # ---- words ----

    def diverged(self, name: str, trials: str) -> str:
        model = {"joint": "pMoE", "cnn": "CNN"}[name]
        return f"The {model}'s loss became infinite in {trials}: no further steps there."

    def progress(self, record: Frame) -> str:
        return f"step {record.step} of {record.total}"

    def caption(self, record: Frame) -> str:
        cover = record.joint["coverage"][RouterPicture.shown]
        first, second = (percent(share) for share in cover)
        if record.step == 0:
            return f"Step 0: routers are random; o₁ reaches some expert in {first}, o₂ in {second}."
        accuracy, cnn = (middle(record.parts[name]["test_accuracy"]) for name in record.names)
        both = ""
        if record.ended and record.joint.trials > 1:
            count = int((record.joint["coverage"].min(axis=1) >= COVERED).sum())
            both = f" (both in {count} of {record.joint.trials} trials)"
        text = f"Step {record.step} of {record.total}: {self._directions(record)}; "
        if (record.ended or record.step >= record.total / 2) and np.nanmin(cover, initial=1) < COVERED:
            side = int(np.nanargmin(cover))
            high = "Accuracy can stay high, because one routed class is enough: it is "
            text += f"{theme.CLASS_NAMES[side]} reaches an expert in only {percent(cover[side])}{both}. "
            text = f"{text}{high if accuracy > 0.75 else 'Accuracy '}{percent(accuracy)}, CNN {percent(cnn)}."
        else:
            text += f"coverage o₁ {first}, o₂ {second}{both}; accuracy {percent(accuracy)}, CNN {percent(cnn)}."
        return text + spread_words(record.trials)

    @staticmethod
    def _directions(record: Frame) -> str:
        """Returns which routers point at which pattern, in words."""
        if record.moved == 0:
            return "the routers have not moved at all"
        cosines = record.joint["alignment"][RouterPicture.shown]
        nearest = np.where(np.isfinite(cosines).all(1), cosines.argmax(1), -1)
        parts = []
        for side, name in enumerate(theme.CLASS_NAMES):
            found = [str(s + 1) for s in np.flatnonzero((nearest == side) & (cosines.max(1) >= POINTS_AT))]
            if found:
                many = len(found) > 1
                parts.append(f"router{'s' * many} {', '.join(found)} point{'s' * (not many)} at {name}")
        return ", ".join(parts) or "no router points at o₁ or o₂"
