"""Routing against a loop that anyone can check by hand, with many ties, and the gates against their equations."""

from __future__ import annotations

import math
from contextlib import nullcontext

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from moe_lab.core.counted_routing import copies_chosen, expert_choice_of_counts
from moe_lab.core.graphs import as_on_accelerator
from moe_lab.core.routing import (
    expert_choice,
    sorted_patches,
    switch,
    token_choice,
    top_mask,
)
from moe_lab.routers.choices import top_gates


def naive_top(row: list[float], count: int) -> list[bool]:
    """The definition: sort by (score descending, index ascending), NaN last, keep the first `count`."""
    order = sorted(range(len(row)), key=lambda j: (math.isnan(row[j]), -row[j] if row[j] == row[j] else 0.0, j))
    return [j in order[:count] for j in range(len(row))]


def naive_mask(scores: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    rows = scores.reshape(len(scores), -1, scores.shape[-1])
    kept = [[naive_top(row, int(count[trial])) for row in rows[trial].tolist()] for trial in range(len(scores))]
    return torch.tensor(kept).view(scores.shape)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bfloat16])
@pytest.mark.parametrize("levels", [1, 2, 3, 5, 1000])
def test_equals_the_loop_with_many_ties(levels: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(levels)
    scores = torch.randint(levels, (16, 2, 5, 16), generator=generator).to(dtype)
    count = torch.arange(1, 17)
    assert torch.equal(top_mask(scores, count), naive_mask(scores.double(), count))


@given(
    st.lists(
        st.one_of(st.sampled_from([0.0, -0.0, 1.0, math.inf, -math.inf]), st.floats(width=32, allow_nan=False)),
        min_size=1,
        max_size=20,
    ),
    st.data(),
)
@settings(max_examples=200, deadline=None)
def test_equals_the_loop_for_any_values(row: list[float], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(row)))
    scores = torch.tensor([row], dtype=torch.float32)
    assert top_mask(scores, count).tolist() == [naive_top(scores[0].tolist(), count)]


def test_count_differs_per_trial() -> None:
    scores = torch.tensor([5.0, 1.0, 4.0, 4.0]).expand(3, 2, 4)
    mask = top_mask(scores, torch.tensor([1, 2, 4]))
    assert mask[0].tolist() == [[True, False, False, False]] * 2
    assert mask[1].tolist() == [[True, False, True, False]] * 2  # the tie goes to index 2, not 3
    assert mask[2].all()


def test_a_trial_routes_the_same_alone_and_among_others() -> None:
    scores = torch.randint(3, (6, 4, 7, 9), generator=torch.Generator().manual_seed(0)).double()
    count = torch.tensor([1, 2, 3, 4, 5, 9])
    together = top_mask(scores, count)
    for trial in range(6):
        assert torch.equal(together[trial : trial + 1], top_mask(scores[trial : trial + 1], int(count[trial])))


def test_nan_ranks_last_and_keeps_the_count() -> None:
    nan = math.nan
    mask = top_mask(torch.tensor([[nan, 1.0, nan, 2.0], [nan, nan, nan, nan], [nan, -math.inf, 3.0, nan]]), 3)
    assert mask.tolist() == [
        [True, True, False, True],
        [True, True, True, False],
        [True, True, True, False],  # -inf and NaN both rank last: lowest index first
    ]


def test_rows_may_be_strided_or_absent() -> None:
    scores = torch.randn(8, 5, 3, generator=torch.Generator().manual_seed(1)).transpose(1, 2)
    assert torch.equal(top_mask(scores, 2), top_mask(scores.contiguous(), 2))
    assert top_mask(torch.empty(0, 3, 4), torch.empty(0, dtype=torch.long)).shape == (0, 3, 4)
    assert top_mask(torch.empty(2, 0, 4), torch.tensor([1, 2])).shape == (2, 0, 4)


def test_the_mask_is_no_part_of_the_gradient() -> None:
    scores = torch.randn(2, 3, requires_grad=True)
    assert not top_mask(scores, 2).requires_grad
    assert not sorted_patches(scores).requires_grad


