"""EM for data without a known truth: the noise is fitted too, from several initializations, with a weak prior.

    E: p_i(x, y) ~ softmax(<w_i, x>) N(y | g(<a_i, x>), sigma^2)                                   (gridlock2019, eq. 9)
    M: w by a Newton step on eq. 8, a_i by weighted least squares, sigma^2 = mean sum_i p_i (y - g(<a_i, x>))^2

Departs from the paper: sigma is fitted (the paper takes it as known), and there is a prior, without which a gate that
separates its samples grows for ever and n < d has no least squares. The prior is a handful of artificial samples: two
at plus and minus sqrt(strength / 2) along every axis, with y = g(0), which belong equally to all experts. The gates and
the least squares treat them like other samples, so that both M-steps are those of `em`.

Shapes: T initializations, N samples, D coefficients of each expert (the intercept's included), k experts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab.recovery.activations import Activation
from moe_lab.recovery.em import Moments, State, gate_newton, ridged

LEAST_NOISE = 1e-4
"""Lower bound of sigma: y has a standard deviation of about 1, and without noise no expert would lose a sample."""

_HALVINGS = 8


class Fitted(NamedTuple):
    """A fit by EM.

    Attributes:
      state: regressors and gates, (T, k, D).
      sigma: the noise.
      likelihood: mean log-likelihood per sample, without the prior.
      objective: the same with the prior, which no step decreases.
    """

    state: State
    sigma: Float[Tensor, " T"]
    likelihood: Float[Tensor, " T"]
    objective: Float[Tensor, " T"]


class _Problem:
    """The samples, those of the prior after them, and products that every step uses."""

    def __init__(self, x: Tensor, y: Tensor, g: Activation, prior: float) -> None:
        self.g, self.samples = g, x.shape[1]
        axes = math.sqrt(prior / 2) * torch.eye(x.shape[2], dtype=x.dtype)
        artificial = torch.cat((axes, -axes)).expand(len(x), -1, -1)
        labels = g(torch.zeros_like(artificial[..., 0]))
        self.moments = Moments.of(torch.cat((x, artificial), dim=1), torch.cat((y, labels), dim=1))

    def expectation(self, state: State, sigma: Tensor) -> tuple[Tensor, Fitted]:
        """Responsibilities (T, k, N + 2 D), those of the prior's samples included, and the fit."""
        x, y, n = self.moments.x, self.moments.y, self.samples
        prior = (state.gates @ x.mT).log_softmax(1)
        joint = prior - (y[:, None] - self.g(state.regressors @ x.mT)).square() / (2 * sigma.square()[:, None, None])
        total = joint[..., :n].logsumexp(1)
        responsibilities = torch.cat(
            ((joint[..., :n] - total[:, None]).exp(), torch.full_like(joint[..., n:], 1 / joint.shape[1])), 2
        )
        likelihood = total.mean(1) - sigma.log() - 0.5 * math.log(2 * math.pi)
        objective = likelihood + joint[..., n:].mean(1).sum(1) / n
        return responsibilities, Fitted(state, sigma, likelihood, objective)

    def maximisation(self, state: State, responsibilities: Tensor, directions: Tensor | None) -> tuple[State, Tensor]:
        """The next parameters and sigma."""
        gates = gate_newton(state.gates, responsibilities, self.moments) if state.gates.shape[1] > 1 else state.gates
        regressors = self._regressors(state.regressors, responsibilities, directions)
        noise = self._squares(regressors, responsibilities).sum(1) / self.samples
        return State(regressors, gates), noise.sqrt().clamp(min=LEAST_NOISE)

    def _squares(self, regressors: Tensor, responsibilities: Tensor) -> Tensor:
        """(T, k) each expert's weighted sum of squared residuals."""
        residual = self.moments.y[:, None] - self.g(regressors @ self.moments.x.mT)
        return (responsibilities * residual.square()).sum(2)

    def _regressors(self, regressors: Tensor, responsibilities: Tensor, directions: Tensor | None) -> Tensor:
        """Takes a Gauss-Newton step, exact for the identity; halved per expert until the residuals do not grow."""
        x, y = self.moments.x, self.moments.y
        product = regressors @ x.mT
        value, slope = self.g.with_slope(product)
        gram = self.moments.gram(responsibilities * slope.square())
        pull = ((responsibilities * slope * (y[:, None] - value)) @ x)[..., None]
        if directions is None:
            move = torch.linalg.solve(ridged(gram), pull)
        else:
            inside = directions.mT @ gram @ directions
            move = directions @ torch.linalg.solve(ridged(inside), directions.mT @ pull)
        move = move[..., 0]
        if self.g.linear:
            return regressors + move
        before, length = (responsibilities * (y[:, None] - value).square()).sum(2), torch.ones_like(move[..., 0])
        for halving in range(_HALVINGS + 1):
            worse = ~(self._squares(regressors + length[..., None] * move, responsibilities) <= before * (1 + 1e-12))
            if not bool(worse.any()):
                break
            length = torch.where(worse, length / 2 if halving < _HALVINGS else 0.0, length)
        return torch.where(length[..., None] > 0, regressors + length[..., None] * move, regressors)


def fitting(
    start: State,
    sigma: Float[Tensor, " T"],
    x: Float[Tensor, "T N D"],
    y: Float[Tensor, "T N"],
    g: Activation,
    *,
    prior: float,
    directions: Float[Tensor, "T k D m"] | None = None,
) -> Iterator[Fitted]:
    """Runs EM without end from each initialization: yields the fit before the first iteration and after each.

    Args:
      prior: weight of the prior along each axis of x, whose columns are whitened, in samples.
      directions: those along which each regressor moves (its length and its intercept, say); all if None.
    """
    problem = _Problem(x, y, g, prior)
    responsibilities, now = problem.expectation(start, sigma)
    while True:
        yield now
        responsibilities, now = problem.expectation(*problem.maximisation(now.state, responsibilities, directions))


def converged(steps: Iterator[Fitted], iterations: int, tolerance: float) -> tuple[Fitted, int, bool]:
    """Runs EM until it converges: returns the best fit, the number of iterations, and whether it has converged.

    Args:
      iterations: the most to take.
      tolerance: EM has converged when an iteration gains less than this in the objective, from every initialization.
    """
    best = before = next(steps)
    for iteration in range(1, iterations + 1):
        now = next(steps)
        better = now.objective > best.objective
        best = _where(better, now, best)
        if not bool((now.objective - before.objective > tolerance).any()):
            return best, iteration, True
        before = now
    return best, iterations, False


def _where(first: Tensor, one: Fitted, two: Fitted) -> Fitted:
    deep = first[:, None, None]
    state = State(*(torch.where(deep, a, b) for a, b in zip(one.state, two.state, strict=True)))
    return Fitted(state, *(torch.where(first, a, b) for a, b in zip(one[1:], two[1:], strict=True)))
