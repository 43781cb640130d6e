"""A loss on a plane of parameters, with the projected path of a gradient descent."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
import xarray as xr
from jaxtyping import Float

from moe_lab.core.config import require
from moe_lab.core.snapshots import collect
from moe_lab.recovery.landscape import losses
from moe_lab.recovery.landscape.planes import coordinates, flat, l2_values, orthonormal, permuted
from moe_lab.recovery.landscape.run import L4Loss, LossRun
from moe_lab.recovery.landscape.training import descend_run
from moe_lab.recovery.transforms import transforms

Plane = Literal["solutions", "path", "regressor"]
PLANES = ("solutions", "path", "regressor")
_BLOCK_SIZE = 64  # points of the plane
_ARRIVED = 0.1  # largest distance of the end from a solution, relative to the initial one, that counts as arrived
_MOST_EXPERTS = 4  # k! 2^k solutions are listed


class _PlaneBasis(NamedTuple):
    """A plane in the space of parameters.

    Attributes:
      origin, first, second: a point, and two orthonormal directions.
      labels: of the two axes.
      marks: points to mark, by name.
    """

    origin: np.ndarray
    first: np.ndarray
    second: np.ndarray
    labels: tuple[str, str]
    marks: dict[str, np.ndarray]

    def project(self, points: Iterable[np.ndarray]) -> Float[np.ndarray, "P 3"]:
        """Returns the two coordinates of points in the plane, and their distances from it."""
        where = map(torch.as_tensor, (np.stack(list(points)), self.origin, self.first, self.second))
        return coordinates(*where).numpy()


def surface(run: LossRun, plane: str, resolution: int, samples: int) -> xr.Dataset:
    """Runs the descent, chooses the plane, and evaluates the loss on a grid in it.

    Args:
      run: one trial on L4 or l2.
      plane: see `figures.loss_surface`.
      resolution: number of grid points along each side.
      samples: number of samples to evaluate on.

    Raises:
      ValueError: a value is invalid, the solutions are unknown, or the descent diverged.
    """
    require(plane in PLANES, "plane must be 'solutions', 'path' or 'regressor'", plane=plane)
    require(2 <= resolution <= 1001, "resolution must be from 2 to 1001", resolution=resolution)
    require(samples >= 1, "samples must be at least 1", samples=samples)
    solutions = _solutions(run) if plane == "solutions" else []
    data = collect(descend_run(run))
    require(not data["diverged"].any(), "this descent diverged; take another trial or rate", trial=run.first_trial)
    path, shape = _path(run, data)
    if plane == "path":
        chosen = _along_path(path)
    elif plane == "regressor":
        chosen = _along_regressors(run, path[-1].reshape(shape))
    else:
        chosen = _through_solutions(path, solutions)
    marks = {"start": path[0], "end": path[-1]} | chosen.marks
    projected, marked = chosen.project(path), chosen.project(marks.values())
    u, v = _grid(np.concatenate((projected, marked))[:, :2], resolution)
    points = chosen.origin + u[None, :, None] * chosen.first + v[:, None, None] * chosen.second
    values = _evaluated(run, points.reshape(-1, *shape), samples).reshape(resolution, resolution)
    return xr.Dataset(
        {
            "surface": (("v", "u"), values, {"long_name": f"{run.model.name} on {samples} samples"}),
            "path_u": ("step", projected[:, 0], {"long_name": "place of the path along u"}),
            "path_v": ("step", projected[:, 1], {"long_name": "place of the path along v"}),
            "off": ("step", projected[:, 2], {"long_name": "distance of the path from the plane"}),
            "mark_u": ("mark", marked[:, 0], {"long_name": "place of the point along u"}),
            "mark_v": ("mark", marked[:, 1], {"long_name": "place of the point along v"}),
            "mark_off": ("mark", marked[:, 2], {"long_name": "distance of the point from the plane"}),
            "regressor_error": ("step", data["regressor_error"].values[:, 0], data["regressor_error"].attrs),
        },
        coords={
            "u": ("u", u, {"long_name": chosen.labels[0]}),
            "v": ("v", v, {"long_name": chosen.labels[1]}),
            "step": ("step", data["step"].values, data["step"].attrs),
            "mark": list(marks),
        },
    )


def _path(run: LossRun, data: xr.Dataset) -> tuple[Float[np.ndarray, "S P"], tuple[int, ...]]:
    """Returns the flattened parameters of each step, and their shape."""
    path = flat(run.model.name, *(torch.as_tensor(data[name].values[:, 0]) for name in ("rows", "gates"))).numpy()
    return path, (path.shape[1] // run.task.dimension, run.task.dimension)


def _along_path(path: Float[np.ndarray, "S P"]) -> _PlaneBasis:
    """Returns the plane through the end that the path deviates from least."""
    labels = "along most of the path", "along most of what is left"
    first, second = np.linalg.svd(path - path[-1], full_matrices=False)[2][:2]
    return _PlaneBasis(path[-1], *_orthonormal(first, second), labels, {})


def _through_solutions(path: Float[np.ndarray, "S P"], solutions: Sequence[np.ndarray]) -> _PlaneBasis:
    """Returns the plane through the nearest solution, the start, and the end or, if that is a solution, another one."""
    nearest, another = sorted(solutions, key=lambda solution: float(np.linalg.norm(solution - path[-1])))[:2]
    arrived = np.linalg.norm(nearest - path[-1]) < _ARRIVED * np.linalg.norm(nearest - path[0])
    marks = {"solution": nearest} | ({"other solution": another} if arrived else {})
    labels = f"towards the {'other solution' if arrived else 'end'}", "towards the start"
    target = another if arrived else path[-1]
    return _PlaneBasis(nearest, *_orthonormal(target - nearest, path[0] - nearest), labels, marks)


def _orthonormal(*directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    first, second = orthonormal(*map(torch.as_tensor, directions))
    return first.numpy(), second.numpy()


def _solutions(run: LossRun) -> list[np.ndarray]:
    """Returns all minimisers of the population loss."""
    task, k = run.task, run.task.experts
    require(k <= _MOST_EXPERTS, "solutions are listed for at most 4 experts", k=k)
    truth = task.parameters(run.trial_numbers, run.seed)
    orders = itertools.permutations(range(k))
    if isinstance(run.model, L4Loss):
        rule = "L4's solutions are known for orthonormal regressors and gates orthogonal to them; take plane='path'"
        known = task.regressors == "orthonormal" and task.gating == "orthogonal"
        require(known, rule, regressors=task.regressors, gating=task.gating)
        best = losses.minimiser(truth, run.model.weights)[0]
        signs = [np.array(choice)[:, None] for choice in itertools.product((1, -1), repeat=k)]
        return [(sign * best[list(order)]).ravel() for order in orders for sign in signs]
    return [permuted(truth.regressors, truth.gates, torch.tensor([order]))[0].numpy() for order in orders]


def _along_regressors(run: LossRun, end: np.ndarray) -> _PlaneBasis:
    """Returns the plane in which the first row of the end moves along a_1* and a_2*."""
    truth = run.task.parameters(run.trial_numbers, run.seed).regressors[0].numpy()
    basis = np.linalg.qr(truth[:2].T)[0].T
    basis *= np.sign((basis * truth[:2]).sum(1, keepdims=True))
    origin, directions = end.copy(), np.zeros((2, *end.shape))
    origin[0] -= basis.T @ (basis @ origin[0])
    directions[:, 0] = basis
    directions = directions.reshape(2, -1)
    marks = {
        f"a{number}*": origin.ravel() + (basis @ regressor) @ directions
        for number, regressor in zip("₁₂", truth[:2], strict=True)
    }
    second = "a₂*" if run.task.regressors == "orthonormal" else "the part of a₂* across a₁*"
    return _PlaneBasis(origin.ravel(), *_orthonormal(*directions), ("a₁ along a₁*", f"a₁ along {second}"), marks)


def _grid(points: np.ndarray, resolution: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the coordinates of a square grid that contains all points with a margin."""
    low, high = points.min(0), points.max(0)
    half, middle = 0.65 * float((high - low).max()), (low + high) / 2
    u, v = (np.linspace(centre - half, centre + half, resolution) for centre in middle)
    return u, v


def _evaluated(run: LossRun, points: Float[np.ndarray, "G m d"], samples: int) -> Float[np.ndarray, " G"]:
    """Evaluates the loss at many parameters, on the same samples."""
    task = run.task
    data = task.sample(samples, trials=run.trial_numbers, seed=run.seed, split="surface")
    values = []
    for part in torch.as_tensor(points).split(_BLOCK_SIZE):
        if not isinstance(run.model, L4Loss):
            values.append(l2_values(part[None], data.x, data.y, task.g)[0])
            continue
        x, y = data.x.expand(len(part), -1, -1), data.y.expand(len(part), -1)
        values.append(losses.l4(part, x, y, transforms(task.g, task.noise), run.model.weights)[0])
    return torch.cat(values).numpy()
