"""Every activation against torch's own, and what it claims of itself: slope, oddness, degree."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from moe_lab.specialization.activations import ACTIVATIONS
from tests.specialization import oracle

EACH = pytest.mark.parametrize("name", sorted(ACTIVATIONS))


def grid(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Both sides of 0, large and small, without 0 itself, where ReLU has no slope."""
    ends = torch.logspace(-6, 1.2, 60, dtype=dtype)
    return torch.cat((-ends.flip(0), ends))


def test_they_are_those_of_the_paper():
    assert set(ACTIVATIONS) == {"cubic", "linear", "relu", "celu", "gelu", "tanh"} == set(oracle.ACTIVATIONS)


@EACH
@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-12), (torch.float32, 1e-6)])
def test_value_and_slope_are_torchs(name, dtype, tolerance):
    z = grid(dtype)
    wanted = oracle.ACTIVATIONS[name](z.double().requires_grad_())
    at = z.double().requires_grad_()
    (slope,) = torch.autograd.grad(oracle.ACTIVATIONS[name](at).sum(), at)
    value, found = ACTIVATIONS[name].pair(z.clone())
    torch.testing.assert_close(value.double(), wanted.detach(), rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(found.double(), slope, rtol=tolerance, atol=tolerance)


@EACH
def test_the_argument_stays_as_it_was(name):
    z = grid()
    before = z.clone()
    value, slope = ACTIVATIONS[name].pair(z)
    slope *= 7  # the experts multiply slopes in place
    assert torch.equal(z, before)
    torch.testing.assert_close(value, oracle.ACTIVATIONS[name](before))


@EACH
def test_slopes_far_out_are_finite(name):
    value, slope = ACTIVATIONS[name].pair(torch.tensor([-1e4, 1e4]))
    assert value.isfinite().all() and slope.isfinite().all()


@EACH
def test_odd_means_odd(name):
    z = grid()
    value, mirrored = ACTIVATIONS[name].pair(z)[0], ACTIVATIONS[name].pair(-z)[0]
    assert torch.allclose(value, -mirrored, rtol=1e-12) == ACTIVATIONS[name].odd
    assert ACTIVATIONS[name].odd == (name not in oracle.NEITHER_ODD)


@given(st.sampled_from(sorted(ACTIVATIONS)), st.floats(0.05, 20), st.floats(-4, 4).filter(lambda z: abs(z) > 0.1))
def test_degree_means_homogeneous(name, a, z):
    """sigma(a z) = a^p sigma(z) for a > 0 where a degree is given; the signal basis stands on it."""
    activation = ACTIVATIONS[name]
    scaled, plain = (float(activation.pair(torch.tensor([x], dtype=torch.float64))[0]) for x in (a * z, z))
    if activation.degree is not None:
        assert scaled == pytest.approx(a**activation.degree * plain, rel=1e-9)


def test_only_homogeneous_activations_have_a_degree():
    assert {name: one.degree for name, one in ACTIVATIONS.items()} == {
        "cubic": 3,
        "linear": 1,
        "relu": 1,
        "celu": None,
        "gelu": None,
        "tanh": None,
    }
    for name in ("celu", "gelu", "tanh"):  # and these could not have one
        z = torch.tensor([-2.0, 0.5], dtype=torch.float64)
        ratio = ACTIVATIONS[name].pair(2 * z)[0] / ACTIVATIONS[name].pair(z)[0]
        assert abs(float(ratio[0] - ratio[1])) > 0.01