@pytest.mark.parametrize(
    ("count", "sentence"),
    [
        (0, "^count must be between 1 and the number of scores: got count=0, scores=4$"),
        (5, "^count must be between 1 and the number of scores: got count=5, scores=4$"),
        (torch.tensor([1, 5]), "got count=5, scores=4"),
        (torch.tensor([0, 3]), "got count=0, scores=4"),
        (torch.tensor([1, 2, 3]), r"one whole number, or one per trial: got count=\(3,\), scores=\(2, 4\)"),
        (torch.tensor([1.0, 2.0]), "one whole number, or one per trial"),
    ],
)
def test_wrong_counts_are_named(count: int | torch.Tensor, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        top_mask(torch.zeros(2, 4), count)


def test_counts_are_refused_in_the_words_of_what_was_called() -> None:
    scores = torch.zeros(1, 1, 3, 4)
    with pytest.raises(ValueError, match=r"^patches_per_expert must be .*: got patches_per_expert=5, patches=4$"):
        expert_choice(scores, 5)
    with pytest.raises(ValueError, match=r"^experts_per_token must be .*: got experts_per_token=0, experts=4$"):
        token_choice(scores, 0)


# --- scores that are not finite ---------------------------------------------------------------------------------------

NAN, INF = math.nan, math.inf
ROWS = (
    [1.0, NAN, 3.0, 2.0],
    [NAN, NAN, 1.0, NAN],
    [NAN] * 4,
    [INF, 1.0, 2.0, 3.0],
    [INF, INF, 1.0, NAN],
    [-INF, 1.0, -INF, -INF],
    [-INF] * 4,
    [3.0, 1.0, 2.0, 0.0],
)


def limits(row: list[float], chosen: list[int], among: list[int]) -> list[float]:
    """Gates of one row: the limits of exp(h_i) / sum of exp(h_j) over `among`, NaN where the sum has no limit."""
    top = max((row[j] for j in among if not math.isnan(row[j])), default=NAN)
    weight = {j: 1.0 if row[j] == top else NAN if math.isnan(row[j]) else math.exp(row[j] - top) for j in among}
    total = sum(weight.values())
    return [weight[j] / total if j in chosen else 0.0 for j in range(len(row))]


CHOICES = {
    "expert choice": (lambda scores: expert_choice(scores, 2), 2, False),
    "token choice": (lambda scores: token_choice(scores, 2), 2, False),
    "switch": (switch, 1, True),
    "softmax": (lambda scores: top_gates(scores, 2), 2, False),
    "softmax-before": (lambda scores: top_gates(scores, 2, "softmax-before"), 2, True),
    "sigmoid-normalised": (lambda scores: top_gates(scores, 2, "sigmoid-normalised"), 2, None),
    "sigmoid": (lambda scores: top_gates(scores, 2, "sigmoid"), 2, None),
}
"""What routes, how many it chooses, and whether a gate's sum is over all scores (None: over no exponentials)."""


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_scores_that_are_not_finite_have_one_answer(name: str, row: list[float], dtype: torch.dtype) -> None:
    """With a graph, without, and on a device; beside rows that are finite, whose gates they do not change."""
    route, count, before = CHOICES[name]
    scores = torch.tensor([row, [0.5, 2.0, 1.0, 0.0]], dtype=dtype).view(1, 2, 1, 4)
    mask, gates = route(scores)
    with as_on_accelerator():
        found = route(scores)[1], route(scores.clone().requires_grad_())[1].detach()
    exact = {"rtol": 0.0, "atol": 0.0, "equal_nan": True}
    torch.testing.assert_close(found[0], gates, **exact)
    torch.testing.assert_close(found[1], gates, equal_nan=True)  # by another sum
    torch.testing.assert_close(gates[:, 1], route(scores[:, 1:])[1][:, 0], **exact)
    assert (gates[~mask] == 0).all()
    chosen = [j for j in range(4) if naive_top(row, count)[j]]
    assert mask[0, 0, 0].nonzero()[:, 0].tolist() == chosen
    if before is not None:
        wanted = limits(row, chosen, list(range(4)) if before else chosen)
        of_type = {} if dtype != torch.bfloat16 else {"rtol": 0.01, "atol": 0.01}
        torch.testing.assert_close(gates[0, 0, 0], torch.tensor(wanted, dtype=dtype), equal_nan=True, **of_type)
    elif not any(math.isnan(row[j]) for j in chosen):
        assert gates.isfinite().all()


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize("device", [False, True])
def test_counts_with_scores_that_are_not_finite_are_routed_as_their_tokens_are(row: list[float], device: bool) -> None:
    scores = torch.tensor([[row, [0.5, 2.0, 1.0, 0.0]]], dtype=torch.float64)
    counts = torch.tensor([[[1.0, 0.0], [1.0, 2.0], [1.0, 1.0], [1.0, 1.0]]], dtype=torch.float64)
    with as_on_accelerator() if device else nullcontext():
        order, gates = expert_choice_of_counts(scores, counts, 2, 2)
    torch.testing.assert_close(spread(order, gates, 4), by_tokens(scores, counts, 2), equal_nan=True)


# --- narrow types -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "copies"), [(torch.bfloat16, 150), (torch.float16, 1050), (torch.float32, 2**23)])
def test_copies_are_counted_whole_in_any_type(dtype: torch.dtype, copies: int) -> None:
    """Two patterns have so many copies and two more; together they are more than the type has whole numbers."""
    counts = torch.tensor([[[copies], [copies + 2]]]).to(dtype)
    _, gates = expert_choice_of_counts(torch.zeros(1, 1, 2), counts, 2 * copies + 1, 2)
    assert gates[0, 0, 1, 0].double() == pytest.approx((copies + 1) / (2 * copies + 1), rel=1e-7)


def test_expert_choice_by_hand() -> None:
    scores = torch.tensor([1.0, 2.0, 4.0, 3.0]).log().view(1, 1, 1, 4)
    mask, gates = expert_choice(scores, 2)
    assert mask.flatten().tolist() == [False, False, True, True]
    torch.testing.assert_close(gates.flatten(), torch.tensor([0.0, 0.0, 4 / 7, 3 / 7]))


def test_expert_choice_gates_sum_to_one_over_each_experts_patches() -> None:
    scores = torch.randn(3, 4, 5, 8, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    count = torch.tensor([1, 4, 8])
    mask, gates = expert_choice(scores, count)
    assert mask.sum(-1).unique(dim=1).flatten().unique().tolist() == [1, 4, 8]
    torch.testing.assert_close(gates.sum(-1), torch.ones(3, 4, 5, dtype=torch.float64))
    assert (gates[~mask] == 0).all() and (gates[mask] > 0).all()
    torch.testing.assert_close(gates[2], scores[2].softmax(-1))
    kept = torch.where(mask, scores.exp(), 0.0)  # eq. 4 with its exponential restored
    torch.testing.assert_close(gates, kept / kept.sum(-1, keepdim=True))


def test_one_kept_patch_gives_its_router_no_gradient() -> None:
    """With l=1 the softmax of one value is 1 whatever the value: joint training cannot move such a router."""
    scores = torch.randn(1, 2, 3, 6, dtype=torch.float64, requires_grad=True)
    _, gates = expert_choice(scores, 1)
    (gates * torch.randn(6, dtype=torch.float64)).sum().backward()
    assert scores.grad is not None and scores.grad.abs().max() == 0


def test_gates_pass_gradients_to_kept_patches_only() -> None:
    scores = torch.randn(2, 2, 3, 6, dtype=torch.float64, requires_grad=True)
    mask, gates = expert_choice(scores, torch.tensor([2, 3]))
    weights = torch.randn(gates.shape, dtype=torch.float64)
    (gates * weights).sum().backward()
    grad = scores.grad
    assert grad is not None and grad[~mask].abs().max() == 0
    expected = gates * (weights - (gates * weights).sum(-1, keepdim=True))  # the softmax's own Jacobian
    torch.testing.assert_close(grad, expected.detach())


def test_token_choice_by_hand() -> None:
    scores = torch.tensor([[0.0, 2.0, 2.0], [3.0, 1.0, 0.0]])
    mask, gates = token_choice(scores, 2)
    assert mask.tolist() == [[False, True, True], [True, True, False]]
    first = math.exp(3) / (math.exp(3) + math.exp(1))
    torch.testing.assert_close(gates, torch.tensor([[0.0, 0.5, 0.5], [first, 1 - first, 0.0]]))


def test_token_choice_may_leave_an_expert_without_tokens_and_expert_choice_may_not() -> None:
    scores = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.5]])  # every token prefers expert 0
    mask, _ = token_choice(scores, 1)
    assert mask.sum(0).tolist() == [3, 0]
    mask, _ = expert_choice(scores.T.view(1, 2, 1, 3), 1)
    assert mask.sum(-1).flatten().tolist() == [1, 1]


