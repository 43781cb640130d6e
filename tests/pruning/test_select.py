"""Which experts stay, and the smaller layer that they make: counts, ties, both routings, memory, wrong input."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from moe_lab.core.saliency import pruned_count
from moe_lab.pruning import TokenMoE, TokenTask, Weights
from moe_lab.pruning.measures import evaluate
from moe_lab.pruning.select import kept_experts, pruned, pruned_counts

EACH_ROUTING = pytest.mark.parametrize("routing", ["expert-choice", "token-choice"])


def signs_of(plus: int, minus: int) -> Tensor:
    return torch.cat((torch.ones(plus), -torch.ones(minus)))


# --- how many go ------------------------------------------------------------------------------------------------------


@given(st.integers(0, 999), st.integers(1, 120), st.integers(1, 120))
@example(290, 100, 50)
@example(570, 100, 7)
@settings(max_examples=300, deadline=None)
def test_rho_of_each_group_goes_rounded_down_and_one_stays(thousandths, plus, minus):
    """In exact fractions: .29 of 100 is 29, though 0.29 * 100 in floating point is a little less."""
    exact = [min(size - 1, math.floor(Fraction(thousandths, 1000) * size)) for size in (plus, minus)]
    assert list(pruned_counts(thousandths / 1000, (plus, minus))) == exact
    scores = torch.rand(3, plus + minus, generator=torch.Generator().manual_seed(thousandths))
    kept = kept_experts(scores, signs_of(plus, minus), thousandths / 1000)
    assert kept[:, :plus].sum(1).tolist() == [plus - exact[0]] * 3
    assert kept[:, plus:].sum(1).tolist() == [minus - exact[1]] * 3
    for trial in range(3):  # nobody who goes scores above one of the group who stays
        for group in (slice(0, plus), slice(plus, None)):
            mine, stays = scores[trial, group], kept[trial, group]
            assert stays.all() or mine[stays].min() >= mine[~stays].max()


@pytest.mark.parametrize("size", [1, 2, 10])
def test_one_stays_at_every_rho_below_one(size):
    for share in (0.999, 1 - 1e-12, 1 - 2**-53):
        assert pruned_counts(share, (size, size)) == (size - 1, size - 1)


def test_counts_may_be_given_for_each_group():
    scores = torch.tensor([[3.0, 1, 2, 9, 8, 7, 6]])
    kept = kept_experts(scores, signs_of(3, 4), (2, 1))
    assert kept.tolist() == [[True, False, False, True, True, True, False]]
    assert kept_experts(scores, signs_of(3, 4), (0, 0)).all()
    assert kept_experts(scores, signs_of(3, 4), 0).all()


def test_groups_do_not_compete():
    """All - experts score above all + experts, and as many of each stay."""
    kept = kept_experts(torch.tensor([[1.0, 2, 3, 4, 50, 60, 70, 80]]), signs_of(4, 4), 0.5)
    assert kept.tolist() == [[False, False, True, True, False, False, True, True]]


def test_among_equals_the_lower_number_stays():
    kept = kept_experts(torch.tensor([[1.0, 1, 1, 1, 2, 1, 2, 2]]), signs_of(4, 4), 0.5)
    assert kept.tolist() == [[True, True, False, False, True, False, True, False]]


def unchecked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function without the check of types that only tests have, and not all runs of them."""
    return getattr(function, "__wrapped__", function)


def test_no_score_ranks_last():
    nan = math.nan
    kept = kept_experts(torch.tensor([[nan, -5.0, 1, nan], [nan, nan, nan, nan]]), signs_of(2, 2), 0.5)
    assert kept.tolist() == [[False, True, True, False], [True, False, True, False]]


@pytest.mark.parametrize("kind", [float, np.float64, np.float32, np.float16, Decimal, lambda text: Fraction(text)])
@pytest.mark.parametrize(("text", "pruned"), [("0.7", 7), ("0.3", 3), ("0.1", 1), ("0.5", 5), ("0", 0)])
def test_a_share_of_ten_is_what_it_prints_in_any_type(kind, text, pruned):
    assert pruned_count(kind(text), 10) == pruned


