"""What rounding does to the comparison of two models: which numbers may be the same, and how sure a score is.

A checkpoint before fine-tuning may be in float32 and the one after in bfloat16; then most of the difference between
their numbers is rounding, a thousand times larger than what a short fine-tuning changes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

_NARROW = (torch.bfloat16, torch.float16)
_LEAST_SHARE = 1 / 8
_SURE = 2.0


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
    if kinds[0] == kinds[1]:
        return Alike(old, new, kind, False)
    # float16 is finer than bfloat16 but holds no smaller numbers: rounding one to the other twice is not rounding once
    same = _may_be_one(old, new, *kinds)
    old, new = (numbers.to(kind).to(torch.float64) for numbers in (before, after))
    return Alike(torch.where(same, new, old), new, kind, True)


def stored_type(numbers: Tensor) -> torch.dtype:
    """Returns the narrowest type that numbers were stored in, as far as they tell: float32 may hold a loaded bfloat16.

    They tell if the narrower type holds every one of them and many need its last bit. Zeros, ones and other numbers
    that were set by hand fit every type, and say nothing.
    """
    for kind in _NARROW:
        if _step(kind) > _step(numbers.dtype) and bool((numbers.to(kind).to(numbers.dtype) == numbers).all()):
            wide = numbers.to(torch.float64)
            last = wide / (2 * torch.maximum(*_reach(wide, kind))) % 2 == 1
            if int(last.sum()) >= max(1, _LEAST_SHARE * int((numbers != 0).sum())):
                return kind
    return numbers.dtype


def uncertainty(vectors: Float[Tensor, "*axes d"], kind: torch.dtype) -> Float[Tensor, "*axes d"]:
    """Returns the variance of each number that a type holds: rounding leaves it uniform between two midpoints."""
    below, above = _reach(vectors, kind)
    return (below + above) ** 2 / 12


def of_norms(before: Tensor, after: Tensor, kind: torch.dtype, axis: int) -> Tensor:
    """Computes the variance of |after| - |before| along an axis, to first order in the errors of the numbers."""
    return sum(
        ((vectors / torch.linalg.vector_norm(vectors, dim=axis, keepdim=True).clamp(min=1e-300)) ** 2
         * uncertainty(vectors, kind)).sum(axis)
        for vectors in (before, after)
    )  # fmt: skip


def of_difference(before: Tensor, after: Tensor, kind: torch.dtype, axis: int) -> Tensor:
    """Computes the variance of |after - before| along an axis, that of the errors themselves where these are larger."""
    errors = uncertainty(before, kind) + uncertainty(after, kind)
    apart = after - before
    length = torch.linalg.vector_norm(apart, dim=axis)
    along = ((apart / length.unsqueeze(axis).clamp(min=1e-300)) ** 2 * errors).sum(axis)
    whole = errors.sum(axis)
    return torch.where(length**2 > whole, along, whole)


def exchangeable(scores: Float[Tensor, " k"], variances: Float[Tensor, " k"], stays: Bool[Tensor, " k"]) -> int:
    """Counts how many experts that stay could change places with pruned ones, as their scores do not tell them apart.

    Two scores are told apart if they differ by more than twice the standard deviation of their difference.
    """
    apart = scores[stays][:, None] - scores[~stays][None]
    unsure = apart <= _SURE * (variances[stays][:, None] + variances[~stays][None]).sqrt()
    return min(int(unsure.any(1).sum()), int(unsure.any(0).sum()))


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
