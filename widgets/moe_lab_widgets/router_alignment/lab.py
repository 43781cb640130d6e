"""RouterAlignmentLab: routers learn which patches matter, live, beside a CNN that must look at all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from moe_lab import theme
from moe_lab.patch_routing import train_batch
from moe_lab.training import Snapshot, collect
from moe_lab_widgets.engine.lab import Lab
from moe_lab_widgets.router_alignment import settings as of
from moe_lab_widgets.router_alignment.panels import median, percent
from moe_lab_widgets.router_alignment.picture import RouterPicture
from moe_lab_widgets.router_alignment.record import Frame, side_by_side
from moe_lab_widgets.router_alignment.stories import STORIES

POINTS_AT = 0.7
"""The least cosine (45 degrees) from which the caption says that a router points at a pattern."""
COVERED = 0.6
"""A class whose o reaches its best expert more rarely is called a failure in the caption."""


class RouterAlignmentLab(Lab):
    """A jointly trained pMoE and a CNN on the same samples, step by step.

    On digits, n, l, k, m, N and noise apply; on synthetic patches the whole data model of the paper does. `values` left
    out take the defaults of the chosen source.
    """

    title = "Router alignment"
    knobs = of.KNOBS
    stories = STORIES
    frames = 15
    fast_frames = 11.0
    """Frames a second of a run that does not wait: a frame takes 15 ms, and a fifth of the time may go into drawing."""

    def __init__(self, **values: Any) -> None:
        self._drawn = of.Drawn()
        super().__init__(**{**of.OWN_DEFAULTS.get(values.get("source", of.DIGITS), {}), **values})
        self._offer()

    def start(self, values: dict[str, Any]) -> Iterator[Frame]:
        runs = of.runs(values)
        drawn = self._drawn.get(runs[0])
        joint, cnn = (train_batch([run], drawn) for run in runs)
        return side_by_side(joint, cnn, of.total_steps(values))

    def make_picture(self, values: dict[str, Any]) -> RouterPicture:
        return RouterPicture(scale=self.scale)

    def code(self, values: dict[str, Any]) -> str:
        return of.code(values)

    def parts(self, record: Frame) -> dict[str, Snapshot]:
        return {"joint": record.joint, "cnn": record.cnn}

    def data(self, records: Sequence[Frame]) -> xr.Dataset:
        sets = []
        for name in ("joint", "cnn"):
            shots = {id(part): part for record in records for part in [self.parts(record)[name]]}  # each once
            sets.append(collect(shots.values()))
        models = xr.DataArray(["joint", "cnn"], dims="model", name="model")
        return xr.concat(sets, models, join="outer", combine_attrs="drop_conflicts")

    # ---- knobs that move together ----

    def _knob_moved(self, name: str) -> None:
        if name == "source" and not self._own.active:
            values = {**self.values, "source": self.controls.knobs["source"].value}
            self._offer()
            if along := of.changed_source(values):
                self._touched = True
                self.set(source=values["source"], **along)
                return
        super()._knob_moved(name)

    def _move(self, values: Mapping[str, Any]) -> None:
        super()._move(values)
        self._offer()

    def _offer(self) -> None:
        """Greys out the sliders that digits do not have, so that none looks alive and does nothing."""
        digits = self.controls.knobs["source"].value == of.DIGITS
        for name in of.ONLY_SYNTHETIC:
            self.controls.knobs[name].disabled = digits

    # ---- words ----

    def trouble(self, record: Frame) -> str:
        said = []
        for name, part in (("pMoE", record.joint), ("CNN", record.cnn)):
            if part.diverged.any():
                trials = ", ".join(str(trial + 1) for trial in np.flatnonzero(part.diverged))
                said.append(f"The {name}'s loss became infinite in trial {trials}, which has stopped there.")
        return " ".join(said)

    def progress(self, record: Frame) -> str:
        return f"step {record.step} of {record.total}"

    def caption(self, record: Frame) -> str:
        cover = record.joint["coverage"][RouterPicture.shown]
        first, second = (percent(share) for share in cover)
        if record.step == 0:
            return f"Step 0: routers are random; o₁ reaches some expert in {first}, o₂ in {second}."
        accuracy, cnn = (float(median(record.accuracy(name)[-1:])[0]) for name in ("joint", "cnn"))
        both = ""
        if record.ended and record.joint.trials > 1:
            count = int((record.joint["coverage"].min(axis=1) >= COVERED).sum())
            both = f" (both in {count} of {record.joint.trials} trials)"
        said = f"Step {record.step} of {record.total}: {self._directions(record)}; "
        if (record.ended or record.step >= record.total / 2) and np.nanmin(cover, initial=1) < COVERED:
            side = int(np.nanargmin(cover))
            high = "Accuracy can stay high, because one routed class is enough: it is "
            said += f"{theme.CLASS_NAMES[side]} reaches an expert in only {percent(cover[side])}{both}. "
            return f"{said}{high if accuracy > 0.75 else 'Accuracy '}{percent(accuracy)}, CNN {percent(cnn)}."
        return f"{said}coverage o₁ {first}, o₂ {second}{both}; accuracy {percent(accuracy)}, CNN {percent(cnn)}."

    @staticmethod
    def _directions(record: Frame) -> str:
        """Which routers point at which pattern, in words."""
        if record.moved == 0:
            return "the routers have not moved at all"
        cosines = record.joint["alignment"][RouterPicture.shown]
        nearest = np.where(np.isfinite(cosines).all(1), cosines.argmax(1), -1)
        said = []
        for side, name in enumerate(theme.CLASS_NAMES):
            found = [str(s + 1) for s in np.flatnonzero((nearest == side) & (cosines.max(1) >= POINTS_AT))]
            if found:
                many = len(found) > 1
                said.append(f"router{'s' * many} {', '.join(found)} point{'s' * (not many)} at {name}")
        return ", ".join(said) or "no router points at o₁ or o₂"
