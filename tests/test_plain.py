"""`moe_lab.plain` against autograd, and the library's step against it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some

from moe_lab import plain
from moe_lab.patch_routing.joint import JointRules, by_expert, joint_step

DRAWN = {"seed": some.integers(0, 2**31), "experts": some.integers(1, 5), "each": some.integers(1, 4)}
DRAWN |= {"n": some.integers(1, 9), "dimension": some.integers(2, 8), "batch": some.integers(1, 6)}


def drawn(seed: int, experts: int, each: int, n: int, dimension: int, batch: int) -> tuple[plain.Mixture, torch.Tensor]:
    """Returns a mixture in float64 with routers that differ, and a batch of patches."""
    random = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, dtype=torch.float64, generator=random)

    kept = seed % n + 1
    weights = normal(experts, dimension), normal(experts, each, dimension), normal(experts, each)
    return plain.Mixture(*weights, kept), normal(batch, n, dimension)


@given(**DRAWN)
@settings(max_examples=40, deadline=None)
def test_the_gradient_is_that_of_autograd(**sizes: int) -> None:
    mixture, x = drawn(**sizes)
    y = 1.0 - 2 * (torch.arange(len(x)) % 2).double()
    weights = mixture.routers.requires_grad_(), mixture.hidden.requires_grad_()
    loss = torch.nn.functional.softplus(-y * plain.forward(mixture, x).f).mean()
    expected = torch.autograd.grad(loss, weights)
    torch.testing.assert_close(plain.gradient(mixture, x, y), expected, rtol=1e-9, atol=1e-12)


@given(**DRAWN)
@settings(max_examples=40, deadline=None)
def test_the_library_takes_the_same_step(**sizes: int) -> None:
    mixture, x = drawn(**sizes)
    k, labels = len(mixture.outputs), torch.arange(len(x)) % 2
    weights = torch.cat((mixture.hidden.flatten(0, 1), mixture.routers))[None]
    outputs = mixture.outputs.reshape(1, -1, 1) / mixture.patches_per_expert
    rate = torch.full((1, 1, 1), 0.7, dtype=x.dtype)
    rules = JointRules(by_expert(outputs, [k]), torch.tensor([mixture.patches_per_expert]), rate)
    moved, _ = joint_step(weights, x[None], labels[None], rules)
    plain.step(mixture, x, 1.0 - 2 * labels.double(), learning_rate=0.7)
    expected = torch.cat((mixture.hidden.flatten(0, 1), mixture.routers))
    torch.testing.assert_close(moved[0], expected, rtol=1e-9, atol=1e-12)


def test_it_finds_the_patterns(capsys: pytest.CaptureFixture[str]) -> None:
    plain.main()
    said = capsys.readouterr().out
    assert "step 60: right in 100 %" in said and said.count("router") == 4
