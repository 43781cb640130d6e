"""Measurements that both papers on recovery, gridlock2019 and gated2019, share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from moe_lab.core.trials import stream
from moe_lab.recovery.activations import ACTIVATIONS
from moe_lab.recovery.data import MixtureSamples, MixtureTask
from moe_lab.recovery.landscape.losses import shares_of
from moe_lab.recovery.printed import printed
from moe_lab.recovery.transforms import gaussian_moments, transforms


def stein_conditions(
    activations: Sequence[str] = tuple(ACTIVATIONS), noise: Sequence[float] = (0.0, 0.1, 0.5)
) -> xr.Dataset:
    """Computes conditions 1 and 2 of both papers (gridlock2019, appendix C; gated2019, appendix B).

    Returns:
      residual and strength(polynomial, activation, noise): the largest |E[S He_j]| that should vanish, and |c|.
    """
    names, found = ("P2", "P3", "Q4"), np.zeros((2, 3, len(activations), len(noise)))
    for place in np.ndindex(found.shape[2:]):
        solved = transforms(activations[place[0]], noise[place[1]])
        for row, polynomial in enumerate((solved.p2, solved.p3, solved.q4)):
            found[(slice(None), row, *place)] = max(map(abs, polynomial.residuals)), abs(polynomial.strength)
    dims = ("polynomial", "activation", "noise")
    coords = {"polynomial": list(names), "activation": list(activations), "noise": list(noise)}
    return xr.Dataset({"residual": (dims, found[0]), "strength": (dims, found[1])}, coords)


def third_moment(
    activations: Sequence[str] = ("identity", "relu", "sigmoid"),
    trials: int = 8,
    seed: int = 0,
    *,
    samples: int = 200_000,
    directions: int = 8,
    experts: int = 3,
    noise: float = 0.1,
) -> xr.Dataset:
    """Compares T3(u, u, u) with c sum_i E[p_i] <a_i, u>^3, along random u in the span of regressors and gates.

    See gridlock2019, theorem 1 and eq. 3.

    Returns:
      z(label, activation, trial, direction): (measured - stated) / standard error, for T3 of P3(y) and of y itself,
      whose c would be E[g He_3].
    """
    return _moments(("P3(y)", "y"), 3, activations, trials, seed, samples, directions, experts, noise)


def fourth_moment(
    activations: Sequence[str] = ("identity", "relu", "sigmoid"),
    trials: int = 8,
    seed: int = 0,
    *,
    samples: int = 200_000,
    directions: int = 8,
    experts: int = 3,
    noise: float = 0.05,
) -> xr.Dataset:
    """Computes the same for T4 of Q4(y) (gated2019, lemma 1)."""
    return _moments(("Q4(y)", "y"), 4, activations, trials, seed, samples, directions, experts, noise)


def _moments(
    labels: tuple[str, str],
    order: int,
    activations: Sequence[str],
    trials: int,
    seed: int,
    samples: int,
    directions: int,
    experts: int,
    noise: float,
) -> xr.Dataset:
    z = np.zeros((2, len(activations), trials, directions))
    for row, g in enumerate(activations):
        task = MixtureTask(experts=experts, dimension=10, noise=noise, activation=g, gating="orthogonal")
        solved = transforms(g, noise)
        right = solved.p3 if order == 3 else solved.q4
        strength = {labels[0]: right.strength, labels[1]: float(gaussian_moments(task.g)[1, order])}
        for trial in range(trials):
            sampled = task.sample(samples, trials=[trial], seed=seed)
            along = _directions(sampled, directions, seed, trial)
            score = sampled.inputs.hermite(along, order)[0]  # (N, m)
            cosines = (sampled.truth.regressors @ along.mT)[0] ** order
            tensor = (shares_of(sampled.truth.gates)[0][:, None] * cosines).sum(0)
            for column, (label, of) in enumerate(((labels[0], right(sampled.y)), (labels[1], sampled.y))):
                values = score * of[0][:, None]
                error = values.std(0) / samples**0.5
                z[column, row, trial] = ((values.mean(0) - strength[label] * tensor) / error).numpy()
    dims = ("label", "activation", "trial", "direction")
    coords = {"label": list(labels), "activation": list(activations), "trial": np.arange(trials)}
    return xr.Dataset({"z": (dims, z, {"long_name": "(measured - stated) / standard error"})}, coords)


def _directions(sampled: MixtureSamples, count: int, seed: int, trial: int) -> Tensor:
    """Draws random unit vectors in the span of all regressors and gates, (1, count, d)."""
    basis = torch.cat((sampled.truth.regressors, sampled.truth.gates[:, :-1]), dim=1)
    mixed = torch.as_tensor(stream(seed, trial, "directions").standard_normal((1, count, basis.shape[1]))) @ basis
    return mixed / torch.linalg.vector_norm(mixed, dim=2, keepdim=True)


def printed_forms(activation: str = "identity", noise: Sequence[float] = (0.1, 0.5)) -> xr.Dataset:
    """Evaluates the polynomials that both papers print for an activation, see `moe_lab.recovery.printed`.

    Returns:
      left(form, noise): the largest |E[S He_j]| that should vanish, relative to c; forms such as "gridlock2019: P3".
    """
    rows: dict[str, list[float]] = {}
    for sigma in noise:
        for form in printed(activation, sigma):
            left = max(map(abs, form.polynomial.residuals)) / abs(form.polynomial.strength)
            rows.setdefault(f"{form.where.split(',')[0]}: {form.name}", []).append(left)
    return xr.Dataset(
        {"left": (("form", "noise"), np.array(list(rows.values())))}, {"form": list(rows), "noise": list(noise)}
    )
