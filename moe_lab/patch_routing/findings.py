"""What each figure of pmoe2023 shows, as one plain sentence that its data decide."""

from __future__ import annotations

import numpy as np
import xarray as xr

from moe_lab.drawing.findings import ahead, who
from moe_lab.patch_routing.figures import samples_for

NAMES = {"joint": "the joint mixture", "separate": "the separate mixture", "cnn": "the CNN"}
MATTERS = 0.05
"""The least difference of mean accuracies that matters."""


def kept(data: xr.Dataset) -> str:
    """Figures 1 to 3."""
    each = (data.isel({"class": number}) for number in range(data.sizes["class"]))
    gates = [float(one["gate"].isel(patch=int(one["signal"])).max()) for one in each]
    if min(gates) > 0:
        return "Each class's deciding patch goes to an expert"
    return "No expert keeps the deciding patch" if max(gates) <= 0 else "One class's deciding patch is lost"


def fewest_samples(data: xr.Dataset) -> str:
    """Figure 4."""
    needed = samples_for(data, 0.95)
    best = ahead({str(name): float(needed.sel(model=name)) for name in data["model"].values}, 1.0, least=True)
    return who(
        [NAMES.get(name, name) for name in best],
        data.sizes["model"],
        "{} needs the fewest samples",
        "{} need the fewest samples",
        "All models need as few samples",
        "No model is right in 95 % of the samples",
    )


def least_samples(data: xr.Dataset) -> xr.DataArray:
    """The N from which on 90 % of the trials succeed, for each l; NaN where there is none."""
    share = data["success"].mean("trial", skipna=False)
    enough = (share >= 0.9).sortby("samples", ascending=False).astype(int).cumprod("samples").astype(bool)
    return enough["samples"].where(enough).min("samples")


def cheapest(data: xr.Dataset) -> str:
    """Figure 5."""
    least = least_samples(data).sortby("patches_per_expert").fillna(np.inf).values
    if not np.isfinite(least).any():
        return "No number of kept patches is enough"
    if least[-1] == least.min():
        return "Experts may keep all of these numbers of patches" if least[0] == least[-1] else "More patches help"
    return "The more patches an expert keeps, the more samples it takes"


def by_experts(data: xr.Dataset) -> str:
    """Figure 6."""
    return _by_size(data, "experts", "experts", "The number of experts hardly matters")


def by_patches(data: xr.Dataset) -> str:
    """Figure 7."""
    rest = "How many patches an expert keeps hardly matters"
    return _by_size(data, "patches_per_expert", "kept patches", rest)


def _by_size(data: xr.Dataset, dim: str, things: str, no_matter: str) -> str:
    """Says at which sizes the accuracy at the largest N is more than `MATTERS` below the best."""
    curve = data["test_accuracy"].mean("trial").sortby(dim).isel(samples=-1).values
    good = curve >= np.nanmax(curve) - MATTERS
    if good.all():
        return no_matter
    if not good[0] and not good[-1]:
        return f"Few {things} cost accuracy, and so do many"
    return f"{'Many' if good[0] else 'Few'} {things} cost accuracy"


def covered(data: xr.Dataset) -> str:
    """Figure 8."""
    mean = data["coverage"].mean("trial").isel(samples=-1, patches_per_expert=-1)
    least = float(mean.min())
    often = "nearly always" if least >= 0.95 else "mostly" if least >= 0.5 else "not always"
    return f"With enough samples separate routers {often} find the deciding patch"


def largest_gates(data: xr.Dataset) -> str:
    """Figure 9."""
    least = float(data["largest_gate"].mean("trial").isel(samples=-1).min())
    often = "nearly always gets" if least >= 0.9 else "mostly gets" if least >= 0.5 else "does not always get"
    return f"In joint training the deciding patch {often} the largest gate"
