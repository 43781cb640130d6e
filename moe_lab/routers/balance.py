"""Load balancing: losses that spread samples over experts, a bias that does so without a loss, and measures of load.

Both losses on the load depend on the samples only through each expert's mean gate, so that they return their derivative
in the mean gates; `through_softmax` takes it to the router's scores. The losses are means over the samples, without
their weights.

Shapes: T trials, M experts, N samples; an expert's load is its share of all assignments, so that loads sum to 1.

References: Shazeer et al., 2017 (arXiv:1701.06538); Fedus et al., 2021 (arXiv:2101.03961); Zoph et al., 2022
(arXiv:2202.08906); Dai et al., 2024 (DeepSeekMoE, arXiv:2401.06066); Wang et al., 2024 (arXiv:2408.15664).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Num, Shaped
from torch import Tensor

Load = Float[Tensor, "*T M"]
Scores = Float[Tensor, "T M N"]


class LoadLoss(NamedTuple):
    """A loss on the experts' load.

    Attributes:
      value: (T,) the loss.
      by_mean_gates: (T, M) its derivative in each expert's mean gate.
    """

    value: Float[Tensor, " T"]
    by_mean_gates: Float[Tensor, "T M"]


class ScoreLoss(NamedTuple):
    """A loss on the router's scores.

    Attributes:
      value: (T,) the mean over the samples.
      by_scores: (T, M, N) its derivative in each score.
    """

    value: Float[Tensor, " T"]
    by_scores: Scores


# ---- losses ----


def switch_loss(load: Float[Tensor, "T M"], mean_gates: Float[Tensor, "T M"]) -> LoadLoss:
    """Computes the auxiliary load-balancing loss M sum_m f_m P_m.

    f_m is the share of assignments that expert m receives, P_m its mean gate. Only P has a derivative. If the gates sum
    to 1 and the load follows them, the loss is at least 1, its value for equal loads.

    >>> loss = switch_loss(torch.tensor([[0.75, 0.25]]), torch.tensor([[0.6, 0.4]]))
    >>> round(float(loss.value), 3), loss.by_mean_gates.tolist()
    (1.1, [[1.5, 0.5]])

    References: Fedus et al., 2021, eq. 4 to 6 (one expert per sample); Dai et al., 2024, eq. 12 to 14, divide the
    counts of k experts per sample by k N, as here.
    """
    experts = load.shape[1]
    return LoadLoss(experts * (load * mean_gates).sum(1), experts * load)


def importance_loss(mean_gates: Float[Tensor, "T M"]) -> LoadLoss:
    """Computes the importance loss CV(P)^2: the variance of the mean gates over the experts divided by their mean^2.

    Departs from the paper: there the importance is the sum of the gates, here the mean, which has the same CV; and
    gates are the softmax of all scores (as in Riquelme et al., 2021), not of the k largest: with k = 1 those are 1,
    and the loss would have no derivative.

    >>> loss = importance_loss(torch.tensor([[0.6, 0.4]]))
    >>> round(float(loss.value), 3), [round(slope, 3) for slope in loss.by_mean_gates[0].tolist()]
    (0.04, [0.32, -0.48])

    References: Shazeer et al., 2017, eq. 6 and 7.
    """
    experts, total = mean_gates.shape[1], mean_gates.sum(1, keepdim=True)
    squares = (mean_gates * mean_gates).sum(1, keepdim=True)
    slopes = 2 * experts * (mean_gates / total.square() - squares / total**3)
    return LoadLoss((experts * squares / total.square() - 1)[:, 0], slopes)


def router_z_loss(scores: Scores) -> ScoreLoss:
    """Computes the router z-loss: the mean over the samples of (log sum_m exp h_m)^2.

    It keeps the scores small, and is indifferent to who gets the samples: it is 0 wherever all gates' denominators are
    1, such as h_1 = 0 and all others -infinity.

    >>> loss = router_z_loss(torch.zeros(1, 2, 3))
    >>> round(float(loss.value), 4), round(float(loss.by_scores[0, 0, 0]), 4)  # (log 2)^2, and 2 log(2) / 2 / 3
    (0.4805, 0.231)

    References: Zoph et al., 2022, eq. 5.
    """
    size = scores.logsumexp(1, keepdim=True)
    return ScoreLoss(size.square().mean(2)[:, 0], (scores - size).exp_() * size * (2 / scores.shape[2]))


def through_softmax(gates: Scores, by_gates: Float[Tensor, "T M #N"]) -> Scores:
    """Takes the derivative of a loss in gates = softmax(scores) to its derivative in the scores.

    Args:
      gates: (T, M, N) softmax over the experts.
      by_gates: the derivative in each gate, or (T, M, 1) where it is the same for all samples.
    """
    return gates * (by_gates - (gates * by_gates).sum(1, keepdim=True))


# ---- without a loss ----


def updated_bias(bias: Float[Tensor, "T M"], received: Num[Tensor, "T M"], rate: float) -> Float[Tensor, "T M"]:
    """Raises the bias of experts that received fewer samples than the mean by `rate`, and lowers that of the others.

    The bias is added to the scores by which experts are selected, never to the gates, so that it has no gradient.

    >>> updated_bias(torch.zeros(1, 3), torch.tensor([[6.0, 3.0, 0.0]]), 0.125).tolist()
    [[-0.125, 0.0, 0.125]]

    Args:
      received: numbers of samples, whole, and compared with their mean as such.

    References: Wang et al., 2024, algorithm 1: b_m + u sign(mean count - count_m).
    """
    counts = received.long()  # in a narrow type a sum or a mean of counts is rounded
    return bias + rate * torch.sign(counts.sum(1, keepdim=True) - counts.shape[1] * counts).to(bias.dtype)


# ---- measures ----


def in_full(values: Num[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Returns numbers in float32 at least, in which counts below 2^24 and their sums are exact."""
    return values if values.dtype in (torch.float32, torch.float64) else values.float()


