"""Solutions of notebook 04, and the wrong answers that its hints are for."""

from __future__ import annotations

import itertools

import numpy as np

from tests.solutions.routing import softmax


def expert_step(filters, gradient, learning_rate):
    moved = filters.copy()
    for expert, slope in zip(moved, gradient, strict=True):
        length = np.linalg.norm(slope)
        if length > 0:
            expert -= learning_rate * slope / length
    return moved


def dispatch_entropy(dispatch):
    entropy = 0.0
    for received in dispatch.T:  # one expert
        for count in received[received > 0]:
            entropy -= count / dispatch.sum() * np.log(count / received.sum())
    return entropy


def error_share(plus, minus, center):
    wrong = []
    for k, other in itertools.permutations(range(len(plus)), 2):
        for y, epsilon in itertools.product((1, -1), repeat=2):
            feature, noise = (plus if y > 0 else minus)[k], (plus if epsilon > 0 else minus)[other]
            wrong.append(y * (feature + center[k] + noise) <= 0)
    return np.mean(wrong)


def mixture_output(patches, routers, filters, noise):
    scores = routers @ patches.sum(axis=0)
    expert = np.argmax(scores + noise)
    return softmax(scores)[expert] * np.sum((filters[expert] @ patches.T) ** 3)


def _margins(
    plus,
    minus,
    center,
    epsilons=lambda y: (1, -1),
    labels=(1, -1),
    pairs=lambda k, other, kinds: True,
    own=True,
    same=False,
    **weights,
):
    weigh = {"feature": 1, "noise": 1, "middle": 1, **weights}
    for k, other, y in itertools.product(range(len(plus)), range(len(plus)), labels):
        if (k == other and not same) or not pairs(k, other, len(plus)):
            continue
        for epsilon in epsilons(y):
            feature, noise = (plus if y > 0 else minus)[k], (plus if epsilon > 0 else minus)[other]
            middle = center[k if own else other]
            yield y * (weigh["feature"] * feature + weigh["middle"] * middle + weigh["noise"] * noise)


def _share(**changes):
    return lambda *tables: np.mean([margin <= 0 for margin in _margins(*tables, **changes)])


def _forgot_the_label(plus, minus, center):
    values = [y * m for y in (1, -1) for m in _margins(plus, minus, center, labels=(y,))]
    return np.mean([value <= 0 for value in values])


def _lengths(gradient, axes):
    return np.sqrt((gradient**2).sum(axis=axes, keepdims=True)) + 1e-300


def _moving(filters, gradient, rate, expert):
    filters[expert] -= rate * gradient[expert] / np.linalg.norm(gradient[expert])
    return filters


def _each(dispatch):
    return np.array([dispatch_entropy(column[:, None]) if column.any() else 0.0 for column in dispatch.T])


def _plain(shares):
    return -np.sum(shares[shares > 0] * np.log(shares[shares > 0]))


def _careless_mixture(choose=True, gate=lambda h, r: softmax(h), power=3, pool=lambda z: z):
    def mixture_output(patches, routers, filters, noise):
        h = routers @ patches.sum(axis=0)
        expert = np.argmax(h + noise if choose else h)
        return gate(h, noise)[expert] * np.sum(pool(filters[expert] @ patches.T) ** power)

    return mixture_output


def _with_scores(patches, h, filters, noise):
    expert = np.argmax(h + noise)
    return softmax(h)[expert] * np.sum((filters[expert] @ patches.T) ** 3)


def _all_experts(patches, routers, filters, noise):
    every = ((filters @ patches.T) ** 3).sum(axis=(1, 2))
    return softmax(routers @ patches.sum(axis=0)) @ every


