"""The optimizers against those of torch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest
import torch
from torch import Tensor

from moe_lab.core.graphs import as_on_accelerator
from moe_lab.core.optimizers import Adam, Optimizer, Sgd, clipped

OURS: dict[str, Callable[[list[Tensor]], Optimizer]] = {
    "sgd": lambda weights: Sgd(weights, 0.1),
    "momentum": lambda weights: Sgd(weights, 0.1, momentum=0.9, weight_decay=0.02),
    "adam": lambda weights: Adam(weights, 0.1, weight_decay=0.02),
    "adamw": lambda weights: Adam(weights, 0.1, weight_decay=0.02, decoupled=True),
}
TORCH: dict[str, Callable[[list[Tensor]], torch.optim.Optimizer]] = {
    "sgd": lambda weights: torch.optim.SGD(weights, 0.1),
    "momentum": lambda weights: torch.optim.SGD(weights, 0.1, momentum=0.9, weight_decay=0.02),
    "adam": lambda weights: torch.optim.Adam(weights, 0.1, weight_decay=0.02),
    "adamw": lambda weights: torch.optim.AdamW(weights, 0.1, weight_decay=0.02),
}


@pytest.mark.parametrize("form", [nullcontext, as_on_accelerator])
@pytest.mark.parametrize("name", OURS)
def test_steps_are_those_of_torch(name: str, form: Callable[[], AbstractContextManager[None]]) -> None:
    """Eight steps with a changing rate, some of them without a gradient for one of the parameters."""
    random = torch.Generator().manual_seed(0)
    start = [torch.randn(shape, generator=random, dtype=torch.float64) for shape in ((3, 2), (4,), ())]
    ours, theirs = [one.clone() for one in start], [one.clone().requires_grad_() for one in start]
    with form():
        mine = OURS[name](ours)
    torchs = TORCH[name](theirs)
    for number in range(8):
        gradients = [torch.randn(one.shape, generator=random, dtype=torch.float64) for one in start]
        given = [None if number % 3 == i else one for i, one in enumerate(gradients)]
        mine.learning_rate = torchs.param_groups[0]["lr"] = 0.1 / (1 + number)
        mine.step(clipped(given, 1.0))
        for weight, gradient in zip(theirs, given, strict=True):
            weight.grad = None if gradient is None else gradient.clone()
        norm = torch.nn.utils.clip_grad_norm_(theirs, 1.0)
        assert number or norm > 1
        torchs.step()
    for weight, wanted in zip(ours, theirs, strict=True):
        torch.testing.assert_close(weight, wanted.detach(), rtol=1e-12, atol=1e-14)
    mine.step([None] * 3)
    torch.testing.assert_close(ours, [one.detach() for one in theirs], rtol=1e-12, atol=1e-14)
