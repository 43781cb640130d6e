"""Replay: the same numbers with a captured graph as without one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from moe_lab.graphs import Replay

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device on this machine")


def counter(device: str) -> tuple[Tensor, Tensor, Replay]:
    weights, calls = torch.ones(3, device=device), torch.zeros((), device=device)

    def update(step: Tensor) -> None:
        weights.mul_(0.5).add_(step)
        calls.add_(1)

    return weights, calls, Replay(update, (weights, calls), (torch.zeros(3, device=device),))


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])
def test_updates_in_place_and_starts_from_the_state_given(device: str) -> None:
    weights, calls, replay = counter(device)
    assert calls.item() == 0 and weights.tolist() == [1, 1, 1]  # warming up left nothing behind
    for step in range(4):
        replay(torch.full((3,), float(step), device=device))
    assert calls.item() == 4 and weights.tolist() == [4.3125] * 3


@needs_cuda
@pytest.mark.parametrize("kind", ["joint", "separate", "cnn"])
def test_training_on_cuda_is_training_on_the_cpu(kind: str) -> None:
    import numpy as np

    from moe_lab.patch_routing import CNN, JointMoE, PatternTask, SeparateMoE, train
    from moe_lab.training import final

    model = {"joint": JointMoE(), "separate": SeparateMoE(), "cnn": CNN()}[kind]
    runs = [
        final(train(model, PatternTask(), samples=60, trials=3, epochs=5, device=device, precision="float64"))
        for device in ("cpu", "cuda")
    ]
    for name in ("test_accuracy", "train_loss"):
        np.testing.assert_allclose(runs[0][name], runs[1][name], rtol=1e-9)
    assert runs[0].steps.tolist() == runs[1].steps.tolist()
