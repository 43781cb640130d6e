"""The losses of gated2019, each with its exact gradient: L4 (eq. 7 and 8), squared error, and L_log (eq. 9).

The Hermite projections of section 3.1 are t1(u, v, x) = He_4(x)(u, u, v, v) / c and t2(u, x) = t1(u, u, x), so that
eq. 7 is one sum over pairs of rows a_i of A:

    H_ij  = mean Q4(y) He_4(x)(a_i, a_i, a_j, a_j) / c
    L4(A) = sum_ij C_ij H_ij + lambda sum_i (mean Q2(y) He_2(x)(a_i, a_i) / c' - 1)^2 + delta/2 |A|^2,
    C_ij  = 1 for i != j,  C_ii = -mu

c and c' are the strengths of Q4 and Q2 (24 and 2 for the identity). Everything is a polynomial in <a_i, x>, so the
gradient's means are rows of one matrix product with x.

Shapes: T trials, N samples, d dimensions, k experts.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.quasirandom import SobolEngine

from moe_lab.core.config import require
from moe_lab.recovery.activations import Activation
from moe_lab.recovery.data import Parameters
from moe_lab.recovery.em import State, posterior
from moe_lab.recovery.transforms import Transforms

_SOBOL = 13  # 2^13 points, each with its mirror image


class Weights(NamedTuple):
    """The three constants of eq. 7.

    Attributes:
      mu: reward of a row's own fourth moment.
      penalty: lambda, penalty of a row whose second moment is not 1.
      ridge: delta, the only term that draws A into the span of the true regressors.
    """

    mu: float
    penalty: float
    ridge: float


class Loss(NamedTuple):
    """A loss and its gradient.

    Attributes:
      value: (T,).
      slope: gradients with respect to regressors and gates; zeros if the loss does not depend on them.
    """

    value: Float[Tensor, " T"]
    slope: State


def l4(
    rows: Float[Tensor, "T k d"],
    x: Float[Tensor, "T N d"],
    y: Float[Tensor, "T N"],
    polynomials: Transforms,
    weights: Weights,
) -> tuple[Float[Tensor, " T"], Float[Tensor, "T k d"]]:
    """Computes L4 on samples (eq. 7), with means for expectations, and its gradient.

    Because eq. 7 squares a mean, L4 on n samples exceeds eq. 8 in expectation by lambda times the variance of that
    mean, which is of the order of |a|^4 / n.

    Args:
      rows: A, whose rows are the a_i; not the regressors themselves (see `regressors_from`).
      x: sampled from N(0, I), the only distribution that the Hermite projections are for.
    """
    k, n = rows.shape[1], x.shape[1]
    u = rows @ x.mT
    squares, gram = u.square(), rows @ rows.mT
    norms = gram.diagonal(dim1=1, dim2=2)
    fourth = polynomials.q4(y)[:, None] / (polynomials.q4.strength * n)
    second = polynomials.q2(y)[:, None] / (polynomials.q2.strength * n)
    pairs = _pairs(k, weights.mu, rows)
    cubes = fourth * u * (pairs @ squares)
    means = torch.cat((cubes, fourth * u, second * u), dim=1) @ x  # every mean over samples that the gradient needs
    cubic, single, double = means.split(k, dim=1)
    quartic = (fourth * squares) @ squares.mT
    mixed = single @ rows.mT  # mean q4 u_i u_j
    own = mixed.diagonal(dim1=1, dim2=2)
    total = fourth.sum(2)[..., None]
    tensor = quartic - norms[..., None] * own[:, None] - norms[:, None] * own[..., None] - 4 * gram * mixed
    tensor = tensor + total * (norms[..., None] * norms[:, None] + 2 * gram.square())
    slope = cubic + (pairs @ (total * norms[..., None] - own[..., None])) * rows - (pairs @ norms[..., None]) * single
    slope = slope - 2 * (pairs * gram) @ single - 2 * (pairs * mixed) @ rows + 2 * total * (pairs * gram) @ rows
    weight = second.sum(2)[..., None]
    excess = (double * rows).sum(2, keepdim=True) - weight * norms[..., None] - 1
    value = (pairs * tensor).sum((1, 2)) + weights.penalty * excess.square().sum((1, 2))
    slope = 4 * slope + 4 * weights.penalty * excess * (double - weight * rows)
    return value + weights.ridge / 2 * norms.sum(1), slope + weights.ridge * rows


def l4_population(
    rows: Float[Tensor, "T k d"], truth: Float[Tensor, "T m d"], shares: Float[Tensor, "T m"], weights: Weights
) -> tuple[Float[Tensor, " T"], Float[Tensor, "T k d"]]:
    """Computes L4 without samples (eq. 8), and its gradient.

    It equals eq. 7 in expectation for N(0, I) inputs and unit regressors

    - if every gate is orthogonal to every regressor, for any k and g: the p_m are independent of the products
      <a_m*, x>, and lemma 1 leaves only derivatives of g;
    - for two experts with any gates, if g is odd up to a constant (identity, tanh, sigmoid): p_m is 1/2 plus an odd
      function of x, the conditional means of Q4 and Q2 are even, and the product with the odd part has mean 0.

    Otherwise eq. 8 is a different loss: at k=3, d=4 with random gates eq. 7 is larger by a tenth near the regressors
    (1.96 against 1.77, identity), and with ReLU experts it is off for k=2 already.

    Args:
      truth: a*, the true regressors.
      shares: E p_m(x), see `shares_of`.
    """
    product = truth @ rows.mT  # (T, m, k)
    squares, share = product.square(), shares[..., None]
    pairs = _pairs(rows.shape[1], weights.mu, rows)
    mixed = squares @ pairs
    excess = (share * squares).sum(1, keepdim=True) - 1
    norms = rows.square().sum((1, 2))
    value = (share * squares * mixed).sum((1, 2)) + weights.penalty * excess.square().sum((1, 2))
    slope = 4 * (share * product * (mixed + weights.penalty * excess)).mT @ truth
    return value + weights.ridge / 2 * norms, slope + weights.ridge * rows


def curvature(
    rows: Float[Tensor, "T k d"], truth: Float[Tensor, "T m d"], shares: Float[Tensor, "T m"], weights: Weights
) -> Float[Tensor, "T k*d"]:
    """Computes the eigenvalues of eq. 8's Hessian, ascending.

    Where descent rests, a negative one shows a saddle. With none the direction of the least is the slow one, along
    which the rest is left at the pace exp(-eigenvalue * rate * step). Outside the span of the true regressors all are
    delta.

    Args:
      rows, truth, shares, weights: as for `l4_population`.
    """

    def slope(moved: Tensor) -> Tensor:
        return l4_population(moved, truth, shares, weights)[1].sum(0)  # trials do not meet

    wide = torch.autograd.functional.jacobian(slope, rows)  # (k, d, T, k, d)
    hessian = wide.movedim(2, 0).flatten(3, 4).flatten(1, 2)
    return torch.linalg.eigvalsh((hessian + hessian.mT) / 2)


def _pairs(k: int, mu: float, like: Tensor) -> Float[Tensor, "k k"]:
    """Returns C: 1 for two different rows, -mu for a row with itself."""
    return 1 - (1 + mu) * torch.eye(k, dtype=like.dtype, device=like.device)


def shares_of(gates: Float[Tensor, "T k d"]) -> Float[Tensor, "T k"]:
    """Computes E p_m(x) for x ~ N(0, I), the share of each expert, on fixed Sobol points and their mirror images.

    Exact for two experts, whose shares are one half each.
    """
    k = gates.shape[1]
    points = torch.special.ndtri(_sobol_points(k)).to(gates)
    values, vectors = torch.linalg.eigh(gates @ gates.mT)
    # Which sign an eigenvector has is up to the device's library: here a sum that seldom is near 0 is positive.
    of_rows = torch.arange(1, k + 1, device=gates.device, dtype=gates.dtype).sqrt()
    vectors = vectors * (of_rows[:, None] * vectors).sum(1, keepdim=True).sign()
    roots = vectors * values.clamp(min=0).sqrt()[:, None]  # scores with covariance W W^T, in k instead of d dimensions
    scores = points @ roots.mT
    return (scores.softmax(2).mean(1) + (-scores).softmax(2).mean(1)) / 2


def _sobol_points(k: int) -> Float[Tensor, "points k"]:
    """Returns the first 2^13 Sobol points in k dimensions, moved by half their distance, as no point may be 0.

    The digits of point i, in base 2, are the digits of i times a matrix of 0 and 1, modulo 2.
    """
    digits = torch.arange(2**_SOBOL, dtype=torch.float64)[:, None] / 2.0 ** torch.arange(_SOBOL) % 2
    of_points = (digits.floor() @ torch.from_numpy(_sobol_matrices(k))).remainder(2).reshape(-1, k, _SOBOL)
    return (of_points * 0.5 ** torch.arange(1, _SOBOL + 1)).sum(2) + 0.5 ** (_SOBOL + 1)


@cache
def _sobol_matrices(k: int) -> Float[np.ndarray, "bits digits"]:
    """Returns the digits of the direction numbers of the first k dimensions: rows are digits of i."""
    engine = SobolEngine(k)
    numbers = engine.sobolstate.numpy()[:, :_SOBOL]  # of so many digits
    places = engine.MAXBIT - 1 - np.arange(_SOBOL)
    return np.concatenate([(of_one[:, None] >> places & 1).astype(float) for of_one in numbers], axis=1)


def l2(state: State, x: Float[Tensor, "T N d"], y: Float[Tensor, "T N"], g: Activation) -> Loss:
    """Computes the mean square of y - sum_i softmax_i(<w, x>) g(<a_i, x>) (section 3.1), with w_k fixed."""
    u = state.regressors @ x.mT
    value, bend = g.with_slope(u)
    prior = (state.gates @ x.mT).softmax(1)
    predicted = (prior * value).sum(1, keepdim=True)
    residual = predicted - y[:, None]
    pull = residual * prior * (2 / x.shape[1])
    slopes = torch.cat((pull * bend, pull * (value - predicted)), dim=1) @ x
    regressors, gates = slopes.split(u.shape[1], dim=1)
    return Loss(residual.square().mean((1, 2)), State(regressors, _fixed(gates)))


def l2_value(state: State, x: Float[Tensor, "T N d"], y: Float[Tensor, "T N"], g: Activation) -> Float[Tensor, " T"]:
    """Returns the value of `l2`, without its gradient."""
    prior = (state.gates @ x.mT).softmax(1)
    predicted = (prior * g(state.regressors @ x.mT)).sum(1)
    return (predicted - y).square().mean(1)


def l_log(state: State, x: Float[Tensor, "T N d"], y: Float[Tensor, "T N"], g: Activation, sigma: float) -> Loss:
    """Computes minus the mean log-likelihood and its gradient with respect to the gates (eq. 9 and 14), w_k fixed.

    The factor x, missing in eq. 14, is as in its derivation and in lemma 3.
    """
    responsibilities, prior, likelihood = posterior(state, x, y, g, sigma)
    slope = (prior - responsibilities) @ x / x.shape[1]
    return Loss(-likelihood, State(torch.zeros_like(state.regressors), _fixed(slope)))


def _fixed(slope: Tensor) -> Tensor:
    """Sets the gradient of w_k, which fixes the gauge, to 0."""
    slope[:, -1].zero_()
    return slope


def regressors_from(rows: Float[Tensor, "T k d"]) -> Float[Tensor, "T k d"]:
    """Computes the unit regressors of a minimiser A of L4, up to signs: the rows of (A^+)^T (theorem 1).

    The rows of A are orthogonal to all true regressors but one, and equal the regressors only if these are orthonormal.
    The result is NaN for trials whose A is not finite.
    """
    finite = torch.isfinite(rows).flatten(1).all(1)[:, None, None]
    inverse = torch.linalg.pinv(torch.where(finite, rows, 0.0)).mT
    unit = inverse / torch.linalg.vector_norm(inverse, dim=2, keepdim=True).clamp(min=torch.finfo(inverse.dtype).tiny)
    return torch.where(finite, unit, float("nan"))


def lengths(shares: Float[Tensor, "T k"], weights: Weights) -> Float[Tensor, "T k"]:
    """Computes the lengths of the rows where eq. 8 is least, for orthonormal regressors and orthogonal gates.

    For each row, -mu p s^4 + lambda (p s^2 - 1)^2 + delta/2 s^2 is least at
    s^2 = (2 lambda p - delta/2) / (2 p (lambda p - mu)), or at 0 where delta is too large. NaN for all rows of a trial
    in which lambda p <= mu for an expert: L4 is unbounded below.
    """
    p = shares
    top, bottom = 2 * weights.penalty * p - weights.ridge / 2, 2 * p * (weights.penalty * p - weights.mu)
    bounded = (bottom > 0).all(1, keepdim=True)
    return torch.where(bounded, (top.clamp(min=0) / torch.where(bounded, bottom, 1.0)).sqrt(), torch.nan)


def minimiser(truth: Parameters, weights: Weights) -> Float[np.ndarray, "T k d"]:
    """Computes the minimiser of eq. 8 for orthonormal regressors and orthogonal gates: a_i = s_i a_i* (`lengths`).

    Raises:
      ValueError: delta is so large that A = 0 is the minimiser, or mu so large that there is none.
    """
    shares = shares_of(truth.gates)
    found = lengths(shares, weights)
    rule = "2 lambda p must be greater than delta/2, and lambda p greater than mu, for every expert's share p"
    require(bool((found > 0).all()), rule, **weights._asdict(), p=float(shares.min()))
    return (found[..., None] * truth.regressors).cpu().numpy()
