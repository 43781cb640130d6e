"""Which trials of EM are stuck: a recovery that ends where it stands still, and judges what it has come to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from moe_lab.core.config import knob
from moe_lab.core.snapshots import Measure, Snapshot
from moe_lab.core.training import Training
from moe_lab.core.trials import device_and_dtype, on_one_thread
from moe_lab.recovery import measures
from moe_lab.recovery.data import MixtureSamples, Parameters
from moe_lab.recovery.em import State
from moe_lab.recovery.gridlock.run import MixtureRun
from moe_lab.recovery.gridlock.stages import Recovering
from moe_lab.recovery.gridlock.training import MEASURES, samples_of

FOUND = 0.95
"""The least regressor fit of a trial that counts as found. Good solutions have .99 and more, and nothing lies between
that and .9 for long."""
WINDOW, GAIN = 20, 0.02
"""EM has converged where its error fell by less than 2 % in the last 20 iterations (`converged`)."""
FITS = {name: MEASURES[name] for name in ("regressor_fit", "gating_fit", "error")}
VERDICTS = {
    "stuck": Measure((), "", "1 where a trial has converged and its regressors are not found"),
    "converged": Measure((), "", "1 where the error fell by less than `gain` in the last `window` iterations"),
    **FITS,
}
FIXED = 1e-10
"""A move of all parameters, in an iteration, below which EM is at a fixed point."""
LOOK = 8
"""Iterations after which trials at a fixed point may leave: those that stay cost a new start."""


class JudgedRun(MixtureRun):
    """A run whose trials are judged at its end."""

    window: int = knob(WINDOW, meaning="iterations over which convergence is judged", ge=1)
    gain: float = knob(GAIN, meaning="what an error must fall by in them, unless EM has converged", gt=0, lt=1)

    @property
    def measure(self) -> str:
        """The last Snapshot alone is evaluated."""
        return "last"


def converged(before: Float[Tensor, " T"], now: Float[Tensor, " T"], gain: float = GAIN) -> Bool[Tensor, " T"]:
    """Whether an error E(A, W) fell by less than `gain` of what it was `WINDOW` iterations before, or rose.

    With a regressor fit below `FOUND` that is what "stuck" means in this room. False where an error is NaN.
    """
    return before - now < gain * before


def fits_of(state: State, truth: Parameters) -> dict[str, Float[Tensor, " T"]]:
    """Computes `FITS`; NaN where a parameter is not finite."""
    good = (state.regressors.isfinite() & state.gates.isfinite()).flatten(1).all(1)
    regressors, gates = (torch.where(good[:, None, None], part, torch.zeros_like(part)) for part in state)
    found = {
        "regressor_fit": measures.regressor_fit(regressors, truth.regressors),
        "gating_fit": measures.gating_fit(gates, regressors, truth),
        "error": measures.parameter_error(regressors, gates, truth),
    }
    return {name: torch.where(good, value, torch.nan) for name, value in found.items()}


class Judged(Recovering):
    """A recovery whose trials end where an iteration of EM of everything leaves all parameters where they were.

    They would stay there, so EM goes on without them, which changes nothing but the time.
    """

    may_leave: ClassVar[bool] = True
    run: JudgedRun

    def __init__(self, run: JudgedRun, samples: MixtureSamples) -> None:
        super().__init__(run, samples)
        self._moved = torch.full_like(self.loss, torch.inf)  # by the last iteration, at most

    def enter(self) -> None:
        super().enter()
        self._earlier = State(*(part.clone() for part in self.state))  # `window` iterations before the end

    def step(self, *inputs: Tensor) -> None:
        if not self._left:
            self.enter()
        if self.phase != "everything":
            super().step()
            return
        before = [part.clone() for part in self.state]
        super().step()
        moves = [(now - old).abs().flatten(1).amax(1) for now, old in zip(self.state, before, strict=True)]
        self._moved.copy_(torch.maximum(*moves))
        early = (self.steps + 1 <= self.last_step - self.run.window)[:, None, None]
        for now, old, earlier in zip(self.state, before, self._earlier, strict=True):
            now.copy_(torch.where(self.active[:, None, None], now, old))
            earlier.copy_(torch.where(early, now, earlier))

    def until_rule(self) -> int:
        return LOOK

    def end_trials(self) -> None:
        self.active &= ~(self._moved < FIXED)

    def end_all(self, last: Bool[Tensor, ""]) -> None:
        self.end_trials()

    def keep(self, positions: np.ndarray) -> None:
        super().keep(positions)
        there = torch.as_tensor(positions, device=self.like.device)
        self._moved, self._earlier = self._moved[there], State(*(part[there] for part in self._earlier))

    def measure(self, whole: bool) -> dict[str, Tensor]:
        """Evaluates `VERDICTS`."""
        found = fits_of(self.state, self.samples.truth)
        still = converged(fits_of(self._earlier, self.samples.truth)["error"], found["error"], self.run.gain)
        return {
            "stuck": (still & (found["regressor_fit"] < FOUND)).to(self.like),
            "converged": still.to(self.like),
            **found,
        }


class Judging(Training[Judged]):
    """The trials of a run that are judged."""

    must_be_finite = ("error",)


def judging(run: JudgedRun) -> Judging:
    """Begins a run whose trials are judged."""
    return Judging(run, VERDICTS, [Judged(run, samples_of(run))])


def judged_snapshots(run: JudgedRun) -> Iterator[Snapshot]:
    """Yields Snapshots of a run whose trials are judged; the last one has `VERDICTS`."""
    device, _ = device_and_dtype(run)

    def snapshots() -> Iterator[Snapshot]:
        yield from judging(run).snapshots()

    return on_one_thread(snapshots(), device)
