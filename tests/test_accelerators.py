"""Every room's training on a second device: the CPU's results, from steps that never wait, replayed as graphs."""

from __future__ import annotations

import weakref
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch

from moe_lab import patch_routing, pruning, specialization
from moe_lab.core import graphs
from moe_lab.core.graphs import as_on_accelerator
from moe_lab.core.snapshots import Snapshot
from moe_lab.core.trials import stream
from moe_lab.patch_routing import CNN
from moe_lab.patch_routing import training as patch_training
from moe_lab.patch_routing.batch import samples_of
from moe_lab.recovery import MixtureTask, gridlock
from moe_lab.recovery.gridlock import JointEM
from moe_lab.recovery.landscape import L2Loss, descend
from moe_lab.specialization import ClusterRun, ClusterTask, SwitchMoE, TopKMoE, noise
from moe_lab.specialization.learners import MixtureLearner
from moe_lab.specialization.noise import noise_of_steps, router_noise
from moe_lab.vision import rotation
from moe_lab.vision.rotation import Mixture, ResNet18, SmallCNN, TurnTask
from moe_lab.vision.rotation.training import TurnLearner
from tests.helpers.needs import needs_cuda
from tests.second_device import second_device
from tests.trainings.cases import (
    CLUSTER_TASK,
    CLUSTERS,
    DESCENTS,
    IMAGES,
    LOSS_TASK,
    MIXTURES,
    OF_CLUSTERS,
    OF_IMAGES,
    OF_LOSSES,
    OF_MIXTURES,
    OF_PATCHES,
    OF_ROUTINGS,
    OF_TOKENS,
    PATCH_MODELS,
    PATCHES,
    PATTERNS,
    SWITCH,
    TOKEN_MODEL,
    TOKEN_TASK,
    TOKENS,
    Case,
)

EPOCHS = PATCHES | {"epochs": 12, "record_every": 7}
ENDING = {
    "joint that ends": Case(patch_routing.train, PATCH_MODELS["joint"], PATTERNS, EPOCHS),
    "patches that diverge": Case(
        patch_routing.train,
        CNN(neurons=12, batch_size=10, learning_rate=1e38),
        PATTERNS,
        EPOCHS | {"record_every": 1000, "precision": "float32"},
    ),
    "authors that end": Case(
        specialization.train,
        SwitchMoE.authors(experts=4, filters=4, learning_rate=1.0),
        CLUSTER_TASK,
        CLUSTERS | {"steps": 12, "samples": 300},
    ),
    "l2 that diverges": Case(descend, L2Loss(steps=80, rate=1e3), LOSS_TASK, DESCENTS | {"record_every": 1000}),
}
OTHER = {
    "switch of relu": Case(specialization.train, SWITCH.replace(activation="relu"), CLUSTER_TASK, CLUSTERS),
    "linear top-k": Case(
        specialization.train,
        TopKMoE(experts=4, filters=4, activation="linear", balancing="z-loss", equal_steps=False, learning_rate=1.0),
        CLUSTER_TASK,
        CLUSTERS,
    ),
    "top-k with biases": Case(
        specialization.train, TopKMoE(experts=4, filters=4, balancing="bias", lead=1.0), CLUSTER_TASK, CLUSTERS
    ),
    "hinge": Case(pruning.train, TOKEN_MODEL.replace(loss="hinge"), TOKEN_TASK, TOKENS),
    "18 unknowns of the gates": Case(
        gridlock.train, JointEM(iterations=6), MixtureTask(dimension=9, experts=3), MIXTURES
    ),
    "tanh": Case(descend, L2Loss(steps=8), MixtureTask(dimension=5, activation="tanh"), DESCENTS),
}
ON_PATCHES = ("joint, patterns", "separate, digits", "cnn, patterns")
CASES = {
    **{name: OF_PATCHES[name] for name in (*ON_PATCHES, "joint, four classes")},
    **OF_ROUTINGS,
    **OF_CLUSTERS,
    **{name: OF_TOKENS[name] for name in ("expert-choice, planted", "token-choice, random", "expert-choice, branches")},
    **{name: OF_MIXTURES[name] for name in ("spectral, identity", "spectral, relu", "joint, three experts")},
    "joint, gradient": OF_MIXTURES["joint, gradient, identity"],
    **OF_LOSSES,
    **OF_IMAGES,
    **ENDING,
    **OTHER,
}
BY_KERNELS = Mixture(expert=ResNet18(width=2, batch_size=10))
"""A mixture with batch norm, whose step reads how many images each expert has: no graph can repeat it."""


