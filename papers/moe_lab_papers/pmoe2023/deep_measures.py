"""Measurements behind pmoe2023's claims about wide residual networks: what they cost, and CIFAR-10 from a folder."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import nn
from torch.nn import functional

from moe_lab.core.trials import stream, threads_for
from moe_lab.vision import WRN, PatchWRN, figures

_MODELS: dict[str, type[WRN] | type[PatchWRN]] = {"WRN": WRN, "WRN-pMoE": PatchWRN}
_IMAGES = {"celeba": ((3, 64, 64), 4), "cifar": ((3, 32, 32), 10)}
"""Channels, height and width, and classes."""


def networks() -> xr.Dataset:
    """Counts both networks at the paper's size; nothing is drawn or trained.

    Returns:
      What `figures.compute` returns, about CelebA, with parameters(data, model) of the networks for both data sets.
    """
    sizes = [
        [model.paper(data).count(*image).parameters for model in _MODELS.values()]  # type: ignore[arg-type]
        for data, image in _IMAGES.items()
    ]
    found = figures.compute().drop_vars("parameters")
    return found.assign(parameters=(("data", "model"), np.array(sizes, dtype=float))).assign_coords(data=list(_IMAGES))


def step_time(width: int, images: int, repeats: int, seed: int = 0) -> xr.Dataset:
    """Measures a training step of CelebA's networks on random images: one forward and backward pass on one thread.

    Unkept patches are left out, as `PatchWRN` does by default. The networks take turns, so that a slow moment of the
    machine affects both; a first round is not counted.

    Args:
      width: widening factor; the paper's is 10.
      images: in the batch.
      repeats: measured steps.
      seed: of weights and images.

    Returns:
      seconds(model, repeat), CPU time.
    """
    image, classes = _IMAGES["celeba"]
    built = [
        model.paper("celeba").replace(width=width).build(image, classes, random=stream(seed, 0, "step/weights"))
        for model in _MODELS.values()
    ]
    drawn = stream(seed, 0, "step/images").standard_normal((images, *image), np.float32)
    batch = torch.as_tensor(drawn).contiguous(memory_format=torch.channels_last)
    labels = torch.arange(images) % classes
    seconds = np.empty((len(built), repeats))
    with threads_for(0, torch.device("cpu")):
        for repeat in range(-1, repeats):
            for row, network in enumerate(built):
                taken = _step(network, batch, labels)
                if repeat >= 0:
                    seconds[row, repeat] = taken
    return xr.Dataset({"seconds": (("model", "repeat"), seconds)}, {"model": list(_MODELS)})


def _step(network: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    network.train()
    network.zero_grad()
    began = time.process_time()
    functional.cross_entropy(network(images), labels).backward()
    return time.process_time() - began


def cifar(
    variants: Sequence[str], samples: Sequence[int], trials: int, seed: int = 0, *, root: str, **settings: Any
) -> xr.Dataset:
    """Trains WRN-pMoE and WRN on the paper's data sets made of CIFAR-10 (figures 14 to 16).

    Args:
      variants: of `VehiclesTask`: "classes", "noise" (on random numbers, without ImageNet) or "vehicles".
      samples, trials, seed, settings: as for `figures.sample_complexity`.
      root: a folder of CIFAR-10's binary version, or of its archive.

    Returns:
      test_accuracy(variant, samples, model, trial) of "learned" and "conv".
    """
    found = [
        figures.sample_complexity(samples, ("learned", "conv"), trials, seed, root=root, variant=variant, **settings)[
            "test_accuracy"
        ]
        for variant in variants
    ]
    return xr.concat(found, xr.Variable("variant", list(variants))).to_dataset(name="test_accuracy")
