"""Trial i is the same alone and among others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from moe_lab.recovery import MixtureTask, em
from moe_lab.recovery.gridlock import JointEM, Spectral, train
from moe_lab.training import Snapshot

SETTINGS: dict[str, Any] = {"samples": 400, "seed": 4, "record_every": 3, "device": "cpu", "precision": "float64"}
SHORT: dict[str, Any] = {"power_iterations": 8, "gate_iterations": 4, "joint_iterations": 4}
MODELS = {
    "spectral": Spectral(**SHORT),
    "plain moments, gradient": Spectral(**SHORT, robust=False, gate_step="gradient"),
    "orth-als": Spectral(**SHORT, decomposition="orth-als", robust=False, restarts=4),
    "joint": JointEM(iterations=15),
    "joint, gradient": JointEM(iterations=15, gate_step="gradient", radius=1.0),
}
TASKS = {
    "identity": MixtureTask(dimension=5, noise=0.3),
    "two Gaussians": MixtureTask(dimension=5, noise=0.3, first_share=0.4),
    "relu": MixtureTask(dimension=5, activation="relu"),
    "three experts": MixtureTask(dimension=5, experts=3, gating="orthogonal"),
}
EACH_MODEL = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
EACH_TASK = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS.keys())


def compare(found: Snapshot, rows: slice, wanted: Snapshot, tolerance: float = 1e-7) -> None:
    assert found.step == wanted.step and set(found.values) == set(wanted.values)
    for name, value in wanted.values.items():
        np.testing.assert_allclose(found[name][rows], value, rtol=tolerance, atol=tolerance, err_msg=name)


@EACH_TASK
@EACH_MODEL
def test_a_trial_alone_is_the_trial_among_five(model, task):
    among = list(train(model, task, trials=5, **SETTINGS))
    alone = list(train(model, task, trials=1, first_trial=3, **SETTINGS))
    for a, b in zip(among, alone, strict=True):
        compare(a, slice(3, 4), b)
    assert np.ptp(among[-1]["cosines"], axis=0).min() > 0, "all trials are the same: the test says nothing"


@EACH_MODEL
def test_memory_does_not_show(model, monkeypatch):
    """Without products of pairs, which many trials together have no room for, the same comes out."""
    wanted = list(train(model, TASKS["identity"], trials=3, **SETTINGS))
    monkeypatch.setattr(em, "_MOST_PAIRS", 10)
    for a, b in zip(wanted, train(model, TASKS["identity"], trials=3, **SETTINGS), strict=True):
        compare(a, slice(0, 3), b)
