"""Gradient descent on the losses of gated2019 as a stream of Snapshots."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from moe_lab.core.graphs import Iteration, on_accelerator, to_device
from moe_lab.core.interrupts import stop_if_unwanted
from moe_lab.core.memory import check
from moe_lab.core.origins import origin_of
from moe_lab.core.signatures import with_settings_of
from moe_lab.core.snapshots import Measure, Snapshot, TrialProgress
from moe_lab.core.trials import device_and_dtype, on_one_thread, stream
from moe_lab.recovery import measures
from moe_lab.recovery.data import MixtureTask, Parameters, Samples
from moe_lab.recovery.em import State, projected
from moe_lab.recovery.initialization import random_state
from moe_lab.recovery.landscape import losses
from moe_lab.recovery.landscape.losses import Loss
from moe_lab.recovery.landscape.run import SAMPLED_AT_ONCE, Descent, L2Loss, L4Loss, LogLoss, LossRun
from moe_lab.recovery.tensor import oriented
from moe_lab.recovery.transforms import Transforms, transforms

MEASURES = {
    "loss": Measure((), "", "the loss at these parameters, on the batch that comes next"),
    "slope": Measure((), "", "length of its gradient on that batch, before clipping"),
    "regressor_error": Measure((), "", "1 - smallest |cos| of a regressor to its true one, experts matched (E_reg)"),
    "gating_error": Measure((), "", "1 - smallest |cos| of a gate to its true one, in the gauge w_k = 0 (E_gating)"),
    "rows": Measure(("expert", "input"), "", "what moves: A; for L4 its pseudo-inverse holds the regressors"),
    "regressors": Measure(("expert", "input"), "", "estimated regressors, in the order of the experts' estimates"),
    "gates": Measure(("expert", "input"), "", "estimated gates"),
    "stage": Measure((), "", "0 while the first loss is descended, 1 while the second is"),
}
_LOOK_EVERY = 32  # steps after which the host looks whether all trials have diverged on an accelerator
_FOR_SIGNS = 8192  # samples that determine the signs of L4's regressors


@with_settings_of(LossRun)
def descend(model: Descent, task: MixtureTask, **settings: Any) -> Iterator[Snapshot]:
    """Descends a loss and yields Snapshots: before the first step, every `record_every` steps, and the end.

    >>> from moe_lab.recovery import MixtureTask
    >>> from moe_lab.recovery.landscape.training import L4Loss, descend
    >>> for snapshot in descend(L4Loss(), MixtureTask(noise=0.05), trials=5, seed=0):
    ...     error = snapshot["regressor_error"]  # (trial,)

    Args:
      model: L4Loss, L2Loss, or LogLoss, which may have one of the others find its regressors first.
      settings: the other parameters of `LossRun`.

    Raises:
      ConfigError: a wrong value or combination, before the first Snapshot.
      InvalidActivationError: L4 has no transforms for this activation.
      ValueError, RuntimeError: an unknown or absent device.
    """
    return descend_run(LossRun(model=model, task=task, **settings))


def descend_run(run: LossRun) -> Iterator[Snapshot]:
    """Runs `descend` for a given LossRun."""
    device, dtype = device_and_dtype(run)
    check(run.memory, run.trials, device)
    if any(isinstance(stage, L4Loss) for stage in run.stages):
        transforms(run.task.g, run.task.noise)
    return on_one_thread(_Descents(run, device, dtype).snapshots(), device)


class _Descents(TrialProgress):
    """The descents of all trials of a run."""

    def __init__(self, run: LossRun, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(run.trials, MEASURES)
        self.run, self.device, self.dtype = run, device, dtype
        self.origin = origin_of(run, device, paper="gated2019, section 3")
        self.coords = {"expert": np.arange(1, run.task.experts + 1), "input": np.arange(1, run.task.dimension + 1)}
        truth = run.task.parameters(run.trial_numbers, run.seed)
        self.truth = Parameters(*(part.to(device, self.dtype) for part in (truth.regressors, truth.gates)))

    def snapshots(self) -> Iterator[Snapshot]:
        """Descends one loss after the other; a Snapshot has the parameters before a step, and what that step finds."""
        run, done, there = self.run, 0, on_accelerator(self.device)
        zero = self.truth.gates.new_zeros(run.trials)
        lost, taken = zero != 0, torch.zeros_like(zero, dtype=torch.int64)
        state = start = random_state(run.task, run.trial_numbers, run.seed, self.truth.regressors)
        for stage, model in enumerate(run.stages):
            last = stage == len(run.stages) - 1
            if isinstance(model, LogLoss):
                state = State(self._regressors(state.regressors, stage), start.gates)
            batches = sample_batches(run, f"stage {stage}", self.device, self.dtype)
            rates = np.array([rate_at(model, step) for step in range(model.steps + 1)])
            rate = to_device(rates, self.device, self.dtype)
            follow: Iteration | None = None
            for step in range(model.steps + 1):
                stop_if_unwanted()
                inputs = (*(() if _blind(model) else next(batches)), rate[step])
                if follow is None:
                    follow = Iteration(_Step(model, self._loss(model)), (*state, zero, zero, lost, taken), inputs)
                before, counted = state, taken
                *moved_to, loss, slope, lost, taken = follow(*inputs)
                state = State(*moved_to)
                due = step % run.record_every == 0 or step == model.steps
                if due or not there or step % _LOOK_EVERY == 0:
                    self.diverged |= lost.cpu().numpy()
                    self.steps = counted.cpu().numpy()
                ended = last and (step == model.steps or bool(self.diverged.all()))
                if ended or (due and (last or step < model.steps)):  # the next stage begins with the same parameters
                    late = there and ended and step < model.steps  # all had diverged before the host looked
                    self.step = max(done, int(self.steps.max())) if late else done + step
                    yield self._snapshot(stage, before, loss, slope, ended)
                if ended:
                    return
            state, taken = before, counted  # there is no step after the last
            done += model.steps

    def _loss(self, model: Descent) -> Callable[..., Loss]:
        """The loss as a function of the state and a batch."""
        task = self.run.task
        if isinstance(model, L2Loss):
            return partial(losses.l2, g=task.g)
        if isinstance(model, LogLoss):
            return partial(losses.l_log, g=task.g, sigma=task.noise)
        if model.population:
            shares = losses.shares_of(self.truth.gates)
            return partial(_l4_population, truth=self.truth.regressors, shares=shares, weights=model.weights)
        return partial(_l4, polynomials=transforms(task.g, task.noise), weights=model.weights)

    def _regressors(self, rows: Tensor, stage: int) -> Tensor:
        """Regressors of the second stage: the true ones, those of l2, or those that L4's A stands for."""
        if stage == 0:
            return self.truth.regressors
        if not isinstance(self.run.stages[0], L4Loss):
            return rows
        run = self.run
        how: Any = {"split": "signs", "device": self.device, "dtype": self.dtype}
        samples = run.task.sample(_FOR_SIGNS, trials=run.trial_numbers, seed=run.seed, **how)
        return oriented(losses.regressors_from(rows), samples.inputs, samples.y, transforms(run.task.g, run.task.noise))

    def _snapshot(self, stage: int, state: State, loss: Tensor, slope: Tensor, ended: bool) -> Snapshot:
        run = self.run
        on_l4 = isinstance(run.stages[stage], L4Loss)
        self.diverged |= ~torch.isfinite(_length(state)).cpu().numpy()
        broken = torch.as_tensor(self.diverged, device=self.device)[:, None, None]
        stand_in = State(self.truth.regressors, self.truth.gates)  # measured where diverged, then set to NaN
        rows, gates = (torch.where(broken, true, part) for true, part in zip(stand_in, state, strict=True))
        regressors = losses.regressors_from(rows) if on_l4 else rows
        gating = measures.gating_fit(gates, regressors, self.truth)
        values: dict[str, Tensor | np.ndarray] = {
            "loss": loss,
            "slope": slope,
            "regressor_error": 1 - measures.regressor_fit(regressors, self.truth.regressors),
            "gating_error": np.full(run.trials, np.nan) if on_l4 else 1 - gating,
            "rows": rows,
            "regressors": regressors,
            "gates": gates,
            "stage": np.full(run.trials, float(stage)),
        }
        self.record({name: _array(value) for name, value in values.items()})
        self.finished = self.diverged | ended
        return self.snapshot(self.origin, self.coords)


