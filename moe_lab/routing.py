"""Scores -> who goes where, and with which gate: expert-choice, token-choice and switch routing.

Pure functions of tensors with any leading axes, the first of which is the trial; `count` may differ from trial to
trial, so that grid points with different l train in one batch. Equal scores are kept in the order of their index
(lowest first) on every device, because gradients disagree where two machines break a tie differently.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor

from moe_lab.config import require

Scores = Float[Tensor, "*rows n"]
Mask = Bool[Tensor, "*rows n"]
Count = int | Tensor  # one number, or (trials,) whole numbers
_NO_UNDERFLOW = 60.0  # exp(-60) is a normal number in float32


class Scratch:
    """Memory that steps use again: on a CPU fresh memory costs more than what is written to it.

    What a step leaves in it lasts until the next step asks for the same name.
    """

    def __init__(self) -> None:
        self._held: dict[str, Tensor] = {}

    def __call__(self, name: str, like: Tensor, *shape: int) -> Tensor:
        """A tensor of this shape, of the device and dtype of `like`, with anything in it."""
        size = math.prod(shape)
        held = self._held.get(name)
        if held is None or held.numel() < size:
            held = self._held[name] = like.new_empty(size)
        return held[:size].view(shape)


def top_mask(scores: Num[Tensor, "*rows n"], count: Count) -> Mask:
    """Marks the `count` largest scores along the last axis; ties go to the lowest index, NaN ranks below everything.

    The count-th largest score is a threshold, and scores equal to it fill the places left, lowest index first. On a
    device nothing here waits for the host, so that a step that routes can be captured in a graph.

    >>> top_mask(torch.tensor([[1.0, 3.0, 3.0, 2.0, 3.0]]), 2).int()
    tensor([[0, 1, 1, 0, 0]], dtype=torch.int32)

    Args:
      scores: (trials, ..., n), or (n,) when count is a number.
      count: how many to keep: one number, or (trials,) whole numbers, one a trial.

    Returns:
      (trials, ..., n) bool, True at exactly `count` places of each row.

    Raises:
      ValueError: count is not between 1 and n, or has not one number a trial.
    """
    scores = scores.detach().nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
    counts = _checked(scores, count)
    if counts is not None and scores.dtype in (torch.float32, torch.float64):
        kept, threshold = _by_vector_sort(scores.numpy(), counts)
        if np.count_nonzero(kept) == sum(counts) * (kept.size // (len(counts) * scores.shape[-1])):
            return torch.from_numpy(kept)  # no row has more scores at its threshold than places: nothing to break
        places, largest = _places(scores, count), torch.from_numpy(threshold)
    else:
        places = _places(scores, count)
        ascending = scores.sort(dim=-1).values
        largest = ascending.gather(-1, (scores.shape[-1] - places).expand(*scores.shape[:-1], 1))
    above, equal = scores > largest, scores == largest
    left = places - above.sum(-1, keepdim=True)
    return above | (equal & (equal.cumsum(-1) <= left))


def _by_vector_sort(scores: np.ndarray, counts: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Which scores reach the count-th largest of their row, and that score, (trials, ..., 1).

    NumPy sorts short rows with vector instructions: 5 times faster than torch at n=16, 25 times at n=64.
    """
    ascending, n = np.sort(scores, axis=-1), scores.shape[-1]
    if min(counts) == max(counts):
        threshold = ascending[..., n - counts[0] : n - counts[0] + 1]
    else:
        threshold = ascending[np.arange(len(counts)), ..., n - np.array(counts)][..., None]
    return scores >= threshold, threshold


def _checked(scores: Tensor, count: Count) -> list[int] | None:
    """The counts as Python numbers, or None where reading them would wait for a device.

    Raises:
      ValueError: a count is not between 1 and n, or there is not one for each trial.
    """
    if not isinstance(count, Tensor):
        counts = [count]
    else:
        require(
            count.shape == scores.shape[:1] and scores.ndim > 1 and not count.is_floating_point(),
            "count must be one whole number, or one for each trial",
            count=tuple(count.shape),
            scores=tuple(scores.shape),
        )
        if count.device.type != "cpu":
            return None
        counts = count.tolist()
    low, high, n = min(counts, default=1), max(counts, default=1), scores.shape[-1]
    if counts:
        rule = "count must be between 1 and the number of scores (n)"
        require(low >= 1 and high <= n, rule, count=low if low < 1 else high, n=n)
    return counts if counts and scores.device.type == "cpu" else None


