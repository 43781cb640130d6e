"""Algorithm 1 as one call: regressors from the moments of transformed labels (gridlock2019)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab.core.trials import stream
from moe_lab.recovery import tensor as tensors
from moe_lab.recovery.data import Inputs, MixtureTask
from moe_lab.recovery.gridlock.run import Spectral
from moe_lab.recovery.measures import unit
from moe_lab.recovery.transforms import Polynomial, Transforms

PLAIN = Polynomial((1.0,), 1.0, ())
"""y without a transform: its third moment mixes regressors and gates (gridlock2019, eq. 3)."""

_BETTER = 1e-6  # restarts with the same result differ by rounding and by the order of their experts


class Found(NamedTuple):
    """The current result of a decomposition.

    Attributes:
      iteration: from 1, over all components.
      regressors: (T, k, d) unit vectors, oriented; zeros for later components.
    """

    iteration: int
    regressors: Float[Tensor, "T k d"]


def power_starts(
    method: Spectral, task: MixtureTask, trials: Sequence[int], seed: int, like: Tensor
) -> Float[Tensor, "T L m"]:
    """Samples the vectors that a decomposition starts with."""
    k = task.experts
    whitened = method.decomposition == "power"
    shape = (method.starts(k) * (1 if whitened else k), k if whitened else task.dimension)
    vectors = [stream(seed, trial, "start/decomposition").standard_normal(shape) for trial in trials]
    return torch.as_tensor(np.stack(vectors), device=like.device, dtype=like.dtype)


def find_regressors(
    inputs: Inputs,
    y: Float[Tensor, "T N"],
    k: int,
    transforms: Transforms,
    method: Spectral,
    initial_vectors: Tensor,
    watch: bool = True,
) -> Iterator[Found]:
    """Finds regressors from samples, yielding after each iteration; the last item is the result.

    With `robust`, the final components also use T3(I, v, v) in all d dimensions, because the error of T2's subspace is
    larger than that of T3 along a known direction. If g has a kink, T3 has the larger error and is not used.

    Args:
      initial_vectors: (T, L, m) random vectors; m = k for power iterations, d for Orth-ALS, whose L is a multiple of k.
      watch: whether to yield every iteration or only the last.

    Raises:
      ValueError: k > d, or the data are not finite.
      RankError: T2 has rank below k.
    """
    tensors.check_samples(inputs, y, k)
    if method.third == "y":
        transforms = replace(transforms, p3=PLAIN)
    weights = transforms.p3(y) * float(np.sign(transforms.p3.strength))
    weights = tensors.robust(weights) if method.robust else weights
    if method.decomposition == "orth-als":
        yield _orth_als(inputs, y, k, transforms, weights, initial_vectors)
        return
    second = tensors.second_moment(inputs, transforms.p2(y))
    whiten, undo = tensors.whitener(second, k, float(np.sign(transforms.p2.strength)))
    third = tensors.third_moment(inputs, weights, whiten)
    refine = method.robust and not transforms.g.kinks
    last = k * method.power_iterations
    steps = tensors.power_iterations(third, initial_vectors, method.power_iterations)
    for iteration, step in enumerate(steps, start=1):
        if not watch and iteration < last:
            continue
        regressors = unit(step.vectors @ undo.mT)
        if refine and iteration == last:
            along = unit(tensors.third_moment_along(inputs, weights, step.vectors @ whiten.mT))
            regressors = unit(regressors * torch.sign((regressors * along).sum(2, keepdim=True)) + along)
        yield Found(iteration, tensors.oriented(regressors, inputs, y, transforms))


def _orth_als(
    inputs: Inputs, y: Tensor, k: int, transforms: Transforms, weights: Tensor, initial_vectors: Tensor
) -> Found:
    """Runs Orth-ALS on the full T3, as the authors do, and selects the restart that fits T3 and T2 best.

    "Rank-k tensor decomposition on T3 using T2" (algorithm 1) does not state how T2 is used. By T3 alone, the best
    restart of one trial in a hundred at n=2000 is a direction of heavy-tailed noise.
    """
    identity = torch.eye(inputs.x.shape[2], dtype=y.dtype, device=y.device).expand(len(y), -1, -1)
    second = tensors.second_moment(inputs, transforms.p2(y)).flatten(1)
    third = tensors.third_moment(inputs, weights, identity)
    best: tuple[Tensor, Tensor] | None = None
    for initial_factors in initial_vectors.split(k, dim=1):
        factors = tensors.orth_als(third, k, initial_factors)
        squares = torch.einsum("tia,tib->tiab", factors, factors).flatten(2)
        cubes = torch.einsum("tia,tib,tic->tiabc", factors, factors, factors).flatten(2)
        error = _unexplained(third.flatten(1), cubes) + _unexplained(second, squares)
        if best is None:
            best = factors, error
        else:
            better = error < (1 - _BETTER) * best[1]
            best = torch.where(better[:, None, None], factors, best[0]), torch.where(better, error, best[1])
    assert best is not None
    return Found(1, tensors.oriented(best[0], inputs, y, transforms))


def _unexplained(moment: Float[Tensor, "T m"], terms: Float[Tensor, "T k m"]) -> Float[Tensor, " T"]:
    """Computes the share of a moment's squared norm that no linear combination of the terms explains."""
    weights = torch.linalg.lstsq(terms @ terms.mT, terms @ moment[..., None]).solution
    residual = moment - (weights.mT @ terms)[:, 0]
    return residual.square().sum(1) / moment.square().sum(1)
