"""Samples: parameters, the mixture's law, score functions against derivatives of the density, streams."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from moe_lab.recovery import Inputs, MixtureTask
from moe_lab.recovery.activations import ACTIVATIONS
from tests.recovery import oracle

DRAW = {"trials": range(3), "seed": 5}


def test_parameters():
    task = MixtureTask(experts=4, dimension=7, gate_norm=2.5)
    truth = task.parameters(range(6), seed=3)
    assert truth.regressors.shape == truth.gates.shape == (6, 4, 7) and truth.regressors.dtype == torch.float64
    torch.testing.assert_close(truth.regressors.norm(dim=2), torch.ones(6, 4, dtype=torch.float64))
    torch.testing.assert_close(truth.gates[:, :3].norm(dim=2), torch.full((6, 3), 2.5, dtype=torch.float64))
    assert not truth.gates[:, 3].any()
    inside = (truth.gates[:, :3] @ truth.regressors.mT).abs()
    assert inside.amax((1, 2)).min() > 0.1 and (truth.regressors @ truth.regressors.mT).triu(1).abs().max() > 0.1


def test_orthogonal_gates_and_orthonormal_regressors():
    task = MixtureTask(experts=4, dimension=7, gating="orthogonal")
    truth = task.parameters(range(6), seed=3)
    assert (truth.gates @ truth.regressors.mT).abs().max() < 1e-13
    torch.testing.assert_close(truth.gates[:, :3].norm(dim=2), torch.ones(6, 3, dtype=torch.float64))
    found = task.replace(regressors="orthonormal", gating="random").parameters(range(6), seed=3).regressors
    torch.testing.assert_close(found @ found.mT, torch.eye(4, dtype=torch.float64).expand(6, 4, 4))
    near = (found * truth.regressors).sum(2)  # Gram and Schmidt: the first stays, the others keep their side
    assert (near[:, 0] > 1 - 1e-12).all() and (near > 0).all()


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_y_is_the_chosen_experts_answer_and_noise(activation):
    task = MixtureTask(experts=3, dimension=5, noise=0.3, activation=activation)
    drawn = task.sample(20_000, **DRAW)
    assert len(drawn) == 20_000 and drawn.x.shape == (3, 20_000, 5)
    for trial in range(3):
        x, a = drawn.x[trial].numpy(), drawn.truth.regressors[trial].numpy()[drawn.experts[trial].numpy()]
        noise = drawn.y[trial].numpy() - oracle.FUNCTIONS[activation]((x * a).sum(1))
        assert noise.std() == pytest.approx(0.3, rel=0.02) and abs(noise.mean()) < 0.01
        assert abs(noise @ x / 20_000).max() < 0.01


@pytest.mark.parametrize("share", [None, 0.3])
def test_experts_are_drawn_by_the_gate(share):
    """1{z = i} - softmax_i(<w, x>) has mean 0, alone and times x: within 5 standard errors."""
    task = MixtureTask(experts=4, dimension=5, gate_norm=2.0, first_share=share)
    drawn = task.sample(30_000, **DRAW)
    for trial in range(3):
        x, w = drawn.x[trial].numpy(), drawn.truth.gates[trial].numpy()
        powers = np.exp(x @ w.T)
        prior = powers / powers.sum(1, keepdims=True)
        surplus = np.eye(4)[drawn.experts[trial].numpy()] - prior
        features = np.column_stack((np.ones(len(x)), x, x**2))
        terms = surplus[:, :, None] * features[:, None]
        assert (abs(terms.mean(0)) < 5 * terms.std(0) / np.sqrt(len(x))).all()
        assert (abs(prior - 0.25) > 0.2).any(1).mean() > 0.3, "the gate hardly chooses: the test says nothing"


def test_gaussian_inputs():
    drawn = MixtureTask(dimension=4).sample(40_000, **DRAW)
    assert drawn.inputs.gaussian and not drawn.inputs.means.any() and (drawn.inputs.shares == 1).all()
    assert abs(drawn.x.mean(1)).max() < 0.03
    covariance = drawn.x.mT @ drawn.x / 40_000
    assert (covariance - torch.eye(4, dtype=torch.float64)).abs().max() < 0.04
    assert ((drawn.x**4).mean(1) - 3).abs().max() < 0.3


def test_inputs_from_two_gaussians():
    drawn = MixtureTask(dimension=4, first_share=0.3).sample(40_000, **DRAW)
    inputs = drawn.inputs
    assert not inputs.gaussian and inputs.means.shape == (3, 2, 4)
    torch.testing.assert_close(inputs.means.norm(dim=2), torch.ones(3, 2, dtype=torch.float64))
    torch.testing.assert_close(inputs.shares, torch.tensor([[0.3, 0.7]], dtype=torch.float64).expand(3, 2))
    mean = (inputs.shares[..., None] * inputs.means).sum(1)
    assert (drawn.x.mean(1) - mean).abs().max() < 0.03
    centred, apart = drawn.x - mean[:, None], inputs.means[:, 0] - inputs.means[:, 1]
    wanted = torch.eye(4, dtype=torch.float64) + 0.21 * apart[:, :, None] * apart[:, None]
    assert (centred.mT @ centred / 40_000 - wanted).abs().max() < 0.05


def test_responsibilities_are_bayes_rule():
    inputs = MixtureTask(dimension=3, first_share=0.8).sample(20, **DRAW).inputs
    for trial in range(3):
        for point, found in zip(inputs.x[trial], inputs.responsibilities()[trial], strict=True):
            parts = [
                (p * torch.exp(-((point - mu) ** 2).sum() / 2)).item()
                for p, mu in zip(inputs.shares[trial], inputs.means[trial], strict=True)
            ]
            assert found.tolist() == pytest.approx([part / sum(parts) for part in parts], rel=1e-12)


@pytest.mark.parametrize("share", [None, 0.3], ids=["one Gaussian", "two"])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_score_functions_are_derivatives_of_the_density(order, share):
    """(-1)^m p^(m) / p along a direction, which is |a|^m S_m at the unit vector; directions of any length."""
    inputs = MixtureTask(dimension=5, first_share=share).sample(6, trials=range(2), seed=1).inputs
    directions = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = inputs.hermite(directions, order)
    assert found.shape == (2, 6, 3)
    for trial in range(2):
        law = inputs.means[trial], inputs.shares[trial]
        for n, point in enumerate(inputs.x[trial]):
            for m, direction in enumerate(directions[trial]):
                wanted = oracle.score_along(point, direction, order, *law)
                assert found[trial, n, m].item() == pytest.approx(wanted, rel=1e-9, abs=1e-9)


def test_score_functions_of_three_components():
    """Nothing in them knows that tasks have at most two."""
    generator = torch.Generator().manual_seed(2)
    means = torch.randn(1, 3, 4, generator=generator, dtype=torch.float64)
    shares = torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64)
    inputs = Inputs(torch.randn(1, 5, 4, generator=generator, dtype=torch.float64), means, shares)
    direction = torch.randn(1, 1, 4, generator=generator, dtype=torch.float64)
    for n in range(5):
        wanted = oracle.score_along(inputs.x[0, n], direction[0, 0], 3, means[0], shares[0])
        assert inputs.hermite(direction, 3)[0, n, 0].item() == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("order", [0, 5, -1])
def test_there_are_four_orders(order):
    inputs = MixtureTask(dimension=3).sample(2, **DRAW).inputs
    with pytest.raises(ValueError, match=rf"^order of a score function must be 1, 2, 3 or 4: got order={order}$"):
        inputs.hermite(torch.ones(3, 1, 3, dtype=torch.float64), order)


# --- streams ----------------------------------------------------------------------------------------------------------


def test_a_changed_setting_leaves_the_other_draws_alone():
    """Noise scales, R scales: the same samples, but for what they change."""
    one, two = (MixtureTask(noise=noise).sample(50, **DRAW) for noise in (0.1, 0.4))
    answer = (one.x * one.truth.regressors.gather(1, one.experts[..., None].expand(-1, -1, 10))).sum(2)
    assert (one.x == two.x).all() and (one.experts == two.experts).all()
    torch.testing.assert_close(4 * (one.y - answer), two.y - answer)
    orthogonal = MixtureTask(gating="orthogonal").parameters(range(3), 5)
    assert (orthogonal.regressors == one.truth.regressors).all()
