"""LandscapeLab: the loss L4 beside the squared error, descended from the same start on the same samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import xarray as xr

from moe_lab.recovery.landscape.run import L4Loss, LossRun
from moe_lab.recovery.landscape.training import descend_run
from moe_lab.training import Snapshot, collect
from moe_lab_widgets.engine.lab import Lab, model_axis
from moe_lab_widgets.gridlock.panels.curves import short
from moe_lab_widgets.landscape import settings as of
from moe_lab_widgets.landscape.panels.curves import NAMES
from moe_lab_widgets.landscape.picture import LandscapePicture
from moe_lab_widgets.landscape.record import METHODS, Frame, Past, side_by_side
from moe_lab_widgets.landscape.stories import STORIES
from moe_lab_widgets.specialization.panels.curves import median


class LandscapeLab(Lab):
    """The loss L4 of gated2019 and the squared error l2, from the same parameters and on the same batches.

    Beside them is a GRU cell, read as a mixture of experts of depth two.
    """

    title = "Landscapes"
    knobs = of.KNOBS
    stories = STORIES
    looks = of.LOOKS
    up_to: ClassVar[Mapping[str, str]] = {"shown": "trials"}
    fast_frames = 8.0

    picture: LandscapePicture

    def start(self, values: dict[str, Any]) -> Iterator[Frame]:
        return records_of(*of.runs(values))

    def make_picture(self, values: dict[str, Any]) -> LandscapePicture:
        return LandscapePicture(scale=self.scale)

    def code(self, values: dict[str, Any]) -> str:
        return of.code(values)

    def parts(self, record: Frame) -> dict[str, Snapshot]:
        return {method: shot for method in METHODS if (shot := record.of(method)) is not None}

    def data(self, records: Sequence[Frame]) -> xr.Dataset:
        """Both descents along a `model` axis, with the call that makes each."""
        names = list(self.parts(records[-1]))
        return model_axis(names, [collect(records[-1].shots(name)) for name in names])

    # ---- words ----

    def trouble(self, record: Frame) -> str:
        said = []
        for method, part in self.parts(record).items():
            if part.diverged.any():
                which = np.flatnonzero(part.diverged) + 1
                trials = f"trial{'s' * (len(which) > 1)} {', '.join(map(str, which))}"
                said.append(f"{NAMES[method]} became infinite in {trials}: try a smaller learning rate.")
        gone = int((record.past.lengths() == 0).any(1).sum())
        if gone:
            model = record.past.runs["L4"].model
            assert isinstance(model, L4Loss)
            said.append(
                "δ must be less than 4 λ p for every expert's share p, or L₄ is least where that expert's row is 0: "
                f"got δ={model.ridge:g}, λ={model.penalty:g} (in {gone} of {record.trials} trials). Lower δ or raise λ."
            )
        return " ".join(said)

    def progress(self, record: Frame) -> str:
        return f"step {record.step} of {record.past.total}"

    def caption(self, record: Frame) -> str:
        if record.of("l2") is None:
            return "Start: both losses begin at the same random regressors; ℓ₂ moves gates, too."
        trials, step = record.trials, record.step
        errors = [float(median(record.errors(method)[1][-1:])[0]) for method in METHODS]
        found = [int(record.found(method).sum()) for method in METHODS]
        said = (
            f"Step {step} of {record.past.total}: L₄ has found the regressors in {found[0]} of {trials} "
            f"trial{'s' * (trials > 1)} (median error {short(errors[0])}), ℓ₂ in {found[1]} ({short(errors[1])})"
        )
        if not all(record.ended(method) for method in METHODS):
            return said + "."
        (a, c), (b, d) = (tuple(int(one.sum()) for one in record.verdicts(method)) for method in METHODS)
        return said + f"; stuck: {a} against {b}" + (f" ({c} and {d} still falling)." if c + d else ".")


def records_of(l4: LossRun, l2: LossRun) -> Iterator[Frame]:
    """The records of two descents."""
    return side_by_side(descend_run(l4), lambda: descend_run(l2), Past({"L4": l4, "l2": l2}))
