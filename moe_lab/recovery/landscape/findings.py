"""What each figure of gated2019 shows, as one plain sentence that its data decide."""

from __future__ import annotations

import xarray as xr

from moe_lab.recovery.landscape.stuck import STUCK_ERROR

WORDS = {"L4": "L₄", "l2": "ℓ₂", "true": "the true"}
GATES_FOUND = 0.05
"""Gating error of gates that count as found."""


def who_is_stuck(data: xr.Dataset) -> str:
    """Figure 2 (a)."""
    four, two = (int(data["stuck"].sel(loss=name).sum()) for name in ("L4", "l2"))
    if four == two:
        return "Neither loss gets stuck" if not four else "Both losses get stuck as often"
    if min(four, two) == 0:
        return (
            "L₄ finds the regressors where ℓ₂ gets stuck" if not four else "ℓ₂ finds the regressors where L₄ is stuck"
        )
    return f"{'ℓ₂' if two > four else 'L₄'} gets stuck more often"


def best_source(data: xr.Dataset) -> str:
    """Figure 2 (b): whether gates on estimated regressors come within twice the error of gates on the true ones."""
    last = data["gating_error"].isel(step=-1).mean("trial")
    errors = {str(name): float(last.sel(regressors=name)) for name in data["regressors"].values}
    true = errors.pop("true", min(errors.values()))
    near = [f"{WORDS[name]}'s regressors" for name, error in errors.items() if error <= 2 * true]
    if not near:
        return "Gates need better regressors than a loss finds"
    return f"With {' or '.join(near)} gates are found as with the true ones"


def any_gates(data: xr.Dataset) -> str:
    """Figure 3."""
    regressors, gates = (float(data[name].isel({step: -1}).max()) for name, step in (
        ("regressor_error", "step"), ("gating_error", "gate_step"),
    ))  # fmt: skip
    there = regressors <= STUCK_ERROR and gates <= GATES_FOUND
    return "Gates need not be orthogonal to regressors" if there else "Not all random gates are found"


def batches(data: xr.Dataset) -> str:
    """Figure 4."""
    last = data["regressor_error"].isel(step=-1).max("trial")
    found = [int(size) for size in data["batch"].values if float(last.sel(batch=size)) <= STUCK_ERROR]
    return f"Batches of {min(found)} samples are enough" if found else "Batches this small are not enough"


def where_it_ends(data: xr.Dataset) -> str:
    """Loss surface."""
    name = WORDS[data["surface"].attrs["long_name"].split()[0]]
    there = float(data["regressor_error"].isel(step=-1)) <= STUCK_ERROR
    return f"{name} leads {'to a solution' if there else 'away from every solution'} from this start"


def sharper(data: xr.Dataset) -> str:
    """Section 2."""
    gap = data["median"].median("cell")
    falls = [bool(gap.sel(convention=name)[-1] < gap.sel(convention=name)[0]) for name in ("torch", "paper")]
    if falls[0] == falls[1]:
        return f"As gates grow sharper, the gap {'closes' if falls[0] else 'widens'} in both conventions"
    return f"As gates grow sharper, the gap closes in {'torch' if falls[0] else 'the paper'}'s convention alone"
