"""Regressors from moments: T2, the whitened T3, and its decomposition (gridlock2019, algorithm 1).

    T2 = mean P2(y) S2(x),  T3 = mean P3(y) S3(x),  S_m(x) = sum_j r_j(x) He_m(x - mu_j)

In population T2 = c2 sum_i p_i a_i a_i^T and T3 = c3 sum_i p_i a_i (x) a_i (x) a_i. With V^T T2 V = c2 I the tensor
T3(V, V, V) has k orthogonal components, which power iterations find. Only this k x k x k tensor is ever formed.

Shapes: T trials, N samples, d dimensions, k experts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.core.errors import InputError
from moe_lab.recovery.data import Inputs
from moe_lab.recovery.measures import unit
from moe_lab.recovery.transforms import Transforms

_RANK = 1e-8


class RankError(InputError):
    """Raised when T2 has rank below k: there are too few samples, or the regressors are linearly dependent."""


def second_moment(inputs: Inputs, weights: Float[Tensor, "T N"]) -> Float[Tensor, "T d d"]:
    """Computes the mean of weights(x, y) S2(x)."""
    d, total = inputs.x.shape[2], inputs.x.new_zeros(())
    shares = inputs.responsibilities()
    for component in range(inputs.means.shape[1]):
        weight = weights * shares[:, :, component]
        centred = inputs.x - inputs.means[:, component, None]
        identity = torch.eye(d, dtype=weight.dtype, device=weight.device) * weight.sum(1)[:, None, None]
        total = total + (centred * weight[..., None]).mT @ centred - identity
    return total / inputs.x.shape[1]


def third_moment(
    inputs: Inputs, weights: Float[Tensor, "T N"], directions: Float[Tensor, "T d k"]
) -> Float[Tensor, "T k k k"]:
    """Computes the mean of weights(x, y) S3(x), contracted with the directions along all three modes: T3(V, V, V).

    The d x d x d tensor is never formed: with u = V^T (x - mu), S3(V, V, V) = u (x) u (x) u - sym(u (x) V^T V), where
    sym has three terms.
    """
    k, total = directions.shape[2], inputs.x.new_zeros(())
    gram = directions.mT @ directions
    shares = inputs.responsibilities()
    for component in range(inputs.means.shape[1]):
        weight = weights * shares[:, :, component]
        u = (inputs.x - inputs.means[:, component, None]) @ directions
        pairs = (u[:, :, :, None] * u[:, :, None]).flatten(2)
        cubes = ((u * weight[..., None]).mT @ pairs).unflatten(2, (k, k))
        mean = (u * weight[..., None]).sum(1)
        term = mean[:, :, None, None] * gram[:, None]
        total = total + cubes - term - term.transpose(1, 2) - term.movedim(1, 3)
    return total / inputs.x.shape[1]


def third_moment_along(
    inputs: Inputs, weights: Float[Tensor, "T N"], directions: Float[Tensor, "T k d"]
) -> Float[Tensor, "T k d"]:
    """Computes the mean of weights(x, y) S3(x), contracted with each direction along two modes: T3(I, v, v)."""
    total, shares = inputs.x.new_zeros(()), inputs.responsibilities()
    squares = directions.square().sum(2)[..., None]
    for component in range(inputs.means.shape[1]):
        weight = weights * shares[:, :, component]
        centred = inputs.x - inputs.means[:, component, None]
        u = centred @ directions.mT
        along = (u.square() * weight[..., None]).mT @ centred
        mean = (centred * weight[..., None]).sum(1)[:, None]
        total = total + along - squares * mean - 2 * directions * (u * weight[..., None]).sum(1)[..., None]
    return total / inputs.x.shape[1]


class Whitener(NamedTuple):
    """The leading k directions of T2 = U diag(values) U^T.

    Attributes:
      values: (T, k) the largest eigenvalues, in descending order.
      basis: (T, d, k) U, whose signs are any.
      deficient: (T,) whether fewer than k eigenvalues are above rounding: then `whiten` and `undo` are NaN.
    """

    values: Float[Tensor, "T k"]
    basis: Float[Tensor, "T d k"]
    deficient: Bool[Tensor, " T"]

    @classmethod
    def of(cls, second: Float[Tensor, "T d d"], k: int, sign: float) -> Whitener:
        """Returns the whitener of T2.

        Args:
          sign: of c2, by which T2 is multiplied to be positive.
        """
        values, vectors = torch.linalg.eigh(-sign * (second + second.mT) / 2)  # the largest of T2 come first
        leading = -values[:, :k]
        return cls(leading, vectors[:, :, :k], ~(leading[:, -1] > _RANK * values.abs().amax(1)))

    @property
    def whiten(self) -> Float[Tensor, "T d k"]:
        """V with V^T T2 V = I."""
        return self.basis / self._roots

    @property
    def undo(self) -> Float[Tensor, "T d k"]:
        """The matrix that undoes V."""
        return self.basis * self._roots

    @property
    def _roots(self) -> Float[Tensor, "T 1 k"]:
        return torch.where(self.deficient[:, None], torch.nan, self.values).sqrt()[:, None]

    def check(self) -> None:
        """Checks that T2 has rank k in every trial.

        Raises:
          RankError: it has not.
        """
        if bool(self.deficient.any()):
            trial, k = int(self.deficient.nonzero()[0, 0]), self.values.shape[1]
            raise RankError(
                f"T2 must have k={k} positive eigenvalues: got {self.values[trial, -1].item():.3g} as the smallest of "
                f"trial {trial}; take more samples, or fewer experts; or the regressors are linearly dependent"
            )


# --- decomposition --------------------------------------------------------------------------------------------------


class Components(NamedTuple):
    """The components of a tensor while the power method finds one after the other.

    Attributes:
      vectors: (T, k, k) the unit components so far, the current one not yet final; zeros after it.
      values: (T, k) T(v, v, v) of each.
      residual: (T, k, k, k) the tensor less the components that are final.
      candidates: (T, L, k) all restarts of the current component.
    """

    vectors: Float[Tensor, "T k k"]
    values: Float[Tensor, "T k"]
    residual: Float[Tensor, "T k k k"]
    candidates: Float[Tensor, "T L k"]

    @classmethod
    def before(cls, tensor: Float[Tensor, "T k k k"], initial_vectors: Float[Tensor, "T L k"]) -> Components:
        """Returns the state before the first iteration.

        Args:
          tensor: symmetric, with nearly orthogonal components of positive weight.
          initial_vectors: L unit vectors, with which the search for each component begins; the best result is taken.
        """
        trials, k = tensor.shape[:2]
        return cls(tensor.new_zeros(trials, k, k), tensor.new_zeros(trials, k), tensor.clone(), initial_vectors.clone())


def power_step(
    now: Components, initial_vectors: Float[Tensor, "T L k"], done: Int[Tensor, " T"], iterations: int
) -> Components:
    """Takes one iteration of the robust power method with deflation (Anandkumar et al., 2014): v <- T(I, v, v).

    Args:
      initial_vectors: as for `Components.before`.
      done: iterations before this one, over all components.
      iterations: of each component.
    """
    k = now.vectors.shape[1]
    number, begins = done // iterations, (done % iterations == 0)[:, None, None]
    of_component = torch.arange(k, device=done.device)
    current, before = (of_component == at[:, None] for at in (number, number - 1))
    vector, value = (now.vectors * before[..., None]).sum(1), (now.values * before).sum(1)
    without = now.residual - value[:, None, None, None] * _cube(vector)
    residual = torch.where(begins[..., None], without, now.residual)
    candidates = unit(_applied(residual, torch.where(begins, initial_vectors, now.candidates)))
    values = (_applied(residual, candidates) * candidates).sum(2)
    best = values.argmax(1)[:, None]
    vector = candidates.gather(1, best[..., None].expand(-1, 1, k))
    return Components(
        torch.where(current[..., None], vector, now.vectors),
        torch.where(current, values.gather(1, best), now.values),
        residual,
        candidates,
    )


def _applied(tensor: Float[Tensor, "T k k k"], vectors: Float[Tensor, "T L k"]) -> Float[Tensor, "T L k"]:
    """Computes T(I, v, v) for each vector."""
    pairs = (vectors[..., :, None] * vectors[..., None, :]).flatten(2)
    return pairs @ tensor.flatten(2).mT


def _cube(vectors: Float[Tensor, "T k"]) -> Float[Tensor, "T k k k"]:
    return vectors[:, :, None, None] * vectors[:, None, :, None] * vectors[:, None, None]


def orth_als(
    tensor: Float[Tensor, "T d d d"], k: int, initial_factors: Float[Tensor, "T k d"], iterations: int = 50
) -> Float[Tensor, "T k d"]:
    """Decomposes a symmetric tensor by orthogonalised alternating least squares (Sharan and Valiant, 2017).

    In the first half of the iterations, the factors are orthogonalised before each sweep; the others are plain ALS.

    Returns:
      (T, k, d) unit factors.
    """
    flat = tensor.flatten(2)
    factors = [initial_factors.mT.contiguous() for _ in range(3)]
    for iteration in range(iterations):
        if iteration < iterations // 2:
            factors = [torch.linalg.qr(factor).Q for factor in factors]
        for mode in range(3):
            left, right = (factors[other] for other in range(3) if other != mode)
            khatri_rao = (left[:, :, None] * right[:, None]).flatten(1, 2)  # (T, d d, k)
            gram = (left.mT @ left) * (right.mT @ right)
            solved = torch.linalg.lstsq(gram, (flat @ khatri_rao).mT).solution.mT
            factors[mode] = solved / torch.linalg.vector_norm(solved, dim=1, keepdim=True).clamp(
                min=torch.finfo(solved.dtype).tiny
            )
    return factors[2].mT


# --- the regressors -------------------------------------------------------------------------------------------------


def robust(values: Tensor) -> Tensor:
    """Computes 4 tanh(v / 4), a soft clipping of heavy tails: a little more bias for much less variance."""
    return 4 * torch.tanh(values / 4)


def oriented(
    regressors: Float[Tensor, "T k d"], inputs: Inputs, y: Float[Tensor, "T N"], transforms: Transforms
) -> Float[Tensor, "T k d"]:
    """Chooses signs such that c3 mean P3(y) He_3(<a, x>) > 0, which the second moment does not determine."""
    weight = transforms.p3(y)[..., None] * inputs.hermite(regressors, 3)
    sign = torch.sign(weight.mean(1)) * np.sign(transforms.p3.strength)
    return regressors * torch.where(sign == 0, 1.0, sign)[..., None]


def check_samples(inputs: Inputs, y: Float[Tensor, "T N"], k: int) -> None:
    """Checks the input of a decomposition.

    Raises:
      ValueError: k is not between 1 and d, or the data are not finite.
    """
    d = inputs.x.shape[2]
    require(1 <= k <= d, "experts (k) must be between 1 and dimension (d)", k=k, d=d)
    finite = bool(torch.isfinite(inputs.x).all()) and bool(torch.isfinite(y).all())
    require(finite, "x and y must be finite numbers", finite=finite)
