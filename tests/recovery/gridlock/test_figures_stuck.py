"""Who is stuck: by the rule written out, with and without the trials that rest, and the claim itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr

from moe_lab.recovery import MixtureTask
from moe_lab.recovery.em import EM
from moe_lab.recovery.gridlock import JointEM, Spectral, figures, stages, training, verdicts
from moe_lab.recovery.gridlock.stuck import stuck_tables

METHODS = ("spectral+em", "joint-em", "joint-em-gradient")
STUCK = {"k": (3,), "d": 5, "samples": (300,), "trials": 4, "seed": 7}
GRADIENT = JointEM(iterations=14, gate_step="gradient", gate_rate=1.0, radius=1.0)
SHORT = {"spectral_iterations": 12, "joint_iterations": 14, "window": 5}


@pytest.fixture(scope="module")
def stuck() -> xr.Dataset:
    return figures.stuck_rate(**STUCK, **SHORT, methods=METHODS)


def test_axes_and_rule(stuck: xr.Dataset) -> None:
    assert set(stuck.data_vars) == {"stuck", "converged", "regressor_fit", "gating_fit", "error"}
    for name in stuck.data_vars:
        assert stuck[name].dims == ("algorithm", "k", "samples", "trial")
    assert stuck.algorithm.values.tolist() == list(METHODS)
    assert (stuck.attrs["window"], stuck.attrs["gain"]) == (5, 0.02)


@pytest.mark.parametrize(
    ("name", "model", "last"),
    [
        ("spectral+em", Spectral(joint_iterations=12), 12),
        ("joint-em", JointEM(iterations=14), 14),
        ("joint-em-gradient", GRADIENT, 14),
    ],
)
def test_a_trial_is_stuck_by_the_rule(stuck: xr.Dataset, name: str, model, last: int) -> None:
    """Against every Snapshot of `train`, and the rule written out."""
    task = MixtureTask(experts=3, dimension=5, regressors="orthonormal")
    snapshots = list(training.train(model, task, samples=300, trials=4, seed=7))
    end, before = snapshots[-1], snapshots[-1 - 5]
    here = stuck.sel(algorithm=name).squeeze()
    np.testing.assert_allclose(here.error, end["error"], rtol=1e-6)
    np.testing.assert_allclose(here.regressor_fit, end["regressor_fit"], rtol=1e-6)
    converged = [(b - e) / b < 0.02 for b, e in zip(before["error"], end["error"], strict=True)]
    np.testing.assert_array_equal(here.converged, converged)
    expected = [c and fit < 0.95 for c, fit in zip(converged, end["regressor_fit"], strict=True)]
    np.testing.assert_array_equal(here.stuck, expected)


def test_verdicts(stuck: xr.Dataset) -> None:
    made = stuck.isel(algorithm=[0], k=[0], samples=[0]).copy(deep=True)
    made["regressor_fit"][:] = [0.99, 0.5, 0.5, np.nan]
    made["stuck"][:] = [0.0, 1.0, 0.0, np.nan]
    assert figures.verdict(made).values.ravel().tolist() == ["found", "stuck", "still moving", "diverged"]
    with pytest.raises(ValueError, match="must be what stuck_rate returned"):
        figures.verdict(made.drop_vars("stuck"))


def test_trials_that_stand_still_are_left_out_and_come_to_the_same(monkeypatch) -> None:
    """EM of trials at a fixed point is no longer computed; the results are those of computing it."""
    steps: list[int] = []

    class Counted(EM):
        def step(self, *inputs) -> None:
            steps.append(len(self.trials) if self.move_regressors else 0)
            super().step(*inputs)

    how = {**STUCK, "samples": (2000,), "methods": "spectral+em", "spectral_iterations": 100, "window": 20}
    monkeypatch.setattr(stages, "EM", Counted)
    saving = figures.stuck_rate(**how)
    assert 4 * 10 < sum(steps) < 4 * 60
    monkeypatch.setattr(verdicts, "FIXED", -1.0)
    steps.clear()
    full = figures.stuck_rate(**how)
    assert sum(steps) == 4 * 100
    xr.testing.assert_allclose(saving, full, rtol=1e-8)


def test_a_trial_without_a_spectral_start_costs_no_other(stuck: xr.Dataset) -> None:
    """With 400 samples T2 lacks some of 10 directions in all but the first trial of seed 0."""
    how = {"k": 10, "samples": 400, "methods": "spectral+em", "spectral_iterations": 20}
    few = figures.stuck_rate(**how, trials=3, seed=0).squeeze()
    assert few.error.isnull().values.tolist() == few.stuck.isnull().values.tolist() == [False, True, True]
    alone = figures.stuck_rate(**how, trials=1, seed=0).squeeze()
    np.testing.assert_allclose(few.error[0], alone.error, rtol=1e-6)


def test_resumes(stuck: xr.Dataset, tmp_path, monkeypatch) -> None:
    figures.stuck_rate(**STUCK, **SHORT, methods="joint-em", store=tmp_path)
    made = []
    monkeypatch.setattr(verdicts, "samples_of", lambda run: made.append(run.model) or training.samples_of(run))
    whole = figures.stuck_rate(**STUCK, **SHORT, methods=METHODS, store=tmp_path)
    assert made == [Spectral(joint_iterations=12), GRADIENT]
    xr.testing.assert_allclose(whole, stuck, rtol=1e-6)


def test_tables_fill_the_map_of_the_figure() -> None:
    """The last one holds the figure's numbers; cells appear one by one, the cheapest first, and stay."""
    how: dict[str, Any] = {**STUCK, **SHORT, "k": (2, 3), "samples": (300, 200), "methods": METHODS[:2]}
    how |= {"noise": 0.1, "regressors": "orthonormal"}
    tables = list(stuck_tables(**how))
    counts = [int(table.done.sum()) for table in tables]
    assert counts[0] == 0 and set(np.diff(counts)) == {0, 1} and counts[-1] == 8
    running = list(dict.fromkeys(tuple(point.values()) for table in tables for point in table.running))
    assert running[:2] == [("spectral+em", 2, 200), ("joint-em", 2, 200)] and running[-1] == ("joint-em", 3, 300)
    assert len(running) == 8
    last, figure = tables[-1].dataset(), figures.stuck_rate(**how)
    xr.testing.assert_allclose(last.drop_vars("done"), figure, rtol=1e-9)
    assert last.attrs == {**figure.attrs, "trials": 4}
    middle = tables[len(tables) // 2]
    np.testing.assert_array_equal(np.isfinite(middle["regressor_fit"]), middle["done"])
    with pytest.raises(ValueError, match="iterations must be at least window"):
        stuck_tables(**{**how, "joint_iterations": 4})


@pytest.mark.slow
def test_joint_em_is_stuck_where_the_spectral_start_is_not() -> None:
    """The claim, with 4 trials of the 20: joint EM finds one in ten, EM from the spectral start nearly all."""
    data = figures.stuck_rate(trials=4, seed=31, joint_iterations=125)
    found = (data.regressor_fit >= figures.FOUND).mean("trial").squeeze()
    assert found.sel(algorithm="spectral+em") >= 0.75
    assert found.sel(algorithm="joint-em") <= 0.5
