"""Steps of networks that CUDA repeats as graphs train as plain calls do; without CUDA by a double of the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from moe_lab import graphs
from moe_lab.graphs import as_on_accelerator
from moe_lab.training import Snapshot
from moe_lab.vision import WRN, PatchWRN, QuadrantTask, patches, rotation
from moe_lab.vision.rotation import Mixture, SmallCNN, TurnTask
from tests.doubles import captured
from tests.helpers.needs import needs_cuda

SHORT: dict[str, Any] = {"samples": 25, "test_samples": 20, "trials": 2, "epochs": 2, "record_every": 2, "seed": 3}
SMALL = SmallCNN(batch_size=10)
MODELS: dict[str, tuple[Any, Any, Any]] = {
    "one network, normalized": (rotation, SMALL.replace(optimizer="normalized"), TurnTask()),
    "one network, momentum": (rotation, SMALL.replace(optimizer="sgd"), TurnTask()),
    "kept patches": (patches, PatchWRN(trunk="plain", batch_size=10), QuadrantTask()),
    "wide residual network": (patches, WRN(trunk="plain", batch_size=10), QuadrantTask()),
}
NOT_CAPTURED: dict[str, tuple[Any, Any, Any]] = {
    "mixture": (rotation, Mixture(expert=SMALL.replace(optimizer="normalized")), TurnTask()),
    "one network, Adam": (rotation, SMALL.replace(optimizer="adam"), TurnTask()),
}


def trained(case: tuple[Any, Any, Any], device: str = "cpu") -> list[Snapshot]:
    room, model, task = case
    return list(room.train(model, task, **SHORT, device=device, precision="float64"))


def compare(found: list[Snapshot], wanted: list[Snapshot]) -> None:
    assert [one.step for one in found] == [one.step for one in wanted] and len(wanted) > 2
    for there, here in zip(found, wanted, strict=True):
        for name, value in here.values.items():
            np.testing.assert_allclose(there[name], value, rtol=1e-8, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("name", [*MODELS, *NOT_CAPTURED])
def test_a_replayed_step_trains_as_a_plain_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def capture(call: Any, state: Any) -> Any:
        made.append(call)
        return captured(call, state)

    case = (MODELS | NOT_CAPTURED)[name]
    wanted = trained(case)
    monkeypatch.setattr(graphs, "_captured", capture)
    with as_on_accelerator():
        compare(trained(case), wanted)
    assert len(made) == (4 if name in MODELS else 0)  # of two trials, one for 10 samples and one for the last 5


@needs_cuda
@pytest.mark.parametrize("name", [*MODELS, *NOT_CAPTURED])
def test_training_on_cuda_begins_as_on_the_cpu(name: str) -> None:
    case = (MODELS | NOT_CAPTURED)[name]
    compare(trained(case, "cuda")[:3], trained(case)[:3])
