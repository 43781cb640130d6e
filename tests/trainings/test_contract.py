"""What holds for a training of every room: what Snapshots tell and when, how a run ends, how to make it again.

Rooms test what their papers say. That trials do not depend on each other is in test_independence.py; that devices
compute the same, in tests/test_accelerators.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from moe_lab import patch_routing, pruning, recovery, specialization, vision
from moe_lab.core.snapshots import Snapshot, collect
from moe_lab.recovery import gridlock, landscape
from moe_lab.recovery.landscape import descend
from moe_lab.vision import patches, rotation
from tests.trainings.cases import (
    FEW_OF_IMAGES,
    OF_CLUSTERS,
    OF_LOSSES,
    OF_MIXTURES,
    OF_PATCHES,
    OF_ROUTINGS,
    OF_TOKENS,
    PATCH_MODELS,
    Case,
    each,
)

TRIALS = 3
ROOMS = (patch_routing, specialization, pruning, recovery, gridlock, landscape, vision)
NAMES: dict[str, Any] = {name: getattr(room, name) for room in ROOMS for name in room.__all__}
"""What the code of a run may name; `train` is that of its room."""
MEMBERS = {
    **{f"{name}, patterns": OF_PATCHES[f"{name}, patterns"] for name in PATCH_MODELS},
    **{name: OF_PATCHES[name] for name in ("joint, noisy digits", "separate, digits", "cnn, four classes")},
    **OF_ROUTINGS,
    **OF_CLUSTERS,
    **OF_TOKENS,
    **{name: case for name, case in OF_MIXTURES.items() if name.endswith("identity") or name == "spectral, relu"},
    **OF_LOSSES,
    **FEW_OF_IMAGES,
}
"""Every model, on one task or two."""
MEASURED_LAST = {name: case for name, case in MEMBERS.items() if case.train not in (gridlock.train, descend)}
"""Trainings whose measures can be taken at the end alone."""


def same(found: Snapshot, wanted: Snapshot, case: Case, only: set[str] | None = None) -> None:
    """Two Snapshots in float64, to rounding: estimates of EM are read from sums in another order."""
    assert found.steps.tolist() == wanted.steps.tolist()
    for name in wanted.values if only is None else only:
        message = f"{name} at step {wanted.step}"
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-7, atol=1e-9, err_msg=message)


def online(case: Case) -> set[str]:
    """Measures over the samples since the record before, which depend on when records are taken."""
    since_the_record = (patch_routing.train, descend, patches.train, rotation.train)
    return {"train_loss", "train_accuracy"} if case.train in since_the_record else set()


@each(MEMBERS)
def test_two_runs_are_the_same_run(case: Case) -> None:
    for one, other in zip(case.snapshots(trials=TRIALS), case.snapshots(trials=TRIALS), strict=True):
        assert one.step == other.step
        same(one, other, case)


@each(MEMBERS)
def test_the_callers_autocast_changes_nothing(case: Case) -> None:
    """The same operations in float32, and not in bfloat16, whose numbers are 2^-8 apart; EM's sums vary in order."""
    apart = 2.0**-16 if case.train is gridlock.train else 0.0
    wanted = case.snapshots(trials=1, precision="float32")[-1]
    with torch.autocast("cpu", torch.bfloat16):
        found = case.snapshots(trials=1, precision="float32")[-1]
    for name, values in wanted.values.items():
        np.testing.assert_allclose(found[name], values, rtol=apart, atol=apart, err_msg=name)


@each(MEMBERS)
@pytest.mark.parametrize("every", [1, 4])
def test_snapshots_come_at_the_start_every_so_often_and_at_the_end(case: Case, every: int) -> None:
    snapshots = case.snapshots(trials=TRIALS, record_every=every)
    end = int(snapshots[-1].steps.max())
    assert [snapshot.step for snapshot in snapshots] == sorted({*range(0, end, every), end})
    for snapshot in snapshots:
        assert snapshot.trials == TRIALS and not snapshot.diverged.any()
        assert (snapshot.steps[~snapshot.finished] == snapshot.step).all() and (snapshot.steps <= snapshot.step).all()
        assert snapshot.finished.all() == (snapshot.step == end)


