"""Checks of notebooks 05 and 13: the change of a router's norm, kept experts, importance score, the pruned output."""

from __future__ import annotations

from typing import Any

import numpy as np

from moe_lab.exercises.cases import Case, one_only
from moe_lab.exercises.verdict import Verdict, judge


def check_norm_change(norm_change: object) -> Verdict:
    """Checks `norm_change(before, after) -> (k,)`: Delta_s, the change of each router's norm, of (k, d) routers."""
    generator = np.random.default_rng(21)
    turned = np.array([[3.0, 4.0], [0.0, 2.0]]), np.array([[6.0, 8.0], [2.0, 0.0]])
    shrunk = np.array([[3.0, 4.0, 0.0], [0.0, 1.0, 0.0]]), np.array([[0.3, 0.4, 0.0], [0.0, 1.0, 2.0]])
    cases = [
        _change_case("for a router that doubles and one that only turns", *turned),
        _change_case("for a router that shrinks", *shrunk),
        _change_case("for 6 random routers", *generator.normal(size=(2, 6, 4))),
    ]
    praise = "A router that only turns has Delta = 0, and one that shrinks a negative one: the first to be pruned. "
    praise += "To try it live: PruningLab(score=norm_change)."
    formula = "Delta_s = |w_s after| - |w_s before|"
    return judge("norm_change", norm_change, cases, praise, formula)


def _change_case(about: str, before: Any, after: Any) -> Case:
    def norm(vectors: np.ndarray, axis: int | None = 1) -> np.ndarray:
        return np.asarray(np.sqrt((vectors**2).sum(axis=axis)))

    right = norm(after) - norm(before)
    mistakes = {
        "This is the norm of the difference: Delta is the difference of the norms.": norm(after - before),
        "Your sign is wrong: after minus before.": -right,
        "You lost the sign: a router that shrinks has a negative Delta.": np.abs(right),
        "This is the norm after fine-tuning: subtract the one before.": norm(after),
        "You subtract squared norms: take the roots first.": norm(after) ** 2 - norm(before) ** 2,
        "You divide by the norm before: Delta is absolute.": right / norm(before),
        "You add up absolute values: the l_2 norm is the root of the sum of squares.": np.abs(after).sum(1)
        - np.abs(before).sum(1),
        "Your axes are exchanged: a router is a row, of d numbers.": norm(after, 0) - norm(before, 0),
        "You return one number for all routers: one for each.": norm(after, None) - norm(before, None),
    }
    return Case((before, after), right, about, mistakes)


def check_kept_experts(kept_experts: object) -> Verdict:
    """Checks `kept_experts(scores, signs, rho) -> (k,) bool`: the experts with the largest scores of each sign.

    Of each sign's experts, a share of rho is pruned, rounded down to whole experts.
    """
    generator = np.random.default_rng(22)
    signs = np.repeat([1, -1], 10)
    one_sided = np.concatenate([generator.uniform(3, 4, 10), generator.uniform(0, 1, 10)])
    cases = [
        _kept_case("for 8 experts and rho=.25", [2.0, 1.0, 5.0, 3.0, 6.0, 9.0, 4.0, 8.0], np.repeat([1, -1], 4), 0.25),
        _kept_case("where the + experts have the larger scores, rho=.5", one_sided, signs, 0.5),
        _kept_case("with negative scores, rho=.6", generator.normal(size=20), signs, 0.6),
        _kept_case("with 5 of each sign and rho=.3", generator.normal(size=10), np.repeat([1, -1], 5), 0.3),
        _kept_case("with signs in any order, rho=.83", generator.normal(size=20), generator.permutation(signs), 0.83),
    ]
    praise = "Within each sign; otherwise all the 'no' experts might go, because the 'yes' experts grew a little more."
    formula = "of the k' experts of a sign, the k' - floor(rho k') with the largest scores stay"
    return judge("kept_experts", kept_experts, cases, praise, formula)


