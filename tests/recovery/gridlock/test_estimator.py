"""The estimator: scikit-learn's own checks, planted mixtures, real data, small and odd data, and what it says."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from scipy.stats import norm
from sklearn.base import clone, is_regressor
from sklearn.datasets import load_diabetes
from sklearn.ensemble import StackingRegressor, VotingRegressor
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.inspection import partial_dependence
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from moe_lab.recovery import Activation, MixtureSamples, MixtureTask, Parameters, measures
from moe_lab.recovery.activations import ACTIVATIONS
from moe_lab.recovery.gridlock.estimator import METHODS, MixtureOfExpertsRegressor
from tests.recovery import oracle

EACH_METHOD = pytest.mark.parametrize("method", METHODS)
QUIET = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def planted(samples: int = 3000, **given) -> tuple[np.ndarray, np.ndarray, MixtureSamples]:
    drawn = MixtureTask(**{"dimension": 5, **given}).sample(samples, trials=[0], seed=2)
    return drawn.x[0].numpy(), drawn.y[0].numpy(), drawn


# --- scikit-learn's checks --------------------------------------------------------------------------------------------


NEEDS_Y = "score_samples takes y: the density is that of y given X"
EXPECTED = dict.fromkeys(("check_methods_sample_order_invariance", "check_methods_subset_invariance"), NEEDS_Y)
"""Checks that call every `score_samples` with X alone, after `predict`."""


@QUIET
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learns_checks():
    mine = MixtureOfExpertsRegressor(n_init=2, max_iter=40)
    results = check_estimator(mine, on_skip=None, on_fail=None, expected_failed_checks=EXPECTED)
    assert len(results) > 45 and {one["status"] for one in results} == {"passed", "skipped", "xfail"}
    assert {one["check_name"] for one in results if one["status"] == "skipped"} <= {"check_array_api_input"}
    assert all("argument: 'y'" in str(one["exception"]) for one in results if one["status"] == "xfail")


@QUIET
def test_it_is_a_regressor_among_scikit_learns():
    """It votes, is stacked, is searched, and its partial dependence is drawn."""
    x, y = load_diabetes(return_X_y=True)
    mine = MixtureOfExpertsRegressor(max_iter=60, random_state=0)
    assert is_regressor(mine)
    voted = VotingRegressor([("mixture", mine), ("ridge", Ridge())]).fit(x, y)
    stacked = StackingRegressor([("mixture", mine)], final_estimator=Ridge(), cv=2).fit(x, y)
    assert min(voted.score(x, y), stacked.score(x, y)) > 0.45
    curve = partial_dependence(mine.fit(x, y), x, [2])["average"][0]
    assert curve[-1] > curve[0], "a larger body mass index goes with more progression"
    scaled = make_pipeline(StandardScaler(), mine).set_output(transform="pandas")
    found = GridSearchCV(scaled, {"mixtureofexpertsregressor__n_experts": [1, 2]}, cv=3).fit(x, y)
    assert found.best_score_ > 0.45


# --- how well it fits -------------------------------------------------------------------------------------------------


@QUIET
@pytest.mark.parametrize("activation", ["identity", "sigmoid"])
def test_the_likelihood_of_samples_is_that_of_the_mixture(activation):
    x, y, _ = planted(400, activation=activation, noise=0.1)
    x, y = 3 * x + 1, 10 * y - 4
    fitted = MixtureOfExpertsRegressor(activation=activation, random_state=0).fit(x, y)
    scores = fitted.score_samples(x, y)
    assert scores.mean() == pytest.approx(fitted.likelihood_, abs=1e-6)
    gates, experts = fitted.predict_gates(x), fitted.predict_experts(x)
    wanted = np.log((gates * norm.pdf(y[:, None], experts, fitted.noise_)).sum(1))
    np.testing.assert_allclose(scores, wanted, rtol=1e-9)
    line = np.linspace(y.min() - 60, y.max() + 60, 20_001)
    for row in (0, 7):
        density = np.exp(fitted.score_samples(np.repeat(x[row : row + 1], len(line), 0), line))
        mean, deviation = (one[row] for one in fitted.predict(x, return_std=True))
        moments = [np.trapezoid(density * line**power, line) for power in range(3)]
        assert moments[0] == pytest.approx(1, abs=1e-6) and moments[1] == pytest.approx(mean, abs=1e-4)
        assert np.sqrt(moments[2] - moments[1] ** 2) == pytest.approx(deviation, rel=1e-4)
    with pytest.raises(ValueError, match="y must have one number for each row of X"):
        fitted.score_samples(x, y[1:])


@QUIET
def test_bic_finds_how_many_experts_were_planted():
    x, y, _ = planted(800, experts=3, noise=0.1)
    fits = {k: MixtureOfExpertsRegressor(k, random_state=0).fit(x, y) for k in (2, 3, 4)}
    bic = {k: one.bic(x, y) for k, one in fits.items()}
    assert min(bic, key=bic.get) == 3, bic
    for k, one in fits.items():
        free = k * 6 + (k - 1) * 6 + 1
        assert one.aic(x, y) == pytest.approx(2 * free - 2 * one.score_samples(x, y).sum())
        assert bic[k] - one.aic(x, y) == pytest.approx((np.log(800) - 2) * free)


@QUIET
def test_of_one_expert_bootstrapped_errors_are_those_of_least_squares():
    random = np.random.default_rng(1)
    x = random.standard_normal((400, 3))
    y = x @ [1.0, -2.0, 0.5] + 0.7 * random.standard_normal(400)
    fitted = MixtureOfExpertsRegressor(1, method="joint-em", prior=1e-6, random_state=0).fit(x, y)
    found = fitted.bootstrap(x, y, 150, random_state=2)
    design = np.column_stack((x, np.ones(400)))
    residuals = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    wanted = np.sqrt(residuals @ residuals / 396 * np.diag(np.linalg.inv(design.T @ design)))
    np.testing.assert_allclose(found.coef[0], wanted[:3], rtol=0.3)
    np.testing.assert_allclose(found.intercept, wanted[3:], rtol=0.3)


@QUIET
def test_bootstrapped_experts_keep_their_order():
    x, y, _ = planted(1500, noise=0.1)
    fitted = MixtureOfExpertsRegressor(2, random_state=0).fit(x, y)
    found = fitted.bootstrap(x, y, 10, random_state=1)
    assert found.refits.shape == (10, *fitted.coef_.shape)
    assert np.abs(found.refits - fitted.coef_).max() < 0.2 and 0.001 < found.coef.max() < 0.05
    with pytest.raises(ValueError, match="n_resamples must be a whole number of at least 2"):
        fitted.bootstrap(x, y, 1)


# --- planted mixtures -------------------------------------------------------------------------------------------------


@EACH_METHOD
@pytest.mark.parametrize(
    "activation, noise", [("identity", 0.1), ("relu", 0.1), ("leaky-relu", 0.1), ("sigmoid", 0.05), ("tanh", 0.1)]
)
def test_a_planted_mixture_is_recovered(activation, noise, method):
    """From x and y alone: sigma, lengths and intercepts included."""
    x, y, drawn = planted(4000, activation=activation, noise=noise, gating="orthogonal")
    model = MixtureOfExpertsRegressor(activation=activation, method=method, n_init=3, random_state=0).fit(x, y)
    a, w = torch.as_tensor(model.coef_)[None], torch.as_tensor(model.gates_)[None]
    rough = method == "spectral"
    least = (0.75 if ACTIVATIONS[activation].kinks else 0.9) if rough else 0.999
    assert measures.regressor_fit(a, drawn.truth.regressors)[0] > least
    assert measures.gating_fit(w, a, drawn.truth)[0] > (0.75 if rough else 0.97)
    if not rough:
        assert model.noise_ == pytest.approx(noise, rel=0.05)
        assert abs(model.gate_intercept_).max() < 0.3
    assert model.start_ == ("random" if method == "joint-em" else "spectral")


def test_inputs_and_outputs_of_any_scale_and_place():
    """x -> x B + b, y -> 7 y + 40: predictions and gates follow, coefficients transform."""
    x, y, _ = planted()
    rng = np.random.default_rng(0)
    mix, shift = rng.standard_normal((5, 5)) * [1e-3, 1, 1, 1e4, 1], rng.standard_normal(5) * 100
    given = {"method": "joint-em", "tol": 1e-10}
    one = MixtureOfExpertsRegressor(**given, random_state=0).fit(x, y)
    two = MixtureOfExpertsRegressor(**given, random_state=0).fit(x @ mix + shift, 7 * y + 40)
    same, gates = two.predict(x @ mix + shift), two.predict_gates(x @ mix + shift)
    np.testing.assert_allclose(same, 7 * one.predict(x) + 40, rtol=1e-4, atol=1e-2)
    order = [0, 1] if abs(gates - one.predict_gates(x)).max() < 0.1 else [1, 0]
    np.testing.assert_allclose(gates[:, order], one.predict_gates(x), atol=2e-3)
    np.testing.assert_allclose((two.coef_ @ mix.T)[order] / 7, one.coef_, atol=2e-3)
    assert two.noise_ == pytest.approx(7 * one.noise_, rel=1e-3)
    assert two.likelihood_ == pytest.approx(one.likelihood_ - np.log(7), abs=1e-4)


@pytest.mark.parametrize("activation", ["identity", "relu"])
def test_attributes_are_the_mixture(activation):
    """predict, predict_gates, predict_experts and likelihood_ from the attributes, by explicit sums."""
    x, y, _ = planted(60, activation=activation, experts=3)
    model = MixtureOfExpertsRegressor(3, activation, "joint-em", max_iter=2000, n_init=1, random_state=1).fit(x, y)
    g = oracle.FUNCTIONS[activation]
    likelihood = 0.0
    for n, one in enumerate(x):
        answers = [
            model.target_shift_ + model.target_scale_ * g(a @ one + b)
            for a, b in zip(model.coef_, model.intercept_, strict=True)
        ]
        prior = oracle.softmax(model.gates_ @ one + model.gate_intercept_)
        assert model.predict_experts(x[n : n + 1])[0] == pytest.approx(answers)
        assert model.predict_gates(x[n : n + 1])[0] == pytest.approx(prior)
        assert model.predict(x[n : n + 1])[0] == pytest.approx(prior @ answers)
        density = np.exp(-((y[n] - np.array(answers)) ** 2) / 2 / model.noise_**2) / model.noise_ / np.sqrt(2 * np.pi)
        likelihood += np.log(prior @ density) / len(x)
    assert model.likelihood_ == pytest.approx(likelihood, rel=1e-6)
    assert not model.gates_[-1].any() and model.gate_intercept_[-1] == 0
    assert model.predict_gates(x).sum(1) == pytest.approx(1) and model.predict_gates(x).shape == (60, 3)
    if activation == "identity":
        assert (model.target_shift_, model.target_scale_) == (0, 1)


def test_without_intercepts_nothing_is_centred():
    x, y, _ = planted(3000)
    model = MixtureOfExpertsRegressor(fit_intercept=False, random_state=0).fit(x, y)
    assert not model.intercept_.any() and not model.gate_intercept_.any()
    assert model.predict(np.zeros((1, 5))).tolist() == [0] and model.score(x, y) > 0.6
    assert model.noise_ == pytest.approx(0.1, rel=0.05)


def test_an_activation_of_ones_own_and_targets_as_they_are():
    softplus = Activation("softplus", torch.nn.functional.softplus)
    x, y, drawn = planted(4000, noise=0.05)
    answers = torch.nn.functional.softplus((drawn.x @ drawn.truth.regressors.mT)[0]).numpy()
    y = answers[np.arange(4000), drawn.experts[0].numpy()] + 0.05 * np.random.default_rng(0).standard_normal(4000)
    model = MixtureOfExpertsRegressor(activation=softplus, scale_target=False, random_state=0).fit(x, y)
    a = torch.as_tensor(model.coef_)[None]
    assert (model.target_shift_, model.target_scale_) == (0, 1)
    assert measures.parameter_error(a, torch.as_tensor(model.gates_)[None], drawn.truth)[0] < 0.4
    assert abs(model.intercept_).max() < 0.05


# --- real data --------------------------------------------------------------------------------------------------------


def errors(x: np.ndarray, y: np.ndarray, model, splits: int = 3) -> float:
    total = 0.0
    for split in range(splits):
        x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.25, random_state=split)
        total += np.square(clone(model).fit(x_train, y_train).predict(x_test) - y_test).mean() / splits
    return total


def test_diabetes_is_one_expert():
    """More experts neither help nor harm: within 6 % of ridge, far below the variance."""
    x, y = load_diabetes(return_X_y=True)
    mixture, ridge = errors(x, y, MixtureOfExpertsRegressor(random_state=0)), errors(x, y, Ridge(0.1))
    assert mixture < 1.06 * ridge and mixture < 0.65 * y.var()
    assert errors(x, y, MixtureOfExpertsRegressor(1)) < 1.03 * ridge


@QUIET
def test_airfoil_is_several(shared_data):
    """Three experts leave two thirds of ridge's error, whatever EM began with (T2 rarely has three directions here)."""
    file = shared_data / "airfoil.csv.gz"
    if not file.exists():
        pytest.skip(f"no {file}")
    table = np.genfromtxt(file, delimiter=",", skip_header=1)
    x, y = table[:, :-1], table[:, -1]
    ridge = errors(x, y, make_pipeline(StandardScaler(), Ridge(0.1)), splits=1)
    for method in METHODS:
        model = MixtureOfExpertsRegressor(3, method=method, n_init=2, random_state=0)
        assert errors(x, y, model, splits=1) < 0.7 * ridge


