"""EM that fits its noise too: against the oracle's likelihood, step by step, and when it has converged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from moe_lab.recovery import MixtureTask
from moe_lab.recovery.activations import ACTIVATIONS
from moe_lab.recovery.em import State
from moe_lab.recovery.gridlock.fitting import Fitted, em_iterations, until_convergence
from tests.recovery import oracle


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
@pytest.mark.parametrize("along", [False, True], ids=["everything", "lengths"])
def test_no_step_lowers_the_objective(activation, along):
    drawn = MixtureTask(experts=3, dimension=4, activation=activation, noise=0.2).sample(200, trials=range(3), seed=0)
    generator = torch.Generator().manual_seed(0)
    a, w = torch.randn(2, 3, 3, 4, generator=generator, dtype=torch.float64)
    w[:, -1] = 0
    directions = a[..., None] if along else None
    g, sigma = ACTIVATIONS[activation], torch.ones(3, dtype=torch.float64)
    steps = em_iterations(State(a, w), sigma, drawn.x, drawn.y, g, prior=1.0, directions=directions)
    before = next(steps)
    for _, now in zip(range(40), steps, strict=False):
        assert (now.objective >= before.objective - 1e-10).all()
        before = now
    if along:
        cosines = torch.nn.functional.cosine_similarity(before.state.regressors, a, dim=2)
        assert (cosines.abs() > 1 - 1e-9).all()


def test_sigma_is_the_maximum_likelihoods():
    """With a negligible prior, converged: sigma^2 = mean sum_i p_i (y - <a_i, x>)^2, and no slope in sigma."""
    drawn = MixtureTask(dimension=3, noise=0.4).sample(800, trials=[0], seed=0)
    start = State(drawn.truth.regressors, drawn.truth.gates)
    steps = em_iterations(
        start, torch.ones(1, dtype=torch.float64), drawn.x, drawn.y, ACTIVATIONS["identity"], prior=1e-9
    )
    best, iterations, converged = until_convergence(steps, 500, 1e-13)
    assert converged and 5 < iterations < 500
    (a, w), sigma = (part[0].numpy() for part in best.state), best.sigma.item()
    x, y = drawn.x[0].numpy(), drawn.y[0].numpy()
    after, _, likelihood = oracle.posteriors(a, w, x, y, oracle.FUNCTIONS["identity"], sigma)
    assert sigma**2 == pytest.approx((after * (y - a @ x.T) ** 2).sum() / 800, rel=1e-4)
    assert best.likelihood.item() == pytest.approx(likelihood, rel=1e-9)
    for other in (0.99 * sigma, 1.01 * sigma):
        assert oracle.posteriors(a, w, x, y, oracle.FUNCTIONS["identity"], other)[2] < likelihood


def test_the_best_state_and_convergence_are_returned():
    """Of objectives 0, 3, 1, 1: the 3, converged when a step gains nothing."""
    state = State(torch.zeros(1, 1, 1), torch.zeros(1, 1, 1))

    def steps(*objectives: float) -> Iterator[Fitted]:
        for value in objectives:
            yield Fitted(state, torch.ones(1), torch.ones(1), torch.tensor([value]))

    best, iterations, converged = until_convergence(steps(0.0, 3.0, 1.0, 1.0), 10, 1e-6)
    assert (best.objective.item(), iterations, converged) == (3.0, 2, True)
    best, iterations, converged = until_convergence(steps(0.0, 1.0, 2.0, 3.0), 2, 1e-6)
    assert (best.objective.item(), iterations, converged) == (2.0, 2, False)
