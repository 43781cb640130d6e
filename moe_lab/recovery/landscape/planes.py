"""Planes of parameters that are known before a descent begins, and the losses L4 and l2 on them.

A plane that is shown during a descent cannot depend on its end, but on the start, and on the minima of the losses.

L4, two experts: A = 0, and two assignments of the true regressors to the rows of A, with the signs that the start has.
In population and for orthonormal regressors <a_i, a_m*> never changes its sign, so that one of the two is where a
descent ends. More experts have more assignments: their plane has A = 0, the assignment nearest to the start, and the
start.

l2, two experts: y's mean is <a_1 + a_2, x>/2 + tanh(<w, x>/2) <a_1 - a_2, x>/2, nearly symmetric in w and a_1 - a_2.
The plane has the true parameters along one axis, and along the other those with the directions of the two exchanged,
where there is another valley. It has no minimum: its floor falls, though hardly, as w shrinks and a_1 - a_2 grows; the
cross stands where both have the lengths of the true ones. The middle is "both experts are the mean, the gate is open".
More experts: the same middle, the true assignment nearest to the start, and the start.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.recovery.activations import Activation
from moe_lab.recovery.data import MixtureTask, Parameters
from moe_lab.recovery.em import State
from moe_lab.recovery.initialization import random_state
from moe_lab.recovery.landscape import losses
from moe_lab.recovery.landscape.run import L2Loss, L4Loss, LossRun
from moe_lab.recovery.measures import assigned

SIDE = 29
"""Points along each side at which a loss is computed."""
SAMPLES = 1024
"""Samples on which l2 is computed; they belong to no batch."""
_AT_ONCE = 64  # points of the plane
_MARGIN = 1.3
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Plane:
    """A plane with a loss on it.

    Attributes:
      origin, first, second: (m,) a point of the plane and two orthonormal directions in it.
      half: the plane is shown from -half to half along both.
      true: (j, 2) where the loss has its true minima, in units of the directions.
      false: (j, 2) in the other valleys, if they are known.
      values: (SIDE, SIDE) the loss; rows go along the second direction, upwards.
    """

    origin: Array
    first: Array
    second: Array
    half: float
    true: Array
    false: Array
    values: Array

    def coordinates(self, points: Array) -> Array:
        """Returns (n, 3) coordinates of points (n, m) in the plane, and their distance from it."""
        return coordinates(points, self.origin, self.first, self.second)


def coordinates(points: Array, origin: Array, first: Array, second: Array) -> Array:
    """Returns (n, 3): coordinates of points (n, m) along two orthonormal directions, and distances from their plane."""
    apart = points - origin
    inside = apart @ np.stack((first, second), axis=1)
    squares = np.clip((apart**2).sum(1) - (inside**2).sum(1), 0, None)
    return np.column_stack((inside, np.sqrt(squares)))


def orthonormal(first: Array, second: Array) -> tuple[Array, Array]:
    """Orthonormalizes two directions by Gram-Schmidt."""
    first = first / np.linalg.norm(first)
    second = second - (second @ first) * first
    return first, second / np.linalg.norm(second)


def flat(loss: str, rows: Array, gates: Array) -> Array:
    """Returns the parameters that a loss moves, (n, m): for L4 A (n, k, d); for l2 also all gates but the last (0)."""
    moved = rows if loss == "L4" else np.concatenate((rows, gates[:, :-1]), axis=1)
    return moved.reshape(len(moved), -1)


def permuted(regressors: Array, gates: Array, order: NDArray[np.int64]) -> Array:
    """Returns the flat parameters of l2 with the experts in another order, shifted such that w_k = 0."""
    return np.concatenate((regressors[order], (gates[order] - gates[order[-1]])[:-1])).ravel()


def plane(run: LossRun, trial: int) -> Plane:
    """Returns the plane of one trial of a run, cached: learning rates, batches and steps do not change it."""
    assert isinstance(run.model, (L4Loss, L2Loss))
    return _plane(run.model.replace(steps=1, rate=0.1), run.task, run.seed, trial)


@lru_cache(maxsize=32)
def _plane(model: L4Loss | L2Loss, task: MixtureTask, seed: int, trial: int) -> Plane:
    run = LossRun(model=model, task=task, seed=seed, trials=1, first_trial=trial)
    truth = task.parameters([trial], seed)
    start = random_state(task, [trial], seed, truth.regressors)
    rows, regressors, gates = (part[0].numpy() for part in (start.regressors, truth.regressors, truth.gates))
    if isinstance(model, L4Loss):
        length, nothing = lengths(truth, model.weights), np.zeros(regressors.size)
        collapsed = not (length > 0).all()
        every = _assigned(rows, regressors if collapsed else length[0, :, None] * regressors)
        points = [rows.ravel() for rows in every[: 2 if task.experts == 2 else 1]]
        return _spanned(run, nothing, points, [], flat("L4", rows[None], rows[None])[0], not collapsed)
    first = start.gates[0].numpy()
    middle = np.concatenate((np.tile(regressors.mean(0), (len(regressors), 1)), np.zeros_like(gates[:-1])))
    begin = flat("l2", rows[None], first[None])[0]
    true = permuted(regressors, gates, assigned(-(rows @ regressors.T)))
    false = [_exchanged(regressors, gates)] if task.experts == 2 else []
    return _spanned(run, middle.ravel(), [true], false, begin)


def lengths(truth: Parameters, weights: losses.Weights) -> Array:
    """Computes the lengths (T, k) of the rows of L4's minimiser (`losses.minimiser`); 0 where delta is too large.

    Raises:
      ValueError: L4 has no least value.
    """
    p = losses.shares_of(truth.gates).numpy()
    rule = "lambda p must be greater than mu for every expert's share p, otherwise L4 is unbounded below"
    least = float(p.min())
    require(weights.penalty * least > weights.mu, rule, **{"lambda": weights.penalty, "mu": weights.mu, "p": least})
    top, bottom = 2 * weights.penalty * p - weights.ridge / 2, 2 * p * (weights.penalty * p - weights.mu)
    return np.asarray(np.sqrt(np.clip(top, 0, None) / bottom))


def _assigned(rows: Array, targets: Array) -> list[Array]:
    """Two assignments of the targets to rows, each signed as its product with the row: the nearest, and another."""
    product = rows @ targets.T
    nearest = assigned(-np.abs(product))
    places = np.arange(len(rows))
    orders = (nearest, np.roll(nearest, 1))
    return [np.where(product[places, order] < 0, -1.0, 1.0)[:, None] * targets[order] for order in orders]


def _exchanged(regressors: Array, gates: Array) -> Array:
    """Gate along a_1 - a_2 and a_1 - a_2 along the gate, with the lengths that the true ones have."""
    apart, gate = regressors[0] - regressors[1], gates[0] - gates[1]
    wide, long = np.linalg.norm(apart), np.linalg.norm(gate)
    half = gate * (wide / long) / 2
    middle = regressors.mean(0)
    return np.stack((middle + half, middle - half, apart * (long / wide))).ravel()


def _spanned(
    run: LossRun, origin: Array, true: list[Array], false: list[Array], start: Array, known: bool = True
) -> Plane:
    """The plane through the origin and two minima, or one and the start; mirror images that are minima are shown too.

    Args:
      known: whether `true` are minima, to be marked.
    """
    first, second = orthonormal(*[point - origin for point in (*true, *false, start)][:2])
    mirrored = isinstance(run.model, L4Loss) or run.task.experts == 2
    marks = []
    for points in (true, false):
        at = coordinates(np.array(points).reshape(-1, len(origin)), origin, first, second)[:, :2]
        marks.append(np.concatenate((at, -at)) if mirrored else at)
    reach = np.abs(np.concatenate((*marks, coordinates(start[None], origin, first, second)[:, :2])))
    half = float(_MARGIN * reach.max())
    ticks = np.linspace(-half, half, SIDE)
    grid = origin + ticks[None, :, None] * first + ticks[:, None, None] * second
    values = _evaluated(run, grid.reshape(SIDE * SIDE, -1, run.task.dimension))
    return Plane(origin, first, second, half, marks[0] if known else marks[0][:0], marks[1], values.reshape(SIDE, SIDE))


def _evaluated(run: LossRun, points: Array) -> Array:
    """The loss at many parameters (n, rows, d): of L4 eq. 8, which has no samples."""
    if isinstance(run.model, L4Loss):
        truth = run.task.parameters(run.trial_numbers, run.seed)
        each = torch.as_tensor(points)
        regressors, shares = (
            part.expand(len(each), *part.shape[1:]) for part in (truth.regressors, losses.shares_of(truth.gates))
        )
        return losses.l4_population(each, regressors, shares, run.model.weights)[0].numpy()
    data = run.task.sample(SAMPLES, trials=run.trial_numbers, seed=run.seed, split="surface")
    return l2_values(points, data.x, data.y, run.task.g)


def l2_values(points: Array, x: Float[Tensor, "1 N d"], y: Float[Tensor, "1 N"], g: Activation) -> Array:
    """Returns l2 at many parameters (n, 2k - 1, d), k regressors and all gates but the last, on the same samples."""
    k, values = (points.shape[1] + 1) // 2, []
    for part in torch.as_tensor(points).split(_AT_ONCE):
        gates = torch.cat((part[:, k:], torch.zeros_like(part[:, :1])), dim=1)
        count = len(part)
        values.append(losses.l2_value(State(part[:, :k], gates), x.expand(count, -1, -1), y.expand(count, -1), g))
    return torch.cat(values).numpy()
