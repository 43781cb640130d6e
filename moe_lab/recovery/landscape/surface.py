"""A loss over a plane of parameters, with the path of a descent as it is seen there."""

from __future__ import annotations

import itertools
from typing import Literal

import numpy as np
import torch
import xarray as xr
from jaxtyping import Float

from moe_lab.config import require
from moe_lab.recovery.landscape import losses
from moe_lab.recovery.landscape.planes import coordinates, l2_values, orthonormal
from moe_lab.recovery.landscape.run import L4Loss, LossRun
from moe_lab.recovery.landscape.training import descend_run
from moe_lab.recovery.transforms import transforms
from moe_lab.training import collect

Plane = Literal["solutions", "path", "regressor"]
PLANES = ("solutions", "path", "regressor")
_AT_ONCE = 64  # points of the plane
_ARRIVED = 0.1  # of the distance from start to solution: the end is the solution
_MOST_EXPERTS = 4  # k! 2^k solutions are listed


def surface(run: LossRun, plane: str, resolution: int, samples: int) -> xr.Dataset:
    """Descends, chooses the plane, and evaluates the loss on a grid of it.

    Args:
      run: one trial on L4 or l2.
      plane: see `figures.loss_surface`.
      resolution: points along each side.
      samples: to evaluate on.

    Raises:
      ValueError: a wrong value, solutions that are not known, or a descent that diverged.
    """
    require(plane in PLANES, "plane must be 'solutions', 'path' or 'regressor'", plane=plane)
    require(2 <= resolution <= 1001, "resolution must be from 2 to 1001", resolution=resolution)
    require(samples >= 1, "samples must be at least 1", samples=samples)
    solved = _solutions(run) if plane == "solutions" else None
    data = collect(descend_run(run))
    require(
        not bool(data["diverged"].any()), "this descent diverged; take another trial or rate", trial=run.first_trial
    )
    rows, gates = (data[name].values[:, 0] for name in ("rows", "gates"))
    path = rows if isinstance(run.model, L4Loss) else np.concatenate((rows, gates[:, :-1]), axis=1)
    shape = path.shape[1:]
    path = path.reshape(len(path), -1)
    marks = {"start": path[0], "end": path[-1]}
    if plane == "path":
        words = "along most of the path", "along most of what is left"
        origin, first, second = path[-1], *np.linalg.svd(path - path[-1], full_matrices=False)[2][:2]
    elif plane == "regressor":
        origin, first, second, true = _along_regressors(run, path[-1].reshape(shape))
        marks |= true
        square = run.task.regressors == "orthonormal"
        words = "a₁ along a₁*", "a₁ along a₂*" if square else "a₁ along the part of a₂* across a₁*"
    else:
        assert solved is not None
        near = sorted(solved, key=lambda one: float(np.linalg.norm(one - path[-1])))
        arrived = np.linalg.norm(near[0] - path[-1]) < _ARRIVED * np.linalg.norm(near[0] - path[0])
        origin, other = near[0], near[1] if arrived else path[-1]
        marks["solution"] = origin
        if arrived:
            marks["other solution"] = other
        first, second = other - origin, path[0] - origin
        words = f"towards the {'other solution' if arrived else 'end'}", "towards the start"
    first, second = orthonormal(first, second)
    inside = coordinates(path, origin, first, second)
    marked = coordinates(np.stack(list(marks.values())), origin, first, second)
    u, v = _sides(np.concatenate((inside, marked))[:, :2], resolution)
    points = origin + u[None, :, None] * first + v[:, None, None] * second
    values = _evaluated(run, points.reshape(-1, *shape), samples).reshape(resolution, resolution)
    about = {"long_name": f"{run.model.name} on {samples} samples"}
    return xr.Dataset(
        {
            "surface": (("v", "u"), values, about),
            "path_u": ("step", inside[:, 0]),
            "path_v": ("step", inside[:, 1]),
            "off": ("step", inside[:, 2], {"long_name": "distance of the path from the plane"}),
            "mark_u": ("mark", marked[:, 0]),
            "mark_v": ("mark", marked[:, 1]),
            "mark_off": ("mark", marked[:, 2]),
            "regressor_error": ("step", data["regressor_error"].values[:, 0], data["regressor_error"].attrs),
        },
        coords={
            "u": ("u", u, {"long_name": words[0]}),
            "v": ("v", v, {"long_name": words[1]}),
            "step": ("step", data["step"].values, data["step"].attrs),
            "mark": list(marks),
        },
    )


def _solutions(run: LossRun) -> list[np.ndarray]:
    """All parameters at which the loss is least in population."""
    task, k = run.task, run.task.experts
    require(k <= _MOST_EXPERTS, "solutions are listed for at most 4 experts", k=k)
    truth = task.parameters(run.trial_numbers, run.seed)
    orders = itertools.permutations(range(k))
    if isinstance(run.model, L4Loss):
        rule = "L4's solutions are known for orthonormal regressors and gates orthogonal to them; take plane='path'"
        known = task.regressors == "orthonormal" and task.gating == "orthogonal"
        require(known, rule, regressors=task.regressors, gating=task.gating)
        best = losses.minimiser(truth, run.model.weights)[0]
        signs = [np.array(one)[:, None] for one in itertools.product((1, -1), repeat=k)]
        return [(sign * best[list(order)]).ravel() for order in orders for sign in signs]
    regressors, gates = truth.regressors[0].numpy(), truth.gates[0].numpy()
    every = []
    for order in map(list, orders):
        moved = gates[order] - gates[order[-1]]  # in the gauge w_k = 0
        every.append(np.concatenate((regressors[order], moved[:-1])).ravel())
    return every


def _along_regressors(
    run: LossRun, end: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """The end with its first row moved out of the way, that row along a_1* and a_2*, and where these two lie."""
    truth = run.task.parameters(run.trial_numbers, run.seed).regressors[0].numpy()
    basis = np.linalg.qr(truth[:2].T)[0].T
    basis *= np.sign((basis * truth[:2]).sum(1, keepdims=True))
    origin, directions = end.copy(), np.zeros((2, *end.shape))
    origin[0] -= basis.T @ (basis @ origin[0])
    directions[:, 0] = basis
    first, second = directions.reshape(2, -1)
    true = {
        f"a{place}*": origin.ravel() + (basis @ one) @ directions.reshape(2, -1)
        for place, one in zip("₁₂", truth[:2], strict=True)
    }
    return origin.ravel(), first, second, true


def _sides(points: np.ndarray, resolution: int) -> tuple[np.ndarray, np.ndarray]:
    """A square that holds all points with a margin."""
    low, high = points.min(0), points.max(0)
    half, middle = 0.65 * float((high - low).max()), (low + high) / 2
    return tuple(np.linspace(centre - half, centre + half, resolution) for centre in middle)  # type: ignore[return-value]


def _evaluated(run: LossRun, points: Float[np.ndarray, "G m d"], samples: int) -> Float[np.ndarray, " G"]:
    """The loss at many parameters, on the same samples."""
    task = run.task
    data = task.sample(samples, trials=run.trial_numbers, seed=run.seed, split="surface")
    if not isinstance(run.model, L4Loss):
        return l2_values(points, data.x, data.y, task.g)
    values = []
    for part in torch.as_tensor(points).split(_AT_ONCE):
        x, y = data.x.expand(len(part), -1, -1), data.y.expand(len(part), -1)
        values.append(losses.l4(part, x, y, transforms(task.g, task.noise), run.model.weights)[0])
    return torch.cat(values).numpy()