def _kept_case(about: str, scores: Any, signs: np.ndarray, rho: float) -> Case:
    values, groups = np.array(scores, dtype=float), [signs > 0, signs < 0]

    def top(ranked: np.ndarray, mine: np.ndarray, stay: int) -> np.ndarray:
        order = np.argsort(np.where(mine, -ranked, np.inf), kind="stable")
        kept = np.zeros(len(ranked), dtype=bool)
        kept[order[:stay]] = True
        return kept

    def each(ranked: np.ndarray, lost: Any) -> np.ndarray:
        first, second = (top(ranked, mine, int(mine.sum()) - int(lost(rho * mine.sum()))) for mine in groups)
        return first | second

    def down(count: float) -> float:
        return np.floor(count + 1e-9)

    right = each(values, down)
    everyone = np.ones(len(values), dtype=bool)
    mistakes = {
        "You rank all experts together: + and - experts are pruned apart.": top(
            values, everyone, len(values) - int(down(rho * len(values)))
        ),
        "These are the experts that go: mark those that stay.": ~right,
        "You keep the smallest scores: the largest stay.": each(-values, down),
        "You rank by the absolute value: a negative score ranks below 0.": each(np.abs(values), down),
        "You keep a share of rho: that is the share that goes.": ~each(-values, down),
        "You round the number of pruned experts up: round it down.": each(values, lambda count: np.ceil(count - 1e-9)),
        "You return numbers of experts: return True or False for each.": np.flatnonzero(right),
        "You round the number of pruned experts to the nearest: round it down.": each(values, np.round),
        "You keep no - expert: keep the largest scores of that sign too.": right & groups[0],
        "You keep no + expert: keep the largest scores of that sign too.": right & groups[1],
        "You prune the + experts alone: prune among the - experts too.": right | groups[1],
        "You prune the - experts alone: prune among the + experts too.": right | groups[0],
    }
    return Case((values, signs, rho), right, about, mistakes)


