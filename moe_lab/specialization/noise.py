"""The router noise of training and of evaluations: each trial has its own stream, independent of batch composition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab.core.ahead import Ahead, host_memory
from moe_lab.core.graphs import on_accelerator, to_device
from moe_lab.core.trials import stream
from moe_lab.specialization.data import Split
from moe_lab.specialization.mixture import Mixture
from moe_lab.specialization.run import ClusterRun

ROUTER_NOISE = "router noise"
"""The purpose of the numbers of training steps."""
DRAWN_AT_ONCE, _STEPS_AHEAD = 2**24, 64
"""Numbers that are drawn ahead for an accelerator, 64 MB twice, and steps."""


def router_noise(
    model: Mixture, streams: Sequence[np.random.Generator], samples: int, like: Tensor
) -> Float[Tensor, "T M N"]:
    """Samples r, uniform on [0, router_noise], from one stream per trial, with the device and dtype of `like`."""
    shape = (len(streams), model.experts, samples)
    if not model.router_noise:
        return like.new_zeros(shape)
    values = np.empty(shape, dtype=np.float32)
    for random, into in zip(streams, values, strict=True):
        random.random(dtype=np.float32, out=into)
    noise = to_device(values, like.device, like.dtype)
    return noise if model.router_noise == 1 else noise.mul_(model.router_noise)


def noise_of_steps(
    model: Mixture, run: ClusterRun, trials: Sequence[int], like: Tensor
) -> Iterator[Float[Tensor, "T M N"]]:
    """Yields the router noise of step after step; for an accelerator threads draw the next steps' meanwhile."""
    streams, samples = [stream(run.seed, trial, ROUTER_NOISE) for trial in trials], run.samples
    if not (on_accelerator(like.device) and model.router_noise):
        while True:
            yield router_noise(model, streams, samples, like)
    each = len(streams) * model.experts * samples
    steps = max(1, min(_STEPS_AHEAD, DRAWN_AT_ONCE // each))
    shape = (steps, len(streams), model.experts, samples)
    with Ahead(partial(_begin_noise, streams, shape, like.device)) as drawn:
        for values in drawn:
            noise = to_device(values, like.device, like.dtype)
            yield from noise if model.router_noise == 1 else noise.mul_(model.router_noise)


def _begin_noise(
    streams: Sequence[np.random.Generator], shape: tuple[int, ...], device: torch.device
) -> tuple[Tensor, list[Callable[[], None]]]:
    """Memory for the noise of some steps, and the calls that fill it, one for each trial."""
    values = host_memory(shape, device)
    by_trial = values.numpy().swapaxes(0, 1)
    return values, [partial(_fill, random, into) for random, into in zip(streams, by_trial, strict=True)]


def _fill(random: np.random.Generator, into: np.ndarray) -> None:
    """Draws step after step, the same numbers as one step at a time; other threads run meanwhile."""
    for step in into:
        random.random(dtype=np.float32, out=step)


def evaluation_noise(
    run: ClusterRun, model: Mixture, trials: Sequence[int], split: Split, like: Tensor
) -> Float[Tensor, "T M N"] | None:
    """Samples the router noise of evaluations, the same each time; None except with the authors' objective."""
    if model.objective == "paper":
        return None
    samples = run.samples if split == "train" else run.test_samples
    return router_noise(model, [stream(run.seed, trial, f"{split} noise") for trial in trials], samples, like)
