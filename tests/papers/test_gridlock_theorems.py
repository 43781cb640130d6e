"""What is specific to gridlock2019's claims on its polynomials, on how many experts there are, and on kappa."""

from __future__ import annotations

import numpy as np
import pytest

from moe_lab_papers.gridlock2019.gate_measures import KEPT, one_m_step, within_ball
from moe_lab_papers.gridlock2019.regressor_measures import free_coefficients, quartic_moment
from tests.papers.small import CLAIMS, verdict


def test_two_conditions_leave_as_many_coefficients_free_as_a_polynomial_has_more_than_two() -> None:
    free = free_coefficients(("relu", "tanh"))["free"]
    assert (free.sel(polynomial="P2") == [[0], [1], [2]]).all()
    assert (free.sel(polynomial="P3", degree=[3, 4]) == [[0], [1]]).all()
    assert free.sel(polynomial="P3", degree=2).isnull().all()  # y^2 + c y alone has no third moment to use


def test_a_quartic_that_misses_a_condition_is_found_and_one_that_meets_both_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def median_square() -> float:
        return float((quartic_moment(trials=3, samples=100_000)["z"] ** 2).median())

    assert median_square() < 2
    wrong = [0.0, 2.0, 0.0, 1.0]  # y^4 + 2 y^2: E[S He_2] is not 0
    monkeypatch.setattr("moe_lab_papers.gridlock2019.regressor_measures._sum", lambda *_: wrong)
    assert median_square() > 4


def test_an_m_step_moves_in_proportion_to_the_error_of_the_regressors() -> None:
    size = {"experts": (3,), "activations": ("relu",), "dimensions": (8,), "trials": 2, "samples": 2000}
    moved = [one_m_step(**size, error=error)["moved"].values for error in (0.01, 0.02)]  # type: ignore[arg-type]
    np.testing.assert_allclose(*moved, rtol=0.02)


def test_a_distance_that_grows_as_the_root_of_d_would_differ() -> None:
    data = one_m_step((3,), ("identity",), (8, 32), trials=2, samples=2000)
    place = "gridlock2019/theorem2/kappa-by-dimension"
    assert CLAIMS[place].rule.leaning(np.array([2.0])) == "differs"
    grown = data.assign(moved=data["moved"] * data["dimension"] ** 0.5)
    assert verdict(place, grown) == "differs"


def test_the_ball_and_not_the_gradient_keeps_joint_em_from_the_truth() -> None:
    """What `published.REPLICATION` says of figure 3: an M-step that is exact within R = 1 fails too."""
    free, exact, regressors = KEPT[0], KEPT[2], KEPT[4]
    data = within_ball(6, seed=1, experts=(3,), kept=(free, exact, regressors), iterations=30)
    reached = data["reached"].sel(experts=3).sum("trial")
    assert reached.sel(kept=free) == 6
    assert reached.sel(kept=exact) <= 3 and reached.sel(kept=regressors) <= 3
