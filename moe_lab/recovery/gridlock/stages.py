"""The stages of a recovery as one Learner: power iterations, EM of the gates, EM of everything; or joint EM alone."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from moe_lab.core.training import Learner
from moe_lab.recovery import measures
from moe_lab.recovery.data import MixtureSamples
from moe_lab.recovery.em import EM, State, posterior
from moe_lab.recovery.gridlock.run import BY_MOMENTS, JointEM, MixtureRun, Phase, Spectral
from moe_lab.recovery.gridlock.spectral import DECOMPOSITIONS, Decomposition, PowerMethod, power_starts
from moe_lab.recovery.initialization import random_state
from moe_lab.recovery.moments import gate_by_moments
from moe_lab.recovery.printed import as_printed
from moe_lab.recovery.transforms import transforms

PHASES: tuple[Phase, ...] = get_args(Phase)


class GatesByMoments(Learner):
    """The gates of two experts from one moment, in one step (theorem 3)."""

    def __init__(self, start: State, samples: MixtureSamples, run: MixtureRun, centred: bool) -> None:
        super().__init__(range(len(samples.y)), samples.y.new_zeros(()))
        self.state, self._samples, self._g, self._centred = start, samples, run.task.g, centred

    @property
    def changed(self) -> None:
        """None: one step is not worth a graph."""
        return

    def step(self, *inputs: Tensor) -> None:
        regressors, samples = self.state.regressors, self._samples
        gate = gate_by_moments(regressors, samples.inputs, samples.y, self._g, centred=self._centred)
        self.state = State(regressors, torch.stack((gate, torch.zeros_like(gate)), dim=1))

    def keep(self, positions: np.ndarray) -> None:
        super().keep(positions)
        there = torch.as_tensor(positions, device=self.like.device)
        self._samples, self.state = self._samples.of(there), State(*(part[there] for part in self.state))


class Recovering(Learner):
    """All trials of a run, one stage after the other. Algorithms use x and y alone; the truth is for measures.

    Args:
      known: parameters with which EM begins, in place of what a decomposition finds or of random ones.

    Attributes:
      phase: of the last step; before the first, of the one to come.
      last_step: after which the run ends.

    A trial whose T2 has rank below k has estimates that are not finite.
    """

    def __init__(self, run: MixtureRun, samples: MixtureSamples, known: State | None = None) -> None:
        super().__init__(run.trial_numbers, samples.y.new_zeros(()))
        self.run, self.samples = run, samples
        self._before = _start(run, samples) if known is None else known
        self._sought = [stage for stage in run.stages if known is None or stage[0] != "regressors"]
        self.last_step = sum(self.stages)
        self._stage: Decomposition | EM | GatesByMoments | None = None
        self.phase, self._left, self._entered = "everything", 0, 0
        if self._sought:
            self.enter()

    @property
    def stages(self) -> list[int]:
        return [steps for _, steps in self._sought]

    def enter(self) -> None:
        """Begins the next stage with what the one before has found."""
        stage, before = self._stage, self._before
        self._before = State(stage.found, before.gates) if isinstance(stage, Decomposition) else self.state
        self.phase, self._left = self._sought[self._entered]
        self._entered += 1
        model, samples, task = self.run.model, self.samples, self.run.task
        if self.phase == "regressors":
            self._stage = _decomposition(self.run, samples)
        elif self.phase == "gates" and model.gate_step in BY_MOMENTS:
            centred = model.gate_step == "centred-moments"
            self._stage = GatesByMoments(self._before, samples, self.run, centred)
        else:
            how = em_arguments(model) if self.phase == "gates" or isinstance(model, JointEM) else {}
            moving = self.phase == "everything"
            self._stage = EM(self._before, samples.x, samples.y, task.g, task.noise, move_regressors=moving, **how)

    @property
    def state(self) -> State:
        """The estimates; regressors that are not sought yet are zeros."""
        if self._stage is None:
            return self._before
        if isinstance(self._stage, Decomposition):
            return State(self._stage.regressors, self._before.gates)
        return self._stage.state

    @property
    def changed(self) -> None:
        """None: each stage captures its own step."""
        return

    def step(self, *inputs: Tensor) -> None:
        if not self._left:
            self.enter()
        assert self._stage is not None
        self._stage.advance(1)
        self._left -= 1
        self.loss.copy_(self._stage.loss)

    def keep(self, positions: np.ndarray) -> None:
        super().keep(positions)
        there = torch.as_tensor(positions, device=self.like.device)
        self.samples, self._before = self.samples.of(there), State(*(part[there] for part in self._before))
        self._stage = None if self._stage is None else self._stage.only(positions)

    def measure(self, whole: bool) -> dict[str, Tensor]:
        """Evaluates `MEASURES`; what is not finite is NaN."""
        state, truth, task, samples = self.state, self.samples.truth, self.run.task, self.samples
        likelihood = posterior(state, samples.x, samples.y, task.g, task.noise)[2]
        order = measures.matched(state.regressors, truth.regressors)[..., None]
        regressors, gates = (part.gather(1, order.expand_as(part)) for part in state)
        gate_cosines = measures.cosines(truth.gates, measures.in_gauge(gates)).diagonal(dim1=1, dim2=2)
        return {
            "regressor_fit": measures.regressor_fit(state.regressors, truth.regressors),
            "gating_fit": measures.gating_fit(state.gates, state.regressors, truth),
            "error": measures.parameter_error(state.regressors, state.gates, truth),
            "likelihood": likelihood,
            "cosines": measures.cosines(truth.regressors, regressors),
            "gate_cosines": gate_cosines[:, : task.experts - 1],
            "phase": torch.full_like(likelihood, PHASES.index(self.phase)),
            "component": self._component(),
        }

    def _component(self) -> Tensor:
        """Computes the largest |cos| of the component that moved last to a true regressor; NaN where there is none."""
        stage, truth = self._stage, self.samples.truth.regressors
        if not isinstance(stage, PowerMethod):
            return torch.full_like(self.loss, torch.nan)
        return measures.cosines(truth, stage.latest).amax((1, 2))


def _start(run: MixtureRun, samples: MixtureSamples) -> State:
    """Returns the parameters with which a method begins; of a decomposition the regressors do not matter."""
    if isinstance(run.model, JointEM) and run.model.start == "truth":
        return State(samples.truth.regressors, samples.truth.gates)
    return random_state(run.task, run.trial_numbers, run.seed, samples.x)


def em_arguments(model: Spectral | JointEM) -> dict[str, Any]:
    """Returns the arguments of `EM` that say how a method moves the gates."""
    radius = model.radius if isinstance(model, JointEM) else None
    return {"gradient_rate": model.gate_rate if model.gate_step == "gradient" else None, "radius": radius}


def _decomposition(run: MixtureRun, samples: MixtureSamples) -> Decomposition:
    model, task = run.model, run.task
    assert isinstance(model, Spectral)
    polynomials = transforms(task.g, task.noise)
    polynomials = as_printed(polynomials) if model.printed else polynomials
    starts = power_starts(model, task, run.trial_numbers, run.seed, samples.x)
    return DECOMPOSITIONS[model.decomposition](samples.inputs, samples.y, task.experts, polynomials, model, starts)


def recovered(run: MixtureRun, samples: MixtureSamples, known: State | None = None) -> State:
    """Returns what a run estimates from samples; `known` as for `Recovering`."""
    recovering = Recovering(run, samples, known)
    recovering.advance(recovering.last_step)
    return recovering.state
