"""The estimator beside the published example of the R package meteorits, and beside a loop of scikit-learn's parts.

The example (`emNMoE` in meteorits' README, MIT licence) simulates 500 samples, x from -1 to 1: expert 1 answers with
probability sigmoid(8 x), with slope 2.5, the other with slope -2.5, both with noise 1. Each version of that README
shows another sample: R's random numbers were not fixed. So what is compared is what fits of such samples come to.
"""

from __future__ import annotations

import statistics
import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, LogisticRegression

from benchmarks.measure import Result, in_turns, ratio
from moe_lab.recovery.gridlock.estimator import MixtureOfExpertsRegressor

PUBLISHED_LIKELIHOODS = (-732.2676, -743.9596, -677.5553, -716.3654, -744.5789)
PUBLISHED_SLOPES = (2.792, 2.624, 2.266, 2.411, 2.216, 2.651, 2.110, 3.030, 2.812, 2.729)
"""Of five versions of the README: log-likelihoods of all 500 samples, and absolute slopes of both experts."""
SAMPLES, STARTS, TOLERANCE = 500, 5, 1e-7
WEAK = 1e-3  # the prior, in samples: meteorits has none, and without one a gate may grow without bound


class Fit(NamedTuple):
    """A fit of two linear experts: the log-likelihood of all samples, and the absolute slopes."""

    likelihood: float
    slopes: tuple[float, ...]


def run(tiny: bool = False) -> list[Result]:
    """With `tiny`, few samples of the example, one start and one round."""
    starts = 1 if tiny else STARTS
    fits = [ours(*example(seed)) for seed in range(2 if tiny else 40)]
    likelihoods, slopes = [one.likelihood for one in fits], [slope for one in fits for slope in one.slopes]
    x, y = example(0)
    mine, theirs = ours(x, y, starts), loop(x, y, starts)
    seconds = in_turns(
        {"mine": lambda: ours(x, y, starts), "loop": lambda: loop(x, y, starts)}, calls=1, rounds=1 if tiny else 5
    )
    spread = f"published: {statistics.mean(PUBLISHED_LIKELIHOODS):.0f} ± {statistics.stdev(PUBLISHED_LIKELIHOODS):.0f}"
    return [
        Result("estimator_likelihood", statistics.mean(likelihoods), "nats",
               note=f"± {statistics.stdev(likelihoods):.0f} over {len(fits)} samples of meteorits' example; {spread}"),
        Result("estimator_slope", statistics.mean(slopes), "y per x",
               note=f"± {statistics.stdev(slopes):.2f}, true 2.5; published: {statistics.mean(PUBLISHED_SLOPES):.2f} ± "
               f"{statistics.stdev(PUBLISHED_SLOPES):.2f}"),
        Result("estimator_below_loop", max(0.0, theirs.likelihood - mine.likelihood), "nats", 0.1,
               note="by how much the log-likelihood of a sample is below that of a loop of scikit-learn's parts"),
        Result("estimator_over_loop", ratio(seconds["loop"], seconds["mine"]), "times", 2.0, "at least"),
        Result("estimator_fit", statistics.median(seconds["mine"]), "CPU s", note=f"{starts} starts to convergence"),
    ]  # fmt: skip


def example(seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Simulates meteorits' example: x (500, 1) and y (500,)."""
    random = np.random.default_rng(seed)
    x = np.linspace(-1, 1, SAMPLES)
    slope = np.where(random.random(SAMPLES) < expit(8 * x), 2.5, -2.5)
    return x[:, None], slope * x + random.standard_normal(SAMPLES)


def ours(x: NDArray[np.float64], y: NDArray[np.float64], starts: int = STARTS) -> Fit:
    """The estimator's fit."""
    model = MixtureOfExpertsRegressor(
        2, method="joint-em", prior=WEAK, n_init=starts, max_iter=5000, tol=TOLERANCE, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x, y)
    return Fit(float(model.likelihood_) * len(y), tuple(map(float, np.abs(model.coef_[:, 0]))))


def loop(x: NDArray[np.float64], y: NDArray[np.float64], starts: int = STARTS) -> Fit:
    """The same EM, start by start, with weighted regressions for the experts and for the gate."""
    random = np.random.default_rng(0)
    return max((_from_a_start(x, y, random.random(len(y))) for _ in range(starts)), key=lambda fit: fit.likelihood)


def _from_a_start(x: NDArray[np.float64], y: NDArray[np.float64], first: NDArray[np.float64]) -> Fit:
    twice, which = np.concatenate((x, x)), np.repeat([0, 1], len(y))
    weights, before = np.stack((first, 1 - first)), -np.inf
    while True:
        experts = [LinearRegression().fit(x, y, sample_weight=weight) for weight in weights]
        residuals = np.stack([y - expert.predict(x) for expert in experts])
        sigma = np.sqrt((weights * residuals**2).sum() / len(y))
        gate = LogisticRegression(C=1 / WEAK, max_iter=1000).fit(twice, which, sample_weight=weights.ravel())
        joint = gate.predict_log_proba(x).T + norm.logpdf(residuals, scale=sigma)
        total = logsumexp(joint, axis=0)
        if total.mean() - before <= TOLERANCE:
            return Fit(float(total.sum()), tuple(abs(float(expert.coef_[0])) for expert in experts))
        weights, before = np.exp(joint - total), total.mean()
