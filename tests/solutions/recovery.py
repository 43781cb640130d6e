"""Solutions of notebooks 06 and 07, and the wrong answers that their hints are for."""

from __future__ import annotations

import numpy as np

from tests.solutions.routing import softmax


def p3_coefficients(moments, sigma):
    system = [[moments[2, j], moments[1, j]] for j in (1, 2)]
    cubes = [moments[3, j] + 3 * sigma**2 * moments[1, j] for j in (1, 2)]
    return np.linalg.solve(system, np.negative(cubes))


def third_score(x, a):
    d = len(a)
    identity = np.eye(d)
    scores = []
    for sample in x:  # the tensor as eq. 4 writes it
        tensor = np.einsum("i,j,k->ijk", sample, sample, sample)
        tensor -= np.einsum("i,jk->ijk", sample, identity)
        tensor -= np.einsum("i,jk->jik", sample, identity)
        tensor -= np.einsum("i,jk->jki", sample, identity)
        scores.append(np.einsum("ijk,i,j,k->", tensor, a, a, a))
    return np.array(scores)


def e_step(x, y, regressors, gates, sigma):
    rows = []
    for sample, label in zip(x, y, strict=True):
        residuals = label - regressors @ sample
        rows.append(softmax(gates @ sample - residuals**2 / (2 * sigma**2)))
    return np.array(rows)


def gates_in_gauge(gates, order):
    return np.array([gates[place] - gates[order[-1]] for place in order])


def fourth_projection(u, v, x):
    values = []
    for sample in x:  # every way to pair u, u, v, v: none, one pair or two
        slots = [u, u, v, v]
        pairs = [(i, j) for i in range(4) for j in range(i + 1, 4)]
        value = np.prod([slot @ sample for slot in slots])
        for i, j in pairs:
            rest = [slot @ sample for place, slot in enumerate(slots) if place not in (i, j)]
            value -= slots[i] @ slots[j] * np.prod(rest)
        for i, j in pairs[:3]:  # those of the first slot: the others pair up
            p, q = (place for place in range(4) if place not in (i, j))
            value += (slots[i] @ slots[j]) * (slots[p] @ slots[q])
        values.append(value)
    return np.array(values)


def regressors_from(rows):
    columns = np.linalg.pinv(rows).T
    return np.array([column / np.linalg.norm(column) for column in columns])


def gru_as_mixture(h, z, r, outside, inside):
    keep, forget, recall = h, np.tanh(outside), np.tanh(outside + inside)
    return (1 - z) * keep + z * (1 - r) * forget + z * r * recall


def _p3(cube=lambda m, s, j: m[3, j] + 3 * s**2 * m[1, j], square=lambda m, s, j: m[2, j], sign=-1, rows=(1, 2)):
    def solve(moments, sigma):
        system = np.array([[square(moments, sigma, j), moments[1, j]] for j in rows])
        wanted = sign * np.array([cube(moments, sigma, j) for j in rows])
        return np.linalg.lstsq(system, wanted, rcond=None)[0]

    return solve


def _printed(moments, sigma):
    return np.array([-3 * np.sqrt(2 / np.pi), 3 * (4 / np.pi - sigma**2 - 1)])


def _posterior(gate=1, square=lambda e: e**2, variance=lambda s: 2 * s**2, sign=-1):
    def e_step(x, y, regressors, gates, sigma):
        residuals = square(y[:, None] - x @ regressors.T)
        return np.array([softmax(row) for row in gate * x @ gates.T + sign * residuals / variance(sigma)])

    return e_step


def _unnormalised(x, y, regressors, gates, sigma):
    prior = np.array([softmax(row) for row in x @ gates.T])
    return prior * np.exp(-((y[:, None] - x @ regressors.T) ** 2) / (2 * sigma**2))


def _over_samples(x, y, regressors, gates, sigma):
    exponents = x @ gates.T - (y[:, None] - x @ regressors.T) ** 2 / (2 * sigma**2)
    return softmax(exponents.T).T if len(x) == 1 else np.array([softmax(column) for column in exponents.T]).T


def _raw_scores(x, y, regressors, gates, sigma):
    weighed = (x @ gates.T) * np.exp(-((y[:, None] - x @ regressors.T) ** 2) / (2 * sigma**2))
    return weighed / weighed.sum(1, keepdims=True)


def _naive(x, y, regressors, gates, sigma):
    weighed = np.exp(x @ gates.T - (y[:, None] - x @ regressors.T) ** 2 / (2 * sigma**2))
    return weighed / weighed.sum(1, keepdims=True)


def _project(cross=4, pairs=2, lengths=lambda u, v: (u @ u, v @ v)):
    def fourth_projection(u, v, x):
        a, b, (uu, vv) = x @ u, x @ v, lengths(u, v)
        return a**2 * b**2 - uu * b**2 - vv * a**2 + uu * vv - cross * a * b * (u @ v) + pairs * (u @ v) ** 2

    return fourth_projection


def _lengths_exchanged(u, v, x):
    a, b, uu, vv, uv = x @ u, x @ v, u @ u, v @ v, u @ v
    return a**2 * b**2 - uu * a**2 - vv * b**2 + uu * vv - 4 * a * b * uv + 2 * uv**2