def test_switch_gate_is_the_softmax_over_all_experts() -> None:
    scores = torch.tensor([[0.0, 1.0, 3.0]], dtype=torch.float64)
    mask, gates = switch(scores)
    assert mask.tolist() == [[False, False, True]]
    total = 1 + math.e + math.e**3
    torch.testing.assert_close(gates, torch.tensor([[0.0, 0.0, math.e**3 / total]], dtype=torch.float64))


def test_switch_noise_chooses_the_expert_but_not_its_gate() -> None:
    scores = torch.tensor([[0.0, 0.5], [0.0, 0.5]], dtype=torch.float64)
    mask, gates = switch(scores, noise=torch.tensor([[1.0, 0.0], [0.0, 0.0]], dtype=torch.float64))
    assert mask.tolist() == [[True, False], [False, True]]
    torch.testing.assert_close(gates.sum(-1), scores.softmax(-1)[[0, 1], [0, 1]])


def test_switch_ties_go_to_the_lowest_expert_and_gates_pass_gradients_to_all() -> None:
    scores = torch.zeros(4, 5, dtype=torch.float64, requires_grad=True)
    mask, gates = switch(scores)
    assert mask.int().argmax(-1).tolist() == [0, 0, 0, 0]
    gates.sum().backward()
    expected = torch.full((4, 5), -0.04, dtype=torch.float64)
    expected[:, 0] = 0.16  # pi (1 - pi) for the chosen, -pi_m pi for the others
    torch.testing.assert_close(scores.grad, expected)