def _blind(model: Descent) -> bool:
    """Whether a descent uses no samples."""
    return isinstance(model, L4Loss) and model.population


def _l4(state: State, x: Tensor, y: Tensor, *, polynomials: Transforms, weights: losses.Weights) -> Loss:
    value, slope = losses.l4(state.regressors, x, y, polynomials, weights)
    return Loss(value, State(slope, torch.zeros_like(state.gates)))


def _l4_population(state: State, *, truth: Tensor, shares: Tensor, weights: losses.Weights) -> Loss:
    value, slope = losses.l4_population(state.regressors, truth, shares, weights)
    return Loss(value, State(slope, torch.zeros_like(state.gates)))


def _length(state: State) -> Tensor:
    """(T,) the norm of all parameters together."""
    return (state.regressors.square().sum((1, 2)) + state.gates.square().sum((1, 2))).sqrt()


def _array(value: Tensor | np.ndarray) -> np.ndarray:
    return value.cpu().numpy() if isinstance(value, Tensor) else value


@dataclass(frozen=True)
class _Step:
    """One step of a descent as a function of tensors: the parameters after it, and the loss and its slope before it."""

    model: Descent
    loss: Callable[..., Loss]

    def __call__(
        self, rows: Tensor, gates: Tensor, value: Tensor, slope: Tensor, lost: Tensor, taken: Tensor, *inputs: Tensor
    ) -> tuple[Tensor, ...]:
        *batch, rate = inputs
        state = State(rows, gates)
        loss = self.loss(state, *batch)
        slope = _length(loss.slope)
        lost = lost | ~torch.isfinite(loss.value + slope)
        return (*moved(self.model, state, loss, slope, rate), loss.value, slope, lost, taken + ~lost)


