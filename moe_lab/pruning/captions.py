"""Describes each figure in a sentence or two with numbers, for screen readers and for print."""

from __future__ import annotations

import json

import numpy as np
import xarray as xr

from moe_lab.core.words import counted
from moe_lab.pruning.costs import relative

COSTS = {"operations": "FLOPs", "bytes": "memory", "seconds": "time"}


def settings_of(data: xr.Dataset) -> dict:
    """The settings in a Dataset's attrs."""
    return dict(json.loads(data.attrs["config"])[0])


def pattern_of(group: str) -> str:
    """The pattern that the experts of a group are for."""
    return "o₁" if group == "+" else "o₂"


def signed(value: float) -> str:
    """A number with one decimal; 0.0 has no sign."""
    return f"{value + 0.0 if abs(value) >= 0.05 else 0.0:.1f}".replace("-", "−")


def shown(data: xr.Dataset, role: str) -> tuple[int, str]:
    """Number and group of the expert that figure 3 or 7 shows as "large" or "small"."""
    number = int(data["shown"].sel(role=role))
    return number, str(data["group"].sel(expert=number).item())


def darkest(data: xr.Dataset) -> tuple[float, float]:
    """The largest component of a router and of a neuron in the trial that is shown, of all experts."""
    return float(data["router_component"].max()), float(data["neuron_component"].max())


def routers(data: xr.Dataset) -> str:
    trial, trials = int(data["shown_trial"]), counted(data.sizes["trial"])
    number, group = shown(data, "large")
    own = "o1" if group == "+" else "o2"
    router = data["router_component"].sel(expert=number)
    others = float(router.drop_sel(pattern=own).max())
    neurons = data["neuron_component"].sel(pattern=own)
    many = [int((neurons.sel(expert=shown(data, role)[0]) > 1).sum()) for role in ("large", "small")]
    return (
        f"Trial {trial}: {int(data['large'].sel(trial=trial).sum())} of {data.sizes['expert']} routers are large. That "
        f"of expert {number} has {signed(float(router.sel(pattern=own)))} along {pattern_of(group)}, at most "
        f"{signed(others)} along any other pattern; neurons above 1 along {pattern_of(group)}: {many[0]} of "
        f"{data.sizes['neuron']} there, {many[1]} in expert {shown(data, 'small')[0]}. "
        f"In {int(data['violated'].sum())} of {trials} a class has no large router."
    )


def criteria(data: xr.Dataset) -> str:
    last = data.sortby("rho").isel(rho=-1).sel(fine_tuned=False)
    parts = []
    for name in map(str, data["criterion"].values):
        values = last["test_accuracy"].sel(criterion=name)
        parts.append(f"{name} {_percent(values.median())} (worst {_percent(values.min())})")
    return (
        f"ρ = {float(last['rho']):g}, {int(last['experts_kept'])} of {data.sizes['expert']} experts left, median of "
        f"{counted(data.sizes['trial'])} without fine-tuning: {', '.join(parts)}."
    )


def efficiency(data: xr.Dataset) -> str:
    parts = []
    for routing in map(str, data["routing"].values):
        here = {name: float(relative(data, name).sel(routing=routing).isel(rho=-1)) for name in COSTS}
        words = [f"{100 * here[name]:.0f}\u00a0% of the {COSTS[name]}" for name in COSTS]
        parts.append(f"{routing} {words[0]}, {words[1]} and {words[2]}")
    off = float(abs(data["counted_operations"] / data["operations"] - 1).max())
    agree = "torch counts the same FLOPs" if off < 1e-6 else f"torch's count of FLOPs is up to {100 * off:.1f} % off"
    left, whole = int(data["experts_kept"][-1]), int(data["experts_kept"].sel(rho=0.0))
    return f"With {left} of {whole} experts left: {'; '.join(parts)}. {agree[0].upper()}{agree[1:]}."


def _percent(share: xr.DataArray) -> str:
    value = float(share)
    return f"{100 * value:.0f}\u00a0%" if np.isfinite(value) else "diverged"  # not to be broken
