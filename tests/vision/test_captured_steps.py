"""Networks train on a second device as on the CPU, by steps that never wait and that a graph repeats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from moe_lab.core.training import Snapshot
from moe_lab.vision import WRN, PatchWRN, QuadrantTask, patches, rotation
from moe_lab.vision.rotation import Mixture, ResNet18, SmallCNN, TurnTask
from moe_lab.vision.vmoe.training import TINY, DigitRun, Training
from tests.helpers.needs import needs_cuda
from tests.second_device import needs_second_device, second_device

SHORT: dict[str, Any] = {"samples": 25, "test_samples": 20, "trials": 2, "epochs": 2, "record_every": 2, "seed": 3}
SMALL = SmallCNN(batch_size=10)
MODELS: dict[str, tuple[Any, Any, Any]] = {
    "one network, normalized": (rotation, SMALL.replace(optimizer="normalized"), TurnTask()),
    "one network, momentum": (rotation, SMALL.replace(optimizer="sgd"), TurnTask()),
    "kept patches": (patches, PatchWRN(trunk="plain", batch_size=10), QuadrantTask()),
    "wide residual network": (patches, WRN(trunk="plain", batch_size=10), QuadrantTask()),
    "one network, Adam": (rotation, SMALL.replace(optimizer="adam"), TurnTask()),
    "mixture": (rotation, Mixture(experts=12, expert=SMALL.replace(optimizer="normalized")), TurnTask()),
    "mixture, momentum": (rotation, Mixture(experts=12, expert=SMALL.replace(optimizer="sgd")), TurnTask()),
    "mixture, Adam": (rotation, Mixture(experts=12, balance=0.1, expert=SMALL.replace(optimizer="adam")), TurnTask()),
    "mixture at random": (rotation, Mixture(routing="random", expert=SMALL), TurnTask()),
    "mixture with an oracle": (rotation, Mixture(routing="oracle", expert=SMALL), TurnTask()),
}
NOT_CAPTURED: dict[str, tuple[Any, Any, Any]] = {
    "mixture with batch norm": (rotation, Mixture(expert=ResNet18(width=2, batch_size=10)), TurnTask()),
}
V_MOE = DigitRun(batch=25, test_images=25, steps=6, warm_up=2, record_every=2, device="cpu")
V_MOES = {
    "sgd": V_MOE,
    "adamw": V_MOE.replace(optimizer="adamw", learning_rate=0.003, weight_decay=0.01),
    "E3": V_MOE.replace(model=TINY.replace(ensemble_size=2, group_size=500)),
    "without noise": V_MOE.replace(model=TINY.replace(noise_std=0.0, layers=(1,))),
}


def train(case: tuple[Any, Any, Any], device: str = "cpu") -> Iterator[Snapshot]:
    room, model, task = case
    return room.train(model, task, **SHORT, device=device, precision="float64")


def compare(found: list[Snapshot], wanted: list[Snapshot], tolerance: float = 1e-8) -> None:
    assert [one.step for one in found] == [one.step for one in wanted] and len(wanted) > 2
    for there, here in zip(found, wanted, strict=True):
        for name, value in here.values.items():
            np.testing.assert_allclose(there[name], value, rtol=tolerance, atol=tolerance / 100, err_msg=name)


@needs_second_device
@pytest.mark.parametrize("name", [*MODELS, *NOT_CAPTURED])
def test_a_second_device_trains_as_the_cpu_does(name: str) -> None:
    case, reads = (MODELS | NOT_CAPTURED)[name], []
    with second_device() as device:
        found = []
        for snapshot in train(case, device.name):
            found.append(snapshot)
            reads.append(device.waits.total())
    compare(found, list(train(case)))
    assert device.captures == (2 if name in MODELS else 0)  # a trial one, for 10 samples; the last 5 go without
    if name in MODELS:
        assert reads[2] - reads[1] <= 12 * SHORT["trials"], "two steps read nothing, and a Snapshot reads a few tensors"


@needs_second_device
@pytest.mark.parametrize("name", V_MOES)
def test_a_v_moe_trains_on_a_second_device_as_on_the_cpu(name: str) -> None:
    """In float32, as it always trains, with a learning rate that changes from step to step."""
    wanted = list(Training(V_MOES[name]).snapshots())
    with second_device() as device:
        training = Training(V_MOES[name].replace(device=device.name))
        compare(list(training.snapshots()), wanted, 1e-4)
        device.waits.clear()
        training._advance()
        assert not device.waits and training._sound
    assert device.captures == 1 and len({float(one["train_loss"][0]) for one in wanted[1:]}) == 3


@needs_cuda
@pytest.mark.parametrize("name", V_MOES)
def test_a_v_moe_on_cuda_begins_as_on_the_cpu(name: str) -> None:
    there, here = (list(Training(V_MOES[name].replace(device=at)).snapshots()) for at in ("cuda", "cpu"))
    compare(there[:2], here[:2], 1e-3)


@needs_cuda
@pytest.mark.parametrize("name", [*MODELS, *NOT_CAPTURED])
def test_training_on_cuda_begins_as_on_the_cpu(name: str) -> None:
    case = (MODELS | NOT_CAPTURED)[name]
    compare(list(train(case, "cuda"))[:3], list(train(case))[:3])
