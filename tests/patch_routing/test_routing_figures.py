"""Routings compared: what the Datasets hold and say of themselves, and what the comparison finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr

from moe_lab.core.snapshots import final
from moe_lab.patch_routing import PatternTask, RoutedMoE, routing_figures, train

SMALL: dict[str, Any] = {"samples": 60, "trials": 2, "epochs": 3, "test_samples": 60}


@pytest.fixture(scope="module")
def rows() -> xr.Dataset:
    """At c = 1, 5 trials of a seed on which nothing was chosen."""
    return routing_figures.by_capacity(capacity_factor=(1.0,), trials=5, seed=7, epochs=12).sel(capacity_factor=1.0)


def test_where_experts_or_priorities_choose_what_matters_is_kept(rows: xr.Dataset) -> None:
    """Half of the patches are lost in all four, but o is lost only where places go by arrival or by a hash."""
    kept, accuracy = (rows[name].mean("trial") for name in ("signal_kept", "test_accuracy"))
    for name in ("expert choice", "token choice by priority", "soft MoE"):
        assert kept.sel(model=name) >= 0.9 and accuracy.sel(model=name) >= 0.9, name
    for name in ("token choice", "hash"):
        assert kept.sel(model=name) <= 0.8 and accuracy.sel(model=name) <= 0.83, name
    lost = rows["lost"].mean("trial")
    assert lost.sel(model="soft MoE") == 0 and lost.sel(model="expert choice") >= 0.35
    assert rows["dropped"].sel(model="expert choice").max() == 0


def test_a_cell_is_what_train_gives(rows: xr.Dataset) -> None:
    model = RoutedMoE(gates="softmax-before", learning_rate=routing_figures.STEP_SIZE)
    how: dict[str, Any] = {"samples": 200, "epochs": 12, "seed": 7, "measure": "last"}
    alone = final(train(model, PatternTask(), trials=2, **how))
    for name in routing_figures.MEASURES:
        np.testing.assert_allclose(rows[name].sel(model="token choice")[:2], alone[name], atol=0.02, err_msg=name)


def test_axes_are_labelled() -> None:
    models = {"all": RoutedMoE(neurons=12, experts=4), "soft": RoutedMoE(neurons=12, experts=4, routing="soft")}
    data = routing_figures.by_experts_per_patch((1, 4), models=models, **SMALL)
    assert data.test_accuracy.dims == ("model", "experts_per_patch", "trial")
    assert data.experts_per_patch.attrs["long_name"] == "t, experts that each patch asks"
    assert data.attrs["paper"] == "pmoe2023, section 4.2"
    assert float(data.dropped.sel(model="all", experts_per_patch=4).mean()) == pytest.approx(0.75)
    assert routing_figures.by_capacity((2.0,), models=models, **SMALL).capacity_factor.attrs["long_name"]