def test_among_scikit_learns_tools():
    x, y, _ = planted(600)
    pipeline = make_pipeline(StandardScaler(), MixtureOfExpertsRegressor(method="joint-em", n_init=2, random_state=0))
    assert cross_val_score(pipeline, x, y, cv=3).min() > 0.6
    search = GridSearchCV(MixtureOfExpertsRegressor(random_state=0, method="joint-em"), {"n_experts": [1, 2]}, cv=2)
    assert search.fit(x, y).best_params_ == {"n_experts": 2}
    assert MixtureOfExpertsRegressor(3).set_params(prior=2.0).get_params()["prior"] == 2.0


# --- small and odd data -----------------------------------------------------------------------------------------------


@QUIET
@pytest.mark.parametrize(
    "activation, method",
    [*(("identity", method) for method in METHODS), ("relu", METHODS[0]), ("sigmoid", METHODS[0])],
)
@pytest.mark.parametrize(
    "shape, kind",
    [((2, 1), ""), ((3, 8), ""), ((20, 1), ""), ((40, 3), "constant y"), ((40, 3), "constant x"), ((40, 3), "twins")],
    ids=["two samples", "more features than samples", "one feature", "constant y", "constant x", "twin features"],
)
def test_odd_data_give_finite_answers(shape, kind, activation, method):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(shape), rng.standard_normal(shape[0])
    y = np.full_like(y, 1e6) if kind == "constant y" else y
    x = np.full_like(x, 3.0) if kind == "constant x" else x
    x[:, -1] = x[:, 0] if kind == "twins" else x[:, -1]
    model = MixtureOfExpertsRegressor(activation=activation, method=method, max_iter=30, random_state=0).fit(x, y)
    assert np.isfinite(model.predict(x)).all() and np.isfinite(model.coef_).all() and model.noise_ > 0
    assert model.predict_gates(x).sum(1) == pytest.approx(1)
    if kind == "constant y":
        assert model.predict(x) == pytest.approx(y, rel=1e-5)


