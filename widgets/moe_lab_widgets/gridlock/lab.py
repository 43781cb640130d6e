"""GridlockLab: a mixture's regressors out of a tensor, then its gates, live, beside EM that seeks both at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from moe_lab.recovery.em import State, em
from moe_lab.recovery.gridlock import Run
from moe_lab.recovery.gridlock.grid_points import FOUND
from moe_lab.recovery.gridlock.training import samples_of, train_run
from moe_lab.recovery.measures import parameter_error
from moe_lab.training import Snapshot, collect
from moe_lab_widgets.engine.lab import Lab, model_axis
from moe_lab_widgets.gridlock import settings as of
from moe_lab_widgets.gridlock.panels.curves import short
from moe_lab_widgets.gridlock.picture import GridlockPicture
from moe_lab_widgets.gridlock.record import Frame, Past, side_by_side
from moe_lab_widgets.gridlock.stories import STORIES
from moe_lab_widgets.specialization.panels.curves import median


class GridlockLab(Lab):
    """The spectral method of gridlock2019 and joint EM on the same samples, iteration by iteration.

    The spectral method finds the regressors with power iterations on the whitened third moment of P3(y), then the gates
    with EM, then moves both; joint EM moves both from a random start.
    """

    title = "Gridlock"
    knobs = of.KNOBS
    stories = STORIES
    looks = ("shown",)
    up_to: ClassVar[Mapping[str, str]] = {"shown": "trials"}
    fast_frames = 8.0

    picture: GridlockPicture

    def start(self, values: dict[str, Any]) -> Iterator[Frame]:
        return records_of(values, *of.runs(values))

    def make_picture(self, values: dict[str, Any]) -> GridlockPicture:
        return GridlockPicture(scale=self.scale)

    def code(self, values: dict[str, Any]) -> str:
        return of.code(values)

    def parts(self, record: Frame) -> dict[str, Snapshot]:
        return {"spectral": record.spectral} | ({} if record.joint is None else {"joint": record.joint})

    def data(self, records: Sequence[Frame]) -> xr.Dataset:
        """Both methods along a `model` axis, with the call that makes each."""
        names = list(self.parts(records[-1]))
        return model_axis(names, [collect(records[-1].shots(name)) for name in names])

    # ---- words ----

    def trouble(self, record: Frame) -> str:
        said = []
        for name, part in self.parts(record).items():
            if part.diverged.any():
                which = np.flatnonzero(part.diverged) + 1
                trials = f"trial{'s' * (len(which) > 1)} {', '.join(map(str, which))}"
                method = "The EM after the power iterations" if name == "spectral" else "Joint EM"
                said.append(f"{method} ran into infinite numbers in {trials}.")
        return " ".join(said)

    def progress(self, record: Frame) -> str:
        joint = 0 if record.joint is None else record.joint.step
        return f"joint EM iteration {joint} of {record.past.total}"

    def caption(self, record: Frame) -> str:
        shown, power = self.picture.shown(record.trials), record.past.power
        experts = record.spectral["cosines"].shape[1]
        ours, theirs = (int(record.found(method)[shown].sum()) for method in ("spectral", "joint"))
        step = record.spectral.step
        joint = 0 if record.joint is None else record.joint.step
        if record.index == 0:
            return (
                f"Start: T₃ is whitened to {experts} × {experts} × {experts} numbers, and nothing is found yet; "
                "joint EM begins with random regressors and gates."
            )
        if record.seeking:
            return (
                f"Power iteration {step} of {power}: {ours} of {experts} regressors have |cos| ≥ {FOUND:g} (trial "
                f"{shown + 1}); joint EM, iteration {joint}: {theirs} of {experts}."
            )
        errors = [float(median(record.errors(method)[1][-1:])[0]) for method in ("spectral", "joint")]
        trials = record.trials
        said = (
            f"Iteration {joint} of {record.past.total}: spectral + EM found {ours} of {experts} (error "
            f"{short(errors[0])}), joint EM {theirs} of {experts} ({short(errors[1])}); "
        )
        stuck = [int(record.stuck(method).sum()) for method in ("spectral", "joint")]
        falling = [int(record.falling(method).sum()) for method in ("spectral", "joint")]
        said += f"stuck: {stuck[0]} against {stuck[1]} of {trials} trial{'s' * (trials > 1)}"
        return said + (f" ({falling[0]} and {falling[1]} still falling)." if any(falling) else ".")


def records_of(values: Mapping[str, Any], spectral: Run, joint: Run) -> Iterator[Frame]:
    """The records of two runs that were made of these values."""
    past = Past(values["experts"] * of.POWER_ITERATIONS, values["iterations"])
    return side_by_side(
        train_run(spectral),
        lambda: train_run(joint),
        lambda: from_the_truth(spectral, of.BEST_ITERATIONS),
        past,
        of.power_stride(values),
    )


def from_the_truth(run: Run, iterations: int) -> Iterator[NDArray[np.float64]]:
    """(trial,) errors of EM that begins at the true parameters: what the samples allow and no method can beat."""
    samples = samples_of(run)
    start = State(samples.truth.regressors, samples.truth.gates)
    x, y, task = samples.x, samples.y, run.task
    for progress in em(start, x, y, task.g, task.noise, iterations=iterations, move_regressors=True):
        yield parameter_error(*progress.state, samples.truth)
