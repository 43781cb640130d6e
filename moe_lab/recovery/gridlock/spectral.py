"""Algorithm 1: regressors from the moments of transformed labels (gridlock2019)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab.core.graphs import on_accelerator, to_device
from moe_lab.core.training import Learner
from moe_lab.core.trials import Draw, drawn
from moe_lab.recovery import tensor as tensors
from moe_lab.recovery.data import Inputs, MixtureTask
from moe_lab.recovery.gridlock.run import Spectral
from moe_lab.recovery.measures import unit
from moe_lab.recovery.transforms import Polynomial, Transforms

PLAIN = Polynomial((1.0,), 1.0, ())
"""y without a transform: its third moment mixes regressors and gates (gridlock2019, eq. 3)."""

_BETTER = 1e-6  # restarts with the same result differ by rounding and by the order of their experts


def power_starts(
    method: Spectral, task: MixtureTask, trials: Sequence[int], seed: int, like: Tensor
) -> Float[Tensor, "T L d"]:
    """Samples the vectors that a decomposition starts with."""
    factors = 1 if method.decomposition == "power" else task.experts
    wanted = Draw("start/decomposition", (method.starts(task.experts) * factors, task.dimension), "normal")
    return to_device(drawn({"vectors": wanted}, trials, seed)["vectors"], like.device, like.dtype)


class Decomposition(Learner, ABC):
    """Regressors of some mixtures while they are found from the moments of their samples; a step is one iteration.

    Args:
      y: (T, N).
      k: experts.
      initial_vectors: (T, L, d) random vectors; for Orth-ALS L is a multiple of k.
    """

    def __init__(
        self,
        inputs: Inputs,
        y: Float[Tensor, "T N"],
        k: int,
        transforms: Transforms,
        method: Spectral,
        initial_vectors: Tensor,
    ) -> None:
        super().__init__(range(len(y)), y.new_zeros(()))
        if method.third == "y":
            transforms = replace(transforms, p3=PLAIN)
        self._inputs, self._y, self._transforms, self._method = inputs, y, transforms, method
        self._initial_vectors = initial_vectors
        weights = transforms.p3(y) * float(np.sign(transforms.p3.strength))
        self._weights = tensors.robust(weights) if method.robust else weights

    @property
    @abstractmethod
    def iterations(self) -> int:
        """Steps until all regressors are found."""

    @property
    @abstractmethod
    def regressors(self) -> Float[Tensor, "T k d"]:
        """Unit vectors, oriented; zeros for those that are not sought yet."""

    @property
    def found(self) -> Float[Tensor, "T k d"]:
        """The regressors after the last step."""
        return self.regressors

    def keep(self, positions: np.ndarray) -> None:
        super().keep(positions)
        there = torch.as_tensor(positions, device=self.like.device)
        self._inputs, self._y, self._weights = self._inputs.of(there), self._y[there], self._weights[there]
        self._initial_vectors = self._initial_vectors[there]

    def check(self) -> None:
        """Checks that the samples determine as many regressors.

        Raises:
          RankError: T2 has rank below k.
        """


class PowerMethod(Decomposition):
    """Power iterations on T3, whitened by T2.

    With `robust`, the final components also use T3(I, v, v) in all d dimensions, because the error of T2's subspace is
    larger than that of T3 along a known direction. If g has a kink, T3 has the larger error and is not used.
    """

    def __init__(self, inputs: Inputs, y: Tensor, k: int, *given: Any) -> None:
        super().__init__(inputs, y, k, *given)
        second, sign = tensors.second_moment(inputs, self._transforms.p2(y)), np.sign(self._transforms.p2.strength)
        self._whitener = tensors.Whitener.of(second, k, float(sign))
        third = tensors.third_moment(inputs, self._weights, self._whitener.whiten)
        self._initial_vectors = unit(self._initial_vectors @ self._whitener.basis)  # along U: its signs do not matter
        self._components = tensors.Components.before(third, self._initial_vectors)

    @property
    def iterations(self) -> int:
        return self._components.vectors.shape[1] * self._method.power_iterations

    @property
    def changed(self) -> Sequence[Tensor]:
        return self._components

    def step(self, *inputs: Tensor) -> None:
        after = tensors.power_step(self._components, self._initial_vectors, self.steps, self._method.power_iterations)
        for part, new in zip(self._components, after, strict=True):
            part.copy_(new)
        self.loss.copy_(-self._components.values.sum(1))  # not finite where there is no whitener

    @property
    def regressors(self) -> Float[Tensor, "T k d"]:
        if not on_accelerator(self.like.device):  # which need not compute both, as what reads no number must
            return self.found if self.done == self.iterations else self._oriented(self._unwhitened)
        ended = (self.steps == self.iterations)[:, None, None]
        return torch.where(ended, self.found, self._oriented(self._unwhitened))

    @property
    def found(self) -> Float[Tensor, "T k d"]:
        regressors, vectors = self._unwhitened, self._components.vectors
        if self._method.robust and not self._transforms.g.kinks:
            along = unit(tensors.third_moment_along(self._inputs, self._weights, vectors @ self._whitener.whiten.mT))
            regressors = unit(regressors * torch.sign((regressors * along).sum(2, keepdim=True)) + along)
        return self._oriented(regressors)

    @property
    def latest(self) -> Float[Tensor, "T 1 d"]:
        """The component that the last step moved; 0 before the first step."""
        number = ((self.steps - 1).clamp(min=0) // self._method.power_iterations)[:, None]
        own = torch.arange(self._components.vectors.shape[1], device=number.device) == number
        return (self._unwhitened * own[..., None]).sum(1, keepdim=True)

    @property
    def _unwhitened(self) -> Float[Tensor, "T k d"]:
        return unit(self._components.vectors @ self._whitener.undo.mT)

    def _oriented(self, regressors: Float[Tensor, "T k d"]) -> Float[Tensor, "T k d"]:
        return tensors.oriented(regressors, self._inputs, self._y, self._transforms)

    def keep(self, positions: np.ndarray) -> None:
        super().keep(positions)
        there = torch.as_tensor(positions, device=self.like.device)
        self._whitener = tensors.Whitener(*(part[there] for part in self._whitener))
        self._components = tensors.Components(*(part[there] for part in self._components))

    def check(self) -> None:
        self._whitener.check()


class OrthALS(Decomposition):
    """Orth-ALS on the full T3, as the authors run it, in one step; the restart that fits T3 and T2 best is selected.

    "Rank-k tensor decomposition on T3 using T2" (algorithm 1) does not state how T2 is used. By T3 alone, the best
    restart of one trial in a hundred at n=2000 is a direction of heavy-tailed noise.
    """

    def __init__(self, inputs: Inputs, y: Tensor, k: int, *given: Any) -> None:
        super().__init__(inputs, y, k, *given)
        self._factors = y.new_zeros(len(y), k, inputs.x.shape[2])

    @property
    def iterations(self) -> int:
        return 1

    @property
    def changed(self) -> None:
        """None: the solvers of small systems wait for an accelerator."""
        return

    def step(self, *inputs: Tensor) -> None:
        y, k = self._y, self._factors.shape[1]
        identity = torch.eye(self._inputs.x.shape[2], dtype=y.dtype, device=y.device).expand(len(y), -1, -1)
        second = tensors.second_moment(self._inputs, self._transforms.p2(y)).flatten(1)
        third = tensors.third_moment(self._inputs, self._weights, identity)
        best: tuple[Tensor, Tensor] | None = None
        for initial_factors in self._initial_vectors.split(k, dim=1):
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
        self._factors = best[0]

    def keep(self, positions: np.ndarray) -> None:
        super().keep(positions)
        self._factors = self._factors[torch.as_tensor(positions, device=self.like.device)]

    @property
    def regressors(self) -> Float[Tensor, "T k d"]:
        return tensors.oriented(self._factors, self._inputs, self._y, self._transforms)


DECOMPOSITIONS: dict[str, type[Decomposition]] = {"power": PowerMethod, "orth-als": OrthALS}


def find_regressors(
    inputs: Inputs, y: Float[Tensor, "T N"], k: int, transforms: Transforms, method: Spectral, initial_vectors: Tensor
) -> Float[Tensor, "T k d"]:
    """Finds unit regressors from samples; arguments are those of `Decomposition`.

    Raises:
      ValueError: k > d, or the data are not finite.
      RankError: T2 has rank below k.
    """
    tensors.check_samples(inputs, y, k)
    finding = DECOMPOSITIONS[method.decomposition](inputs, y, k, transforms, method, initial_vectors)
    finding.check()
    finding.advance(finding.iterations)
    return finding.found


def _unexplained(moment: Float[Tensor, "T m"], terms: Float[Tensor, "T k m"]) -> Float[Tensor, " T"]:
    """Computes the share of a moment's squared norm that no linear combination of the terms explains."""
    weights = torch.linalg.lstsq(terms @ terms.mT, terms @ moment[..., None]).solution
    residual = moment - (weights.mT @ terms)[:, 0]
    return residual.square().sum(1) / moment.square().sum(1)
