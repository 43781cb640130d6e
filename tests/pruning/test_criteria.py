"""Each criterion by hand on small weights; what is counted, by a loop over tokens; what a criterion refuses."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from moe_lab.core.trials import stream
from moe_lab.drawing import theme
from moe_lab.pruning import TokenMoE, TokenSamples, TokenTask, Weights, criteria, figures, plots
from moe_lab.pruning.criteria import (
    CRITERIA,
    Statistics,
    UndefinedCriterionError,
    chance_of,
    routing_statistics,
    scores_of,
)
from moe_lab.pruning.select import pruned

EACH_ROUTING = pytest.mark.parametrize("routing", ["expert-choice", "token-choice"])


def layer(routers: list, neurons: list) -> Weights:
    """One trial: routers (k, d), neurons (k, d, m)."""
    return Weights.unpruned(torch.tensor([routers], dtype=torch.float64), torch.tensor([neurons], dtype=torch.float64))


# Two experts, three patterns, two neurons; the first router turns and does not grow, the second grows.
BEFORE = layer([[3, 4, 0], [0, 0, 1]], [[[3, 0], [4, 0], [0, 2]], [[0, 1], [1, 0], [0, 0]]])
AFTER = layer([[0, 0, 5], [0, 0, 3]], [[[6, 0], [8, 0], [0, 2]], [[0, 1], [0, 0], [0, 0]]])
NOTHING = torch.zeros(1, 2, dtype=torch.float64)
COUNTED = Statistics(
    received=torch.tensor([[0.4, 0.6]], dtype=torch.float64),
    top1=torch.tensor([[0.3, 0.2]], dtype=torch.float64),
    confidence=torch.tensor([[0.5, 0.9]], dtype=torch.float64),
    chance=torch.tensor([[0.7, 0.1]], dtype=torch.float64),
)
BY_HAND = {
    "router-norm-change": [0, 2],  # 5 - 5, 3 - 1
    "router-difference-norm": [math.sqrt(50), 2],  # (-3, -4, 5), (0, 0, 2)
    "router-magnitude": [5, 3],
    "neuron-magnitude": [(10 + 2) / 2, (0 + 1) / 2],  # neuron by neuron, then the mean
    "neuron-magnitude-change": [6 - (5 + 2) / 2, 0.5 - 1],
    "importance-score": [0.15, 0.18],
    "random": [0.7, 0.1],
    "token-count": [0.4, 0.6],
}


@pytest.mark.parametrize("name", CRITERIA)
def test_each_criterion_by_hand(name):
    assert scores_of(name, BEFORE, AFTER, COUNTED)[0].tolist() == pytest.approx(BY_HAND[name])
    assert torch.equal(scores_of(CRITERIA[name], BEFORE, AFTER, COUNTED), scores_of(name, BEFORE, AFTER, COUNTED))


def test_there_are_the_papers_criteria():
    assert list(CRITERIA)[:6] == [
        "router-norm-change",
        "random",
        "importance-score",
        "router-magnitude",
        "neuron-magnitude",
        "neuron-magnitude-change",
    ]
    assert set(BY_HAND) == set(CRITERIA)


def test_token_counts_cannot_rank_experts_that_receive_equally_many():
    """As where experts choose: each takes l tokens of every sample. A count that one expert alone has is no tie."""
    even = torch.tensor([[0.2, 0.8], [0.5, 0.5]], dtype=torch.float64)
    with pytest.raises(
        UndefinedCriterionError,
        match=r"^token counts are undefined .* each chooses l: .* in 1 of 2 trials$",
    ):
        criteria.token_count(BEFORE, AFTER, Statistics(even, even, even, even))
    assert torch.equal(criteria.token_count(BEFORE, AFTER, Statistics(*(even[:1],) * 4)), even[:1])


def test_a_router_that_turns_changes_its_difference_and_not_its_norm():
    """Delta_s has a sign, too: a router that shrinks scores below one that stands still."""
    turned = criteria.router_norm_change(BEFORE, AFTER, COUNTED)[0]
    assert turned[0] == 0 and criteria.router_difference_norm(BEFORE, AFTER, COUNTED)[0, 0] > 7
    shrunk = criteria.router_norm_change(AFTER, BEFORE, COUNTED)[0]
    assert shrunk.tolist() == [0, -2]
    assert criteria.router_difference_norm(AFTER, BEFORE, COUNTED)[0].tolist() == pytest.approx([math.sqrt(50), 2])


def test_any_function_can_be_a_criterion():
    def parity(before: Weights, after: Weights, statistics: Statistics) -> Tensor:
        return after.numbers % 2 + statistics.received

    assert scores_of(parity, BEFORE, AFTER, COUNTED)[0].tolist() == pytest.approx([0.4, 1.6])


def test_scores_of_a_layer_that_is_pruned_already():
    """Where tokens choose, routers of pruned experts are still there, and score nothing."""
    draw = torch.Generator().manual_seed(0)
    before, after = (
        Weights.unpruned(torch.randn(2, 6, 5, generator=draw), torch.randn(2, 6, 5, 3, generator=draw)) for _ in "ab"
    )
    kept = torch.tensor([[1, 0, 1, 0, 1, 1], [0, 1, 1, 1, 0, 1]], dtype=torch.bool)
    statistics = Statistics(*(torch.rand(2, 6, generator=draw) for _ in range(4)))
    for routing in ("expert-choice", "token-choice"):
        parts = pruned(before, kept, routing), pruned(after, kept, routing)
        for name in ("router-norm-change", "router-difference-norm", "router-magnitude", "neuron-magnitude-change"):
            wanted = scores_of(name, before, after, statistics)[kept].view(2, 4)
            torch.testing.assert_close(scores_of(name, *parts, statistics), wanted)


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["router-norm-change", "router-difference-norm"])
def test_without_a_moved_router_its_change_is_undefined(name):
    """As with l=1 (see also test_checkpoints); one moved router a trial is enough."""
    still = Weights(*(torch.cat((one, one)) for one in (AFTER.routers, AFTER.neurons)), *shared(2))
    moved = still.clone()
    with pytest.raises(
        UndefinedCriterionError,
        match=r"^the change of the routers is undefined .*: got routers that have not moved in 2 of 2 trials$",
    ):
        scores_of(name, still, moved, COUNTED)
    moved.routers[0, 1, 1] += 1
    with pytest.raises(
        UndefinedCriterionError,
        match=r"choose l >= 2 and eta_r > 0: got routers that have not moved in 1 of 2 trials$",
    ) as raised:
        scores_of(name, still, moved, COUNTED)
    assert "\n" not in str(raised.value) and isinstance(raised.value, ValueError)
    moved.routers[1, 0, 0] -= 1
    assert scores_of(name, still, moved, COUNTED).shape == (2, 2)


def shared(trials: int) -> tuple[Tensor, Tensor, Tensor]:
    """experts, numbers and signs of a whole layer of two experts."""
    numbers = torch.arange(2).expand(trials, 2)
    return numbers, numbers, torch.tensor([1.0, -1.0], dtype=torch.float64)


MISMATCHED = {
    "trials": Weights(BEFORE.routers.repeat(2, 1, 1), BEFORE.neurons.repeat(2, 1, 1, 1), *shared(2)),
    "patterns": layer([[3, 4], [0, 1]], [[[3, 0], [4, 0]], [[0, 1], [1, 0]]]),
    "neurons": layer([[3, 4, 0], [0, 0, 1]], [[[3], [4], [0]], [[0], [1], [0]]]),
    "experts": layer([[3, 4, 0]] * 4, [[[3, 0], [4, 0], [0, 2]]] * 4),
    "which experts": replace(BEFORE, numbers=BEFORE.numbers + 2),
}


@pytest.mark.parametrize("name", MISMATCHED)
@pytest.mark.parametrize("criterion", ["router-norm-change", "router-magnitude"])
def test_two_checkpoints_must_be_of_one_layer(name, criterion):
    with pytest.raises(
        ValueError, match=r"^the checkpoints before and after must be of one layer: .*: got before=.*after="
    ):
        scores_of(criterion, MISMATCHED[name], AFTER, COUNTED)


def test_an_unknown_criterion_is_named():
    with pytest.raises(
        ValueError, match=r"^a criterion must be one of router-norm-change, random, .*: got criterion='norm'$"
    ):
        scores_of("norm", BEFORE, AFTER, COUNTED)


# --- what is counted --------------------------------------------------------------------------------------------------


def counted_by_hand(weights: Weights, samples: TokenSamples, routing: str, top: int) -> tuple[np.ndarray, ...]:
    """(T, k) shares received, shares received as top-1, and mean gates of the latter, one token at a time."""
    trials, k, _ = weights.routers.shape
    received, top1, gates = (np.zeros((trials, k)) for _ in range(3))
    for trial in range(trials):
        router = weights.routers[trial].double().numpy()
        for tokens in samples.tokens[trial].tolist():
            given = [[0.0] * k for _ in tokens]  # gate of every expert for every token
            if routing == "expert-choice":
                for s in range(k):
                    best = sorted(range(len(tokens)), key=lambda j, s=s: (-router[s, tokens[j]], j))[:top]
                    total = sum(math.exp(router[s, tokens[j]]) for j in best)
                    for j in best:
                        given[j][s] = math.exp(router[s, tokens[j]]) / total
            else:
                for j, q in enumerate(tokens):
                    best = sorted(range(k), key=lambda s, q=q: (-router[s, q], s))[:top]
                    total = sum(math.exp(router[s, q]) for s in best)
                    for s in best:
                        given[j][s] = math.exp(router[s, q]) / total
            for row in given:
                received[trial] += [gate > 0 for gate in row]
                if any(row):
                    winner = row.index(max(row))
                    top1[trial, winner] += 1
                    gates[trial, winner] += row[winner]
    tokens = samples.tokens.shape[1] * samples.tokens.shape[2]
    return received / tokens, top1 / tokens, gates / np.maximum(top1, 1)


@EACH_ROUTING
@pytest.mark.parametrize("top, experts", [(1, 4), (2, 4), (3, 6), (4, 4)])
def test_statistics_are_counted_token_by_token(routing, top, experts):
    """Also where an expert is nobody's first choice: two routers are alike."""
    task = TokenTask(patterns=14, tokens=6)
    model = TokenMoE(experts=experts, routing=routing, top=top)
    draw = torch.Generator().manual_seed(top)
    routers = torch.randn(2, experts, 14, generator=draw, dtype=torch.float64)
    routers[0, 3] = routers[0, 1]  # ties go to the lower number
    weights = Weights.unpruned(routers, torch.zeros(2, experts, 14, 2, dtype=torch.float64))
    samples = task.sample(40, trials=[0, 1], seed=0, dtype=torch.float64)
    found = routing_statistics(weights, samples, model, task, chance_of(weights, [0, 1], 5))
    for name, wanted in zip(
        ("received", "top1", "confidence"), counted_by_hand(weights, samples, routing, top), strict=True
    ):
        np.testing.assert_allclose(getattr(found, name), wanted, rtol=1e-12, atol=1e-15, err_msg=name)
    if routing == "expert-choice":
        np.testing.assert_allclose(found.received, top / 6)
    else:
        np.testing.assert_allclose(found.received.sum(1), top)
        np.testing.assert_allclose(found.top1.sum(1), 1)
    chance = np.stack([stream(5, trial, "criterion/random").random(experts) for trial in (0, 1)])
    np.testing.assert_array_equal(found.chance, chance)


