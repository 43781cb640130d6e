"""Softmax and sigmoid gates: derivatives, fits and errors against autograd, closed forms and numbers by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import xarray as xr

from moe_lab.recovery import gating
from moe_lab.recovery.activations import activation_of
from moe_lab.recovery.gating import GATES, Mixture

G = activation_of("identity")


def some(experts: int = 2, dimension: int = 3, trials: int = 2) -> tuple[Mixture, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    shape = trials, experts, dimension
    return Mixture(normal(*shape), normal(*shape), normal(trials, experts)), normal(trials, 40, dimension)


@pytest.mark.parametrize("activation", ["identity", "tanh"])
@pytest.mark.parametrize("gate", GATES)
def test_the_jacobian_is_autograds(gate: str, activation: str) -> None:
    (a, w, b), x = some()
    g = activation_of(activation)

    def mean(flat: torch.Tensor) -> torch.Tensor:
        return gating.mean_of(
            Mixture(flat[:6].view(1, 2, 3), flat[6:12].view(1, 2, 3), flat[12:].view(1, 2)), x[:1], g, gate
        )

    flat = torch.cat([part[0].flatten() for part in (a, w, b)])
    wanted = torch.autograd.functional.jacobian(mean, flat)
    value, found = gating.jacobian(Mixture(a, w, b), x, g, gate)
    torch.testing.assert_close(found[0], wanted[0], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(value[:1], mean(flat), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("gate", GATES)
def test_a_fit_without_noise_finds_the_truth_and_never_raises_the_error(gate: str) -> None:
    truth, _ = some()
    x = torch.randn(2, 400, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    y = gating.mean_of(truth, x, G, gate)
    start = Mixture(*(part + 0.1 * torch.sin(torch.arange(part.numel()).double()).view_as(part) for part in truth))
    errors = []
    for iterations in (0, 1, 3, 60):
        found = gating.fit(start, x, y, G, gate, iterations)
        errors.append(float((y - gating.mean_of(found, x, G, gate)).square().mean()))
    assert errors == sorted(errors, reverse=True) and errors[-1] < 1e-16 < errors[0]
    assert gating.expert_error(found, truth).max() < 1e-5


def test_weights_copies_and_the_error_by_hand() -> None:
    truth, x = some()
    three = gating.with_copies(truth, 3)
    torch.testing.assert_close(gating.mean_of(three, x, G, "softmax"), gating.mean_of(truth, x, G, "softmax"))
    scores = x @ truth.gates.mT + truth.biases[:, None]
    alone = gating.gate_weights(truth, x, "sigmoid")
    torch.testing.assert_close(alone, 1 / (1 + torch.exp(-scores)))
    torch.testing.assert_close(
        gating.gate_weights(truth, x, "softmax")[..., 0], torch.sigmoid(scores[..., 0] - scores[..., 1])
    )
    one = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]], dtype=torch.float64)
    rest = torch.zeros_like(one), torch.zeros(1, 2, dtype=torch.float64)
    found = torch.tensor([[[9.0, 9.0], [0.0, 1.3], [1.4, 0.0]]], dtype=torch.float64)
    assert gating.expert_error(Mixture(found, *rest), Mixture(one, *rest))[0] == pytest.approx(np.sqrt(0.125))


def test_a_linear_expert_cannot_be_told_from_a_constant_sigmoid() -> None:
    """With w = 0 the derivative by the bias is a combination of those by the regressor, and only then."""
    (a, w, b), x = some()
    for last, rank in ((0.0, 13), (1.0, 14)):
        gates = torch.cat((w[:, :1], last * w[:, 1:]), dim=1)
        _, slopes = gating.jacobian(Mixture(a, gates, b), x, G, "sigmoid")
        assert int(torch.linalg.matrix_rank(slopes[0], rtol=1e-9)) == rank


@pytest.fixture(scope="module")
def rates() -> xr.Dataset:
    return gating.gating_rates(samples=(500, 4000), fitted=(2,), trials=8, seed=5, iterations=25)


def test_both_kinds_of_gates_reach_the_rate_of_a_regular_model_and_softmax_errs_less(rates: xr.Dataset) -> None:
    """With the right number of experts n^(-1/2); on these mixtures the sigmoid's constant is the larger one."""
    assert (abs(rates["rate"] - 0.5) < 0.25).all()
    error = rates["expert_error"].median("trial").squeeze("fitted")
    assert (error.sel(gate="sigmoid") > 1.3 * error.sel(gate="softmax")).all()
    far = rates["prediction_error"].median("trial").sel(samples=4000)
    assert (far < 0.05).all()


def test_other_gates_are_refused() -> None:
    with pytest.raises(ValueError, match="gate must be one of softmax, sigmoid: got gate='tanh'"):
        gating.gate_weights(*some(), "tanh")
