"""Measurements behind pruning2024's figure 10: FLOPs and time of models of real size as more experts go."""

from __future__ import annotations

import numpy as np
import torch
import xarray as xr

from moe_lab.vision import VMoE, deep
from moe_lab.vision.vmoe.config import VMoEConfig
from moe_lab.vision.vmoe.named import NAMED

MODELS: dict[str, VMoEConfig] = {
    "v-moe-cifar-100": NAMED["b16"].replace(num_classes=100),
    "v-moe-imagenet": NAMED["b16"].replace(num_classes=1000, positions=577),
    "e3-cifar-10": NAMED["e3-s32"].replace(num_classes=10),
    "e3-cifar-100": NAMED["e3-s32"],
}
"""Of section 5.2 and appendix A; the V-MoE fine-tuned on CIFAR-10 is `NAMED["b16"]` itself."""
KEPT = (8, 6, 4, 2)
"""Experts of a mixture that stay, of all members together."""


def counted() -> xr.Dataset:
    """Counts the FLOPs of an image, buffers of the released models included; no weights are drawn.

    Returns:
      operations(model, kept).
    """
    found = np.empty((len(MODELS), len(KEPT)))
    with torch.device("meta"):
        for row, config in enumerate(MODELS.values()):
            each = config.num_experts // config.members
            for column, count in enumerate(KEPT):
                left = [m * each + e for m in range(config.members) for e in range(count // config.members)]
                kept = (tuple(left),) * len(config.layers) if count < config.num_experts else ()
                found[row, column] = deep.costs(VMoE(config.replace(kept=kept))).operations
    return xr.Dataset({"operations": (("model", "kept"), found)}, {"model": list(MODELS), "kept": list(KEPT)})


def timed(model: str, blocks: int, repeats: int, seed: int = 0) -> xr.Dataset:
    """Measures the time of an image, on random weights of the real width and one thread, pruned silently.

    Args:
      model: a name in `MODELS`.
      blocks: how many of the first blocks.
      repeats: measurements of each.
      seed: of weights.

    Returns:
      milliseconds(kept, repeat). Eight images are routed together.
    """
    config = MODELS[model]
    layers = tuple(layer for layer in config.layers if layer < blocks)
    together = 8 * config.positions * config.members
    config = config.replace(num_layers=blocks, layers=layers, group_size=together)
    found = deep.pruning_costs(config, KEPT, ("silent",), repeats, seed)
    return found[["milliseconds"]].sel(mode="silent", drop=True)


def straightness(values: xr.DataArray) -> float:
    """Returns r squared of the line through values(kept)."""
    return float(np.corrcoef(values["kept"].values, values.values)[0, 1] ** 2)
