"""gridlock2019's algorithms as printed: one trial, one sample at a time, explicit sums, whole tensors, autograd, scipy.

Slow on purpose. No code shared with moe_lab, so that agreement between the two means something.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import torch
from scipy.integrate import simpson
from scipy.optimize import minimize
from torch import Tensor

Array = np.ndarray

FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "identity": lambda z: z,
    "relu": lambda z: np.maximum(z, 0),
    "leaky-relu": lambda z: np.maximum(z, 0.01 * z),
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "tanh": np.tanh,
}

# --- transforms of y (appendix C) -----------------------------------------------------------------------------------


def stein_moments(
    g: Callable[[Array], Array], coefficients: tuple[float, ...], sigma: float, kinks: tuple[float, ...] = ()
) -> list[float]:
    """E[P(Y) He_j(Z)], j = 1 ... 4, for P(y) = sum_m coefficients_m y^m.

    Over the noise by Gauss-Hermite nodes, which are exact for polynomials; over Z by Simpson's rule between the kinks.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(8)
    ends, total = (-14.0, *kinks, 14.0), np.zeros(4)
    for low, high in itertools.pairwise(ends):
        z = np.linspace(low, high, 20_001)
        y = g(z)[:, None] + sigma * nodes
        p = sum(c * y**m for m, c in enumerate(coefficients, start=1)) @ weights / weights.sum()
        density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
        hermite = [z, z**2 - 1, z**3 - 3 * z, z**4 - 6 * z**2 + 3]
        total += [simpson(p * density * he, x=z) for he in hermite]
    return total.tolist()


# --- score functions and moments (section 3) --------------------------------------------------------------------------


def density(x: Tensor, means: Tensor, shares: Tensor) -> Tensor:
    """p(x) of sum_j shares_j N(means_j, I), up to a constant, at one point x (d,)."""
    return sum(p * torch.exp(-((x - mu) ** 2).sum() / 2) for p, mu in zip(shares, means, strict=True))


def score_along(x: Tensor, direction: Tensor, order: int, means: Tensor, shares: Tensor) -> float:
    """(-1)^m p^(m)(x) / p(x) along a direction, by differentiating the density m times."""
    step = torch.zeros((), dtype=x.dtype, requires_grad=True)
    value = density(x + step * direction, means, shares)
    at_x = value.item()
    for _ in range(order):
        (value,) = torch.autograd.grad(value, step, create_graph=True)
    return (-1) ** order * value.item() / at_x


def scores_2_and_3(x: Array, means: Array, shares: Array) -> tuple[Array, Array]:
    """S2(x) (d, d) and S3(x) (d, d, d) at one point, entry by entry."""
    d = len(x)
    parts = [p * math.exp(-sum((x - mu) ** 2) / 2) for p, mu in zip(shares, means, strict=True)]
    two, three = np.zeros((d, d)), np.zeros((d, d, d))
    for part, mu in zip(parts, means, strict=True):
        r, u = part / sum(parts), x - mu
        for i in range(d):
            for j in range(d):
                two[i, j] += r * (u[i] * u[j] - (i == j))
                for l in range(d):  # noqa: E741
                    three[i, j, l] += r * (u[i] * u[j] * u[l] - u[i] * (j == l) - u[j] * (i == l) - u[l] * (i == j))
    return two, three


def moments_2_and_3(x: Array, weights: Array, means: Array, shares: Array) -> tuple[Array, Array]:
    """mean of weight S2(x) and of weight S3(x), sample by sample."""
    two, three = 0.0, 0.0
    for one, weight in zip(x, weights, strict=True):
        s2, s3 = scores_2_and_3(one, means, shares)
        two, three = two + weight * s2 / len(x), three + weight * s3 / len(x)
    return np.asarray(two), np.asarray(three)


# --- EM (section 3.2) -------------------------------------------------------------------------------------------------


def softmax(scores: Array) -> Array:
    powers = [math.exp(s) for s in scores]
    return np.array([p / sum(powers) for p in powers])


def posteriors(
    regressors: Array, gates: Array, x: Array, y: Array, g: Callable[[Array], Array], sigma: float
) -> tuple[Array, Array, float]:
    """(k, n) posteriors (eq. 9), (k, n) gates, and the mean log-likelihood."""
    after, before, total = np.zeros((len(gates), len(x))), np.zeros((len(gates), len(x))), 0.0
    for n, (one, target) in enumerate(zip(x, y, strict=True)):
        prior = softmax(gates @ one)
        normal = [
            math.exp(-((target - g(a @ one)) ** 2) / (2 * sigma**2)) / math.sqrt(2 * math.pi) / sigma
            for a in regressors
        ]
        likely = sum(p * f for p, f in zip(prior, normal, strict=True))
        before[:, n], after[:, n] = prior, [p * f / likely for p, f in zip(prior, normal, strict=True)]
        total += math.log(likely) / len(x)
    return after, before, total


