"""Load balancing against hand-computed values, autograd in float64, plain loops and simulation."""

from __future__ import annotations

import math

import pytest
import torch

from moe_lab.routers import balance
from moe_lab.specialization.measures import agreement


def drawn(*shape: int, seed: int = 5) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(*shape, generator=generator, dtype=torch.float64)


SCORES = drawn(2, 5, 30)


def one_hot(scores: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.one_hot(scores.argmax(1), scores.shape[1]).mT.to(scores.dtype)


def test_switch_loss_of_three_samples_by_hand() -> None:
    """Two of three samples go to expert 1: M sum f P = 2 (2/3 P1 + 1/3 P2)."""
    gates = torch.tensor([[[3 / 4, 2 / 3, 1 / 4], [1 / 4, 1 / 3, 3 / 4]]], dtype=torch.float64)
    load = balance.load_of(one_hot(gates))
    assert load.tolist() == [[pytest.approx(2 / 3), pytest.approx(1 / 3)]]
    first = (3 / 4 + 2 / 3 + 1 / 4) / 3
    value, by_mean = balance.switch_loss(load, gates.mean(2))
    assert value.item() == pytest.approx(2 * (2 / 3 * first + 1 / 3 * (1 - first)))
    assert by_mean.tolist() == [[pytest.approx(4 / 3), pytest.approx(2 / 3)]]


@pytest.mark.parametrize("experts", [2, 8])
def test_ends_of_the_losses(experts: int) -> None:
    """Equal loads: 1 and 0. Everything at one expert: M and M - 1 (Fedus et al., eq. 4; Shazeer et al., eq. 7)."""
    equal, one = torch.full((1, experts), 1 / experts), torch.eye(experts)[:1]
    for load, switch, importance in ((equal, 1, 0), (one, experts, experts - 1)):
        assert balance.switch_loss(load, load).value.item() == pytest.approx(switch)
        assert balance.importance_loss(load).value.item() == pytest.approx(importance, abs=1e-6)
        assert balance.squared_variation(load).item() == pytest.approx(importance, abs=1e-6)
        assert balance.maximal_violation(load).item() == pytest.approx(importance, abs=1e-6)
        assert balance.load_entropy(load).item() == pytest.approx(math.log(experts) if load is equal else 0, abs=1e-6)


def plain_switch(scores: torch.Tensor) -> torch.Tensor:
    """Fedus et al., eq. 4 to 6, for one trial (M, N)."""
    gates, (experts, samples) = scores.softmax(0), scores.shape
    best = scores.argmax(0).tolist()
    return experts * sum(best.count(m) / samples * gates[m].sum() / samples for m in range(experts))


def plain_importance(scores: torch.Tensor) -> torch.Tensor:
    """Shazeer et al., eq. 6 and 7, for one trial."""
    importance = scores.softmax(0).sum(1)
    return ((importance - importance.mean()) ** 2).mean() / importance.mean() ** 2


def plain_z(scores: torch.Tensor) -> torch.Tensor:
    """Zoph et al., eq. 5, for one trial."""
    return sum(torch.log(torch.exp(column).sum()) ** 2 for column in scores.T) / scores.shape[1]


@pytest.mark.parametrize("plain", [plain_switch, plain_importance, plain_z])
def test_losses_and_their_gradients_are_those_of_autograd(plain) -> None:
    leaf = SCORES.clone().requires_grad_()
    wanted = torch.stack([plain(trial) for trial in leaf])
    (slopes,) = torch.autograd.grad(wanted.sum(), leaf)
    gates = SCORES.softmax(1)
    if plain is plain_z:
        value, by_scores = balance.router_z_loss(SCORES)
    else:
        load, mean = balance.load_of(one_hot(SCORES)), gates.mean(2)
        value, by_mean = balance.switch_loss(load, mean) if plain is plain_switch else balance.importance_loss(mean)
        by_scores = balance.through_softmax(gates, by_mean[..., None]) / SCORES.shape[2]
    torch.testing.assert_close(value, wanted.detach(), rtol=1e-12, atol=0)
    torch.testing.assert_close(by_scores, slopes, rtol=1e-10, atol=1e-14)


def test_importance_of_sums_that_are_not_1_has_the_gradient_of_autograd() -> None:
    """Mean gates of top-k routing do not sum to 1."""
    leaf = drawn(3, 4).abs().requires_grad_()
    value, slopes = balance.importance_loss(leaf)
    torch.testing.assert_close(torch.autograd.grad(value.sum(), leaf)[0], slopes.detach(), rtol=1e-10, atol=1e-13)


def test_z_loss_is_finite_for_scores_whose_exponential_is_not() -> None:
    value, slopes = balance.router_z_loss(torch.tensor([[[800.0], [0.0]]]))
    assert value.item() == pytest.approx(640_000) and slopes.flatten().tolist() == [pytest.approx(1600), 0]


def test_a_bias_alone_balances_frozen_scores() -> None:
    """Algorithm 1 of Wang et al. on scores that prefer expert 1: counted by a loop, no gradient anywhere."""
    scores = SCORES.clone()
    scores[:, 0] += 4
    bias = scores.new_zeros(2, 5)
    assert balance.maximal_violation(balance.load_of(one_hot(scores))).min() > 2
    for _ in range(300):
        counts = one_hot(scores + bias[..., None]).sum(2)
        plain = [
            [b + 0.05 * ((c < 6) - (c > 6)) for b, c in zip(*pair, strict=True)]  # 30 samples for 5 experts
            for pair in zip(bias.tolist(), counts.tolist(), strict=True)
        ]
        bias = balance.updated_bias(bias, counts, 0.05)
        torch.testing.assert_close(bias, torch.tensor(plain, dtype=torch.float64), rtol=1e-12, atol=1e-12)
    assert balance.maximal_violation(balance.load_of(one_hot(scores + bias[..., None]))).max() < 0.5


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool])
def test_samples_are_counted_whole_in_any_type(dtype: torch.dtype) -> None:
    """300 samples of which 299 go to expert 0, and counts whose sum a narrow type would round."""
    chosen = torch.zeros(1, 2, 300)
    chosen[0, 0, :299], chosen[0, 1, 299:] = 1, 1
    load = balance.load_of(chosen.to(dtype))
    assert load.dtype == (torch.float32 if dtype == torch.bool else dtype)
    torch.testing.assert_close(load, torch.tensor([[299 / 300, 1 / 300]], dtype=load.dtype))
    if dtype == torch.bool:
        return
    received = torch.tensor([[128, 128, 129]]).to(dtype)
    bias = torch.zeros(1, 3, dtype=dtype)
    assert balance.updated_bias(bias, received, 0.5).tolist() == [[0.5, 0.5, -0.5]]
    dispatch = torch.tensor([[128.0, 3.0], [129.0, 5.0], [127.0, 7.0]])
    for measure in (balance.dispatch_entropy, balance.squared_variation, balance.maximal_violation, agreement):
        wanted = measure(dispatch.double())
        torch.testing.assert_close(measure(dispatch.to(dtype)).double(), wanted, rtol=1e-5, atol=1e-6)


def test_more_samples_than_a_float_counts_are_counted_whole() -> None:
    received = torch.tensor([[2**24, 2**24, 2**24 + 1]])
    assert balance.updated_bias(torch.zeros(1, 3), received, 0.5).tolist() == [[0.5, 0.5, -0.5]]
