"""The unit of a user's data is of no account: in every room that takes arrays, a run computes the same at any scale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from moe_lab import patch_routing, specialization
from moe_lab.core.trials import stream
from moe_lab.recovery.gridlock.estimator import MixtureOfExpertsRegressor
from tests.patch_routing.test_arrays import MODELS
from tests.patch_routing.test_arrays import generated as patches
from tests.specialization.test_arrays import generated as clusters

POWERS = ((np.float16, (8.0,)), (np.float32, (2.0**-100, 2.0**100)), (np.float64, (2.0**-900, 2.0**900)))
"""Types of numbers, and powers of 2 that multiply the data without rounding (small numbers are coarse in float16)."""

SCALES = (1e-12, 1e-3, 10.0, 1e12)


def of_patches(model: Any) -> Any:
    given = patches(160)

    def run(x: np.ndarray) -> Mapping[str, np.ndarray]:
        task = patch_routing.ArrayTask(**{**given, "x": x})
        settings: dict[str, Any] = {"samples": 80, "test_samples": 40, "trials": 2, "epochs": 2, "precision": "float64"}
        *_, last = patch_routing.train(model, task, **settings)
        return last.values

    return given["x"], run


def of_clusters(model: Any) -> Any:
    x, y, cluster = clusters(160)

    def run(x: np.ndarray) -> Mapping[str, np.ndarray]:
        task = specialization.ArrayTask(x=x, y=y, cluster=cluster)
        settings: dict[str, Any] = {"samples": 80, "test_samples": 40, "trials": 2, "steps": 6, "precision": "float64"}
        *_, last = specialization.train(model, task, **settings)
        return last.values

    return x, run


def of_regression(model: MixtureOfExpertsRegressor) -> Any:
    random = stream(0, 0, "regression")
    x, sign = random.standard_normal((60, 3)), np.where(random.random(60) < 0.5, -1, 1)

    def run(x: np.ndarray) -> Mapping[str, np.ndarray]:
        size = float(np.abs(x[0, 0]))  # y has the unit of x here
        fitted = model.fit(x, x[:, 0] * sign)
        return {
            "predicted": fitted.predict(x) / size,
            "gates": fitted.predict_gates(x),
            "noise": np.array(fitted.noise_ / size),
        }

    return x, run


ROOMS: dict[str, tuple[Any, Any]] = {
    **{f"patch_routing {type(model).__name__}": (of_patches, model) for model in MODELS},
    "specialization SwitchMoE": (of_clusters, specialization.SwitchMoE(experts=3, filters=4)),
    "specialization TopKMoE": (of_clusters, specialization.TopKMoE(experts=3, filters=4)),
    "specialization SingleExpert": (of_clusters, specialization.SingleExpert(filters=4, biases=False)),
    "recovery": (of_regression, MixtureOfExpertsRegressor(n_init=2, max_iter=20, tol=10.0, random_state=0)),
}
"""What makes the arrays of a room and what trains on them: x -> the values of the last Snapshot."""


@pytest.mark.parametrize("room", ROOMS)
def test_no_result_depends_on_the_unit_of_the_data(room: str) -> None:
    """A power of 2 changes no bit; other numbers round the data by half an ulp, which a few steps multiply."""
    make, model = ROOMS[room]
    x, run = make(model)
    for kind, scales in POWERS:
        given = x.astype(kind)
        wanted = run(given)
        for scale in scales:
            for name, values in run(given * kind(scale)).items():
                said = f"{name} at {scale} in {kind.__name__}"
                np.testing.assert_array_equal(values, wanted[name], err_msg=said)
    wanted, tolerance = run(x), 2**12 * float(np.finfo(np.float64).eps)
    for scale in SCALES:
        for name, values in run(x * scale).items():
            said = f"{name} at {scale}"
            np.testing.assert_allclose(values, wanted[name], rtol=tolerance, atol=tolerance, err_msg=said)


TASKS = {
    "patch_routing": lambda x: patch_routing.ArrayTask(x=x[:, None], y=np.arange(len(x)) % 2),
    "specialization": lambda x: specialization.ArrayTask(x=x, y=np.where(np.arange(len(x)) % 2, 1, -1)),
}


@pytest.mark.parametrize("room", TASKS)
def test_the_training_samples_alone_set_the_unit(room: str) -> None:
    """Test samples are divided by the training samples' number, and other test samples change nothing in training."""
    x = stream(1, 0, "x").standard_normal((40, 5))
    task = TASKS[room](x)
    trained, tested = task.divided(3, 7)
    assert sorted([*trained, *tested]) == list(range(40))
    root = np.sqrt(np.square(x[trained]).sum(1).mean())
    assert task.norm(3, 7) == pytest.approx(root)
    np.testing.assert_allclose(task.in_unit(tested, trained)[:, 0], x[tested] / root)
    other = x.copy()
    other[tested] *= 1e6
    np.testing.assert_array_equal(TASKS[room](other).in_unit(trained, trained), task.in_unit(trained, trained))
    rest = np.zeros_like(x)
    rest[tested] = x[tested]
    assert np.isfinite(TASKS[room](rest).in_unit(np.arange(40), trained)).all()  # training samples that are all 0
