"""L4, l2 and L_log: against their definitions and autograd, eq. 7 against eq. 8, and what a minimiser means."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from moe_lab.recovery import MixtureTask, transforms
from moe_lab.recovery.activations import ACTIVATIONS
from moe_lab.recovery.em import State
from moe_lab.recovery.landscape import losses
from moe_lab.recovery.landscape.losses import Weights
from moe_lab.recovery.measures import regressor_fit
from tests.recovery import oracle

WEIGHTS = Weights(mu=0.3, penalty=0.7, ridge=0.2)
EACH_G = pytest.mark.parametrize("g", list(ACTIVATIONS))


def some(g: str = "identity", experts: int = 3, samples: int = 60, **more):
    task = MixtureTask(experts=experts, dimension=6, activation=g, noise=0.2, **more)
    return task, task.sample(samples, trials=[0, 4], seed=3)


def rows(experts: int = 3, seed: int = 0) -> Tensor:
    return torch.as_tensor(np.random.default_rng(seed).standard_normal((2, experts, 6))).requires_grad_()


def printed(at: Tensor, x: Tensor, y: Tensor, g: str) -> Tensor:
    """Eq. 7, term by term."""
    one, total = transforms(g, 0.2), torch.zeros(len(at), dtype=at.dtype)
    q4, q2, k = one.q4(y), one.q2(y), at.shape[1]
    for i in range(k):
        for j in range(k):
            t1, t2, t3 = oracle.hermite_projections(at[:, i], at[:, j], x, one.q4.strength, one.p2.strength)
            if i != j:
                total = total + (q4 * t1).mean(1)
            else:
                total = total - WEIGHTS.mu * (q4 * t2).mean(1) + WEIGHTS.penalty * ((q2 * t3).mean(1) - 1) ** 2
    return total + WEIGHTS.ridge / 2 * at.square().sum((1, 2))


def close(found: Tensor, wanted: Tensor, tolerance: float = 1e-9) -> None:
    scale = float(wanted.detach().abs().max())
    torch.testing.assert_close(found, wanted.detach(), rtol=0, atol=tolerance * scale)


class TestAgainstAutograd:
    @EACH_G
    def test_l4(self, g):
        _, samples = some(g)
        at = rows()
        value, slope = losses.l4(at.detach(), samples.x, samples.y, transforms(g, 0.2), WEIGHTS)
        wanted = printed(at, samples.x, samples.y, g)
        close(value, wanted)
        close(slope, torch.autograd.grad(wanted.sum(), at)[0])

    def test_l4_without_samples(self):
        truth, shares, at = rows(4, 1).detach(), torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.25] * 4]).double(), rows()
        c = torch.einsum("tmd,tid->tmi", truth, at).square()
        between = torch.einsum("tm,tmi,tmj->tij", shares, c, c)
        own = between.diagonal(dim1=1, dim2=2).sum(1)
        miss = (torch.einsum("tm,tmi->ti", shares, c) - 1).square().sum(1)
        wanted = between.sum((1, 2)) - own - WEIGHTS.mu * own + WEIGHTS.penalty * miss
        wanted = wanted + WEIGHTS.ridge / 2 * at.square().sum((1, 2))  # eq. 8
        value, slope = losses.l4_population(at.detach(), truth, shares, WEIGHTS)
        close(value, wanted)
        close(slope, torch.autograd.grad(wanted.sum(), at)[0])

    @EACH_G
    def test_l2(self, g):
        task, samples = some(g)
        state = State(rows(), rows(seed=1))
        prior = torch.softmax(torch.einsum("tid,tnd->tin", state.gates, samples.x), 1)
        answer = (prior * task.g(torch.einsum("tid,tnd->tin", state.regressors, samples.x))).sum(1)
        wanted = (answer - samples.y).square().mean(1)
        found = losses.l2(State(*(part.detach() for part in state)), samples.x, samples.y, task.g)
        close(found.value, wanted)
        by_regressors, by_gates = torch.autograd.grad(wanted.sum(), [*state])
        close(found.slope.regressors, by_regressors)
        close(found.slope.gates[:, :-1], by_gates[:, :-1])
        assert (found.slope.gates[:, -1] == 0).all()

    @EACH_G
    def test_l_log(self, g):
        task, samples = some(g)
        state = State(rows(), rows(seed=1))
        prior = torch.softmax(torch.einsum("tid,tnd->tin", state.gates, samples.x), 1)
        answers = task.g(torch.einsum("tid,tnd->tin", state.regressors, samples.x))
        density = torch.distributions.Normal(answers, task.noise).log_prob(samples.y[:, None])
        wanted = -(prior.log() + density).logsumexp(1).mean(1)
        found = losses.l_log(State(*(part.detach() for part in state)), samples.x, samples.y, task.g, task.noise)
        close(found.value, wanted)
        (by_gates,) = torch.autograd.grad(wanted.sum(), [state.gates])
        close(found.slope.gates[:, :-1], by_gates[:, :-1])
        assert (found.slope.gates[:, -1] == 0).all()
        assert (found.slope.regressors == 0).all()


def difference(task: MixtureTask, at: Tensor, samples: int = 100_000, trials: int = 12) -> tuple[float, float]:
    """Mean of eq. 7 - eq. 8 over independent draws with lambda = 0, and its standard error: both are linear in them."""
    truth, shares = task.parameters([0], 1), losses.shares_of(task.parameters([0], 1).gates)
    weights = WEIGHTS._replace(penalty=0.0)
    wanted, _ = losses.l4_population(at, truth.regressors, shares, weights)
    one, found = transforms(task.g, task.noise), []
    for part in range(trials):
        drawn = task.sample(samples, trials=[0], seed=1, split=f"part {part}")
        found.append(float(losses.l4(at, drawn.x, drawn.y, one, weights)[0]))
    gaps = np.array(found) - float(wanted)
    return float(gaps.mean()), float(gaps.std(ddof=1) / np.sqrt(trials))


def expected(task: MixtureTask, at: Tensor, points: int) -> float:
    """Eq. 7 in expectation without a sample: Gauss-Hermite quadrature over x in all d dimensions and over the noise."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(points)
    grid = np.stack(np.meshgrid(*[nodes] * task.dimension, indexing="ij"), -1).reshape(1, -1, task.dimension)
    share = np.stack(np.meshgrid(*[weights / weights.sum()] * task.dimension, indexing="ij"), -1).prod(-1).ravel()
    x, weight, one = torch.as_tensor(grid), torch.as_tensor(share), transforms(task.g, task.noise)
    truth = task.parameters([0], 1)
    prior, answers = (truth.gates @ x.mT).softmax(1), task.g(truth.regressors @ x.mT)
    noise, chances = np.polynomial.hermite_e.hermegauss(9)
    q4, q2 = (
        sum(
            c * (prior * q(answers + task.noise * e)).sum(1)
            for e, c in zip(noise, chances / chances.sum(), strict=True)
        )
        for q in (one.q4, one.q2)
    )
    total = WEIGHTS.ridge / 2 * at.square().sum()
    for i in range(task.experts):
        for j in range(task.experts):
            t1, t2, t3 = oracle.hermite_projections(at[:, i], at[:, j], x, one.q4.strength, one.p2.strength)
            if i != j:
                total = total + (weight * q4 * t1).sum()
            else:
                mean = (weight * q2 * t3).sum()
                total = total - WEIGHTS.mu * (weight * q4 * t2).sum() + WEIGHTS.penalty * (mean - 1) ** 2
    return float(total)


