"""Measurements behind gridlock2019's statements on regressors: the polynomials and dimensions that they need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from moe_lab.core.trials import stream
from moe_lab.recovery.activations import ACTIVATIONS, activation_of
from moe_lab.recovery.data import MixtureTask
from moe_lab.recovery.gridlock.stuck import stuck_rate
from moe_lab.recovery.landscape.losses import shares_of
from moe_lab.recovery.transforms import polynomial, quadrature, transforms

ORDERS = {"P2": 2, "P3": 3}
"""The order m of the tensor that a polynomial of y makes: E[S He_j] must vanish for 0 < j < m, and not for j = m."""
_ZERO = 1e-9  # of the largest singular value


def free_coefficients(
    activations: Sequence[str] = tuple(ACTIVATIONS), degrees: Sequence[int] = (2, 3, 4)
) -> xr.Dataset:
    """Counts the coefficients that the conditions of appendix C leave free in a monic polynomial of y (sigma = 0).

    sigma changes the powers of y by lower ones alone, and with it no rank.

    Returns:
      free(polynomial, degree, activation): NaN where no polynomial of the degree meets the conditions or where the
      degree is less than the tensor's order.
    """
    found = np.full((len(ORDERS), len(degrees), len(activations)), np.nan)
    for column, name in enumerate(activations):
        moments = _moments(name, max(degrees))
        for row, order in enumerate(ORDERS.values()):
            for place, degree in enumerate(degrees):
                system, right = moments[1:degree, 1:order].T, -moments[degree, 1:order]
                if degree < order or _rank(np.column_stack((system, right))) > _rank(system):
                    continue
                found[row, place, column] = degree - 1 - _rank(system)
    coords = {"polynomial": list(ORDERS), "degree": list(degrees), "activation": list(activations)}
    return xr.Dataset({"free": (("polynomial", "degree", "activation"), found)}, coords)


def _moments(name: str, degree: int) -> np.ndarray:
    """Returns (degree + 1, 4) E[g(Z)^i He_j(Z)]."""
    g = activation_of(name)
    nodes, weights = quadrature(g.kinks)
    values = g(torch.as_tensor(nodes)).numpy()
    hermite = np.stack([np.polynomial.hermite_e.hermeval(nodes, np.eye(4)[j]) for j in range(4)])
    return (np.stack([values**i for i in range(degree + 1)]) * weights) @ hermite.T


def _rank(system: np.ndarray) -> int:
    sizes = np.linalg.svd(system, compute_uv=False)
    return int((sizes > _ZERO * sizes.max(initial=_ZERO)).sum())


def quartic_moment(trials: int = 8, seed: int = 0, *, samples: int = 200_000, directions: int = 8) -> xr.Dataset:
    """Computes T3(u, u, u) of a quartic of y that meets the conditions, for linear experts (k=3, d=10, sigma=.1).

    Of y^4 + a y^3 + b y^2 + c y the conditions leave a free; it is 2 here.

    Returns:
      z(trial, direction): (measured - c sum E[p_i] <a_i, u>^3) / standard error, in random directions u.
    """
    task = MixtureTask(experts=3, dimension=10, noise=0.1, gating="orthogonal")
    quartic, cubic = transforms("identity", task.noise).q4, transforms("identity", task.noise).p3
    mixed = polynomial("identity", task.noise, _sum(quartic.coefficients, cubic.coefficients))
    z = np.empty((trials, directions))
    for trial in range(trials):
        sampled = task.sample(samples, trials=[trial], seed=seed)
        along = _directions(sampled.truth.regressors[0], sampled.truth.gates[0, :-1], directions, seed, trial)
        values = sampled.inputs.hermite(along[None], 3)[0] * mixed(sampled.y)[0][:, None]
        cosines = (sampled.truth.regressors[0] @ along.mT) ** 3
        stated = 2 * cubic.strength * (shares_of(sampled.truth.gates)[0] @ cosines)
        z[trial] = ((values.mean(0) - stated) / (values.std(0) / samples**0.5)).numpy()
    return xr.Dataset({"z": (("trial", "direction"), z, {"long_name": "(measured - stated) / standard error"})})


def fewest_dimensions(
    experts: Sequence[int], trials: int, samples: int, seed: int = 0, device: str = "auto", **more: Any
) -> xr.Dataset:
    """Finds k experts in d = 2k dimensions, the fewest with 2k - 1 < d, by EM from the spectral start (sigma = .1).

    Args:
      experts: numbers k.
      more: as for `stuck_rate`.

    Returns:
      regressor_fit(k, trial).
    """
    size: dict[str, Any] = {"samples": samples, "trials": trials, "seed": seed, "methods": "spectral+em"}
    parts = [stuck_rate(k=k, d=2 * k, **size, device=device, **more) for k in experts]
    fits = [part["regressor_fit"].squeeze(("algorithm", "samples"), drop=True) for part in parts]
    return xr.concat(fits, "k").to_dataset(name="regressor_fit")


def _sum(quartic: Sequence[float], cubic: Sequence[float]) -> list[float]:
    """Returns the coefficients of y ... y^4 of a quartic and twice a cubic."""
    return [one + 2 * other for one, other in zip(quartic, (*cubic, 0.0), strict=True)]


def _directions(regressors: Tensor, gates: Tensor, count: int, seed: int, trial: int) -> Tensor:
    """Draws random unit vectors in the span of regressors and gates, (count, d)."""
    basis = torch.cat((regressors, gates))
    mixed = torch.as_tensor(stream(seed, trial, "directions").standard_normal((count, len(basis)))) @ basis
    return mixed / torch.linalg.vector_norm(mixed, dim=1, keepdim=True)
