"""Table 1 of pmoe2023 by hand, and lemma K.1 by linear programs whose answers are checked."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from moe_lab.patch_routing import PatternTask
from moe_lab.patch_routing.theory import Sizes
from moe_lab_papers.pmoe2023.hyperplanes import divided, separating_hyperplane
from moe_lab_papers.pmoe2023.operations import operations


def test_table_1_by_hand() -> None:
    sizes = Sizes(patches=16, patches_per_expert=4, experts=8, pattern_sets=9, delta=3.0, error=0.5)
    step = {"batch_size": 20, "neurons": 40, "dimension": 100}
    separate, joint, cnn = (operations(kind, sizes, **step) for kind in ("separate", "joint", "cnn"))
    assert separate.per_iteration == 20 * 40 * 4 * 100
    assert joint.experts == 20 * 40 * 4 * 100
    assert joint.router_forward == 20 * 8 * 16 * 100 and joint.router_backward == 20 * 8 * 4**2 * 100
    assert joint.per_iteration == joint.experts + joint.router_forward + joint.router_backward
    assert cnn.per_iteration == 20 * 40 * 16 * 100
    assert separate.iterations == 4**4 * 2**8  # p and delta are left out, as in the table
    assert separate.total == 20 * 40 * 4**5 * 100 * 2**8
    assert joint.total == 20 * 40 * 8**2 * 4**3 * 100 * 2**8
    assert cnn.total == 20 * 40 * 16**5 * 100 * 2**8
    assert cnn.total / joint.total == 16**5 / (8**2 * 4**3)  # the text: reduced by n^5 / (k^2 l^3)
    assert cnn.total / separate.total == (16 / 4) ** 5


@pytest.mark.parametrize(("corners", "separable"), [([0, 1, 1, 1], True), ([0, 1, 1, 0], False)], ids=["or", "xor"])
def test_a_linear_program_separates_or_proves_that_nothing_does(corners: list[int], separable: bool) -> None:
    points, positive = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]]), np.array(corners) > 0
    found = divided(points, positive)
    assert found.separable == separable and found.gap < 1e-9
    if found.weights is not None:
        assert ((points @ found.weights[:2] + found.weights[2] > 0) == positive).all()
    if found.certificate is not None:  # both diagonals have the same middle
        assert found.certificate == pytest.approx([0.5] * 4)


def test_a_certificate_shows_that_both_classes_have_a_mean_in_common() -> None:
    task = PatternTask(pattern_sets=256, distractors=6, noise=0.0)
    found = separating_hyperplane(task, samples=300, trial=1, seed=2)
    assert not found.separable and found.certificate is not None
    sampled = task.sample(300, trials=[1], seed=2, dtype=torch.float64)
    sums, labels = sampled.patches()[0].sum(1).numpy(), sampled.labels[0].numpy()
    means = [found.certificate[labels == label] @ sums[labels == label] for label in (0, 1)]
    np.testing.assert_allclose(*means, atol=1e-9)
    assert found.certificate.min() >= 0 and found.certificate[labels == 0].sum() == pytest.approx(1)


def test_a_hyperplane_of_sums_separates_the_patches_too() -> None:
    task = PatternTask(pattern_sets=16, distractors=6, noise=0.0)
    found = separating_hyperplane(task, samples=300)
    assert found.separable and found.weights is not None
    other = task.sample(1000, trials=[0], seed=0, split="test", dtype=torch.float64)
    weights = np.tile(found.weights[:-1], task.patches)  # the same at every position
    side = other.patches()[0].flatten(1).numpy() @ weights + found.weights[-1] > 0
    assert (side == (other.labels[0].numpy() == 1)).mean() > 0.99
