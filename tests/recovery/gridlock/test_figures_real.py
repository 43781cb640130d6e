"""Figure 6: real data divided, whitened and predicted, against scikit-learn and planted mixtures."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from moe_lab.datasets import Regression, diabetes
from moe_lab.recovery import MixtureTask
from moe_lab.recovery.em import State
from moe_lab.recovery.gridlock import figures, real
from moe_lab.recovery.tensor import RankError

REAL = Path(os.environ.get("MOE_LAB_AIRFOIL", Path(__file__).parents[3] / "shared" / "data" / "airfoil.csv.gz"))
needs_real = pytest.mark.skipif(not REAL.is_file(), reason="needs the airfoil data: set MOE_LAB_AIRFOIL to its file")


def test_a_division_is_whitened_and_scaled_by_its_training_rows() -> None:
    data = diabetes.load()
    split = real.split_rows(data, seed=3, number=1)
    x, y = split.x[0].numpy(), split.y[0].numpy()
    assert x.shape == (332, 10) and split.test_x.shape == (1, 110, 10)
    np.testing.assert_allclose(x.mean(0), 0, atol=1e-9)
    np.testing.assert_allclose(np.cov(x, rowvar=False), np.eye(10), atol=1e-8)
    assert (y.min(), y.max()) == (-1, 1)
    other = real.split_rows(data, seed=3, number=2)
    assert not torch.equal(split.y, other.y)
    assert torch.equal(split.x, real.split_rows(data, seed=3, number=1).x)


def test_every_row_is_in_one_part() -> None:
    """The target tells the rows apart, and scaling it is monotone."""
    data = Regression(np.random.default_rng(0).standard_normal((40, 2)), np.arange(40.0), ("a", "b"), "t")
    split = real.split_rows(data, 0, 0)
    assert len(np.unique(np.concatenate([split.y[0], split.test_y[0]]).round(9))) == 40


def test_columns_that_say_nothing_are_refused() -> None:
    x = np.random.default_rng(0).standard_normal((40, 2))
    names = ("a", "b", "c")
    with pytest.raises(ValueError, match="no column may be a combination of others"):
        real.split_rows(Regression(np.column_stack([x, x.sum(1)]), x[:, 0], names, "t"), 0, 0)
    with pytest.raises(ValueError, match="every column must vary"):
        real.split_rows(Regression(np.column_stack([x, np.ones(40)]), x[:, 0], names, "t"), 0, 0)
    with pytest.raises(ValueError, match="the target must vary"):
        real.split_rows(Regression(x, np.ones(40), names[:2], "t"), 0, 0)


def test_a_prediction_is_the_mixtures_mean() -> None:
    a, w = torch.tensor([[[1.0, 0.0], [0.0, 2.0]]]), torch.tensor([[[0.0, 1.0], [0.0, 0.0]]])
    x = torch.tensor([[[3.0, 1.0]]])
    gate = np.e / (1 + np.e)
    np.testing.assert_allclose(real.predict(State(a, w), x), [[3 * gate + 2 * (1 - gate)]], rtol=1e-6)


def test_a_planted_mixture_is_predicted_by_what_starts_from_moments() -> None:
    """Data that are a mixture indeed: unit regressors suffice, and the error is that of the noise and of the gate."""
    task = MixtureTask(experts=2, dimension=4, noise=0.1)
    drawn = task.sample(4000, trials=[0], seed=1)
    split = real.Split(0, drawn.x[:, :3000], drawn.y[:, :3000], drawn.x[:, 3000:], drawn.y[:, 3000:])
    ideal = real.predict(State(drawn.truth.regressors, drawn.truth.gates), split.test_x)
    least = float((ideal - split.test_y).square().mean())
    errors = {name: real.error_of(name, split, task, 30, 0) for name in real.PREDICTORS}
    for name in ("spectral", "spectral-scaled", "spectral+em"):
        assert errors[name] < 1.05 * least
    assert least < 0.9 * errors["ridge"] < errors["variance"]


def test_figure_6_of_the_embedded_data() -> None:
    data = figures.figure6(trials=2, seed=31, iterations=15)
    assert data.test_error.dims == ("algorithm", "trial")
    assert data.algorithm.values.tolist() == list(real.PREDICTORS)
    mean = {str(name): float(data.test_error.sel(algorithm=name).mean()) for name in data.algorithm.values}
    assert mean["ridge"] < mean["variance"] < mean["spectral"]  # unit regressors do not fit what they were not made for
    assert mean["spectral-scaled"] < mean["spectral"]
    assert data.attrs["figure"] == "figure 6" and json.loads(data.attrs["data"])["rows"] == 442


def test_ridge_and_variance_are_scikit_learns() -> None:
    from sklearn.linear_model import Ridge
    from sklearn.metrics import mean_squared_error

    data = figures.figure6(trials=1, seed=4, methods=("variance", "ridge"))
    split = real.split_rows(diabetes.load(), 4, 0)
    guess = Ridge().fit(split.x[0], split.y[0]).predict(split.test_x[0])
    expected = [np.var(split.test_y[0].numpy()), mean_squared_error(split.test_y[0], guess)]
    np.testing.assert_allclose(data.test_error[:, 0], expected, rtol=1e-9)


@needs_real
def test_airfoil_does_not_replicate() -> None:
    """What the package says of figure 6: moments alone lose to ridge regression, EM after them ties with joint EM."""
    data = figures.figure6(
        "airfoil", REAL, 2, seed=31, methods=("ridge", "joint-em", "spectral", "spectral+em"), iterations=60
    )
    mean = {str(name): float(data.test_error.sel(algorithm=name).mean()) for name in data.algorithm.values}
    assert mean["spectral"] > 2 * mean["ridge"]
    assert mean["joint-em"] < mean["ridge"] and mean["spectral+em"] < mean["ridge"]
    assert abs(mean["spectral+em"] - mean["joint-em"]) < 0.15 * mean["joint-em"]


def test_portfolios_keep_five_of_six_weights(tmp_path: Path) -> None:
    """All 63 equal mixtures of six concepts, as UCI's, with returns that are linear in them: ridge sees it in five."""
    chosen = np.array([[number >> place & 1 for place in range(6)] for number in range(1, 64)], dtype=float)
    weights = (chosen / chosen.sum(1, keepdims=True)).round(3)
    returns = weights @ np.arange(6) + 0.01 * np.random.default_rng(0).standard_normal(63)
    path = tmp_path / "stock_portfolio.csv"
    np.savetxt(path, np.column_stack([weights, returns]), delimiter=",")
    data = figures.figure6("portfolio", path, trials=1, methods=("variance", "ridge", "joint-em"), iterations=5)
    assert json.loads(data.attrs["data"])["rows"] == 63 and len(json.loads(data.attrs["data"])["features"]) == 5
    error = data["test_error"].squeeze("trial")
    assert float(error.sel(algorithm="ridge")) < 0.02 * float(error.sel(algorithm="variance"))
    assert np.isfinite(error).all()


def test_a_division_without_a_start_is_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **named: object) -> State:
        raise RankError("T2 must have k=3 positive eigenvalues")

    monkeypatch.setattr(real, "find_regressors", refused)
    data = figures.figure6(trials=1, methods=("variance", "spectral", "spectral+em"))
    assert np.isnan(data.test_error.values[:, 0]).tolist() == [False, True, True]
