"""What a model costs: parameters, operations, memory, and measured time.

Operations are counted by formula: 2 for each multiplication with addition of a matrix product, in the buffers of
experts also for empty rows, as the reference computes them. Normalizations, activations and sums are left out.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import xarray as xr
from jaxtyping import Float

from moe_lab.core.config import require
from moe_lab.core.trials import threads_for
from moe_lab_papers.pruning2024.vmoe.config import Pruning, VMoEConfig
from moe_lab_papers.pruning2024.vmoe.model import VMoE
from moe_lab_papers.pruning2024.vmoe.pruning import without_others

_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Costs:
    """The costs of a model.

    Attributes:
      parameters: their number.
      bytes: of the parameters.
      operations: of one image in a batch of whole groups (FLOPs).
    """

    parameters: int
    bytes: int
    operations: float


def costs(model: VMoE) -> Costs:
    """Counts what a model costs, of any size, also on the device "meta"; `milliseconds` measures its time."""
    parameters = list(model.parameters())
    return Costs(
        parameters=sum(parameter.numel() for parameter in parameters),
        bytes=sum(parameter.numel() * parameter.element_size() for parameter in parameters),
        operations=operations(model),
    )


def operations(model: VMoE) -> float:
    """Computes the operations (FLOPs) of one image in a batch of whole groups."""
    config = model.config
    size, tokens, classes = config.hidden_size, config.positions, config.num_classes
    patches = tokens - (config.classifier == "token")
    pixels = config.patch_size[0] * config.patch_size[1] * config.channels
    total, copies = 2.0 * patches * pixels * size, 1
    mixtures = model.mixtures()
    for block in range(config.num_layers):
        if mixtures and block == min(mixtures):
            copies = config.members
        total += copies * _attention(tokens, tokens, size)
        if block in mixtures:
            moe, images = mixtures[block], config.group_size / (tokens * config.members)
            routes = len(config.routes_in(block)) // config.members
            total += copies * tokens * 2 * size * (routes + config.num_selected_experts)
            total += moe.experts * moe.capacity / images * 4 * size * config.mlp_dim
        else:
            total += copies * tokens * 4 * size * config.mlp_dim
    if config.classifier == "map":
        total += copies * (_attention(1, tokens, size) + 4 * size * config.mlp_dim)
    width = config.representation_size
    total += copies * 2 * size * width if width else 0
    return total + copies * 2 * (width or size) * classes


def _attention(queries: int, tokens: int, size: int) -> int:
    projections = 2 * size * size * (2 * queries + 2 * tokens)
    return projections + 4 * queries * tokens * size


def milliseconds(models: Sequence[VMoE], repeats: int) -> Float[np.ndarray, "models repeats"]:
    """Measures the CPU time of one image on this thread, in the smallest batch of whole groups, of random images.

    The models take turns, so that a slow moment of the machine affects all of them; a first round is not counted.
    """
    generator = torch.Generator().manual_seed(0)
    found = np.empty((len(models), repeats))
    batches = [_images(model.config, generator) for model in models]
    with torch.inference_mode(), threads_for(0, _CPU):
        for repeat in range(-1, repeats):
            for number, (model, images) in enumerate(zip(models, batches, strict=True)):
                began = time.thread_time()
                model(images)
                if repeat >= 0:
                    found[number, repeat] = 1e3 * (time.thread_time() - began) / len(images)
    return found


def _images(config: VMoEConfig, generator: torch.Generator) -> torch.Tensor:
    """Random images as wide as all of their patches in one row."""
    patches = config.positions - (config.classifier == "token")
    height, width = config.patch_size
    shape = (config.images_per_batch, height, patches * width, config.channels)
    return torch.randn(shape, generator=generator)


def pruning_costs(
    config: VMoEConfig,
    experts_kept: Sequence[int] = (8, 6, 4, 2),
    modes: Sequence[str] = ("silent", "rerouted"),
    repeats: int = 3,
    seed: int = 0,
    *,
    whole: VMoE | None = None,
) -> xr.Dataset:
    """Counts and measures a model with random weights, whole and pruned.

    Args:
      config: of the whole model.
      experts_kept: experts that each mixture keeps.
      modes: "silent", "rerouted" or both.
      repeats: measurements of each model; with 0 nothing is computed, and models of any size are counted at once.
      seed: of the weights.
      whole: the model to measure; one of the config with random weights when None.

    Returns:
      parameters, bytes and operations of an image (FLOPs) over (mode, kept), and milliseconds(mode, kept, repeat).

    Raises:
      ValueError: fewer experts than K would stay, or more than there are.
    """
    if repeats and whole is None:
        whole = VMoE(config, seed)
    quantities = ("parameters", "bytes", "operations")
    counted = np.empty((len(quantities), len(modes), len(experts_kept)))
    measured = np.empty((len(modes), len(experts_kept), repeats))
    for j, mode in enumerate(modes):
        models = [_pruned(config, whole if repeats else None, count, mode) for count in experts_kept]  # type: ignore[arg-type]
        for k, model in enumerate(models):
            found = costs(model)
            counted[:, j, k] = [getattr(found, name) for name in quantities]
        if repeats:
            measured[j] = milliseconds(models, repeats)
    meanings = ("parameters", "memory of the parameters", "operations of an image")
    units = ("", "bytes", "FLOPs")
    variables = {
        name: (("mode", "kept"), values, {"long_name": meaning, "units": unit})
        for name, values, meaning, unit in zip(quantities, counted, meanings, units, strict=True)
    }
    about = {"long_name": "CPU time of an image", "units": "ms"}
    variables["milliseconds"] = (("mode", "kept", "repeat"), measured, about)  # type: ignore[assignment]
    coords = {
        "mode": ("mode", list(modes), {"long_name": "what becomes of tokens of pruned experts"}),
        "kept": ("kept", list(experts_kept), {"long_name": "experts kept in each mixture"}),
    }
    return xr.Dataset(variables, coords=coords)


def _pruned(config: VMoEConfig, whole: VMoE | None, count: int, mode: Pruning) -> VMoE:
    """The whole model with so many experts left, or a model without storage that has as many."""
    kept = _first(config, count)
    if whole is not None:
        return without_others(whole, kept, mode)
    with torch.device("meta"):
        return VMoE(config.replace(pruning=mode, kept=tuple(kept.values())))


def _first(config: VMoEConfig, count: int) -> dict[int, tuple[int, ...]]:
    """The first experts of each member, as many in all as count says."""
    each, own = config.num_experts // config.members, count // config.members
    rule = "experts_kept must be a multiple of the members (M) and at most num_experts (E)"
    require(count % config.members == 0 and own <= each, rule, kept=count, E=config.num_experts, M=config.members)
    kept = tuple(member * each + expert for member in range(config.members) for expert in range(own))
    return dict.fromkeys(config.layers, kept)


MEASURED = VMoEConfig(
    hidden_size=256,
    mlp_dim=1024,
    num_layers=1,
    num_heads=4,
    layers=(0,),
    positions=65,
    patch_size=(4, 4),
    split_rngs=True,
)
"""One block of D=256 and F=1024, large enough to show what pruning saves and small enough to measure on the spot."""
