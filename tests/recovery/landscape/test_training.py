"""Descents on the losses: the recipes at small size, trials apart, divergence told, batches, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from moe_lab.core.config import ConfigError
from moe_lab.core.snapshots import collect, final
from moe_lab.recovery.landscape import losses
from moe_lab.recovery.landscape.run import PAPER_TASK, RECIPES, L2Loss, L4Loss, LogLoss, LossRun
from moe_lab.recovery.landscape.training import descend, sample_batches
from moe_lab.recovery.transforms import InvalidActivationError

TASK = PAPER_TASK.replace(dimension=5)
SMALL: dict[str, Any] = {"batch": 256, "trials": 3, "seed": 2, "record_every": 10}


class TestWhatIsYielded:
    def test_steps_and_labels(self):
        data = collect(descend(L4Loss(steps=25), TASK, **SMALL))
        assert data.step.values.tolist() == [0, 10, 20, 25]
        assert data.rows.dims == ("step", "trial", "expert", "input")
        assert data.gating_error.isnull().all()
        assert data.steps.values.tolist() == [25] * 3
        assert "E_reg" in data.regressor_error.attrs["long_name"]

    def test_two_stages_are_one_stream(self):
        data = collect(descend(LogLoss(regressors=L4Loss(steps=25), steps=15), TASK, **SMALL))
        assert data.step.values.tolist() == [0, 10, 20, 25, 35, 40]
        assert data.stage[:, 0].values.tolist() == [0, 0, 0, 1, 1, 1]
        start = data.isel(step=0)
        np.testing.assert_array_equal(data.gates.isel(step=3), start.gates)  # from where all begin
        last = data.isel(step=-1)
        regressors = data.regressors.isel(step=3)
        np.testing.assert_array_equal(last.regressors, regressors)  # they stay
        first = collect(descend(L4Loss(steps=25), TASK, **SMALL)).isel(step=-1)
        np.testing.assert_allclose(abs(regressors), abs(first.regressors), atol=1e-12)
        np.testing.assert_allclose(last.regressor_error, first.regressor_error, atol=1e-12)

    @pytest.mark.parametrize(("cosine", "rates"), [(False, [0.1, 0.1, 0.1]), (True, [0.1, 0.075, 0.025])])
    def test_each_step_is_its_rate_times_the_clipped_gradient(self, cosine, rates):
        model = L4Loss(steps=3, clip=0.5, rate=0.1, cosine=cosine)
        snapshots = list(descend(model, TASK, **(SMALL | {"record_every": 1})))
        for before, after, rate in zip(snapshots, snapshots[1:], rates, strict=False):
            moved = np.linalg.norm((after["rows"] - before["rows"]).reshape(3, -1), axis=1)
            assert (before["slope"] > 0.5).all()
            np.testing.assert_allclose(moved, 0.5 * rate)

    def test_the_loss_is_that_of_the_batch_that_comes_next(self):
        run = LossRun(model=L2Loss(steps=2), task=TASK, **(SMALL | {"record_every": 1}))
        batches = sample_batches(run, "stage 0")
        for snapshot, (x, y) in zip(descend(run.model, TASK, **(SMALL | {"record_every": 1})), batches, strict=False):
            rows, gates = (torch.as_tensor(snapshot[name]) for name in ("rows", "gates"))
            wanted = losses.l2(losses.State(rows, gates), x, y, TASK.g).value
            np.testing.assert_allclose(snapshot["loss"], wanted)


class TestBatches:
    def test_a_fixed_set_is_gone_through_once_an_epoch(self):
        run = LossRun(model=L4Loss(), task=TASK, batch=50, samples=200, trials=2)
        whole = TASK.sample(200, trials=[0, 1], seed=0)
        batches = sample_batches(run, "here")
        for _ in range(2):
            epoch = torch.cat([next(batches)[1] for _ in range(4)], dim=1)
            torch.testing.assert_close(epoch.sort(1).values, whole.y.sort(1).values)
            assert not torch.equal(epoch, whole.y)

    def test_fresh_batches_never_come_again(self):
        run = LossRun(model=L4Loss(), task=TASK.replace(dimension=100), batch=1000, trials=1)
        batches = sample_batches(run, "here")
        seen = torch.cat([next(batches)[1] for _ in range(4)], dim=1)  # of four draws
        assert len(seen.unique()) == 4000

    def test_x_belongs_to_y(self):
        task = TASK.replace(noise=1e-9)
        run = LossRun(model=L4Loss(), task=task, batch=30, samples=90, trials=2)
        truth = task.parameters([0, 1], 0).regressors
        x, y = next(sample_batches(run, "here"))
        assert ((x @ truth.mT) - y[..., None]).abs().amin(2).max() < 1e-7


class TestRecipes:
    def test_fresh_batches(self):
        """All within .002 (section 4), and gates from these regressors nearly as good as from true ones."""
        fresh, found = RECIPES["fresh"], {}
        for name, model in (("L4", fresh.model), ("true", None)):
            end = final(descend(LogLoss(regressors=model), PAPER_TASK, trials=2, seed=11, record_every=10**6))
            assert (end["regressor_error"] <= 0.002).all()
            found[name] = end["gating_error"].mean()
        assert found["L4"] < found["true"] + 0.003
        assert found["true"] < 0.006

    def test_fixed_samples(self):
        recipe = RECIPES["fixed"]
        short = {"batch": 1024, "samples": 16384, "trials": 2, "seed": 5, "record_every": 10**6}
        end = final(descend(recipe.model.replace(rate=0.006, steps=1200), TASK, **short))
        assert (end["regressor_error"] <= 0.01).all()

    def test_a_small_ridge_stalls_even_in_population(self):
        """Outside the span of the regressors delta acts alone, and leaves (1 - delta rate)^s after s steps."""
        plain: dict[str, Any] = {"population": True, "cosine": False, "clip": None}
        stalled, arrived = (
            final(descend(L4Loss(ridge=ridge, **plain), PAPER_TASK, trials=4, record_every=10**6))
            for ridge in (0.01, 1.0)
        )
        truth = PAPER_TASK.parameters(range(4), 0).regressors.numpy()
        begin = next(iter(descend(L4Loss(), PAPER_TASK, trials=4)))["rows"]

        def outside(rows):
            return rows - rows @ truth.swapaxes(1, 2) @ truth

        np.testing.assert_allclose(outside(stalled["rows"]), outside(begin) * (1 - 0.01 * 0.02) ** 1200, rtol=1e-6)
        assert (stalled["regressor_error"] > 0.05).all()
        assert (arrived["regressor_error"] < 1e-6).all()

    def test_random_gates(self):
        """Which theorem 1 does not allow (figure 3)."""
        task = TASK.replace(gating="random")
        assert (final(descend(L4Loss(), task, trials=2, seed=1, record_every=10**6))["regressor_error"] < 0.002).all()

    def test_regressors_that_are_not_orthonormal_need_a_small_ridge(self):
        """delta biases the minimum: rows that have to be long to be orthogonal to all but one are dear."""
        task = TASK.replace(gating="random", regressors="random")
        slow: dict[str, Any] = {"ridge": 0.1, "rate": 0.05, "steps": 4000}
        biased, found = (
            final(descend(L4Loss(population=True, **how), task, trials=8, seed=1, record_every=10**6))
            for how in ({}, slow)
        )
        assert np.median(biased["regressor_error"]) > 0.005
        assert (found["regressor_error"] < 0.005).all()


class TestDivergence:
    def test_is_told_and_hurts_no_other(self):
        """Without clipping, at a rate for which some trials explode and some do not."""
        settings: dict[str, Any] = {"batch": 64, "trials": 8, "seed": 3, "record_every": 5}
        model = L4Loss(clip=None, rate=0.5, steps=100)
        data = collect(descend(model, TASK, **settings))
        lost = data.diverged.values
        assert lost.any() and not lost.all()
        end = data.isel(step=-1)
        assert end.regressor_error.values[lost].size == np.isnan(end.regressor_error.values[lost]).sum()
        assert np.isfinite(end.regressor_error.values[~lost]).all()
        assert (data.steps.values[lost] < 100).all() and (data.steps.values[~lost] == 100).all()
        kept = int(np.flatnonzero(~lost)[0])
        alone = collect(descend(model, TASK, **(settings | {"trials": 1}), first_trial=kept))
        np.testing.assert_allclose(alone.rows[:, 0], data.rows[:, kept], rtol=1e-8)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: descend(L4Loss(mu=-1), TASK), r"mu must be at least 0: got mu=-1"),
        (lambda: descend(L4Loss(ridge=-1), TASK), r"ridge .delta. must be at least 0"),
        (lambda: descend(L2Loss(rate=0), TASK), r"rate .eta. must be greater than 0"),
        (lambda: descend(L4Loss(clip=0), TASK), r"clip must be greater than 0"),
        (lambda: descend(LogLoss(radius=0), TASK), r"radius .R. must be greater than 0"),
        (lambda: descend(L4Loss(), TASK, batch=10, samples=5), r"batch must be at most samples .n.: got batch=10, n=5"),
        (lambda: descend(L4Loss(), TASK.replace(first_share=0.5)), r"L4 needs inputs from N.0, I.*first_share=0.5"),
        (lambda: descend(LogLoss(regressors=L4Loss()), TASK.replace(first_share=0.5)), r"L4 needs inputs from N.0, I"),
        (lambda: descend(L4Loss(), TASK, colour=1), "no parameter 'colour'"),
        (lambda: descend(L4Loss(), TASK, trials=0), "trials must be at least 1"),
        (lambda: descend(L4Loss(), TASK, device="abacus"), "device must be"),
        (lambda: LossRun(model="L4", task=TASK), "model must be L4Loss or L2Loss or LogLoss"),
    ],
)
def test_refusals_are_one_sentence_at_once(make, says):
    with pytest.raises(ValueError, match=says) as error:
        make()
    assert "\n" not in str(error.value)


def test_wrong_values_are_config_errors():
    with pytest.raises(ConfigError):
        LossRun(model=L4Loss(), task=TASK, batch=0)


def test_an_activation_without_transforms_is_refused_at_once(monkeypatch):
    def refuse(*_):
        raise InvalidActivationError("g has no Q4")

    monkeypatch.setattr("moe_lab.recovery.landscape.training.transforms", refuse)
    with pytest.raises(InvalidActivationError, match="no Q4"):
        descend(L4Loss(), TASK)
