"""What rounding does to the comparison of two models: which numbers may be the same, and how sure a score is.

A checkpoint before fine-tuning may be in float32 and the one after in bfloat16; then most of the difference between
their numbers is rounding, a thousand times larger than what a short fine-tuning changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

_NARROW = (torch.bfloat16, torch.float16)
_LEAST_SHARE = 1 / 8  # of the numbers; of those that are rounded every second one needs the last bit
_SURE = 2.0  # standard deviations
_PART = 2**20


@dataclass(frozen=True)
class Alike:
    """The same numbers of two models as one type holds them.

    Attributes:
      before, after: in float64; equal where rounding alone can make the difference.
      kind: the type: the narrower of the two.
      rounded: whether the types of the two differ.
    """

    before: Float[Tensor, "*axes"]
    after: Float[Tensor, "*axes"]
    kind: torch.dtype
    rounded: bool

    @property
    def moved(self) -> bool:
        """Whether any number has changed by more than rounding."""
        return not torch.equal(self.before, self.after)


def alike(before: Tensor, after: Tensor) -> Alike:
    """Rounds the numbers of two models to the narrower of the types that they were stored in."""
    kinds = stored_type(before), stored_type(after)
    kind = max(kinds, key=_step)
    old, new = before.to(torch.float64), after.to(torch.float64)
    if kinds[0] != kinds[1]:
        # of float16 and bfloat16 neither holds all that the other does, and rounding twice is not rounding once
        parts = zip(old.flatten().split(_PART), new.flatten().split(_PART), strict=True)
        same = torch.cat([_may_be_one(*part, *kinds) for part in parts]).view(old.shape)
        old, new = (numbers.to(kind).to(torch.float64) for numbers in (before, after))
        old = torch.where(same, new, old)
    return Alike(old, new, kind, kinds[0] != kinds[1])


def stored_type(numbers: Tensor) -> torch.dtype:
    """Returns the narrowest type that numbers were stored in, as far as they tell: float32 may hold a loaded bfloat16.

    They tell if the narrower type holds every one of them and many need its last bit. Zeros, ones and other numbers
    that were set by hand fit every type, and say nothing.
    """
    for kind in _NARROW:
        if _step(kind) > _step(numbers.dtype) and bool((numbers.to(kind).to(numbers.dtype) == numbers).all()):
            last = sum(int(_odd(part, kind).sum()) for part in numbers.flatten().split(_PART))
            if last >= max(1, _LEAST_SHARE * int((numbers != 0).sum())):
                return kind
    return numbers.dtype


def of_norms(before: Float[Tensor, "n d"], after: Float[Tensor, "n d"], kind: torch.dtype) -> Float[Tensor, " n"]:
    """Computes the variance of |after| - |before| for each of some vectors, to first order in their numbers' errors."""
    return _in_parts(
        lambda old, new: _along(old, _variance(old, kind)) + _along(new, _variance(new, kind)), before, after
    )


def of_difference(before: Float[Tensor, "n d"], after: Float[Tensor, "n d"], kind: torch.dtype) -> Float[Tensor, " n"]:
    """Computes the variance of |after - before| for each of some vectors; that of all errors where these are larger."""

    def of(old: Tensor, new: Tensor) -> Tensor:
        errors = _variance(old, kind) + _variance(new, kind)
        apart, whole = new - old, errors.sum(1)
        return torch.where((apart**2).sum(1) > whole, _along(apart, errors), whole)

    return _in_parts(of, before, after)


def exchangeable(scores: Float[Tensor, " k"], variances: Float[Tensor, " k"], stays: Bool[Tensor, " k"]) -> int:
    """Counts how many experts that stay could change places with pruned ones, as their scores do not tell them apart.

    Two scores are told apart if they differ by more than twice the standard deviation of their difference.
    """
    apart = scores[stays][:, None] - scores[~stays][None]
    unsure = apart <= _SURE * (variances[stays][:, None] + variances[~stays][None]).sqrt()
    return min(int(unsure.any(1).sum()), int(unsure.any(0).sum()))


def _in_parts(function: Callable[[Tensor, Tensor], Tensor], before: Tensor, after: Tensor) -> Tensor:
    """Applies a function to some vectors at a time, so that what it computes on the way takes little memory."""
    size = max(1, _PART // before.shape[1])
    return torch.cat([function(*part) for part in zip(before.split(size), after.split(size), strict=True)])


def _along(vectors: Tensor, variances: Tensor) -> Tensor:
    """The variance of the errors along each vector."""
    length = torch.linalg.vector_norm(vectors, dim=1, keepdim=True).clamp(min=torch.finfo(vectors.dtype).tiny)
    return ((vectors / length) ** 2 * variances).sum(1)


def _variance(numbers: Tensor, kind: torch.dtype) -> Tensor:
    """The variance of each number that a type holds: before rounding it was anywhere between two midpoints."""
    below, above = _reach(numbers, kind)
    return (below + above) ** 2 / 12


def _odd(numbers: Tensor, kind: torch.dtype) -> Tensor:
    """Whether each number needs the last bit of a type."""
    wide = numbers.to(torch.float64)
    return wide / (2 * torch.maximum(*_reach(wide, kind))) % 2 == 1


def _step(kind: torch.dtype) -> float:
    return float(torch.finfo(kind).eps)


def _may_be_one(old: Tensor, new: Tensor, old_kind: torch.dtype, new_kind: torch.dtype) -> Tensor:
    """Whether some number is rounded to both, each in its own type."""
    (old_low, old_high), (new_low, new_high) = _reach(old, old_kind), _reach(new, new_kind)
    low, high = torch.maximum(old - old_low, new - new_low), torch.minimum(old + old_high, new + new_high)
    return (old == new) | (low < high)


def _reach(numbers: Tensor, kind: torch.dtype) -> tuple[Tensor, Tensor]:
    """How far below and above a number lie those that are rounded to it: half of the way to its neighbours."""
    info = torch.finfo(kind)
    least = torch.tensor(info.tiny * info.eps, dtype=torch.float64)
    mantissa, exponent = torch.frexp(numbers.abs())
    out = torch.ldexp(torch.full_like(numbers, info.eps), exponent - 1)
    out = torch.where(numbers == 0, least, out).clamp(min=least)
    inward = torch.where(mantissa == 0.5, out / 2, out).clamp(min=least)  # powers of two have a nearer neighbour
    below, above = torch.where(numbers > 0, inward, out), torch.where(numbers < 0, inward, out)
    return below / 2, above / 2