def _places(scores: Tensor, count: Count) -> Tensor:
    """count as a tensor that broadcasts against scores."""
    if isinstance(count, Tensor):
        return count.to(scores.device).view(-1, *(1 for _ in scores.shape[1:]))
    return torch.full((1,) * scores.ndim, count, device=scores.device)


def expert_choice(scores: Scores, count: Count) -> tuple[Mask, Scores]:
    """Each expert keeps its top patches of a sample; gates are the softmax over the patches that it keeps.

    Departs from the paper: the denominator printed in eq. 4 sums the routing values g themselves; the exponential is
    restored here, so that the gates of an expert sum to 1.

    >>> mask, gates = expert_choice(torch.tensor([0.0, 2.0, 1.0]).log().view(1, 1, 1, 3), 2)
    >>> mask.int().flatten().tolist(), [round(gate, 3) for gate in gates.flatten().tolist()]
    ([0, 1, 1], [0.0, 0.667, 0.333])

    Args:
      scores: (trials, experts, batch, n) routing values g_{j,s} = <w_s, x^(j)>.
      count: patches that each expert keeps (l): one number, or one a trial.

    Returns:
      mask: (trials, experts, batch, n) bool, True where patch j is in J_s(x).
      gates: the same shape, G_{j,s}; zero at patches that are not kept.

    Raises:
      ValueError: count is not between 1 and n, or has not one number a trial.

    References: pmoe2023, eq. 1 and 4.
    """
    mask = top_mask(scores, count)
    return mask, _softmax_over(scores, mask)


def expert_choice_of_counts(
    scores: Float[Tensor, "T k d"],
    counts: Float[Tensor, "T d N"],
    count: int,
    width: int,
    scratch: Scratch | None = None,
) -> tuple[Int[Tensor, "T k W"], Float[Tensor, "T k W N"]]:
    """`expert_choice` for samples that are told by how often each pattern occurs in them.

    An expert goes through the patterns from its favourite down and keeps copies until it has l, so that only its first
    few patterns need to be looked at: some width W, which grows until every expert has its l tokens. Equal scores of
    different patterns are kept in the order of the patterns' numbers.

    >>> scores, counts = torch.tensor([[[0.0, 2.0, 1.0]]]).log(), torch.tensor([[[1.0], [0.0], [3.0]]])
    >>> order, gates = expert_choice_of_counts(scores, counts, 2, 3)
    >>> order.flatten().tolist(), gates.flatten().tolist()
    ([1, 2, 0], [0.0, 1.0, 0.0])

    Args:
      scores: (trials, experts, d) each expert's routing value of each pattern.
      counts: (trials, d, N) copies of each pattern in each sample; sums to n >= l over the patterns.
      count: tokens that each expert keeps (l).
      width: patterns to look at first.
      scratch: memory to use; the gates lie in it.

    Returns:
      order: (trials, experts, W) the patterns looked at, best first.
      gates: (trials, experts, W, N) the sum of G over the copies of the pattern that the expert keeps.

    References: pruning2024, eq. 4.
    """
    trials, experts, d = scores.shape
    scratch = Scratch() if scratch is None else scratch
    order = sorted_patches(scores) if scores.device.type != "cpu" else _sorted_on_cpu(scores)
    rows = order + torch.arange(0, trials * d, d, device=scores.device)[:, None, None]
    width = min(width, d) if scores.device.type == "cpu" else d  # elsewhere nothing waits to see whether it suffices
    while True:
        shape = trials, experts, width, counts.shape[2]
        copies, upto = scratch("copies", counts, *shape), scratch("upto", counts, *shape)
        flat = copies.view(trials * experts * width, -1)
        torch.index_select(counts.reshape(trials * d, -1), 0, rows[..., :width].flatten(), out=flat)
        torch.cumsum(copies, 2, out=upto).clamp_(max=count)
        if width == d or bool((upto[:, :, -1] >= count).all()):
            break
        width = min(2 * width, d)
    order = order[..., :width]
    best_first = scores.gather(2, order)[..., None]
    kept = copies  # no longer needed: a buffer for what each pattern adds to the copies so far, up to l
    kept[:, :, 0] = upto[:, :, 0]
    torch.sub(upto[:, :, 1:], upto[:, :, :-1], out=kept[:, :, 1:])
    reference = best_first[:, :, :1]
    far = best_first[:, :, 0] - best_first[:, :, -1] >= _NO_UNDERFLOW
    if scores.device.type != "cpu" or bool(far.any()):  # each sample's own largest; a pattern above it has no copy
        largest = best_first.masked_fill(kept == 0, -torch.inf).amax(2, keepdim=True)
        reference = torch.where(far[..., None], largest, reference)
    gates = kept.mul_((best_first - reference).clamp_(max=0).exp_())
    return order, gates.div_(gates.sum(2, keepdim=True))


