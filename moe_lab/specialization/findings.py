"""What each table and figure of chen2022 shows, as one plain sentence that its data decide."""

from __future__ import annotations

import numpy as np
import xarray as xr

from moe_lab.core.words import percent

DIVIDED, SHARED = 0.5, 0.8
"""Dispatch entropies, as shares of the linear mixture's, at which cubic experts divide the clusters or do not."""


def _mixtures(data: xr.Dataset) -> tuple[str, str] | None:
    """The cubic and the linear mixture, where both are there."""
    names = [str(name) for name in data["model"].values]
    both = ("moe-cubic", "moe-linear")
    return both if all(name in names for name in both) else None


def divided(data: xr.Dataset) -> str:
    """Tables 1 and 3, figure 1: whether cubic experts divide the clusters where linear ones do not."""
    if (both := _mixtures(data)) is None:
        return "Test accuracy of each model"
    cubic, linear = _entropies(data, both)
    if cubic < DIVIDED * linear:
        return "Cubic experts divide the clusters, linear ones share them"
    alike = cubic > SHARED * linear
    return "Cubic and linear experts share the clusters alike" if alike else "Cubic experts share less"


def _entropies(data: xr.Dataset, both: tuple[str, str]) -> tuple[float, float]:
    """The median dispatch entropies of the cubic and of the linear mixture."""
    cubic, linear = (float(data["dispatch_entropy"].sel(model=name).median()) for name in both)
    return cubic, linear


def balanced(data: xr.Dataset) -> str:
    """Table 9: whether balancing makes linear experts divide the clusters as cubic ones do."""
    both = _mixtures(data)
    cubic, linear = (0.0, 0.0) if both is None else _entropies(data, both)
    if cubic < DIVIDED * linear:
        return "Balancing does not make linear experts specialise"
    return "With balancing linear experts come nearer to cubic ones"


def dispatched(data: xr.Dataset) -> str:
    """Tables 4 and 6."""
    used, alone = _used_and_alone(data)
    if alone == used:
        return "Each expert that is used serves one cluster"
    return "Some experts serve one cluster alone" if alone else "Every expert serves several clusters"


def dispatched_in_numbers(data: xr.Dataset) -> str:
    """Describes tables 4 and 6."""
    used, alone = _used_and_alone(data)
    return (
        f"After training {used} of {data.sizes['expert']} experts get samples, {alone} of them from one cluster only; "
        f"entropy {abs(float(data['dispatch_entropy'])):.2f}, test accuracy {percent(data['test_accuracy'])}."
    )


def _used_and_alone(data: xr.Dataset) -> tuple[int, int]:
    """How many experts get a hundredth of the samples or more, and how many of them samples of one cluster only."""
    final = data["final_dispatch"].transpose("cluster", "expert").values
    used = final.sum(0) / final.sum() >= 0.01
    return int(used.sum()), int((((final > 0).sum(0) == 1) & used).sum())


def single(data: xr.Dataset) -> str:
    """Tables 7 and 8."""
    enough = float(data["test_accuracy"].max()) >= 0.95
    return "A single expert is enough" if enough else "No single expert serves all clusters"


def when_divided(data: xr.Dataset) -> str:
    """Figure 3: the step by which the median entropy of cubic experts is half of the linear ones', in all settings."""
    if (both := _mixtures(data)) is None:
        return "Dispatch entropy through training"
    median = data["dispatch_entropy"].median("trial")
    cubic, linear = (median.sel(model=name).transpose("setting", "step").values for name in both)
    below = np.all(cubic < DIVIDED * linear, axis=0).tolist()
    if not below[-1]:
        return "Cubic experts do not specialise in every setting"
    step = int(data["step"][max((place + 1 for place, there in enumerate(below) if not there), default=0)])
    never = "; linear ones never do" if (linear >= DIVIDED * linear[:, :1]).all() else ""
    return f"Cubic experts specialise by step {step}{never}"


def sharpness(data: xr.Dataset) -> float:
    """The share of what an expert has learned of label signals that lies on one of them, the median of the experts."""
    whole = abs(data["expert_feature"].isel(step=-1, trial=0))
    return float((whole.max("cluster") / whole.sum("cluster")).median())


def learned(data: xr.Dataset) -> str:
    """Figures 4 and 5."""
    return "Each expert learns one label signal" if sharpness(data) >= 0.8 else "Experts learn several label signals"
