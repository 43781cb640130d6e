"""The stream of Snapshots: what is collected, what is kept, and what a saved result says of its making."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from moe_lab.core.interrupts import Interrupted, interrupted_when, stop_if_unwanted
from moe_lab.core.snapshots import Measure, Snapshot, collect, every, final
from moe_lab.patch_routing import CNN, JointMoE, PatternTask, SeparateMoE, train

MEASURES = {
    "accuracy": Measure((), "", "share that is right"),
    "load": Measure(("expert",), "patches", "patches an expert keeps"),
    "pixels": Measure(("pixel",), "", "an example", constant=True),
}


def counting(steps: int, late: int = 0, trials: int = 2) -> Iterator[Snapshot]:
    """A run of known numbers; `load` is measured from step `late` on."""
    for step in range(steps):
        values = {"accuracy": np.full(trials, step / 10), "pixels": np.arange(trials * 4.0).reshape(trials, 4)}
        if step >= late:
            values["load"] = np.full((trials, 3), float(step))
        yield Snapshot(
            step=10 * step,
            values=values,
            measures={name: MEASURES[name] for name in values},
            steps=np.full(trials, 10 * step),
            finished=np.full(trials, step == steps - 1),
            diverged=np.zeros(trials, dtype=bool),
            coords={"expert": ["a", "b", "c"]},
            origin={"seed": 4, "call": "counting()"},
        )


def test_collect_names_every_axis() -> None:
    data = collect(counting(3))
    assert data["accuracy"].dims == ("step", "trial") and data["accuracy"].values[:, 0].tolist() == [0.0, 0.1, 0.2]
    assert data["load"].dims == ("step", "trial", "expert") and data["load"].attrs["units"] == "patches"
    assert data["load"].attrs["long_name"] == "patches an expert keeps"
    assert data["step"].values.tolist() == [0, 10, 20] and data["expert"].values.tolist() == ["a", "b", "c"]
    assert data["steps"].dims == ("trial",) and data["steps"].values.tolist() == [20, 20]
    assert data.attrs == {"seed": 4, "call": "counting()"}


def test_constants_are_collected_once() -> None:
    assert collect(counting(3))["pixels"].dims == ("trial", "pixel")


def test_values_that_come_late_are_nan_before() -> None:
    load = collect(counting(4, late=2))["load"].values
    assert np.isnan(load[:2]).all() and (load[2:] == [[[2.0] * 3] * 2, [[3.0] * 3] * 2]).all()


def test_a_snapshot_prints_in_at_most_ten_lines() -> None:
    model = JointMoE(neurons=12, experts=3, patches_per_expert=3, learning_rate=1.0)
    for snapshot in train(model, PatternTask(), samples=40, trials=3, epochs=2, test_samples=40, device="cpu"):
        lines = repr(snapshot).splitlines()
        assert len(lines) <= 10 and max(map(len, lines)) <= 110
        name, values = "test_accuracy", snapshot["test_accuracy"]
        assert f"  {name}: {values.mean():.4g} ± {values.std(ddof=1):.3g}" in lines
        assert lines[0].startswith(f"Snapshot at step {snapshot.step}, 3 trials")
        assert "gate_matrix 3x3x2" in repr(snapshot)
    assert lines[0] == "Snapshot at step 4, 3 trials, 3 finished"


def test_a_snapshot_leaves_diverged_trials_out_and_names_what_is_measured() -> None:
    (snapshot,) = counting(1, trials=4)
    snapshot.values["accuracy"][:] = [np.nan, 0.5, 0.7, np.nan]
    snapshot.diverged[[0, 3]] = True
    assert repr(snapshot).splitlines()[:2] == [
        "Snapshot at step 0, 4 trials, 4 finished, 2 diverged",
        "  accuracy: 0.6 ± 0.141 (2 trials)",
    ]
    for name, said in {
        "acuracy": "'acuracy' is not measured: did you mean accuracy?",
        "nothing": "'nothing' is not measured: measured are accuracy, pixels, load",
    }.items():
        with pytest.raises(KeyError) as raised:
            snapshot[name]
        assert str(raised.value) == said


def test_of_many_measures_a_snapshot_prints_the_first() -> None:
    (snapshot,) = counting(1)
    values = {f"measure{number}": np.zeros(2) for number in range(9)}
    lines = repr(replace(snapshot, values=values)).splitlines()
    assert len(lines) == 7 and lines[-1] == "  and 4 more with a value for each trial"


def test_a_run_that_was_consumed_before() -> None:
    run = counting(2)
    assert final(run).step == 10
    for use in (collect, final):
        with pytest.raises(ValueError, match="the run gave no snapshots: was it consumed before"):
            use(run)
    assert list(every(run, 3)) == []


@pytest.mark.parametrize(
    "count, steps", [(1, [0, 10, 20, 30, 40, 50]), (2, [0, 20, 40, 50]), (5, [0, 50]), (9, [0, 50])]
)
def test_every_keeps_the_first_and_the_last(count: int, steps: list[int]) -> None:
    assert [snapshot.step for snapshot in every(counting(6), count)] == steps


def test_every_needs_a_count() -> None:
    with pytest.raises(ValueError, match="count must be at least 1: got count=0"):
        every(counting(2), 0)


def test_a_run_stops_when_it_is_no_longer_consumed() -> None:
    taken: list[int] = []

    def watched() -> Iterator[Snapshot]:
        for snapshot in counting(100):
            taken.append(snapshot.step)
            yield snapshot

    for snapshot in every(watched(), 2):
        if snapshot.step == 40:
            break
    assert taken == [0, 10, 20, 30, 40]


SMALL = {"samples": 40, "trials": 2, "test_samples": 20, "epochs": 3, "seed": 5}


@pytest.mark.parametrize("model", [JointMoE(), SeparateMoE(), CNN()], ids=lambda model: model.name)
@pytest.mark.parametrize("measure", ["every", "last"])
def test_a_real_run_survives_a_file(model, measure, tmp_path: Path) -> None:
    data = collect(train(model, PatternTask(), measure=measure, **SMALL))
    data.to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "run.nc", engine="h5netcdf") as read:
        xr.testing.assert_equal(read.load(), data)
        assert {name: read.attrs[name] for name in data.attrs} == data.attrs
        for name in data.variables:
            assert dict(read[name].attrs) == data[name].attrs


def test_a_result_says_how_to_make_it_again() -> None:
    model, task = JointMoE(experts=4, learning_rate=2), PatternTask(noise=0.5, distractors=2)
    data = collect(train(model, task, **SMALL))
    assert set(data.attrs) == {"call", "config", "seed", "device", "version", "paper"}
    names = {"train": train, "JointMoE": JointMoE, "PatternTask": PatternTask}
    again = collect(eval(data.attrs["call"], names))
    xr.testing.assert_identical(again, data)


@pytest.mark.parametrize("model", [JointMoE(), SeparateMoE(), CNN()], ids=lambda model: model.name)
def test_the_saved_config_says_which_model(model) -> None:
    import json

    (config,) = json.loads(collect(train(model, PatternTask(), **SMALL)).attrs["config"])
    assert config["model"]["kind"] == type(model).__name__ and config["task"]["kind"] == "PatternTask"
    assert config["samples"] == 40 and config["task"]["distractors"] == 4


@pytest.mark.parametrize("model", [JointMoE(), SeparateMoE(), CNN()], ids=lambda model: model.name)
def test_every_value_says_what_it_is(model) -> None:
    data = collect(train(model, PatternTask(), **SMALL))
    for name, value in data.data_vars.items():
        assert value.attrs["long_name"], name
        assert value.dims[0] in ("step", "trial"), name
    assert data.sizes["trial"] == 2 and data["test_accuracy"].dims == ("step", "trial")


def test_a_snapshot_reads_like_a_record() -> None:
    snapshot = final(counting(2))
    assert snapshot.trials == 2 and snapshot["accuracy"] is snapshot.values["accuracy"]
    with pytest.raises(AttributeError):
        snapshot.step = 3


def test_a_run_that_is_not_wanted_any_more_is_left_at_its_next_step() -> None:
    def counting() -> Iterator[int]:
        for number in range(4):
            stop_if_unwanted()
            yield number

    with interrupted_when(lambda: True), pytest.raises(Interrupted):
        next(counting())
