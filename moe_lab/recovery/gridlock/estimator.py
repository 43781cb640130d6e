"""A mixture of experts for real data, as a scikit-learn estimator (gridlock2019, appendix H.2).

    y = g(<a_z, x> + b_z) + sigma xi,   z ~ softmax(<w_1, x> + v_1, ..., <w_k, x> + v_k),   w_k = 0, v_k = 0

Departs from the paper: inputs are whitened and y is scaled, to be closer to the assumptions of the moments; experts and
gates have intercepts; regressors from moments, which are directions, are given lengths; and sigma is fitted. Taken
literally, with unit regressors and sigma = .1, the method predicts worse than the mean of y.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp, softmax
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.core.numbers import without_losses
from moe_lab.core.signatures import with_notebook
from moe_lab.core.trials import threads_for
from moe_lab.recovery.activations import Activation, activation_of
from moe_lab.recovery.data import Inputs
from moe_lab.recovery.em import State
from moe_lab.recovery.gridlock.fitting import Fitted, em_iterations, until_convergence
from moe_lab.recovery.gridlock.run import Spectral
from moe_lab.recovery.gridlock.spectral import find_regressors
from moe_lab.recovery.tensor import RankError
from moe_lab.recovery.transforms import InvalidActivationError, gaussian_moments, transforms

METHODS = ("spectral+em", "spectral", "joint-em")
Data = Any  # array-likes; scikit-learn's validation raises its own errors for other types
_FLAT = 1e-10  # largest variance along a direction, relative to the maximum, that counts as none
_CONSTANT = 1e-6  # scale of a target that does not vary, relative to its size: what EM finds there is rounding


class _Scaled(NamedTuple):
    """The scaled data of EM and the inverse transform: z = (x - centre) whiten, y = shift + scale (scaled y)."""

    z: NDArray[np.float64]
    y: NDArray[np.float64]
    centre: NDArray[np.float64]
    whiten: NDArray[np.float64]
    shift: float
    scale: float


class StandardErrors(NamedTuple):
    """Standard errors of a fitted mixture's experts, from refitted resamples.

    Attributes:
      coef: (k, d) of `coef_`; intercept: (k,) of `intercept_`.
      refits: (R, k, d) `coef_` of each resample, its experts in the order of the fitted ones.
    """

    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]
    refits: NDArray[np.float64]


def _exponent(values: NDArray[np.float64]) -> NDArray[np.int32]:
    """The exponent of 2 of each column's largest number; 0 for a column of zeros."""
    return np.asarray(np.frexp(np.abs(values).max(0))[1])


