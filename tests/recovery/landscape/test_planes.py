"""Planes of parameters: what is marked on them, and the losses on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from moe_lab.recovery.data import Parameters
from moe_lab.recovery.em import State
from moe_lab.recovery.initialization import random_state
from moe_lab.recovery.landscape import losses
from moe_lab.recovery.landscape.planes import SAMPLES, SIDE, Plane, coordinates, plane
from moe_lab.recovery.landscape.run import PAPER_TASK, L2Loss, L4Loss, LossRun
from moe_lab.recovery.landscape.training import descend_run
from moe_lab.recovery.measures import regressor_fit


def _run(model: L4Loss | L2Loss, **task: Any) -> LossRun:
    return LossRun(model=model, task=PAPER_TASK.replace(**task), trials=2, seed=5, planes=True)


def _planes(run: LossRun) -> tuple[Plane, Parameters, State]:
    """Returns a run's planes, its true parameters and its start."""
    truth = run.task.parameters(run.trial_numbers, run.seed)
    start = random_state(run.task, run.trial_numbers, run.seed, truth.regressors)
    return plane(run, truth, start), truth, start


def _point(shown: Plane, trial: int, place: Tensor) -> Tensor:
    """Returns (1, rows, d) the parameters at a place of a trial's plane."""
    u, v = place * shown.half[trial]
    return (shown.origin[trial] + u * shown.first[trial] + v * shown.second[trial])[None]


@pytest.mark.parametrize("experts", [2, 3])
def test_l4_is_least_where_a_star_stands(experts: int) -> None:
    run = _run(L4Loss(penalty=2.0), experts=experts)
    shown, truth, _ = _planes(run)
    shares = losses.shares_of(truth.gates)
    assert shown.false.isnan().all()
    for trial, places in enumerate(shown.true):
        assert int(places.isfinite().all(1).sum()) == (4 if experts == 2 else 2)
        for place in places[places.isfinite().all(1)]:
            rows = _point(shown, trial, place).reshape(1, experts, -1)
            known = truth.regressors[[trial]], shares[[trial]]
            value, slope = losses.l4_population(rows, *known, run.model.weights)
            assert float(slope.abs().max()) < 1e-9, "not a stationary point"
            assert float(value) <= shown.values[trial].min() + 1e-9
            assert float(regressor_fit(losses.regressors_from(rows), known[0])[0]) == pytest.approx(1)


def test_l4_s_path_ends_at_a_star_of_the_plane_that_its_start_chose() -> None:
    settings: dict[str, Any] = {"trials": 6, "seed": 0, "record_every": 1200, "planes": True}
    *_, last = descend_run(LossRun(model=L4Loss(population=True), task=PAPER_TASK, **settings))
    assert (last["plane_place"][:, 2] < 0.02).all()
    apart = np.linalg.norm(last["plane_true"] - last["plane_place"][:, None, :2], axis=2)
    assert (np.nanmin(apart, axis=1) < 0.02).all()


@pytest.mark.parametrize("model", [L4Loss(penalty=2.0), L2Loss()])
def test_with_three_experts_the_start_lies_on_the_plane(model: L4Loss | L2Loss) -> None:
    first = next(iter(descend_run(_run(model, experts=3))))
    assert (first["plane_place"][:, 2] < 1e-12).all()
    assert (np.abs(first["plane_place"][:, :2]) <= 1).all() and np.abs(first["plane_place"]).max() > 0.1


@pytest.mark.parametrize("gating", ["orthogonal", "random"])
def test_l2_s_stars_are_the_truth_and_its_crosses_the_exchange(gating: str) -> None:
    shown, truth, _ = _planes(_run(L2Loss(), gating=gating))
    regressors, gate = truth.regressors[0].numpy(), truth.gates[0, 0].numpy()
    apart = regressors[0] - regressors[1]
    for marks, one, other in ((shown.true[0, :2], apart, gate), (shown.false[0], gate, apart)):
        for place in marks:
            point = _point(shown, 0, place).reshape(3, -1).numpy()
            difference = point[0] - point[1]
            np.testing.assert_allclose(point[0] + point[1], regressors[0] + regressors[1], atol=1e-12)
            cosines = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in ((difference, one), (point[2], other))]
            assert np.abs(cosines) == pytest.approx([1, 1]) and cosines[0] * cosines[1] > 0
            assert np.linalg.norm(difference) == pytest.approx(np.linalg.norm(apart))


def test_l2_s_other_valley_has_no_minimum() -> None:
    """In population, on the line where gate and a_1 - a_2 are exchanged: the shorter the gate, the less the loss."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    u, v = np.meshgrid(nodes, nodes)  # x along a_1* - a_2* and along the gate
    true = np.tanh(v / 2) * u / np.sqrt(2)
    beyond, apart = [], []
    for gate in (2.0, 1.0, 0.5, 0.2, 0.1, 0.05):
        found = np.tanh(gate * u / 2) * v / 2
        apart.append(weights @ (found * true) @ weights / (weights @ found**2 @ weights))  # the best length
        beyond.append(weights @ (apart[-1] * found - true) ** 2 @ weights / weights.sum() ** 2)
    assert (np.diff(beyond) < 0).all() and (np.diff(apart) > 0).all()
    assert beyond[-1] == pytest.approx(0.00137, abs=1e-5) and apart[-1] > 20


def test_l2_s_map_is_the_loss_of_the_library() -> None:
    run = _run(L2Loss())
    shown, _, _ = _planes(run)
    drawn = run.task.sample(SAMPLES, trials=[1], seed=5, split="surface")
    ticks = torch.linspace(-1, 1, SIDE, dtype=torch.float64)
    for row, column in ((0, 3), (14, 20), (24, 24)):
        point = _point(shown, 1, torch.stack((ticks[column], ticks[row]))).reshape(1, 3, -1)
        state = State(point[:, :2], torch.cat((point[:, 2:], torch.zeros_like(point[:, :1])), dim=1))
        value = losses.l2(state, drawn.x, drawn.y, run.task.g).value
        assert float(shown.values[1, row, column]) == pytest.approx(float(value[0]))


def test_lengths_are_those_of_the_minimiser_0_for_a_large_delta_and_nan_where_there_is_none() -> None:
    truth = PAPER_TASK.parameters([0, 1], 0)
    shares = losses.shares_of(truth.gates)
    weights = losses.Weights(0.01, 1.0, 1.0)
    expected = np.linalg.norm(losses.minimiser(truth, weights), axis=2)
    np.testing.assert_allclose(losses.lengths(shares, weights), expected)
    assert (losses.lengths(shares, weights._replace(ridge=2.0)) == 0).all()
    assert losses.lengths(shares, weights._replace(penalty=0.02)).isnan().all()


def test_nothing_is_marked_where_l4_has_no_minimum() -> None:
    shown, _, _ = _planes(_run(L4Loss(ridge=4.0)))
    assert shown.true.isnan().all() and shown.values.isfinite().all()


def test_coordinates_and_the_distance_from_a_plane() -> None:
    first, second = torch.eye(4)[:2]
    found = coordinates(torch.tensor([[2.0, 3.0, 4.0, 5.0]]), torch.ones(4), first, second)
    torch.testing.assert_close(found, torch.tensor([[1.0, 2.0, 5.0]]))
