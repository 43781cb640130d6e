"""Algorithm 1 as one call: regressors from the moments of transformed labels (gridlock2019)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab.recovery import tensor as tensors
from moe_lab.recovery.data import Inputs, MixtureTask
from moe_lab.recovery.gridlock.run import Spectral
from moe_lab.recovery.transforms import Polynomial, Transforms
from moe_lab.trials import stream

PLAIN = Polynomial((1.0,), 1.0, ())
"""y as it is: its third moment mixes regressors with gates in every way (gridlock2019, eq. 3)."""

_BETTER = 1e-6  # initializations with the same result differ by rounding, and in the order of their experts


class Found(NamedTuple):
    """The result of a decomposition so far.

    Attributes:
      iteration: from 1, over all components.
      regressors: (T, k, d) unit vectors, oriented; zeros for components still to be found.
      values: (T, k) T3(v, v, v) of each in whitened coordinates, 0 beyond; None for Orth-ALS.
    """

    iteration: int
    regressors: Float[Tensor, "T k d"]
    values: Float[Tensor, "T k"] | None


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
    starts: Tensor,
    watch: bool = True,
) -> Iterator[Found]:
    """Estimates regressors from samples and yields each iteration; the last is the result.

    With `robust`, whitened components of a linear mixture are read off T3(I, v, v) too, in all d dimensions: T2's
    subspace errs more than T3 along a known direction does. Where g has a kink T3 errs more, and they are not.

    Args:
      starts: (T, L, m) random vectors to begin with; m = k for power iterations, d for Orth-ALS, whose L is a multiple
        of k.
      watch: yield every iteration, and not the end alone.

    Raises:
      ValueError: k > d or data that are not finite.
      RankError: T2 has fewer than k directions.
    """
    tensors.check_samples(inputs, y, k)
    if method.third == "y":
        transforms = replace(transforms, p3=PLAIN)
    weights = transforms.p3(y) * float(np.sign(transforms.p3.strength))
    weights = tensors.robust(weights) if method.robust else weights
    if method.decomposition == "orth-als":
        yield _orth_als(inputs, y, k, transforms, weights, starts)
        return
    second = tensors.second_moment(inputs, transforms.p2(y))
    whiten, undo = tensors.whitener(second, k, float(np.sign(transforms.p2.strength)))
    third = tensors.third_moment(inputs, weights, whiten)
    refine = method.robust and not transforms.g.kinks
    for count, step in enumerate(tensors.power_iterations(third, starts, method.power_iterations), start=1):
        if not watch and count < k * method.power_iterations:
            continue
        found = _unit(step.vectors @ undo.mT)
        if refine and count == k * method.power_iterations:  # once, at the end
            along = _unit(tensors.third_moment_along(inputs, weights, step.vectors @ whiten.mT))
            found = _unit(found * torch.sign((found * along).sum(2, keepdim=True)) + along)
        yield Found(count, tensors.oriented(found, inputs, y, transforms), step.values)


def _orth_als(inputs: Inputs, y: Tensor, k: int, transforms: Transforms, weights: Tensor, starts: Tensor) -> Found:
    """Runs the authors' method, Orth-ALS on the full T3, and returns the initialization that fits T3 and T2 best.

    "Rank-k tensor decomposition on T3 using T2" (algorithm 1) does not say how T2 is used. By T3 alone, the best start
    of one trial in a hundred at n=2000 is a direction of heavy-tailed noise.
    """
    identity = torch.eye(inputs.x.shape[2], dtype=y.dtype, device=y.device).expand(len(y), -1, -1)
    second = tensors.second_moment(inputs, transforms.p2(y)).flatten(1)
    third = tensors.third_moment(inputs, weights, identity)
    best: tuple[Tensor, Tensor] | None = None
    for start in starts.split(k, dim=1):
        factors = tensors.orth_als(third, k, start)
        squares = torch.einsum("tia,tib->tiab", factors, factors).flatten(2)
        cubes = torch.einsum("tia,tib,tic->tiabc", factors, factors, factors).flatten(2)
        left = _unexplained(third.flatten(1), cubes) + _unexplained(second, squares)
        if best is None:
            best = factors, left
        else:
            better = left < (1 - _BETTER) * best[1]
            best = torch.where(better[:, None, None], factors, best[0]), torch.where(better, left, best[1])
    assert best is not None
    return Found(1, tensors.oriented(best[0], inputs, y, transforms), None)


def _unexplained(moment: Float[Tensor, "T m"], terms: Float[Tensor, "T k m"]) -> Float[Tensor, " T"]:
    """The share of a moment's squared length that no combination of the terms explains."""
    weights = torch.linalg.lstsq(terms @ terms.mT, terms @ moment[..., None]).solution
    left = moment - (weights.mT @ terms)[:, 0]
    return left.square().sum(1) / moment.square().sum(1)


def _unit(vectors: Tensor) -> Tensor:
    return vectors / torch.linalg.vector_norm(vectors, dim=-1, keepdim=True).clamp(min=torch.finfo(vectors.dtype).tiny)
