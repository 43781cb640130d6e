"""What is specific to pruning2024's claims on inference: a curve is told from a straight line."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from moe_lab_papers.pruning2024.inference_measures import MODELS, counted, straightness
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
    assert found == ["agrees in kind", "differs"]


def test_more_tokens_cost_more_and_the_share_of_the_experts_is_less() -> None:
    """Attention grows with the square of an image's tokens, experts in proportion to them."""
    operations = counted()["operations"]
    saved = 1 - operations.sel(kept=2) / operations.sel(kept=8)
    assert list(operations["model"].values) == list(MODELS)
    assert operations.sel(model="v-moe-imagenet", kept=8) > 577 / 65 * operations.sel(model="v-moe-cifar-100", kept=8)
    assert saved.sel(model="v-moe-imagenet") < saved.sel(model="v-moe-cifar-100")
    assert saved.sel(model="e3-cifar-10") < saved.sel(model="v-moe-cifar-100")
