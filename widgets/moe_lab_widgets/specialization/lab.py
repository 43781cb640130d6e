"""SpecializationLab: nonlinear experts divide the clusters among them, live, beside linear experts that share them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from moe_lab.specialization import train_run
from moe_lab_widgets.drawing.trials import spread_words
from moe_lab_widgets.drawing.words import middle, percent
from moe_lab_widgets.engine.pair import PairLab
from moe_lab_widgets.specialization import settings as of
from moe_lab_widgets.specialization.panels.entropy import number
from moe_lab_widgets.specialization.picture import SpecializationPicture
from moe_lab_widgets.specialization.record import Frame, frames
from moe_lab_widgets.specialization.stories import STORIES

LOW, APART = 0.3, 0.2
"""One median entropy must be this low, and the other higher by this, for the caption to point out equal accuracies."""
GOOD = 0.9
"""The accuracy that both models must reach for that."""


class SpecializationLab(PairLab):
    """Two mixtures by algorithm 1 of chen2022 on the same samples, step by step: one under study, one linear.

    Beside linear experts run cubic ones.
    """

    title = "Specialisation"
    knobs = of.KNOBS
    stories = STORIES

    def check(self, values: Mapping[str, Any]) -> None:
        of.runs(values)

    def start(self, values: dict[str, Any]) -> Iterator[Frame]:
        study, reference = of.runs(values)
        activations = study.model.activation, reference.model.activation
        return frames(train_run(study), lambda: train_run(reference), activations, values["steps"])

    def work(self, values: Mapping[str, Any]) -> float:
        return of.work(values)

    def make_picture(self, values: dict[str, Any]) -> SpecializationPicture:
        return SpecializationPicture(scale=self.scale)

    def code(self, values: dict[str, Any]) -> str:
        return of.code(values)

    def label(self, record: Frame, name: str) -> str:
        return record.activations[record.names.index(name)]

    # ---- words ----

    def diverged(self, name: str, trials: str) -> str:
        return f"The loss of the {name} experts became infinite in {trials}: try smaller steps."

    def progress(self, record: Frame) -> str:
        return f"step {record.step} of {record.total}"

    def caption(self, record: Frame) -> str:
        clusters, experts = record.study["dispatch"].shape[1:]
        most = f"log {clusters} = {np.log(clusters):.2f}"
        if record.step == 0:
            why = "there is one expert" if experts == 1 else "all scores of the router are 0"
            return f"Step 0: {why}, so expert 1 gets every sample; entropy {most}: nobody specialises."
        text = f"Step {record.step} of {record.total}: {self._carriers(record)}; {self._against(record)}."
        if record.ended:
            text += self._failure(record, clusters, experts)
        return text + spread_words(record.trials)

    @staticmethod
    def _carriers(record: Frame) -> str:
        """Returns how many experts of the trial on show carry the clusters."""
        carriers = record.carriers(SpecializationPicture.shown)
        clusters, experts = record.study["dispatch"].shape[1:]
        if carriers.sum() == 1:
            return f"expert {np.flatnonzero(carriers)[0] + 1} alone carries all {clusters} clusters"
        return f"{carriers.sum()} of {experts} experts carry the {clusters} clusters"

    @staticmethod
    def _against(record: Frame) -> str:
        """Returns both models' entropies and accuracies."""
        (study, reference), ends = record.activations, {}
        for name in ("dispatch_entropy", "test_accuracy"):
            ends[name] = [middle(part[name]) for part in record.parts.values()]
        entropies = ends["dispatch_entropy"]
        text = f"median entropy {number(entropies[0])} ({study}) against {number(entropies[1])} ({reference})"
        least = min(ends["test_accuracy"])
        if least >= GOOD and min(entropies) <= LOW and max(entropies) - min(entropies) >= APART:
            return f"{text} although both reach ≥ {np.floor(100 * least):.0f} %"
        ours, theirs = (percent(share, 1) for share in ends["test_accuracy"])
        return f"{text}, accuracy {ours} against {theirs}"

    @staticmethod
    def _failure(record: Frame, clusters: int, experts: int) -> str:
        """Returns what keeps the experts from specialising, where it is known."""
        fallen, trials = record.collapsed("study"), record.trials
        if fallen.any():
            return f" In {fallen.sum()} of {trials} trials experts had divided the clusters and lost them again."
        if 1 < experts < clusters:
            floor = np.log(clusters / experts)
            return f" {experts} experts for {clusters} clusters: not under log({clusters}/{experts}) = {floor:.2f}."
        if experts > 1 and not np.nan_to_num(record.study["router_center"]).any():
            return " The router has not moved at all."
        return ""
