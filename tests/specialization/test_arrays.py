"""The user's own arrays as a task: the same run as generated samples, and refusals."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

from moe_lab.core.config import ConfigError
from moe_lab.core.snapshots import final
from moe_lab.specialization import ArrayTask, ClusterTask, SingleExpert, SwitchMoE, train


def generated(count: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Samples of the paper's data model as arrays."""
    samples = ClusterTask(clusters=3, dimension=12).sample(count, trials=[0], seed=4, dtype=torch.float64)
    return samples.patches()[0].numpy(), samples.labels[0].numpy(), samples.clusters[0].numpy()


def test_experts_specialise_in_the_clusters_of_arrays() -> None:
    x, y, cluster = generated(1200)
    task = ArrayTask(x=x, y=y, cluster=cluster)
    last = final(train(SwitchMoE(experts=6, filters=8), task, samples=900, test_samples=300, trials=2, steps=200))
    assert (last["test_accuracy"] > 0.95).all() and (last["dispatch_entropy"] < 0.5 * np.log(3)).all()
    np.testing.assert_allclose(last["dispatch"].sum((1, 2)), 300)
    recorded = json.loads(last.origin["config"])[0]["task"]
    assert recorded["x"]["shape"] == [1200, 4, 12] and "0." not in str(recorded["x"])


@pytest.mark.parametrize("activation", ["cubic", "linear", "gelu"])
def test_the_mixture_computes_the_sum_over_the_patches_of_the_arrays(activation: Any) -> None:
    """The first step's loss from einsums over x."""
    x, y, cluster = generated(40)
    task, model = ArrayTask(x=x, y=y, cluster=cluster), SingleExpert(filters=4, activation=activation, biases=False)
    first = next(train(model, task, samples=20, test_samples=10, trials=1, precision="float64", seed=2))
    from moe_lab.specialization.activations import ACTIVATIONS
    from moe_lab.specialization.model import initial_single, signs

    samples = task.sample(20, trials=[0], seed=2, dtype=torch.float64)
    weights = initial_single([0], 2, model, 12)[0]
    products = torch.einsum("jd,npd->njp", weights.reshape(4, 12), samples.noise[0])
    answers = torch.einsum(
        "j,njp->n", torch.as_tensor(signs(model)).double(), ACTIVATIONS[activation].pair(products)[0]
    )
    wanted = torch.nn.functional.softplus(-samples.labels[0] * answers).mean()
    np.testing.assert_allclose(first["train_loss"], wanted, rtol=1e-10)


def test_trials_divide_the_samples_each_in_its_own_way() -> None:
    x = np.arange(40.0)[:, None] * np.ones(3)
    task = ArrayTask(x=x, y=np.where(x[:, 0] % 2, 1, -1), test_share=0.3)
    common: dict[str, Any] = {"trials": [0, 1], "seed": 0}
    trained, test = task.sample(28, **common), task.sample(12, **common, split="test")
    for trial in (0, 1):
        both = torch.cat([trained.noise[trial, :, 0, 0], test.noise[trial, :, 0, 0]]) * task.norm(trial, 0)
        assert both.sort().values.tolist() == pytest.approx(range(40), rel=1e-6)
    assert not torch.equal(trained.noise[0], trained.noise[1])
    assert torch.equal(task.sample(5, trials=[1], seed=0).noise[0], trained.noise[1, :5])
    with pytest.raises(ValueError, match=r"^samples \(n\) must be at most the train samples there are, 28: got n=29"):
        task.sample(29, **common)
    with pytest.raises(ValueError, match=r"^test_samples \(n_test\) must be at most .*, 12: got n_test=13"):
        task.sample(13, **common, split="test")


def test_wrong_arrays_are_refused() -> None:
    x, y = np.ones((4, 2)), np.array([1, -1, 1, -1])
    for values, words in (
        ({"x": np.ones(4), "y": y}, "x must be an array"),
        ({"x": x * np.nan, "y": y}, "finite numbers"),
        ({"x": x, "y": y[:3]}, "the same number of samples"),
        ({"x": x, "y": [0, 1, 0, 1]}, "y must hold -1 and"),
        ({"x": x, "y": y, "cluster": [0, 0.5, 1, 1]}, "whole numbers"),
        (
            {"x": x, "y": y, "cluster": [0, -1, 1, 1]},
            "cluster must count from 0 without a gap, .*: got cluster=\\[-1, 0, 1\\]",
        ),
        ({"x": x, "y": y, "cluster": [0, 10**8, 1, 1]}, "cluster must count from 0 without a gap"),
        ({"x": 0 * x, "y": y}, "x must hold numbers other than 0"),
    ):
        with pytest.raises(ConfigError, match=words):
            ArrayTask(**values)
    with pytest.raises(ConfigError, match="no biases on an ArrayTask"):
        train(SingleExpert(), ArrayTask(x=x, y=y))