@with_notebook
class MixtureOfExpertsRegressor(RegressorMixin, BaseEstimator):
    """A mixture of generalised linear experts with a softmax gate.

    >>> from sklearn.datasets import load_diabetes
    >>> from moe_lab.recovery.gridlock.estimator import MixtureOfExpertsRegressor
    >>> x, y = load_diabetes(return_X_y=True)
    >>> model = MixtureOfExpertsRegressor(n_experts=2, random_state=0).fit(x, y)
    >>> model.predict_gates(x[:1]).shape
    (1, 2)

    The number of experts is chosen as that of a Gaussian mixture's components: by `bic`, the lower the better.

    Args:
      n_experts: k, at least 1; a single expert is a regression with a weak prior.
      activation: g, a name in `ACTIVATIONS` or an `Activation`.
      method: "spectral+em", EM of all parameters, initialized by regressors from moments; "spectral", EM of the gates,
        the regressors' lengths and the intercepts, with fixed directions; "joint-em", EM from random initializations.
      fit_intercept: whether experts and gates have intercepts; if not, x and y are not centred either.
      scale_target: whether to fit shift + scale g(.) instead of g(.), with both chosen such that y has the mean and the
        variance of g(Z), Z ~ N(0, 1). For the identity there is no difference.
      prior: strength of the shrinkage of each coefficient of the whitened inputs, in samples.
      n_init: number of random initializations of "joint-em"; the one with the largest likelihood is kept.
      max_iter: maximum number of EM iterations.
      tol: EM stops when an iteration raises the mean log-likelihood (with the prior) by less than this.
      random_state: seed of the initializations; an int, a RandomState or None.

    Attributes:
      coef_: (k, d) a_i, in the units of x; intercept_: (k,) b_i.
      gates_: (k, d) w_i; gate_intercept_: (k,) v_i. The last are 0.
      target_shift_, target_scale_: expert i predicts target_shift_ + target_scale_ g(<a_i, x> + b_i); 0 and 1 for the
        identity, whose coefficients are in the units of y.
      noise_: sigma, in the units of y.
      likelihood_: mean log-likelihood per training sample.
      start_: the initialization of EM, "spectral" or "random".
      n_iter_: iterations of EM; n_features_in_: d.

    Warns:
      ConvergenceWarning: EM has not converged after max_iter iterations; or the moments do not determine k directions
        (too few samples or features, an unsuitable activation), and EM is initialized at random instead.
    """

    def __init__(  # of any types: scikit-learn's constructors do not validate, `fit` does
        self,
        n_experts: Any = 2,
        activation: Any = "identity",
        method: Any = "spectral+em",
        *,
        fit_intercept: Any = True,
        scale_target: Any = True,
        prior: Any = 1.0,
        n_init: Any = 5,
        max_iter: Any = 500,
        tol: Any = 1e-5,
        random_state: Any = None,
    ) -> None:
        self.n_experts = n_experts
        self.activation = activation
        self.method = method
        self.fit_intercept = fit_intercept
        self.scale_target = scale_target
        self.prior = prior
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    # --- fitting ----------------------------------------------------------------------------------------------------

    def fit(self, X: Data, y: Data) -> Self:
        """Fits the mixture.

        Args:
          X: (n, d). y: (n,).

        Raises:
          ValueError: a parameter is out of bounds, or the data are not finite numbers of these shapes.
        """
        g = self._checked()
        inputs: NDArray[np.float64]
        least = max(2, self.n_experts)
        plain = without_losses("X", X), without_losses("y", y)
        inputs, target = validate_data(self, *plain, dtype=np.float64, y_numeric=True, ensure_min_samples=least)
        random = check_random_state(self.random_state)
        data = self._scaled(inputs, np.asarray(target, dtype=np.float64), g)
        with threads_for(0, torch.device("cpu")):
            fitted = self._fitted(data, g, random)
        self._set_attributes(fitted, data, g)
        return self

    def _checked(self) -> Activation:
        """Checks the parameters and returns the activation."""
        for name, least in (("n_experts", 1), ("n_init", 1), ("max_iter", 1)):
            value = getattr(self, name)
            whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
            require(whole and value >= least, f"{name} must be a whole number of at least {least}", **{name: value})
        require(self.method in METHODS, f"method must be one of {', '.join(METHODS)}", method=self.method)
        require(bool(np.isfinite(self.prior)) and self.prior > 0, "prior must be greater than 0", prior=self.prior)
        require(bool(np.isfinite(self.tol)) and self.tol >= 0, "tol must be at least 0", tol=self.tol)
        return activation_of(self.activation, "activation")

    def _scaled(self, X: NDArray[np.float64], y: NDArray[np.float64], g: Activation) -> _Scaled:
        """Whitens the inputs and gives y the mean and variance of g(Z); without intercepts, its mean square.

        Before, every column is divided by a power of 2, which is exact, so that squares do not overflow or vanish. A
        target that is to stay as it is is not divided, as g may be of any shape.
        """
        of_any_unit = self.scale_target or g.linear
        columns, target_exponent = _exponent(X), _exponent(y) if of_any_unit else np.int32(0)
        X, y = np.ldexp(X, -columns), np.ldexp(y, -target_exponent)
        centre = X.mean(0) if self.fit_intercept else np.zeros(X.shape[1])
        spread = np.sqrt(np.square(X - centre).mean(0))
        spread[spread <= 1e-12 * np.abs(X).max(0)] = np.inf  # a constant feature has no weight
        standard = (X - centre) / spread
        values, vectors = np.linalg.eigh(standard.T @ standard / len(X))
        varying = values > _FLAT * max(values[-1], np.finfo(float).tiny)
        whiten = vectors[:, varying] / np.sqrt(values[varying])
        shift, scale = 0.0, 1.0
        if of_any_unit:
            mean, square = gaussian_moments(g)[1:3, 0]
            deviation, target = y.std(), np.sqrt(square - mean**2)
            if not self.fit_intercept:
                deviation, target = np.sqrt(np.square(y).mean()), np.sqrt(square)
            varies = deviation > 1e-12 * np.abs(y).max() and target > 0
            scale = float(deviation / target) if varies else _CONSTANT
            shift = float(y.mean() - scale * mean) if self.fit_intercept else 0.0
        return _Scaled(
            standard @ whiten,
            (y - shift) / scale,
            np.ldexp(centre, columns),
            np.ldexp(whiten / spread[:, None], -columns[:, None]),
            *np.ldexp((shift, scale), target_exponent).tolist(),
        )

    def _fitted(self, data: _Scaled, g: Activation, random: np.random.RandomState) -> Fitted:
        """Fits the mixture in scaled coordinates."""
        z, y = torch.as_tensor(data.z)[None], torch.as_tensor(data.y)[None]
        directions = self._directions(z, y, g, random) if self.method != "joint-em" else None
        self.start_ = "random" if directions is None else "spectral"
        x = torch.cat((z, z.new_ones(1, z.shape[1], 1)), dim=2) if self.fit_intercept else z
        if directions is None:
            fitted, self.n_iter_, converged = self._from_random(x, y, g, z.shape[2], random)
        else:
            fitted, self.n_iter_, converged = self._from_directions(x, y, g, directions)
        if not converged:
            warnings.warn(
                f"EM has not converged: raise max_iter or tol (got max_iter={self.max_iter}, tol={self.tol})",
                ConvergenceWarning,
                stacklevel=3,
            )
        return fitted

    def _from_random(
        self, x: Tensor, y: Tensor, g: Activation, rank: int, random: np.random.RandomState
    ) -> tuple[Fitted, int, bool]:
        """Runs EM from random initializations."""
        count = self.n_init if self.n_experts > 1 else 1
        start = self._random_start(count, rank, x.shape[2], random)
        x, y = x.expand(count, -1, -1), y.expand(count, -1)
        steps = em_iterations(start, torch.ones(count, dtype=x.dtype), x, y, g, prior=self.prior)
        return until_convergence(steps, self.max_iter, self.tol)

    def _from_directions(self, x: Tensor, y: Tensor, g: Activation, directions: Tensor) -> tuple[Fitted, int, bool]:
        """Runs EM along the directions found by moments and then, for "spectral+em", of all parameters."""
        regressors = x.new_zeros(1, self.n_experts, x.shape[2])
        regressors[..., : directions.shape[2]] = directions
        along = regressors[..., None]
        if self.fit_intercept:
            bias = torch.zeros_like(along)
            bias[..., -1, :] = 1
            along = torch.cat((along, bias), dim=3)
        start, sigma = State(regressors, torch.zeros_like(regressors)), torch.full((1,), 0.5, dtype=x.dtype)
        steps = em_iterations(start, sigma, x, y, g, prior=self.prior, directions=along)
        fitted, iterations, converged = until_convergence(steps, self.max_iter, self.tol)
        if self.method == "spectral+em":
            steps = em_iterations(fitted.state, fitted.sigma, x, y, g, prior=self.prior)
            fitted, more, converged = until_convergence(steps, self.max_iter, self.tol)
            iterations += more
        return fitted, iterations, converged

    def _directions(self, z: Tensor, y: Tensor, g: Activation, random: np.random.RandomState) -> Tensor | None:
        """Finds (1, k, r) unit regressors from moments; None, with a warning, if the moments do not determine them.

        y, including its noise, is scaled to the variance of g(Z), so that the polynomials without noise apply: exactly
        for the identity, where P3 = y^3 - 3 E[y^2] y regardless of the noise.
        """
        k, method = self.n_experts, Spectral()
        inputs = Inputs(z, z.new_zeros(1, 1, z.shape[2]), z.new_ones(1, 1))
        initial_vectors = torch.as_tensor(random.standard_normal((1, method.starts(k), z.shape[2])))
        try:
            require(k <= z.shape[2], "n_experts must be at most the rank of X", n_experts=k, rank=z.shape[2])
            return find_regressors(inputs, y, k, transforms(g, 0.0), method, initial_vectors)
        except RankError:
            reason = f"take more samples or fewer experts, for these determine no n_experts={k} directions"
        except InvalidActivationError:
            reason = f"with activation={g.name!r} the moments of y determine no directions"
        except ValueError as error:
            reason = str(error).partition(": got ")[0]  # which speaks of trials, of which there are none here
        warnings.warn(f"EM is initialized at random: {reason}", ConvergenceWarning, stacklevel=4)
        return None

    def _random_start(self, count: int, rank: int, width: int, random: np.random.RandomState) -> State:
        """Samples regressors on the sphere and gates in the unit ball (algorithm 2, line 3); intercepts are 0."""
        regressors, gates = np.zeros((2, count, self.n_experts, width))
        shape = (count, self.n_experts, rank)
        regressors[..., :rank], gates[..., :rank] = random.standard_normal(shape), random.standard_normal(shape)
        for part in (regressors, gates):
            part /= np.maximum(np.linalg.norm(part, axis=2, keepdims=True), np.finfo(float).tiny)
        gates *= random.random_sample((count, self.n_experts, 1)) ** (1 / max(rank, 1))
        return State(torch.as_tensor(regressors), torch.as_tensor(gates - gates[:, -1:]))

    def _set_attributes(self, fitted: Fitted, data: _Scaled, g: Activation) -> None:
        """Sets the parameters of the best initialization, in the units of the data."""
        best = int(fitted.objective.argmax())
        regressors, gates = (part[best].numpy() for part in fitted.state)
        rank = data.z.shape[1]
        linear, shift, scale = g.linear, data.shift, data.scale

        def unscaled(scaled: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            slopes = scaled[:, :rank] @ data.whiten.T
            return slopes, scaled[:, rank:].sum(1) - slopes @ data.centre

        self.coef_, self.intercept_ = unscaled(regressors)
        self.gates_, self.gate_intercept_ = unscaled(gates - gates[-1:])
        self.target_shift_, self.target_scale_ = (0.0, 1.0) if linear else (shift, scale)
        if linear:
            self.coef_, self.intercept_ = scale * self.coef_, shift + scale * self.intercept_
        self.noise_ = float(fitted.sigma[best]) * scale
        self._rank, self._scales_target = rank, self.scale_target and not linear
        self.likelihood_ = float(fitted.likelihood[best]) - float(np.log(scale))

    # --- predicting -------------------------------------------------------------------------------------------------

    def predict(
        self, X: Data, return_std: bool = False
    ) -> NDArray[np.float64] | tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Predicts (n,) E[y | x], the experts' predictions weighted by their gates.

        Args:
          X: (n, d).
          return_std: whether to return (n,) the standard deviation of y given x, too: of the noise and of which expert
            it comes from.
        """
        predictions, gates = self._experts_and_gates(X)
        mean = np.asarray((predictions * gates).sum(1))
        if not return_std:
            return mean
        between = (gates * np.square(predictions - mean[:, None])).sum(1)
        return mean, np.sqrt(self.noise_**2 + between)

    def predict_gates(self, X: Data) -> NDArray[np.float64]:
        """Computes (n, k) the gates softmax(<w_i, x> + v_i), the probabilities of the experts. Rows sum to 1."""
        return self._experts_and_gates(X)[1]

    def predict_experts(self, X: Data) -> NDArray[np.float64]:
        """Computes (n, k) each expert's prediction."""
        return self._experts_and_gates(X)[0]

    # --- how well it fits -------------------------------------------------------------------------------------------

    def score_samples(self, X: Data, y: Data) -> NDArray[np.float64]:
        """Computes (n,) log p(y | x), the log-likelihood of each sample; unlike a density estimator's it needs y."""
        predictions, gates = self._experts_and_gates(X)
        target = np.asarray(without_losses("y", y), dtype=np.float64)
        rule = "y must have one number for each row of X"
        require(target.shape == (len(predictions),), rule, y=target.shape, rows=len(predictions))
        residuals = (target[:, None] - predictions) / self.noise_
        density = -0.5 * np.square(residuals) - np.log(self.noise_ * np.sqrt(2 * np.pi))
        return np.asarray(logsumexp(density, b=gates, axis=1))

    def bic(self, X: Data, y: Data) -> float:
        """Computes the Bayesian information criterion on (X, y): the lower the better."""
        scores = self.score_samples(X, y)
        return float(np.log(len(scores)) * self._n_parameters() - 2 * scores.sum())

    def aic(self, X: Data, y: Data) -> float:
        """Computes the Akaike information criterion on (X, y): the lower the better."""
        return float(2 * self._n_parameters() - 2 * self.score_samples(X, y).sum())

    def _n_parameters(self) -> int:
        """Counts the free parameters: sigma, and one of each expert and each gate but the last for each direction in
        which the inputs vary, and for the intercepts; shift and scale where the target is scaled.
        """
        k, each = self.n_experts, self._rank + bool(self.fit_intercept)
        return int((2 * k - 1) * each + 1 + 2 * self._scales_target)

    def bootstrap(self, X: Data, y: Data, n_resamples: int = 100, random_state: Any = None) -> StandardErrors:
        """Estimates the standard errors of the experts: refits the mixture to resamples of the data, with replacement.

        Experts of a refit are put in the order of the fitted ones by the nearest predictions on X. Where experts are
        hardly told apart, as with more of them than the data have, the errors are large; look at `refits`.

        Args:
          X: (n, d). y: (n,); what the mixture was fitted to.
          n_resamples: at least 2.
          random_state: seed of the resamples.

        Warns:
          ConvergenceWarning: as `fit`, in any of the refits.
        """
        rule = "n_resamples must be a whole number of at least 2"
        require(isinstance(n_resamples, (int, np.integer)) and n_resamples >= 2, rule, n_resamples=n_resamples)
        own, random = self.predict_experts(X), check_random_state(random_state)
        x, target = np.asarray(without_losses("X", X)), np.asarray(without_losses("y", y))
        coefs, intercepts = [], []
        for _ in range(n_resamples):
            rows = random.randint(len(x), size=len(x))
            refit = clone(self).set_params(random_state=random.randint(2**31 - 1)).fit(x[rows], target[rows])
            apart = np.square(own[:, :, None] - refit.predict_experts(x)[:, None]).sum(0)
            order = linear_sum_assignment(apart)[1]
            coefs.append(refit.coef_[order])
            intercepts.append(refit.intercept_[order])
        return StandardErrors(np.std(coefs, axis=0, ddof=1), np.std(intercepts, axis=0, ddof=1), np.array(coefs))

    def _experts_and_gates(self, X: Data) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        check_is_fitted(self)
        x: NDArray[np.float64] = validate_data(self, without_losses("X", X), dtype=np.float64, reset=False)
        g = activation_of(self.activation)
        inside = torch.as_tensor(x @ self.coef_.T + self.intercept_)
        predictions = self.target_shift_ + self.target_scale_ * g(inside).numpy()
        return predictions, softmax(x @ self.gates_.T + self.gate_intercept_, axis=1)