def test_sorted_patches_lists_every_top_l_at_once() -> None:
    scores = torch.randint(4, (3, 2, 5, 12), generator=torch.Generator().manual_seed(3)).float()
    order = sorted_patches(scores)
    for count in range(1, 13):
        picked = torch.zeros(scores.shape, dtype=torch.bool).scatter(-1, order[..., :count], True)
        assert torch.equal(picked, top_mask(scores, count))
    assert sorted_patches(torch.tensor([math.nan, 1.0, 1.0, 2.0])).tolist() == [3, 1, 2, 0]


# --- samples that are told by counts --------------------------------------------------------------------------------


def spread(order: torch.Tensor, gates: torch.Tensor, patterns: int) -> torch.Tensor:
    """(T, k, d, N) gates by pattern; every pattern is listed once at most."""
    full = gates.new_zeros(*gates.shape[:2], patterns, gates.shape[3])
    return full.scatter_add(2, order[..., None].expand_as(gates), gates)


def by_tokens(scores: torch.Tensor, counts: torch.Tensor, top: int) -> torch.Tensor:
    """(T, k, d, N) the same through `expert_choice` on every copy, copies in the order of their patterns' numbers."""
    trials, experts, patterns = scores.shape
    found = scores.new_zeros(trials, experts, patterns, counts.shape[2])
    for trial in range(trials):
        for sample in range(counts.shape[2]):
            tokens = torch.arange(patterns).repeat_interleave(counts[trial, :, sample].long())
            _, gates = expert_choice(scores[trial, None, :, None, tokens], top)
            found[trial, :, :, sample].index_add_(1, tokens, gates[0, :, 0])
    return found


@st.composite
def counted(draw: st.DrawFn) -> tuple[int, int, int, int, int, int, int]:
    """Patterns, tokens, l, width, levels of score, seed, times: how far apart scores are."""
    patterns, tokens = draw(st.integers(1, 12)), draw(st.integers(1, 20))
    top, width = draw(st.integers(1, tokens)), draw(st.integers(1, 12))
    levels, times = draw(st.sampled_from([1, 3, 1000])), draw(st.sampled_from([1, 40, 10**6]))
    return patterns, tokens, top, width, levels, draw(st.integers(0, 10**6)), times


def by_pattern(patterns: torch.Tensor, gates: torch.Tensor, kinds: int) -> torch.Tensor:
    """Sums the gates of copies (T, k, N, l) by pattern, (T, k, d, N)."""
    trials, experts, samples, _ = gates.shape
    return gates.new_zeros(trials, experts, kinds, samples).scatter_add_(2, patterns.movedim(3, 2), gates.movedim(3, 2))


