"""Solutions of notebook 01, and the wrong answers that its hints are for."""

from __future__ import annotations

import numpy as np


def top_l(scores, count):
    kept = np.zeros(len(scores), dtype=bool)
    kept[np.argsort(-scores, kind="stable")[:count]] = True
    return kept


def gates(scores, kept):
    powers = np.where(kept, np.exp(scores - scores[kept].max()), 0)
    return powers / powers.sum()


def token_choice(scores, count):
    return np.stack([gates(row, top_l(row, count)) for row in scores])


def switch(scores, noise):
    result = np.zeros_like(scores)
    for row, push, out in zip(scores, noise, result, strict=True):
        chosen = np.argmax(row + push)
        out[chosen] = gates(row, np.ones(len(row), dtype=bool))[chosen]
    return result


def output(patches, routers, neurons, outputs, count):
    f = 0.0
    for router, own_neurons, own_outputs in zip(routers, neurons, outputs, strict=True):
        scores = patches @ router
        g = gates(scores, top_l(scores, count))
        for neuron, a in zip(own_neurons, own_outputs, strict=True):
            f += a / count * np.sum(np.maximum(patches @ neuron, 0) * g)
    return f


def softmax(scores, axis=-1):
    powers = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _mask_of(places, n):
    kept = np.zeros(n, dtype=bool)
    kept[places] = True
    return kept


def _noisy_gate(scores, noise):
    pushed = scores + noise
    return softmax(pushed) * (pushed == pushed.max(1, keepdims=True))


def _careless_output(use_relu=True, scale=True, gate=None):
    def output(patches, routers, neurons, outputs, count):
        f = 0.0
        for router, own_neurons, own_outputs in zip(routers, neurons, outputs, strict=True):
            scores = patches @ router
            g = (gate or gates)(scores, top_l(scores, count))
            products = own_neurons @ patches.T
            f += own_outputs @ ((np.maximum(products, 0) if use_relu else products) @ g) / (count if scale else 1)
        return f

    return output


WRONG = {
    "top_l": {
        "keep the smallest": lambda scores, count: _mask_of(np.argsort(scores)[:count], len(scores)),
        "more than l patches": lambda scores, count: scores >= np.sort(scores)[-count],
        "highest index": lambda scores, count: _mask_of(np.argsort(scores, kind="stable")[-count:], len(scores)),
        "return the places": lambda scores, count: np.argsort(-scores, kind="stable")[:count],
        "You return the l largest scores": lambda scores, count: np.sort(scores)[::-1][:count],
        "return ranks": lambda scores, count: np.argsort(np.argsort(-scores, kind="stable")),
        "largest score alone": lambda scores, count: _mask_of(np.argmax(scores), len(scores)),
        "the first l patches": lambda scores, count: _mask_of(slice(count), len(scores)),
        "leave out the l-th": lambda scores, count: scores > np.sort(scores)[-count],
    },
    "gates": {
        "sum to 1 over all patches": lambda scores, kept: softmax(scores),
        "sum to less than 1": lambda scores, kept: softmax(scores) * kept,
        "eq. 4 as printed": lambda scores, kept: np.exp(scores) * kept / np.sum(scores[kept]),
        "shares of the scores": lambda scores, kept: scores * kept / np.sum(scores[kept]),
        "exp(0) = 1 still counts": lambda scores, kept: softmax(scores * kept),
        "Dropped patches must have gate 0": lambda scores, kept: np.exp(scores) / np.exp(scores[kept]).sum(),
        "forgot to divide": lambda scores, kept: np.exp(scores) * kept,
        "the scores of the kept": lambda scores, kept: np.where(kept, scores, 0),
        "all equal": lambda scores, kept: kept / np.sum(kept),
        "eq. 3, separate training": lambda scores, kept: kept.astype(float),
        "subtract the largest kept score": lambda scores, kept: np.exp(scores) * kept / np.exp(scores[kept]).sum(),
    },
    "token_choice": {
        "Here the experts choose": lambda scores, count: token_choice(scores.T, count).T,
        "in a row sum to less than 1": lambda scores, count: softmax(scores) * (token_choice(scores, count) > 0),
        "Every expert has a gate": lambda scores, count: softmax(scores),
        "return the gates": lambda scores, count: token_choice(scores, count) > 0,
        "runs down the columns": lambda scores, count: (
            (powers := np.exp(scores) * (token_choice(scores, count) > 0))
            / np.where(powers.sum(0) == 0, 1, powers.sum(0))
        ),
        "ties to the highest expert": lambda scores, count: token_choice(scores[:, ::-1], count)[:, ::-1],
        "is transposed": lambda scores, count: token_choice(scores, count).T,
        "exp(0) = 1 still counts": lambda scores, count: softmax(scores * (token_choice(scores, count) > 0)),
        "all equal": lambda scores, count: (token_choice(scores, count) > 0) / count,
    },
    "switch": {
        "noise does not change your choice": lambda scores, noise: switch(scores, 0 * noise),
        "gate contains the noise": _noisy_gate,
        "Your gate is 1": lambda scores, noise: switch(scores, noise) > 0,
        "keeps one expert a sample": lambda scores, noise: softmax(scores),
        "the expert's number": lambda scores, noise: (scores + noise).argmax(1),
        "one gate a sample": lambda scores, noise: switch(scores, noise).sum(1),
        "runs down the columns": lambda scores, noise: softmax(scores, axis=0) * (switch(scores, noise) > 0),
    },
    "output": {
        "left out 1/l": _careless_output(scale=False),
        "left out the ReLU": _careless_output(use_relu=False),
        "eq. 3, separate training": _careless_output(gate=lambda scores, kept: kept.astype(float)),
        "sum over all patches": _careless_output(gate=lambda scores, kept: softmax(scores)),
        "softmax is over all patches": _careless_output(gate=lambda scores, kept: softmax(scores) * kept),
        "divide by n": lambda *model: output(*model) * model[-1] / len(model[0]),
        "left out the output weights": lambda x, w, v, a, count: output(x, w, v, np.ones_like(a), count),
        "return f itself": lambda *model: np.sign(output(*model)),
        "ReLU after summing": lambda x, w, v, a, count: sum(
            (np.maximum(own @ x.T @ gates(x @ router, top_l(x @ router, count)), 0) @ weights) / count
            for router, own, weights in zip(w, v, a, strict=True)
        ),
        "mean over the experts": lambda x, w, v, a, count: output(x, w, v, a, count) / len(w),
        "mean over the neurons": lambda x, w, v, a, count: output(x, w, v, a, count) / len(a[0]),
        "best patch alone": _careless_output(gate=lambda scores, kept: top_l(scores, 1).astype(float)),
        "one number an expert": lambda x, w, v, a, count: [
            output(x, w[s : s + 1], v[s : s + 1], a[s : s + 1], count) for s in range(len(w))
        ],
        "first expert alone": lambda x, w, v, a, count: output(x, w[:1], v[:1], a[:1], count),
        "last expert alone": lambda x, w, v, a, count: output(x, w[-1:], v[-1:], a[-1:], count),
        "first neuron of each": lambda x, w, v, a, count: output(x, w, v[:, :1], a[:, :1], count),
        "last neuron of each": lambda x, w, v, a, count: output(x, w, v[:, -1:], a[:, -1:], count),
    },
}
