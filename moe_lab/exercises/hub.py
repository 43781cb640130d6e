"""Checks of notebook 09: gates after rerouting, what each way of pruning saves, and what a comparison says."""

from __future__ import annotations

from typing import Any

import numpy as np

from moe_lab.exercises.cases import Case, one_only
from moe_lab.exercises.verdict import Verdict, judge


def check_rerouted_gates(rerouted_gates: object) -> Verdict:
    """Checks `rerouted_gates(scores, kept, top) -> (n, k)`: the gates of the experts left, after their router was cut.

    scores[j, s] = <w_s, x_j> of all E experts, kept holds the numbers of the k that stay, ascending, and top is K.
    """
    generator = np.random.default_rng(91)
    tiny = np.log([[1.0, 4.0, 2.0, 3.0], [6.0, 1.0, 3.0, 2.0]])
    cases = [
        _gates_case("for 2 tokens, of 4 experts 1, 2 and 3 stay, K=2", tiny, [1, 2, 3], 2),
        _gates_case("for 2 tokens, of 4 experts 0 and 3 stay, K=1", tiny, [0, 3], 1),
        _gates_case("for 5 tokens, 4 of 8 experts stay, K=3", generator.normal(size=(5, 8)), [0, 2, 3, 7], 3),
    ]
    praise = "A rerouted token still meets K experts, and its gates add up to 1: nothing is saved for it but memory."
    formula = "g_s = exp(h_s) / sum of exp(h) over the token's K largest among the kept, and 0 elsewhere"
    return judge("rerouted_gates", rerouted_gates, cases, praise, formula)


def _gates_case(about: str, scores: np.ndarray, kept: list[int], top: int) -> Case:
    every = np.ones(scores.shape, dtype=bool)
    stays = np.zeros(scores.shape, dtype=bool)
    stays[:, kept] = True

    def gates(among: np.ndarray, summed: np.ndarray | None = None, pick: float = 1) -> np.ndarray:
        ranked = np.where(among, pick * scores, -np.inf)
        chosen = (np.argsort(np.argsort(-ranked, axis=1), axis=1) < top) & among
        powers = np.exp(scores)
        return np.asarray(powers * chosen / (powers * (chosen if summed is None else summed)).sum(1, keepdims=True))

    right = gates(stays)[:, kept]
    powers = np.exp(scores[:, kept])
    mistakes = {
        "This is silent pruning: here tokens choose again, among the experts left.": gates(every)[:, kept],
        "Your softmax is over all experts left: it is over the K that the token chose.": gates(stays, stays)[:, kept],
        "Your softmax is over pruned experts too: their rows of the router are gone.": gates(stays, every)[:, kept],
        "You return a column for pruned experts too: the smaller model has none.": gates(stays),
        "You took the smallest scores: a token goes to the largest.": gates(stays, pick=-1)[:, kept],
        "A token goes to K experts, not to all that are left.": powers / powers.sum(1, keepdims=True),
        "You left out the softmax: these are scores.": np.where(right > 0, scores[:, kept], 0),
        "Your gates are all equal: a higher score has a larger gate.": (right > 0) / top,
        "You forgot to divide: the gates of a token must sum to 1.": np.where(right > 0, powers, 0),
    }
    return Case((scores, np.array(kept), top), right, about, mistakes)


def check_costs(costs: object) -> Verdict:
    """Checks `costs(expert, rest, experts, kept, top) -> (3, 2)`: parameters held, and met by a token.

    Rows: the whole model, rerouted, silent. `expert` is the number of parameters of one expert and `rest` of all that
    is no expert, `experts` is E, `kept` how many stay and `top` K; one layer, routers left out, silent with even load.
    """
    cases = [
        _costs_case("for experts of 100, a rest of 50, 4 of 8 kept, K=2", 100, 50, 8, 4, 2),
        _costs_case("for experts of 7, a rest of 1000, 6 of 8 kept, K=1", 7, 1000, 8, 6, 1),
        _costs_case("for experts of 30, no rest, 16 of 64 kept, K=8", 30, 0, 64, 16, 8),
    ]
    praise = "Both ways free the experts' memory. Only silent pruning saves operations: some choices lead nowhere."
    formula = "held = E or kept experts plus the rest; met by a token = K, K and K kept / E experts plus the rest"
    return judge("costs", costs, cases, praise, formula)