WRONG = {
    "expert_step": {
        "length of the whole gradient": lambda w, g, rate: w - rate * g / np.linalg.norm(g),
        "length of each filter": lambda w, g, rate: w - rate * g / _lengths(g, 2),
        "walk uphill": lambda w, g, rate: 2 * w - expert_step(w, g, rate),
        "squared length": lambda w, g, rate: w - rate * g / _lengths(g, (1, 2)) ** 2,
        "plain gradient step": lambda w, g, rate: w - rate * g,
        "You return the step: return": lambda w, g, rate: expert_step(0 * w, g, rate),
        "return the step, uphill": lambda w, g, rate: -expert_step(0 * w, g, rate),
        "learning rate": lambda w, g, rate: expert_step(w, g, 1),
        "absolute values": lambda w, g, rate: w - rate * g / np.abs(g).sum(axis=(1, 2), keepdims=True),
        "without samples": lambda w, g, rate: w - rate * g / np.sqrt((g**2).sum(axis=(1, 2), keepdims=True)),
        "first expert alone has moved": lambda w, g, rate: _moving(w, g, rate, 0),
        "last expert alone has moved": lambda w, g, rate: _moving(w, g, rate, -1),
    },
    "dispatch_entropy": {
        "axes are exchanged": lambda dispatch: dispatch_entropy(dispatch.T),
        "in bits": lambda dispatch: dispatch_entropy(dispatch) / np.log(2),
        "log10": lambda dispatch: dispatch_entropy(dispatch) / np.log(10),
        "minus sign": lambda dispatch: -dispatch_entropy(dispatch),
        "all experts alike": lambda dispatch: _each(dispatch).mean(),
        "add up the experts": lambda dispatch: _each(dispatch).sum(),
        "experts in use": lambda dispatch: _each(dispatch)[dispatch.sum(0) > 0].mean(),
        "entropy of the experts' loads": lambda dispatch: _plain(dispatch.sum(0) / dispatch.sum()),
        "entropy of all cells": lambda dispatch: _plain(dispatch / dispatch.sum()),
        "divide by log K": lambda dispatch: dispatch_entropy(dispatch) / np.log(len(dispatch)),
        "number of samples": lambda dispatch: dispatch_entropy(dispatch) * dispatch.sum(),
        "one number an expert": _each,
        "both count as 0": lambda dispatch: -np.sum(dispatch / dispatch.sum() * np.log(dispatch / dispatch.sum(0))),
        "first expert alone": lambda dispatch: dispatch[:, 0].sum() / dispatch.sum() * _each(dispatch)[0],
        "last expert alone": lambda dispatch: dispatch[:, -1].sum() / dispatch.sum() * _each(dispatch)[-1],
    },
    "error_share": {
        "return the accuracy": lambda *tables: 1 - error_share(*tables),
        "no answer is no right answer": lambda *tables: np.mean([m < 0 for m in _margins(*tables)]),
        "let k' = k": _share(same=True),
        "center of k'": _share(own=False),
        "left out the center": _share(middle=0),
        "epsilon = -y only": _share(epsilons=lambda y: (-y,)),
        "epsilon = y only": _share(epsilons=lambda y: (y,)),
        "y = +1 only": _share(labels=(1,)),
        "forgot the label": _forgot_the_label,
        "count the wrong ones": lambda *tables: sum(m <= 0 for m in _margins(*tables)),
        "epsilon = +1 only": _share(epsilons=lambda y: (1,)),
        "epsilon = -1 only": _share(epsilons=lambda y: (-1,)),
        "y = -1 only": _share(labels=(-1,)),
        "left out the feature": _share(feature=0),
        "left out the noise": _share(noise=0),
        "k' = k + 1 alone": _share(pairs=lambda k, other, kinds: other == (k + 1) % kinds),
        "first cluster k alone": _share(pairs=lambda k, other, kinds: k == 0),
        "last cluster k alone": _share(pairs=lambda k, other, kinds: k == kinds - 1),
        "first other cluster k' alone": _share(pairs=lambda k, other, kinds: other == 0),
        "last other cluster k' alone": _share(pairs=lambda k, other, kinds: other == kinds - 1),
        "same in every case": lambda *tables: 1 / 8,
    },
    "mixture_output": {
        "noise does not change your choice": _careless_mixture(choose=False),
        "gate contains the noise": _careless_mixture(gate=lambda h, r: softmax(h + r)),
        "left out the gate": _careless_mixture(gate=lambda h, r: np.ones_like(h)),
        "winning score h + r": _careless_mixture(gate=lambda h, r: h + r),
        "score itself": _careless_mixture(gate=lambda h, r: h),
        "add up all experts": _all_experts,
        "summing over the patches": _careless_mixture(pool=lambda z: z.sum(axis=1)),
        "left out the cube": _careless_mixture(power=1),
        "mean over the patches": lambda *model: mixture_output(*model) / len(model[0]),
        "mean over the filters": lambda *model: mixture_output(*model) / model[2].shape[1],
        "return F itself": lambda *model: np.sign(mixture_output(*model)),
        "over the filters: each": _careless_mixture(pool=lambda z: z.sum(axis=0)),
        "mean of the patches": lambda x, theta, w, r: _with_scores(x, theta @ x.mean(axis=0), w, r),
        "first patch alone": _careless_mixture(pool=lambda z: z[:, 0]),
        "last patch alone": _careless_mixture(pool=lambda z: z[:, -1]),
        "first filter alone": _careless_mixture(pool=lambda z: z[0]),
        "last filter alone": _careless_mixture(pool=lambda z: z[-1]),
    },
}
