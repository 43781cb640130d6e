"""Solutions of notebooks 05 and 13, and the wrong answers that its hints are for."""

from __future__ import annotations

import numpy as np

from tests.solutions.routing import softmax


def norm_change(before, after):
    return np.linalg.norm(after, axis=1) - np.linalg.norm(before, axis=1)


def kept_experts(scores, signs, rho):
    kept = np.zeros(len(scores), dtype=bool)
    for sign in (1, -1):
        mine = np.flatnonzero(signs == sign)
        lost = int(rho * len(mine) + 1e-9)
        kept[mine[np.argsort(scores[mine])[lost:]]] = True
    return kept


def pruned_output(scores, values, signs, kept, top):
    output = 0.0
    for score, value in zip(scores, values, strict=True):  # one token
        chosen = np.argsort(-score)[:top]
        for expert, gate in zip(chosen, softmax(score[chosen]), strict=True):
            if kept[expert]:
                output += signs[expert] * gate * value[expert]
    return output


def importance_score(gates):
    scores = np.zeros(gates.shape[1])
    for token in gates:
        if token.any():
            # The share of tokens won times the mean gate there: the sum of the winning gates, over all tokens.
            scores[token.argmax()] += token.max()
    return scores / len(gates)


def _norm(vectors, axis=1):
    return np.sqrt((vectors**2).sum(axis=axis))


def _keeps(rank=lambda scores: scores, count=lambda lost: int(lost + 1e-9), answer=lambda kept: kept):
    def kept_experts(scores, signs, rho):
        kept = np.zeros(len(scores), dtype=bool)
        for sign in (1, -1):
            mine = np.flatnonzero(signs == sign)
            kept[mine[np.argsort(rank(scores)[mine])[count(rho * len(mine)) :]]] = True
        return answer(kept)

    return kept_experts


def _kept_of_all(scores, signs, rho):
    kept = np.zeros(len(scores), dtype=bool)
    kept[np.argsort(scores)[int(rho * len(scores) + 1e-9) :]] = True
    return kept


def _kept_share(scores, signs, rho):
    kept = np.zeros(len(scores), dtype=bool)
    for sign in (1, -1):
        mine = np.flatnonzero(signs == sign)
        kept[mine[np.argsort(-scores[mine])[: int(rho * len(mine) + 1e-9)]]] = True
    return kept


def _careless_output(
    choose=lambda score, top, kept: np.argsort(-score)[:top],
    gate=lambda score, chosen, kept: softmax(score[chosen]),
    sign=lambda a: a,
    stays=lambda kept: kept,
):
    def pruned_output(scores, values, signs, kept, top):
        total = 0.0
        for score, value in zip(scores, values, strict=True):
            chosen = choose(score, top, kept)
            gates = gate(score, chosen, kept)
            total += sum(sign(signs[s]) * g * value[s] for s, g in zip(chosen, gates, strict=True) if stays(kept)[s])
        return total

    return pruned_output


def _among_kept(score, chosen, kept):
    powers = np.exp(score[chosen]) * kept[chosen]
    return powers / max(powers.sum(), 1e-300)


def _chosen_by_experts(scores, values, signs, kept, top):
    total = 0.0
    for s in np.flatnonzero(kept):
        tokens = np.argsort(-scores[:, s])[:top]
        total += signs[s] * softmax(scores[tokens, s]) @ values[tokens, s]
    return total


def _by_token(scores, values, signs, kept, top):
    rows = zip(scores[:, None], values[:, None], strict=True)
    return np.array([pruned_output(score, value, signs, kept, top) for score, value in rows])


def _wins(gates):
    return (gates == gates.max(axis=1, keepdims=True)) & (gates > 0)


def _conf(gates, where):
    return np.array([gates[where[:, s], s].mean() if where[:, s].any() else 0.0 for s in range(gates.shape[1])])


def _without_care(gates):
    with np.errstate(all="ignore"):
        return _wins(gates).mean(axis=0) * (gates * _wins(gates)).sum(axis=0) / _wins(gates).sum(axis=0)


