"""EM for real data: fits the noise too, from several initializations at once, with a weak prior.

    E: p_i(x, y) ~ softmax(<w_i, x>) N(y | g(<a_i, x>), sigma^2)                                   (gridlock2019, eq. 9)
    M: w by a Newton step on eq. 8, a_i by weighted least squares, sigma^2 = mean sum_i p_i (y - g(<a_i, x>))^2

Departs from the paper: sigma is fitted (the paper assumes that it is known), and there is a prior, without which a gate
that separates its samples grows without bound and least squares has no solution for n < d. The prior consists of
pseudo-samples, two at plus and minus sqrt(strength / 2) along every axis, with y = g(0) and equal responsibilities of
all experts. Gates and least squares treat them like other samples, so that both M-steps are those of `em`.

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
"""Lower bound of sigma, for y with a standard deviation of about 1; without noise, responsibilities would be fixed."""

_HALVINGS = 8


class Fitted(NamedTuple):
    """The state of EM.

    Attributes:
      state: regressors and gates, (T, k, D).
      sigma: standard deviation of the noise.
      likelihood: mean log-likelihood per sample, without the prior.
      objective: the same with the prior; no step lowers it.
    """

    state: State
    sigma: Float[Tensor, " T"]
    likelihood: Float[Tensor, " T"]
    objective: Float[Tensor, " T"]


class _Problem:
    """The samples, followed by the prior's pseudo-samples, and the products that all iterations share."""

    def __init__(self, x: Tensor, y: Tensor, g: Activation, prior: float) -> None:
        self.g, self.samples = g, x.shape[1]
        axes = math.sqrt(prior / 2) * torch.eye(x.shape[2], dtype=x.dtype)
        pseudo_x = torch.cat((axes, -axes)).expand(len(x), -1, -1)
        pseudo_y = g(torch.zeros_like(pseudo_x[..., 0]))
        self.moments = Moments.of(torch.cat((x, pseudo_x), dim=1), torch.cat((y, pseudo_y), dim=1))

    def expectation(self, state: State, sigma: Tensor) -> tuple[Tensor, Fitted]:
        """Computes responsibilities (T, k, N + 2 D), including the pseudo-samples, and the state of EM."""
        x, y, n = self.moments.x, self.moments.y, self.samples
        prior = (state.gates @ x.mT).log_softmax(1)
        joint = prior - (y[:, None] - self.g(state.regressors @ x.mT)).square() / (2 * sigma.square()[:, None, None])
        total = joint[..., :n].logsumexp(1)
        pseudo = torch.full_like(joint[..., n:], 1 / joint.shape[1])
        responsibilities = torch.cat(((joint[..., :n] - total[:, None]).exp(), pseudo), dim=2)
        likelihood = total.mean(1) - sigma.log() - 0.5 * math.log(2 * math.pi)
        objective = likelihood + joint[..., n:].mean(1).sum(1) / n
        return responsibilities, Fitted(state, sigma, likelihood, objective)

    def maximisation(self, state: State, responsibilities: Tensor, directions: Tensor | None) -> tuple[State, Tensor]:
        """Computes the next parameters and sigma."""
        gates = gate_newton(state.gates, responsibilities, self.moments) if state.gates.shape[1] > 1 else state.gates
        regressors = self._regressors(state.regressors, responsibilities, directions)
        noise = self._squares(regressors, responsibilities).sum(1) / self.samples
        return State(regressors, gates), noise.sqrt().clamp(min=LEAST_NOISE)

    def _squares(self, regressors: Tensor, responsibilities: Tensor) -> Tensor:
        """Computes (T, k) each expert's weighted sum of squared residuals."""
        residual = self.moments.y[:, None] - self.g(regressors @ self.moments.x.mT)
        return (responsibilities * residual.square()).sum(2)

    def _regressors(self, regressors: Tensor, responsibilities: Tensor, directions: Tensor | None) -> Tensor:
        """Takes a Gauss-Newton step, exact for the identity; each expert's is halved until it helps, or dropped."""
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
        previous, length = (responsibilities * (y[:, None] - value).square()).sum(2), torch.ones_like(move[..., 0])
        for halving in range(_HALVINGS + 1):
            worse = ~(self._squares(regressors + length[..., None] * move, responsibilities) <= previous * (1 + 1e-12))
            if not bool(worse.any()):
                break
            length = torch.where(worse, length / 2 if halving < _HALVINGS else 0.0, length)
        return torch.where(length[..., None] > 0, regressors + length[..., None] * move, regressors)


def em_iterations(
    start: State,
    sigma: Float[Tensor, " T"],
    x: Float[Tensor, "T N D"],
    y: Float[Tensor, "T N"],
    g: Activation,
    *,
    prior: float,
    directions: Float[Tensor, "T k D m"] | None = None,
) -> Iterator[Fitted]:
    """Runs EM without end, yielding the initial state and the state after each iteration.

    Args:
      start: the initializations, with sigma.
      prior: weight of the prior along each axis of x, whose columns are whitened, in samples.
      directions: each regressor moves only along these, such as its length and its intercept; None for all.
    """
    problem = _Problem(x, y, g, prior)
    responsibilities, fitted = problem.expectation(start, sigma)
    while True:
        yield fitted
        responsibilities, fitted = problem.expectation(
            *problem.maximisation(fitted.state, responsibilities, directions)
        )


def until_convergence(steps: Iterator[Fitted], iterations: int, tolerance: float) -> tuple[Fitted, int, bool]:
    """Runs EM to convergence, and returns the best state, the number of iterations, and whether it has converged.

    Args:
      iterations: the maximum.
      tolerance: EM has converged when an iteration raises no initialization's objective by more than this.
    """
    best = previous = next(steps)
    for iteration in range(1, iterations + 1):
        current = next(steps)
        best = _where(current.objective > best.objective, current, best)
        if not bool((current.objective - previous.objective > tolerance).any()):
            return best, iteration, True
        previous = current
    return best, iterations, False


def _where(mask: Tensor, chosen: Fitted, other: Fitted) -> Fitted:
    wide = mask[:, None, None]
    state = State(*(torch.where(wide, a, b) for a, b in zip(chosen.state, other.state, strict=True)))
    return Fitted(state, *(torch.where(mask, a, b) for a, b in zip(chosen[1:], other[1:], strict=True)))