def test_three_lines_without_noise():
    """One feature, three pieces: whichever expert is where, the fit is exact but at the joints."""
    x = np.linspace(-3, 3, 400)[:, None]
    y = np.select([x[:, 0] < -1, x[:, 0] < 1], [2 + x[:, 0], -1 - 2 * x[:, 0]], 3 * x[:, 0] - 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = MixtureOfExpertsRegressor(3, method="joint-em", n_init=20, prior=0.01, random_state=0).fit(x, y)
    assert model.score(x, y) > 0.99


def test_the_same_seed_gives_the_same_model():
    x, y, _ = planted(300, experts=3)
    a, b, c = (
        MixtureOfExpertsRegressor(3, method="joint-em", n_init=2, max_iter=2000, random_state=seed).fit(x, y)
        for seed in (0, 0, 5)
    )
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=1e-9)
    assert abs(a.coef_ - c.coef_).max() > 1e-3
    assert (a.predict(x) == a.predict(x)).all()


# --- what it says -----------------------------------------------------------------------------------------------------


def test_a_change_of_start_is_told():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((50, 2))
    with pytest.warns(ConvergenceWarning, match=r"^EM is initialized at random: n_experts must be at most the rank"):
        model = MixtureOfExpertsRegressor(3, random_state=0).fit(x, x[:, 0])
    assert model.start_ == "random"
    square = Activation("square", torch.square)
    with pytest.warns(ConvergenceWarning, match=r"^EM is initialized at random: with activation='square' the moments"):
        MixtureOfExpertsRegressor(2, square, random_state=0).fit(x, x[:, 0] ** 2)


