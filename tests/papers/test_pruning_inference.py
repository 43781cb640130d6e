"""What is specific to pruning2024's claims on inference: a curve is told from a straight line."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from moe_lab_papers.pruning2024.inference_measures import straightness
from tests.papers.small import verdict


def over_kept(*values: float) -> xr.DataArray:
    return xr.DataArray(np.array(values), coords={"kept": [8, 6, 4, 2]}, dims=["kept"])


def test_straightness_by_hand() -> None:
    assert straightness(over_kept(4, 3, 2, 1)) == pytest.approx(1)
    assert straightness(over_kept(1, 0, 0, 1)) == pytest.approx(0)


@pytest.mark.parametrize("panel", ["c", "g"])
def test_a_time_that_falls_only_with_the_last_experts_is_no_line(panel: str) -> None:
    line, bend = over_kept(4, 3, 2, 1), over_kept(4, 4, 4, 1)
    found = [
        verdict(f"pruning2024/figure10{panel}/time-linear", xr.Dataset({"milliseconds": times.expand_dims(repeat=3)}))
        for times in (line, bend)
    ]
    assert found == ["in kind", "differs"]