def _unit(rows, axis=1):
    return rows / np.linalg.norm(rows, axis=axis, keepdims=True)


def _moved(gates, order, shift=lambda moved: 0):
    moved = gates[order]
    return moved - shift(moved)


WRONG = {
    "p3_coefficients": {
        "exchanged": lambda m, s: p3_coefficients(m, s)[::-1],
        "left out the noise": lambda m, s: p3_coefficients(m, 0),
        "3 sigma^2 g, once": _p3(cube=lambda m, s, j: m[3, j] + s**2 * m[1, j]),
        "sigma where": _p3(cube=lambda m, s, j: m[3, j] + 3 * s * m[1, j]),
        "minus sign": _p3(sign=1),
        "He_2 and He_3": _p3(rows=(2, 3)),
        "a constant has no moment": _p3(square=lambda m, s, j: m[2, j] + s**2),
        "lost the kink": _printed,
    },
    "third_score": {
        "three ways": lambda x, a: (x @ a) ** 3 - (a @ a) * (x @ a),
        "|a| = 1": lambda x, a: (x @ a) ** 3 - 3 * (x @ a),
        "normalised a": lambda x, a: third_score(x, a / np.linalg.norm(a)),
        "|a| where": lambda x, a: (x @ a) ** 3 - 3 * np.linalg.norm(a) * (x @ a),
        "|x|^2 where": lambda x, a: (x @ a) ** 3 - 3 * (x**2).sum(1) * (x @ a),
        "only the cube": lambda x, a: (x @ a) ** 3,
        "to be subtracted": lambda x, a: (x @ a) ** 3 + 3 * (a @ a) * (x @ a),
        "derivative's": lambda x, a: -third_score(x, a),
    },
    "e_step": {
        "not depend on the gates": _posterior(gate=0),
        "not depend on y": _posterior(sign=0),
        "sigma where": _posterior(variance=lambda s: 2 * s),
        "the 2 of": _posterior(variance=lambda s: s**2),
        "left out sigma": _posterior(variance=lambda s: 2),
        "minus sign": _posterior(sign=1),
        "square of the residual": _posterior(square=abs),
        "over the samples": _over_samples,
        "do not sum to 1": _unnormalised,
        "forgot to divide": lambda x, y, a, w, sigma: np.exp(x @ w.T - (y[:, None] - x @ a.T) ** 2 / (2 * sigma**2)),
        "axes are exchanged": lambda *model: e_step(*model).T,
        "scores themselves": _raw_scores,
        "largest exponent": _naive,
    },
    "gates_in_gauge": {
        "last gate is not 0": lambda gates, order: gates[order],
        "do not permute": lambda gates, order: gates - gates[-1],
        "other way round": lambda gates, order: gates_in_gauge(gates, np.argsort(order)),
        "left the others": lambda gates, order: np.vstack((gates[order[:-1]], np.zeros_like(gates[:1]))),
        "mean of all": lambda gates, order: _moved(gates, order, lambda moved: moved.mean(0)),
        "the first gate": lambda gates, order: _moved(gates, order, lambda moved: moved[0]),
        "old order": lambda gates, order: gates - gates[order[-1]],
    },
    "fourth_projection": {
        "He_2 of u times": _project(cross=0, pairs=0),
        "-4 <u,x>": _project(cross=0),
        "left out 2 <u,v>": _project(pairs=0),
        "that makes 4": _project(cross=1),
        "two such pairs": _project(pairs=1),
        "|u| = |v| = 1": _project(lengths=lambda u, v: (1, 1)),
        "lengths exchanged": _lengths_exchanged,
        "first term alone": lambda u, v, x: (x @ u) ** 2 * (x @ v) ** 2,
        "divided by c": lambda u, v, x: fourth_projection(u, v, x) / 24,
    },
    "regressors_from": {
        "Invert A first": _unit,
        "invert A, and take": lambda rows: rows,
        "have length 1": lambda rows: np.linalg.pinv(rows).T,
        "return them as rows": lambda rows: _unit(np.linalg.pinv(rows), axis=0),
        "before you transposed": lambda rows: _unit(np.linalg.pinv(rows)).T,
    },
    "gru_as_mixture": {
        "GRU itself": lambda h, z, r, u, v: (1 - z) * h + z * np.tanh(u + r * v),
        "torch's": lambda h, z, r, u, v: gru_as_mixture(h, 1 - z, r, u, v),
        "turned round": lambda h, z, r, u, v: gru_as_mixture(h, z, 1 - r, u, v),
        "old state alone": lambda h, z, r, u, v: (1 - z) * h + z * ((1 - r) * np.tanh(u) + r * np.tanh(v)),
        "forgot tanh": lambda h, z, r, u, v: (1 - z) * h + z * (u + r * v),
        "left out the old state": lambda h, z, r, u, v: gru_as_mixture(0 * h, z, r, u, v),
        "tanh of the old state": lambda h, z, r, u, v: gru_as_mixture(np.tanh(h), z, r, u, v),
    },
}