def test_an_expert_that_gets_nothing_has_no_confidence():
    task, model = TokenTask(patterns=4, tokens=3), TokenMoE(experts=4, routing="token-choice", top=1)
    routers = torch.zeros(1, 4, 4)
    routers[:, 2] = 1
    weights = Weights.unpruned(routers, torch.zeros(1, 4, 4, 1))
    found = routing_statistics(weights, task.sample(10, trials=[0], seed=0), model, task, chance_of(weights, [0], 0))
    assert found.received.tolist() == found.top1.tolist() == found.confidence.tolist() == [[0, 0, 1, 0]]


def test_statistics_of_many_samples_are_the_mean_of_each_ones():
    """These are so many tokens and experts that they are counted in two portions."""
    task, model = TokenTask(patterns=9, tokens=512), TokenMoE(experts=64, top=2)
    draw = torch.Generator().manual_seed(1)
    routers = torch.randn(1, 64, 9, generator=draw, dtype=torch.float64)
    weights = Weights.unpruned(routers, torch.zeros(1, 64, 9, 1, dtype=torch.float64))
    given: dict[str, Any] = {"trials": [0], "seed": 0}
    samples = task.sample(80, **given, dtype=torch.float64)
    chance = chance_of(weights, **given)
    whole = routing_statistics(weights, samples, model, task, chance)
    parts = [routing_statistics(weights, samples.only(i, i + 1), model, task, chance) for i in range(80)]
    for value in (lambda one: one.received, lambda one: one.top1, lambda one: one.top1 * one.confidence):
        torch.testing.assert_close(value(whole), torch.stack([value(part) for part in parts]).mean(0))


