"""Expectation maximisation for a mixture of generalised linear experts: of the gates alone, or of all parameters.

    E: p_i(x, y) ~ softmax(<w_i, x>) N(y | g(<a_i, x>), sigma^2)                                   (gridlock2019, eq. 9)
    M: w maximises mean sum_i p_i <w_i, x> - log sum_i exp <w_i, x>  (eq. 8), and a_i solve weighted least squares

With the regressors fixed this is algorithm 2, which converges from any initialization; updating both is joint EM, which
need not. The M-step of the gates is a Newton step, whose blocks sum_n h_ij(n) x_n x_n^T are all rows of one matrix
product, or one gradient step (gradient EM, appendix G). w_k = 0 fixes the gauge throughout.

Shapes: T trials, N samples, d dimensions, k experts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.core.graphs import on_accelerator
from moe_lab.core.training import Learner
from moe_lab.recovery.activations import Activation

RIDGE = 1e-9
"""Ridge relative to the mean diagonal, added before solving: an expert without samples does not move."""

MOST_PAIRS = 2**25
"""Largest number of stored pairs: 256 MB in float64."""


class State(NamedTuple):
    """The parameters that EM updates."""

    regressors: Float[Tensor, "T k d"]
    gates: Float[Tensor, "T k d"]


class Pairs(NamedTuple):
    """The pairs a <= b of some things, in an order, without a loop over them: the same operations for any number.

    Attributes:
      first, second: (P,) a and b of each pair, P = n (n + 1) / 2.
      place: (n, n) the number of the pair of any two.
    """

    first: Int[Tensor, " P"]
    second: Int[Tensor, " P"]
    place: Int[Tensor, "n n"]

    @classmethod
    def of(cls, things: int, device: torch.device) -> Pairs:
        each = torch.arange(things, device=device)
        begins = (things - each).cumsum(0) - (things - each)  # the place of (a, a)
        number = torch.arange(things * (things + 1) // 2, device=device)
        first = torch.searchsorted(begins, number, right=True) - 1
        low, high = torch.minimum(each[:, None], each), torch.maximum(each[:, None], each)
        return cls(first, number - begins[first] + first, begins[low] + high - low)


@dataclass(frozen=True)
class Moments:
    """The data, with products of the inputs that every iteration uses.

    Attributes:
      x: (T, N, d); y: (T, N).
      products: (T, N, P) x_a x_b of the pairs; None if they would take too much memory.
      pairs: the pairs a <= b of d.
    """

    x: Float[Tensor, "T N d"]
    y: Float[Tensor, "T N"]
    products: Float[Tensor, "T N P"] | None
    pairs: Pairs

    @classmethod
    def of(cls, x: Float[Tensor, "T N d"], y: Float[Tensor, "T N"]) -> Moments:
        trials, samples, d = x.shape
        pairs = Pairs.of(d, x.device)
        if trials * samples * len(pairs.first) > MOST_PAIRS:
            return cls(x, y, None, pairs)
        columns = x.mT.contiguous()  # samples contiguous: a gather of numbers takes 4 times as long
        products = columns.index_select(1, pairs.first).mul_(columns.index_select(1, pairs.second))
        return cls(x, y, products.mT, pairs)

    def gram(self, weights: Float[Tensor, "T m N"]) -> Float[Tensor, "T m d d"]:
        """Computes sum_n weights_m(n) x_n x_n^T for all m: in one product, or one by one if products is None."""
        if self.products is None:
            each = [(self.x * weights[:, m, :, None]).mT @ self.x for m in range(weights.shape[1])]
            return torch.stack(each, dim=1)
        return (weights @ self.products)[..., self.pairs.place]


def posterior(
    state: State, x: Float[Tensor, "T N d"], y: Float[Tensor, "T N"], g: Activation, sigma: float
) -> tuple[Float[Tensor, "T k N"], Float[Tensor, "T k N"], Float[Tensor, " T"]]:
    """Computes the E-step: responsibilities p_i, prior softmax(<w, x>), and the mean log-likelihood."""
    scores = state.gates @ x.mT
    residual = y[:, None] - g(state.regressors @ x.mT)
    prior = scores.log_softmax(1)
    joint = prior - residual.square() / (2 * sigma**2)
    total = joint.logsumexp(1)
    likelihood = total.mean(1) - 0.5 * math.log(2 * math.pi * sigma**2)
    return (joint - total[:, None]).exp(), prior.exp(), likelihood


def gate_newton(
    gates: Float[Tensor, "T k d"], responsibilities: Float[Tensor, "T k N"], moments: Moments, steps: int = 1
) -> Float[Tensor, "T k d"]:
    """Takes Newton steps on eq. 8, halved until they do not lower it."""
    trials, k, d = gates.shape
    pairs = Pairs.of(k - 1, gates.device)
    for _ in range(steps):
        prior = (gates @ moments.x.mT).softmax(1)
        slope = ((responsibilities - prior)[:, :-1] @ moments.x).flatten(1)
        blocks = moments.gram(_curvature(prior, pairs))[:, pairs.place]  # (T, k - 1, k - 1, d, d)
        hessian = blocks.transpose(2, 3).reshape(trials, (k - 1) * d, (k - 1) * d)
        move = solved(ridged(hessian), slope).view(trials, k - 1, d)
        move = torch.cat((move, move.new_zeros(trials, 1, d)), dim=1)
        gates = _ascended(gates, move, responsibilities, moments.x)
    return gates


def _curvature(prior: Float[Tensor, "T k N"], pairs: Pairs) -> Float[Tensor, "T P N"]:
    """Computes p_i (1{i = j} - p_j) for the pairs i <= j < k, the derivatives of a softmax."""
    same = (pairs.first == pairs.second)[:, None].to(prior)
    return prior.index_select(1, pairs.first) * (same - prior.index_select(1, pairs.second))


def _ascended(gates: Tensor, move: Tensor, responsibilities: Tensor, x: Tensor) -> Tensor:
    """Returns gates + 2^-h move with the smallest h = 0 ... 6 that does not lower eq. 8."""

    def value(at: Tensor) -> Tensor:
        scores = at @ x.mT
        return (responsibilities * scores).sum((1, 2)) - scores.logsumexp(1).sum(1)

    start, length = value(gates), torch.ones_like(gates[:, 0, 0])
    for _ in range(6):
        worse = ~(value(gates + length[:, None, None] * move) >= start)
        if not on_accelerator(gates.device) and not bool(worse.any()):
            break  # the first is nearly always good: six evaluations are 1.2 to 1.6 times the time of EM on a CPU
        length = torch.where(worse, length / 2, length)
    return gates + length[:, None, None] * move


def gate_gradient(
    gates: Float[Tensor, "T k d"], responsibilities: Float[Tensor, "T k N"], moments: Moments, rate: float
) -> Float[Tensor, "T k d"]:
    """Takes one step of gradient EM, w + rate grad Q(w | w) (appendix G), with w_k fixed at 0."""
    prior = (gates @ moments.x.mT).softmax(1)
    slope = (responsibilities - prior) @ moments.x / moments.x.shape[1]
    slope[:, -1].zero_()
    return gates + rate * slope


def projected(gates: Float[Tensor, "T k d"], radius: float) -> Float[Tensor, "T k d"]:
    """Projects every w_i onto the ball |w| <= R (gridlock2019, algorithm 2; gated2019, section 3.2)."""
    require(math.isfinite(radius) and radius > 0, "radius (R) must be a finite number greater than 0", R=radius)
    return gates * (radius / torch.linalg.vector_norm(gates, dim=2, keepdim=True).clamp(min=radius))


def regressor_step(
    regressors: Float[Tensor, "T k d"], responsibilities: Float[Tensor, "T k N"], moments: Moments, g: Activation
) -> Float[Tensor, "T k d"]:
    """Solves weighted least squares for every expert: exactly for the identity, else by one Gauss-Newton step."""
    x, y = moments.x, moments.y
    product = regressors @ x.mT
    if g.linear:
        return solved(ridged(moments.gram(responsibilities)), (responsibilities * y[:, None]) @ x)
    value, slope = g.with_slope(product)
    gram = moments.gram(responsibilities * slope.square())
    pull = (responsibilities * slope * (y[:, None] - value)) @ x
    return regressors + solved(ridged(gram), pull)


def solved(matrix: Float[Tensor, "*T m m"], right: Tensor) -> Tensor:
    """Solves linear systems without asking whether they were singular: an accelerator would be waited for.

    The solution of a singular one is not finite, and so its trial has diverged.

    Where torch has MAGMA, it takes that for many systems of more than 16 unknowns, and MAGMA waits: such a step is not
    captured unless `torch.backends.cuda.preferred_linalg_library("cusolver")` stands before the run.
    """
    return torch.linalg.solve_ex(matrix, right, check_errors=False)[0]


def ridged(matrix: Float[Tensor, "*T m m"]) -> Float[Tensor, "*T m m"]:
    """Adds a small ridge, so that a singular matrix can be inverted."""
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    mean = (matrix * identity).sum((-2, -1)) / matrix.shape[-1]
    return matrix + RIDGE * mean.clamp(min=torch.finfo(matrix.dtype).tiny ** 0.5)[..., None, None] * identity


class EM(Learner):
    """EM of some mixtures, all at once; a step is one iteration, which no row's end changes for the others.

    Args:
      start: the initial parameters.
      x: (T, N, d); y: (T, N).
      g, sigma: the experts' activation and the noise, both known.
      move_regressors: whether to run joint EM; otherwise algorithm 2, on the gates alone.
      gradient_rate: step of gradient EM; None for a Newton M-step.
      radius: R, projects every gate onto the ball of this radius; None for no projection. In another gauge, true gates
        can be up to 2 R away from w_k, so that a radius of 1 excludes them if experts are permuted.

    Attributes:
      state: the parameters after the last iteration.
      likelihood: (T,) their mean log-likelihood per sample.

    Raises:
      ValueError: sigma is not positive.
    """

    def __init__(
        self,
        start: State,
        x: Float[Tensor, "T N d"],
        y: Float[Tensor, "T N"],
        g: Activation,
        sigma: float,
        *,
        move_regressors: bool,
        gradient_rate: float | None = None,
        radius: float | None = None,
    ) -> None:
        require(sigma > 0, "sigma must be greater than 0", sigma=sigma)
        super().__init__(range(len(y)), y.new_zeros(()))
        self.moments, self.g, self.sigma = Moments.of(x, y), g, sigma
        self.move_regressors, self.gradient_rate, self.radius = move_regressors, gradient_rate, radius
        self.state = State(*(part.clone() for part in start))
        self.responsibilities, _, self.likelihood = posterior(self.state, x, y, g, sigma)

    @property
    def changed(self) -> Sequence[Tensor]:
        return *self.state, self.responsibilities, self.likelihood

    def step(self, *inputs: Tensor) -> None:
        """Takes one iteration: the M-step of the responsibilities at hand, then the E-step."""
        (regressors, gates), moments = self.state, self.moments
        if self.gradient_rate is None:
            gates = gate_newton(gates, self.responsibilities, moments)
        else:
            gates = gate_gradient(gates, self.responsibilities, moments, self.gradient_rate)
        if self.radius is not None:
            gates = projected(gates, self.radius)
        if self.move_regressors:
            regressors = regressor_step(regressors, self.responsibilities, moments, self.g)
        responsibilities, _, likelihood = posterior(State(regressors, gates), moments.x, moments.y, self.g, self.sigma)
        for now, after in zip(self.changed, (regressors, gates, responsibilities, likelihood), strict=True):
            now.copy_(after)
        self.loss.copy_(-likelihood)

    def keep(self, positions: np.ndarray) -> None:
        super().keep(positions)
        there = torch.as_tensor(positions, device=self.like.device)
        self.moments = Moments.of(self.moments.x[there], self.moments.y[there])
        self.state = State(*(part[there] for part in self.state))
        self.responsibilities, self.likelihood = self.responsibilities[there], self.likelihood[there]
