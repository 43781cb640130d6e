"""Replay: the same numbers with a captured graph as without one."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from types import MethodType

import numpy as np
import pytest
import torch
from torch import Tensor

from moe_lab.core import graphs
from moe_lab.core.graphs import Replay, as_on_accelerator
from moe_lab.core.training import final
from moe_lab.patch_routing import CNN, JointMoE, PatternTask, Run, SeparateMoE, fixed_learners, learners, train
from moe_lab.patch_routing.training import train_batch
from tests.cuda_double import READ, Cuda, on_cuda
from tests.doubles import captured
from tests.helpers.needs import needs_cuda


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


@pytest.fixture(params=[True, False], ids=["torch that tidies up", "torch that does not"])
def cuda(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Cuda:
    monkeypatch.setattr(graphs, "_SPOILED", set())
    return Cuda(monkeypatch, request.param)


def wait(total: Tensor) -> None:
    total.add_(1)
    total.mul_(float(total[0].item()))


def test_after_a_capture_that_fails_the_run_goes_on_and_later_steps_are_captured(cuda: Cuda) -> None:
    total, other = on_cuda(1.0, 2.0), on_cuda(5.0)
    with pytest.warns(UserWarning, match=f"^this step runs kernel by kernel, .*: {READ}$") as told:
        replay = Replay(partial(wait, total), (total,))
    assert len(told) == 1 and total.tolist() == [1, 2]
    assert (cuda.stream, cuda.underway, cuda.random_captures) == (cuda.default, [], False)
    assert gc.isenabled() and cuda.library == "default" and set(cuda.libraries) == {"cusolver"}
    replay()
    assert total.tolist() == [4, 6]  # 2 (1 + 1) and 2 (2 + 1), by plain calls
    later = Replay(partial(other.add_, 1), (other,))
    later()
    assert other.tolist() == [6] and cuda.begun == 3  # the step that failed, the one after it to see, and this one
    assert isinstance(later._repeat, MethodType) and later._repeat.__name__ == "replay"


def test_where_captures_no_longer_work_steps_run_without_a_try(cuda: Cuda) -> None:
    total, cuda.broken = on_cuda(1.0), True
    with pytest.warns(UserWarning) as told:
        Replay(partial(total.add_, 1), (total,))
    assert [str(one.message).partition(" ")[0] for one in told] == ["this", "no"]
    assert (cuda.stream, cuda.underway, cuda.begun) == (cuda.default, [], 2)
    later = Replay(partial(total.add_, 1), (total,))
    later()
    assert total.tolist() == [2] and cuda.begun == 2


def test_an_error_of_the_step_itself_is_not_taken_for_one_of_the_capture(cuda: Cuda) -> None:
    total, calls = on_cuda(1.0), iter(range(100))

    def step() -> None:
        if next(calls) == 3:  # after the warm-up, in the middle of the capture
            raise ValueError("wrong")
        total.add_(1)

    with pytest.raises(ValueError, match="wrong"):
        Replay(step, (total,))
    assert (cuda.stream, cuda.underway, cuda.random_captures) == (cuda.default, [], False) and gc.isenabled()