def test_a_criterion_of_ones_own_is_swept_and_drawn_in_a_colour_of_its_own():
    def twice_the_change(before, after, statistics):
        return 2 * CRITERIA["router-norm-change"](before, after, statistics)

    asked = {"rho": (0.5,), "trials": 2, "fine_tuning_steps": 0, "steps": 20, "experts": 8, "test_samples": 100}
    data = figures.criteria(criteria=["router-norm-change", twice_the_change], **asked)
    usual, own = (data["kept"].sel(criterion=name) for name in ("router-norm-change", "twice_the_change"))
    assert bool((usual == own).all())
    page = plots.picture(data)
    colours = {text.get_text().strip(): text.get_color() for axes in page.axes for text in axes.texts}
    assert colours["twice_the_change"] == theme.OWN[0].colour
    assert "criteria=('router-norm-change', twice_the_change)" in data.attrs["call"]


def _one_number(before, after, statistics):
    return after.own_routers.sum()


@pytest.mark.parametrize(
    "criterion, words",
    [(lambda *_: None, "must be a function with a name"), (_one_number, "a score for each expert of each trial")],
    ids=["nameless", "one number"],
)
def test_a_criterion_that_cannot_rank_is_refused(criterion, words):
    with pytest.raises(ValueError, match=words):
        figures.criteria(criteria=[criterion], rho=0.5, trials=1, steps=2, experts=8, test_samples=10)
