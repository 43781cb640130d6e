"""Every room's training on a second device: the CPU's results, from steps that never wait, replayed as graphs."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch

from moe_lab import patch_routing, pruning, specialization
from moe_lab.core import graphs
from moe_lab.core.graphs import as_on_accelerator
from moe_lab.core.training import Snapshot
from moe_lab.core.trials import stream
from moe_lab.patch_routing import CNN, JointMoE, PatternTask, RoutedMoE, SeparateMoE, endings
from moe_lab.patch_routing import training as patch_training
from moe_lab.pruning import BranchStart, PlantedStart, TokenMoE, TokenTask
from moe_lab.recovery import MixtureTask, gridlock
from moe_lab.recovery.gridlock import JointEM, Spectral
from moe_lab.recovery.landscape.training import L2Loss, L4Loss, LogLoss, descend
from moe_lab.specialization import ClusterTask, SingleExpert, SwitchMoE, TopKMoE, noise
from moe_lab.specialization.noise import noise_of_steps, router_noise
from moe_lab.vision import WRN, PatchWRN, QuadrantTask, patches, rotation
from moe_lab.vision.rotation import Mixture, ResNet18, SmallCNN, TurnTask
from moe_lab.vision.rotation.training import TurnLearner
from tests.helpers.needs import needs_cuda
from tests.second_device import second_device

DOUBLE: dict[str, Any] = {"seed": 4, "device": "cpu", "precision": "float64"}

PATTERNS = PatternTask(patches=8, dimension=12, pattern_sets=24, distractors=2)
PATCHES = {"task": PATTERNS, "epochs": 12, "samples": 40, "test_samples": 80, "record_every": 7, "trials": 4}
CLUSTERS = {
    "task": ClusterTask(clusters=3, dimension=12, patches=5),
    "samples": 300,
    "test_samples": 90,
    "steps": 7,
    "record_every": 3,
    "trials": 2,
}
TOKENS = {
    "task": TokenTask(patterns=30, tokens=12, zipf=0.5),
    "steps": 7,
    "batch": 8,
    "test_samples": 90,
    "record_every": 3,
    "trials": 2,
}
MIXTURES = {"samples": 300, "record_every": 2, "trials": 2}
DESCENTS = {
    "task": MixtureTask(experts=3, dimension=5, regressors="orthonormal", gating="orthogonal"),
    "batch": 256,
    "record_every": 5,
    "trials": 3,
}
IMAGES = {"samples": 25, "test_samples": 20, "trials": 2, "epochs": 2, "record_every": 2}
TURNS, CELLS = IMAGES | {"task": TurnTask()}, IMAGES | {"task": QuadrantTask()}
SMALL = SmallCNN(batch_size=10)
SWITCH = SwitchMoE(experts=4, filters=4, learning_rate=0.03)
TOKEN = TokenMoE(experts=8, neurons=4, top=3, learning_rate=0.3, router_learning_rate=0.2)
ROUTED = RoutedMoE(neurons=12, experts=3, capacity_factor=1.5, batch_size=10)
SHORT: dict[str, Any] = {"power_iterations": 5, "gate_iterations": 3, "joint_iterations": 3}

CASES: dict[str, tuple[Callable[..., Iterator[Snapshot]], Any, dict[str, Any]]] = {
    "joint": (patch_routing.train, JointMoE(neurons=12, experts=3, patches_per_expert=3, batch_size=10), PATCHES),
    "separate": (patch_routing.train, SeparateMoE(neurons=12, patches_per_expert=3, batch_size=10), PATCHES),
    "cnn": (patch_routing.train, CNN(neurons=12, batch_size=10), PATCHES),
    "four classes": (
        patch_routing.train,
        JointMoE(neurons=12, experts=3, patches_per_expert=3, batch_size=10),
        PATCHES | {"task": PATTERNS.replace(classes=4), "epochs": 5},
    ),
    "experts choose": (
        patch_routing.train,
        ROUTED.replace(routing="expert-choice", gates="sigmoid", router_noise=0.5),
        PATCHES,
    ),
    "patches choose": (
        patch_routing.train,
        ROUTED.replace(experts_per_patch=2, gates="softmax-before", order="priority", router_noise=1.0),
        PATCHES,
    ),
    "soft": (patch_routing.train, ROUTED.replace(routing="soft"), PATCHES),
    "hash": (patch_routing.train, ROUTED.replace(routing="hash"), PATCHES),
    "patches that diverge": (
        patch_routing.train,
        CNN(neurons=12, batch_size=10, learning_rate=1e38),
        PATCHES | {"record_every": 1000, "precision": "float32"},
    ),
    "switch": (specialization.train, SWITCH, CLUSTERS),
    "switch of relu": (specialization.train, SWITCH.replace(activation="relu"), CLUSTERS),
    "switch of gelu": (specialization.train, SWITCH.replace(activation="gelu", load_balancing=0.05), CLUSTERS),
    "linear switch": (specialization.train, SWITCH.replace(activation="linear"), CLUSTERS),
    "the authors' switch": (
        specialization.train,
        SwitchMoE.authors(experts=4, filters=4, learning_rate=1.0),
        CLUSTERS | {"steps": 12},
    ),
    "single": (specialization.train, SingleExpert(filters=4), CLUSTERS),
    "top-k": (
        specialization.train,
        TopKMoE(experts=4, filters=4, experts_per_sample=2, shared=1, balancing="bias", lead=1.0),
        CLUSTERS,
    ),
    "linear top-k": (
        specialization.train,
        TopKMoE(experts=4, filters=4, activation="linear", balancing="z-loss", equal_steps=False, learning_rate=1.0),
        CLUSTERS,
    ),
    "expert choice": (pruning.train, TOKEN, TOKENS | {"start": PlantedStart(others_norm=5.0)}),
    "token choice": (pruning.train, TOKEN.replace(top=2, routing="token-choice"), TOKENS),
    "branches": (
        pruning.train,
        TOKEN.replace(loss="hinge"),
        TOKENS | {"start": BranchStart(tasks=2, steps=4, batch=6)},
    ),
    "spectral": (gridlock.train, Spectral(**SHORT), MIXTURES | {"task": MixtureTask(dimension=5, noise=0.3)}),
    "spectral of relu": (
        gridlock.train,
        Spectral(**SHORT),
        MIXTURES | {"task": MixtureTask(dimension=5, activation="relu")},
    ),
    "joint EM": (
        gridlock.train,
        JointEM(iterations=12),
        MIXTURES | {"task": MixtureTask(dimension=5, experts=3, gating="orthogonal")},
    ),
    "joint EM with 18 unknowns of the gates": (
        gridlock.train,
        JointEM(iterations=6),
        MIXTURES | {"task": MixtureTask(dimension=9, experts=3)},
    ),
    "gradient EM": (
        gridlock.train,
        JointEM(iterations=9, gate_step="gradient", radius=1.0),
        MIXTURES | {"task": MixtureTask(dimension=5, noise=0.3)},
    ),
    "L4": (descend, L4Loss(steps=12), DESCENTS),
    "L4 of the population": (descend, L4Loss(steps=12, population=True), DESCENTS),
    "l2 that diverges": (descend, L2Loss(steps=80, rate=1e3), DESCENTS | {"record_every": 1000}),
    "L_log after L4": (descend, LogLoss(regressors=L4Loss(steps=8), steps=7), DESCENTS | {"samples": 512}),
    "tanh": (descend, L2Loss(steps=8), DESCENTS | {"task": MixtureTask(dimension=5, activation="tanh")}),
    "one network, normalized": (rotation.train, SMALL.replace(optimizer="normalized"), TURNS),
    "one network, momentum": (rotation.train, SMALL.replace(optimizer="sgd"), TURNS),
    "one network, Adam": (rotation.train, SMALL.replace(optimizer="adam"), TURNS),
    "kept patches": (patches.train, PatchWRN(trunk="plain", batch_size=10), CELLS),
    "wide residual network": (patches.train, WRN(trunk="plain", batch_size=10), CELLS),
    "mixture": (rotation.train, Mixture(experts=12, expert=SMALL.replace(optimizer="normalized")), TURNS),
    "mixture, momentum": (rotation.train, Mixture(experts=12, expert=SMALL.replace(optimizer="sgd")), TURNS),
    "mixture, Adam": (rotation.train, Mixture(balance=0.1, expert=SMALL.replace(optimizer="adam")), TURNS),
    "mixture at random": (rotation.train, Mixture(routing="random", expert=SMALL), TURNS),
    "mixture with an oracle": (rotation.train, Mixture(routing="oracle", expert=SMALL), TURNS),
}
BY_KERNELS = Mixture(expert=ResNet18(width=2, batch_size=10))
"""A mixture with batch norm, whose step reads how many images each expert has: no graph can repeat it."""


def run_of(name: str, **more: Any) -> Iterator[Snapshot]:
    train, model, settings = CASES[name]
    given = {**DOUBLE, **settings, **more}
    return train(model, given.pop("task"), **given)


def snapshots(name: str, **more: Any) -> list[Snapshot]:
    return list(run_of(name, **more))


def compare(found: list[Snapshot], wanted: list[Snapshot], tolerance: float) -> None:
    assert [snapshot.step for snapshot in found] == [snapshot.step for snapshot in wanted]
    for there, here in zip(found, wanted, strict=True):
        for name in ("steps", "finished", "diverged"):
            assert getattr(there, name).tolist() == getattr(here, name).tolist(), (name, here.step)
        assert set(there.values) == set(here.values)
        for name, value in here.values.items():
            np.testing.assert_allclose(there[name], value, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("name", CASES)
def test_a_second_device_trains_as_the_cpu_does_and_no_step_waits_for_it(name: str) -> None:
    """Graphs repeat the steps, whatever Python does beside them; only Snapshots and rows that end are waited for."""
    wanted = snapshots(name)
    often, waits, captures = on_second_device(name)
    compare(often, wanted, 1e-5 if CASES[name][2].get("precision") == "float32" else 1e-10)
    seldom, waits_seldom, _ = on_second_device(name, record_every=10**6)
    assert captures
    assert max(waits_seldom) <= max(waits) + seldom[-1].step // 4


def on_second_device(name: str, index: int = 0, **more: Any) -> tuple[list[Snapshot], list[int], int]:
    """The Snapshots of a run there, how often the host waited for each, and how many steps were captured."""
    found, waits = [], []
    with second_device(index) as device:
        for snapshot in run_of(name, device=device.name, **more):
            found.append(snapshot)
            waits.append(device.waits.total())
            device.waits.clear()
    return found, waits, device.captures


@pytest.mark.parametrize("name", ["joint", "joint EM"])
def test_a_device_by_its_number(name: str) -> None:
    """A tensor on the first device of its kind would not mix with those of this run."""
    compare(on_second_device(name, index=1)[0], snapshots(name), 1e-10)


@pytest.mark.parametrize("name", ["kept patches", "mixture"])
def test_a_trial_of_a_network_has_one_graph(name: str) -> None:
    """Of ten images; the last five of an epoch run kernel by kernel."""
    assert on_second_device(name)[2] == IMAGES["trials"]


def test_a_step_that_reads_is_not_captured() -> None:
    with second_device() as device:
        found = list(rotation.train(BY_KERNELS, **{**DOUBLE, **TURNS, "device": device.name}))
    compare(found, list(rotation.train(BY_KERNELS, **{**DOUBLE, **TURNS})), 1e-10)
    assert not device.captures


def test_epochs_that_end_together_are_settled_by_a_graph_while_that_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = snapshots("joint")
    found, _, captures = on_second_device("joint")
    monkeypatch.setattr(endings, "_FEW_NUMBERS", 100)
    alone, _, fewer = on_second_device("joint")
    compare(found, wanted, 1e-10)
    compare(alone, wanted, 1e-10)
    assert 0 < fewer < captures


def test_these_cases_end_early_in_every_way() -> None:
    """Otherwise the test above would compare little."""
    ends = {name: snapshots(name)[-1] for name in ("joint", "patches that diverge", "the authors' switch")}
    assert (
        ends["patches that diverge"].diverged.tolist().count(True) == 1 and len(set(ends["joint"].steps.tolist())) > 1
    )
    assert min(ends["joint"].steps) < PATCHES["epochs"] * 4 and ends["the authors' switch"].steps.tolist() == [3, 1]
    last = snapshots("l2 that diverges")[-1]
    assert last.diverged.all() and last.step < 80


def test_a_dropped_owner_of_a_captured_step_is_freed_at_once() -> None:
    """Its graphs hold memory of the device until then."""

    class Owner:
        def __init__(self) -> None:
            self.state = torch.zeros(1, device="second")
            self.replay = graphs.Replay(self.step, [self.state])

        def step(self) -> None:
            self.state.add_(1)

    with second_device():
        owner = Owner()
        left = weakref.ref(owner)
        del owner
    assert left() is None


def test_what_stands_between_captured_steps_waits_for_nothing() -> None:
    with second_device() as device:
        run = patch_routing.Run(model=CASES["joint"][1], **{**DOUBLE, **PATCHES, "device": device.name})
        training = patch_training.Training([run], patch_training.samples_of([run]))
        learner, orders = training.learner, training.orders
        assert learner.endings is not None
        learner.step(orders.plan(0, training.resident, learner.setting.device)[0])
        device.waits.clear()
        learner.step(orders.plan(1, training.resident, learner.setting.device)[0])
        learner.endings.settle(learner, 4, np.array([0, 2]), np.array([False, True]))
        assert not device.waits
        assert learner.endings.running.tolist() == [True, True, False, True]
        before = learner.weights.clone()
        learner.step(orders.plan(2, training.resident, learner.setting.device)[0])
        moved = (learner.weights - before).abs().amax((1, 2)) > 0
        assert moved.tolist() == [True, True, False, True]  # a row that has ended keeps its weights


@pytest.mark.parametrize("ahead", [1, 4, 1000])
def test_numbers_drawn_ahead_are_those_drawn_step_by_step(ahead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, like = SWITCH.replace(router_noise=2.0), torch.zeros((), dtype=torch.float64)
    streams = [[stream(4, trial, "router noise") for trial in range(3)] for _ in range(2)]
    wanted = [router_noise(model, streams[0], 20, like) for _ in range(9)]
    monkeypatch.setattr(noise, "_DRAWN_AT_ONCE", ahead * 3 * 4 * 20)
    with as_on_accelerator():
        for found, step in zip(noise_of_steps(model, streams[1], 20, like), wanted, strict=False):
            torch.testing.assert_close(found, step, rtol=0, atol=0)


def test_a_network_that_diverges_ends_after_the_same_step_on_an_accelerator() -> None:
    ends, task = [], TurnTask()
    run = rotation.Run(model=SmallCNN(batch_size=10), task=task, samples=60, test_samples=20, trials=1, device="cpu")
    how: Any = {"trials": [0], "seed": 0, "device": "cpu", "dtype": torch.float32}
    train, test = (task.sample(count, split=split, **how) for count, split in ((60, "train"), (20, "test")))
    for form in (nullcontext(), as_on_accelerator()):
        learner = TurnLearner(run, 0, 0, train, test)
        learner.images = learner.images.clone()
        learner.images[17] = torch.nan
        with form:
            learner.advance(1)
            learner.advance(5)
        ends.append((learner.steps, learner.lost, learner.online()))
    assert ends[0][:2] == ends[1][:2] and ends[0][1] and 1 < ends[0][0] < 6


@needs_cuda
@pytest.mark.parametrize("name", CASES)
def test_training_on_cuda_is_training_on_the_cpu(name: str) -> None:
    """From the same draws; the first steps in float64 differ by rounding alone."""
    single = CASES[name][2].get("precision") == "float32"
    here, there = (snapshots(name, device=device, record_every=1)[:3] for device in ("cpu", "cuda"))
    compare(there, here, 1e-4 if single else 1e-10)


@needs_cuda
@pytest.mark.parametrize("name", ["joint", "separate", "cnn", "switch", "expert choice", "token choice"])
def test_statistics_on_cuda_are_those_on_the_cpu(name: str) -> None:
    """In float32 the paths of trials may part; their means agree within the sampling error."""
    means = []
    for device in ("cpu", "cuda"):
        accuracy = snapshots(name, device=device, precision="float32", trials=60)[-1]["test_accuracy"]
        means.append((accuracy.mean(), accuracy.std() / len(accuracy) ** 0.5))
    assert abs(means[0][0] - means[1][0]) <= 3 * (means[0][1] ** 2 + means[1][1] ** 2) ** 0.5 + 1e-6
