"""Routing against a loop that anyone can check by hand, with many ties, and the gates against their equations."""

from __future__ import annotations

import doctest
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from moe_lab import routing
from moe_lab.routing import expert_choice, sorted_patches, switch, token_choice, top_mask


def naive_top(row: list[float], count: int) -> list[bool]:
    """The definition: sort by (score descending, index ascending), NaN last, keep the first `count`."""
    order = sorted(range(len(row)), key=lambda j: (math.isnan(row[j]), -row[j] if row[j] == row[j] else 0.0, j))
    return [j in order[:count] for j in range(len(row))]


def naive_mask(scores: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    rows = scores.reshape(len(scores), -1, scores.shape[-1])
    kept = [[naive_top(row, int(count[trial])) for row in rows[trial].tolist()] for trial in range(len(scores))]
    return torch.tensor(kept).view(scores.shape)


def test_examples_in_docstrings() -> None:
    results = doctest.testmod(routing)
    assert results.attempted >= 8 and results.failed == 0


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
        (0, r"count must be between 1 and the number of scores \(n\): got count=0, n=4"),
        (5, r"count must be between 1 and the number of scores \(n\): got count=5, n=4"),
        (torch.tensor([1, 5]), "got count=5, n=4"),
        (torch.tensor([0, 3]), "got count=0, n=4"),
        (torch.tensor([1, 2, 3]), r"one whole number, or one for each trial: got count=\(3,\), scores=\(2, 4\)"),
        (torch.tensor([1.0, 2.0]), "one whole number, or one for each trial"),
    ],
)
def test_wrong_counts_are_named(count: int | torch.Tensor, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        top_mask(torch.zeros(2, 4), count)


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


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_breaks_ties_as_the_cpu_does() -> None:
    scores = torch.randint(5, (6, 3, 40, 16), generator=torch.Generator().manual_seed(4)).float()
    count = torch.tensor([1, 3, 5, 8, 15, 16])
    assert torch.equal(top_mask(scores.cuda(), count.cuda()).cpu(), top_mask(scores, count))
    assert torch.equal(sorted_patches(scores.cuda()).cpu(), sorted_patches(scores))
