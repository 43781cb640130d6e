"""Routing choices against plain loops, numbers computed by hand, and autograd in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from moe_lab.core import routing
from moe_lab.core.graphs import as_on_accelerator
from moe_lab.routers import choices
from moe_lab.routers.choices import GATES, Gates

TOKENS, EXPERTS = 7, 4


def scores_of(seed: int, *shape: int, levels: int = 0) -> Tensor:
    """Random scores in float64; whole numbers, so that many are equal, where levels are given."""
    generator = torch.Generator().manual_seed(seed)
    if levels:
        return torch.randint(levels, shape, generator=generator).double()
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def naive_gates(row: list[float], count: int, gates: str) -> list[float]:
    """One row, in words of the equations."""
    chosen = sorted(range(len(row)), key=lambda i: (-row[i], i))[:count]
    weight = {i: 1 / (1 + math.exp(-row[i])) if "sigmoid" in gates else math.exp(row[i]) for i in range(len(row))}
    total = {
        "softmax": sum(weight[i] for i in chosen),
        "softmax-before": sum(weight.values()),
        "sigmoid": 1.0,
        "sigmoid-normalised": sum(weight[i] for i in chosen),
    }[gates]
    return [weight[i] / total if i in chosen else 0.0 for i in range(len(row))]


def naive_capacity(mask: Tensor, scores: Tensor, capacity: int, order: str) -> Tensor:
    """Places given out one after the other to the tokens of one sample."""
    tokens, experts = mask.shape
    lists = [sorted((e for e in range(experts) if mask[t, e]), key=lambda e: (-scores[t, e], e)) for t in range(tokens)]
    queue = list(range(tokens))
    if order == "priority":
        queue.sort(key=lambda t: (-max(scores[t, e] for e in lists[t]), t))
    kept, taken = torch.zeros_like(mask), [0] * experts
    for turn in range(experts):
        for token in queue:
            if turn < len(lists[token]) and taken[lists[token][turn]] < capacity:
                taken[lists[token][turn]] += 1
                kept[token, lists[token][turn]] = True
    return kept


@pytest.mark.parametrize("gates", GATES)
@pytest.mark.parametrize("levels", [0, 3])
def test_gates_equal_the_loop(gates: Gates, levels: int) -> None:
    scores = scores_of(1, 3, 5, EXPERTS, levels=levels)
    for count in range(1, EXPERTS + 1):
        mask, found = choices.top_gates(scores, count, gates)
        wanted = [[naive_gates(row, count, gates) for row in trial] for trial in scores.tolist()]
        torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64), rtol=1e-12, atol=1e-15)
        assert torch.equal(mask, found > 0)
        with as_on_accelerator():
            assert torch.equal(choices.top_gates(scores, count, gates)[1], found)


def test_gates_extend_those_of_the_library() -> None:
    scores = scores_of(2, 3, 5, EXPERTS)
    for found, wanted in (
        (choices.top_gates(scores, 1, "softmax-before"), routing.switch(scores)),
        (choices.top_gates(scores, 2, "softmax"), routing.token_choice(scores, 2)),
    ):
        assert torch.equal(found[0], wanted[0]) and torch.equal(found[1], wanted[1])
    every = choices.top_gates(scores, EXPERTS, "softmax-before")[1]
    torch.testing.assert_close(every, choices.top_gates(scores, EXPERTS)[1])  # with all experts the two are one


@pytest.mark.parametrize("gates", GATES)
def test_gradients_of_gates_are_those_of_the_equations(gates: Gates) -> None:
    """By central differences in float64; the choice itself has no gradient."""
    scores = scores_of(3, 2, EXPERTS).requires_grad_()
    assert torch.autograd.gradcheck(lambda h: choices.top_gates(h, 2, gates)[1], (scores,))
    (slope,) = torch.autograd.grad(choices.top_gates(scores, 1, gates)[1].square().sum(), scores)
    still = {"softmax": True, "sigmoid-normalised": True}.get(gates, False)
    assert bool((slope == 0).all()) == still  # the gate of a single choice is 1 where the sum is over the chosen


def test_normalised_sigmoids_of_very_negative_scores_are_finite() -> None:
    _, gates = choices.top_gates(torch.tensor([[-800.0, -801.0, -900.0]]), 2, "sigmoid-normalised")
    torch.testing.assert_close(gates, torch.tensor([[1 / (1 + math.exp(-1)), 1 / (1 + math.exp(1)), 0.0]]))


def test_noisy_scores_by_hand_and_their_gradient() -> None:
    h, spread, noise = (scores_of(seed, 6) for seed in (4, 5, 6))
    wanted = [a + c * math.log(1 + math.exp(b)) for a, b, c in torch.stack((h, spread, noise), 1).tolist()]
    assert choices.noisy_scores(h, spread, noise).tolist() == pytest.approx(wanted, rel=1e-12)
    of_router = (h.requires_grad_(), spread.requires_grad_())
    assert torch.autograd.gradcheck(lambda a, b: choices.noisy_scores(a, b, noise), of_router)


def test_noise_reaches_the_second_best_as_often_as_the_normal_law_says() -> None:
    """Scores 1 apart, standard deviation log 2 each: P(swap) = Phi(-1 / (sqrt 2 log 2)) = .154."""
    scores = torch.tensor([0.0, -1.0]).expand(40_000, 2)
    noise = torch.randn(40_000, 2, generator=torch.Generator().manual_seed(7))
    mask, _ = choices.top_gates(choices.noisy_scores(scores, torch.zeros_like(scores), noise), 1)
    swapped = 0.5 * math.erfc(1 / (math.sqrt(2) * math.log(2)) / math.sqrt(2))
    assert float(mask[:, 1].float().mean()) == pytest.approx(swapped, abs=4 * (swapped / 40_000) ** 0.5)


@pytest.mark.parametrize(
    ("tokens", "experts", "per_token", "factor", "wanted"),
    [
        (16, 8, 1, 1.0, 2),
        (16, 8, 1, 1.25, 3),
        (16, 8, 2, 1.0, 4),
        (16, 8, 8, 1.0, 16),
        (16, 8, 1, 0.1, 1),
        (16, 8, 1, 99.0, 16),
        (16, 8, 1, 1e-11, 1),
        (16, 8, 1, 1e300, 16),
        (10, 1, 1, np.float32(0.1), 1),
    ],
)
def test_capacity_by_hand(tokens: int, experts: int, per_token: int, factor: float, wanted: int) -> None:
    assert choices.capacity_of(tokens, experts, per_token, factor) == wanted


def test_capacity_is_not_raised_by_rounding() -> None:
    assert choices.capacity_of(10, 3, 3, 0.1) == 1 and choices.capacity_of(100, 7, 7, 0.07) == 7


@pytest.mark.parametrize("order", ["arrival", "priority"])
@pytest.mark.parametrize("levels", [0, 3])
def test_places_are_given_out_as_by_the_loop(order: Any, levels: int) -> None:
    scores = scores_of(8, 3, 6, TOKENS, EXPERTS, levels=levels)
    refused = 0
    for count in (1, 2, EXPERTS):
        mask, _ = choices.top_gates(scores, count)
        for capacity in (1, 2, 4, TOKENS):
            kept = choices.within_capacity(mask, scores, capacity, order)
            for trial, sample in np.ndindex(3, 6):
                wanted = naive_capacity(mask[trial, sample], scores[trial, sample], capacity, order)
                assert torch.equal(kept[trial, sample], wanted)
            assert int(kept.sum(-2).max()) <= capacity
            refused += int((mask & ~kept).sum())
        assert torch.equal(kept, mask)  # a place for every token
    assert refused > 100


@pytest.mark.parametrize("order", ["arrival", "priority"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_places_are_counted_whole_in_any_type(order: Any, dtype: torch.dtype) -> None:
    """300 tokens ask two experts: the first choices of 299 come before the second choice of token 0."""
    scores = torch.tensor([1.0, 0.0]).repeat(1, 300, 1).to(dtype)
    scores[0, 0] = torch.tensor([0.0, 1.0])
    mask, _ = choices.top_gates(scores, 2)
    kept = choices.within_capacity(mask, scores, 299, order)
    assert kept[0].int().T.tolist() == [[0] + [1] * 299, [1] * 299 + [0]]


@pytest.mark.parametrize("order", ["arrival", "priority"])
def test_scores_that_are_not_finite_are_served_like_the_lowest(order: Any) -> None:
    nan, inf = math.nan, math.inf
    scores = torch.tensor([[[nan, 1.0, nan], [-inf, -inf, 2.0], [3.0, nan, inf]]], dtype=torch.float64)
    mask = torch.tensor([[[True, True, False], [False, True, True], [True, False, True]]])
    lowest = scores.nan_to_num(nan=-1e3, posinf=1e3, neginf=-1e3)
    for capacity in (1, 2, 3):
        kept = choices.within_capacity(mask, scores, capacity, order)
        assert torch.equal(kept[0], naive_capacity(mask[0], lowest[0], capacity, order))


def test_soft_weights_take_the_limits_of_infinite_scores() -> None:
    dispatch, combine = choices.soft_weights(torch.tensor([[[math.inf, 1.0], [1.0, -math.inf]]]))
    assert dispatch[0].tolist() == [[1, 1], [0, 0]] and combine[0].tolist() == [[1, 0], [1, 0]]


def test_soft_weights_equal_the_loop_and_permute_with_the_tokens() -> None:
    scores = scores_of(9, 2, TOKENS, 6)
    dispatch, combine = choices.soft_weights(scores)
    for trial, i, j in np.ndindex(*scores.shape):
        raised = [[math.exp(value) for value in row] for row in scores[trial].tolist()]
        assert float(dispatch[trial, i, j]) == pytest.approx(raised[i][j] / sum(row[j] for row in raised))
        assert float(combine[trial, i, j]) == pytest.approx(raised[i][j] / sum(raised[i]))
    shuffled = torch.randperm(TOKENS, generator=torch.Generator().manual_seed(0))
    for part, moved in zip((dispatch, combine), choices.soft_weights(scores[:, shuffled]), strict=True):
        torch.testing.assert_close(moved, part[:, shuffled])


def test_hashing_is_fixed_balanced_and_the_same_for_equal_patches() -> None:
    patches, directions = scores_of(10, 50, 5), scores_of(11, 4, 5)
    buckets = choices.sign_hash(patches, directions)
    for patch, bucket in zip(patches.tolist(), buckets.tolist(), strict=True):
        signs = [sum(a * b for a, b in zip(patch, row, strict=True)) > 0 for row in directions.tolist()]
        assert bucket == sum(2**place for place, sign in enumerate(signs) if sign)
    assert torch.equal(choices.sign_hash(3 * patches, directions), buckets)
    for count in (1, 2, 3):
        table = choices.balanced_table(16, EXPERTS, count, np.random.default_rng(0))
        assert table.sum(1).tolist() == [count] * 16 and np.ptp(table.sum(0)) == 0
        found = choices.hash_choice(buckets, torch.from_numpy(table))
        assert torch.equal(found, torch.from_numpy(table[buckets.numpy()]))
    two = [choices.balanced_table(16, EXPERTS, 1, np.random.default_rng(seed)) for seed in (0, 1)]
    found = choices.hash_choice(torch.stack([buckets, buckets.flip(0)]), torch.from_numpy(np.stack(two)))
    assert torch.equal(found[1], torch.from_numpy(two[1][buckets.flip(0).numpy()]))  # each trial's own table
    both = choices.sign_hash(torch.stack([patches, patches]), torch.stack([directions, -directions]))
    assert torch.equal(both[0], buckets) and torch.equal(both[1], 15 - buckets)
    other = choices.balanced_table(16, EXPERTS, 1, np.random.default_rng(1))
    assert not np.array_equal(other, choices.balanced_table(16, EXPERTS, 1, np.random.default_rng(0)))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda s: choices.top_gates(s, 0), "count must be between 1 and the number of scores: got count=0, scores=4"),
        (lambda s: choices.top_gates(s, 1, "tanh"), "gates must be one of softmax, softmax-before"),
        (lambda s: choices.within_capacity(s > 0, s, 9), "capacity must be between 1 and the number of tokens: got"),
        (lambda s: choices.within_capacity(s > 0, s, 1, "last"), "order must be 'arrival' or 'priority': got"),
        (lambda s: choices.capacity_of(4, 2, 1, 0.0), "factor (c) must be finite and greater than 0: got factor=0.0"),
        (lambda s: choices.capacity_of(4, 0, 1, 1.0), "experts must be at least 1: got experts=0"),
        (lambda s: choices.balanced_table(4, 2, 3, np.random.default_rng(0)), "must be between 1 and experts"),
    ],
)  # fmt: skip
def test_refusals_are_one_sentence(call: Any, sentence: str) -> None:
    with pytest.raises(ValueError) as raised:
        call(scores_of(0, 1, TOKENS, EXPERTS))
    assert sentence in str(raised.value)