def _sorted_on_cpu(scores: Float[Tensor, "T k d"]) -> Int[Tensor, "T k d"]:
    """`sorted_patches` for float32, 8 times as fast: one vector sort of whole numbers that hold score and index."""
    if scores.dtype != torch.float32:
        return sorted_patches(scores)
    ranked = scores.detach().nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf).numpy()
    bits = (0.0 - ranked).view(np.int32).astype(np.int64)  # 0.0 - x: no -0.0, which would rank apart
    bits = np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
    keys = (bits << 32) | np.arange(scores.shape[-1])
    keys.sort(axis=-1)
    return torch.from_numpy(keys & 0xFFFFFFFF)


def token_choice(scores: Scores, count: Count) -> tuple[Mask, Scores]:
    """Each token picks its top experts; gates are the softmax over the experts that it picks.

    >>> mask, gates = token_choice(torch.tensor([[3.0, 1.0, 4.0], [2.0, 2.0, 2.0]]).log(), 2)
    >>> mask.int().tolist()
    [[1, 0, 1], [1, 1, 0]]
    >>> [[round(gate, 3) for gate in row] for row in gates.tolist()]
    [[0.429, 0.0, 0.571], [0.5, 0.5, 0.0]]

    Args:
      scores: (..., tokens, experts) routing values.
      count: experts that each token picks: one number, or one a trial (the first axis).

    Returns:
      mask and gates, both (..., tokens, experts); gates are zero at experts that are not picked.

    Raises:
      ValueError: count is not between 1 and the number of experts, or has not one number a trial.

    References: pruning2024, section 3.
    """
    mask = top_mask(scores, count)
    return mask, _softmax_over(scores, mask)


def switch(scores: Scores, noise: Tensor | None = None) -> tuple[Mask, Scores]:
    """Each sample goes to one expert, argmax of score plus noise; its gate is the softmax over all experts, noise-free.

    >>> mask, gates = switch(torch.tensor([[1.0, 2.0, 1.0]]).log(), noise=torch.tensor([[5.0, 0.0, 0.0]]))
    >>> mask.int().tolist(), gates.tolist()
    ([[1, 0, 0]], [[0.25, 0.0, 0.0]])

    Args:
      scores: (..., experts) gating values h_m(x).
      noise: r_m, broadcast against scores; None for none.

    Returns:
      mask: (..., experts) bool with one True a row: m = argmax_m (h_m + r_m).
      gates: (..., experts) pi_m = softmax(h)_m at that expert, zero at the others.

    References: chen2022, section 3.
    """
    mask = top_mask(scores if noise is None else (scores + noise).expand(scores.shape), 1)
    return mask, scores.softmax(dim=-1) * mask


def sorted_patches(scores: Num[Tensor, "*rows n"]) -> Int[Tensor, "*rows n"]:
    """Indices by descending score along the last axis, lowest index first among equals, NaN last.

    The first l of them are J_s(x) for every l at once: routers that are trained first and then frozen sort once.

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
    """The softmax of the kept scores, 0 elsewhere."""
    if scores.requires_grad:  # so that no rounding of a gradient reaches a score that is not kept
        return scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    # Twice as fast: the softmax of all, cut and scaled back to 1. The largest score is kept, so nothing underflows.
    kept = scores.softmax(dim=-1) * mask
    return kept / kept.sum(dim=-1, keepdim=True)
