"""Describes each picture of the loss landscapes in a sentence or two with numbers."""

from __future__ import annotations

import math

import xarray as xr

from moe_lab.recovery.landscape.stuck import STUCK_ERROR


def l4_against_l2(data: xr.Dataset) -> str:
    last, count = data["regressor_error"].isel(step=-1), data.sizes["trial"]
    four, two = (data["stuck"].sel(loss=name) for name in ("L4", "l2"))
    worst = float(last.sel(loss="L4").max())
    text = (
        f"From the same {count} starts L₄ is stuck in {int(four.sum())} (largest error {worst:.1g}), "
        f"ℓ₂ in {int(two.sum())}"
    )
    falling = data["still_falling"].sum("trial").values
    if falling.any():
        text += f" ({falling[0]} and {falling[1]} still falling)"
    if bool(two.any()) and "gate_to_regressors" in data:
        along = float(data["gate_to_regressors"].where(two).median())
        text += f"; there ℓ₂'s gate lies along a₁* − a₂*, which the gate should not know (|cos| {along:.2f})"
    return f"{text}."


def gates_given_regressors(data: xr.Dataset) -> str:
    last = data["gating_error"].isel(step=-1).mean("trial")
    words = {"L4": "L₄'s", "l2": "ℓ₂'s", "true": "the true"}
    parts = [f"{words[str(name)]} {float(last.sel(regressors=name)):.2g}" for name in data["regressors"].values]
    return f"Mean gating error after {int(data['step'][-1])} steps on L_log, with regressors: {', '.join(parts)}."


def random_gates(data: xr.Dataset) -> str:
    regressors = float(data["regressor_error"].isel(step=-1).max())
    gates = float(data["gating_error"].isel(gate_step=-1).max())
    return (
        f"Gates need not be orthogonal to regressors: the largest of {data.sizes['trial']} regressor errors is "
        f"{regressors:.2g}, the largest gating error {gates:.2g}."
    )


def small_batches(data: xr.Dataset) -> str:
    last = data["regressor_error"].isel(step=-1)
    parts = [f"{size} a batch: {float(last.sel(batch=size).max()):.2g}" for size in data["batch"].values]
    return f"Largest error of {data.sizes['trial']} starts after {int(data['step'][-1])} steps, {'; '.join(parts)}."


def loss_surface(data: xr.Dataset) -> str:
    error = float(data["regressor_error"].isel(step=-1))
    name = {"L4": "L₄", "l2": "ℓ₂"}[data["surface"].attrs["long_name"].split()[0]]
    end = "arrives at a solution" if error <= STUCK_ERROR else "ends away from every solution"
    return f"{name} from this start {end}: regressor error {error:.2g} after {int(data['step'][-1])} steps."


def gate_sharpness(data: xr.Dataset) -> str:
    gap = data["median"].median("cell")
    beta = float(data["sharpness"][-1])
    ending = "binary gates" if math.isinf(beta) else f"β = {beta:g}"
    parts = []
    for name, words in (("torch", "torch's convention"), ("paper", "the paper's")):
        first, last = (float(gap.sel(convention=name).isel(sharpness=place)) for place in (0, -1))
        parts.append(f"in {words} from {first:.2g} to {last:.2g}")
    return f"From β = {float(data['sharpness'][0]):g} to {ending} the typical gap goes {', '.join(parts)}."
