"""Replay: the same numbers with a captured graph as without one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import Tensor

from moe_lab import graphs
from moe_lab.graphs import Replay, as_on_accelerator
from moe_lab.patch_routing import CNN, JointMoE, PatternTask, Run, SeparateMoE, fixed_learners, learners, train
from moe_lab.patch_routing.training import train_batch
from moe_lab.training import final
from tests.doubles import captured

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


DEVICES = [
    "reversed on a CPU",
    "captured on a CPU",
    pytest.param("cuda", marks=needs_cuda),
]


@pytest.mark.parametrize("how", DEVICES)
def test_rows_of_different_l_step_in_parts_whose_order_does_not_matter(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against each run alone on the CPU: on a GPU the parts are in flight at once, which any order stands for."""
    kept, settings = (1, 2, 4, 7), {"samples": 40, "trials": 2, "epochs": 12, "test_samples": 60}
    runs = [
        Run(model=SeparateMoE(patches_per_expert=each), task=PatternTask(), precision="float64", **settings)
        for each in kept
    ]
    alone = [final(train_batch([run.replace(device="cpu")])) for run in runs]
    parts: list[int] = []

    def turned(calls: list[Callable[[], None]], device: torch.device) -> None:
        parts.append(len(calls))
        for call in reversed(calls):
            call()

    for device in ("cpu", "cuda"):
        monkeypatch.setitem(fixed_learners._NUMBERS_WORTH_A_PART, device, 1)
    if how != "cuda":
        monkeypatch.setattr(learners, "side_by_side", turned)
        monkeypatch.setattr(graphs, "_captured", captured)
    with as_on_accelerator() if how == "captured on a CPU" else nullcontext():
        device = "cuda" if how == "cuda" else "cpu"
        together = final(train_batch([run.replace(device=device) for run in runs]))
    assert how == "cuda" or max(parts) == len(kept)
    for name in ("test_accuracy", "coverage", "train_loss"):
        expected = np.concatenate([one[name] for one in alone])
        np.testing.assert_allclose(together[name], expected, rtol=1e-10, atol=1e-12)
    assert together.steps.tolist() == [step for one in alone for step in one.steps.tolist()]


@needs_cuda
@pytest.mark.parametrize("kind", ["joint", "separate", "cnn"])
def test_training_on_cuda_is_training_on_the_cpu(kind: str) -> None:
    model = {"joint": JointMoE(), "separate": SeparateMoE(), "cnn": CNN()}[kind]
    runs = [
        final(train(model, PatternTask(), samples=60, trials=3, epochs=5, device=device, precision="float64"))
        for device in ("cpu", "cuda")
    ]
    for name in ("test_accuracy", "train_loss"):
        np.testing.assert_allclose(runs[0][name], runs[1][name], rtol=1e-9)
    assert runs[0].steps.tolist() == runs[1].steps.tolist()
