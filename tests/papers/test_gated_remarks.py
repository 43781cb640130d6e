"""The parameters of remark 2 by hand, minimizers that meet theorem 1 and ends that do not, and a network by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from moe_lab.recovery.data import MixtureTask
from moe_lab.recovery.landscape.losses import minimiser
from moe_lab_papers.gated2019 import remarks
from tests.papers.small import verdict

ORTHONORMAL = MixtureTask(experts=2, dimension=10, noise=0.05, gating="orthogonal", regressors="orthonormal")


def test_the_parameters_of_remark_2_by_hand() -> None:
    """Shares of 1/2: a_i* = 2 and kappa* = 1; orthonormal: M has eigenvalues 1. tau_0 = .01 min(.01 / 20, 50)."""
    truth = ORTHONORMAL.parameters([0], 0)
    assert remarks.remark_2(truth) == pytest.approx((0.01, 50, 0.01 * (0.01 / 20) / 2))
    small = 0.01 * 1e-4 / (2 * 2 * 10**0.5)  # c eps_0 / (a m sqrt(d)) is the least where eps_0 is 1e-4
    assert remarks.remark_2(truth, tolerance=1e-4).ridge == pytest.approx(small)
    correlated = MixtureTask(experts=3, dimension=10, noise=0.05, gating="orthogonal").parameters([0], 0)
    assert remarks.remark_2(correlated).ridge < remarks.remark_2(truth).ridge


def test_newton_ends_at_the_closed_form() -> None:
    truth = ORTHONORMAL.parameters([0], 0)
    weights = remarks.remark_2(truth)
    start = np.random.default_rng(0).standard_normal((2, 10)) / 10**0.5
    error, scale, least = remarks._minimized(truth, weights, start)
    length = np.linalg.norm(minimiser(truth, weights)[0], axis=1)
    assert error < 1e-5 and least == pytest.approx(1, abs=1e-3)
    assert scale == pytest.approx(abs(1 / length * 2**0.5 - 1).max(), abs=1e-6)


def test_an_end_that_is_no_minimizer_breaks_both_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [verdict(f"gated2019/remark2/{name}") for name in ("landscape", "scale")] == ["agrees", "agrees"]

    class Stays:
        def __init__(self, start: np.ndarray) -> None:
            self.x = start

    monkeypatch.setattr(remarks, "minimize", lambda value, start, **options: Stays(start))
    data = remarks.remark_2_landscape((2,), trials=2, dimension=5)
    assert [verdict(f"gated2019/remark2/{name}", data) for name in ("landscape", "scale")] == ["differs", "differs"]
    assert (data["least"] < 0.9).all()


def test_a_mixture_with_constant_gates_is_a_network_and_with_gates_is_none() -> None:
    assert float(remarks.constant_gates()["gap"].max()) < 1e-12
    rising = remarks.l2_value

    def with_gates(state, x, y, g):  # type: ignore[no-untyped-def]
        moved = state._replace(gates=state.gates + 0.1 * torch.ones_like(state.gates).cumsum(1))
        return rising(moved, x, y, g)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remarks, "l2_value", with_gates)
        assert float(remarks.constant_gates(trials=1, samples=20)["gap"].min()) > 1e-3