def test_shares_are_refused_in_the_words_of_what_was_given():
    for called in ("share", "rho", "prune"):
        with pytest.raises(ValueError, match=rf"^{called} must be at least 0 and less than 1: got {called}=2$"):
            pruned_count(2, 10, called)


@pytest.mark.parametrize("share", [1, 1.0, -0.1, 1.5, math.nan, math.inf, True, "half", None])
def test_rho_is_a_share_below_one(share):
    sentence = r"^rho must be at least 0 and less than 1: got rho="
    with pytest.raises(ValueError, match=sentence + repr(share).replace(".", r"\.") + "$"):
        unchecked(pruned_counts)(share, (4, 4))


@pytest.mark.parametrize(
    "counts, sentence",
    [
        ((4, 0), r"^of the 4 experts that vote \+ at least 0 must be pruned and at least 1 kept: got pruned=4$"),
        ((0, 9), "^of the 3 experts that vote - at least 0 must be pruned and at least 1 kept: got pruned=9$"),
        ((-1, 0), r"^of the 4 experts that vote \+ .*: got pruned=-1$"),
    ],
)
def test_a_group_cannot_lose_more_than_it_has(counts, sentence):
    with pytest.raises(ValueError, match=sentence):
        kept_experts(torch.rand(1, 7), signs_of(4, 3), counts)


@pytest.mark.parametrize("counts", [(1,), (1, 1, 1), (0.5, 1), ("1", 1)])
def test_counts_are_two_whole_numbers(counts):
    with pytest.raises(
        ValueError, match=r"^prune must be rho or two whole numbers, of the \+ and of the - group: got "
    ):
        unchecked(kept_experts)(torch.rand(1, 7), signs_of(4, 3), counts)


# --- the smaller layer ------------------------------------------------------------------------------------------------

TASK = TokenTask(patterns=15, tokens=8)


def make(routing: str) -> TokenMoE:
    return TokenMoE(experts=8, neurons=5, routing=routing, top=3)


def whole(trials: int = 3, seed: int = 0, dtype: torch.dtype = torch.float64) -> Weights:
    draw = torch.Generator().manual_seed(seed)
    routers, neurons = torch.randn(trials, 8, 15, generator=draw), torch.randn(trials, 8, 15, 5, generator=draw)
    return Weights.unpruned(routers.to(dtype), neurons.to(dtype))


def some(plus: int, minus: int, trials: int = 3, seed: int = 1, sizes: tuple[int, int] = (4, 4)) -> Tensor:
    """(trials, k) other experts in every trial, so many of each sign."""
    draw = torch.Generator().manual_seed(seed)
    parts = [
        torch.rand(trials, size, generator=draw).argsort(1) < count
        for size, count in zip(sizes, (plus, minus), strict=True)
    ]
    return torch.cat(parts, dim=1)