def test_a_missing_convergence_is_reported():
    x, y, _ = planted(200)
    with pytest.warns(
        ConvergenceWarning, match=r"^EM has not converged: raise max_iter or tol \(got max_iter=2, tol=1e-05\)$"
    ):
        model = MixtureOfExpertsRegressor(max_iter=2, method="joint-em", random_state=0).fit(x, y)
    assert model.n_iter_ == 2


BAD = [
    ({"n_experts": 0}, r"^n_experts must be a whole number of at least 1: got n_experts=0$"),
    ({"n_experts": 2.0}, r"^n_experts must be a whole number of at least 1: got n_experts=2.0$"),
    ({"n_init": 0}, r"^n_init must be a whole number of at least 1: got n_init=0$"),
    ({"max_iter": 0}, r"^max_iter must be a whole number of at least 1: got max_iter=0$"),
    ({"method": "em"}, r"^method must be one of spectral\+em, spectral, joint-em: got method='em'$"),
    ({"activation": "swish"}, r"^activation must be one of identity, relu, .*: got activation='swish'$"),
    ({"activation": ["relu"]}, r"^activation must be one of identity, relu, .*: got activation=\['relu'\]$"),
    ({"prior": 0}, r"^prior must be greater than 0: got prior=0$"),
    ({"prior": float("nan")}, r"^prior must be greater than 0: got prior=nan$"),
    ({"tol": -1}, r"^tol must be at least 0: got tol=-1$"),
]


