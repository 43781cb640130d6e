"""What each figure of pruning2024 shows, as one plain sentence that its data decide."""

from __future__ import annotations

import xarray as xr

from moe_lab.core.saliency import name_of
from moe_lab.drawing.findings import ahead, who
from moe_lab.pruning.costs import relative

COSTS = {"operations": "computation", "bytes": "memory", "seconds": "time"}
FALLEN = 0.95
"""A cost of at most this share of the whole layer's has fallen."""


def large_routers(data: xr.Dataset) -> str:
    """Figures 3 and 7."""
    share = float(data["large"].mean())
    return "A few routers grow large, along a class's pattern" if 0 < share < 0.5 else "Most routers grow alike"


def best_criteria(data: xr.Dataset) -> str:
    """Figure 5: who keeps most accuracy at the largest share, without fine-tuning, within one point."""
    last = data.sortby("rho").isel(rho=-1).sel(fine_tuned=False)["test_accuracy"].median("trial")
    best = ahead({name_of(str(name)): float(last.sel(criterion=name)) for name in data["criterion"].values}, 0.01)
    every = data.sizes["criterion"]
    if 3 <= len(best) < every:
        return f"{len(best)} of {every} criteria keep most accuracy"
    return who(best, every, "{} keeps most accuracy", "{} keep most accuracy", "All criteria keep as much accuracy")


def saved(data: xr.Dataset) -> str:
    """Figure 6: which costs fall with the experts, whoever chooses."""
    fallen = [words for name, words in COSTS.items() if float(relative(data, name).isel(rho=-1).max()) <= FALLEN]
    return who(fallen, 0, "With the experts {} falls", "With the experts {} fall", "", "No cost falls with the experts")
