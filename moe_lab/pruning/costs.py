"""Operations, memory and inference time of one pruned layer, like figures 6 and 10 of pruning2024."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import xarray as xr

from moe_lab.config import require
from moe_lab.grid import checked_axes
from moe_lab.origins import listed
from moe_lab.pruning.layer import Layer, counted_operations, inference_seconds, operations
from moe_lab.pruning.model import TokenMoE
from moe_lab.pruning.recipes import ROUTINGS, attrs, variable
from moe_lab.pruning.select import pruned_counts
from moe_lab.trials import choose_device, stream, threads_for

QUANTITIES = ("operations", "bytes", "parameters", "seconds")


def efficiency(
    rho: float | Sequence[float] = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9),
    routings: str | Sequence[str] = ROUTINGS,
    seed: int = 0,
    *,
    experts: int = 20,
    neurons: int = 1024,
    dimension: int = 256,
    tokens: int = 100,
    kept_tokens: int = 10,
    picked_experts: int = 2,
    samples: int = 16,
    repeats: int = 7,
    device: str = "cpu",
) -> xr.Dataset:
    """Measures operations, memory and inference time of a pruned layer against rho, like figures 6 and 10.

    The layers are untrained, because their costs do not depend on their weights, and so large that matrix products
    dominate their time. Pruned experts are removed from memory. With k l = n l', as by default, the unpruned layers of
    both routings process equally many (token, expert) pairs.

    Departs from the paper: a single layer instead of whole vision models, most of which pruning leaves as it is.

    Args:
      rho: share of each group of experts that is pruned, one value or several; the unpruned layer is always measured.
      routings: "expert-choice", "token-choice" or both.
      seed: of the weights and samples.
      experts, neurons, dimension, tokens: k, m, d and n.
      kept_tokens: l of expert-choice.
      picked_experts: l of token-choice.
      samples: in a batch.
      repeats: how often each time is measured; the layers take turns.
      device: where to compute; one thread is used on a CPU.

    Returns:
      over (routing, rho): operations per sample by formula, counted_operations per sample by torch's counter,
      parameters and bytes; seconds(routing, rho, repeat) per batch; experts_kept(rho) and pruned_share(rho); and over
      (quantity, routing): slope, the change of a quantity (as a share of the unpruned layer's) per pruned_share (-1: in
      proportion), and r_squared of that linear fit. Seconds are measured and vary from call to call.

    Raises:
      ValueError: a value is out of bounds, before anything is measured.
      RuntimeError: the device is not present.
    """
    shares = [0.0, *(float(share) for share in np.atleast_1d(rho) if share != 0)]
    axes = checked_axes({"routing": listed(routings), "rho": shares})
    sizes = {
        "experts": experts,
        "neurons": neurons,
        "dimension": dimension,
        "tokens": tokens,
        "kept_tokens": kept_tokens,
        "picked_experts": picked_experts,
        "samples": samples,
        "repeats": repeats,
    }
    models = _models(axes["routing"], sizes)
    kept = [experts - sum(pruned_counts(share, (experts // 2, experts // 2))) for share in axes["rho"]]
    torch_device = choose_device(device)
    values = stream(seed, 0, "layer/tokens").standard_normal((samples, tokens, dimension))
    batch = torch.as_tensor(values, dtype=torch.float32, device=torch_device)
    with threads_for(0, torch_device):
        costs = [_costs(model, kept, batch, seed, repeats) for model in models]
    data = _dataset(costs, axes, np.array(kept), sizes)
    own = {**sizes, "device": device}
    arguments = {"rho": tuple(axes["rho"]), "routings": tuple(axes["routing"]), "seed": seed, **own}
    data.attrs = attrs("figure 6", "efficiency", arguments, own, seed, device)
    return data


def _models(routings: Sequence[str], sizes: Mapping[str, int]) -> list[TokenMoE]:
    """Returns the model of each routing, after checking the arguments of `efficiency`."""
    for routing in routings:
        require(routing in ROUTINGS, "routing must be 'expert-choice' or 'token-choice'", routing=routing)
    for name in ("dimension", "tokens", "samples", "repeats"):
        value = sizes[name]
        require(isinstance(value, int) and value >= 1, f"{name} must be a whole number, at least 1", **{name: value})
    top = {"expert-choice": sizes["kept_tokens"], "token-choice": sizes["picked_experts"]}
    models = [
        TokenMoE(experts=sizes["experts"], neurons=sizes["neurons"], routing=routing, top=top[routing])
        for routing in routings
    ]
    possible = "expert-choice" not in routings or sizes["kept_tokens"] <= sizes["tokens"]
    require(possible, "kept_tokens (l) must be at most tokens (n)", l=sizes["kept_tokens"], n=sizes["tokens"])
    return models


def _costs(model: TokenMoE, kept: Sequence[int], batch: torch.Tensor, seed: int, repeats: int) -> dict[str, Any]:
    """Measures one layer for each number of kept experts."""
    layers = [Layer.random(model, batch.shape[2], kept=experts, seed=seed).to(batch.device) for experts in kept]
    pairs = [float(layer.received(batch).sum()) / len(batch) for layer in layers]
    shape = {"tokens": batch.shape[1], "dimension": batch.shape[2]}
    return {
        "operations": [
            operations(model, experts=experts, received=received, **shape)
            for experts, received in zip(kept, pairs, strict=True)
        ],
        "counted_operations": [counted_operations(layer, batch) for layer in layers],
        "parameters": [layer.parameter_count for layer in layers],
        "bytes": [layer.bytes for layer in layers],
        "seconds": inference_seconds(layers, batch, repeats),
    }


def _dataset(
    costs: Sequence[dict[str, Any]], axes: Mapping[str, list[Any]], kept: np.ndarray, sizes: Mapping[str, int]
) -> xr.Dataset:
    """Collects the measured costs, with the slope of each."""

    def measured(name: str, meaning: str, units: str = "", dims: tuple[str, ...] = ()) -> xr.Variable:
        values = np.array([of_routing[name] for of_routing in costs])
        return variable(("routing", "rho", *dims), values, meaning, units)

    data = xr.Dataset(
        {
            "operations": measured("operations", "per sample, by formula", "FLOP"),
            "counted_operations": measured("counted_operations", "per sample, by torch's counter", "FLOP"),
            "parameters": measured("parameters", "parameters of routers and neurons"),
            "bytes": measured("bytes", "memory of the layer's parameters and buffers", "byte"),
            "seconds": measured("seconds", f"per batch of {sizes['samples']}", "s", ("repeat",)),
            "experts_kept": variable(("rho",), kept, "experts kept"),
            "pruned_share": variable(("rho",), 1 - kept / sizes["experts"], "share of experts pruned"),
        },
        coords={**{name: (name, values) for name, values in axes.items()}, "repeat": np.arange(sizes["repeats"])},
    )
    data["rho"].attrs = {"long_name": "share of each group of experts that is pruned, rounded down to whole experts"}
    slope, r_squared = _linear_fits(data)
    meaning = "change of the quantity, as a share of the unpruned layer's, per share of experts pruned"
    data["slope"] = slope.assign_attrs(long_name=meaning)
    data["r_squared"] = r_squared.assign_attrs(long_name="r squared of the linear fit")
    return data


def relative(data: xr.Dataset, quantity: str) -> xr.DataArray:
    """Returns a quantity of `efficiency` relative to the unpruned layer's, (routing, rho); for seconds, the median."""
    values = data[quantity].median("repeat") if "repeat" in data[quantity].dims else data[quantity]
    return values / values.sel(rho=0.0, drop=True)


def _linear_fits(data: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray]:
    """Fits a line to each quantity and returns its slope and r squared; NaN if nothing was pruned."""
    share = data["pruned_share"].values
    slope, r_squared = np.full((2, len(QUANTITIES), data.sizes["routing"]), np.nan)
    for row, quantity in enumerate(QUANTITIES):
        for column, values in enumerate(relative(data, quantity).transpose("routing", "rho").values):
            if share.max() > 0:
                line = np.polyfit(share, values, 1)
                residual = ((values - np.polyval(line, share)) ** 2).sum()
                slope[row, column] = line[0]
                r_squared[row, column] = 1 - residual / ((values - values.mean()) ** 2).sum()
    coords = {"quantity": list(QUANTITIES), "routing": data["routing"].values}
    dims = ("quantity", "routing")
    return xr.DataArray(slope, coords, dims), xr.DataArray(r_squared, coords, dims)