WRONG = {
    "norm_change": {
        "norm of the difference": lambda before, after: _norm(after - before),
        "after minus before": lambda before, after: norm_change(after, before),
        "lost the sign": lambda before, after: abs(norm_change(before, after)),
        "subtract the one before": lambda before, after: _norm(after),
        "squared norms": lambda before, after: (after**2).sum(1) - (before**2).sum(1),
        "divide by the norm before": lambda before, after: _norm(after) / _norm(before) - 1,
        "add up absolute values": lambda before, after: abs(after).sum(1) - abs(before).sum(1),
        "axes are exchanged": lambda before, after: _norm(after, 0) - _norm(before, 0),
        "one number for all routers": lambda before, after: np.linalg.norm(after) - np.linalg.norm(before),
    },
    "kept_experts": {
        "all experts together": _kept_of_all,
        "the experts that go": _keeps(answer=lambda kept: ~kept),
        "keep the smallest": _keeps(rank=lambda scores: -scores),
        "absolute value": _keeps(rank=np.abs),
        "a share of rho": _kept_share,
        "round the number of pruned experts up": _keeps(count=lambda lost: int(np.ceil(lost - 1e-9))),
        "numbers of experts": _keeps(answer=np.flatnonzero),
        "to the nearest": _keeps(count=lambda lost: round(lost)),
        "no - expert": lambda scores, signs, rho: kept_experts(scores, signs, rho) & (signs > 0),
        "no + expert": lambda scores, signs, rho: kept_experts(scores, signs, rho) & (signs < 0),
        "prune the + experts alone": lambda scores, signs, rho: kept_experts(scores, signs, rho) | (signs < 0),
        "prune the - experts alone": lambda scores, signs, rho: kept_experts(scores, signs, rho) | (signs > 0),
    },
    "pruned_output": {
        "left the pruned experts in": _careless_output(stays=lambda kept: np.ones_like(kept)),
        "must not choose again": _careless_output(
            choose=lambda score, top, kept: np.argsort(np.where(kept, -score, np.inf))[: min(top, kept.sum())]
        ),
        "over the experts that stay": _careless_output(gate=_among_kept),
        "over all experts": _careless_output(gate=lambda score, chosen, kept: softmax(score)[chosen]),
        "experts choose their tokens": _chosen_by_experts,
        "smallest scores": _careless_output(choose=lambda score, top, kept: np.argsort(score)[:top]),
        "experts' signs": _careless_output(sign=abs),
        "left out the gates": _careless_output(gate=lambda score, chosen, kept: np.ones(len(chosen))),
        "average over the tokens": lambda *layer: pruned_output(*layer) / len(layer[0]),
        "one number a token": _by_token,
        "best expert of each token": _careless_output(
            gate=lambda score, chosen, kept: softmax(score[chosen]) * (chosen == score.argmax())
        ),
        "first token alone": lambda scores, values, *rest: pruned_output(scores[:1], values[:1], *rest),
        "last token alone": lambda scores, values, *rest: pruned_output(scores[-1:], values[-1:], *rest),
    },
    "importance_score": {
        "share of tokens won alone": lambda gates: _wins(gates).mean(axis=0),
        "mean gate alone": lambda gates: _conf(gates, _wins(gates)),
        "You count every token": lambda gates: (gates > 0).mean(axis=0) * _conf(gates, gates > 0),
        "Your mean gate is over every token": lambda gates: _wins(gates).mean(axis=0) * _conf(gates, gates > 0),
        "Your share counts every token": lambda gates: (gates > 0).mean(axis=0) * _conf(gates, _wins(gates)),
        "over all tokens": lambda gates: _wins(gates).mean(axis=0) * (gates * _wins(gates)).mean(axis=0),
        "number of tokens": lambda gates: importance_score(gates) * len(gates),
        "axes are exchanged": lambda gates: importance_score(gates.T),
        "first token alone": lambda gates: importance_score(gates[:1]) / len(gates),
        "last token alone": lambda gates: importance_score(gates[-1:]) / len(gates),
        "wins no token": _without_care,
    },
}