def check_pruned_output(pruned_output: object) -> Verdict:
    """Checks `pruned_output(scores, values, signs, kept, top) -> float`: f(x) after pruning, by eq. 5.

    Tokens choose: scores[j, s] = <w_s, x_j>, values[j, s] = sum_r ReLU(<w_r, x_j>), signs[s] = a_s, kept[s] says
    whether expert s stays, and top is l.
    """
    generator = np.random.default_rng(23)

    def draw(n: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        scores, values = generator.normal(size=(n, k)), generator.uniform(0, 2, size=(n, k))
        return scores, values, np.tile([1.0, -1.0], k // 2)

    tiny = np.log([[2.0, 1.0], [1.0, 3.0]]), np.array([[3.0, 5.0], [1.0, 4.0]]), np.array([1.0, -1.0])
    cases = [
        _output_case("with both of 2 experts kept, l=2", *tiny, np.array([True, True]), 2),
        _output_case("for 3 tokens and 4 experts, one of them pruned, l=2", *draw(3, 4), np.arange(4) != 1, 2),
        _output_case("for 5 tokens and 4 experts, two of them pruned, l=1", *draw(5, 4), np.arange(4) % 2 == 0, 1),
        _output_case("for 6 tokens and 6 experts, two of them pruned, l=3", *draw(6, 6), np.arange(6) % 3 > 0, 3),
    ]
    praise = "Routers of pruned experts stay, so that nobody else's gate changes: a pruned expert's share is lost."
    formula = (
        "sum over j, and s among the l experts that token j chose, of kept_s a_s G_js v_js; G_js = exp(h_js) "
        "/ sum of exp(h_j) over those l"
    )
    return judge("pruned_output", pruned_output, cases, praise, formula)


def _output_case(
    about: str, scores: np.ndarray, values: np.ndarray, signs: np.ndarray, kept: np.ndarray, top: int
) -> Case:
    def softmax(mask: np.ndarray, axis: int = 1) -> np.ndarray:
        powers = np.exp(scores) * mask
        sums = powers.sum(axis, keepdims=True)
        return np.asarray(powers / np.where(sums > 0, sums, 1))

    def chosen(ranked: np.ndarray, count: int, axis: int = 1) -> np.ndarray:
        return np.argsort(np.argsort(-ranked, axis=axis), axis=axis) < count

    def total(gates: np.ndarray, weights: np.ndarray = signs) -> float:
        return float((gates * values * weights).sum())

    mine = chosen(scores, top)
    gates = softmax(mine)
    again = chosen(np.where(kept, scores, -1e9), min(top, int(kept.sum()))) & kept
    parts = gates * kept * values * signs  # of f, by token and expert
    right = total(gates * kept)
    by_experts = chosen(scores, min(top, len(scores)), axis=0)
    mistakes = {
        "You left the pruned experts in.": total(gates),
        "Tokens must not choose again: a token keeps the experts that it chose among all.": total(softmax(again)),
        "Your gates are a softmax over the experts that stay: eq. 5 has all l chosen ones in the denominator.": total(
            softmax(mine & kept)
        ),
        "Your gates are a softmax over all experts: eq. 5 has the l chosen ones in the denominator.": total(
            softmax(np.ones_like(mine)) * mine * kept
        ),
        "You let experts choose their tokens: here each token chooses its experts.": total(
            softmax(by_experts, 0) * by_experts * kept
        ),
        "You took the smallest scores: a token goes to the experts with the largest.": total(
            softmax(chosen(-scores, top)) * kept
        ),
        "You left out the experts' signs.": total(gates * kept, np.ones_like(signs)),
        "You left out the gates.": total((mine & kept).astype(float)),
        "You average over the tokens: f is a sum.": right / len(scores),
        "You return one number a token: add them up.": parts.sum(1),
        "You use the best expert of each token alone: it chose l of them.": total(gates * kept * chosen(scores, 1)),
        **one_only("token", parts[0].sum(), parts[-1].sum()),
    }
    return Case((scores, values, signs, kept, top), right, about, mistakes)


def check_importance_score(importance_score: object) -> Verdict:
    """Checks `importance_score(gates) -> (k,)`, of gates (tokens, k), 0 where a token does not go.

    An expert wins a token if its gate there is the largest. The score is the share of all tokens that it wins (top1 in
    the paper), times its mean gate on them (conf).
    """
    generator = np.random.default_rng(24)
    scores = generator.uniform(0.1, 1, size=(40, 5))
    several = np.where(np.argsort(np.argsort(-scores)) < 2, scores, 0)
    idle = several.copy()
    idle[:, 3] = np.minimum(idle[:, 3], 0.05)
    cases = [
        _score_case("for 4 tokens and 2 experts", [[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.7, 0.0]]),
        _score_case("for 40 tokens that have 2 of 5 experts each", several / several.sum(1, keepdims=True)),
        _score_case("where expert 4 wins no token", idle / idle.sum(1, keepdims=True)),
    ]
    praise = (
        "It counts who gets many tokens. Here all but one token of a sample tell nothing of the class: a bad guide."
    )
    idle_hint = "An expert that wins no token has 0/0 for a mean gate: its score is 0."
    formula = "score of s = (sum of its gates over the tokens that it wins) / (number of all tokens)"
    return judge("importance_score", importance_score, cases, praise, formula, not_finite=idle_hint)


def _score_case(about: str, gates: Any) -> Case:
    values = np.array(gates, dtype=float)
    tokens, k = values.shape
    first = (values.argmax(1)[:, None] == np.arange(k)) & (values > 0)
    wins, received = first.sum(0), (values > 0).sum(0)

    def mean(where: np.ndarray) -> np.ndarray:
        return np.asarray((values * where).sum(0) / np.maximum(where.sum(0), 1))

    right = wins / tokens * mean(first)
    mistakes = {
        "This is the share of tokens won alone: multiply by the mean gate on them.": wins / tokens,
        "This is the mean gate alone: multiply by the share of tokens won.": mean(first),
        "You count every token that the expert gets: only those that it wins.": values.sum(0) / tokens,
        "Your mean gate is over every token that the expert gets: only those that it wins.": wins
        / tokens
        * mean(values > 0),
        "Your share counts every token that the expert gets: only those that it wins.": received / tokens * mean(first),
        "Your mean gate is over all tokens: only those that the expert wins.": wins / tokens * (values * first).mean(0),
        "You forgot to divide by the number of tokens.": right * tokens,
        "Your axes are exchanged: gates is (tokens, experts).": (values * (values == values.max(0))).sum(1) / k,
        **one_only("token", *(values[i] * first[i] / tokens for i in (0, -1))),
    }
    return Case((values,), right, about, mistakes)
