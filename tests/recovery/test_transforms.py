"""P2, P3 and Q4 against the equations that define them, the published numbers, and what the papers print."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from moe_lab.recovery import Activation, transforms
from moe_lab.recovery.activations import ACTIVATIONS
from moe_lab.recovery.printed import as_printed, printed
from moe_lab.recovery.transforms import InvalidActivationError, gaussian_moments, polynomial
from tests.recovery import oracle

EACH_G = pytest.mark.parametrize("name", sorted(ACTIVATIONS))
EACH_SIGMA = pytest.mark.parametrize("sigma", [0.0, 0.1, 0.7])
S = math.sqrt(2 / math.pi)

# gamma of P2; alpha, beta0 of P3 and c3; alpha, beta0, gamma0 of Q4 and c4
TABLE = {
    "identity": (0, (0, -3, 6), (0, -6, 0, 24)),
    "relu": (-1.5958, (-3.2936, 2.2558, 0.3721), (-5.3525, 8.1250, -3.2913, 0.501)),
    "leaky-relu": (-1.5798, (-3.2448, 2.1559, 0.411), (-5.2099, 7.5896, -2.8352, 0.649)),
    "sigmoid": (-1, (-1.5, 0.65099, 0.0228), (-2, 1.33863, -0.33863, 0.0094)),
    "tanh": (0, (0, -0.69986, 0.233), (0, -1.01926, 0, 0.157)),
}


@EACH_SIGMA
@EACH_G
def test_every_transform_satisfies_its_conditions(name, sigma):
    """E[S He_j] = 0 for j below the degree, and c_m at it: Simpson's rule and Gauss-Hermite noise as the judge."""
    found = transforms(name, sigma)
    for degree, one in ((2, found.p2), (3, found.p3), (4, found.q4)):
        moments = oracle.stein_moments(oracle.FUNCTIONS[name], one.coefficients, sigma, ACTIVATIONS[name].kinks)
        assert len(one.coefficients) == degree and one.coefficients[-1] == 1
        assert max(abs(moment) for moment in moments[: degree - 1]) < 1e-10
        assert max(abs(residual) for residual in one.residuals) < 1e-10
        assert one.strength == pytest.approx(moments[degree - 1], rel=1e-8) and abs(one.strength) > 1e-3
    assert found.q2 is found.p2 and found.sigma == sigma and found.g.name == name


@EACH_G
def test_the_published_numbers(name):
    gamma, (alpha3, beta3, c3), (alpha4, beta4, gamma4, c4) = TABLE[name]
    found, close = transforms(name, 0.0), {"abs": 1e-4}
    assert found.p2.coefficients == pytest.approx((gamma, 1), **close)
    assert found.p3.coefficients == pytest.approx((beta3, alpha3, 1), **close)
    assert found.q4.coefficients == pytest.approx((gamma4, beta4, alpha4, 1), **close)
    assert found.p3.strength == pytest.approx(c3, abs=6e-4) and found.q4.strength == pytest.approx(c4, abs=6e-4)


@EACH_G
def test_sigma_enters_as_the_appendices_say(name):
    """P3: beta0 - 3 sigma^2; Q4: beta0 - 6 sigma^2 and gamma0 - 3 alpha sigma^2; nothing else, c not at all."""
    still, moved, variance = transforms(name, 0.0), transforms(name, 0.8), 0.8**2
    beta, alpha, _ = still.p3.coefficients
    assert moved.p3.coefficients == pytest.approx((beta - 3 * variance, alpha, 1), abs=1e-9)
    gamma, beta, alpha, _ = still.q4.coefficients
    assert moved.q4.coefficients == pytest.approx(
        (gamma - 3 * alpha * variance, beta - 6 * variance, alpha, 1), abs=1e-8
    )
    assert moved.p2.coefficients == pytest.approx(still.p2.coefficients, abs=1e-12)
    assert (moved.p3.strength, moved.q4.strength) == pytest.approx((still.p3.strength, still.q4.strength), abs=1e-8)


