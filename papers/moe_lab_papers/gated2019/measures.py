"""Measurements behind the claims of gated2019's theorems, as labelled Datasets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import xarray as xr

from moe_lab.core.trials import stream
from moe_lab.recovery import measures
from moe_lab.recovery.data import MixtureTask
from moe_lab.recovery.em import Moments, State, gate_gradient, posterior
from moe_lab.recovery.landscape import losses
from moe_lab.recovery.landscape.losses import Weights
from moe_lab.recovery.landscape.run import PAPER_TASK, RECIPES, L4Loss, LossRun
from moe_lab.recovery.landscape.training import descend_run
from moe_lab.recovery.transforms import transforms

_PARTS = 32  # of the samples, whose spread gives the standard error
_WEIGHTS = Weights(mu=0.01, penalty=1.0, ridge=1.0)


def eq7_and_eq8(
    gating: Sequence[str] = ("orthogonal", "random"),
    trials: int = 12,
    seed: int = 0,
    *,
    samples: int = 131_072,
    experts: Sequence[int] = (2, 3),
    noise: float = 0.05,
) -> xr.Dataset:
    """Compares L4 on samples (eq. 7) with eq. 8 at random A, for linear experts (theorem 5 of appendix C; d=10).

    Returns:
      z(gating, experts, trial): (eq. 7 - eq. 8) / standard error. The theorem does not cover gates
      that are not orthogonal to the regressors.
    """
    z = np.zeros((len(gating), len(experts), trials))
    polynomials = transforms("identity", noise)
    for row, kind in enumerate(gating):
        for column, k in enumerate(experts):
            task = MixtureTask(experts=k, dimension=10, noise=noise, gating=kind)
            for trial in range(trials):
                sampled = task.sample(samples, trials=[trial], seed=seed)
                mixed = torch.as_tensor(stream(seed, trial, "rows").standard_normal((1, k, 2 * k - 1)))
                basis = torch.cat((sampled.truth.regressors, sampled.truth.gates[:, :-1]), dim=1)
                rows = mixed @ basis / k**0.5  # along gates too, where eq. 7 could differ
                whole, _ = losses.l4(rows, sampled.x, sampled.y, polynomials, _WEIGHTS)
                parts, _ = losses.l4(
                    rows.expand(_PARTS, -1, -1),
                    sampled.x.view(_PARTS, -1, 10),
                    sampled.y.view(_PARTS, -1),
                    polynomials,
                    _WEIGHTS,
                )
                stated, _ = losses.l4_population(
                    rows, sampled.truth.regressors, losses.shares_of(sampled.truth.gates), _WEIGHTS
                )
                z[row, column, trial] = float((whole - stated) / (parts.std() / _PARTS**0.5))
    coords = {"gating": list(gating), "experts": list(experts), "trial": np.arange(trials)}
    return xr.Dataset({"z": (("gating", "experts", "trial"), z)}, coords)


def landscape(experts: Sequence[int] = (2, 3, 5), trials: int = 40, seed: int = 0, *, steps: int = 3000) -> xr.Dataset:
    """Minimizes eq. 8 itself from random initial points (theorem 1; d=10, orthonormal regressors).

    mu and delta are small, as in the theorem. Its delta is far smaller, and would take proportionally more steps.

    Returns:
      regressor_error(experts, trial) of the rows of (A^+)^T; and scale(experts, trial, expert), their lengths over
      sqrt(E p_i), the diagonal of the theorem's D, sorted, NaN where there are fewer experts.
    """
    model = L4Loss(**{"mu": 0.001, "penalty": 4.0, "ridge": 0.1, "rate": 0.05, "steps": steps, "population": True})
    error, scale = np.zeros((len(experts), trials)), np.full((len(experts), trials, max(experts)), np.nan)
    for row, k in enumerate(experts):
        task = PAPER_TASK.replace(experts=k)
        *_, end = descend_run(LossRun(model=model, task=task, trials=trials, seed=seed, record_every=steps))
        error[row] = end["regressor_error"]
        truth = task.parameters(range(trials), seed)
        rows = torch.as_tensor(end["rows"])
        lengths = torch.linalg.vector_norm(torch.linalg.pinv(rows).mT, dim=2)
        order = measures.matched(losses.regressors_from(rows).abs(), truth.regressors.abs())
        shares = losses.shares_of(truth.gates)
        scale[row, :, :k] = np.sort((lengths.gather(1, order) / shares.sqrt()).numpy(), axis=1)
    coords = {"experts": list(experts), "trial": np.arange(trials)}
    return xr.Dataset(
        {"regressor_error": (("experts", "trial"), error), "scale": (("experts", "trial", "expert"), scale)}, coords
    )


def fixed_samples(trials: int = 4, seed: int = 0, *, steps: int | None = None) -> xr.Dataset:
    """Minimizes L4 of a fixed set of 65,536 samples (theorem 2).

    Args:
      steps: None for the recipe's 2500.

    Returns:
      regressor_error(trial) at the end.
    """
    recipe = RECIPES["fixed"]
    model = recipe.model if steps is None else recipe.model.replace(steps=steps)
    run = LossRun(
        model=model,
        task=PAPER_TASK,
        trials=trials,
        seed=seed,
        batch=recipe.batch,
        samples=recipe.samples,
        record_every=model.steps,
    )
    *_, end = descend_run(run)
    return xr.Dataset({"regressor_error": ("trial", end["regressor_error"])})


def log_descent(
    samples: Sequence[int] = (1000, 4000, 16_000),
    trials: int = 12,
    seed: int = 0,
    *,
    steps: int = 60,
    rate: float = 4.0,
) -> xr.Dataset:
    """Minimizes L_log by gradient descent on all n samples, with the true regressors (theorems 3 and 4; k=3).

    Args:
      rate: alpha.

    Returns:
      contraction(samples, trial): the largest ratio of a step's distance to the end to that of the step before;
      error(samples, trial): the largest |w_i - w_i*| at the end; slope(samples, trial): the length of L_log's gradient
      at the true parameters, times sqrt(n); from_em(samples, trial): the distance of a step from one of gradient EM.
    """
    names = ("contraction", "error", "slope", "from_em")
    values = np.zeros((len(names), len(samples), trials))
    task = PAPER_TASK.replace(experts=3)
    for column, count in enumerate(samples):
        for trial in range(trials):
            sampled = task.sample(count, trials=[trial], seed=seed)
            truth, g = sampled.truth, task.g
            gates = torch.as_tensor(stream(seed, trial, "start").standard_normal(truth.gates.shape)) / 10**0.5
            gates[:, -1] = 0
            responsibilities, _, _ = posterior(State(truth.regressors, gates), sampled.x, sampled.y, g, task.noise)
            by_em = gate_gradient(gates, responsibilities, Moments.of(sampled.x, sampled.y), rate)
            path = [gates]
            for _ in range(steps):
                loss = losses.l_log(State(truth.regressors, path[-1]), sampled.x, sampled.y, g, task.noise)
                path.append(path[-1] - rate * loss.slope.gates)
            at_truth = losses.l_log(
                State(truth.regressors, truth.gates), sampled.x, sampled.y, g, task.noise
            ).slope.gates
            distance = _largest(torch.stack(path)[:, 0] - path[-1])
            near = distance[:-1] > 1e-4
            values[:, column, trial] = (
                float((distance[1:] / distance[:-1])[near].max()),
                float(_largest(path[-1] - truth.gates)),
                float(_largest(at_truth)) * count**0.5,
                float((by_em - path[1]).abs().max()),
            )
    coords = {"samples": list(samples), "trial": np.arange(trials)}
    return xr.Dataset({name: (("samples", "trial"), array) for name, array in zip(names, values, strict=True)}, coords)


def _largest(gap: torch.Tensor) -> torch.Tensor:
    """Returns max_i |w_i|, (...,)."""
    return torch.linalg.vector_norm(gap, dim=-1).amax(-1)