def rate_at(model: Descent, step: int) -> float:
    """Returns the learning rate after some steps."""
    return model.rate * (0.5 + 0.5 * math.cos(math.pi * step / model.steps) if model.cosine else 1.0)


def moved(model: Descent, state: State, loss: Loss, slope: Tensor, rate: Tensor) -> State:
    """Takes one step: rate * gradient, the gradient clipped to `clip`; L_log's gates are projected onto their ball.

    Args:
      slope: (T,) the gradient's length.
      rate: one number.
    """
    scale = rate.expand_as(slope)
    if model.clip is not None:
        scale = scale * (model.clip / slope.clamp(min=model.clip))
    rows, gates = (now - scale[:, None, None] * by for now, by in zip(state, loss.slope, strict=True))
    return State(rows, projected(gates, model.radius) if isinstance(model, LogLoss) else gates)


def sample_batches(
    run: LossRun, purpose: str, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float64
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields x and y of one batch after another, without end.

    Fresh batches are parts of blocks of a fixed size, so that they depend neither on the number of trials nor of steps.
    A fixed set is shuffled in each epoch; a last part smaller than a batch is left out.
    """
    size, trials = run.batch, run.trial_numbers

    def sampled(count: int, split: str) -> Samples:
        return run.task.sample(count, trials=trials, seed=run.seed, split=split, device=device, dtype=dtype)

    if run.samples is None:
        at_once = max(1, SAMPLED_AT_ONCE // (size * run.task.dimension))
        for block in range(2**62):
            samples = sampled(at_once * size, f"{purpose}/block {block}")
            yield from zip(samples.x.split(size, 1), samples.y.split(size, 1), strict=True)
    samples, count = sampled(run.samples or size, "train"), run.samples or size
    if size == count:
        while True:
            yield samples.x, samples.y
    for epoch in range(2**62):
        orders = [stream(run.seed, trial, f"{purpose}/epoch {epoch}").permutation(count) for trial in trials]
        order = to_device(np.stack(orders), device)
        for begin in range(0, count - size + 1, size):
            part = order[:, begin : begin + size]
            index = part[..., None].expand(-1, -1, samples.x.shape[2])
            yield samples.x.gather(1, index), samples.y.gather(1, part)
