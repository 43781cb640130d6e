"""Expert-choice, token-choice and switch routing: from scores to assignments and gates.

Pure functions of tensors with any leading axes, the first of which is the trial. The number of patches or experts to
select may differ between trials, so that grid points with different l train in one batch. Ties are broken by the lowest
index on every device, because gradients differ where two machines break a tie differently.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.core.graphs import on_accelerator

Scores = Float[Tensor, "*rows n"]
Mask = Bool[Tensor, "*rows n"]
Count = int | Tensor  # one number, or (trials,) integers
_NO_UNDERFLOW = 60.0  # exp(-60) is a normal number in float32


class Scratch:
    """Named buffers that are reused between steps, because on a CPU allocating memory costs more than writing to it.

    A buffer keeps its contents until the same name is requested again.
    """

    def __init__(self) -> None:
        self._buffers: dict[str, Tensor] = {}

    def __call__(self, name: str, like: Tensor, *shape: int) -> Tensor:
        """Returns an uninitialized tensor of this shape, with the device and dtype of `like`."""
        size = math.prod(shape)
        buffer = self._buffers.get(name)
        if buffer is None or buffer.numel() < size:
            buffer = self._buffers[name] = like.new_empty(size)
        return buffer[:size].view(shape)


def top_mask(scores: Num[Tensor, "*rows n"], count: Count) -> Mask:
    """Marks the `count` largest scores along the last axis; ties go to the lowest index, NaN ranks last.

    The count-th largest score is the threshold; of the scores equal to it, those with the lowest index are marked. On
    an accelerator the function never synchronizes with the host, so that it can be captured in a CUDA graph.

    >>> top_mask(torch.tensor([[1.0, 3.0, 3.0, 2.0, 3.0]]), 2).int()
    tensor([[0, 1, 1, 0, 0]], dtype=torch.int32)

    Args:
      scores: (trials, ..., n), or (n,) if count is one number.
      count: how many scores to mark: one number, or (trials,) integers, one per trial.

    Returns:
      (trials, ..., n) bool, True at exactly `count` positions of each row.

    Raises:
      ValueError: count is not between 1 and n, or is not one number per trial.
    """
    scores = scores.detach().nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
    counts = _checked(scores, count)
    if counts is not None and scores.dtype in (torch.float32, torch.float64):
        reached, smallest = _by_vector_sort(scores.numpy(), counts)
        if np.count_nonzero(reached) == sum(counts) * (reached.size // (len(counts) * scores.shape[-1])):
            return torch.from_numpy(reached)  # no ties at the threshold
        per_row, threshold = _broadcast(count, scores), torch.from_numpy(smallest)
    else:
        per_row = _broadcast(count, scores)
        ascending = scores.sort(dim=-1).values
        threshold = ascending.gather(-1, (scores.shape[-1] - per_row).expand(*scores.shape[:-1], 1))
    above, equal = scores > threshold, scores == threshold
    ties_to_mark = per_row - above.sum(-1, keepdim=True)
    return above | (equal & (equal.cumsum(-1) <= ties_to_mark))


def _by_vector_sort(scores: np.ndarray, counts: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Marks the scores that reach the count-th largest of their row, and returns that score, (trials, ..., 1).

    NumPy sorts short rows with vector instructions: 5 times faster than torch at n=16, 25 times at n=64.
    """
    ascending, n = np.sort(scores, axis=-1), scores.shape[-1]
    if min(counts) == max(counts):
        threshold = ascending[..., n - counts[0] : n - counts[0] + 1]
    else:
        threshold = ascending[np.arange(len(counts)), ..., n - np.array(counts)][..., None]
    return scores >= threshold, threshold


def _checked(scores: Tensor, count: Count) -> list[int] | None:
    """Returns the counts as Python integers, or None if reading them would synchronize with a device.

    Raises:
      ValueError: a count is not between 1 and n, or there is not one per trial.
    """
    if not isinstance(count, Tensor):
        counts = [count]
    else:
        require(
            count.shape == scores.shape[:1] and scores.ndim > 1 and not count.is_floating_point(),
            "count must be one whole number, or one per trial",
            count=tuple(count.shape),
            scores=tuple(scores.shape),
        )
        if on_accelerator(count.device):
            return None
        counts = count.tolist()
    low, high, n = min(counts, default=1), max(counts, default=1), scores.shape[-1]
    if counts:
        rule = "count must be between 1 and the number of scores (n)"
        require(low >= 1 and high <= n, rule, count=low if low < 1 else high, n=n)
    return None if on_accelerator(scores.device) else counts or None


def _broadcast(count: Count, scores: Tensor) -> Tensor:
    """Returns count as a tensor that broadcasts against scores."""
    if isinstance(count, Tensor):
        return count.to(scores.device).view(-1, *(1 for _ in scores.shape[1:]))
    return torch.full((1,) * scores.ndim, count, device=scores.device)