def load_of(chosen: Shaped[Tensor, "T M N"]) -> Float[Tensor, "T M"]:
    """Computes each expert's share of all assignments, from a mask with 1 or True where a sample is sent to an expert.

    >>> load_of(torch.tensor([[[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]]]).bfloat16()).tolist()
    [[0.75, 0.25]]

    Returns:
      (T, M) in the type of the mask; in float32 if that is whole.
    """
    received = chosen.count_nonzero(2)  # whole: sums of many ones are rounded in a narrow type
    wide = received.to(torch.float64 if chosen.dtype == torch.float64 else torch.float32)
    return (wide / received.sum(1, keepdim=True)).to(chosen.dtype if chosen.is_floating_point() else wide.dtype)


def squared_variation(values: Load) -> Float[Tensor, "*T"]:
    """Computes the squared coefficient of variation over the experts (Shazeer et al., 2017, eq. 7).

    >>> squared_variation(torch.tensor([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]])).tolist()  # at most M - 1
    [3.0, 0.0]
    """
    wide = in_full(values)
    return wide.var(-1, correction=0) / wide.mean(-1).square()


def load_entropy(load: Load) -> Float[Tensor, "*T"]:
    """Computes the entropy of the load in nats: log M if all experts receive alike, 0 if one receives everything.

    Its exponential is the number of equally loaded experts with the same entropy.

    >>> load_entropy(torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])).exp().tolist()
    [2.0, 1.0]
    """
    return torch.special.entr(load).sum(-1)


def dispatch_entropy(dispatch: Num[Tensor, "*T K M"]) -> Float[Tensor, "*T"]:
    """Computes the entropy of the clusters among an expert's samples in nats, the mean over all samples.

    It is 0 if every expert gets one cluster, and at most log K.

    >>> round(float(dispatch_entropy(torch.tensor([[4.0, 0.0, 0.0], [0.0, 2.0, 2.0]]))), 3)
    0.0
    >>> round(float(dispatch_entropy(torch.ones(4, 8))), 4)  # log 4
    1.3863

    Args:
      dispatch: (..., K, M) numbers of samples of a cluster that an expert gets.

    References: Chen et al., 2022, eq. 6.1.
    """
    dispatch = in_full(dispatch)
    received = dispatch.sum(-2, keepdim=True)
    shares = dispatch / torch.where(received > 0, received, 1)
    surprise = -torch.where(shares > 0, shares, 1).log()
    return (dispatch * surprise).sum((-2, -1)) / received.sum((-2, -1)) + 0.0  # no -0.0


def maximal_violation(load: Load) -> Float[Tensor, "*T"]:
    """Computes by how much the largest load exceeds the mean load, relative to the mean: from 0 to M - 1.

    >>> maximal_violation(torch.tensor([0.5, 0.25, 0.25, 0.0])).item()
    1.0

    References: Wang et al., 2024, eq. 4 (MaxVio).
    """
    wide = in_full(load)
    return wide.amax(-1) / wide.mean(-1) - 1
