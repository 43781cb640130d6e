"""CapturedStep: the same numbers with a captured graph as without one."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from types import MethodType

import numpy as np
import pytest
import torch
from torch import Tensor

from moe_lab.core import graphs
from moe_lab.core.graphs import CapturedStep, as_on_accelerator
from moe_lab.core.snapshots import final
from moe_lab.patch_routing import PatchRun, PatternTask, SeparateMoE, fixed_learners, learner
from moe_lab.patch_routing.training import train_batch
from tests.helpers.needs import needs_cuda
from tests.second_device import CAPTURING, second_device

DEVICES = ["cpu", "second", pytest.param("cuda", marks=needs_cuda)]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    with second_device() if request.param == "second" else nullcontext():
        yield request.param


def test_updates_in_place_and_starts_from_the_state_given(device: str) -> None:
    weights, calls = torch.ones(3, device=device), torch.zeros((), device=device)

    def update(step: Tensor) -> None:
        weights.mul_(0.5).add_(step)
        calls.add_(1)

    replay = CapturedStep(update, (weights, calls), (torch.zeros(3, device=device),))
    assert calls.item() == 0 and weights.tolist() == [1, 1, 1]  # warming up left nothing behind
    for step in range(4):
        replay(torch.full((3,), float(step), device=device))
    assert calls.item() == 4 and weights.tolist() == [4.3125] * 3


def test_rows_of_different_l_step_in_parts_whose_order_does_not_matter(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against each run alone on the CPU: on a GPU the parts are in flight at once, which any order stands for."""
    kept, settings = (1, 2, 4, 7), {"samples": 40, "trials": 2, "epochs": 12, "test_samples": 60}
    runs = [
        PatchRun(model=SeparateMoE(patches_per_expert=each), task=PatternTask(), precision="float64", **settings)
        for each in kept
    ]
    alone = [final(train_batch([run.replace(device="cpu")])) for run in runs]
    parts: list[int] = []

    def turned(calls: list[Callable[[], None]], device: torch.device) -> None:
        parts.append(len(calls))
        for call in reversed(calls):
            call()

    monkeypatch.setitem(fixed_learners.NUMBERS_WORTH_A_PART, device, 1)
    if device != "cuda":
        monkeypatch.setattr(learner, "concurrently", turned)
    together = final(train_batch([run.replace(device=device) for run in runs]))
    assert device == "cuda" or max(parts) == len(kept)
    for name in ("test_accuracy", "coverage", "train_loss"):
        expected = np.concatenate([one[name] for one in alone])
        np.testing.assert_allclose(together[name], expected, rtol=1e-10, atol=1e-12)
    assert together.steps.tolist() == [step for one in alone for step in one.steps.tolist()]


WAITS: dict[str, Callable[[Tensor], object]] = {
    "reads a number": lambda x: x.sum().item(),
    "asks a question": lambda x: bool((x > 0).any()),
    "chooses by a mask": lambda x: x[x > 0],
    "counts": lambda x: (x > 0).nonzero(),
    "reads all": lambda x: x.cpu(),
    "asks whether it worked": lambda x: torch.linalg.solve(torch.eye(3, device=x.device), x),
    "sends numbers": lambda x: torch.tensor([0.0, 1.0, 2.0], device=x.device),
    "sends places": lambda x: x[[0, 1]],
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS.keys())
def test_a_step_that_waits_runs_kernel_by_kernel_with_one_warning_and_later_ones_are_captured(
    wait: Callable[[Tensor], object],
) -> None:
    with second_device() as device:
        total, other = torch.ones(3, device=device.name), torch.ones(3, device=device.name)

        def step() -> None:
            total.add_(1)
            wait(total)

        with pytest.warns(UserWarning, match=f"^this step runs kernel by kernel, .*: {CAPTURING}: [a-z_]+$") as told:
            replay = CapturedStep(step, (total,))
        assert len(told) == 1 and total.tolist() == [1, 1, 1] and gc.isenabled()
        replay()
        captures = device.captures
        later = CapturedStep(partial(other.add_, total), (other,))
        later()
        assert device.captures == captures + 1
        assert total.tolist() == [2, 2, 2] and other.tolist() == [3, 3, 3]


