"""GridlockLab: a mixture's regressors from a tensor, then its gates, live, beside EM on both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moe_lab.recovery.em import State, em
from moe_lab.recovery.gridlock import Run
from moe_lab.recovery.gridlock.grid_points import FOUND
from moe_lab.recovery.gridlock.training import samples_of, train_run
from moe_lab.recovery.measures import parameter_error
from moe_lab_widgets.drawing.trials import spread_words
from moe_lab_widgets.drawing.words import middle, two_digits
from moe_lab_widgets.engine.pair import PairLab
from moe_lab_widgets.gridlock import settings as of
from moe_lab_widgets.gridlock.picture import GridlockPicture
from moe_lab_widgets.gridlock.record import Frame, frames
from moe_lab_widgets.gridlock.stories import STORIES


class GridlockLab(PairLab):
    """The spectral method of gridlock2019 and joint EM on the same samples, iteration by iteration.

    The spectral method finds the regressors with power iterations on the whitened third moment of P3(y), then the gates
    with EM, then moves both; joint EM moves both from a random start.
    """

    title = "Gridlock"
    knobs = of.KNOBS
    stories = STORIES

    picture: GridlockPicture

    def check(self, values: Mapping[str, Any]) -> None:
        of.runs(values)

    def start(self, values: dict[str, Any]) -> Iterator[Frame]:
        return records_of(values, *of.runs(values))

    def work(self, values: Mapping[str, Any]) -> float:
        return of.work(values)

    def make_picture(self, values: dict[str, Any]) -> GridlockPicture:
        return GridlockPicture(scale=self.scale)

    def code(self, values: dict[str, Any]) -> str:
        return of.code(values)

    # ---- words ----

    def diverged(self, name: str, trials: str) -> str:
        method = "The EM after the power iterations" if name == "spectral" else "Joint EM"
        return f"{method} ran into infinite numbers in {trials}."

    def progress(self, record: Frame) -> str:
        joint = 0 if record.joint is None else record.joint.step
        return f"joint EM iteration {joint} of {record.total}"

    def caption(self, record: Frame) -> str:
        shown, power = self.picture.shown(record.trials), record.power
        experts = record.spectral["cosines"].shape[1]
        ours, theirs = (int(record.found(method)[shown].sum()) for method in record.names)
        step = record.spectral.step
        joint = 0 if record.joint is None else record.joint.step
        if record.joint is None:
            return (
                f"Start: T₃ is whitened to {experts} × {experts} × {experts} numbers, and nothing is found yet; "
                "joint EM begins with random regressors and gates."
            )
        if record.seeking:
            return (
                f"Power iteration {step} of {power}: {ours} of {experts} regressors have |cos| ≥ {FOUND:g} (trial "
                f"{shown + 1}); joint EM, iteration {joint}: {theirs} of {experts}."
            )
        errors = [middle(record.errors(method)[1][-1]) for method in record.names]
        trials = record.trials
        text = (
            f"Iteration {joint} of {record.total}: spectral + EM found {ours} of {experts} (error "
            f"{two_digits(errors[0])}), joint EM {theirs} of {experts} ({two_digits(errors[1])}); "
        )
        stuck = [int(record.stuck(method).sum()) for method in record.names]
        falling = [int(record.falling(method).sum()) for method in record.names]
        text += f"stuck: {stuck[0]} against {stuck[1]} of {trials} trial{'s' * (trials > 1)}"
        text += f" ({falling[0]} and {falling[1]} still falling)." if any(falling) else "."
        return text + spread_words(trials)


def records_of(values: Mapping[str, Any], spectral: Run, joint: Run) -> Iterator[Frame]:
    """Yields the records of two runs made of these values."""
    return frames(
        train_run(spectral),
        lambda: train_run(joint),
        lambda: from_the_truth(spectral, of.BEST_ITERATIONS),
        power=values["experts"] * of.POWER_ITERATIONS,
        total=values["iterations"],
        stride=of.power_stride(values),
    )


def from_the_truth(run: Run, iterations: int) -> Iterator[NDArray[np.float64]]:
    """Yields the errors (trial,) of EM from the true parameters, which no method can beat on these samples."""
    samples = samples_of(run)
    start = State(samples.truth.regressors, samples.truth.gates)
    x, y, task = samples.x, samples.y, run.task
    for progress in em(start, x, y, task.g, task.noise, iterations=iterations, move_regressors=True):
        yield parameter_error(*progress.state, samples.truth)
