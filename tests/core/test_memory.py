"""Estimates of memory against what runs allocate, and what happens where they do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from moe_lab import patch_routing, pruning, specialization
from moe_lab.core import memory
from moe_lab.core.graphs import as_on_accelerator
from moe_lab.core.memory import Need, check, trials_at_once, trials_in_groups
from moe_lab.core.snapshots import final
from moe_lab.core.training import Training
from moe_lab.patch_routing import DigitTask, JointMoE, SeparateMoE
from moe_lab.patch_routing.grid_points import batches_of
from moe_lab.pruning import TokenMoE, TokenTask
from moe_lab.pruning.training import TokenTraining
from moe_lab.recovery import MixtureTask, gridlock
from moe_lab.recovery.gridlock import JointEM
from moe_lab.specialization import ClusterTask, SwitchMoE, TopKMoE
from moe_lab.specialization.training import ClusterTraining
from tests.helpers.peak import Peak

CPU = torch.device("cpu")
LAST: dict[str, Any] = {"device": "cpu", "record_every": 100}
SWITCH = SwitchMoE(router_noise=0)
PATCHES: dict[str, Any] = {"task": DigitTask(), "samples": 200, "test_samples": 200, "trials": 30, "epochs": 1, **LAST}
CLUSTERS: dict[str, Any] = {"task": ClusterTask(), "samples": 2000, "test_samples": 1000, "steps": 2, **LAST}
RUNS: dict[str, tuple[Any, Any]] = {
    "joint": (patch_routing, patch_routing.PatchRun(model=JointMoE(batch_size=100), measure="last", **PATCHES)),
    "separate": (patch_routing, patch_routing.PatchRun(model=SeparateMoE(batch_size=100), measure="last", **PATCHES)),
    "switch": (specialization, specialization.ClusterRun(model=SWITCH, trials=4, **CLUSTERS)),
    "switch of gelu": (
        specialization,
        specialization.ClusterRun(model=SWITCH.replace(activation="gelu"), trials=2, **CLUSTERS),
    ),
    "top-k": (
        specialization,
        specialization.ClusterRun(model=TopKMoE(experts_per_sample=2, shared=1, router_noise=0), trials=4, **CLUSTERS),
    ),
    "tokens": (pruning, pruning.TokenRun(model=TokenMoE(), task=TokenTask(), trials=3, steps=2, **LAST)),
    "mixtures": (
        gridlock,
        gridlock.MixtureRun(
            model=JointEM(iterations=3), task=MixtureTask(dimension=20), samples=9000, trials=3, **LAST
        ),
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_an_estimate_is_within_twice_of_what_a_run_allocates(name: str) -> None:
    room, run = RUNS[name]
    train = room.train_run if room is not patch_routing else lambda run: patch_routing.train_batch([run])
    with as_on_accelerator(), Peak() as peak:
        final(train(run))
    estimate = run.trials * run.memory.per_trial
    assert 0.5 * peak.most <= estimate <= 2 * peak.most, f"{estimate / peak.most:.2f} of {peak.most / 1e6:.0f} MB"


def test_trials_come_in_groups_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    need = Need(per_trial=100, shared=1000)
    assert trials_at_once(need, 10**6, CPU) == 10**6  # a CPU is not asked
    monkeypatch.setattr(memory, "free_bytes", lambda device: 4000 / memory.SHARE)
    assert trials_at_once(need, 7, CPU) == 7 and trials_at_once(need, 1000, CPU) == 30
    assert trials_in_groups(need, 70, CPU) == 30, "three groups stay on the device, in twice the room"
    with pytest.raises(RuntimeError, match=r"^71 trials at once of this run must fit into 80% .*: got about 7.54e-06"):
        trials_in_groups(need, 71, CPU)
    check(need, 30, CPU)
    with pytest.raises(RuntimeError, match=r"^31 trials at once of this run must fit into 40% .*: got about 3.82e-06"):
        check(need, 31, CPU)
    with pytest.raises(RuntimeError, match=r"^a trial of this run must fit into"):
        trials_at_once(Need(per_trial=3001, shared=1000), 5, CPU)


@pytest.mark.parametrize(("name", "training_of"), [("switch", ClusterTraining), ("tokens", TokenTraining)])
def test_groups_that_fit_train_as_all_together(
    name: str, training_of: type[Training[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    room, run = RUNS[name]
    run = run.replace(trials=3, test_samples=100, precision="float64", **({"samples": 90} if name == "switch" else {}))
    with as_on_accelerator():
        together = final(room.train_run(run))
        room_for_two = run.memory.of(2) / memory.SHARE
        monkeypatch.setattr(memory, "free_bytes", lambda device: room_for_two)
        training = training_of(run)  # type: ignore[call-arg]
        assert [len(group.trials) for group in training.learners] == [2, 1]
        in_groups = final(training.snapshots())
    for value, other in ((together[key], in_groups[key]) for key in together.values):
        np.testing.assert_allclose(other, value, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["joint", "mixtures"])
def test_a_run_that_does_not_fit_is_refused_before_it_draws_anything(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, run = RUNS[name]
    monkeypatch.setattr(memory, "free_bytes", lambda device: 1000.0)
    monkeypatch.setattr(type(run.task), "sample", None)
    train = room.train_run if room is not patch_routing else lambda run: patch_routing.train_batch([run])
    with pytest.raises(RuntimeError, match=f"^{run.trials} trials at once of this run must fit into 40%"):
        next(train(run))


def test_a_map_comes_in_batches_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    _, run = RUNS["separate"]
    points = [{"samples": count} for count in (100, 120, 140, 160, 180)]
    runs = [run.replace(trials=100, **point) for point in points]
    assert [len(part) for part in batches_of(runs)(points)] == [5]  # eight hundred rows on a CPU
    assert [len(part) for part in batches_of([run.replace(trials=200) for run in runs])(points)] == [4, 1]
    both = [{"samples": count, "patches_per_expert": kept} for count in (100, 120) for kept in (3, 1, 2)]
    parts = list(batches_of([run.replace(trials=200) for run in runs])(both))
    assert parts == [sorted(both[:3], key=str), sorted(both[3:], key=str)], "the same N together, in the order of l"
    several = list(batches_of(runs, jobs=2)(points))
    assert several == [[point] for point in reversed(points)], "what takes longest begins first"
    room = runs[-1].memory.of(250) / memory.SHARE
    monkeypatch.setattr(memory, "free_bytes", lambda device: room)
    assert [len(part) for part in batches_of(runs)(points)] == [2, 2, 1]