def _costs_case(about: str, expert: int, rest: int, experts: int, kept: int, top: int) -> Case:
    def table(rerouted: float, silent: float, held: float = kept, whole: float = top, add: float = rest) -> np.ndarray:
        rows = [[experts, whole], [held, rerouted], [held, silent]]
        return np.array(rows, dtype=float) * expert + add

    even = top * kept / experts
    right = table(top, even)
    mistakes = {
        "You have the two ways exchanged: rerouted tokens go to K experts, silent ones to fewer.": table(even, top),
        "Rerouted tokens choose again: they meet as many experts as before.": table(even, even),
        "Silent tokens do not choose again: of their K choices a share of kept / E is left.": table(top, top),
        "A token meets only the K experts that it chose, not every expert that is held.": table(
            kept, kept, whole=experts
        ),
        "You left out the rest, which every token meets.": table(top, even, add=0),
        "You count the experts that go as those that are held.": table(top, even, held=experts - kept),
        "Your rows and columns are exchanged: a row for each way.": right.T,
        "Silently pruned experts are gone from memory too: their weights are never read.": np.array(
            [right[0], right[1], [experts * expert + rest, right[2, 1]]]
        ),
        "You count one expert for a token: it meets K of them.": table(1, kept / experts, whole=1),
    }
    return Case((expert, rest, experts, kept, top), right, about, mistakes)


def check_advantage(advantage: object) -> Verdict:
    """Checks `advantage(criterion, random) -> (2,)`: how much better a criterion is than chance, and how sure that is.

    criterion[i] is its accuracy in run i, random[i, j] that of draw j of random pruning in the same run. The mean over
    runs of the difference, and its standard error: the standard deviation of the runs (n - 1), divided by sqrt(n).
    """
    generator = np.random.default_rng(92)
    cases = [
        _advantage_case(
            "for 4 runs of 2 draws", [0.9, 0.7, 0.8, 0.4], [[0.6, 0.8], [0.8, 0.8], [0.5, 0.7], [0.3, 0.2]]
        ),
        _advantage_case(
            "where the criterion is worse", [0.4, 0.5, 0.3], [[0.5, 0.6, 0.7], [0.7, 0.5, 0.9], [0.2, 0.6, 0.7]]
        ),
        _advantage_case("for 10 runs of 4 draws", *(generator.uniform(0, 1, size) for size in (10, (10, 4)))),
    ]
    praise = "Two standard errors from 0 is the least that one should ask for. Draws of one run are not runs."
    formula = "d_i = criterion_i - mean over j of random_ij; then the mean of d and s_d / sqrt(n), with n - 1 in s_d"
    return judge("advantage", advantage, cases, praise, formula)


def _advantage_case(about: str, criterion: Any, random: Any) -> Case:
    accuracy, chance = np.array(criterion, dtype=float), np.array(random, dtype=float)
    gained = accuracy - chance.mean(1)
    each = accuracy[:, None] - chance
    runs = len(gained)

    def told(mean: float, spread: float) -> np.ndarray:
        return np.array([mean, spread])

    right = told(gained.mean(), gained.std(ddof=1) / np.sqrt(runs))
    apart = np.sqrt((accuracy.var(ddof=1) + chance.mean(1).var(ddof=1)) / runs)
    mistakes = {
        "Your sign is wrong: the criterion minus random.": right * [-1, 1],
        "This is the spread of the runs: the standard error is smaller by sqrt(n).": told(
            gained.mean(), gained.std(ddof=1)
        ),
        "Your standard deviation divides by n: with few runs, n - 1.": told(
            gained.mean(), gained.std() / np.sqrt(runs)
        ),
        "You count draws as runs: those of one run share its model, so average them first.": told(
            each.mean(), each.std(ddof=1) / np.sqrt(each.size)
        ),
        "You lost the pairs: subtract run by run, since a run's model is easy or hard for both.": told(
            gained.mean(), apart
        ),
        "You compare with the best draw: random pruning is its mean.": _against(accuracy, chance.max(1)),
        "You return the mean alone: two numbers.": gained.mean(),
        "This is a t value: return the mean and its standard error apart.": right[0] / right[1],
        "You compare with the sum of the draws: random pruning is their mean.": _against(accuracy, chance.sum(1)),
        "You compare with the first draw alone: random pruning is the mean of all.": _against(accuracy, chance[:, 0]),
        "You add up the differences: take their mean.": told(gained.sum(), right[1]),
        **one_only("run", told(gained[0], right[1]), told(gained[-1], right[1])),
    }
    return Case((accuracy, chance), right, about, mistakes)


def _against(accuracy: np.ndarray, chance: np.ndarray) -> np.ndarray:
    gained = accuracy - chance
    return np.array([gained.mean(), gained.std(ddof=1) / np.sqrt(len(gained))])