def test_closed_forms():
    """Identity: examples 1 of both papers. ReLU: what example 3 is when g'' keeps its delta function."""
    found = transforms("identity", 0.3)
    assert found.p3.coefficients == pytest.approx((-3 * (1 + 0.09), 0, 1)) and found.p3.strength == pytest.approx(6)
    assert found.q4.coefficients == pytest.approx((0, -6 * (1 + 0.09), 0, 1)) and found.q4.strength == pytest.approx(24)
    found, alpha = transforms("relu", 0.3), -1.5 * S / (1 - S**2)
    assert found.p3.coefficients == pytest.approx((-3 - 2 * alpha * S - 3 * 0.09, alpha, 1))
    assert found.p2.coefficients == pytest.approx((-2 * S, 1))


@pytest.mark.parametrize("sigma", [0.1, 0.5])
def test_where_the_papers_print_something_else(sigma):
    wrong = {(g, one.where, one.name) for g in ACTIVATIONS for one in printed(g, sigma) if not one.right}
    assert wrong == {
        ("relu", "gridlock2019, example 3", "P3"),
        ("relu", "gated2019, example 2", "Q4"),
        ("sigmoid", "gridlock2019, example 2", "P3"),  # rounded, and in one entry wrongly
    }
    for g in ACTIVATIONS:
        derived = transforms(g, sigma)
        for one in printed(g, sigma):
            moments = oracle.stein_moments(
                oracle.FUNCTIONS[g], one.polynomial.coefficients, sigma, ACTIVATIONS[g].kinks
            )
            degree = len(one.polynomial.coefficients)
            assert one.polynomial.residuals == pytest.approx(moments[: degree - 1], abs=1e-9)
            assert one.polynomial.strength == pytest.approx(moments[degree - 1], abs=1e-9)
            mine = {"P2": derived.p2, "Q2": derived.q2, "P3": derived.p3, "Q4": derived.q4}[one.name]
            off = max(abs(np.subtract(one.polynomial.coefficients, mine.coefficients)))
            assert (off < 1e-9) == one.right and (g != "sigmoid" or off < 2e-3), (g, one.where, one.name)


def test_the_printed_relu_misses_a_condition():
    """alpha = -3 s makes E[S'] = 0, and leaves E[S''] at what the delta function adds: without it, 0."""
    [p3] = [one.polynomial for one in printed("relu", 0.1) if one.name == "P3"]
    assert p3.coefficients == pytest.approx((3 * (4 / math.pi - 0.01 - 1), -3 * S, 1))
    assert abs(p3.residuals[0]) < 1e-10 and abs(p3.residuals[1]) > 0.2
    swapped = as_printed(transforms("relu", 0.1))
    assert swapped.p3 == p3 and swapped.q4 == transforms("relu", 0.1).q4
    assert as_printed(transforms("tanh", 0.1)) == transforms("tanh", 0.1)  # nothing is printed for it


def test_gated2019_without_its_three_sigmas_is_right():
    """Example 2 of appendix B: sigma^2 has no place in the beta column."""
    variance = 0.25
    system = [[1.5 + 1.5 * variance, S, 0.5], [3 * S * (1 + variance / 2), 1, S / 2], [3, S, 0]]
    wanted = [-S * (4 + 6 * variance), -(6 + 6 * variance), -S * (12 + 6 * variance)]
    alpha, beta, gamma = np.linalg.solve(system, wanted)
    assert transforms("relu", 0.5).q4.coefficients == pytest.approx((gamma, beta, alpha, 1), abs=1e-9)


def test_a_polynomial_is_the_polynomial():
    y = torch.linspace(-3, 3, 7, dtype=torch.float64)
    one = polynomial("tanh", 0.2, (0.5, -2.0, 1.0))
    torch.testing.assert_close(one(y), 0.5 * y - 2 * y**2 + y**3)


# --- an activation of one's own ---------------------------------------------------------------------------------------