@EACH_ROUTING
@pytest.mark.parametrize("counts", [(4, 4), (3, 1), (1, 2), (1, 1)])
def test_the_smaller_layer_votes_as_the_whole_one_with_the_others_silenced(routing, counts):
    """In both routings the experts that stay receive the same tokens with the same gates as before."""
    model, weights, kept = make(routing), whole(), some(*counts)
    samples = TASK.sample(60, trials=range(3), seed=0, dtype=torch.float64)
    smaller = pruned(weights, kept, routing)
    before, after = evaluate(weights, samples, model, TASK), evaluate(smaller, samples, model, TASK)
    for name in ("votes", "plus", "minus"):
        wanted = getattr(before, name)[kept].view(3, sum(counts), 60)
        torch.testing.assert_close(getattr(after, name), wanted, rtol=1e-12, atol=1e-13)
    masked = (before.votes * kept[..., None]).sum(1)
    torch.testing.assert_close(after.output, masked, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(smaller.sums, weights.sums[kept].view(3, sum(counts), 15))


@EACH_ROUTING
def test_who_is_who_after_pruning(routing):
    weights, kept = whole(), some(2, 3)
    smaller = pruned(weights, kept, routing)
    wanted = [torch.nonzero(row)[:, 0].tolist() for row in kept]
    assert smaller.numbers.tolist() == wanted
    assert smaller.signs.tolist() == [1, 1, -1, -1, -1]
    assert smaller.experts.tolist() == (wanted if routing == "token-choice" else [[0, 1, 2, 3, 4]] * 3)
    assert torch.equal(smaller.own_routers, weights.routers[kept].view(3, 5, 15))
    assert torch.equal(smaller.neurons, weights.neurons[kept].view(3, 5, 15, 5))


@EACH_ROUTING
def test_memory_really_shrinks(routing):
    """Pruned neurons, and where experts choose routers, are in no tensor's storage any more."""
    weights, kept = whole(), some(1, 2)
    smaller = pruned(weights, kept, routing)
    routers = 3 if routing == "expert-choice" else 8
    assert smaller.parameters == 3 * 15 * 5 + routers * 15 and weights.parameters == 8 * 15 * 5 + 8 * 15
    assert smaller.neurons.untyped_storage().nbytes() == 3 * 3 * 15 * 5 * 8
    assert smaller.routers.untyped_storage().nbytes() == 3 * routers * 15 * 8
    assert not torch.isin(smaller.neurons, weights.neurons[~kept]).any()


@EACH_ROUTING
def test_pruning_twice_is_pruning_once(routing):
    weights, first = whole(), some(3, 3)
    once = pruned(weights, first, routing)
    second = some(2, 1, seed=5, sizes=(3, 3))
    twice = pruned(once, second, routing)
    both = first.clone()
    both[first] = second.flatten()
    direct = pruned(weights, both, routing)
    for name in ("routers", "neurons", "experts", "numbers", "signs"):
        assert torch.equal(getattr(twice, name), getattr(direct, name)), name


@EACH_ROUTING
def test_keeping_everyone_changes_nothing(routing):
    weights = whole()
    same = pruned(weights, torch.ones(3, 8, dtype=torch.bool), routing)
    for name in ("routers", "neurons", "experts", "numbers", "signs"):
        assert torch.equal(getattr(same, name), getattr(weights, name)), name


WRONG: dict[str, tuple[Any, str]] = {
    "another shape": (torch.ones(3, 7, dtype=torch.bool), r"kept must state .*: got kept=\(3, 7\), experts=\(3, 8\)$"),
    "fewer trials": (torch.ones(2, 8, dtype=torch.bool), r"kept must state .*: got kept=\(2, 8\), experts=\(3, 8\)$"),
    "no + expert": (
        torch.tensor([[0, 0, 0, 0, 1, 1, 0, 0]] * 3, dtype=torch.bool),
        r"at least one expert of each sign must be kept, .*: got plus=\[0, 0, 0\], minus=\[2, 2, 2\]$",
    ),
    "no - expert": (
        torch.tensor([[1, 0, 0, 0, 0, 0, 0, 0]] * 3, dtype=torch.bool),
        r"at least one expert .*: got plus=\[1, 1, 1\], minus=\[0, 0, 0\]$",
    ),
    "other counts": (
        torch.tensor([[1, 1, 0, 0, 1, 1, 0, 0]] * 2 + [[1, 0, 0, 0, 1, 1, 1, 0]], dtype=torch.bool),
        r"the same number in every trial: got plus=\[2, 2, 1\], minus=\[2, 2, 3\]$",
    ),
}


@EACH_ROUTING
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_choice_of_experts_is_refused(name, routing):
    kept, sentence = WRONG[name]
    with pytest.raises(ValueError, match=sentence):
        pruned(whole(), kept, routing)


@pytest.mark.parametrize(
    "routers, neurons",
    [((2, 4, 5), (2, 4, 5)), ((2, 3, 5), (2, 3, 5, 1)), ((2, 4, 5), (2, 4, 6, 1)), ((1, 4, 5), (2, 4, 5, 1))],
)
def test_shapes_that_belong_to_no_layer(routers, neurons):
    rule = r"^routers must be \(trials, k, d\) and neurons \(trials, k, d, m\), with k even: got routers=.*neurons="
    with pytest.raises(ValueError, match=rule):
        unchecked(Weights.unpruned.__func__)(Weights, torch.zeros(routers), torch.zeros(neurons))
