"""What a figure is said to show turns with its data."""

from __future__ import annotations

import math

import numpy as np
import pytest
import xarray as xr

from moe_lab.drawing.findings import ahead, who
from moe_lab.patch_routing import findings as of_patches
from moe_lab.recovery.gridlock import findings as of_recovery
from moe_lab.recovery.landscape import findings as of_landscape
from moe_lab.specialization import findings as of_clusters
from moe_lab.vision import findings as of_images


def test_who_is_ahead():
    assert ahead({"a": 1.0, "b": 1.04, "c": 0.9}, 0.05) == ["a", "b"]
    assert ahead({"a": 1.0, "b": 1.04, "c": math.nan}, 0.05, least=True) == ["a", "b"]
    assert ahead({"a": math.nan}, 0.05) == []
    words = "{} wins", "{} win", "all alike", "nobody"
    assert [who(names, 3, *words) for names in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "nobody", "A wins", "A and b win", "all alike",
    ]  # fmt: skip


def by_size(accuracies: list[float]) -> xr.Dataset:
    values = np.array(accuracies)[:, None, None]
    return xr.Dataset(
        {"test_accuracy": (("experts", "samples", "trial"), values)},
        {"experts": range(1, len(accuracies) + 1), "samples": [60]},
    )


@pytest.mark.parametrize(
    "accuracies, said",
    [
        ([0.9, 0.92, 0.91], "The number of experts hardly matters"),
        ([0.7, 0.9, 0.92], "Few experts cost accuracy"),
        ([0.92, 0.9, 0.7], "Many experts cost accuracy"),
        ([0.7, 0.92, 0.8], "Few experts cost accuracy, and so do many"),
    ],
)
def test_which_sizes_cost_accuracy(accuracies, said):
    assert of_patches.by_experts(by_size(accuracies)) == said


def entropies(cubic: list[float], linear: list[float]) -> xr.Dataset:
    values = np.array([cubic, linear])[:, None, :, None]
    return xr.Dataset(
        {"dispatch_entropy": (("model", "setting", "step", "trial"), values)},
        {"model": ["moe-cubic", "moe-linear"], "setting": [1], "step": [0, 50, 100]},
    )


@pytest.mark.parametrize(
    "cubic, linear, said",
    [
        ([1.3, 0.5, 0.1], [1.3, 1.2, 1.2], "Cubic experts specialise by step 50; linear ones never do"),
        ([1.3, 0.9, 0.1], [1.3, 1.2, 0.5], "Cubic experts specialise by step 100"),
        ([1.3, 0.2, 0.9], [1.3, 1.2, 1.2], "Cubic experts do not specialise in every setting"),
    ],
)
def test_when_experts_divide_the_clusters(cubic, linear, said):
    assert of_clusters.when_divided(entropies(cubic, linear)) == said


@pytest.mark.parametrize(
    "fits, said",
    [
        ([0.99, 0.5], "Spectral + EM finds the regressors"),
        ([0.99, 0.99], "All methods find the regressors"),
        ([0.9, 0.5], "No method finds all regressors"),
    ],
)
def test_who_finds_the_regressors(fits, said):
    data = xr.Dataset(
        {"regressor_fit": (("algorithm", "trial"), np.array(fits)[:, None])}, {"algorithm": ["spectral+em", "joint-em"]}
    )
    assert of_recovery.regressors_found(data) == said


@pytest.mark.parametrize(
    "stuck, said",
    [
        ([0, 3], "L₄ finds the regressors where ℓ₂ gets stuck"),
        ([2, 0], "ℓ₂ finds the regressors where L₄ is stuck"),
        ([1, 3], "ℓ₂ gets stuck more often"),
        ([0, 0], "Neither loss gets stuck"),
    ],
)
def test_which_loss_gets_stuck(stuck, said):
    values = np.array([[trial < count for trial in range(4)] for count in stuck])
    data = xr.Dataset({"stuck": (("loss", "trial"), values)}, {"loss": ["L4", "l2"]})
    assert of_landscape.who_is_stuck(data) == said


def test_which_model_of_images_is_right_most_often():
    data = xr.Dataset(
        {"test_accuracy": (("model", "trial"), np.array([[0.9], [0.95], [0.94]]))},
        {"model": ["learned", "none", "conv"]},
    )
    names = {"learned": "WRN-pMoE", "none": "no gates", "conv": "no experts"}
    assert of_images.most_accurate(data, names) == "Most often right: no gates and no experts"
