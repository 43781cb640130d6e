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

Shapes: T trials, m parameters (`flat`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from moe_lab.recovery.activations import Activation
from moe_lab.recovery.data import Parameters
from moe_lab.recovery.em import State
from moe_lab.recovery.landscape import losses
from moe_lab.recovery.landscape.run import L2Loss, L4Loss, LossRun
from moe_lab.recovery.matching import assigned

SIDE = 25
"""Points along each side at which a loss is computed."""
SAMPLES = 256
"""Samples on which l2 is computed; they belong to no batch."""
_MARGIN = 1.3


class Plane(NamedTuple):
    """A plane for each trial, with a loss on it.

    Attributes:
      origin, first, second: (T, m) a point of the plane and two orthonormal directions in it.
      half: (T,) the plane is shown from -half to half along both; places in it are in units of that.
      true: (T, 4, 2) where the loss has its true minima; NaN for none.
      false: (T, 2, 2) where it has other valleys, if they are known; NaN for none.
      values: (T, SIDE, SIDE) the loss; rows go along the second direction, upwards.
      lengths: (T, k) of the rows where L4 is least (`losses.lengths`); NaN for l2.
    """

    origin: Float[Tensor, "T m"]
    first: Float[Tensor, "T m"]
    second: Float[Tensor, "T m"]
    half: Float[Tensor, " T"]
    true: Float[Tensor, "T 4 2"]
    false: Float[Tensor, "T 2 2"]
    values: Float[Tensor, "T side side"]
    lengths: Float[Tensor, "T k"]

    def of(self, points: Float[Tensor, "T m"]) -> Float[Tensor, "T 3"]:
        """Returns the places of points (T, m) in the plane, and their distances from it in the units of parameters."""
        found = coordinates(points, self.origin, self.first, self.second)
        return torch.cat((found[:, :2] / self.half[:, None], found[:, 2:]), dim=1)


def coordinates(
    points: Float[Tensor, "*#axes m"],
    origin: Float[Tensor, "*#axes m"],
    first: Float[Tensor, "*#axes m"],
    second: Float[Tensor, "*#axes m"],
) -> Float[Tensor, "*#axes 3"]:
    """Returns the coordinates of points along two orthonormal directions, and their distances from that plane."""
    apart = points - origin
    along, across = ((apart * direction).sum(-1, keepdim=True) for direction in (first, second))
    rest = apart - along * first - across * second
    return torch.cat((along, across, torch.linalg.vector_norm(rest, dim=-1, keepdim=True)), dim=-1)


def orthonormal(first: Float[Tensor, "*axes m"], second: Float[Tensor, "*axes m"]) -> tuple[Tensor, Tensor]:
    """Orthonormalizes two directions by Gram-Schmidt."""
    first = first / torch.linalg.vector_norm(first, dim=-1, keepdim=True)
    second = second - (second * first).sum(-1, keepdim=True) * first
    return first, second / torch.linalg.vector_norm(second, dim=-1, keepdim=True)


def flat(loss: str, rows: Float[Tensor, "T k d"], gates: Float[Tensor, "T k d"]) -> Float[Tensor, "T m"]:
    """Returns the parameters that a loss moves: for L4 A; for l2 also all gates but the last, which is 0."""
    return (rows if loss == "L4" else torch.cat((rows, gates[:, :-1]), dim=1)).flatten(1)


def permuted(
    regressors: Float[Tensor, "T k d"], gates: Float[Tensor, "T k d"], order: Int[Tensor, "T k"]
) -> Float[Tensor, "T m"]:
    """Returns the flat parameters of l2 with the experts in another order, shifted such that w_k = 0."""
    index = order[..., None].expand_as(gates)
    turned = gates.gather(1, index)
    return flat("l2", regressors.gather(1, index), turned - turned[:, -1:])


def plane(run: LossRun, truth: Parameters, start: State) -> Plane:
    """Returns the planes of a run's trials. Learning rates, batches and steps do not change them."""
    assert isinstance(run.model, (L4Loss, L2Loss))
    two, rows, regressors = run.task.experts == 2, start.regressors, truth.regressors
    begin = flat(run.model.name, rows, start.gates)
    if isinstance(run.model, L4Loss):
        shares = losses.shares_of(truth.gates)
        lengths = losses.lengths(shares, run.model.weights)
        known = (lengths > 0).all(1)[:, None, None]
        points = [one.flatten(1) for one in _assigned(rows, torch.where(known, lengths[..., None], 1.0) * regressors)]
        l4 = partial(_l4_values, truth=regressors, shares=shares, weights=run.model.weights)
        return _spanned(run, l4, torch.zeros_like(begin), points[: 2 if two else 1], [], begin, known, lengths)
    middle = torch.cat((regressors.mean(1, keepdim=True).expand_as(regressors), torch.zeros_like(rows[:, 1:])), dim=1)
    true = permuted(regressors, truth.gates, assigned(-(rows @ regressors.mT)))
    false = [_exchanged(regressors, truth.gates)] if two else []
    data = run.task.sample(SAMPLES, trials=run.trial_numbers, seed=run.seed, split="surface")
    l2 = partial(_l2_values_by_rows, x=data.x, y=data.y, g=run.task.g)
    no_lengths = torch.full_like(rows[:, :, 0], torch.nan)
    known = torch.ones_like(rows[:, :1, :1], dtype=torch.bool)
    return _spanned(run, l2, middle.flatten(1), [true], false, begin, known, no_lengths)


def _assigned(rows: Float[Tensor, "T k d"], targets: Float[Tensor, "T k d"]) -> list[Float[Tensor, "T k d"]]:
    """Two assignments of the targets to rows, each signed as its product with the row: the nearest, and another."""
    product = rows @ targets.mT
    nearest = assigned(-product.abs())
    found = []
    for order in (nearest, torch.cat((nearest[:, -1:], nearest[:, :-1]), dim=1)):
        index = order[..., None]
        signs = torch.where(product.gather(2, index) < 0, -1.0, 1.0)
        found.append(signs * targets.gather(1, index.expand_as(targets)))
    return found


def _exchanged(regressors: Float[Tensor, "T 2 d"], gates: Float[Tensor, "T 2 d"]) -> Float[Tensor, "T m"]:
    """Gate along a_1 - a_2 and a_1 - a_2 along the gate, with the lengths that the true ones have."""
    apart, gate = regressors[:, 0] - regressors[:, 1], gates[:, 0] - gates[:, 1]
    wide, long = (torch.linalg.vector_norm(one, dim=1, keepdim=True) for one in (apart, gate))
    half = gate * (wide / long) / 2
    middle = regressors.mean(1)
    return torch.cat((middle + half, middle - half, apart * (long / wide)), dim=1)


def _spanned(
    run: LossRun,
    evaluate: Callable[[Tensor], Tensor],
    origin: Float[Tensor, "T m"],
    true: list[Tensor],
    false: list[Tensor],
    start: Float[Tensor, "T m"],
    known: Bool[Tensor, "T 1 1"],
    lengths: Float[Tensor, "T k"],
) -> Plane:
    """The plane through the origin and two minima, or one and the start; mirror images that are minima are shown too.

    Args:
      evaluate: returns the loss (T, SIDE, SIDE) at a grid of parameters (T, SIDE, SIDE, rows, d).
      true, false, start: (T, m).
      known: whether `true` are minima, to be marked.
    """
    first, second = orthonormal(*[point - origin for point in (*true, *false, start)][:2])
    mirrored = isinstance(run.model, L4Loss) or run.task.experts == 2

    def places(points: list[Tensor], most: int) -> Tensor:
        found = [coordinates(point, origin, first, second)[:, :2] for point in points]
        found += [-one for one in found if mirrored]
        return torch.stack(found + [nowhere] * (most - len(found)), dim=1)

    nowhere = torch.full_like(origin[:, :2], torch.nan)
    of_true, of_false, of_start = places(true, 4), places(false, 2), places([start], 2)
    half = _MARGIN * torch.cat((of_true, of_false, of_start), dim=1).nan_to_num().abs().amax((1, 2))
    ticks = half[:, None] * torch.linspace(-1, 1, SIDE, dtype=origin.dtype)  # (T, SIDE)
    along = origin[:, None] + ticks[..., None] * first[:, None]  # (T, SIDE, m)
    grid = along[:, None] + (ticks[..., None] * second[:, None])[:, :, None]
    units = half[:, None, None]
    marks = torch.where(known, of_true / units, torch.nan), of_false / units
    values = evaluate(grid.unflatten(3, (-1, run.task.dimension)))
    return Plane(origin, first, second, half, *marks, values, lengths)


def _l4_values(
    grid: Float[Tensor, "T side side k d"],
    truth: Float[Tensor, "T k d"],
    shares: Float[Tensor, "T k"],
    weights: losses.Weights,
) -> Float[Tensor, "T side side"]:
    """The loss L4 at the parameters of a grid, by eq. 8, which has no samples."""
    each = grid.shape[1] * grid.shape[2]
    regressors, of_each = (part[:, None].expand(-1, each, *part.shape[1:]).flatten(0, 1) for part in (truth, shares))
    return losses.l4_population(grid.flatten(0, 2), regressors, of_each, weights)[0].reshape(grid.shape[:3])


def _l2_values_by_rows(
    grid: Float[Tensor, "T side side rows d"], x: Float[Tensor, "T N d"], y: Float[Tensor, "T N"], g: Activation
) -> Float[Tensor, "T side side"]:
    """The loss l2 at the parameters of a grid, row by row, which needs less memory."""
    return torch.stack([l2_values(row, x, y, g) for row in grid.unbind(1)], dim=1)


def l2_values(
    points: Float[Tensor, "T P rows d"], x: Float[Tensor, "T N d"], y: Float[Tensor, "T N"], g: Activation
) -> Float[Tensor, "T P"]:
    """Returns l2 at many parameters, k regressors and all gates but the last (rows = 2k - 1), on the same samples."""
    k = (points.shape[2] + 1) // 2
    whole = torch.cat((points, torch.zeros_like(points[:, :, :1])), dim=2)  # with the last gate
    products = (whole.flatten(1, 2) @ x.mT).unflatten(1, whole.shape[1:3])  # (T, P, 2 k, N)
    predicted = (products[:, :, k:].softmax(2) * g(products[:, :, :k])).sum(2)
    return (predicted - y[:, None]).square().mean(2)