def draw_counts(patterns: int, tokens: int, seed: int, dtype: torch.dtype) -> torch.Tensor:
    numbers = torch.randint(patterns, (2, 4, tokens), generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.one_hot(numbers, patterns).sum(2).mT.to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(counted())
@settings(max_examples=100, deadline=None)
def test_counts_are_routed_as_their_tokens_are(dtype: torch.dtype, drawn: tuple[int, ...]) -> None:
    """With ties between patterns, with exponentials that vanish, and with widths that must grow."""
    patterns, tokens, top, width, levels, seed, times = drawn
    generator = torch.Generator().manual_seed(seed)
    scores = times * (torch.randint(levels, (2, 3, patterns), generator=generator).to(dtype) / levels - 0.5)
    counts = draw_counts(patterns, tokens, seed, dtype)
    order, gates = expert_choice_of_counts(scores, counts, top, width)
    assert order.shape[2] == gates.shape[2] and min(width, patterns) <= order.shape[2] <= patterns
    assert torch.equal(order, sorted_patches(scores)[..., : order.shape[2]])
    wanted = by_tokens(scores.double(), counts, top)
    for found in (spread(order, gates, patterns), by_pattern(*copies_chosen(scores, counts, top), patterns)):
        torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-6 if dtype == torch.float32 else 1e-12)
    torch.testing.assert_close(gates.sum(2), torch.ones_like(gates[:, :, 0]))


def test_a_tie_between_patterns_goes_to_the_lower_number() -> None:
    """One place is left, and three patterns want it; -0 and 0 are equal."""
    scores = torch.tensor([[[0.0, 5.0, -0.0, 0.0]]])
    counts = torch.tensor([[[0.0, 1.0], [1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]])
    for width in (1, 2, 4):
        for dtype in (torch.float32, torch.float64):
            order, gates = expert_choice_of_counts(scores.to(dtype), counts.to(dtype), 2, width)
            kept = spread(order, gates, 4)[0, 0] > 0
            copies = copies_chosen(scores.to(dtype), counts.to(dtype), 2)
            assert torch.equal(by_pattern(*copies, 4)[0, 0] > 0, kept)
            assert kept.T.tolist() == [[False, True, True, False], [True, True, False, False]]


def test_gates_far_below_the_favourite_are_those_of_the_sample() -> None:
    """The favourite of a router is absent from the second sample: its exponential must not swamp what is there."""
    scores = torch.tensor([[[500.0, 1.0, 0.0, -1.0]]])
    counts = torch.tensor([[[1.0, 0.0], [1.0, 1.0], [1.0, 2.0], [0.0, 0.0]]])
    order, gates = expert_choice_of_counts(scores, counts, 3, 2)
    total = math.e + 2
    wanted = torch.tensor([[1.0, 0.0], [0.0, math.e / total], [0.0, 2 / total], [0.0, 0.0]])
    torch.testing.assert_close(spread(order, gates, 4)[0, 0], wanted)
    torch.testing.assert_close(by_pattern(*copies_chosen(scores, counts, 3), 4)[0, 0], wanted)


def test_negative_scores_and_every_magnitude_are_sorted_in_float32() -> None:
    """The vector sort looks at the bits of a float32."""
    values = [math.inf, 3e38, 1e-3, 1e-45, 0.0, -0.0, -1e-45, -1e-3, -3e38, -math.inf, math.nan]
    generator = torch.Generator().manual_seed(5)
    for _ in range(20):
        scores = torch.tensor(values)[torch.randperm(11, generator=generator)].view(1, 1, 11)
        order, _ = expert_choice_of_counts(scores, torch.ones(1, 11, 1), 11, 11)
        assert torch.equal(order, sorted_patches(scores))


def test_a_width_looks_no_further_than_it_must() -> None:
    scores = torch.arange(20.0, 0, -1).view(1, 1, 20)
    counts = torch.ones(1, 20, 1)
    assert [expert_choice_of_counts(scores, counts, 3, width)[0].shape[2] for width in (1, 2, 3, 5, 50)] == [
        4,
        4,
        3,
        5,
        20,
    ]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_routes_counts_as_the_cpu_does() -> None:
    scores = 30 * torch.randint(9, (3, 4, 12), generator=torch.Generator().manual_seed(6)).float()
    counts = draw_counts(12, 10, 7, torch.float32)[[0, 1, 0]]
    found = by_pattern(*copies_chosen(scores.cuda(), counts.cuda(), 4), 12)
    torch.testing.assert_close(found.cpu(), spread(*expert_choice_of_counts(scores, counts, 4, 5), 12))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_breaks_ties_as_the_cpu_does() -> None:
    scores = torch.randint(5, (6, 3, 40, 16), generator=torch.Generator().manual_seed(4)).float()
    count = torch.tensor([1, 3, 5, 8, 15, 16])
    assert torch.equal(top_mask(scores.cuda(), count.cuda()).cpu(), top_mask(scores, count))
    assert torch.equal(sorted_patches(scores.cuda()).cpu(), sorted_patches(scores))