@each(MEMBERS)
def test_the_schedule_does_not_change_the_result(case: Case) -> None:
    often, seldom = (case.snapshots(trials=TRIALS, record_every=every)[-1] for every in (1, 1000))
    same(often, seldom, case, set(seldom.values) - online(case))


@each(MEASURED_LAST)
def test_measured_at_the_end_is_measured_the_same(case: Case) -> None:
    every, last = (case.snapshots(trials=TRIALS, measure=measure) for measure in ("every", "last"))
    assert [snapshot.step for snapshot in last] == [snapshot.step for snapshot in every]
    assert {name for name in last[0].values if not last[0].measures[name].constant} <= online(case)
    same(every[-1], last[-1], case, set(last[-1].values))


@each(MEMBERS)
def test_every_measure_is_there_with_its_axes(case: Case) -> None:
    first, *_, last = case.snapshots(trials=TRIALS)
    sizes: dict[str, int] = {}
    for snapshot in (first, last):
        assert set(snapshot.values) == set(first.values) <= set(snapshot.measures)
        for name, value in snapshot.values.items():
            about = snapshot.measures[name]
            assert about.meaning and value.ndim == 1 + len(about.dims) and len(value) == TRIALS, name
            for axis, size in zip(about.dims, value.shape[1:], strict=True):
                assert sizes.setdefault(axis, size) == size, f"{name} has another number of {axis}"


@each(MEMBERS)
def test_snapshots_are_records_of_their_own(case: Case) -> None:
    first, second, *_ = case.snapshots(trials=TRIALS, record_every=1)
    before = {name: value.copy() for name, value in first.values.items() if not first.measures[name].constant}
    for name in before:
        second[name].fill(7)
    second.steps[:] = 7
    assert before and (first.steps == 0).all()
    for name, value in before.items():
        np.testing.assert_array_equal(first[name], value, err_msg=name)


@each(MEMBERS)
def test_a_run_that_nobody_reads_any_more_stops(case: Case) -> None:
    run = case.train(case.model, case.task, **{**case.settings, "record_every": 1}, trials=1)
    for snapshot in run:
        if snapshot.step == 1:
            break
    run.close()  # type: ignore[attr-defined]
    assert snapshot.step == 1 and list(run) == []


@each(MEMBERS)
def test_the_consumer_keeps_its_own_threads(case: Case) -> None:
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            for _ in case.train(case.model, case.task, **case.settings, trials=1):
                assert torch.get_num_threads() == threads
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


@each(MEMBERS)
def test_a_result_says_how_to_make_it_again(case: Case) -> None:
    """The call in its attrs is code, and its config makes the same run."""
    found = collect(iter(case.snapshots(trials=2, first_trial=2)))
    again = collect(eval(found.attrs["call"], {**NAMES, "train": case.train}))
    assert again.attrs == found.attrs and found.attrs["seed"] == case.settings["seed"] and found.attrs["paper"]
    for config in json.loads(found.attrs["config"]):
        assert config["model"].pop("kind") == type(case.model).__name__
        assert type(case.model)(**config["model"]) == case.model
    assert set(again) == set(found)
    for name in found:
        assert again[name].dims == found[name].dims and again[name].attrs == found[name].attrs
        np.testing.assert_allclose(again[name], found[name], rtol=1e-7, atol=1e-9, err_msg=str(name))


@each(MEMBERS)
def test_the_device_is_chosen_and_told(case: Case) -> None:
    run: Callable[..., Any] = lambda device: next(  # noqa: E731
        case.train(case.model, case.task, **{**case.settings, "device": device}, trials=1)
    )
    assert run("cpu").origin["device"] == "cpu"
    assert run("auto").origin["device"] == "cpu", "steps as small as these stay on the CPU"
