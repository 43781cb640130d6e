"""EM against Bayes' rule by explicit sums, scipy's maximisers and autograd; its likelihood; its limits."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from moe_lab.recovery import Activation, MixtureSamples, MixtureTask, em
from moe_lab.recovery.activations import ACTIVATIONS
from moe_lab.recovery.em import Moments, State, projected
from tests.recovery import oracle

EACH_G = pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
TRIALS = 2


def case(
    k: int = 3, d: int = 4, samples: int = 120, activation: str = "identity", noise: float = 0.3
) -> MixtureSamples:
    task = MixtureTask(experts=k, dimension=d, activation=activation, noise=noise)
    return task.sample(samples, trials=range(TRIALS), seed=7)


def somewhere(k: int, d: int, seed: int = 0) -> State:
    drawn = torch.randn(2, TRIALS, k, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    drawn[1, :, -1] = 0
    return State(0.7 * drawn[0], 0.8 * drawn[1])


class Progress(NamedTuple):
    """EM after an iteration."""

    state: State
    likelihood: Tensor


def runs(start: State, data: MixtureSamples, sigma: float, iterations: int, **given) -> list[Progress]:
    """Runs EM, and returns where it is before the first iteration and after each."""
    given = {"g": ACTIVATIONS["identity"], "move_regressors": True, **given}
    running, path = em.EM(start, data.x, data.y, given.pop("g"), sigma, **given), []
    for iteration in range(iterations + 1):
        if iteration:
            running.advance(1)
        path.append(Progress(State(*(part.clone() for part in running.state)), running.likelihood.clone()))
    return path


def each(*values: Tensor) -> list[tuple[np.ndarray, ...]]:
    return [tuple(value[t].numpy() for value in values) for t in range(TRIALS)]


# --- the E-step -------------------------------------------------------------------------------------------------------


@EACH_G
def test_the_posterior_is_bayes_rule(activation):
    data, state = case(activation=activation), somewhere(3, 4)
    after, prior, likelihood = em.posterior(state, data.x, data.y, ACTIVATIONS[activation], 0.3)
    for t, (a, w, x, y) in enumerate(each(*state, data.x, data.y)):
        p, q, value = oracle.posteriors(a, w, x, y, oracle.FUNCTIONS[activation], 0.3)
        np.testing.assert_allclose(after[t], p, rtol=1e-9, atol=1e-300)
        np.testing.assert_allclose(prior[t], q, rtol=1e-12)
        assert likelihood[t].item() == pytest.approx(value, rel=1e-12)


def test_the_posterior_far_away_stays_finite():
    """Densities that are 0 in floating point: log space does not mind."""
    data = case(samples=20)
    state = State(1e6 * somewhere(3, 4).regressors, 1e5 * somewhere(3, 4).gates)
    after, _, likelihood = em.posterior(state, data.x, data.y, ACTIVATIONS["identity"], 1e-3)
    assert torch.isfinite(after).all() and torch.isfinite(likelihood).all()
    torch.testing.assert_close(after.sum(1), torch.ones(2, 20, dtype=torch.float64))


# --- the M-steps ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 8])
def test_newton_steps_end_where_scipy_does(k):
    data, state = case(k=k, d=8 if k == 8 else 4, samples=200), somewhere(k, 8 if k == 8 else 4)
    after, _, _ = em.posterior(state, data.x, data.y, ACTIVATIONS["identity"], 0.3)
    found = em.gate_newton(state.gates, after, Moments.of(data.x, data.y), steps=25)
    assert not found[:, -1].any()
    for t, (p, x) in enumerate(each(after, data.x)):
        np.testing.assert_allclose(found[t], oracle.best_gates(p, x), atol=2e-5)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_one_newton_step(k):
    data, state = case(k=k, d=5), somewhere(k, 5)
    state = state._replace(gates=0.2 * state.gates)
    after, _, _ = em.posterior(state, data.x, data.y, ACTIVATIONS["identity"], 0.3)
    found = em.gate_newton(state.gates, after, Moments.of(data.x, data.y))
    for t, (w, p, x) in enumerate(each(state.gates, after, data.x)):
        np.testing.assert_allclose(found[t], oracle.newton_gates(w, p, x), rtol=1e-6, atol=1e-7)


def test_a_newton_step_too_far_is_halved():
    """From saturated gates a whole step overshoots: none may lower eq. 8."""
    data, start = case(samples=300), somewhere(3, 4)
    after, _, _ = em.posterior(start, data.x, data.y, ACTIVATIONS["identity"], 0.3)
    gates, moments, whole_is_worse = 6 * start.gates, Moments.of(data.x, data.y), 0
    for _ in range(6):
        moved = em.gate_newton(gates, after, moments)
        for w, v, p, x in each(gates, moved, after, data.x):
            posterior, inputs = torch.as_tensor(p), torch.as_tensor(x)
            value = {
                name: oracle.gate_value(torch.as_tensor(at[:-1]), posterior, inputs).item()
                for name, at in (("before", w), ("after", v), ("whole", oracle.newton_gates(w, p, x)))
            }
            assert value["after"] >= value["before"] - 1e-9 * abs(value["before"])
            whole_is_worse += not value["whole"] >= value["before"]
        gates = moved
    assert whole_is_worse, "no step had to be halved: the test says nothing"


def test_a_gradient_step_is_autograds():
    data, state = case(), somewhere(3, 4)
    after, _, _ = em.posterior(state, data.x, data.y, ACTIVATIONS["identity"], 0.3)
    found = em.gate_gradient(state.gates, after, Moments.of(data.x, data.y), rate=1.7)
    for t, (w, p, x) in enumerate(each(state.gates, after, data.x)):
        at = torch.as_tensor(w[:-1].copy()).requires_grad_()
        value = oracle.gate_value(at, torch.as_tensor(p), torch.as_tensor(x)) / len(x)
        (slope,) = torch.autograd.grad(value, at)
        np.testing.assert_allclose(found[t, :-1], w[:-1] + 1.7 * slope.numpy(), rtol=1e-12)
    assert not found[:, -1].any()


@EACH_G
def test_regressors_by_weighted_least_squares(activation):
    data, state = case(activation=activation), somewhere(3, 4)
    g = ACTIVATIONS[activation]
    after, _, _ = em.posterior(state, data.x, data.y, g, 0.3)
    found = em.regressor_step(state.regressors, after, Moments.of(data.x, data.y), g)
    for t, (a, p, x, y) in enumerate(each(state.regressors, after, data.x, data.y)):
        stepped = oracle.gauss_newton(a, p, x, y, g.function)
        np.testing.assert_allclose(found[t], stepped, rtol=1e-6, atol=1e-7)
        if g.linear:
            np.testing.assert_allclose(found[t], oracle.least_squares(p, x, y), rtol=1e-7, atol=1e-8)


def test_products_in_one_or_one_by_one(monkeypatch):
    data, weights = case(d=6, samples=50), torch.rand(2, 5, 50, dtype=torch.float64)
    one = Moments.of(data.x, data.y)
    monkeypatch.setattr(em, "MOST_PAIRS", 2 * 50 * 21 - 1)
    by_one = Moments.of(data.x, data.y)
    assert one.products is not None and by_one.products is None
    torch.testing.assert_close(one.gram(weights), by_one.gram(weights))
    wanted = torch.einsum("tmn,tna,tnb->tmab", weights, data.x, data.x)
    torch.testing.assert_close(one.gram(weights), wanted)


# --- iterations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("moving", [True, False], ids=["joint", "gates alone"])
def test_em_is_the_oracles(k, moving):
    data, start = case(k=k, d=4, samples=150), somewhere(k, 4)
    start = start._replace(gates=0.3 * start.gates)
    found = runs(start, data, 0.5, 4, move_regressors=moving)
    for t, (x, y) in enumerate(each(data.x, data.y)):
        a, w = start.regressors[t].numpy(), start.gates[t].numpy()
        for progress in found:
            after, _, likelihood = oracle.posteriors(a, w, x, y, oracle.FUNCTIONS["identity"], 0.5)
            np.testing.assert_allclose(progress.state.regressors[t], a, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(progress.state.gates[t], w, rtol=1e-5, atol=1e-6)
            assert progress.likelihood[t].item() == pytest.approx(likelihood, rel=1e-7)
            w = oracle.newton_gates(w, after, x)
            a = oracle.least_squares(after, x, y) if moving else a


@pytest.mark.parametrize("k, d, sigma", [(2, 4, 0.1), (3, 4, 0.5), (5, 6, 0.3), (8, 8, 0.1)])
@pytest.mark.parametrize("moving", [True, False], ids=["joint", "gates alone"])
@pytest.mark.parametrize("rate", [None, 1.0], ids=["newton", "gradient"])
def test_the_likelihood_never_falls(k, d, sigma, moving, rate):
    data = case(k=k, d=d, samples=300, noise=sigma)
    for seed in range(3):
        found = runs(somewhere(k, d, seed), data, sigma, 25, move_regressors=moving, gradient_rate=rate)
        likelihood = torch.stack([progress.likelihood for progress in found])
        assert torch.isfinite(likelihood).all()
        for before, after in itertools.pairwise(likelihood):
            assert (after >= before - 1e-9 * before.abs().clamp(min=1)).all()
        assert (likelihood[-1] > likelihood[0]).all()


def test_where_em_rests_the_likelihood_has_no_slope():
    data = case(k=2, samples=400)
    last = runs(State(data.truth.regressors, data.truth.gates), data, 0.3, 60)[-1].state
    at = [part.clone().requires_grad_() for part in last]
    _, _, likelihood = em.posterior(State(*at), data.x, data.y, ACTIVATIONS["identity"], 0.3)
    for slope in torch.autograd.grad(likelihood.sum(), at):
        assert slope.abs().max() < 1e-6


@EACH_G
def test_from_near_the_truth_em_comes_near_the_truth(activation):
    data = case(k=2, d=3, samples=4000, activation=activation, noise=0.05)
    near = State(data.truth.regressors + 0.1, data.truth.gates)
    last = runs(near, data, 0.05, 15, g=ACTIVATIONS[activation])[-1].state
    assert (last.regressors - data.truth.regressors).abs().max() < 0.03
    assert (last.gates - data.truth.gates).norm(dim=2).max() < 0.35


def test_gates_alone_are_found_from_anywhere():
    """Algorithm 2 with true regressors: wherever the gates begin, the same end."""
    data = case(k=3, samples=500, noise=0.1)
    starts = [State(data.truth.regressors, somewhere(3, 4, seed).gates) for seed in range(3)]
    ends = [runs(start, data, 0.1, 60, move_regressors=False)[-1].state.gates for start in starts]
    for end in ends[1:]:
        torch.testing.assert_close(end, ends[0], atol=1e-5, rtol=1e-4)
    gradient = runs(
        State(data.truth.regressors, somewhere(3, 4).gates), data, 0.1, 300, move_regressors=False, gradient_rate=2.0
    )[-1].state.gates
    torch.testing.assert_close(gradient, ends[0], atol=1e-3, rtol=1e-2)


def test_gates_are_projected_onto_a_ball():
    gates = torch.tensor([[[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]]]).double()
    found = projected(gates, 2.0)
    torch.testing.assert_close(found, torch.tensor([[[1.2, 1.6], [0.3, 0.4], [0.0, 0.0]]]).double())
    with pytest.raises(ValueError, match=r"radius .R. must be a finite number greater than 0: got R=0"):
        projected(gates, 0.0)


def test_gates_stay_in_their_ball():
    data = case(k=3, samples=300, noise=0.1)
    free = runs(somewhere(3, 4), data, 0.1, 20)
    kept = runs(somewhere(3, 4), data, 0.1, 20, radius=0.5)
    assert max(progress.state.gates.norm(dim=2).max() for progress in kept[1:]) <= 0.5 + 1e-12
    assert free[-1].state.gates.norm(dim=2).max() > 0.6, "R binds nowhere: the test says nothing"


@pytest.mark.parametrize("rate", [None, 1.0])
def test_the_gauge_stays(rate):
    for progress in runs(somewhere(4, 4), case(k=4), 0.3, 5, gradient_rate=rate):
        assert not progress.state.gates[:, -1].any()


def test_an_expert_without_samples_stays_finite():
    data, start = case(k=3), somewhere(3, 4)
    start.regressors[:, 1] = 1e4  # no sample is anywhere near it
    for progress in runs(start, data, 0.05, 10):
        assert all(torch.isfinite(part).all() for part in progress.state)


def test_an_activation_of_ones_own():
    softplus = Activation("softplus", torch.nn.functional.softplus)
    data = case(k=2)
    found = runs(somewhere(2, 4), data, 0.3, 3, g=softplus)
    assert all(torch.isfinite(part).all() for part in found[-1].state)
    assert (found[-1].likelihood > found[0].likelihood).all()


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.nan])
def test_sigma_is_positive(sigma):
    with pytest.raises(ValueError, match=r"^sigma must be greater than 0: got sigma="):
        runs(somewhere(3, 4), case(), sigma, 1)


def test_trials_that_are_let_go_change_nothing_for_the_others():
    data, start = case(k=3), somewhere(3, 4)
    whole, part = (em.EM(start, data.x, data.y, ACTIVATIONS["identity"], 0.3, move_regressors=True) for _ in range(2))
    whole.advance(6)
    part.advance(2)
    part.keep(np.array([1]))
    part.advance(4)
    assert part.trials == [1] and part.steps.tolist() == [6]
    for one, all_ in zip(part.changed, whole.changed, strict=True):
        torch.testing.assert_close(one[0], all_[1], rtol=1e-9, atol=1e-12)