@pytest.mark.parametrize("values, sentence", BAD, ids=[str(row[0]) for row in BAD])
def test_bad_parameters_are_told_when_fitting(values, sentence):
    x, y, _ = planted(50)
    model = MixtureOfExpertsRegressor(**values)
    with pytest.raises(ValueError, match=sentence):
        model.fit(x, y)


def test_bad_data_are_told():
    x, y, _ = planted(50)
    with pytest.raises(ValueError, match=r"1 sample\(s\).*minimum of 2 is required"):
        MixtureOfExpertsRegressor().fit(x[:1], y[:1])
    with pytest.raises(ValueError, match=r"4 sample\(s\).*minimum of 5 is required"):
        MixtureOfExpertsRegressor(5).fit(x[:4], y[:4])
    with pytest.raises(ValueError, match="contains NaN"):
        MixtureOfExpertsRegressor().fit(np.where(x > 2, np.nan, x), y)
    with pytest.raises(ValueError, match="infinity"):
        MixtureOfExpertsRegressor().fit(x, np.where(y > y.mean(), np.inf, y))
    with pytest.raises(NotFittedError):
        MixtureOfExpertsRegressor().predict(x)
    with pytest.raises(ValueError, match="X has 4 features, but MixtureOfExpertsRegressor is expecting 5"):
        MixtureOfExpertsRegressor(random_state=0).fit(x, y).predict_gates(x[:, :4])


def test_truth_is_found_through_the_measures_of_this_room():
    """An estimator's attributes are Parameters like any other."""
    x, y, drawn = planted(3000)
    model = MixtureOfExpertsRegressor(random_state=0).fit(x, y)
    found = Parameters(torch.as_tensor(model.coef_)[None], torch.as_tensor(model.gates_)[None])
    assert measures.parameter_error(found.regressors, found.gates, drawn.truth)[0] < 0.3