def test_the_double_of_a_capture_repeats_no_python() -> None:
    """A step whose numbers come from a counter in Python repeats its last number, as on CUDA."""
    count = iter(range(100))
    with second_device() as device:
        total = torch.zeros((), device=device.name)
        replay = CapturedStep(lambda: total.add_(float(next(count))), (total,))
        replay()
        replay()
        assert total.item() == 6 and device.captures == 1  # the fourth number, twice


def test_tensors_of_two_devices_do_not_mix() -> None:
    with second_device() as device:
        here, there = torch.ones(3), torch.ones(3, device=device.name)
        for mixed in (lambda: there + here, lambda: there.copy_(here[:2]), lambda: here[there > 0], there.numpy):
            with pytest.raises(RuntimeError):
                mixed()
        assert not device.waits and (there + torch.tensor(1.0)).tolist() == [2, 2, 2]
        assert device.waits == {"_to_copy": 1}


@pytest.mark.parametrize("begin", [0, 3], ids=["in the warm-up", "in the capture"])
def test_an_error_of_the_step_itself_is_raised_by_its_next_call(begin: int) -> None:
    calls = iter(range(100))
    with second_device() as device:
        total = torch.ones(1, device=device.name)

        def step() -> None:
            total.add_(1)
            if next(calls) >= begin:
                raise ValueError("wrong")

        with pytest.warns(UserWarning, match="^this step runs kernel by kernel, .*: wrong$"):
            replay = CapturedStep(step, (total,))
        assert total.tolist() == [1]
        with pytest.raises(ValueError, match=r"^wrong$"):
            replay()


def test_private_functions_of_torch_may_be_missing_or_take_other_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said is why the capture failed, not what came after."""
    calls: list[str] = []

    def other(only: int) -> None:
        raise AssertionError("called")

    def same(device: int, pool: object) -> None:
        calls.append("ended")
        raise RuntimeError("not currently recording")

    with second_device() as device:
        total = torch.ones(1, device=device.name)
        for name, function in (("_cuda_endAllocateToPool", other), ("_cuda_endAllocateToPool", same)):
            monkeypatch.setattr(torch._C, name, function, raising=False)
            with pytest.warns(UserWarning, match=f"{CAPTURING}: _local_scalar_dense$") as told:
                CapturedStep(lambda: total.mul_(total.item()), (total,))
            assert len(told) == 1
    assert calls == ["ended"]


@pytest.mark.parametrize(
    "error", [TypeError("takes 2 arguments"), torch.OutOfMemoryError("CUDA out of memory"), OSError()]
)
def test_whatever_a_capture_raises_the_run_goes_on(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(call: Callable[[], object], device: torch.device) -> Callable[[], object]:
        call()
        raise error

    total = torch.ones(1)
    monkeypatch.setitem(graphs._CAPTURES, "cpu", fails)
    with as_on_accelerator():
        with pytest.warns(UserWarning, match=f"failed: {str(error) or 'OSError'}$") as told:
            replay = CapturedStep(partial(total.add_, 1), (total,))
        assert len(told) == 1 and total.tolist() == [1]
        replay()
    assert total.tolist() == [2]


@needs_cuda
def test_after_a_capture_that_fails_cuda_is_as_before() -> None:
    total, other = torch.ones(3, device="cuda"), torch.ones(3, device="cuda")
    stream = torch.cuda.current_stream()
    with pytest.warns(UserWarning, match="^this step runs kernel by kernel"):
        replay = CapturedStep(lambda: total.add_(float(total.sum().item())), (total,))
    assert torch.cuda.current_stream() == stream and torch.rand(2, device="cuda").isfinite().all()
    replay()
    later = CapturedStep(partial(other.add_, 1), (other,))
    later()
    assert total.tolist() == [4, 4, 4] and other.tolist() == [2, 2, 2]
    assert isinstance(later._repeat, MethodType) and later._repeat.__name__ == "replay"
