"""Misprints of gated2019 and omitted steps, each with a check where one can be computed."""

from __future__ import annotations

import math

import numpy as np
import torch

from moe_lab.core.findings import Finding
from moe_lab.recovery.em import State, posterior
from moe_lab.recovery.landscape import losses
from moe_lab.recovery.landscape.gru import GRU, gap_by_sharpness
from moe_lab.recovery.landscape.run import PAPER_TASK
from moe_lab.recovery.printed import printed
from moe_lab.recovery.transforms import polynomial, quadrature, transforms
from moe_lab_papers.erratum import compared
from moe_lab_papers.paper import Paper

paper = Paper("gated2019")

_SIGMA = 0.5


@paper.erratum(
    "example2-beta-column",
    "appendix B, example 2",
    printed="sqrt(2/pi) + sigma^2, 1 + sigma^2, sqrt(2/pi) + sigma^2",
    instead="sqrt(2/pi), 1, sqrt(2/pi)",
    evidence="E[Y^2|Z] = g^2 + sigma^2 adds a constant, which no He_j with j > 0 sees",
)
def relu() -> Finding:
    """Example 2's system leaves moments of Q4; without sigma^2 in the column of beta it does not."""
    [theirs] = [form.polynomial for form in printed("relu", _SIGMA) if form.name == "Q4"]
    s, variance = math.sqrt(2 / math.pi), _SIGMA**2
    system = np.array([[1.5 + 1.5 * variance, s, 0.5], [3 * s * (1 + variance / 2), 1, s / 2], [3, s, 0]])
    wanted = -np.array([s * (4 + 6 * variance), 6 + 6 * variance, s * (12 + 6 * variance)])
    alpha, beta, gamma = np.linalg.solve(system, wanted).tolist()
    mine = polynomial("relu", _SIGMA, (gamma, beta, alpha, 1.0))
    right, wrong = (max(map(abs, polynomial.residuals)) for polynomial in (mine, theirs))
    return compared("example 2", corrected=right, printed=wrong, sentence="largest remaining E[S4 He_j]")


@paper.erratum(
    "q4-constant",
    "section 3.1",
    printed="3 + 3 sigma^4 - 6 sigma^2",
    instead="3 (1 + sigma^2)^2",
    evidence="the mean of Q4(y) is 0 only with it; no centred moment depends on it",
)
def constant() -> Finding:
    """Q4's constant makes its mean 0 for y ~ N(0, 1 + sigma^2)."""
    variance = 1 + _SIGMA**2
    rest = 3 * variance**2 - 6 * variance * variance
    right, wrong = rest + 3 * variance**2, rest + 3 + 3 * _SIGMA**4 - 6 * _SIGMA**2
    return compared("section 3.1, Q4", corrected=right, printed=wrong, sentence="E[Q4(y)] for linear experts")


@paper.erratum(
    "s4-sigma4",
    "appendix B, S4(Z)",
    printed="sigma^4",
    instead="3 sigma^4",
    evidence="the fourth moment of a normal",
)
def fourth_power() -> Finding:
    """E[Y^4 | Z] = g^4 + 6 g^2 sigma^2 + 3 sigma^4."""
    nodes, weights = quadrature()
    g = 0.7
    stated = g**4 + 6 * g**2 * _SIGMA**2
    moment = float(weights @ (g + _SIGMA * nodes) ** 4)
    right, wrong = stated + 3 * _SIGMA**4 - moment, stated + _SIGMA**4 - moment
    return compared(
        "appendix B, S4", corrected=right, printed=wrong, sentence="stated minus actual fourth moment at g = .7"
    )


@paper.erratum(
    "eq4-sign",
    "eq. 4",
    printed="z_i(x) = sigma(w_i x)",
    instead="z_i(x) = sigma(-w_i x)",
    evidence="else it is not eq. 3",
)
def gate_sign() -> Finding:
    """Eq. 4 is eq. 3 in every coordinate where z = sigma(-w x)."""
    x, w, first, second = 0.8, 1.5, 2.0, -1.0

    def mean(z: float) -> float:
        return (1 - z) * first + z * second

    gate = 1 / (1 + math.exp(-w * x))
    eq3 = gate * first + (1 - gate) * second
    return compared(
        "eq. 4", corrected=mean(1 - gate) - eq3, printed=mean(gate) - eq3, sentence="eq. 4 minus eq. 3 at a point"
    )


