"""Mixtures of experts for data that nobody planted, as a scikit-learn estimator (gridlock2019, appendix H.2).

    y = g(<a_z, x> + b_z) + sigma xi,   z ~ softmax(<w_1, x> + v_1, ..., <w_k, x> + v_k),   w_k = 0, v_k = 0

Departs from the paper: inputs are whitened and y is scaled, so that they are nearer to what the moments are made for;
experts and gates have intercepts; regressors found by moments, which are directions, are given lengths; and sigma is
fitted. Taken literally, with unit regressors and sigma = .1, the method predicts worse than the mean of y.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from moe_lab.config import require
from moe_lab.recovery.activations import Activation, activation_of
from moe_lab.recovery.data import Inputs
from moe_lab.recovery.em import State
from moe_lab.recovery.gridlock.fitting import Fitted, converged, fitting
from moe_lab.recovery.gridlock.run import Spectral
from moe_lab.recovery.gridlock.spectral import find_regressors
from moe_lab.recovery.tensor import RankError
from moe_lab.recovery.transforms import InvalidActivationError, gaussian_moments, transforms
from moe_lab.trials import threads_for

METHODS = ("spectral+em", "spectral", "joint-em")
Data = Any  # array-likes and all that scikit-learn's validation refuses in words of its own
_FLAT = 1e-10  # variance along a direction, relative to the largest, from which it counts as none


class _Scaled(NamedTuple):
    """Data as EM sees them, and the way back: z = (x - centre) whiten, y = shift + scale (scaled y)."""

    z: NDArray[np.float64]
    y: NDArray[np.float64]
    centre: NDArray[np.float64]
    whiten: NDArray[np.float64]
    shift: float
    scale: float


class MixtureOfExpertsRegressor(RegressorMixin, BaseEstimator):
    """A mixture of generalised linear experts with a softmax gate.

    >>> from sklearn.datasets import load_diabetes
    >>> from moe_lab.recovery.gridlock.estimator import MixtureOfExpertsRegressor
    >>> x, y = load_diabetes(return_X_y=True)
    >>> model = MixtureOfExpertsRegressor(n_experts=2, random_state=0).fit(x, y)
    >>> model.predict_proba(x[:1]).shape
    (1, 2)

    Args:
      n_experts: k, from 1; one expert is a regression with a weak prior.
      activation: g, a name of `ACTIVATIONS` or an `Activation`.
      method: "spectral+em", EM of everything from regressors found by moments; "spectral", where EM moves the gates,
        the regressors' lengths and the intercepts only, and the directions stay; "joint-em", EM from random starts.
      fit_intercept: whether experts and gates have intercepts; without, x and y are not centred either.
      scale_target: fit shift + scale g(.), with both chosen such that y has the mean and the variance of g(Z),
        Z ~ N(0, 1), instead of g(.). For the identity there is no difference.
      prior: how many samples' worth of pull towards 0 there is on each coefficient of the whitened inputs.
      n_init: random starts of "joint-em", of which the likeliest is kept.
      max_iter: the most iterations of EM.
      tol: EM ends when an iteration gains less than this in the mean log-likelihood (with the prior).
      random_state: of the starts; a number, a RandomState or None.

    Attributes:
      coef_: (k, d) a_i, in the units of x; intercept_: (k,) b_i.
      gates_: (k, d) w_i; gate_intercept_: (k,) v_i. The last are 0.
      target_shift_, target_scale_: expert i says target_shift_ + target_scale_ g(<a_i, x> + b_i); 0 and 1 for the
        identity, whose coefficients are in the units of y.
      noise_: sigma, in the units of y.
      likelihood_: mean log-likelihood of a training sample.
      start_: "spectral" or "random", which EM began with.
      n_iter_: iterations of EM; n_features_in_: d.

    Warns:
      ConvergenceWarning: EM has not come to rest after max_iter iterations; or the moments do not determine k
        directions (too few samples or features, an unfit activation), and EM begins with random starts instead.
    """

    def __init__(  # of any types: scikit-learn's constructors take what they are given, and `fit` tells what is wrong
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

    def __sklearn_tags__(self) -> Tags:
        """Of no type: scikit-learn forbids its "regressor"s a predict_proba, and the gates are half of the answer."""
        tags = super().__sklearn_tags__()
        tags.estimator_type = None
        return tags

    # --- fitting ----------------------------------------------------------------------------------------------------

    def fit(self, X: Data, y: Data) -> Self:
        """Fits the mixture.

        Args:
          X: (n, d). y: (n,).

        Raises:
          ValueError: a parameter is out of its bounds, or the data are not finite numbers of these shapes.
        """
        g = self._checked()
        inputs: NDArray[np.float64]
        least = max(2, self.n_experts)
        inputs, target = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=least)
        random = check_random_state(self.random_state)
        data = self._scaled(inputs, np.asarray(target, dtype=np.float64), g)
        with threads_for(0, torch.device("cpu")):
            found = self._found(data, g, random)
        self._keep(found, data, g)
        return self

    def _checked(self) -> Activation:
        """The activation, once the parameters are known to make sense."""
        for name, least in (("n_experts", 1), ("n_init", 1), ("max_iter", 1)):
            value = getattr(self, name)
            whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
            require(whole and value >= least, f"{name} must be a whole number of at least {least}", **{name: value})
        require(self.method in METHODS, f"method must be one of {', '.join(METHODS)}", method=self.method)
        require(bool(np.isfinite(self.prior)) and self.prior > 0, "prior must be greater than 0", prior=self.prior)
        require(bool(np.isfinite(self.tol)) and self.tol >= 0, "tol must be at least 0", tol=self.tol)
        return activation_of(self.activation)

    def _scaled(self, X: NDArray[np.float64], y: NDArray[np.float64], g: Activation) -> _Scaled:
        """Whitened inputs, and y with the mean and variance of g(Z); without intercepts, its mean square."""
        centre = X.mean(0) if self.fit_intercept else np.zeros(X.shape[1])
        spread = np.sqrt(np.square(X - centre).mean(0))
        spread[spread <= 1e-12 * np.abs(X).max(0)] = np.inf  # a constant feature says nothing
        standard = (X - centre) / spread
        values, vectors = np.linalg.eigh(standard.T @ standard / len(X))
        kept = values > _FLAT * max(values[-1], np.finfo(float).tiny)
        whiten = vectors[:, kept] / np.sqrt(values[kept])
        shift, scale = 0.0, 1.0
        if self.scale_target or g.linear:
            mean, square = gaussian_moments(g)[1:3, 0]
            deviation, wanted = (y.std(), np.sqrt(square - mean**2))
            if not self.fit_intercept:
                deviation, wanted = np.sqrt(np.square(y).mean()), np.sqrt(square)
            if deviation > 1e-12 * np.abs(y).max() and wanted > 0:
                scale = float(deviation / wanted)
            shift = float(y.mean() - scale * mean) if self.fit_intercept else 0.0
        return _Scaled(standard @ whiten, (y - shift) / scale, centre, whiten / spread[:, None], shift, scale)

    def _found(self, data: _Scaled, g: Activation, random: np.random.RandomState) -> tuple[Fitted, int]:
        """The mixture in scaled coordinates, and the iterations that it took."""
        z, y = torch.as_tensor(data.z)[None], torch.as_tensor(data.y)[None]
        directions = self._directions(z, y, g, random) if self.method != "joint-em" else None
        self.start_ = "random" if directions is None else "spectral"
        x = torch.cat((z, z.new_ones(1, z.shape[1], 1)), dim=2) if self.fit_intercept else z
        settings: dict[str, Any] = {"iterations": self.max_iter, "tolerance": self.tol}
        if directions is None:
            starts = self.n_init if self.n_experts > 1 else 1
            start = self._random_start(starts, z.shape[2], x.shape[2], random)
            x, y = x.expand(starts, -1, -1), y.expand(starts, -1)
            found, count, rested = converged(
                fitting(start, torch.ones(starts, dtype=x.dtype), x, y, g, prior=self.prior), **settings
            )
        else:
            regressors = x.new_zeros(1, self.n_experts, x.shape[2])
            regressors[..., : z.shape[2]] = directions
            along = regressors[..., None]
            if self.fit_intercept:
                bias = torch.zeros_like(along)
                bias[..., -1, :] = 1
                along = torch.cat((along, bias), dim=3)
            start, half = State(regressors, torch.zeros_like(regressors)), torch.full((1,), 0.5, dtype=x.dtype)
            steps = fitting(start, half, x, y, g, prior=self.prior, directions=along)
            found, count, rested = converged(steps, **settings)
            if self.method == "spectral+em":
                steps = fitting(found.state, found.sigma, x, y, g, prior=self.prior)
                found, more, rested = converged(steps, **settings)
                count += more
        if not rested:
            warnings.warn(
                f"EM has not come to rest: raise max_iter or tol (got max_iter={self.max_iter}, tol={self.tol})",
                ConvergenceWarning,
                stacklevel=3,
            )
        return found, count

    def _directions(self, z: Tensor, y: Tensor, g: Activation, random: np.random.RandomState) -> Tensor | None:
        """(1, k, r) unit regressors from moments; None, with a warning, where the moments do not determine them.

        y has been scaled to the variance of g(Z), noise and all, for which the polynomials without noise are right: for
        the identity exactly, P3 = y^3 - 3 E[y^2] y whatever part of y is noise.
        """
        k, method = self.n_experts, Spectral()
        inputs = Inputs(z, z.new_zeros(1, 1, z.shape[2]), z.new_ones(1, 1))
        starts = torch.as_tensor(random.standard_normal((1, method.starts(k), k)))
        try:
            require(k <= z.shape[2], "n_experts must be at most the rank of X", n_experts=k, rank=z.shape[2])
            *_, last = find_regressors(inputs, y, k, transforms(g, 0.0), method, starts, watch=False)
        except (RankError, InvalidActivationError, ValueError) as error:
            warnings.warn(f"EM begins with random starts: {error}", ConvergenceWarning, stacklevel=4)
            return None
        return last.regressors

    def _random_start(self, starts: int, rank: int, width: int, random: np.random.RandomState) -> State:
        """Regressors uniform on the sphere, gates uniform in the unit ball (algorithm 2, line 3), intercepts 0."""
        regressors, gates = np.zeros((2, starts, self.n_experts, width))
        shape = (starts, self.n_experts, rank)
        regressors[..., :rank], gates[..., :rank] = random.standard_normal(shape), random.standard_normal(shape)
        for part in (regressors, gates):
            part /= np.maximum(np.linalg.norm(part, axis=2, keepdims=True), np.finfo(float).tiny)
        gates *= random.random_sample((starts, self.n_experts, 1)) ** (1 / max(rank, 1))
        return State(torch.as_tensor(regressors), torch.as_tensor(gates - gates[:, -1:]))

    def _keep(self, found: tuple[Fitted, int], data: _Scaled, g: Activation) -> None:
        """The likeliest start's parameters, in the units of the data."""
        fitted, self.n_iter_ = found
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
        self.likelihood_ = float(fitted.likelihood[best]) - float(np.log(scale))

    # --- predicting -------------------------------------------------------------------------------------------------

    def predict(self, X: Data) -> NDArray[np.float64]:
        """(n,) E[y | x], the experts' answers weighted by their gates."""
        return self._at(X, lambda answers, gates: (answers * gates).sum(1))

    def predict_proba(self, X: Data) -> NDArray[np.float64]:
        """(n, k) the gates softmax(<w_i, x> + v_i): how probable it is that each expert answers. Rows sum to 1."""
        return self._at(X, lambda _, gates: gates)

    def predict_experts(self, X: Data) -> NDArray[np.float64]:
        """(n, k) each expert's answer."""
        return self._at(X, lambda answers, _: answers)

    def _at(self, X: Data, pick: Callable[..., NDArray[np.float64]]) -> NDArray[np.float64]:
        check_is_fitted(self)
        x: NDArray[np.float64] = validate_data(self, X, dtype=np.float64, reset=False)
        g = activation_of(self.activation)
        inside = torch.as_tensor(x @ self.coef_.T + self.intercept_)
        answers = self.target_shift_ + self.target_scale_ * g(inside).numpy()
        return pick(answers, softmax(x @ self.gates_.T + self.gate_intercept_, axis=1))
