"""The powers of p and 1 / epsilon are found again in errors made from them, and a wrong one differs."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from tests.papers.small import CLAIMS, verdict

P, N = (16, 64, 256), (100, 200, 400)


def errors(of_p: float, of_error: float) -> xr.Dataset:
    """Errors of N = p^a / epsilon^b."""
    p, n = xr.DataArray(list(P), dims="pattern_sets"), xr.DataArray(list(N), dims="samples")
    values = (p**of_p / n) ** (1 / of_error) / 10
    coords = {"pattern_sets": list(P), "samples": list(N), "model": ["separate"], "trial": [0, 1]}
    return values.expand_dims(model=1, trial=2).assign_coords(coords).to_dataset(name="test_error")


@pytest.mark.parametrize(("of_p", "of_error"), [(0.5, 0.7), (3.0, 1.5)])
def test_powers_are_those_of_the_errors(of_p: float, of_error: float) -> None:
    data = errors(of_p, of_error)
    for name, number in (("p", of_p), ("error", of_error)):
        claim = CLAIMS[f"pmoe2023/theorem4.2/power-of-{name}"]
        np.testing.assert_allclose(claim.values(data), [number])
        assert verdict(claim.id, data) == "in kind"


def test_a_larger_power_than_the_bound_differs_and_so_does_none() -> None:
    for of_p, of_error in ((13.0, 17.0), (-0.5, -0.5)):
        assert verdict("pmoe2023/theorem4.2/power-of-p", errors(of_p, 0.7)) == "differs"
        assert verdict("pmoe2023/theorem4.2/power-of-error", errors(0.5, of_error)) == "differs"
