"""Lemmas about the start and the exploration stage: loads by simulation, sums by loops, gradients by autograd."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from moe_lab.core.trials import stream
from moe_lab.specialization import ClusterRun, ClusterTask, SingleExpert, SwitchMoE
from moe_lab.specialization import model as models
from moe_lab.specialization.learners import MixtureLearner
from moe_lab.specialization.noise import router_noise
from moe_lab.specialization.theory_run import predicted_clusters
from moe_lab_papers.chen2022 import theory_start

TASK = ClusterTask.setting(3).replace(dimension=12, patches=5)
MODEL = SwitchMoE(experts=3, filters=4, initial_scale=0.1, learning_rate=0.1)
GIVEN: dict[str, Any] = {"samples": 30, "test_samples": 60, "trials": 2, "seed": 4, "precision": "float64"}
GIVEN["device"] = "cpu"


def test_the_expected_load_is_the_mean_of_many_draws() -> None:
    scores = np.random.default_rng(0).uniform(-0.4, 0.4, (6, 4))
    noise = np.random.default_rng(1).uniform(size=(20000, 6, 4))
    drawn = np.eye(4)[(scores + noise).argmax(-1)].sum(1).mean(0)
    np.testing.assert_allclose(theory_start.expected_load(scores), drawn, atol=0.03)  # four standard errors


def test_two_normal_numbers_are_close_as_often_as_an_angle_says() -> None:
    """For M = 2 and a1 > 0, a2 >= (1 - G) a1 is a wedge of the plane; it fails for a1 < 0."""
    gap = 0.3
    wedge = 2 * (math.pi / 4 - math.atan(1 - gap)) / (2 * math.pi)
    found = theory_start.second_largest(2, gap, 200_000)
    assert found == pytest.approx(wedge, abs=0.004)


def test_sums_of_lemma_d_1_by_loops() -> None:
    centers, features = theory_start.cubed_sums(TASK, (20, 40), trials=2, seed=4)
    drawn = TASK.sample(40, trials=[0, 1], seed=4, dtype=torch.float64)
    squares = {20: [0.0, 0.0], 40: [0.0, 0.0]}
    low, high = TASK.feature
    mean = (low**3 + 4 * ((low + high) / 2) ** 3 + high**3) / 6  # Simpson, exact for cubes
    for n, sums in squares.items():
        for trial in range(2):
            for k in range(TASK.clusters):
                rows = [i for i in range(n) if int(drawn.clusters[trial, i]) == k]
                y, strengths = drawn.labels[trial], drawn.strengths[trial]
                sums[0] += sum(float(y[i] * strengths[i, 1] ** 3) for i in rows) ** 2
                sums[1] += (sum(abs(float(strengths[i, 0])) ** 3 for i in rows) - mean * n / TASK.clusters) ** 2
    wanted = np.sqrt(np.array(list(squares.values())) / (2 * TASK.clusters))
    np.testing.assert_allclose(np.stack((centers, features), axis=1), wanted, rtol=1e-6)


def test_noise_products_are_the_largest_of_all_pairs() -> None:
    norm, signal, other = (float(part[0]) for part in theory_start.noise_products(TASK, (12,), 6, seed=4))
    drawn = TASK.sample(6, trials=[0], seed=4, dtype=torch.float64)
    patches = drawn.noise[0].flatten(0, 1)
    pairs = [abs(float(a @ b)) for i, a in enumerate(patches) for b in patches[:i]]
    assert (norm, other) == pytest.approx((max(float(a.norm()) for a in patches), max(pairs)))
    assert signal == pytest.approx(max(abs(float(a @ s)) for a in patches for s in drawn.signals[0]))


def test_exploration_is_compared_with_the_filters_that_the_start_singles_out() -> None:
    run = ClusterRun(model=MODEL, task=TASK, **GIVEN)
    seen = theory_start.explored(run, counted=10)
    learner = MixtureLearner(run, [0, 1])
    first, signals = learner.state.experts.clone(), learner.signals
    learner.advance(3)  # floor(sqrt(.1) / .1)
    for trial in range(2):
        own, alone, others = [], [], []
        for m in range(3):
            products = first[trial, m] @ signals[trial, : TASK.clusters].T
            j, k = divmod(int(products.argmax()), TASK.clusters)
            own.append(float(products[j, k]) / MODEL.initial_scale)
            now = learner.state.experts[trial, m] @ signals[trial].T
            alone.append(float(now[j, k]))
            now[j, k] = 0
            others.append(float(now.abs().max()))
        assert seen.start[trial] == pytest.approx(min(own))
        assert seen.own[trial] == pytest.approx(np.mean(alone))
        assert seen.other[trial] == pytest.approx(max(others))
    np.testing.assert_allclose(seen.load.sum(1), 1)
    assert ((seen.uneven >= np.abs(seen.load - 1 / 3).max(1) - 1e-12) & (seen.uneven < 1)).all()


def test_the_share_of_the_gradient_is_autograds() -> None:
    run = ClusterRun(model=MODEL, task=TASK, **GIVEN)
    learner = MixtureLearner(run, [0, 1])
    filters, clusters = np.array([[0, 1, 2], [3, 0, 1]]), np.array([[0, 1, 2], [3, 1, 0]])
    found = theory_start.gradient_along(learner, filters, clusters)
    noise = router_noise(MODEL, [stream(4, trial, "noise of a gradient") for trial in (0, 1)], 30, learner.like)
    data = TASK.sample(30, trials=[0, 1], seed=4, dtype=torch.float64)
    weights = learner.state.experts.clone().requires_grad_(True)
    winner = noise.argmax(1)  # routers are 0
    outputs = torch.einsum("tnpd,tmjd->tmnjp", data.patches(), weights).pow(3).sum((-1, -2))
    margin = data.labels * outputs.gather(1, winner[:, None])[:, 0] / 3
    (slope,) = torch.autograd.grad(torch.nn.functional.softplus(-margin).mean(1).sum(), weights)
    for trial in range(2):
        for m in range(3):
            own = -float(slope[trial, m, filters[trial, m]] @ learner.signals[trial, clusters[trial, m]])
            assert found[trial, m] == pytest.approx(own / float(slope[trial, m].norm()), rel=1e-8)


def test_loads_are_compared_within_each_group() -> None:
    """By hand: .1 over .2 in the first group of the first trial; no two experts share a cluster in the second."""
    run = ClusterRun(model=MODEL, task=TASK, **GIVEN)
    seen = theory_start.explored(run, counted=10)
    np.testing.assert_array_equal(seen.clusters, predicted_clusters(run, [0, 1]))
    load, clusters = np.array([[0.1, 0.3, 0.2, 0.4], [0.1, 0.2, 0.3, 0.4]]), np.array([[2, 0, 2, 0], [0, 1, 2, 3]])
    np.testing.assert_allclose(replace(seen, load=load, clusters=clusters).group_ratio(), [0.5, np.nan])


def test_lemmas_are_about_algorithm_1() -> None:
    for model in (SingleExpert(), models.SwitchMoE.authors()):
        with pytest.raises(ValueError, match="algorithm 1"):
            theory_start.explored(ClusterRun(model=model, task=TASK, **GIVEN))
