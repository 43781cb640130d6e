"""Polynomials of y whose moments contain only the regressors (gridlock2019, app. C; gated2019, app. B).

For Z ~ N(0, 1) and Y = g(Z) + sigma xi, let S(Z) = E[P(Y) | Z]. Stein's lemma turns the moment of S against the Hermite
polynomial He_j into the j-th derivative, so the coefficients of P solve linear equations:

    P3(y) = y^3 + alpha y^2 + beta y              E[S He_1] = E[S He_2] = 0,             c3 = E[S He_3] != 0
    P2(y) = y^2 + gamma y                         E[S He_1] = 0,                         c2 = E[S He_2] != 0
    Q4(y) = y^4 + alpha y^3 + beta y^2 + gamma y  E[S He_1] = E[S He_2] = E[S He_3] = 0, c4 = E[S He_4] != 0

Expectations are Gauss-Legendre sums over intervals that end at the kinks of g, so that g need not be smooth there and
the distributional derivatives of a ReLU need no special treatment. sigma enters only through E[Y^2|Z] = g^2 + sigma^2,
E[Y^3|Z] = g^3 + 3 sigma^2 g and E[Y^4|Z] = g^4 + 6 sigma^2 g^2 + 3 sigma^4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.core.errors import InputError
from moe_lab.recovery.activations import Activation, activation_of

_REACH, _PIECE, _NODES = 12.0, 0.5, 24  # N(0, 1) beyond 12 adds less than 1e-30
_ZERO = 1e-9
_SINGULAR = 1e-9
_ROUNDING = 1e-13


class InvalidActivationError(InputError):
    """Raised when no polynomial of y isolates the regressors (condition 1 or 2 of appendix C fails)."""


@dataclass(frozen=True)
class Polynomial:
    """p(y) = y^m + ... + c_1 y, without a constant, which would not change any centred moment.

    Attributes:
      coefficients: of y, y^2, ..., y^m; the last is 1.
      strength: E[S He_m], the factor of the regressors' tensor.
      residuals: E[S He_j] for j < m; 0 for the solved coefficients.
    """

    coefficients: tuple[float, ...]
    strength: float
    residuals: tuple[float, ...]

    def __call__(self, y: Tensor) -> Tensor:
        value = torch.zeros_like(y)
        for coefficient in reversed(self.coefficients):
            value = (value + coefficient) * y
        return value


@dataclass(frozen=True)
class Transforms:
    """P2, P3 and Q4 of one activation and one sigma; Q2 is P2, with delta = gamma.

    Attributes:
      g: the activation.
      sigma: standard deviation of the noise.
      p2, p3, q4: the polynomials.
    """

    g: Activation
    sigma: float
    p2: Polynomial
    p3: Polynomial
    q4: Polynomial

    @property
    def q2(self) -> Polynomial:
        return self.p2


def transforms(g: str | Activation, sigma: float) -> Transforms:
    """Solves for the polynomials of an activation.

    Args:
      g: a name in `ACTIVATIONS`, or any `Activation`.
      sigma: standard deviation of the noise.

    Raises:
      InvalidActivationError: the equations have no solution, or c2, c3 or c4 vanishes.
      ValueError: sigma is negative or not finite, g is unknown, or g does not return finite numbers.
    """
    require(bool(np.isfinite(sigma)) and sigma >= 0, "sigma must be a finite number of at least 0", sigma=sigma)
    activation = activation_of(g)
    moments = gaussian_moments(activation)
    return Transforms(activation, float(sigma), *(_solve(activation, moments, m, sigma) for m in (2, 3, 4)))


def gaussian_moments(g: Activation) -> np.ndarray:
    """Computes (5, 5) E[g(Z)^i He_j(Z)] for i, j = 0 ... 4.

    Raises:
      ValueError: g does not return finite numbers of the same shape.
    """
    nodes, weights = quadrature(g.kinks)
    values = g(torch.as_tensor(nodes))
    valid = isinstance(values, Tensor) and values.shape == nodes.shape and bool(np.isfinite(values.numpy()).all())
    require(valid, "g must give a finite number for every number", g=g.name)
    hermite = np.stack([np.polynomial.hermite_e.hermeval(nodes, np.eye(5)[j]) for j in range(5)])
    powers = np.stack([values.numpy() ** i for i in range(5)])
    return (powers * weights) @ hermite.T


def quadrature(kinks: tuple[float, ...] = ()) -> tuple[np.ndarray, np.ndarray]:
    """Returns nodes and weights for expectations over N(0, 1) of functions that are smooth between kinks."""
    ends = np.unique(np.concatenate((np.arange(-_REACH, _REACH + _PIECE / 2, _PIECE), kinks)))
    ends = ends[np.abs(ends) <= _REACH]
    points, weights = np.polynomial.legendre.leggauss(_NODES)
    half = np.diff(ends)[:, None] / 2
    nodes = (ends[:-1, None] + half * (1 + points)).ravel()
    return nodes, (half * weights).ravel() * np.exp(-(nodes**2) / 2) / np.sqrt(2 * np.pi)


def _noise(power: int, sigma: float) -> np.ndarray:
    """Returns (power + 1,) the coefficients of E[Y^power | Z] in powers of g."""
    even = {0: 1.0, 2: sigma**2, 4: 3 * sigma**4}  # moments of sigma xi
    binomial = {2: (1, 2, 1), 3: (1, 3, 3, 1), 4: (1, 4, 6, 4, 1)}.get(power, (1, 1))
    return np.array([binomial[i] * even.get(power - i, 0.0) for i in range(power + 1)])


def polynomial(g: str | Activation, sigma: float, coefficients: Sequence[float]) -> Polynomial:
    """Makes a monic polynomial of y without a constant, with the moments that `transforms` makes 0.

    Args:
      coefficients: of y, y^2, ..., y^m, the last 1; m is 2, 3 or 4.

    Raises:
      ValueError: the degree is not 2, 3 or 4, or the last coefficient is not 1.
    """
    degree = len(coefficients)
    valid = degree in (2, 3, 4) and coefficients[-1] == 1
    require(valid, "coefficients must be those of y ... y^m with m of 2, 3 or 4, and end with 1", given=coefficients)
    moments = np.asarray(coefficients) @ _moments_of_powers(gaussian_moments(activation_of(g)), degree, sigma)
    return Polynomial(tuple(map(float, coefficients)), float(moments[degree]), tuple(moments[1:degree].tolist()))


def _moments_of_powers(moments: np.ndarray, degree: int, sigma: float) -> np.ndarray:
    """Computes (degree, 5) E[E[Y^power | Z] He_j], a row for each power 1 ... degree."""
    return np.stack([_noise(power, sigma) @ moments[: power + 1] for power in range(1, degree + 1)])


def _solve(g: Activation, moments: np.ndarray, degree: int, sigma: float) -> Polynomial:
    """Solves for the polynomial of a degree, from E[g^i He_j]."""
    rows = _moments_of_powers(moments, degree, sigma)
    system, right_side = rows[:-1, 1:degree].T, -rows[-1, 1:degree]
    scale = np.abs(rows[:-1]).max(initial=0)  # of all moments, because those with He_j may be rounding errors alone
    name = {2: "P2", 3: "P3", 4: "Q4"}[degree]
    if scale == 0 or np.linalg.svd(system / scale, compute_uv=False)[-1] < _SINGULAR:
        raise InvalidActivationError(
            f"g={g.name!r} has no {name}: the equations E[S He_j] = 0, j < {degree}, do not determine its coefficients"
        )
    coefficients = np.append(np.linalg.solve(system, right_side), 1.0)
    coefficients[np.abs(coefficients) < _ROUNDING * np.abs(coefficients).max()] = 0.0  # as of odd activations
    found = coefficients @ rows
    if abs(found[degree]) < _ZERO * max(1.0, float(np.abs(rows[-1]).max())):
        raise InvalidActivationError(
            f"g={g.name!r} has no {name}: E[S He_{degree}], which carries the regressors, is 0 "
            f"(got {found[degree]:.3g})"
        )
    return Polynomial(tuple(coefficients.tolist()), float(found[degree]), tuple(found[1:degree].tolist()))
