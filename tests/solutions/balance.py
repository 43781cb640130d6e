"""Solutions of notebook 10, and the wrong answers that its hints are for."""

from __future__ import annotations

import numpy as np


def switch_loss(gates):
    samples, experts = gates.shape
    total = 0.0
    for m in range(experts):
        received = sum(row.argmax() == m for row in gates) / samples
        total += received * gates[:, m].mean()
    return experts * total


def importance_loss(gates):
    importance = gates.sum(axis=0)
    return np.mean((importance - importance.mean()) ** 2) / importance.mean() ** 2


def router_z_loss(scores):
    largest = scores.max(axis=1)
    size = largest + np.log(np.exp(scores - largest[:, None]).sum(axis=1))
    return np.mean(size**2)


def moved_bias(bias, scores, rate):
    counts = np.zeros(len(bias))
    for row in scores:
        counts[np.argmax(row + bias)] += 1
    return bias + rate * np.sign(counts.mean() - counts)


def _shares(gates):
    return np.bincount(gates.argmax(axis=1), minlength=gates.shape[1]) / len(gates)


def _winners_alone(gates):
    best = gates == gates.max(axis=1, keepdims=True)
    return gates.shape[1] * _shares(gates) @ (gates * best).mean(axis=0)


def _moved(bias, scores, rate, turn=np.sign, with_bias=1, first=1):
    counts = np.bincount((scores + with_bias * bias).argmax(axis=1), minlength=len(bias))
    return first * bias + rate * turn(counts.mean() - counts)


WRONG = {
    "switch_loss": {
        "left out M": lambda gates: switch_loss(gates) / gates.shape[1],
        "gates twice": lambda gates: gates.shape[1] * (gates.mean(axis=0) ** 2).sum(),
        "counts twice": lambda gates: gates.shape[1] * (_shares(gates) ** 2).sum(),
        "count samples or add up gates": lambda gates: len(gates) * switch_loss(gates),
        "divide both by N": lambda gates: len(gates) ** 2 * switch_loss(gates),
        "only the winners' gates": _winners_alone,
        "mean over the experts": lambda gates: np.mean(_shares(gates) * gates.mean(axis=0)),
        "one number an expert": lambda gates: gates.shape[1] * _shares(gates) * gates.mean(axis=0),
        "first expert alone": lambda gates: gates.shape[1] * _shares(gates)[0] * gates[:, 0].mean(),
        "last expert alone": lambda gates: gates.shape[1] * _shares(gates)[-1] * gates[:, -1].mean(),
    },
    "importance_loss": {
        "This is CV:": lambda gates: np.sqrt(importance_loss(gates)),
        "This is the variance": lambda gates: gates.sum(axis=0).var(),
        "by the mean": lambda gates: gates.sum(axis=0).var() / gates.sum(axis=0).mean(),
        "by M - 1": lambda gates: gates.sum(axis=0).var(ddof=1) / gates.sum(axis=0).mean() ** 2,
        "exchanged the axes": lambda gates: importance_loss(gates.T),
        "You count samples: importance": lambda gates: _shares(gates).var() / _shares(gates).mean() ** 2,
        "1 + CV^2": lambda gates: 1 + importance_loss(gates),
        "return the importance": lambda gates: gates.sum(axis=0),
        "all gates, one by one": lambda gates: gates.var() / gates.mean() ** 2,
        "first sample alone": lambda gates: importance_loss(gates[:1]),
        "last sample alone": lambda gates: importance_loss(gates[-1:]),
    },
    "router_z_loss": {
        "forgot the square": lambda scores: np.logaddexp.reduce(scores, axis=1).mean(),
        "square the mean": lambda scores: np.logaddexp.reduce(scores, axis=1).mean() ** 2,
        "add up the samples": lambda scores: len(scores) * router_z_loss(scores),
        "mean of the exponentials": lambda scores: np.mean(
            (np.logaddexp.reduce(scores, axis=1) - np.log(scores.shape[1])) ** 2
        ),
        "exchanged the axes": lambda scores: router_z_loss(scores.T),
        "square the scores": lambda scores: np.mean(scores**2),
        "one number a sample": lambda scores: np.logaddexp.reduce(scores, axis=1) ** 2,
        "square the largest score": lambda scores: np.mean(scores.max(axis=1) ** 2),
        "first sample alone": lambda scores: router_z_loss(scores[:1]),
        "last sample alone": lambda scores: router_z_loss(scores[-1:]),
        "exp(800) overflows": lambda scores: np.mean(np.log(np.exp(scores).sum(axis=1)) ** 2),
    },
    "moved_bias": {
        "the wrong way": lambda bias, scores, rate: 2 * bias - moved_bias(bias, scores, rate),
        "select without the bias": lambda bias, scores, rate: _moved(bias, scores, rate, with_bias=0),
        "the error itself": lambda bias, scores, rate: _moved(bias, scores, rate, turn=lambda error: error),
        "error in shares": lambda bias, scores, rate: _moved(bias, scores, rate / len(scores), turn=lambda e: e),
        "left out the rate": lambda bias, scores, rate: _moved(bias, scores, 1),
        "return the step": lambda bias, scores, rate: _moved(bias, scores, rate, first=0),
        "first expert's bias alone": lambda bias, scores, rate: np.where(
            np.arange(len(bias)) == 0, moved_bias(bias, scores, rate), bias
        ),
        "last expert's bias alone": lambda bias, scores, rate: np.where(
            np.arange(len(bias)) == len(bias) - 1, moved_bias(bias, scores, rate), bias
        ),
        "smallest score plus bias": lambda bias, scores, rate: 2 * bias + moved_bias(-bias, -scores, rate),
        "the mean or less": lambda bias, scores, rate: _moved(
            bias, scores, rate, turn=lambda error: np.where(error >= 0, 1, -1)
        ),
    },
}