def expert_choice(scores: Scores, patches_per_expert: Count) -> tuple[Mask, Scores]:
    """Routes the top patches of a sample to each expert; gates are the softmax over the expert's patches.

    Departs from the paper: the denominator printed in eq. 4 sums the routing values g themselves; here it sums their
    exponentials, so that the gates of an expert sum to 1.

    >>> mask, gates = expert_choice(torch.tensor([0.0, 2.0, 1.0]).log().view(1, 1, 1, 3), 2)
    >>> mask.int().flatten().tolist(), [round(gate, 3) for gate in gates.flatten().tolist()]
    ([0, 1, 1], [0.0, 0.667, 0.333])

    Args:
      scores: (trials, experts, batch, n) routing values g_{j,s} = <w_s, x^(j)>.
      patches_per_expert: l, one number, or one per trial.

    Returns:
      mask: (trials, experts, batch, n) bool, True if patch j is in J_s(x).
      gates: same shape, G_{j,s}; zero for patches outside J_s(x).

    Raises:
      ValueError: patches_per_expert is not between 1 and n, or is not one number per trial.

    References: pmoe2023, eq. 1 and 4.
    """
    mask = top_mask(scores, patches_per_expert)
    return mask, _softmax_over(scores, mask)


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
    order = sorted_patches(scores) if on_accelerator(scores.device) else _sorted_on_cpu(scores)
    order, taken = _take_copies(order, counts, tokens_per_expert, width, Scratch() if scratch is None else scratch)
    descending = scores.gather(2, order)[..., None]
    reference = descending[:, :, :1]
    underflows = descending[:, :, 0] - descending[:, :, -1] >= _NO_UNDERFLOW
    if on_accelerator(scores.device) or bool(underflows.any()):
        largest_taken = descending.masked_fill(taken == 0, -torch.inf).amax(2, keepdim=True)
        reference = torch.where(underflows[..., None], largest_taken, reference)
    gates = taken.mul_((descending - reference).clamp_(max=0).exp_())  # scores above the reference have no copies
    return order, gates.div_(gates.sum(2, keepdim=True))


def _take_copies(
    order: Int[Tensor, "T k d"], counts: Float[Tensor, "T d N"], tokens_per_expert: int, width: int, scratch: Scratch
) -> tuple[Int[Tensor, "T k W"], Float[Tensor, "T k W N"]]:
    """Takes l copies for each expert and sample; returns the patterns considered and the copies taken of each.

    On an accelerator W = d from the beginning, because testing whether W suffices would synchronize with the host.
    """
    trials, experts, d = order.shape
    rows = order + torch.arange(0, trials * d, d, device=order.device)[:, None, None]
    width = d if on_accelerator(order.device) else min(width, d)
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


def token_choice(scores: Scores, experts_per_token: Count) -> tuple[Mask, Scores]:
    """Routes each token to its top experts; gates are the softmax over the token's experts.

    >>> mask, gates = token_choice(torch.tensor([[3.0, 1.0, 4.0], [2.0, 2.0, 2.0]]).log(), 2)
    >>> mask.int().tolist()
    [[1, 0, 1], [1, 1, 0]]
    >>> [[round(gate, 3) for gate in row] for row in gates.tolist()]
    [[0.429, 0.0, 0.571], [0.5, 0.5, 0.0]]

    Args:
      scores: (..., tokens, experts) routing values.
      experts_per_token: one number, or one per trial (the first axis).

    Returns:
      mask: (..., tokens, experts) bool, True if the token is routed to the expert.
      gates: same shape; zero for other experts.

    Raises:
      ValueError: experts_per_token is not between 1 and the number of experts, or is not one number per trial.

    References: pruning2024, section 3.
    """
    mask = top_mask(scores, experts_per_token)
    return mask, _softmax_over(scores, mask)


def switch(scores: Scores, noise: Tensor | None = None) -> tuple[Mask, Scores]:
    """Routes each sample to one expert, the argmax of score plus noise; the gate is its softmax without the noise.

    >>> mask, gates = switch(torch.tensor([[1.0, 2.0, 1.0]]).log(), noise=torch.tensor([[5.0, 0.0, 0.0]]))
    >>> mask.int().tolist(), gates.tolist()
    ([[1, 0, 0]], [[0.25, 0.0, 0.0]])

    Args:
      scores: (..., experts) gating values h_m(x).
      noise: r_m, broadcast against scores; None for no noise.

    Returns:
      mask: (..., experts) bool with one True per row: m = argmax_m (h_m + r_m).
      gates: (..., experts) pi_m = softmax(h)_m at that expert, zero at the others.

    References: chen2022, section 3.
    """
    mask = top_mask(scores if noise is None else (scores + noise).expand(scores.shape), 1)
    return mask, scores.softmax(dim=-1) * mask


def sorted_patches(scores: Num[Tensor, "*rows n"]) -> Int[Tensor, "*rows n"]:
    """Returns the indices that sort scores in descending order along the last axis; ties by lowest index, NaN last.

    The first l indices are J_s(x) for every l, so that frozen routers need to be sorted only once.

    >>> sorted_patches(torch.tensor([1.0, 3.0, 3.0, 2.0])).tolist()
    [1, 2, 3, 0]

    Args:
      scores: (..., n).

    Returns:
      (..., n) int64.
    """
    ranked = scores.detach().nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
    return ranked.argsort(dim=-1, descending=True, stable=True)


def _softmax_over(scores: Scores, mask: Mask) -> Scores:
    """Computes the softmax over the scores in the mask, 0 elsewhere."""
    if scores.requires_grad:  # scores outside the mask must get a gradient of exactly 0
        return scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    # Twice as fast: mask the softmax of all scores and renormalize. The mask has the largest score, so the sum is > 0.
    masked = scores.softmax(dim=-1) * mask
    return masked / masked.sum(dim=-1, keepdim=True)
