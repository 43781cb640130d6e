"""Checks of notebook 03: how hard a task is, and how many samples that costs."""

from __future__ import annotations

import math

import numpy as np

from moe_lab.exercises.cases import Case, one_only
from moe_lab.exercises.verdict import Verdict, judge
from moe_lab.patch_routing import theory


def check_l_star(l_star: object) -> Verdict:
    """Checks `l_star(irrelevant, o_1, o_2, threshold) -> int`: one more than the most patches that lean to one side.

    irrelevant is (samples, n-1, d). A pattern q leans to o_1 when <o_1 - o_2, q> > threshold, to o_2 when
    <o_2 - o_1, q> > threshold.
    """
    # To either side lean 1 and 0, 1 and 5, 3 and 2, 2 and 2 of the seven patterns of a sample.
    sides = [[1, 0, 0, 0, 0, 0, 0], [1, 0, -1, -1, -1, -1, -1], [1, 1, 1, -1, -1, 0, 0], [1, 1, -1, -1, 0, 0, 0]]
    lean = 0.8 * np.array(sides) + 0.1
    cases = [
        _l_star_case("for 4 samples of 7 irrelevant patterns", lean, 0.4),
        _l_star_case("for the same samples with the sides exchanged", -lean, 0.4),
        _l_star_case("where no pattern leans far enough", lean * 0.1, 0.4),
        _l_star_case("for 5 random samples", np.random.default_rng(9).uniform(-1, 1, size=(5, 40)), 0.6),
    ]
    praise = "An expert that keeps l* patches keeps o, however the others lean."
    formula = (
        "1 + max over samples of max(number with <o_1 - o_2, q> > threshold, number with <o_2 - o_1, q> > threshold)"
    )
    return judge("l_star", l_star, cases, praise, formula)


def _l_star_case(about: str, lean: np.ndarray, threshold: float) -> Case:
    """Makes patterns with <o_1 - o_2, q> = lean, shared between o_1 and o_2 so that neither product alone shows it."""
    o_1, o_2 = np.eye(3)[:2]
    common = 0.5
    irrelevant = np.stack([common + lean / 2, common - lean / 2, np.zeros_like(lean)], axis=-1)
    to_one, to_two = (lean > threshold).sum(1), (-lean > threshold).sum(1)
    most = max(to_one.max(), to_two.max())
    alone = max((irrelevant @ o > threshold).sum(1).max() for o in (o_1, o_2))
    mistakes = {
        "You forgot the + 1: besides the leaning patterns there must be room for o itself.": most,
        "You add up both sides: an expert has to make room for patterns of one side only.": (to_one + to_two).max() + 1,
        "You look at o_1 only: count the patterns that lean to o_2 too, and take the larger number.": to_one.max() + 1,
        "You look at o_2 only: count the patterns that lean to o_1 too, and take the larger number.": to_two.max() + 1,
        "You count over all samples together: l* is about the worst single sample.": max(to_one.sum(), to_two.sum())
        + 1,
        "You take the mean over samples: l* is about the worst one.": max(to_one.mean(), to_two.mean()) + 1,
        "You take the best sample: l* is about the worst one.": min(to_one.min(), to_two.min()) + 1,
        "You compare <o_1, q> and <o_2, q> with the threshold: compare their difference.": alone + 1,
        "You count every pattern that leans at all: it has to lean by more than the threshold.": (
            max((lean > 0).sum(1).max(), (lean < 0).sum(1).max()) + 1
        ),
        **one_only("sample", *(max(to_one[i], to_two[i]) + 1 for i in (0, -1))),
    }
    return Case((irrelevant, o_1, o_2, threshold), most + 1, about, mistakes)


def check_delta(delta: object) -> Verdict:
    """Checks `delta(delta_d, delta_r) -> float`: eq. 9."""
    pairs = [(0.0, 0.6), (0.8, 0.3), (-0.9, 0.6), (0.5, 0.5)]
    praise = "Note delta(-0.9, 0.6): eq. 9 calls opposite patterns hard, although they are the easiest."
    formula = "delta = 1 / (1 - max(delta_d^2, delta_r^2))"
    return judge("delta", delta, [_delta_case(*pair) for pair in pairs], praise, formula)


