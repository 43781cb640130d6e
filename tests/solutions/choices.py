"""Solutions of notebook 11, and the wrong answers that its hints are for."""

from __future__ import annotations

import numpy as np

from tests.solutions.routing import softmax


def served(scores, places):
    taken, found = np.zeros(scores.shape[1], dtype=int), []
    for wanted in scores.argmax(1):
        found.append(taken[wanted] < places)
        taken[wanted] += 1
    return np.array(found)


def sigmoid_gates(scores, count):
    plain = 1 / (1 + np.exp(-scores))
    chosen = np.argsort(np.argsort(-scores, axis=1), axis=1) < count
    gates = np.where(chosen, plain, 0)
    return gates / gates.sum(1, keepdims=True)


def slot_inputs(scores, tokens):
    weights = np.exp(scores) / np.exp(scores).sum(0)
    return weights.T @ tokens


def _by_priority(scores, places):
    order = np.argsort(-scores.max(1), kind="stable")
    found = np.empty(len(scores), dtype=bool)
    found[order] = served(scores[order], places)
    return found


def _chosen(scores, count):
    return np.argsort(np.argsort(-scores, axis=1), axis=1) < count


def _sigmoid(scores):
    return 1 / (1 + np.exp(-scores))


def _over_tokens(scores, count):
    plain = np.where(_chosen(scores, count), _sigmoid(scores), 0)
    sums = plain.sum(0)
    return plain / np.where(sums > 0, sums, 1)


WRONG = {
    "served": {
        "highest scores first": _by_priority,
        "last rows first": lambda scores, places: served(scores[::-1], places)[::-1],
        "serve everybody": lambda scores, places: np.ones(len(scores), dtype=bool),
        "whichever expert they want": lambda scores, places: np.arange(len(scores)) < places,
        "who is turned away": lambda scores, places: ~served(scores, places),
        "one place too many": lambda scores, places: served(scores, places + 1),
        "every expert one place": lambda scores, places: served(scores, 1),
        "score lowest": lambda scores, places: served(-scores, places),
    },
    "sigmoid_gates": {
        "softmax over the chosen": lambda s, c: np.stack([
            softmax(np.where(row, score, -np.inf)) for row, score in zip(_chosen(s, c), s, strict=True)
        ]),
        "did not divide": lambda s, c: np.where(_chosen(s, c), _sigmoid(s), 0),
        "sum over all experts": lambda s, c: _chosen(s, c) * _sigmoid(s) / _sigmoid(s).sum(1, keepdims=True),
        "left nobody out": lambda s, c: _sigmoid(s) / _sigmoid(s).sum(1, keepdims=True),
        "smallest scores": lambda s, c: (
            _chosen(-s, c) * _sigmoid(s) / (_chosen(-s, c) * _sigmoid(s)).sum(1, keepdims=True)
        ),
        "largest score alone": lambda s, c: sigmoid_gates(s, 1),
        "all equal": lambda s, c: _chosen(s, c) / c,
        "sum to 1 over the tokens": _over_tokens,
    },
    "slot_inputs": {
        "softmax over the slots": lambda s, x: np.stack([softmax(row) for row in s]).T @ x,
        "left out the softmax": lambda s, x: s.T @ x,
        "left out the division": lambda s, x: np.exp(s).T @ x,
        "best token alone": lambda s, x: x[s.argmax(0)],
        "plain mean": lambda s, x: np.tile(x.mean(0), (s.shape[1], 1)),
        "number of tokens": lambda s, x: slot_inputs(s, x) / len(x),
        "first token alone": lambda s, x: np.outer(np.exp(s)[0] / np.exp(s).sum(0), x[0]),
        "last token alone": lambda s, x: np.outer(np.exp(s)[-1] / np.exp(s).sum(0), x[-1]),
    },
}  # fmt: skip
