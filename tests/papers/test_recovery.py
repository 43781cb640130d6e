"""What is specific to gridlock2019 and gated2019: the claims that differ can be met, and readers by hand."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch
import xarray as xr

from moe_lab.recovery.landscape.losses import Weights, curvature, l4_population, shares_of
from moe_lab.recovery.landscape.run import PAPER_TASK, L4Loss, LossRun
from moe_lab.recovery.landscape.training import descend_run
from moe_lab_papers.gated2019.measures import landscape, log_descent
from moe_lab_papers.recovery_measures import third_moment
from tests.papers.small import CLAIMS, small, turned, verdict


@pytest.mark.parametrize("gating", ["orthogonal", "random"])
def test_a_table_agrees_within_one_published_deviation_and_no_farther(gating: str) -> None:
    claim = CLAIMS[f"gridlock2019/table2/{gating}-regressor-fit"]
    value, spread = claim.published.value, claim.published.spread
    assert value is not None and spread is not None
    assert claim.rule.leaning(np.array([value - 0.9 * spread, value])) == "agrees"
    assert claim.rule.leaning(np.full(3, value + 1.1 * spread)) == "differs"


def test_no_cell_of_table_1_is_left_out() -> None:
    cells = {name for name in CLAIMS if name.startswith("gridlock2019/table1/p")}
    fits = ("regressor-fit", "gating-fit")
    assert cells == {f"gridlock2019/table1/p{p}-{fit}" for p in (0.1, 0.3, 0.5, 0.7, 0.9) for fit in fits}


@pytest.mark.parametrize(("factor", "expected"), [(2, "agrees"), (1, "differs")])
def test_an_advantage_over_joint_em_would_be_found(factor: float, expected: str) -> None:
    """The claim that differs agrees where joint EM's errors are twice ours, so that its rule can be met."""

    def worse(data: xr.Dataset) -> xr.Dataset:
        data = data.copy(deep=True)
        (axis,) = (name for name in data["error"].dims if "joint-em" in data[name].values)
        data["error"].loc[{axis: "joint-em"}] = data["error"].sel({axis: "spectral+em"}) * factor
        return data

    assert turned("gridlock2019/figure4/n5000-advantage", worse) == expected


def test_the_normalised_moment_would_agree_with_the_other_sign() -> None:
    place = "gridlock2019/theorem3/normalised-moment"
    assert verdict(place) == "differs"
    assert (CLAIMS[place].values(small("gridlock2019/theorem3-moment")) < -0.9).all()
    assert turned(place, lambda data: 0 * data + 1) == "agrees"


def test_iterations_are_counted_from_the_last_that_is_far() -> None:
    data = small("gridlock2019/figure3")
    fit = xr.zeros_like(data["gates_alone"]) + 0.9
    fit.loc[{"gate_iteration": 0}] = 0.1
    fit.loc[{"gate_iteration": 2}] = 0.5
    assert CLAIMS["gridlock2019/figure3/a-gates-iterations"].values(data.assign(gates_alone=fit)).tolist() == [3, 3]


def test_a_sum_over_regressors_alone_is_told_from_one_with_gates() -> None:
    """With enough samples y's tensor differs from a sum over regressors, P3(y)'s does not."""
    data = third_moment(("identity",), trials=4, seed=3, samples=100_000)
    square = (data["z"] ** 2).median(("trial", "direction", "activation"))
    assert float(square.sel(label="P3(y)")) < 1 < float(square.sel(label="y"))


def test_both_grus_are_told_apart() -> None:
    assert verdict("gated2019/section2/gru") == "differs"
    assert verdict("gated2019/section2/gru-torch") == "in kind"


def test_the_landscape_claim_turns_when_descents_stop_early() -> None:
    assert verdict("gated2019/theorem1/landscape") == "differs"  # after 20 steps
    data = landscape((2,), trials=3, seed=2, steps=2000)
    assert verdict("gated2019/theorem1/landscape", data) == "agrees"
    assert verdict("gated2019/theorem1/scale", data) == "agrees"
    assert verdict("gated2019/theorem1/scale", data.assign(scale=1.4 * data["scale"])) == "differs"


def test_a_plateau_would_be_found() -> None:
    """Errors that stay at .5 for 100 steps and then fall to 0, against errors that fall steadily."""
    step = np.arange(0, 500, 10)
    falls = np.exp(-step / 40)
    rests = np.where(step < 200, np.maximum(0.5, falls), 0.5 * 0.9 ** (step - 200.0))
    error = np.stack([falls, rests], axis=1)[None]
    data = xr.Dataset({"regressor_error": (("loss", "step", "trial"), error)}, {"loss": ["L4"], "step": step})
    assert CLAIMS["gated2019/figure2/a-plateau"].values(data).tolist() == [0, 1]


def test_a_rest_at_a_small_delta_is_a_slow_direction_and_at_the_usual_one_a_saddle() -> None:
    """Without samples: from the same two starts, of which the second meets a saddle."""

    def least(delta: float, rate: float, step: int) -> np.ndarray:
        run = LossRun(
            model=L4Loss(ridge=delta, rate=rate, steps=1200, population=True),
            task=PAPER_TASK,
            trials=2,
            record_every=step,
        )
        rested = next(islice(descend_run(run), 1, None))
        truth = PAPER_TASK.parameters(range(2), 0)
        rows, weights = torch.as_tensor(rested["rows"]).double(), Weights(mu=0.01, penalty=1.0, ridge=delta)
        assert (rested["regressor_error"] > 0.05).any()
        return np.asarray(curvature(rows, truth.regressors, shares_of(truth.gates), weights))[:, 0]

    assert least(1.0, 0.02, 120)[1] < -0.3
    assert least(0.1, 0.01, 600)[0] == pytest.approx(0.1, abs=1e-6)


def test_curvature_is_the_slope_of_the_slope() -> None:
    truth = PAPER_TASK.parameters(range(2), 5)
    rows = torch.as_tensor(np.random.default_rng(0).standard_normal((2, 2, 10)))
    given = (truth.regressors, shares_of(truth.gates), Weights(mu=0.01, penalty=1.0, ridge=0.5))
    hessian = torch.zeros(20, 20, dtype=torch.float64)
    for number in range(20):  # by central differences, for the second trial
        step = torch.zeros(2, 20, dtype=torch.float64)
        step[1, number] = 1e-5
        up, down = (l4_population(rows + sign * step.view(2, 2, 10), *given)[1] for sign in (1, -1))
        hessian[number] = (up - down)[1].flatten() / 2e-5
    np.testing.assert_allclose(curvature(rows, *given)[1], torch.linalg.eigvalsh(hessian), atol=1e-6)


def test_the_error_rate_is_the_slope_of_the_logarithms() -> None:
    count = np.array([1000, 4000, 16000])
    error = 3 * count[:, None] ** np.array([-0.5, -1.0])
    data = xr.Dataset({"error": (("samples", "trial"), error)}, {"samples": count})
    assert CLAIMS["gated2019/theorem4/rate"].values(data) == pytest.approx([-0.5, -1.0])


def test_descents_return_what_their_docstrings_state() -> None:
    data = log_descent((1000,), trials=2, seed=2)
    assert set(data) == {"contraction", "error", "slope", "from_em"} and data["error"].dims == ("samples", "trial")
    assert 0 < float(data["contraction"].max()) < 1 and float(data["from_em"].max()) < 1e-12
