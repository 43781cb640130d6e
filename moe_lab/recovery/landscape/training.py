"""Gradient descent on the losses of gated2019 as a stream of Snapshots."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab.core import training
from moe_lab.core.config import require
from moe_lab.core.graphs import to_device
from moe_lab.core.memory import check
from moe_lab.core.signatures import with_settings_of
from moe_lab.core.snapshots import Measure, Snapshot
from moe_lab.core.trials import Draw, device_and_dtype, from_elsewhere, stream
from moe_lab.recovery import measures
from moe_lab.recovery.data import MixtureSamples, MixtureTask, Parameters
from moe_lab.recovery.em import State, projected
from moe_lab.recovery.initialization import random_state
from moe_lab.recovery.landscape import losses, planes
from moe_lab.recovery.landscape.losses import Loss
from moe_lab.recovery.landscape.run import Descent, L2Loss, L4Loss, LogLoss, LossRun
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
    "plane_lengths": Measure(("expert",), "", "of the rows where L4 is least; 0 for a large delta, NaN for none"),
    "plane_values": Measure(
        ("second", "first"), "", "the loss on a plane through minima (`planes`), the second upwards"
    ),
    "plane_true": Measure(("minimum", "direction"), "", "true minima on the plane, from -1 to 1; NaN for none"),
    "plane_false": Measure(("valley", "direction"), "", "other valleys on the plane, from -1 to 1; NaN for none"),
    "plane_place": Measure(("coordinate",), "", "where the descent is on the plane, and its distance from it"),
}
PLANE_PARTS = ("values", "true", "false", "lengths")
"""What is measured of a plane, the same in every Snapshot."""
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
    """Runs `descend` for a given LossRun: one loss after the other."""
    device, _ = device_and_dtype(run)
    check(run.memory, run.trials, device)
    if any(isinstance(stage, L4Loss) for stage in run.stages):
        transforms(run.task.g, run.task.noise)
    return _stages(run)


def _stages(run: LossRun) -> Iterator[Snapshot]:
    before: Descending | None = None
    for stage in range(len(run.stages)):
        descents = Descents(run, stage, before)
        for snapshot in descents.snapshots():
            handed_on = snapshot.step == descents.last_step < run.last_step  # the next stage begins with the same
            if not handed_on or snapshot.diverged.all():
                yield snapshot
        before = descents.learners[0]
        if descents.diverged.all():
            return


class Descending(training.Learner):
    """All trials of a run on the loss of one stage.

    Args:
      before: the stage before, at its end.

    Attributes:
      state: what moves; for L4, whose gates stay, the rows of A are in the place of regressors.
      loss: (T,) at the parameters before the last step, infinite or NaN from then on.
    """

    def __init__(self, run: LossRun, stage: int, before: Descending | None) -> None:
        device, dtype = device_and_dtype(run)
        truth = run.task.parameters(run.trial_numbers, run.seed)
        self.truth = Parameters(*(part.to(device, dtype) for part in (truth.regressors, truth.gates)))
        super().__init__(run.trial_numbers, self.truth.regressors.new_zeros(()))
        self.run, self.stage, self.model = run, stage, run.stages[stage]
        self.state = State(*(part.clone() for part in self._start(before)))
        if before is not None:
            self.done, self.steps, self.active, self.loss = before.done, before.steps, before.active, before.loss
        self._begin, self._loss = self.steps.clone(), self._loss_of()
        self.plane: planes.Plane | None = None
        if run.planes:
            found = planes.plane(run, truth, State(*(part.cpu().double() for part in self.state)))
            self.plane = planes.Plane(*(part.to(device, dtype) for part in found))
            self.constants = {f"plane_{name}": getattr(self.plane, name) for name in PLANE_PARTS}
        blind = self._blind or from_elsewhere()
        self._batches = repeat(()) if blind else sample_batches(run, f"stage {stage}", device, dtype)
        self._next: tuple[Tensor, ...] = next(self._batches)  # a Snapshot tells the loss on it

    @property
    def changed(self) -> State:
        return self.state

    def inputs(self, steps: int) -> Iterator[tuple[Tensor, ...]]:
        """Yields the batch of each step: x and y, unless the loss needs none."""
        for _ in range(steps):
            yield self._next
            self._next = next(self._batches)

    @property
    def step_draws(self) -> dict[str, Draw]:
        """Raw numbers of the batch of a step, unless the loss needs none.

        Raises:
          ValueError: batches are not fresh, or inputs are from two Gaussians.
        """
        if self._blind:
            return {}
        task, samples = self.run.task, self.run.samples
        rule = "raw numbers of a step are those of fresh batches of N(0, I)"
        require(samples is None and task.first_share is None, rule, n=samples, first_share=task.first_share)
        wanted = task.draws(self.run.batch, f"stage {self.stage}/block {{}}")
        return {name: wanted[name]._replace(block=self.run.block) for name in ("inputs", "experts", "noise")}

    def inputs_of(self, raw: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        if self._blind:
            return ()
        samples = self.run.task.made(raw, self.truth)
        return samples.x, samples.y

    def step(self, *batch: Tensor) -> None:
        loss = self._loss(self.state, *batch)
        slope = _length(loss.slope)
        self.active &= (loss.value + slope).isfinite()
        self.loss.copy_(torch.where(self.active, loss.value, torch.nan))
        rate = rate_at(self.model, (self.steps - self._begin).to(slope))
        for part, after in zip(self.state, moved(self.model, self.state, loss, slope, rate), strict=True):
            part.copy_(after)

    def measure(self, whole: bool) -> dict[str, Tensor]:
        """Evaluates the loss on the batch that comes next, and the distances to the truth."""
        state, on_l4 = self.state, isinstance(self.model, L4Loss)
        batch = self._next if self.coming is None else self.inputs_of(self.coming)
        loss, length = self._loss(state, *batch), _length(state)
        broken = ~(length + self.loss).isfinite()[:, None, None]
        stand_in = State(self.truth.regressors, self.truth.gates)  # measured where diverged, then set to NaN
        rows, gates = (torch.where(broken, true, part) for true, part in zip(stand_in, state, strict=True))
        regressors = losses.regressors_from(rows) if on_l4 else rows
        fit = measures.regressor_fit(regressors, self.truth.regressors)
        gating = measures.gating_fit(gates, regressors, self.truth)
        where = {} if self.plane is None else {"plane_place": self.plane.of(planes.flat(self.model.name, *state))}
        return where | {
            "loss": torch.where(length.isfinite(), loss.value, torch.nan),
            "slope": _length(loss.slope),
            "regressor_error": 1 - fit,
            "gating_error": torch.full_like(fit, torch.nan) if on_l4 else 1 - gating,
            "rows": rows,
            "regressors": regressors,
            "gates": gates,
            "stage": torch.full_like(fit, self.stage),
        }

    @property
    def _blind(self) -> bool:
        """Whether the descent uses no samples."""
        return isinstance(self.model, L4Loss) and self.model.population

    def _start(self, before: Descending | None) -> State:
        """The start of a run, or of L_log the regressors that stay: the true ones, or those of the stage before."""
        run = self.run
        start = random_state(run.task, self.trials, run.seed, self.truth.regressors)
        if not isinstance(self.model, LogLoss):
            return start
        if before is None:
            return State(self.truth.regressors, start.gates)
        rows = before.state.regressors
        if not isinstance(before.model, L4Loss):
            return State(rows, start.gates)
        how: Any = {"split": "signs", "device": rows.device, "dtype": rows.dtype}
        samples = run.task.sample(_FOR_SIGNS, trials=self.trials, seed=run.seed, **how)
        found = losses.regressors_from(rows)
        return State(oriented(found, samples.inputs, samples.y, transforms(run.task.g, run.task.noise)), start.gates)

    def _loss_of(self) -> Callable[..., Loss]:
        """The loss as a function of the state and a batch."""
        task, model = self.run.task, self.model
        if isinstance(model, L2Loss):
            return partial(losses.l2, g=task.g)
        if isinstance(model, LogLoss):
            return partial(losses.l_log, g=task.g, sigma=task.noise)
        if model.population:
            shares = losses.shares_of(self.truth.gates)
            return partial(_l4_population, truth=self.truth.regressors, shares=shares, weights=model.weights)
        return partial(_l4, polynomials=transforms(task.g, task.noise), weights=model.weights)


class Descents(training.Training[Descending]):
    """The trials of a run on the loss of one stage."""

    must_be_finite = ("loss", "slope")

    def __init__(self, run: LossRun, stage: int, before: Descending | None) -> None:
        learners = (Descending(run, stage, one) for one in [before])
        super().__init__(run, MEASURES, learners, paper="gated2019, section 3")
        self.last_step = self.step + run.stages[stage].steps

    @property
    def coords(self) -> dict[str, np.ndarray]:
        return {"expert": np.arange(1, self.run.task.experts + 1), "input": np.arange(1, self.run.task.dimension + 1)}


def _l4(state: State, x: Tensor, y: Tensor, *, polynomials: Transforms, weights: losses.Weights) -> Loss:
    value, slope = losses.l4(state.regressors, x, y, polynomials, weights)
    return Loss(value, State(slope, torch.zeros_like(state.gates)))


def _l4_population(state: State, *, truth: Tensor, shares: Tensor, weights: losses.Weights) -> Loss:
    value, slope = losses.l4_population(state.regressors, truth, shares, weights)
    return Loss(value, State(slope, torch.zeros_like(state.gates)))


def _length(state: State) -> Tensor:
    """(T,) the norm of all parameters together."""
    return (state.regressors.square().sum((1, 2)) + state.gates.square().sum((1, 2))).sqrt()


def rate_at(model: Descent, steps: Float[Tensor, " T"]) -> Float[Tensor, " T"]:
    """Returns the learning rate after some steps."""
    part = 0.5 + 0.5 * torch.cos(math.pi / model.steps * steps) if model.cosine else torch.ones_like(steps)
    return model.rate * part


def moved(model: Descent, state: State, loss: Loss, slope: Tensor, rate: Tensor) -> State:
    """Takes one step: rate * gradient, the gradient clipped to `clip`; L_log's gates are projected onto their ball.

    Args:
      slope: (T,) the gradient's length.
      rate: (T,).
    """
    if model.clip is not None:
        rate = rate * (model.clip / slope.clamp(min=model.clip))
    rows, gates = (now - rate[:, None, None] * by for now, by in zip(state, loss.slope, strict=True))
    return State(rows, projected(gates, model.radius) if isinstance(model, LogLoss) else gates)


def sample_batches(
    run: LossRun, purpose: str, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float64
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields x and y of one batch after another, without end.

    Fresh batches are parts of blocks of a fixed size, so that they depend neither on the number of trials nor of steps.
    A fixed set is shuffled in each epoch; a last part smaller than a batch is left out.
    """
    size, trials = run.batch, run.trial_numbers

    def sampled(count: int, split: str) -> MixtureSamples:
        return run.task.sample(count, trials=trials, seed=run.seed, split=split, device=device, dtype=dtype)

    if run.samples is None:
        numbers, each = run.block
        at_once = max(1, numbers // each)
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
