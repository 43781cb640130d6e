"""Solutions of notebook 09, and the wrong answers that its hints are for."""

from __future__ import annotations

import numpy as np

from tests.solutions.routing import softmax


def rerouted_gates(scores, kept, top):
    gates = np.zeros((len(scores), len(kept)))
    for gate, score in zip(gates, np.array(scores)[:, kept], strict=True):  # one token
        chosen = np.argsort(-score)[:top]
        gate[chosen] = softmax(score[chosen])
    return gates


def costs(expert, rest, experts, kept, top):
    return [
        [rest + experts * expert, rest + top * expert],
        [rest + kept * expert, rest + top * expert],
        [rest + kept * expert, rest + top * kept / experts * expert],
    ]


def advantage(criterion, random):
    gained = np.array(criterion) - np.array(random).mean(axis=1)
    return [gained.mean(), gained.std(ddof=1) / np.sqrt(len(gained))]


def _silent_gates(scores, kept, top):
    return rerouted_gates(scores, np.arange(scores.shape[1]), top)[:, kept]


def _careless_gates(choose=lambda score, top: np.argsort(-score)[:top], total=lambda score, chosen, kept: 0.0):
    """Gates of a token's choice; `total` gives the softmax's denominator, if not that of the choice."""

    def rerouted_gates(scores, kept, top):
        gates = np.zeros((len(scores), len(kept)))
        for gate, score in zip(gates, scores, strict=True):
            chosen = choose(score[kept], top)
            powers = np.exp(score[kept][chosen])
            gate[chosen] = powers / (total(score, chosen, kept) or powers.sum())
        return gates

    return rerouted_gates


def _with_pruned_columns(scores, kept, top):
    gates = np.zeros(scores.shape)
    gates[:, kept] = rerouted_gates(scores, kept, top)
    return gates


def _bare_scores(scores, kept, top):
    return np.where(rerouted_gates(scores, kept, top) > 0, scores[:, kept], 0)


def _changed(change):
    """The right table of costs, changed."""
    return lambda *sizes: change(np.array(costs(*sizes), dtype=float), *sizes)


def _edited(table, rows):
    """A table with some of its rows replaced."""
    return [rows.get(i, row) for i, row in enumerate(table.tolist())]


def _gained(criterion, random):
    return criterion - random.mean(axis=1)


def _standard_error(values):
    return values.std(ddof=1) / np.sqrt(values.size)


def _unpaired(criterion, random):
    chance = random.mean(axis=1)
    return [(criterion - chance).mean(), np.hypot(_standard_error(criterion), _standard_error(chance))]


def _draw_by_draw(criterion, random):
    each = criterion[:, None] - random
    return [each.mean(), _standard_error(each)]


def _against_the_best(criterion, random):
    gained = criterion - random.max(axis=1)
    return [gained.mean(), _standard_error(gained)]


WRONG = {
    "rerouted_gates": {
        "silent pruning": _silent_gates,
        "over all experts left": _careless_gates(total=lambda score, chosen, kept: np.exp(score[kept]).sum()),
        "over pruned experts": _careless_gates(total=lambda score, chosen, kept: np.exp(score).sum()),
        "a column for pruned experts": _with_pruned_columns,
        "smallest scores": _careless_gates(choose=lambda score, top: np.argsort(score)[:top]),
        "not to all that are left": lambda scores, kept, top: [softmax(score[kept]) for score in scores],
        "left out the softmax": _bare_scores,
        "all equal": lambda scores, kept, top: (rerouted_gates(scores, kept, top) > 0) / top,
        "forgot to divide": lambda scores, kept, top: (rerouted_gates(scores, kept, top) > 0) * np.exp(scores[:, kept]),
    },
    "costs": {
        "two ways exchanged": _changed(lambda table, *_: table[[0, 2, 1]]),
        "as many experts as before": _changed(lambda table, *_: table[[0, 2, 2]]),
        "a share of kept / E": _changed(lambda table, *_: table[[0, 1, 1]]),
        "not every expert that is held": _changed(lambda table, *_: np.stack([table[:, 0]] * 2, axis=1)),
        "left out the rest": _changed(lambda table, expert, rest, *_: table - rest),
        "the experts that go": _changed(
            lambda table, expert, rest, experts, kept, top: _edited(
                table, {i: [rest + (experts - kept) * expert, table[i, 1]] for i in (1, 2)}
            )
        ),
        "a row for each way": _changed(lambda table, *_: table.T),
        "one expert for a token": lambda expert, rest, experts, kept, top: costs(expert, rest, experts, kept, 1),
        "gone from memory too": _changed(lambda table, *_: _edited(table, {2: [table[0, 0], table[2, 1]]})),
    },
    "advantage": {
        "sign is wrong": lambda criterion, random: np.array(advantage(criterion, random)) * [-1, 1],
        "spread of the runs": lambda criterion, random: [
            _gained(criterion, random).mean(),
            _gained(criterion, random).std(ddof=1),
        ],
        "with few runs, n - 1": lambda criterion, random: [
            _gained(criterion, random).mean(),
            _gained(criterion, random).std() / np.sqrt(len(criterion)),
        ],
        "count draws as runs": _draw_by_draw,
        "lost the pairs": _unpaired,
        "the best draw": _against_the_best,
        "sum of the draws": lambda criterion, random: advantage(criterion, random.sum(axis=1, keepdims=True)),
        "first draw alone": lambda criterion, random: advantage(criterion, random[:, :1]),
        "add up the differences": lambda criterion, random: [
            _gained(criterion, random).sum(),
            advantage(criterion, random)[1],
        ],
        "first run alone": lambda criterion, random: [_gained(criterion, random)[0], advantage(criterion, random)[1]],
        "last run alone": lambda criterion, random: [_gained(criterion, random)[-1], advantage(criterion, random)[1]],
        "the mean alone": lambda criterion, random: _gained(criterion, random).mean(),
        "a t value": lambda criterion, random: np.divide(*advantage(criterion, random)),
    },
}