TRIALS = 3


def snapshots(name: str, **more: Any) -> list[Snapshot]:
    return CASES[name].snapshots(**{"trials": TRIALS, **more})


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
    compare(often, wanted, 1e-5 if CASES[name].settings.get("precision") == "float32" else 1e-10)
    seldom, waits_seldom, _ = on_second_device(name, record_every=10**6)
    assert captures
    assert max(waits_seldom) <= max(waits) + seldom[-1].step // 4


def on_second_device(name: str, index: int = 0, **more: Any) -> tuple[list[Snapshot], list[int], int]:
    """The Snapshots of a run there, how often the host waited for each, and how many steps were captured."""
    found, waits = [], []
    with second_device(index) as device:
        case = CASES[name]
        settings = {"precision": "float64", **case.settings, "device": device.name, "trials": TRIALS, **more}
        for snapshot in case.train(case.model, case.task, **settings):
            found.append(snapshot)
            waits.append(device.waits.total())
            device.waits.clear()
    return found, waits, device.captures


@pytest.mark.parametrize("name", ["joint, patterns", "joint, three experts"])
def test_a_device_by_its_number(name: str) -> None:
    """A tensor on the first device of its kind would not mix with those of this run."""
    compare(on_second_device(name, index=1)[0], snapshots(name), 1e-10)


def test_a_trial_of_a_network_has_one_graph() -> None:
    """Of ten images; the last five of an epoch run kernel by kernel."""
    assert on_second_device("wide residual network")[2] == TRIALS


def test_a_step_that_reads_is_not_captured() -> None:
    settings = {"precision": "float64", "trials": 1, **IMAGES}
    with second_device() as device:
        found = list(rotation.train(BY_KERNELS, TurnTask(), **{**settings, "device": device.name}))
    compare(found, list(rotation.train(BY_KERNELS, TurnTask(), **settings)), 1e-10)
    assert not device.captures


def test_these_cases_end_early_in_every_way() -> None:
    """Otherwise the test above would compare little."""
    ends = {name: snapshots(name)[-1] for name in ENDING}
    assert 0 < ends["patches that diverge"].diverged.sum() < TRIALS
    assert len(set(ends["joint that ends"].steps.tolist())) > 1 and min(ends["joint that ends"].steps) < 12 * 4
    assert max(ends["authors that end"].steps) < 12
    assert ends["l2 that diverges"].diverged.all() and ends["l2 that diverges"].step < 80


def test_a_dropped_owner_of_a_captured_step_is_freed_at_once() -> None:
    """Its graphs hold memory of the device until then."""

    class Owner:
        def __init__(self) -> None:
            self.state = torch.zeros(1, device="second")
            self.replay = graphs.CapturedStep(self.step, [self.state])

        def step(self) -> None:
            self.state.add_(1)

    with second_device():
        owner = Owner()
        left = weakref.ref(owner)
        del owner
    assert left() is None


def test_what_stands_between_captured_steps_waits_for_nothing() -> None:
    with second_device() as device:
        run = patch_routing.PatchRun(
            model=PATCH_MODELS["joint"], task=PATTERNS, trials=4, **{**PATCHES, "device": device.name}
        )
        learner = patch_training.PatchTraining([run], samples_of([run])).learner
        steps = learner.until_rule()
        learner.advance(steps)
        learner.active[2] = False
        device.waits.clear()
        learner.end_trials()  # an epoch's end
        learner.advance(steps - 1)
        assert not device.waits
        assert learner.active.tolist() == [True, True, False, True]
        before = learner.weights.clone()
        learner.advance(1)
        moved = (learner.weights - before).abs().amax((1, 2)) > 0
        assert moved.tolist() == [True, True, False, True]  # a row that has ended keeps its weights