def bent(z):
    """Three straight pieces: kinks at -1 and 0.7."""
    return torch.where(z < -1, 0.2 * (z + 1), torch.where(z < 0.7, z + 1, 1.7 + 3 * (z - 0.7)))


def test_a_custom_activation_with_its_kinks_named():
    mine, sigma = Activation("bent", bent, (-1.0, 0.7)), 0.4
    found = transforms(mine, sigma)
    for degree, one in ((2, found.p2), (3, found.p3), (4, found.q4)):
        moments = oracle.stein_moments(lambda z: bent(torch.as_tensor(z)).numpy(), one.coefficients, sigma, (-1, 0.7))
        assert max(abs(moment) for moment in moments[: degree - 1]) < 1e-9  # Simpson's own error, for values near 100
        assert one.strength == pytest.approx(moments[degree - 1], rel=1e-8)
    unnamed = gaussian_moments(Activation("bent", bent))
    off = np.abs(unnamed - gaussian_moments(mine)).max()
    assert off > 1e-6, "naming the kinks makes no difference: the test says nothing"


@EACH_G
def test_slopes(name):
    z = torch.tensor([[-2.0, -0.3, 0.4, 5.0]], dtype=torch.float64)
    value, slope = ACTIVATIONS[name].with_slope(z)
    step = 1e-6
    function = oracle.FUNCTIONS[name]
    np.testing.assert_allclose(value, function(z.numpy()), rtol=1e-12)
    np.testing.assert_allclose(slope, (function(z.numpy() + step) - function(z.numpy() - step)) / 2 / step, rtol=1e-6)
    assert not value.requires_grad and not slope.requires_grad


def test_a_function_that_ignores_its_argument_has_no_slope():
    z = torch.ones(3, dtype=torch.float64)
    for function in (torch.ones_like, torch.sign, lambda z: (z > 0).double()):
        assert Activation("flat", function).with_slope(z)[1].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "function, sentence",
    [
        (lambda z: z**2, r"^g='mine' has no P2: the equations E\[S He_j\] = 0, j < 2, do not determine its coeff"),
        (torch.ones_like, r"^g='mine' has no P2: the equations E\[S He_j\] = 0, j < 2, do not determine its coeff"),
        (lambda z: z**3 - 3 * z + z**2, r"^g='mine' has no P2: the equations E\[S He_j\] = 0, j < 2, do not determine"),
        (torch.sign, r"^g='mine' has no P2: E\[S He_2\], which carries the regressors, is 0 \(got "),
    ],
    ids=["square", "constant", "no slope on average", "sign"],
)
def test_an_activation_without_transforms(function, sentence):
    with pytest.raises(InvalidActivationError, match=sentence) as raised:
        transforms(Activation("mine", function, (0.0,)), 0.1)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "function",
    [lambda z: z / 0, lambda z: z[:3], torch.log],
    ids=["infinite", "short", "not everywhere"],
)
def test_an_activation_must_give_numbers(function):
    with pytest.raises(ValueError, match=r"^g must give a finite number for every number: got g='mine'$"):
        transforms(Activation("mine", function), 0.1)


@pytest.mark.parametrize("sigma", [-0.1, math.nan, math.inf])
def test_sigma_must_make_sense(sigma):
    with pytest.raises(ValueError, match=r"^sigma must be a finite number of at least 0: got sigma="):
        transforms("identity", sigma)


def test_g_must_be_known():
    with pytest.raises(ValueError, match=r"^g must be one of identity, relu, .*, or an Activation: got g='swish'$"):
        transforms("swish", 0.1)


@pytest.mark.parametrize("given", [(1.0,), (0.0, 2.0), (0.0, 0.0, 0.0, 0.0, 1.0)])
def test_a_polynomial_is_monic_of_degree_two_to_four(given):
    with pytest.raises(
        ValueError, match=r"^coefficients must be those of y ... y\^m with m of 2, 3 or 4, and end with"
    ):
        polynomial("identity", 0.1, given)