def gate_value(gates: Tensor, after: Tensor, x: Tensor) -> Tensor:
    """Q(w) of eq. 8: sum_n sum_i p_i(n) log softmax_i(<w, x_n>); gates (k - 1, d), w_k = 0."""
    full = torch.cat((gates, torch.zeros_like(gates[:1])))
    return (after.T * torch.log_softmax(x @ full.T, dim=1)).sum()


def best_gates(after: Array, x: Array) -> Array:
    """(k, d) the maximiser of eq. 8, by BFGS."""
    k, d = len(after), x.shape[1]
    posterior, inputs = torch.as_tensor(after), torch.as_tensor(x)

    def value_and_slope(flat: Array) -> tuple[float, Array]:
        at = torch.as_tensor(flat).view(k - 1, d).requires_grad_()
        value = -gate_value(at, posterior, inputs) / len(x)
        return value.item(), torch.autograd.grad(value, at)[0].flatten().numpy()

    found = minimize(value_and_slope, np.zeros((k - 1) * d), jac=True, method="BFGS", options={"gtol": 1e-9})
    return np.vstack((found.x.reshape(k - 1, d), np.zeros(d)))


def newton_gates(gates: Array, after: Array, x: Array) -> Array:
    """One Newton step on eq. 8, its gradient and Hessian by autograd."""
    at = torch.as_tensor(gates[:-1]).clone()
    posterior, inputs = torch.as_tensor(after), torch.as_tensor(x)

    def value(where: Tensor) -> Tensor:
        return gate_value(where, posterior, inputs)

    slope = torch.autograd.functional.jacobian(value, at).flatten()
    hessian = torch.autograd.functional.hessian(value, at).reshape(len(slope), len(slope))
    moved = at.flatten() - torch.linalg.solve(hessian, slope)
    return np.vstack((moved.view_as(at).numpy(), np.zeros(x.shape[1])))


def least_squares(after: Array, x: Array, y: Array) -> Array:
    """(k, d) weighted least squares of each expert."""
    return np.stack([np.linalg.lstsq(np.sqrt(w)[:, None] * x, np.sqrt(w) * y, rcond=None)[0] for w in after])


def gauss_newton(regressors: Array, after: Array, x: Array, y: Array, function: Callable[[Tensor], Tensor]) -> Array:
    """(k, d) one Gauss-Newton step of each expert's weighted squares, its Jacobian by autograd."""
    moved = []
    for a, w in zip(regressors, after, strict=True):
        at, inputs, root = torch.as_tensor(a), torch.as_tensor(x), torch.as_tensor(w).sqrt()
        jacobian = torch.autograd.functional.jacobian(lambda b, i=inputs, r=root: r * function(i @ b), at)
        residual = root * (torch.as_tensor(y) - function(inputs @ at))
        moved.append((at + torch.linalg.lstsq(jacobian, residual[:, None]).solution[:, 0]).numpy())
    return np.stack(moved)


# --- measures ---------------------------------------------------------------------------------------------------------


def best_fit(found: Array, truth: Array) -> float:
    """Eq. 11: the best over all permutations of the worst |cos|."""
    cosines = [[abs(a @ b) / math.sqrt((a @ a) * (b @ b)) for b in truth] for a in found]
    orders = itertools.permutations(range(len(truth)))
    return float(max(min(cosines[i][j] for j, i in enumerate(order)) for order in orders))


def best_order(found: Array, truth: Array) -> tuple[int, ...]:
    """The permutation of the estimates with the least sum of squared distances to the truth."""
    orders = itertools.permutations(range(len(truth)))
    return min(orders, key=lambda order: sum(((found[i] - truth[j]) ** 2).sum() for j, i in enumerate(order)))


# --- the fourth-order loss --------------------------------------------------------------------------------------------


def hermite_projections(u: Tensor, v: Tensor, x: Tensor, c: float, c_second: float) -> tuple[Tensor, Tensor, Tensor]:
    """(T, N) t1(u, v, x), t2(u, x) and t3(u, x) of gated2019, section 3.1, term by term as printed.

    Args:
      u, v: (T, d); x: (T, N, d).
      c, c_second: c_{g,sigma} and c'_{g,sigma}, `transforms(g, sigma).q4.strength` and `.p2.strength`.
    """
    a, b = (x @ u[..., None])[..., 0], (x @ v[..., None])[..., 0]
    uu, vv, uv = ((left * right).sum(1, keepdim=True) for left, right in ((u, u), (v, v), (u, v)))
    t1 = a**2 * b**2 - uu * b**2 - 4 * a * b * uv - vv * a**2 + uu * vv + 2 * uv**2
    t2 = a**4 - 6 * uu * a**2 + 3 * uu**2
    return t1 / c, t2 / c, (a**2 - uu) / c_second