@pytest.mark.parametrize("ahead", [1, 4, 1000])
def test_numbers_drawn_ahead_are_those_drawn_step_by_step(ahead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, like = SWITCH.replace(router_noise=2.0), torch.zeros((), dtype=torch.float64)
    run = ClusterRun(model=model, task=ClusterTask(), samples=20, trials=3, seed=4)
    streams = [stream(4, trial, "router noise") for trial in range(3)]
    wanted = [router_noise(model, streams, 20, like) for _ in range(9)]
    monkeypatch.setattr(noise, "DRAWN_AT_ONCE", ahead * 3 * 4 * 20)
    with as_on_accelerator():
        for found, step in zip(noise_of_steps(model, run, range(3), like), wanted, strict=False):
            torch.testing.assert_close(found, step, rtol=0, atol=0)


def test_the_numbers_that_a_step_declares_make_its_inputs() -> None:
    run = ClusterRun(
        model=SWITCH.replace(router_noise=2.0), task=ClusterTask(), samples=20, trials=3, seed=4, precision="float64"
    )
    learner = MixtureLearner(run, range(3))
    (draw,) = learner.step_draws.values()
    streams = [stream(4, trial, draw.purpose) for trial in range(3)]
    for (step,) in learner.inputs(4):
        raw = torch.from_numpy(np.stack([draw.of(random) for random in streams]))
        torch.testing.assert_close(learner.inputs_of({"noise": raw})[0], step, rtol=0, atol=0)


def test_a_network_that_diverges_ends_after_the_same_step_on_an_accelerator() -> None:
    ends, task = [], TurnTask()
    run = rotation.TurnRun(
        model=SmallCNN(batch_size=10), task=task, samples=60, test_samples=20, trials=1, device="cpu"
    )
    how: Any = {"trials": [0], "seed": 0, "device": "cpu", "dtype": torch.float32}
    train, test = (task.sample(count, split=split, **how) for count, split in ((60, "train"), (20, "test")))
    for form in (nullcontext(), as_on_accelerator()):
        learner = TurnLearner(run, 0, 0, train, test)
        learner.images = learner.images.clone()
        learner.images[17] = torch.nan
        with form:
            learner.advance(1)
            learner.advance(5)
        ends.append((int(learner.steps), learner.lost, learner.online()))
    assert ends[0][:2] == ends[1][:2] and ends[0][1] and 1 < ends[0][0] < 6


@needs_cuda
@pytest.mark.parametrize("name", CASES)
def test_training_on_cuda_is_training_on_the_cpu(name: str) -> None:
    """From the same draws; the first steps in float64 differ by rounding alone."""
    single = CASES[name].settings.get("precision") == "float32"
    here, there = (snapshots(name, device=device, record_every=1)[:3] for device in ("cpu", "cuda"))
    compare(there, here, 1e-4 if single else 1e-10)


@needs_cuda
@pytest.mark.parametrize("name", [*ON_PATCHES, "paper", "expert-choice, planted"])
def test_statistics_on_cuda_are_those_on_the_cpu(name: str) -> None:
    """In float32 the paths of trials may part; their means agree within the sampling error."""
    means = []
    for device in ("cpu", "cuda"):
        accuracy = snapshots(name, device=device, precision="float32", trials=60)[-1]["test_accuracy"]
        means.append((accuracy.mean(), accuracy.std() / len(accuracy) ** 0.5))
    assert abs(means[0][0] - means[1][0]) <= 3 * (means[0][1] ** 2 + means[1][1] ** 2) ** 0.5 + 1e-6
