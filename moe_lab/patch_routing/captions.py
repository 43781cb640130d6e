"""Describes each figure in one sentence with numbers, for screen readers and for print."""

from __future__ import annotations

import numpy as np
import xarray as xr

from moe_lab.core.words import percent, series
from moe_lab.patch_routing.figures import samples_for

_NAMES = {"joint": "joint", "separate": "separate", "cnn": "CNN"}


def sample_complexity(data: xr.Dataset) -> str:
    at = 100 if 100 in data["samples"] else int(data["samples"][0])
    mean = data["test_accuracy"].mean("trial")
    names = [str(name) for name in data["model"].values]
    reached = series(f"{_NAMES.get(name, name)} {percent(mean.sel(model=name, samples=at))}" for name in names)
    needed = samples_for(data, 0.95)
    least = int(data["samples"].min())

    def count(name: str) -> str:
        found = float(needed.sel(model=name))
        if np.isnan(found):
            return f"{_NAMES.get(name, name)} more than {int(data['samples'].max())}"
        return f"{_NAMES.get(name, name)} {f'at most {least}' if found <= least else f'about {found:.0f}'}"

    return f"N = {at}: {reached}. Samples for 95 %: {series(map(count, names))}."


def phase_map(data: xr.Dataset) -> str:
    share = data["success"].mean("trial", skipna=False)
    enough = (share >= 0.9).sortby("samples", ascending=False).astype(int).cumprod("samples").astype(bool)
    least = enough["samples"].where(enough).min("samples")
    if not np.isfinite(least).any():
        return f"No l reaches 95 % accuracy in 90 % of the trials with {int(data['samples'].max())} samples."
    best = float(least.min())
    cheapest = [str(kept) for kept in data["patches_per_expert"].values[least.values == best]]
    top = int(data["patches_per_expert"].max())
    last = float(least.sel(patches_per_expert=top))
    needs = f"needs {last:.0f}" if np.isfinite(last) else f"needs more than {int(data['samples'].max())}"
    return f"Cheapest: l = {series(cheapest)} with {best:.0f} samples; l = {top} {needs}."


def by_size(data: xr.Dataset, dim: str, symbol: str) -> str:
    mean = data["test_accuracy"].mean("trial")

    def at(count: int) -> str:
        curve = mean.sel(samples=count)
        best, values = int(curve[dim][int(np.nanargmax(curve.values))]), curve[dim].values
        ends = f"{percent(curve[0])} at {symbol} = {values[0]}, {percent(curve[-1])} at {symbol} = {values[-1]}"
        return f"N = {count}: {ends}, best {percent(curve.max())} at {symbol} = {best}"

    return "; ".join(at(int(count)) for count in data["samples"].values) + "."


def separate_routers(data: xr.Dataset) -> str:
    at = _near(data, 300)
    mean = data["coverage"].mean("trial").sel(samples=at)
    each = series(
        f"{_shares(mean.sel(patches_per_expert=kept))} (l = {kept})" for kept in mean.patches_per_expert.values
    )
    return f"N = {at}: the top l patches hold o₁ / o₂ in {each} of test samples."


def joint_routers(data: xr.Dataset) -> str:
    at = _near(data, 300)
    mean = data["largest_gate"].mean("trial").sel(samples=at)
    return f"N = {at}: o₁ / o₂ get the largest gate of their best expert in {_shares(mean)} of test samples."


def _near(data: xr.Dataset, wanted: int) -> int:
    counts = data["samples"].values
    return int(counts[np.abs(counts - wanted).argmin()])


def _shares(values: xr.DataArray) -> str:
    return " / ".join(f"{100 * float(value):.0f}" for value in values) + " %"