def _delta_case(delta_d: float, delta_r: float) -> Case:
    right = theory.delta(delta_d, delta_r)
    mistakes = {
        "You forgot the squares.": 1 / (1 - max(delta_d, delta_r)),
        "You take the larger number before squaring: (-0.9)^2 is larger than 0.6^2.": (
            1 / (1 - max(delta_d, delta_r) ** 2)
        ),
        "You use the smaller square: the worst overlap counts.": 1 / (1 - min(delta_d**2, delta_r**2)),
        "You use delta_d alone: the worst overlap counts.": 1 / (1 - delta_d**2),
        "You use delta_r alone: the worst overlap counts.": 1 / (1 - delta_r**2),
        "You add up the squares: the larger one alone counts.": 1 / (1 - delta_d**2 - delta_r**2),
        "You take absolute values where squares belong.": 1 / (1 - max(abs(delta_d), abs(delta_r))),
        "You return the larger square: delta is 1 / (1 - that).": max(delta_d**2, delta_r**2),
        "You return 1 - max: delta is one over it, so that delta grows as patterns come closer.": 1 / right,
    }
    return Case((delta_d, delta_r), right, f"for delta_d={delta_d}, delta_r={delta_r}", mistakes)


def check_samples_needed(samples_needed: object) -> Verdict:
    """Checks `samples_needed(success, samples, level) -> float`: the least N from which on enough trials succeed.

    success is (samples, trial) bool, samples (S,) rising. `np.inf` where no N will do.
    """
    rows = [([1, 5, 8, 9, 10], 0.8), ([1, 9, 7, 9, 9], 0.9), ([0, 3, 8, 8], 0.9), ([2, 6, 8, 10], 0.5), ([9, 10], 0.9)]
    praise = "'From here on' guards against a lucky column; 20 trials at 90 % still leave about 7 points of error."
    formula = "the least N_i with (share of trials that succeed at N_j) >= level for every j >= i"
    return judge("samples_needed", samples_needed, [_needed_case(*row) for row in rows], praise, formula)


def _needed_case(counts: list[int], level: float) -> Case:
    success = np.arange(10)[None] < np.array(counts)[:, None]
    success = np.random.default_rng(90).permuted(success, axis=1)
    samples = 100 * (1 + np.arange(len(counts)))
    share = success.mean(1)

    def least(good: np.ndarray) -> float:
        """The first N from which on all are good."""
        on = np.flatnonzero(np.logical_and.accumulate(good[::-1])[::-1])
        return float(samples[on[0]]) if len(on) else math.inf

    enough = share >= level
    place = np.flatnonzero(np.logical_and.accumulate(enough[::-1])[::-1])
    mistakes = {
        "You take the first N that reaches the level: a later N falls below it again, so it was luck.": (
            float(samples[enough.argmax()]) if enough.any() else math.inf
        ),
        "You ask for more than the level: exactly the level is enough (>=).": least(share > level),
        "You return the place in the list: return N itself.": float(place[0]) if len(place) else math.inf,
        "You ask that all trials succeed: the given level is enough.": least(share == 1),
        "No N is enough here: return np.inf.": min(least(enough), float(samples[-1])),
        "One success is not enough: compare the share of trials with the level.": least(share > 0),
        "You return the share of trials that succeed: return the N from which on it is high enough.": share,
        **one_only("trial", least(success[:, 0]), least(success[:, -1])),
    }
    about = f"for successes {counts} of 10 at N={samples.tolist()} and level {level}"
    return Case((success, samples, level), least(enough), about, mistakes)


def check_sample_ratios(sample_ratios: object) -> Verdict:
    """Checks `sample_ratios(n, count, k) -> (separate, joint)`: N_C/N_S and N_C/N_J by theorems 4.2, 4.3 and 4.5."""
    cases = [_ratio_case(*sizes) for sizes in ((16, 8, 2), (16, 6, 8), (64, 6, 8))]
    praise = "These are ratios of sufficient bounds without constants: expect their direction, not their size."
    formula = "N_C / N_S = (n / l)^8 and N_C / N_J = n^8 / (k^4 l^6)"
    return judge("sample_ratios", sample_ratios, cases, praise, formula)


def _ratio_case(n: int, count: int, k: int) -> Case:
    sizes = theory.Sizes(patches=n, patches_per_expert=count, experts=k)
    separate, joint = (theory.advantage("samples", kind, sizes) for kind in ("separate", "joint"))
    mistakes = {
        "Your ratios are turned round: they are N of the CNN over N of pMoE.": [1 / separate, 1 / joint],
        "These are the ratios of neurons: for samples look at N_S, N_J and N_C.": [
            theory.advantage("neurons", "separate", sizes),
            theory.advantage("neurons", "joint", sizes),
        ],
        "You left out k: joint training needs k^4 times more samples.": [separate, n**8 / count**6],
        "Your second ratio is the first again: N_J grows with l^6 and k^4.": [separate, separate],
        "You took l^8 for joint training: theorem 4.5 has l^6.": [separate, n**8 / (k**4 * count**8)],
        "You swapped the two: separate training first.": [joint, separate],
    }
    return Case((n, count, k), [separate, joint], f"for n={n}, l={count}, k={k}", mistakes)
