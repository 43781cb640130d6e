"""The user's own patches as a task: the same run as generated samples, what is not known, and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from moe_lab.core.config import ConfigError
from moe_lab.core.snapshots import collect, final
from moe_lab.patch_routing import (
    CNN,
    ArrayTask,
    JointMoE,
    PatternTask,
    RoutedMoE,
    SeparateMoE,
    figures,
    plots,
    train,
)
from moe_lab.patch_routing.measures import OF_THE_SIGNAL

MODELS = (JointMoE(patches_per_expert=3), SeparateMoE(patches_per_expert=3), RoutedMoE(capacity_factor=1.0), CNN())


def generated(count: int = 400, classes: int = 2) -> dict[str, Any]:
    """Samples of the paper's data model as arrays."""
    task = PatternTask(patches=8, distractors=2, classes=classes)
    samples = task.sample(count, trials=[0], seed=4, dtype=torch.float64)
    parts = {"x": samples.patches(), "y": samples.labels, "signal": samples.signal}
    return {name: part[0].numpy() for name, part in parts.items()}


@pytest.mark.parametrize("classes", [2, 3])
def test_routers_find_the_patch_that_decides(classes: int) -> None:
    task = ArrayTask(**generated(900, classes))
    settings: dict[str, Any] = {"samples": 300, "test_samples": 150, "trials": 2, "epochs": 60, "seed": 1}
    last = final(train(JointMoE(experts=2 * classes, neurons=24, patches_per_expert=4), task, **settings))
    assert (last["test_accuracy"] > 0.9).all() and (last["coverage"] > 0.8).all()
    np.testing.assert_allclose(last["expert_load"].sum(-1), 4)
    recorded = json.loads(last.origin["config"])[0]["task"]
    assert recorded["x"]["shape"] == [900, 8, 32] and "0." not in str(recorded["x"])
    assert "ArrayTask(x=x, y=y, signal=signal)" in last.origin["call"]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_what_nobody_knows_is_nan_and_changes_nothing_else(model: Any) -> None:
    given = generated(200)
    settings: dict[str, Any] = {"samples": 60, "test_samples": 40, "trials": 2, "epochs": 3}
    known, hidden = (
        collect(train(model, ArrayTask(**{**given, "signal": signal}), **settings))
        for signal in (given["signal"], None)
    )
    for name in set(known) & OF_THE_SIGNAL:
        assert known[name].notnull().any() and hidden[name].isnull().all(), name
    for name in ("test_accuracy", "train_loss", "example_patches"):
        np.testing.assert_array_equal(known[name], hidden[name])


def test_trials_divide_each_class_in_their_own_way() -> None:
    x = np.arange(42.0)[:, None, None] * np.ones((1, 3, 2)) + np.arange(3)[:, None] / 10
    task = ArrayTask(x=x, y=np.arange(42) % 3, signal=np.arange(42) % 2, test_share=0.3)
    common: dict[str, Any] = {"trials": [0, 1], "seed": 0}
    trained, test = task.sample(30, **common), task.sample(12, **common, split="test")
    for trial in (0, 1):
        given = [(part.patches()[trial, :, 0, 0] * task.norm(trial, 0)).round().long() for part in (trained, test)]
        assert sorted(torch.cat(given).tolist()) == list(range(42))
        for part, first in zip((trained, test), given, strict=True):
            assert torch.equal(part.labels[trial], first % 3), "labels are those of the samples"
            assert torch.equal(part.labels[trial], torch.arange(len(first)) % 3), "classes take turns"
            assert torch.equal(part.signal[trial], first % 2) and part.roles[trial].sum(-1).unique().tolist() == [4]
    assert not torch.equal(trained.patches()[0], trained.patches()[1])
    assert torch.equal(task.sample(6, trials=[1], seed=0).patches()[0], trained.patches()[1, :6])
    with pytest.raises(ValueError, match=r"at most what the smallest class allows, 30: got N=33"):
        task.sample(33, **common)


def test_a_figure_of_arrays_steps_as_the_task_says() -> None:
    task = ArrayTask(**generated(200))
    asked: dict[str, Any] = {"task": task, "samples": (40, 60), "trials": 2, "epochs": 2, "test_samples": 40}
    data = figures.sample_complexity(**asked)
    assert data["test_accuracy"].notnull().all() and data.attrs["source"] == "arrays"
    assert plots.picture(data).axes, "it can be drawn"
    models = {"joint": JointMoE(learning_rate=task.learning_rate)}
    one = figures.sample_complexity(**asked, models=models, learning_rate=task.learning_rate)
    np.testing.assert_array_equal(one["test_accuracy"].sel(model="joint"), data["test_accuracy"].sel(model="joint"))
    assert task.replace(x=3 * task.x) != task
    assert task == ArrayTask(**generated(200)) and hash(task) == hash(ArrayTask(**generated(200)))


def test_a_kept_sweep_is_that_of_its_arrays(tmp_path: Path) -> None:
    given = generated(200)
    asked: dict[str, Any] = {"patches_per_expert": (2, 4), "samples": (40,), "trials": 1, "epochs": 1}
    asked |= {"test_samples": 40, "store": tmp_path}
    for count, x in ((2, given["x"]), (2, given["x"].copy()), (4, -given["x"])):
        data = figures.accuracy_by_patches(task=ArrayTask(**{**given, "x": x}), **asked)
        data.to_netcdf(tmp_path / "figure.nc")
        assert len(list(tmp_path.glob("*.npz"))) == count and data["test_accuracy"].notnull().all()


def test_wrong_arrays_are_refused() -> None:
    x, y = np.ones((4, 3, 2)), np.array([0, 1, 0, 1])
    for values, words in (
        ({"x": np.ones((4, 2)), "y": y}, r"x must be an array \(samples, patches, d\)"),
        ({"x": x * np.nan, "y": y}, "finite numbers"),
        ({"x": x, "y": y[:3]}, "the same number of samples"),
        ({"x": x, "y": None}, "y must be an array"),
        ({"x": x, "y": [-1, 1, -1, 1]}, "y must count from 0 without a gap"),
        ({"x": x, "y": [0, 2, 0, 2]}, "y must count from 0 without a gap"),
        ({"x": x, "y": [0, 0, 0, 0]}, "two or more classes"),
        ({"x": 0 * x, "y": y}, "x must hold numbers other than 0"),
        ({"x": x, "y": [0, 0, 0, 1]}, "each class must have two samples"),
        ({"x": x, "y": y, "signal": [0, 0.5, 1, 1]}, "whole numbers"),
        ({"x": x, "y": y, "signal": [0, 3, 1, 1]}, "count the 3 patches from 0"),
    ):
        with pytest.raises(ConfigError, match=words):
            ArrayTask(**values)
    task = ArrayTask(x=x, y=y)
    with pytest.raises(ConfigError, match=r"patches_per_expert \(l\) must be at most patches"):
        train(JointMoE(patches_per_expert=4), task, samples=2, test_samples=2)
    with pytest.raises(ConfigError, match=r"test_samples \(N_test\) must be at most .* allows, 2: got N_test=1000"):
        figures.accuracy_by_patches(task=task, patches_per_expert=(1,), samples=(2,), batch_size=2)
