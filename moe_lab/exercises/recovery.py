"""Checks of notebooks 06 and 07: moments of a mixture, the E-step, the gauge of the gates, and two losses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from moe_lab.exercises.cases import Case
from moe_lab.exercises.verdict import Verdict, judge


def check_p3_coefficients(p3_coefficients: object) -> Verdict:
    """Checks `p3_coefficients(moments, sigma) -> (alpha, beta)`: E[P3(Y) He_1] = E[P3(Y) He_2] = 0 (app. C.1).

    moments[i, j] = E[g(Z)^i He_j(Z)] for i, j = 0 ... 3, and Y = g(Z) + sigma xi.
    """
    cases = [
        _p3_case("for the identity, sigma = 0.5", lambda z: z, 0.5),
        _p3_case("for a ReLU without noise", lambda z: np.maximum(z, 0), 0.0),
        _p3_case("for a ReLU, sigma = 0.8", lambda z: np.maximum(z, 0), 0.8),
        _p3_case("for a sigmoid, sigma = 0.3", lambda z: 1 / (1 + np.exp(-z)), 0.3),
    ]
    praise = "No polynomial had to be known in advance: the moments of g are enough, kinks and all."
    formula = "alpha E[g^2 He_j] + beta E[g He_j] = -E[g^3 He_j] - 3 sigma^2 E[g He_j], for j = 1 and 2"
    return judge("p3_coefficients", p3_coefficients, cases, praise, formula)


def _p3_case(about: str, g: Callable[[np.ndarray], np.ndarray], sigma: float) -> Case:
    moments, noise = _gaussian_moments(g), sigma**2
    one, two, three = moments[1:]

    def solved(extra: float = 3 * noise, square: float = 0.0, sign: float = -1, rows: tuple[int, int] = (1, 2)) -> Any:
        at = list(rows)
        system = np.stack((two[at] + square, one[at]), axis=1)
        return np.linalg.lstsq(system, sign * (three[at] + extra * one[at]), rcond=None)[0]

    printed = (-3 * math.sqrt(2 / math.pi), 3 * (4 / math.pi - noise - 1))
    mistakes = {
        "Your two numbers are exchanged: alpha belongs to y^2, beta to y.": solved()[::-1],
        "You left out the noise: E[Y^3 | Z] = g^3 + 3 sigma^2 g.": solved(0),
        "You have sigma^2 g in E[Y^3 | Z]: it is 3 sigma^2 g, once for each factor that is left alone.": solved(noise),
        "You have sigma where sigma^2 belongs.": solved(3 * sigma),
        "You lost a minus sign: the cube's moments go to the other side of the equations.": solved(sign=1),
        "You asked He_2 and He_3 to vanish: He_3 carries the regressors. He_1 and He_2 must.": solved(rows=(2, 3)),
        "You add sigma^2 to the moments of g^2: a constant has no moment with He_1 and He_2.": solved(square=noise),
        "This is what the paper prints for a ReLU; its g'' has lost the kink.": printed,
    }
    return Case((moments, sigma), solved(), about, mistakes)


def _gaussian_moments(g: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Computes (4, 4) E[g(Z)^i He_j(Z)], with Gauss' rule on both sides of a kink at 0."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    z = np.concatenate((6 * nodes - 6, 6 * nodes + 6))
    density = np.tile(6 * weights, 2) * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    hermite = np.stack([np.ones_like(z), z, z**2 - 1, z**3 - 3 * z])
    return np.asarray((np.stack([g(z) ** i for i in range(4)]) * density) @ hermite.T)


def check_third_score(third_score: object) -> Verdict:
    """Checks `third_score(x, a) -> (N,)`: S3(x)(a, a, a) for x from N(0, I), for any a (section 3.1)."""
    generator = np.random.default_rng(31)
    cases = [
        _score_case("for x = (1, 2) and (3, 0), a = (0.6, 0.8)", np.array([[1.0, 2], [3, 0]]), np.array([0.6, 0.8])),
        _score_case("for a = (2, 1)", np.array([[1.0, 2], [3, 0], [0, -1]]), np.array([2.0, 1])),
        _score_case("for 20 random samples, d=5", generator.normal(size=(20, 5)), 1.5 * generator.normal(size=5)),
    ]
    praise = "Averaged with P3(y) it is c3 times the sum of p_i <a_i, a>^3: no gate in it. It costs N d, not N d^3."
    formula = "S3(x)(a, a, a) = <x, a>^3 - 3 |a|^2 <x, a>"
    return judge("third_score", third_score, cases, praise, formula)


def _score_case(about: str, x: np.ndarray, a: np.ndarray) -> Case:
    u, square = x @ a, float(a @ a)
    right = u**3 - 3 * square * u
    unit = u / math.sqrt(square)
    mistakes = {
        "You subtract one term where there are three: x is paired with the identity in three ways (eq. 4).": (
            u**3 - square * u
        ),
        "You took |a| = 1: the identity, applied to a twice, is |a|^2.": u**3 - 3 * u,
        "You normalised a: apply S3 to a as it is.": unit**3 - 3 * unit,
        "You have |a| where |a|^2 belongs.": u**3 - 3 * math.sqrt(square) * u,
        "You have |x|^2 where |a|^2 belongs.": u**3 - 3 * (x**2).sum(1) * u,
        "This is only the cube: without the correction T3 has x's own moments in it.": u**3,
        "You add what is to be subtracted.": u**3 + 3 * square * u,
        "Your sign is the derivative's: the score is (-1)^3 times it.": -right,
    }
    return Case((x, a), right, about, mistakes)


def check_e_step(e_step: object) -> Verdict:
    """Checks `e_step(x, y, regressors, gates, sigma) -> (N, k)`: how probable each expert is for each sample (eq. 9).

    Shapes: x (N, d), y (N,), regressors and gates (k, d). Linear experts.
    """
    generator = np.random.default_rng(32)

    def draw(n: int, k: int, d: int) -> list[np.ndarray]:
        return [generator.normal(size=shape) for shape in ((n, d), (n,), (k, d), (k, d))]

    line = [np.array([[1.0], [2.0]]), np.array([1.0, -1.5]), np.array([[1.0], [-1.0]]), np.array([[0.5], [0.0]])]
    far = [np.array([[1.0, 0.0]]), np.array([60.0]), np.array([[1.0, 0], [-1.0, 0]]), np.array([[2.0, 0], [0, 0]])]
    cases = [
        _e_step_case("for 2 samples of 2 experts, sigma = 1", 1.0, *line),
        _e_step_case("for the same, sigma = 2", 2.0, *line),
        _e_step_case("for 6 random samples of 3 experts, sigma = 0.7", 0.7, *draw(6, 3, 4)),
        _e_step_case("for a sample far from both experts, sigma = 0.1", 0.1, *far),
    ]
    praise = "The gate says what to expect before y is seen, the residual says what y tells; EM does nothing but this."
    small = "The exponential of -40,000 is 0, and 0/0 is no number: subtract each sample's largest exponent first."
    formula = "p_i = exp(<w_i, x> - (y - <a_i, x>)^2 / (2 sigma^2)), divided by the sum over i"
    return judge("e_step", e_step, cases, praise, formula, not_finite=small)


def _e_step_case(about: str, sigma: float, x: Any, y: Any, regressors: Any, gates: Any) -> Case:
    scores, residual = x @ gates.T, y[:, None] - x @ regressors.T

    def shares(exponents: np.ndarray, axis: int = 1) -> np.ndarray:
        powers = np.exp(exponents - exponents.max(axis, keepdims=True))
        return np.asarray(powers / powers.sum(axis, keepdims=True))

    far = residual**2 / (2 * sigma**2)
    gate = shares(scores)
    mistakes = {
        "Your result does not depend on the gates: before y is seen, experts have shares softmax(<w, x>).": shares(
            -far
        ),
        "Your result does not depend on y: it is what the gate says before y is seen.": gate,
        "You have sigma where sigma^2 belongs.": shares(scores - residual**2 / (2 * sigma)),
        "You forgot the 2 of 2 sigma^2.": shares(scores - 2 * far),
        "You left out sigma: a residual counts in units of it.": shares(scores - residual**2 / 2),
        "You lost the minus sign: a large residual makes an expert improbable.": shares(scores + far),
        "You forgot the square of the residual.": shares(scores - np.abs(residual) / (2 * sigma**2)),
        "You normalise over the samples: the experts of each sample sum to 1.": shares(scores - far, axis=0),
        "Your numbers do not sum to 1 for each sample: divide by their sum.": gate * np.exp(-far),
        "You forgot to divide: the numbers of a sample must sum to 1.": np.exp(scores - far),
        "Your axes are exchanged: a row is a sample, a column an expert.": shares(scores - far).T,
        "You multiply by the scores themselves: the gate is their softmax.": _over_sum(scores * np.exp(-far)),
    }
    return Case((x, y, regressors, gates, sigma), shares(scores - far), about, mistakes)


def _over_sum(values: np.ndarray) -> np.ndarray:
    total = values.sum(1, keepdims=True)
    return np.asarray(values / np.where(total == 0, 1, total))


def check_gates_in_gauge(gates_in_gauge: object) -> Verdict:
    """Checks `gates_in_gauge(gates, order) -> (k, d)`: the true gates as an estimate with w_k = 0 should have them.

    Expert i of the estimate is the true expert order[i].
    """
    generator = np.random.default_rng(33)
    three = np.array([[3.0, 1], [0, 2], [0, 0]])
    four = generator.normal(size=(4, 5))
    cases = [
        _gauge_case("for w = ((3, 1), (0, 2), (0, 0)) and order (1, 2, 0)", three, [1, 2, 0]),
        _gauge_case("for 4 experts in their order", four, [0, 1, 2, 3]),
        _gauge_case("for 4 experts, order (1, 3, 0, 2)", four, [1, 3, 0, 2]),
    ]
    praise = "Two gates of length R can be 2 R apart: an EM that keeps every gate within R cannot reach all of these."
    formula = "w_i = gates[order[i]] - gates[order[k-1]]"
    return judge("gates_in_gauge", gates_in_gauge, cases, praise, formula)


def _gauge_case(about: str, gates: np.ndarray, order: list[int]) -> Case:
    where = np.array(order)
    moved, other = gates[where], gates[np.argsort(where)]
    mistakes = {
        "You permute, but your last gate is not 0: subtract it from all of them.": moved,
        "You do not permute: row i is the true expert order[i].": gates - gates[-1],
        "You permute the other way round: row i is gates[order[i]].": other - other[-1],
        "You set the last gate to 0 and left the others: a softmax forgives only what is subtracted from all.": (
            np.vstack((moved[:-1], 0 * moved[:1]))
        ),
        "You subtract the mean of all gates: the gauge is that the last one is 0.": moved - moved.mean(0),
        "You subtract the first gate: the gauge is that the last one is 0.": moved - moved[0],
        "You shifted the gates, but left them in their old order.": gates - moved[-1],
    }
    return Case((gates, where), moved - moved[-1], about, mistakes)


def check_fourth_projection(fourth_projection: object) -> Verdict:
    """Checks `fourth_projection(u, v, x) -> (N,)`: He_4(x)(u, u, v, v), that is c t1(u, v, x) (gated2019, sec. 3.1)."""
    generator = np.random.default_rng(34)
    corner = np.array([[1.0, 1.0], [2.0, -1.0]])
    u, v = generator.normal(size=4), generator.normal(size=4)
    cases = [
        _fourth_case("for u = (1, 0), v = (0, 1)", np.array([1.0, 0]), np.array([0, 1.0]), corner),
        _fourth_case("for u = v = (1, 0)", np.array([1.0, 0]), np.array([1.0, 0]), corner),
        _fourth_case("for u = (1, 2), v = (3, -1)", np.array([1.0, 2]), np.array([3.0, -1]), corner),
        _fourth_case("for 20 random samples, d=4", u, v, generator.normal(size=(20, 4))),
    ]
    praise = "For u = v it is <u,x>^4 - 6 |u|^2 <u,x>^2 + 3 |u|^4, which is t2. Every term but the first removes noise."
    formula = "<u,x>^2 <v,x>^2 - |u|^2 <v,x>^2 - |v|^2 <u,x>^2 - 4 <u,v> <u,x> <v,x> + |u|^2 |v|^2 + 2 <u,v>^2"
    return judge("fourth_projection", fourth_projection, cases, praise, formula)


def _fourth_case(about: str, u: np.ndarray, v: np.ndarray, x: np.ndarray) -> Case:
    a, b = x @ u, x @ v
    uu, vv, uv = float(u @ u), float(v @ v), float(u @ v)
    product = (a**2 - uu) * (b**2 - vv)  # He_2 of each: right where u and v are orthogonal
    right = product - 4 * a * b * uv + 2 * uv**2
    mistakes = {
        "This is He_2 of u times He_2 of v: where u and v are not orthogonal, x pairs between them too.": product,
        "You left out -4 <u,x> <v,x> <u,v>.": product + 2 * uv**2,
        "You left out 2 <u,v>^2.": product - 4 * a * b * uv,
        "You count one pair of <u,x> <v,x>: each of 2 u goes with each of 2 v, that makes 4.": (
            product - a * b * uv + 2 * uv**2
        ),
        "You count <u,v>^2 once: u, u, v, v fall into two such pairs.": product - 4 * a * b * uv + uv**2,
        "You took |u| = |v| = 1.": (a**2 - 1) * (b**2 - 1) - 4 * a * b * uv + 2 * uv**2,
        "You have the lengths exchanged: |u|^2 belongs to <v,x>^2, whose u, u are the pair.": (
            (a * b) ** 2 - uu * a**2 - vv * b**2 + uu * vv - 4 * a * b * uv + 2 * uv**2
        ),
        "This is the first term alone.": (a * b) ** 2,
        "You divided by c = 24: here the projection is asked without it.": right / 24,
    }
    return Case((u, v, x), right, about, mistakes)


def check_regressors_from(regressors_from: object) -> Verdict:
    """Checks `regressors_from(rows) -> (k, d)`: the unit regressors that a minimiser A of L4 means (theorem 1)."""
    cases = [
        _rows_case("for A = ((1, 0), (-1, 2))", np.array([[1.0, 0], [-1, 2]])),
        _rows_case("for 2 random rows, d=3", np.array([[1.0, 0.5, -0.3], [0.2, -1.1, 0.7]])),
        _rows_case("for 4 random rows, d=6", np.random.default_rng(35).normal(size=(4, 6))),
    ]
    praise = "Row i of A is orthogonal to every regressor but one; where regressors are orthonormal, it is that one."
    formula = "the rows of the transposed pseudo-inverse (A^+)^T, each divided by its length"
    return judge("regressors_from", regressors_from, cases, praise, formula)


def _rows_case(about: str, rows: np.ndarray) -> Case:
    inverse = np.linalg.pinv(rows)

    def unit(vectors: np.ndarray, axis: int = 1) -> np.ndarray:
        return np.asarray(vectors / np.linalg.norm(vectors, axis=axis, keepdims=True))

    mistakes = {
        "These are the rows of A: they are the regressors only where these are orthonormal. Invert A first.": unit(
            rows
        ),
        "These are the rows of A as they are: invert A, and take unit vectors.": rows,
        "Regressors have length 1: divide each by its own.": inverse.T,
        "Your axes are exchanged: the regressors are the columns of A's pseudo-inverse; return them as rows.": (
            unit(inverse, axis=0)
        ),
        "You normalised before you transposed: each column of the pseudo-inverse is a regressor.": unit(inverse).T,
    }
    return Case((rows,), unit(inverse.T), about, mistakes)


def check_gru_as_mixture(gru_as_mixture: object) -> Verdict:
    """Checks `gru_as_mixture(h, z, r, outside, inside) -> (m,)`: the new state of eq. 5, for gates from 0 to 1.

    outside = U x + b_i is what the input says, inside = W h + b_h what the old state says; g = tanh.
    """
    generator = np.random.default_rng(36)
    h, outside, inside = generator.uniform(-1, 1, size=3), *generator.normal(size=(2, 3))
    z, r = np.array([1.0, 1, 0]), np.array([0.0, 1, 1])
    soft_z, soft_r = generator.uniform(0.2, 0.8, size=(2, 3))
    cases = [
        _gru_case("for binary gates", h, z, r, outside, inside),
        _gru_case("for soft gates", h, soft_z, soft_r, outside, inside),
    ]
    praise = "With binary gates it is what a GRU computes. With soft ones it is not: notebook 07 measures how far off."
    formula = "h' = (1 - z) h + z ((1 - r) tanh(outside) + r tanh(outside + inside)), number by number"
    return judge("gru_as_mixture", gru_as_mixture, cases, praise, formula)


def _gru_case(about: str, h: np.ndarray, z: np.ndarray, r: np.ndarray, outside: np.ndarray, inside: np.ndarray) -> Case:
    forget, recall = np.tanh(outside), np.tanh(outside + inside)
    mixed = (1 - r) * forget + r * recall
    mistakes = {
        "This is the GRU itself: eq. 5 mixes the experts' answers, not what goes into tanh.": (
            (1 - z) * h + z * np.tanh(outside + r * inside)
        ),
        "Your z is torch's: here z = 1 means that the old state goes.": z * h + (1 - z) * mixed,
        "Your r is turned round: r = 1 means that the old state is heard.": (
            (1 - z) * h + z * (r * forget + (1 - r) * recall)
        ),
        "Your 'recall' hears the old state alone: it gets input and state.": (
            (1 - z) * h + z * ((1 - r) * forget + r * np.tanh(inside))
        ),
        "You forgot tanh.": (1 - z) * h + z * (outside + r * inside),
        "You left out the old state: 1 - z of it stays.": z * mixed,
        "You took tanh of the old state: the expert 'keep' answers h itself.": (1 - z) * np.tanh(h) + z * mixed,
    }
    return Case((h, z, r, outside, inside), (1 - z) * h + z * mixed, about, mistakes)
