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
    return marked(scores, count, "count", "scores")


def marked(scores: Num[Tensor, "*rows n"], count: Count, called: str, of: str) -> Mask:
    """Computes `top_mask` for functions of other words: `called` is what count is called there, `of` what scores are.

    Raises:
      ValueError: in these words.
    """
    scores = scores.detach().nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
    counts = _checked(scores, count, called, of)
    if counts is not None and scores.dtype in (torch.float32, torch.float64, torch.int64):
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


def _checked(scores: Tensor, count: Count, called: str, of: str) -> list[int] | None:
    """Returns the counts as Python integers, or None if reading them would synchronize with a device.

    Raises:
      ValueError: a count is not between 1 and n, or there is not one per trial.
    """
    if not isinstance(count, Tensor):
        counts = [count]
    else:
        require(
            count.shape == scores.shape[:1] and scores.ndim > 1 and not count.is_floating_point(),
            f"{called} must be one whole number, or one per trial",
            **{called: tuple(count.shape), "scores": tuple(scores.shape)},
        )
        if on_accelerator(count.device):
            return None
        counts = count.tolist()
    low, high, n = min(counts, default=1), max(counts, default=1), scores.shape[-1]
    if counts:
        rule = f"{called} must be between 1 and the number of {of}"
        require(low >= 1 and high <= n, rule, **{called: low if low < 1 else high, of: n})
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
    mask = marked(scores, patches_per_expert, "patches_per_expert", "patches")
    return mask, softmax_over(scores, mask)


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
    mask = marked(scores, experts_per_token, "experts_per_token", "experts")
    return mask, softmax_over(scores, mask)


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
    return mask, softmax_before(scores, mask)


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


# --- gates ------------------------------------------------------------------------------------------------------------


def one_hot(labels: Int[Tensor, "*rows"], kinds: int) -> Bool[Tensor, "*rows kinds"]:
    """Marks the kind of each label. Unlike `torch.nn.functional.one_hot` it reads no number on the device."""
    return labels[..., None] == torch.arange(kinds, device=labels.device)


def softmax_among(scores: Scores, mask: Mask) -> Scores:
    """Computes the softmax over the scores in the mask, 0 elsewhere, whatever the scores are there.

    Infinite scores stand for their limits: [inf, 1] has the gates [1, 0]. NaN in the mask makes the gates in it NaN.
    """
    return limited(scores).masked_fill(~mask, -torch.inf).softmax(dim=-1).masked_fill(~mask, 0)


def softmax_before(scores: Scores, mask: Mask) -> Scores:
    """Computes the softmax over all scores in the mask, 0 elsewhere; infinite scores and NaN as in `softmax_among`."""
    return limited(scores).softmax(dim=-1).masked_fill(~mask, 0)


def limited(scores: Tensor) -> Tensor:
    """Scores with the largest numbers in place of infinite ones, so that a softmax takes their limits; NaN stays."""
    limits = torch.finfo(scores.dtype)
    return scores.clamp(limits.min, limits.max)


def softmax_over(scores: Scores, mask: Mask) -> Scores:
    """Computes `softmax_among`, faster where no gradient is needed."""
    if scores.requires_grad:  # scores outside the mask must get a gradient of exactly 0
        return softmax_among(scores, mask)
    # Twice as fast: mask the softmax of all scores and renormalize. The mask has the largest score, so the sum is > 0.
    masked = scores.softmax(dim=-1) * mask
    total = masked.sum(dim=-1, keepdim=True)
    gates, finite = masked / total, total.isfinite()  # not in a row with a score that is infinite or NaN
    if on_accelerator(scores.device) or not bool(finite.all()):
        gates = torch.where(finite, gates, softmax_among(scores, mask))
    return gates
