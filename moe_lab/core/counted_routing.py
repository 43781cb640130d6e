"""Expert choice for samples that are given by the number of copies of each pattern, not token by token.

Two forms, whose gates are equal: by pattern, where a CPU looks at few patterns and searches on if these did not suffice
(a step of the default run takes 4.7 ms so, and 25 where it looks at all); and copy by copy, where nothing is looked at
and little is computed after the search, for accelerators.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from moe_lab.core.routing import Scratch, limited, sorted_patches

_NO_UNDERFLOW = 60.0  # exp(-60) is a normal number in float32


def expert_choice_of_counts(
    scores: Float[Tensor, "T k d"],
    counts: Float[Tensor, "T d N"],
    tokens_per_expert: int,
    width: int,
    scratch: Scratch | None = None,
) -> tuple[Int[Tensor, "T k W"], Float[Tensor, "T k W N"]]:
    """Computes `expert_choice` for samples given by the number of copies of each pattern.

    An expert takes copies of the patterns in order of descending score until it has l tokens, so that only its first W
    patterns matter; W is doubled until every expert has l tokens. Equal scores of different patterns are ordered by the
    patterns' indices.

    >>> scores, counts = torch.tensor([[[0.0, 2.0, 1.0]]]).log(), torch.tensor([[[1.0], [0.0], [3.0]]])
    >>> order, gates = expert_choice_of_counts(scores, counts, 2, 3)
    >>> order.flatten().tolist(), gates.flatten().tolist()
    ([1, 2, 0], [0.0, 1.0, 0.0])

    Args:
      scores: (trials, experts, d) routing values of each expert for each pattern.
      counts: (trials, d, N) copies of each pattern in each sample; sums to n >= l over the patterns.
      tokens_per_expert: l.
      width: initial W.
      scratch: buffers to use; the returned gates are one of them.

    Returns:
      order: (trials, experts, W) the patterns in order of descending score.
      gates: (trials, experts, W, N) the sum of G over the expert's copies of each of these patterns.

    References: pruning2024, eq. 4.
    """
    if tokens_per_expert > 2 / torch.finfo(counts.dtype).eps:  # sums of copies are whole numbers up to l
        counts = counts.to(torch.float32 if tokens_per_expert <= 2**24 else torch.float64)
    order, taken = _take_copies(
        _sorted_on_cpu(scores), counts, tokens_per_expert, width, Scratch() if scratch is None else scratch
    )
    descending = scores.gather(2, order)[..., None]
    reference = descending[:, :, :1]
    near = descending[:, :, 0] - descending[:, :, -1] < _NO_UNDERFLOW  # nor is a score infinite or NaN
    if not bool(near.all()):
        return order, _far_gates(limited(descending), near[..., None], taken)
    gates = taken.mul_((descending - reference).clamp_(max=0).exp_())  # scores above the reference have no copies
    return order, gates.div_(gates.sum(2, keepdim=True))


def copies_chosen(
    scores: Float[Tensor, "T k d"], counts: Float[Tensor, "T d N"], tokens_per_expert: int
) -> tuple[Int[Tensor, "T k N l"], Float[Tensor, "T k N l"]]:
    """Computes the same as `expert_choice_of_counts`, copy by copy: reads no number, and needs no search that widens.

    >>> scores, counts = torch.tensor([[[0.0, 2.0, 1.0]]]).log(), torch.tensor([[[1.0], [0.0], [3.0]]])
    >>> patterns, gates = copies_chosen(scores, counts, 2)
    >>> patterns.flatten().tolist(), gates.flatten().tolist()
    ([2, 2], [0.5, 0.5])

    Returns:
      patterns: (trials, experts, N, l) of the copies that each expert takes, in order of descending score.
      gates: (trials, experts, N, l) G of each.
    """
    order = sorted_patches(scores)
    shape = *order.shape[:2], counts.shape[2], -1
    copies = counts.mT[:, None].expand(shape).gather(3, order[:, :, None].expand(shape))
    wanted = torch.arange(1, tokens_per_expert + 1, device=order.device).to(copies)
    places = torch.searchsorted(copies.cumsum(3), wanted.expand(shape).contiguous()).flatten(2)
    best = limited(scores).gather(2, order).gather(2, places).view(shape)
    return order.gather(2, places).view(shape), best.softmax(3)


def _far_gates(
    descending: Float[Tensor, "T k W 1"], near: Bool[Tensor, "T k 1 1"], taken: Float[Tensor, "T k W N"]
) -> Float[Tensor, "T k W N"]:
    """Computes the gates of copies where exponentials may vanish: relative to the largest score that is taken."""
    absent = taken == 0
    largest_taken = descending.masked_fill(absent, -torch.inf).amax(2, keepdim=True)
    reference = torch.where(near, descending[:, :, :1], largest_taken)
    gates = taken.mul_((descending - reference).clamp_(max=0).exp_()).masked_fill_(absent, 0)  # not 0 times NaN
    return gates.div_(gates.sum(2, keepdim=True)).masked_fill_(absent, 0)


def _take_copies(
    order: Int[Tensor, "T k d"], counts: Float[Tensor, "T d N"], tokens_per_expert: int, width: int, scratch: Scratch
) -> tuple[Int[Tensor, "T k W"], Float[Tensor, "T k W N"]]:
    """Takes l copies for each expert and sample; returns the patterns considered and the copies taken of each.

    With the l largest of each sample's n tokens, which needs no search, their top-k alone takes 10 ms for a step of the
    default run.
    """
    trials, experts, d = order.shape
    rows = order + torch.arange(0, trials * d, d, device=order.device)[:, None, None]
    width = min(width, d)
    while True:
        shape = trials, experts, width, counts.shape[2]
        copies, cumulative = scratch("copies", counts, *shape), scratch("cumulative", counts, *shape)
        flat = copies.view(trials * experts * width, -1)
        torch.index_select(counts.reshape(trials * d, -1), 0, rows[..., :width].flatten(), out=flat)
        torch.cumsum(copies, 2, out=cumulative).clamp_(max=tokens_per_expert)
        if width == d or bool((cumulative[:, :, -1] >= tokens_per_expert).all()):
            break
        width = min(2 * width, d)
    taken = copies  # reuses the buffer
    taken[:, :, 0] = cumulative[:, :, 0]
    torch.sub(cumulative[:, :, 1:], cumulative[:, :, :-1], out=taken[:, :, 1:])
    return order[..., :width], taken


def _sorted_on_cpu(scores: Float[Tensor, "T k d"]) -> Int[Tensor, "T k d"]:
    """`sorted_patches`, 8 times as fast in float32: one vector sort of integers that encode score and index."""
    if scores.dtype != torch.float32:
        return sorted_patches(scores)
    ranked = scores.detach().nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf).numpy()
    bits = (0.0 - ranked).view(np.int32).astype(np.int64)  # 0.0 - x has no -0.0, which would not equal 0.0
    bits = np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
    keys = (bits << 32) | np.arange(scores.shape[-1])
    keys.sort(axis=-1)
    return torch.from_numpy(keys & 0xFFFFFFFF)
