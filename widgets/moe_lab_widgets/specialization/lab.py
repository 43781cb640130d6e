"""SpecializationLab: nonlinear experts divide the clusters among them, live, beside linear experts that share them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from moe_lab.specialization import train_run
from moe_lab.training import Snapshot, collect
from moe_lab_widgets.engine.lab import Lab, model_axis
from moe_lab_widgets.specialization import settings as of
from moe_lab_widgets.specialization.panels.curves import median, number, percent
from moe_lab_widgets.specialization.picture import SpecializationPicture
from moe_lab_widgets.specialization.record import Frame, side_by_side
from moe_lab_widgets.specialization.stories import STORIES

LOW, APART = 0.3, 0.2
"""One median entropy must be this low, and the other higher by this, for the caption to wonder at equal accuracies."""
GOOD = 0.9
"""The accuracy that both models must reach for that."""


class SpecializationLab(Lab):
    """Two mixtures by algorithm 1 of chen2022 on the same samples, step by step: one under study, one linear.

    Beside linear experts run cubic ones.
    """

    title = "Specialisation"
    knobs = of.KNOBS
    stories = STORIES
    frames = 15
    fast_frames = 11.0
    """Frames a second of a run that does not wait, so that four fifths of the time are left to the training."""

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self._offer()

    def start(self, values: dict[str, Any]) -> Iterator[Frame]:
        study, reference = of.runs(values)
        both = study.model.activation, reference.model.activation
        return side_by_side(train_run(study), lambda: train_run(reference), both, values["steps"])

    def make_picture(self, values: dict[str, Any]) -> SpecializationPicture:
        return SpecializationPicture(scale=self.scale)

    def code(self, values: dict[str, Any]) -> str:
        return of.code(values)

    def parts(self, record: Frame) -> dict[str, Snapshot]:
        study, reference = record.past.activations
        return {study: record.study} | ({} if record.reference is None else {reference: record.reference})

    def data(self, records: Sequence[Frame]) -> xr.Dataset:
        """Both models along a `model` axis, with the call that makes each."""
        names, sets = list(self.parts(records[-1])), []
        for name in names:
            shots = {id(part): part for record in records if (part := self.parts(record).get(name)) is not None}
            sets.append(collect(shots.values()))  # each once, although one that has ended stays
        return model_axis(names, sets)

    # ---- knobs that depend on others ----

    def _knob_moved(self, name: str) -> None:
        super()._knob_moved(name)
        self._offer()

    def _move(self, values: Mapping[str, Any]) -> None:
        super()._move(values)
        self._offer()

    def _offer(self) -> None:
        """Greys out the sliders that change nothing: a router of one expert, and noise where no patch is noise."""
        knobs = self.controls.knobs
        for name in ("router_learning_rate", "router_noise", "load_balancing"):
            knobs[name].disabled = knobs["experts"].value == 1
        knobs["noise"].disabled = knobs["patches"].value == 3

    # ---- words ----

    def trouble(self, record: Frame) -> str:
        said = []
        for name, part in self.parts(record).items():
            if part.diverged.any():
                which = np.flatnonzero(part.diverged) + 1
                trials = f"trial{'s' * (len(which) > 1)} {', '.join(map(str, which))}"
                said.append(f"The loss of the {name} experts became infinite in {trials}: try smaller steps.")
        return " ".join(said)

    def progress(self, record: Frame) -> str:
        return f"step {record.step} of {record.total}"

    def caption(self, record: Frame) -> str:
        clusters, experts = record.study["dispatch"].shape[1:]
        most = f"log {clusters} = {np.log(clusters):.2f}"
        if record.step == 0:
            why = "there is one expert" if experts == 1 else "all scores of the router are 0"
            return f"Step 0: {why}, so expert 1 gets every sample; entropy {most}: nobody specialises."
        said = f"Step {record.step} of {record.total}: {self._carriers(record)}; {self._against(record)}."
        if record.ended:
            said += self._failure(record, clusters, experts)
        return said

    @staticmethod
    def _carriers(record: Frame) -> str:
        """How many experts of the trial on show do the work."""
        carriers = record.carriers(SpecializationPicture.shown)
        clusters, experts = record.study["dispatch"].shape[1:]
        if carriers.sum() == 1:
            return f"expert {np.flatnonzero(carriers)[0] + 1} alone carries all {clusters} clusters"
        return f"{carriers.sum()} of {experts} experts carry the {clusters} clusters"

    @staticmethod
    def _against(record: Frame) -> str:
        """Both models' entropies and accuracies."""
        (study, reference), ends = record.past.activations, {}
        for name in ("dispatch_entropy", "test_accuracy"):
            ends[name] = [float(median(record.values(model, name)[-1:])[0]) for model in ("study", "reference")]
        entropies = ends["dispatch_entropy"]
        said = f"median entropy {number(entropies[0])} ({study}) against {number(entropies[1])} ({reference})"
        least = min(ends["test_accuracy"])
        if least >= GOOD and min(entropies) <= LOW and max(entropies) - min(entropies) >= APART:
            return f"{said} although both reach ≥ {np.floor(100 * least):.0f} %"
        ours, theirs = (percent(share) for share in ends["test_accuracy"])
        return f"{said}, accuracy {ours} against {theirs}"

    @staticmethod
    def _failure(record: Frame, clusters: int, experts: int) -> str:
        """What keeps the experts from specialising, where it can be told."""
        fallen, trials = record.collapsed("study"), record.study.trials
        if fallen.any():
            return f" In {fallen.sum()} of {trials} trials experts had divided the clusters and lost them again."
        if 1 < experts < clusters:
            floor = np.log(clusters / experts)
            return f" {experts} experts for {clusters} clusters: not under log({clusters}/{experts}) = {floor:.2f}."
        if experts > 1 and not np.nan_to_num(record.study["router_center"]).any():
            return " The router has not moved at all."
        return ""
