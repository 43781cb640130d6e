"""gated2019's figures as Datasets: what they measure, their labels, the call that makes them again, wrong questions."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
import xarray as xr

from moe_lab.core.snapshots import collect
from moe_lab.recovery import transforms
from moe_lab.recovery.landscape import figures, losses
from moe_lab.recovery.landscape.run import PAPER_TASK, L2Loss, L4Loss, LogLoss
from moe_lab.recovery.landscape.stuck import stuck_at
from moe_lab.recovery.landscape.training import descend

SMALL = {"trials": 3, "steps": 40, "dimension": 5, "batch": 128, "seed": 7}


@pytest.fixture(scope="module")
def two() -> xr.Dataset:
    return figures.l4_against_l2(**SMALL)


class TestL4AgainstL2:
    def test_is_what_descend_gives_from_the_same_starts(self, two):
        task = PAPER_TASK.replace(dimension=5)
        for name, model in (("L4", L4Loss(steps=40)), ("l2", L2Loss(steps=40))):
            alone = collect(descend(model, task, trials=3, batch=128, seed=7, record_every=10))
            np.testing.assert_array_equal(two.regressor_error.sel(loss=name), alone.regressor_error)
            np.testing.assert_array_equal(
                alone.rows.isel(step=0), next(iter(descend(L2Loss(), task, trials=3, batch=128, seed=7)))["rows"]
            )

    def test_axes_labels_and_call(self, two):
        assert two.regressor_error.dims == ("loss", "step", "trial")
        assert two.stuck.dims == two.still_falling.dims == ("loss", "trial")
        assert two.loss.values.tolist() == ["L4", "l2"]
        assert two.step.values.tolist() == [0, 10, 20, 30, 40]
        assert "E_reg" in two.regressor_error.attrs["long_name"]
        assert two.step.attrs["units"] == "updates"
        assert two.attrs["paper"] == "gated2019, figure 2 (a)"
        assert (two.attrs["seed"], two.attrs["device"]) == (7, "cpu")
        assert [run["model"]["kind"] for run in json.loads(two.attrs["config"])] == ["L4Loss", "L2Loss"]

    def test_the_excess_is_that_of_the_loss(self, two):
        assert (two.excess > 0).all()  # 40 steps are too few to arrive
        assert two.gate_to_gate.dims == ("trial",) and (abs(two.gate_to_gate) <= 1).all()
        assert "gate_to_gate" not in figures.l4_against_l2(**(SMALL | {"experts": 3, "steps": 2}))

    def test_l4_leaves_no_start_and_l2_leaves_some(self):
        """The science of the figure, with its own test of convergence, on a seed that nothing was chosen on."""
        data = figures.l4_against_l2(trials=4, seed=23, dimension=5)
        stuck = data.stuck.sum("trial")
        assert stuck.sel(loss="L4") == 0 and (data.regressor_error.sel(loss="L4", step=1200) <= 0.002).all()
        assert 1 <= stuck.sel(loss="l2") <= 3
        lost = data.stuck.sel(loss="l2")
        assert (data.gate_to_regressors.where(lost) > 0.97).sum() == lost.sum()
        assert (data.excess.where(lost) > 0.0015).sum() == lost.sum()
        assert (abs(data.excess.where(~lost)) > 0.0015).sum() == 0

    def test_stuck_needs_a_descent_that_has_stopped(self):
        steps = np.arange(100)[:, None]
        curves = 0.5 + 0 * steps, 0.9 * 0.99**steps, 0.01 + 0 * steps, np.nan * steps, 0.3 + 0.001 * steps
        errors = np.concatenate(curves, axis=1)
        stuck, falling = stuck_at(torch.as_tensor(errors))
        assert stuck.tolist() == [True, False, False, False, True]
        assert falling.tolist() == [False, True, False, False, False]


class TestOthers:
    def test_gates_given_regressors(self):
        data = figures.gates_given_regressors(trials=2, steps=4, regressor_steps=30, dimension=4, batch=64, seed=3)
        assert data.gating_error.dims == ("regressors", "step", "trial")
        assert data.regressors.values.tolist() == ["L4", "l2", "true"]
        assert data.step.values.tolist() == [0, 1, 2, 3, 4]
        assert (abs(data.regressor_error.sel(regressors="true")) < 1e-12).all()
        task = PAPER_TASK.replace(dimension=4)
        alone = collect(descend(LogLoss(steps=4), task, trials=2, batch=64, seed=3, record_every=1))
        np.testing.assert_array_equal(data.gating_error.sel(regressors="true"), alone.gating_error)

    def test_random_gates(self):
        data = figures.random_gates(trials=2, steps=5, regressor_steps=30, every=100, dimension=4, batch=64)
        assert data.regressor_error.dims == ("step", "trial")
        assert data.gating_error.dims == ("gate_step", "trial")
        assert data.gate_step.values.tolist() == [0, 5]
        assert json.loads(data.attrs["config"])[0]["task"]["gating"] == "random"

    def test_small_batches(self):
        data = figures.small_batches(trials=2, batches=(32, 64), steps=20, every=10)
        assert data.regressor_error.dims == ("batch", "step", "trial")
        assert data.batch.values.tolist() == [32, 64]
        runs = json.loads(data.attrs["config"])
        recipes = [(run["batch"], run["task"]["dimension"], run["model"]["rate"]) for run in runs]
        assert recipes == [(32, 5, 0.001), (64, 5, 0.001)]

    def test_gate_sharpness(self):
        data = figures.gate_sharpness((1.0, math.inf), cells=2, samples=50)
        assert data["median"].dims == data.largest.dims == ("convention", "sharpness", "cell")
        assert (data.largest.sel(convention="torch", sharpness=math.inf) < 1e-12).all()
        assert (data["median"].sel(convention="paper", sharpness=math.inf) > 0.01).all()


class TestSurface:
    def test_values_are_the_loss_at_the_points_of_the_plane(self):
        data = figures.loss_surface("L4", "regressor", resolution=5, samples=200, steps=20, dimension=5, batch=64)
        assert data.surface.dims == ("v", "u")
        task = PAPER_TASK.replace(dimension=5)
        truth = task.parameters([0], 0).regressors[0].numpy()
        rows = collect(descend(L4Loss(steps=20), task, trials=1, batch=64)).rows.values[-1, 0].copy()
        rows[0] -= truth.T @ truth @ rows[0]
        u, v = float(data.u[3]), float(data.v[1])
        rows[0] += u * truth[0] + v * truth[1]
        drawn = task.sample(200, trials=[0], seed=0, split="surface")
        wanted = losses.l4(
            torch.as_tensor(rows[None]), drawn.x, drawn.y, transforms("identity", 0.05), L4Loss().weights
        )[0]
        assert float(data.surface[1, 3]) == pytest.approx(float(wanted))
        np.testing.assert_allclose(data.mark_u.sel(mark="a₁*"), 1)
        np.testing.assert_allclose(data.mark_v.sel(mark="a₂*"), 1)

    @pytest.mark.parametrize("loss", ["L4", "l2"])
    def test_the_plane_of_solutions_holds_start_end_and_solution(self, loss):
        data = figures.loss_surface(loss, "solutions", resolution=4, samples=100, steps=30, dimension=5, batch=64)
        assert set(data.mark.values) == {"start", "end", "solution"}
        np.testing.assert_allclose(data.mark_off, 0, atol=1e-6)
        assert float(data.mark_u.sel(mark="solution")) == float(data.mark_v.sel(mark="solution")) == 0
        assert float(data.u[0]) < data.path_u.min() and data.path_u.max() < float(data.u[-1])

    def test_a_descent_that_arrived_sees_the_next_solution(self):
        data = figures.loss_surface("L4", "solutions", resolution=21, samples=4096, steps=300, dimension=4)
        assert "other solution" in data.mark.values
        for name in ("solution", "other solution"):  # the surface is low at both, and high between
            there = data.sel(mark=name)
            assert data.surface.sel(u=there.mark_u, v=there.mark_v, method="nearest") < data.surface.quantile(0.15)
        other = data.sel(mark="other solution")
        between = data.surface.sel(u=other.mark_u / 2, v=other.mark_v / 2, method="nearest")
        assert between > data.surface.sel(u=other.mark_u, v=other.mark_v, method="nearest") + 0.1

    def test_the_path_plane_shows_most_of_the_path(self):
        data = figures.loss_surface("l2", "path", resolution=3, samples=50, steps=50, dimension=5)
        length = np.hypot(data.path_u - data.path_u[-1], data.path_v - data.path_v[-1])
        assert float(data.off.max()) < 0.5 * float(length.max())
