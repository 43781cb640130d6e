"""Planes of parameters: what is marked on them, and the losses on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from moe_lab.recovery.em import State
from moe_lab.recovery.landscape import losses
from moe_lab.recovery.landscape.planes import SAMPLES, SIDE, Plane, flat, lengths, plane
from moe_lab.recovery.landscape.run import PAPER_TASK, L2Loss, L4Loss, LossRun
from moe_lab.recovery.landscape.training import descend_run
from moe_lab.recovery.measures import regressor_fit


def _run(model: L4Loss | L2Loss, **task: Any) -> LossRun:
    return LossRun(model=model, task=PAPER_TASK.replace(**task), trials=1, seed=5)


@pytest.mark.parametrize("experts", [2, 3])
def test_l4_is_least_where_a_star_stands(experts: int) -> None:
    run = _run(L4Loss(penalty=2.0), experts=experts)
    shown, truth = plane(run, 0), run.task.parameters([0], 5)
    shares = losses.shares_of(truth.gates)
    assert len(shown.true) == (4 if experts == 2 else 2) and len(shown.false) == 0
    for u, v in shown.true:
        rows = torch.as_tensor(shown.origin + u * shown.first + v * shown.second).reshape(1, experts, -1)
        value, slope = losses.l4_population(rows, truth.regressors, shares, run.model.weights)
        assert float(slope.abs().max()) < 1e-9, "not a stationary point"
        assert float(value) <= shown.values.min() + 1e-9
        assert float(regressor_fit(losses.regressors_from(rows), truth.regressors)[0]) == pytest.approx(1)


def test_l4_s_path_ends_at_a_star_of_the_plane_that_its_start_chose() -> None:
    run = LossRun(model=L4Loss(population=True), task=PAPER_TASK, trials=6, seed=0, record_every=1200)
    *_, last = descend_run(run)
    for trial in range(6):
        chosen = plane(run, trial)
        end = chosen.coordinates(flat("L4", last["rows"][[trial]], last["gates"][[trial]]))[0]
        assert end[2] < 0.02
        assert np.linalg.norm(chosen.true - end[:2], axis=1).min() < 0.02


@pytest.mark.parametrize("model", [L4Loss(penalty=2.0), L2Loss()])
def test_with_three_experts_the_start_lies_on_the_plane(model: L4Loss | L2Loss) -> None:
    run = _run(model, experts=3)
    first = next(iter(descend_run(run)))
    begin = flat("L4" if isinstance(model, L4Loss) else "l2", first["rows"][[0]], first["gates"][[0]])
    assert plane(run, 0).coordinates(begin)[0, 2] < 1e-6 < np.linalg.norm(begin)


@pytest.mark.parametrize("gating", ["orthogonal", "random"])
def test_l2_s_stars_are_the_truth_and_its_crosses_the_exchange(gating: str) -> None:
    run = _run(L2Loss(), gating=gating)
    shown, truth = plane(run, 0), run.task.parameters([0], 5)
    regressors, gate = truth.regressors[0].numpy(), truth.gates[0, 0].numpy()
    apart = regressors[0] - regressors[1]
    for marks, one, other in ((shown.true, apart, gate), (shown.false, gate, apart)):
        for u, v in marks:
            point = (shown.origin + u * shown.first + v * shown.second).reshape(3, -1)
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
    shown = plane(run, 0)
    drawn = run.task.sample(SAMPLES, trials=[0], seed=5, split="surface")
    ticks = np.linspace(-shown.half, shown.half, SIDE)
    for row, column in ((0, 3), (14, 20), (28, 28)):
        point = torch.as_tensor(shown.origin + ticks[column] * shown.first + ticks[row] * shown.second).reshape(
            1, 3, -1
        )
        state = State(point[:, :2], torch.cat((point[:, 2:], torch.zeros_like(point[:, :1])), dim=1))
        value = losses.l2(state, drawn.x, drawn.y, run.task.g).value
        assert shown.values[row, column] == pytest.approx(float(value[0]))


def test_only_what_changes_the_map_makes_a_new_one() -> None:
    run = _run(L4Loss())
    assert plane(run, 0) is plane(run.replace(model=L4Loss(rate=0.05, steps=300), batch=64), 0)
    assert plane(run, 0) is not plane(run.replace(model=L4Loss(ridge=0.5)), 0)


def test_lengths_are_those_of_the_minimiser_and_0_where_delta_is_too_large() -> None:
    truth = PAPER_TASK.parameters([0, 1], 0)
    weights = losses.Weights(0.01, 1.0, 1.0)
    expected = np.linalg.norm(losses.minimiser(truth, weights), axis=2)
    np.testing.assert_allclose(lengths(truth, weights), expected)
    assert (lengths(truth, weights._replace(ridge=2.0)) == 0).all()


def test_coordinates_and_the_distance_from_a_plane() -> None:
    first, second = np.eye(4)[:2]
    flat_ = Plane(np.ones(4), first, second, 1.0, np.zeros((0, 2)), np.zeros((0, 2)), np.eye(2))
    np.testing.assert_allclose(flat_.coordinates(np.array([[2.0, 3.0, 4.0, 5.0]])), [[1, 2, 5]])