@paper.erratum(
    "eq14-x",
    "appendix D.3, eq. 14",
    printed="-E[posterior - prior]",
    instead="-E[(posterior - prior) x]",
    evidence="as two lines before, and in D.4",
)
def gradient() -> Finding:
    """L_log's gradient by w_1 is -E[(posterior - prior) x]; eq. 14 has lost the x."""
    task = PAPER_TASK
    samples = task.sample(500, trials=[0], seed=1)
    gates = 0.5 * samples.truth.gates
    by_hand = gates.clone().requires_grad_()
    _, _, likelihood = posterior(State(samples.truth.regressors, by_hand), samples.x, samples.y, task.g, task.noise)
    (slope,) = torch.autograd.grad(-likelihood.sum(), by_hand)
    mine = losses.l_log(State(samples.truth.regressors, gates), samples.x, samples.y, task.g, task.noise).slope.gates
    responsibilities, prior, _ = posterior(
        State(samples.truth.regressors, gates), samples.x, samples.y, task.g, task.noise
    )
    right = float((mine - slope)[0, 0].abs().max())
    wrong = float(((prior - responsibilities)[0, 0].mean() - slope[0, 0]).abs().max())
    return compared("eq. 14", corrected=right, printed=wrong, sentence="distance to the gradient by autograd")


@paper.erratum(
    "eq5-reset",
    "section 2, eq. 5",
    printed="exact for W (r * h)",
    instead="exact for r * (W h), as in torch",
    evidence="unit i of W (r * h) contains the reset gates of all units",
)
def reset_gate() -> Finding:
    """With binary gates eq. 5 is torch's cell, not the one of section 2."""
    gaps = [
        float(gap_by_sharpness(GRU.random(6, 4, seed=1, convention=name), (math.inf,), 512, 1).max())
        for name in ("torch", "paper")
    ]
    return compared(
        "eq. 5",
        corrected=gaps[0],
        printed=gaps[1],
        sentence="largest difference between cell and mixture, reset gate after and before the product",
    )


@paper.erratum(
    "sigma-in-q4",
    "appendix B",
    printed="nothing about how Q4 depends on sigma",
    instead="beta = beta0 - 6 sigma^2, gamma = gamma0 - 3 alpha sigma^2, c not",
    evidence="solved at sigma = 0 and .5",
)
def shift() -> Finding:
    """sigma enters Q4 through beta and gamma: beta0 - 6 sigma^2, gamma0 - 3 alpha sigma^2, c not at all."""
    still, moved = (transforms("relu", sigma).q4 for sigma in (0.0, _SIGMA))
    gamma, beta, alpha, _ = still.coefficients
    first, second = moved.coefficients[:2]
    gaps = (second - beta + 6 * _SIGMA**2, first - gamma + 3 * alpha * _SIGMA**2, moved.strength - still.strength)
    right = max(map(abs, gaps))
    return compared(
        "appendix B",
        corrected=right,
        printed=moved.coefficients[1] - beta,
        sentence="deviation from these formulas, and from no dependence on sigma",
    )


paper.erratum(
    "example1-name",
    "appendix B, example 1",
    printed="S3(y) = y^4 - 6 y^2 (1 + sigma^2)",
    instead="Q4(y) is that",
    evidence="S3 is a name of the other paper",
)

paper.erratum(
    "weights",
    "section 4",
    printed="nothing about mu, lambda, delta, rate and clipping",
    instead="mu = .01, lambda = 1, delta = 1, rate .02 along a cosine, gradients cut at 2",
    evidence="with delta = .01 all of 20 descents stall, without clipping all on finite samples diverged",
)
