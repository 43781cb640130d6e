"""A V-MoE trains on a second device as on the CPU, by a step that never waits and that a graph repeats."""

from __future__ import annotations

import numpy as np
import pytest

from moe_lab.core.snapshots import Snapshot
from moe_lab_papers.pruning2024.vmoe import VMoE
from moe_lab_papers.pruning2024.vmoe.training import TINY, DigitRun, VMoETraining
from tests.helpers.needs import needs_cuda
from tests.second_device import second_device

V_MOE = DigitRun(batch=25, test_images=25, steps=6, warm_up=2, record_every=2, device="cpu")
V_MOES = {
    "sgd": V_MOE,
    "adamw": V_MOE.replace(optimizer="adamw", learning_rate=0.003, weight_decay=0.01),
    "E3": V_MOE.replace(model=TINY.replace(ensemble_size=2, group_size=500)),
    "without noise": V_MOE.replace(model=TINY.replace(noise_std=0.0, layers=(1,))),
}


def trained(run: DigitRun) -> list[Snapshot]:
    """In float64: key biases change no attention, so rounding alone makes their gradient, and Adam a step of it."""
    return list(VMoETraining(run, VMoE(run.model).double()).snapshots())


def compare(found: list[Snapshot], wanted: list[Snapshot]) -> None:
    """To what six steps leave of float64: of a gradient of 1e-16, Adam makes a step of 1e-8 learning rates."""
    assert [one.step for one in found] == [one.step for one in wanted] and len(wanted) > 2
    for there, here in zip(found, wanted, strict=True):
        for name, value in here.values.items():
            np.testing.assert_allclose(there[name], value, rtol=1e-8, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("name", V_MOES)
def test_a_v_moe_trains_on_a_second_device_as_on_the_cpu(name: str) -> None:
    """With a learning rate that changes from step to step."""
    wanted = trained(V_MOES[name])
    with second_device() as device:
        there = V_MOES[name].replace(device=device.name)
        compare(trained(there), wanted)
        assert device.captures == 1
        waits = []
        for steps in (3, 6):
            device.waits.clear()
            assert len(trained(there.replace(steps=steps, record_every=steps))) == 2
            waits.append(device.waits.copy())
        assert waits[0] == waits[1], "more steps between two Snapshots wait for nothing more"
    assert len({float(one["train_loss"][0]) for one in wanted[1:]}) == 3


@needs_cuda
@pytest.mark.parametrize("name", V_MOES)
def test_a_v_moe_trains_on_cuda_as_on_the_cpu(name: str) -> None:
    compare(trained(V_MOES[name].replace(device="cuda")), trained(V_MOES[name]))
