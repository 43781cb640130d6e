"""Figures 6 and 10 in kind: what pruning saves of one layer's operations, memory and inference time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import xarray as xr

from moe_lab.core.config import require
from moe_lab.core.devices import choose, label_of
from moe_lab.core.figure import reproducible
from moe_lab.core.grid import checked_axes
from moe_lab.core.origins import as_tuple
from moe_lab.core.signatures import with_notebook
from moe_lab.core.trials import stream, threads_for
from moe_lab.pruning.layer import Layer, counted_operations, inference_seconds, operations
from moe_lab.pruning.model import TokenMoE
from moe_lab.pruning.recipes import RHO, ROUTINGS, TokenFigure, variable
from moe_lab.pruning.select import pruned_counts

QUANTITIES = ("operations", "bytes", "parameters", "seconds")


@reproducible()
@with_notebook
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
    """Figures 6 and 10 in kind: operations, memory and inference time of a pruned layer against rho, for both routings.

    The layers are untrained, and so large that matrix products dominate their time. With k l = n l', as by default,
    both routings send equally many tokens to the experts of the unpruned layer.

    Departs from the paper: one layer alone instead of vision models.

    Args:
      rho: share of each group of experts to prune, one value or several; 0 is always measured too.
      routings: "expert-choice", "token-choice" or both.
      seed: of the weights and samples.
      experts, neurons, dimension, tokens: k, m, d and n.
      kept_tokens, picked_experts: l of expert-choice, and l of token-choice.
      samples, repeats: samples in a batch, and how often its time is measured, the layers in turn.
      device: where to compute; one thread is used on a CPU.

    Returns:
      over (routing, rho): operations of a sample by formula, counted_operations of a sample by torch's counter,
      parameters and bytes; seconds(routing, rho, repeat) of a batch; experts_kept(rho) and pruned_share(rho); and over
      (quantity, routing): slope of a quantity's share of the unpruned layer's against pruned_share (-1: in proportion),
      and r_squared of that line.

    Raises:
      ValueError: a wrong value, before anything is measured.
      RuntimeError: the device is not there.
    """
    names = as_tuple(routings)
    shares = [0.0, *(float(share) for share in np.atleast_1d(rho) if share != 0)]
    axes = checked_axes({"routing": names, "rho": shares})
    require(np.size(rho) > 0, "rho must have at least one value", rho=rho)
    sizes = {"dimension": dimension, "tokens": tokens, "samples": samples, "repeats": repeats}
    _check(names, kept_tokens, **sizes)
    tops = {"expert-choice": kept_tokens, "token-choice": picked_experts}
    models = [TokenMoE(experts=experts, neurons=neurons, routing=name, top=tops[name]) for name in names]
    kept = [experts - sum(pruned_counts(share, (experts // 2, experts // 2))) for share in axes["rho"]]
    data = _costs(models, kept, _batch(samples, tokens, dimension, seed, device), seed, repeats)
    data = data.assign_coords(
        routing=("routing", list(names), {"long_name": "who chooses"}), rho=("rho", axes["rho"], {"long_name": RHO})
    )
    data["experts_kept"] = variable(("rho",), kept, "experts that stay")
    data["pruned_share"] = variable(("rho",), 1 - np.array(kept) / experts, "share of experts that are pruned")
    data["slope"], data["r_squared"] = _lines(data)
    own: dict[str, Any] = {"experts": experts, "neurons": neurons, "dimension": dimension, "tokens": tokens}
    own |= {"kept_tokens": kept_tokens, "picked_experts": picked_experts}
    own |= {"samples": samples, "repeats": repeats, "device": device}
    figure = TokenFigure("figure 6", 1, seed, {})
    data.attrs = figure.about([own], label_of(device), settled={"rho": axes["rho"]})
    return data


def relative(data: xr.Dataset, quantity: str) -> xr.DataArray:
    """Returns a quantity of `efficiency` as a share of the unpruned layer's, (routing, rho); for seconds the median."""
    values = data[quantity].median("repeat") if "repeat" in data[quantity].dims else data[quantity]
    return values / values.sel(rho=0.0, drop=True)


