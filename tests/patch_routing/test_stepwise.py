"""The mixture in steps: equal to JointMoE, and each of its steps can be another."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from moe_lab import final
from moe_lab.patch_routing import JointMoE, PatternTask, train
from moe_lab.patch_routing import stepwise as steps
from moe_lab.patch_routing.stepwise import Steps, StepwiseMoE, stepwise

TASK = PatternTask(patches=8, dimension=8, pattern_sets=16, distractors=2)
SHORT = {"samples": 40, "trials": 2, "epochs": 3, "test_samples": 60, "precision": "float64", "measure": "last"}
SIZES = {"experts": 4, "patches_per_expert": 4}


def test_it_trains_to_the_numbers_of_the_built_in_model():
    mine, theirs = (final(train(model(**SIZES), TASK, **SHORT)) for model in (StepwiseMoE, JointMoE))
    for name in ("test_accuracy", "train_loss", "alignment", "gate_matrix", "coverage", "expert_load"):
        np.testing.assert_allclose(mine[name], theirs[name], rtol=1e-5, atol=1e-8, err_msg=name)


def test_another_step_is_another_model():
    even = Steps(softmax_gates=lambda scores, mask, dim: mask / mask.sum(dim, keepdim=True) + 0 * scores)
    last = final(train(stepwise(even, **SIZES), TASK, **SHORT))
    assert last["gate_matrix"].max() <= 0.25
    first = stepwise(even, **SIZES).initial(0, 0, steps.Sizes(8, 8, 1))["routers"]
    aligned = np.abs(first @ np.eye(8)[:2].T) / np.linalg.norm(first, axis=1)[:, None]
    np.testing.assert_allclose(np.abs(last["alignment"][0]), aligned, rtol=1e-5, atol=1e-8)  # gates give no gradient


def test_patches_choose_as_many_experts_as_make_l_patches_an_expert():
    last = final(train(StepwiseMoE(chooser="patches", **SIZES), TASK, **SHORT))
    np.testing.assert_allclose(last["expert_load"].sum((1, 2)) / 4, 4)
    scores = torch.randn(3, 4, 8, generator=torch.Generator().manual_seed(0))
    mask = steps.chosen(scores, 2, steps.BY_PATCHES)
    assert (mask.sum(1) == 2).all() and not (mask.sum(2) == 4).all()
    np.testing.assert_allclose(steps.softmax_gates(scores, mask, steps.BY_PATCHES).sum(1), 1, rtol=1e-6)


@pytest.mark.parametrize(
    ("values", "task", "rule"),
    [
        ({"chooser": "patches", "patches_per_expert": 3}, TASK, "l k must be a multiple of patches"),
        ({"experts": 3}, TASK, "neurons .m. must be divisible by experts"),
        ({}, TASK.replace(classes=4, patches=10), "for two classes"),
    ],
)
def test_what_does_not_fit_is_refused(values, task, rule):
    with pytest.raises(ValueError, match=rule):
        next(train(StepwiseMoE(**{**SIZES, **values}), task, samples=40, trials=1))
