"""What each figure of pmoe2023 on images shows, as one plain sentence that its data decide."""

from __future__ import annotations

from collections.abc import Mapping

import xarray as xr

from moe_lab.drawing.findings import ahead, who


def most_accurate(data: xr.Dataset, names: Mapping[str, str]) -> str:
    """Figure 16 and table 2 in kind: the largest median accuracy, within two points."""
    last = data["test_accuracy"].isel(samples=-1) if "samples" in data["test_accuracy"].dims else data["test_accuracy"]
    medians = last.median("trial")
    found = {names.get(str(name), str(name)): float(medians.sel(model=name)) for name in data["model"].values}
    words = "most often right: {}", "most often right: {}", "All models are right about as often"
    return who(ahead(found, 0.02), len(found), *words)


def cheaper(data: xr.Dataset) -> str:
    """Table 2."""
    cost = data["training_flops"].isel(samples=0)
    cheaper_by = float(cost.sel(model="WRN-pMoE") / cost.sel(model="WRN"))
    return f"Training the mixture costs {'less' if cheaper_by < 0.95 else 'no less'} than the network without experts"