def gap(experts: int, gating: str, g: str) -> tuple[float, float]:
    """Eq. 7 in expectation less eq. 8, near the regressors, and eq. 8."""
    d = 3 if experts == 2 else 4
    task = MixtureTask(experts=experts, dimension=d, noise=0.2, activation=g, gating=gating)
    truth = task.parameters([0], 1)
    at = truth.regressors + 0.3 * torch.as_tensor(np.random.default_rng(0).standard_normal((1, experts, d)))
    value, _ = losses.l4_population(at, truth.regressors, losses.shares_of(truth.gates), WEIGHTS)
    return expected(task, at, 40 if d == 3 else 22) - float(value), float(value)


class TestPopulation:
    @pytest.mark.parametrize(
        ("experts", "gating", "g"),
        [
            (2, "orthogonal", "identity"),
            (3, "orthogonal", "identity"),
            (3, "orthogonal", "sigmoid"),
            (2, "random", "identity"),
            (2, "random", "tanh"),
            (2, "random", "sigmoid"),
        ],
    )
    def test_eq_8_is_eq_7_without_samples(self, experts, gating, g):
        """Where gates are orthogonal to the regressors, and for two experts whose g is odd up to a constant."""
        found, value = gap(experts, gating, g)
        assert abs(found) < 2e-5 * value

    @pytest.mark.parametrize(("experts", "g"), [(3, "identity"), (3, "tanh"), (3, "sigmoid"), (2, "relu")])
    def test_eq_8_is_not_eq_7_for_random_gates_of_three_experts_or_a_relu(self, experts, g):
        found, value = gap(experts, "random", g)
        assert abs(found) > 0.03 * value

    @pytest.mark.parametrize(
        ("gating", "experts", "g"),
        [
            ("orthogonal", 2, "identity"),
            ("random", 2, "identity"),
            ("orthogonal", 3, "identity"),
            ("orthogonal", 2, "sigmoid"),
            ("random", 2, "tanh"),
        ],
    )
    def test_eq_7_is_eq_8_within_monte_carlo_error(self, gating, experts, g):
        task = MixtureTask(experts=experts, dimension=6, noise=0.05, gating=gating, activation=g)
        at = task.parameters([0], 1).regressors + 0.3 * rows(experts).detach()[:1]
        gap, error = difference(task, at)
        truth, shares = task.parameters([0], 1).regressors, torch.ones(1, experts).double()
        scale = float(losses.l4_population(at, truth, shares, WEIGHTS)[0].abs())
        assert abs(gap) < 4.5 * error
        assert error < 0.5 * scale

    def test_the_square_of_a_mean_adds_its_variance(self):
        """Why small batches make L4 larger than eq. 8: by lambda times the variance of the mean."""
        task = MixtureTask(dimension=6, noise=0.05, gating="orthogonal")
        truth, one = task.parameters([0], 1), transforms(task.g, task.noise)
        at, weights = truth.regressors, Weights(0.0, 1.0, 0.0)
        drawn = task.sample(256_000, trials=[0], seed=1)
        terms = one.q2(drawn.y)[:, None] * ((at @ drawn.x.mT).square() - 1) / one.p2.strength
        expected = float(terms.var(2).sum()) / 64

        def mean_square(parts: int) -> Tensor:
            """lambda's term alone, averaged over so many equal parts of the samples."""
            x, y, each = drawn.x.view(parts, -1, 6), drawn.y.view(parts, -1), at.expand(parts, -1, -1)
            return (losses.l4(each, x, y, one, weights)[0] - losses.l4(each, x, y, one, Weights(0, 0, 0))[0]).mean()

        assert float(mean_square(4000) - mean_square(1)) == pytest.approx(expected, rel=0.1)

    def test_shares_are_how_often_experts_are_chosen(self):
        _, samples = some(experts=3, samples=200_000, gate_norm=2)
        shares = losses.shares_of(samples.truth.gates)
        counted = torch.stack([(samples.experts == i).double().mean(1) for i in range(3)], dim=1)
        torch.testing.assert_close(shares, counted, rtol=0, atol=0.004)
        torch.testing.assert_close(shares.sum(1), torch.ones(2).double())

    def test_two_experts_share_alike(self):
        task = MixtureTask(gate_norm=5)
        torch.testing.assert_close(losses.shares_of(task.parameters([0, 1], 0).gates), torch.full((2, 2), 0.5).double())