def _check(routings: Sequence[str], kept_tokens: int, **counts: int) -> None:
    """Checks what `TokenMoE` does not."""
    for routing in routings:
        require(routing in ROUTINGS, "routing must be 'expert-choice' or 'token-choice'", routing=routing)
    for name, value in counts.items():
        require(isinstance(value, int) and value >= 1, f"{name} must be a whole number, at least 1", **{name: value})
    possible = "expert-choice" not in routings or kept_tokens <= counts["tokens"]
    require(possible, "kept_tokens (l) must be at most tokens (n)", l=kept_tokens, n=counts["tokens"])


def _batch(samples: int, tokens: int, dimension: int, seed: int, device: str) -> torch.Tensor:
    """(samples, tokens, dimension) standard normal tokens."""
    values = stream(seed, 0, "layer/tokens").standard_normal((samples, tokens, dimension))
    return torch.as_tensor(values, dtype=torch.float32, device=choose(device))


def _costs(models: Sequence[TokenMoE], kept: Sequence[int], batch: torch.Tensor, seed: int, repeats: int) -> xr.Dataset:
    """Measures the costs of each model's layers with these numbers of experts, over (routing, rho)."""
    with threads_for(0, batch.device):
        found = [_measured(model, kept, batch, seed, repeats) for model in models]
    dims = ("routing", "rho")
    meanings = {
        "operations": (dims, "of a sample, by formula", "FLOP"),
        "counted_operations": (dims, "of a sample, by torch's counter", "FLOP"),
        "parameters": (dims, "numbers in routers and neurons", ""),
        "bytes": (dims, "memory of all that the layer holds", "byte"),
        "seconds": ((*dims, "repeat"), f"for a batch of {len(batch)}", "s"),
    }
    variables = {
        name: variable(across, np.array([costs[name] for costs in found]), meaning, unit)
        for name, (across, meaning, unit) in meanings.items()
    }
    return xr.Dataset(variables, coords={"repeat": np.arange(repeats)})


def _measured(model: TokenMoE, kept: Sequence[int], batch: torch.Tensor, seed: int, repeats: int) -> dict[str, Any]:
    """Measures the costs of layers with these numbers of experts."""
    layers = [Layer.random(model, batch.shape[2], kept=count, seed=seed).to(batch.device) for count in kept]
    each = zip(kept, (float(layer.received(batch).sum()) / len(batch) for layer in layers), strict=True)
    sizes = {"tokens": batch.shape[1], "dimension": batch.shape[2]}
    return {
        "operations": [operations(model, experts=count, received=pairs, **sizes) for count, pairs in each],
        "counted_operations": [counted_operations(layer, batch) for layer in layers],
        "parameters": [layer.parameter_count for layer in layers],
        "bytes": [layer.bytes for layer in layers],
        "seconds": inference_seconds(layers, batch, repeats),
    }


def _lines(data: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray]:
    """Slope and r squared of a straight line through each quantity; NaN where nothing was pruned."""
    share = data["pruned_share"].values
    slope, straight = np.full((2, len(QUANTITIES), data.sizes["routing"]), np.nan)
    for row, quantity in enumerate(QUANTITIES):
        for column, values in enumerate(relative(data, quantity).transpose("routing", "rho").values):
            if share.max() > 0:
                line = np.polyfit(share, values, 1)
                slope[row, column] = line[0]
                off = ((values - np.polyval(line, share)) ** 2).sum()
                straight[row, column] = 1 - off / ((values - values.mean()) ** 2).sum()
    coords = {"quantity": list(QUANTITIES), "routing": data["routing"]}
    about = (
        "change of the share of the unpruned layer's, per share of experts pruned",
        "how straight the quantity falls; 1: exactly",
    )
    first, second = (
        xr.DataArray(values, coords, ("quantity", "routing"), attrs={"long_name": meaning})
        for values, meaning in zip((slope, straight), about, strict=True)
    )
    return first, second
