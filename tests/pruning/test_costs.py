"""Figures 6 and 10 in kind: what a pruned layer costs, by formula, by torch's counter and by the clock."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from moe_lab.pruning import figures


@pytest.fixture(scope="module")
def costs() -> xr.Dataset:
    layer = {"experts": 8, "neurons": 64, "dimension": 32, "tokens": 40, "kept_tokens": 10}
    return figures.efficiency((0.25, 0.5, 0.75), seed=3, **layer, samples=8, repeats=3)


class TestEfficiency:
    def test_axes_and_labels(self, costs):
        for name in ("operations", "counted_operations", "parameters", "bytes"):
            assert costs[name].dims == ("routing", "rho")
        assert costs.seconds.dims == ("routing", "rho", "repeat")
        assert costs.slope.dims == ("quantity", "routing")
        assert costs.routing.values.tolist() == ["expert-choice", "token-choice"]
        assert costs.rho.values.tolist() == [0.0, 0.25, 0.5, 0.75]
        assert costs.experts_kept.values.tolist() == [8, 6, 4, 2]
        assert [costs[name].attrs["units"] for name in ("operations", "bytes", "seconds")] == ["FLOP", "byte", "s"]

    def test_operations_are_those_of_the_layer_by_hand(self, costs):
        """n d per router, and per meeting d m + m, twice each."""
        meeting, router = 2 * (32 * 64 + 64), 2 * 40 * 32
        expected = [kept * (10 * meeting + router) for kept in (8, 6, 4, 2)]
        np.testing.assert_allclose(costs.operations.sel(routing="expert-choice"), expected)
        assert float(costs.operations.sel(routing="token-choice", rho=0)) == 40 * 2 * meeting + 8 * router
        np.testing.assert_allclose(costs.counted_operations, costs.operations)

    def test_pruned_layers_are_really_smaller(self, costs):
        experts, tokens = costs.parameters.transpose("routing", "rho").values
        np.testing.assert_array_equal(experts, np.array([8, 6, 4, 2]) * (32 + 32 * 64))
        np.testing.assert_array_equal(tokens, 8 * 32 + np.array([8, 6, 4, 2]) * 32 * 64)
        assert (costs.bytes >= 4 * costs.parameters).all()
        assert (costs.bytes < 1.1 * 4 * costs.parameters).all()

    def test_everything_falls_in_a_straight_line(self, costs):
        exact = costs.sel(quantity=["operations", "bytes", "parameters"])
        np.testing.assert_allclose(exact.slope.sel(routing="expert-choice"), -1)
        np.testing.assert_allclose(exact.r_squared.sel(routing="expert-choice"), 1)
        loose = exact.sel(routing="token-choice")
        assert (abs(loose.slope + 1) < 0.15).all()  # routers stay, and tokens do not spread evenly
        assert (loose.r_squared > 0.95).all()

    def test_the_unpruned_layer_alone_has_no_slope(self):
        how = {"experts": 4, "neurons": 3, "dimension": 6, "tokens": 5, "kept_tokens": 2, "samples": 2, "repeats": 1}
        data = figures.efficiency(0.0, "token-choice", **how)
        assert data.slope.isnull().all()
        assert data.rho.values.tolist() == [0.0]