class TestMinimisers:
    def test_orthonormal_regressors_at_their_best_length(self):
        task = MixtureTask(experts=3, regressors="orthonormal", gating="orthogonal")
        truth, weights = task.parameters([0], 0), Weights(0.01, 1.0, 0.5)
        best = torch.as_tensor(losses.minimiser(truth, weights))
        shares = losses.shares_of(truth.gates)
        value, slope = losses.l4_population(best, truth.regressors, shares, weights)
        assert slope.abs().max() < 1e-12
        for seed in range(20):
            near = best + 0.01 * torch.as_tensor(np.random.default_rng(seed).standard_normal(best.shape))
            assert losses.l4_population(near, truth.regressors, shares, weights)[0] > value
        for changed in (best.flip(1), -best):  # L4 knows neither order nor signs
            torch.testing.assert_close(losses.l4_population(changed, truth.regressors, shares, weights)[0], value)

    def test_minimiser_with_too_large_a_ridge(self):
        with pytest.raises(ValueError, match=r"2 lambda p must be greater than delta/2.*ridge=9"):
            losses.minimiser(MixtureTask().parameters([0], 0), Weights(0.01, 1.0, 9.0))

    def test_regressors_are_read_from_the_pseudo_inverse(self):
        """Theorem 1: rows that are orthogonal to all regressors but one, which rows of A are and regressors are not."""
        truth = MixtureTask(experts=3).parameters([0, 1], 0).regressors
        dual = 1.7 * torch.linalg.pinv(truth).mT
        np.testing.assert_allclose(regressor_fit(losses.regressors_from(dual), truth), 1, atol=1e-12)
        assert (regressor_fit(dual, truth) < 0.99).all()
        norms = torch.linalg.vector_norm(losses.regressors_from(dual), dim=2)
        torch.testing.assert_close(norms, torch.ones(2, 3).double())

    def test_rows_that_are_not_finite_give_nan_alone(self):
        at = rows().detach()
        alone = losses.regressors_from(at)
        at[1, 0, 0] = float("inf")
        found = losses.regressors_from(at)
        assert found[1].isnan().all()
        torch.testing.assert_close(found[0], alone[0])
