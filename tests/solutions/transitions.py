"""Solutions of notebook 03, and the wrong answers that its hints are for."""

from __future__ import annotations

import math

import numpy as np


def l_star(irrelevant, o_1, o_2, threshold):
    lean = irrelevant @ (o_1 - o_2)
    return 1 + max((lean > threshold).sum(1).max(), (-lean > threshold).sum(1).max())


def delta(delta_d, delta_r):
    return 1 / (1 - max(delta_d**2, delta_r**2))


def samples_needed(success, samples, level):
    needed = math.inf
    for share, count in zip(success.mean(axis=1)[::-1], samples[::-1], strict=True):
        if share < level:
            break
        needed = count
    return needed


def sample_ratios(n, count, k):
    return (n / count) ** 8, n**8 / (k**4 * count**6)


def _sides(irrelevant, o_1, o_2, threshold):
    lean = irrelevant @ (o_1 - o_2)
    return (lean > threshold).sum(1), (-lean > threshold).sum(1)


def _first(success, samples, level):
    enough = success.mean(1) >= level
    return samples[enough.argmax()] if enough.any() else math.inf


def _place(success, samples, level):
    needed = samples_needed(success, samples, level)
    return int(np.searchsorted(samples, needed)) if math.isfinite(needed) else math.inf


WRONG = {
    "l_star": {
        "forgot the + 1": lambda *task: l_star(*task) - 1,
        "add up both sides": lambda *task: 1 + sum(_sides(*task)).max(),
        "o_1 only": lambda *task: 1 + _sides(*task)[0].max(),
        "o_2 only": lambda *task: 1 + _sides(*task)[1].max(),
        "count over all samples": lambda *task: 1 + max(side.sum() for side in _sides(*task)),
        "mean over samples": lambda *task: 1 + max(side.mean() for side in _sides(*task)),
        "best sample": lambda *task: 1 + min(side.min() for side in _sides(*task)),
        "compare their difference": lambda q, o_1, o_2, threshold: (
            1 + max((q @ o > threshold).sum(axis=1).max() for o in (o_1, o_2))
        ),
        "leans at all": lambda q, o_1, o_2, threshold: l_star(q, o_1, o_2, 0),
        "first sample alone": lambda q, *rest: l_star(q[:1], *rest),
        "last sample alone": lambda q, *rest: l_star(q[-1:], *rest),
    },
    "delta": {
        "forgot the squares": lambda d, r: 1 / (1 - max(d, r)),
        "before squaring": lambda d, r: 1 / (1 - max(d, r) ** 2),
        "smaller square": lambda d, r: 1 / (1 - min(d**2, r**2)),
        "one over it": lambda d, r: 1 - max(d**2, r**2),
        "delta_d alone": lambda d, r: 1 / (1 - d**2),
        "delta_r alone": lambda d, r: 1 / (1 - r**2),
        "add up the squares": lambda d, r: 1 / (1 - (d**2 + r**2)),
        "absolute values": lambda d, r: 1 / (1 - max(abs(d), abs(r))),
        "return the larger square": lambda d, r: max(d**2, r**2),
    },
    "samples_needed": {
        "the first N that reaches": _first,
        "exactly the level": lambda success, samples, level: samples_needed(success, samples, level + 1e-9),
        "return N itself": _place,
        "return np.inf": lambda success, samples, level: min(samples_needed(success, samples, level), samples[-1]),
        "all trials succeed": lambda success, samples, level: samples_needed(success, samples, 1.0),
        "One success is not enough": lambda success, samples, level: samples_needed(success, samples, 1e-9),
        "the share of trials that succeed": lambda success, samples, level: success.mean(axis=1),
        "first trial alone": lambda success, samples, level: samples_needed(success[:, :1], samples, level),
        "last trial alone": lambda success, samples, level: samples_needed(success[:, -1:], samples, level),
    },
    "sample_ratios": {
        "turned round": lambda n, count, k: [1 / ratio for ratio in sample_ratios(n, count, k)],
        "ratios of neurons": lambda n, count, k: [(n / count) ** 10, n**8 / (k**3 * count**6)],
        "left out k": lambda n, count, k: [(n / count) ** 8, n**8 / count**6],
        "the first again": lambda n, count, k: [(n / count) ** 8] * 2,
        "l^8 for joint": lambda n, count, k: [(n / count) ** 8, n**8 / (k**4 * count**8)],
        "swapped the two": lambda n, count, k: sample_ratios(n, count, k)[::-1],
    },
}
