"""Measurements behind pruning2024's figure 10: the time of models of real size as more experts go."""

from __future__ import annotations

import numpy as np
import xarray as xr

from moe_lab_papers.pruning2024 import vmoe
from moe_lab_papers.pruning2024.vmoe.config import VMoEConfig
from moe_lab_papers.pruning2024.vmoe.named import NAMED

MODELS: dict[str, VMoEConfig] = {
    "v-moe-cifar-100": NAMED["b16"].replace(num_classes=100),
    "e3-cifar-10": NAMED["e3-s32"].replace(num_classes=10),
}
"""Of section 5.2 and appendix A."""
KEPT = (8, 6, 4, 2)
"""Experts of a mixture that stay, of all members together."""


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
    found = vmoe.pruning_costs(config, KEPT, ("silent",), repeats, seed)
    return found[["milliseconds"]].sel(mode="silent", drop=True)


def straightness(values: xr.DataArray) -> float:
    """Returns r squared of the line through values(kept)."""
    return float(np.corrcoef(values["kept"].values, values.values)[0, 1] ** 2)
