"""Ways to choose experts beyond those of `moe_lab.core.routing`: gates, noise, capacity, soft assignment and hashing.

Pure functions of tensors whose first axis is the trial. Where tokens choose, scores are (trials, ..., tokens, experts)
and what is chosen lies along the last axis; where experts choose, the last axis holds the tokens instead. A token is
whatever is routed: a patch of an image, a word, a sample.

Sources:
  Shazeer et al. 2017: Outrageously large neural networks, ICLR 2017.
  Lepikhin et al. 2021: GShard, ICLR 2021; Fedus et al. 2022: Switch transformers, JMLR 23.
  Riquelme et al. 2021: Scaling vision with sparse mixture of experts, NeurIPS 2021.
  Roller et al. 2021: Hash layers for large sparse models, NeurIPS 2021.
  Zhou et al. 2022: Mixture-of-experts with expert choice routing, NeurIPS 2022.
  Puigcerver et al. 2024: From sparse to soft mixtures of experts, ICLR 2024.
  DeepSeek-AI 2024: DeepSeek-V3 technical report.
  Nguyen et al. 2024: Sigmoid gating is more sample efficient than softmax gating in mixture of experts, NeurIPS 2024.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.core.routing import (
    Mask,
    Scores,
    limited,
    marked,
    softmax_among,
    softmax_before,
    softmax_over,
    sorted_patches,
    top_mask,
)
from moe_lab.core.scalars import python_of

Gates = Literal["softmax", "softmax-before", "sigmoid", "sigmoid-normalised"]
GATES: tuple[Gates, ...] = get_args(Gates)
Order = Literal["arrival", "priority"]


def top_gates(scores: Scores, count: int, gates: str = "softmax") -> tuple[Mask, Scores]:
    """Chooses the `count` largest scores along the last axis and computes their gates.

    With scores h and the chosen set S, the gate of i in S is::

        softmax              exp(h_i) / sum_{j in S} exp(h_j)        as `routing.token_choice`; 1 for a single choice
        softmax-before       exp(h_i) / sum_j exp(h_j)               over all j; as `routing.switch` for a single choice
        sigmoid              1 / (1 + exp(-h_i))
        sigmoid-normalised   sigmoid(h_i) / sum_{j in S} sigmoid(h_j)

    >>> scores = torch.tensor([[3.0, 1.0, 4.0]]).log()
    >>> [[round(gate, 3) for gate in top_gates(scores, 2, gates)[1][0].tolist()] for gates in GATES]
    [[0.429, 0.0, 0.571], [0.375, 0.0, 0.5], [0.75, 0.0, 0.8], [0.484, 0.0, 0.516]]

    Args:
      scores: (trials, ..., n).
      count: how many to choose; from 1 (a single expert) to n (all of them).
      gates: one of GATES.

    Returns:
      (trials, ..., n) bool, True at `count` places of each row; and the gates, zero at the others. Infinite scores
      stand for their limits. NaN ranks last; where it is chosen, or in the sum of "softmax-before", the gates that need
      it are NaN.

    Raises:
      ValueError: count is not between 1 and n, or the kind of gates is unknown.

    References:
      Softmax after the choice: Shazeer et al. 2017, eq. 3-5; before it: Riquelme et al. 2021, and Fedus et al. 2022,
      eq. 1-2; sigmoid: Nguyen et al. 2024; normalised: DeepSeek-V3, eq. 13-15.
    """
    require(gates in GATES, f"gates must be one of {', '.join(GATES)}", gates=gates)
    mask = top_mask(scores, count)
    if gates == "softmax":
        return mask, softmax_over(scores, mask)
    if gates == "softmax-before":
        return mask, softmax_before(scores, mask)
    if gates == "sigmoid":
        return mask, scores.sigmoid().masked_fill(~mask, 0)
    # The sum is that of exp(log sigmoid), so that gates do not become 0/0 where all scores are very negative.
    return mask, softmax_among(torch.nn.functional.logsigmoid(scores), mask)


def noisy_scores(
    scores: Float[Tensor, "*rows n"], spread: Float[Tensor, "*rows n"], noise: Float[Tensor, "*rows n"]
) -> Float[Tensor, "*rows n"]:
    """Adds noise whose size the router learns: H = h + noise * softplus(spread).

    >>> noisy_scores(torch.tensor([2.0, 2.0]), torch.tensor([0.0, 1.0]), torch.tensor([1.0, -1.0])).numpy().round(3)
    array([2.693, 0.687], dtype=float32)

    Args:
      scores: h = x W_g.
      spread: x W_noise; 0 makes the noise's standard deviation log 2.
      noise: standard normal numbers.

    References: Shazeer et al. 2017, eq. 4.
    """
    return scores + noise * torch.nn.functional.softplus(spread)


def capacity_of(tokens: int, experts: int, experts_per_token: int, factor: float) -> int:
    """Returns the places of an expert, ceil(factor * tokens * experts_per_token / experts), at most one for each token.

    With expert choice it is the number of tokens that an expert takes, and `factor` times `experts_per_token` the mean
    number of experts of a token.

    >>> capacity_of(tokens=16, experts=8, experts_per_token=1, factor=1.25)
    3

    Raises:
      ValueError: the factor is not positive and finite, or an integer is less than 1.

    References: Fedus et al. 2022, eq. 3 (one expert a token); Zhou et al. 2022, section 3.2.
    """
    require(bool(0 < factor < math.inf), "factor (c) must be finite and greater than 0", factor=factor)
    for name, value in (("tokens", tokens), ("experts", experts), ("experts_per_token", experts_per_token)):
        require(value >= 1, f"{name} must be at least 1", **{name: value})
    exact = python_of(factor) * tokens * experts_per_token / experts
    return tokens if exact >= tokens else max(1, math.ceil(round(exact, 9)))  # a tiny one rounds up to 1, too


def within_capacity(
    mask: Bool[Tensor, "*rows tokens experts"],
    scores: Float[Tensor, "*rows tokens experts"],
    capacity: int,
    order: str = "arrival",
) -> Bool[Tensor, "*rows tokens experts"]:
    """Returns which choices find a place where each expert has `capacity` of them; the others are dropped.

    Every token's first choice is served before any token's second. Within such a round tokens are served as they
    arrive, by their position, or by priority, those with the largest score of all their choices first.

    >>> scores = torch.tensor([[1.0, 0.0], [3.0, 0.0], [2.0, 0.0]])
    >>> mask, _ = top_gates(scores, 1)
    >>> [within_capacity(mask, scores, 2, order)[:, 0].int().tolist() for order in ("arrival", "priority")]
    [[1, 1, 0], [0, 1, 1]]

    Args:
      mask: (..., tokens, experts) bool, the experts that each token has chosen.
      scores: same shape, the scores (or gates) by which they were chosen.
      capacity: places of an expert, from 1 to the number of tokens.
      order: "arrival" or "priority".

    Raises:
      ValueError: capacity is not between 1 and the number of tokens, or the order is unknown.

    References: Lepikhin et al. 2021, algorithm 1; Fedus et al. 2022, section 2.2; by priority: Riquelme et al. 2021,
      "batch prioritized routing".
    """
    require(order in get_args(Order), "order must be 'arrival' or 'priority'", order=order)
    tokens = mask.shape[-2]
    ranked = sorted_patches(scores)
    chosen = mask.gather(-1, ranked).cumsum(-1)  # of a token's experts in the order of their scores, so far
    rounds = torch.empty_like(chosen).scatter_(-1, ranked, chosen)  # 1 for a token's first choice
    turn = torch.arange(tokens, device=mask.device)[:, None]
    if order == "priority":
        best = scores.detach().masked_fill(~mask | scores.isnan(), -torch.inf).amax(-1)
        turn = sorted_patches(best).argsort()[..., None]
    early = (-(rounds * tokens + turn)).masked_fill(~mask, torch.iinfo(torch.int64).min)  # whole, however many
    return mask & marked(early.mT, capacity, "capacity", "tokens").mT


def soft_weights(
    scores: Float[Tensor, "*rows tokens slots"],
) -> tuple[Float[Tensor, "*rows tokens slots"], Float[Tensor, "*rows tokens slots"]]:
    """Computes the weights of soft MoE: no token is chosen or dropped, every slot takes a mean of all of them.

        dispatch  D_ij = exp(s_ij) / sum_i' exp(s_i'j)    a slot's input is sum_i D_ij x_i
        combine   C_ij = exp(s_ij) / sum_j' exp(s_ij')    a token's output is sum_j C_ij y_j

    >>> weights = soft_weights(torch.tensor([[1.0, 3.0], [1.0, 1.0]]).log())
    >>> [part.round(decimals=3).tolist() for part in weights]  # dispatch, combine
    [[[0.5, 0.75], [0.5, 0.25]], [[0.25, 0.75], [0.5, 0.5]]]

    Args:
      scores: (..., tokens, slots), X Phi; the slots of all experts, expert by expert.

    Returns:
      dispatch, whose columns sum to 1, and combine, whose rows do.

    References: Puigcerver et al. 2024 (without their normalisation of inputs and slots).
    """
    finite = limited(scores)
    return finite.softmax(dim=-2), finite.softmax(dim=-1)


def sign_hash(
    patches: Float[Tensor, "*trials tokens d"], directions: Float[Tensor, "*trials bits d"]
) -> Int[Tensor, "*trials tokens"]:
    """Returns the bucket 0 ... 2^bits - 1 of each patch: bit b is set where <directions_b, x> > 0.

    Departs from the paper: Roller et al. hash the identity of a word. Patches have none, so the signs of fixed random
    projections take its place (Charikar 2002): equal patches share a bucket, similar ones mostly do.

    >>> sign_hash(torch.tensor([[1.0, -1.0], [1.0, 1.0]]), torch.eye(2)).tolist()
    [1, 3]
    """
    bits = torch.arange(directions.shape[-2], device=patches.device)
    return ((patches @ directions.mT > 0).long() << bits).sum(-1)


def balanced_table(buckets: int, experts: int, experts_per_token: int, random: np.random.Generator) -> np.ndarray:
    """Returns (buckets, experts) bool: different experts for each bucket at random, every expert for equally many.

    Raises:
      ValueError: experts_per_token is not between 1 and experts.

    References: Roller et al. 2021, whose hashes of words are random or balanced; this one is both.
    """
    rule = "experts_per_token must be between 1 and experts"
    require(1 <= experts_per_token <= experts, rule, experts_per_token=experts_per_token, experts=experts)
    of_buckets, of_experts = (torch.from_numpy(random.permutation(count))[None] for count in (buckets, experts))
    return table_of(of_buckets, of_experts, experts_per_token)[0].numpy()


def table_of(
    buckets: Int[Tensor, "trials buckets"], experts: Int[Tensor, "trials experts"], experts_per_token: int
) -> Bool[Tensor, "trials buckets experts"]:
    """Makes the table of `balanced_table` of random orders of the buckets and of the experts.

    The experts stand in a circle in their order; each bucket has the next ones, in the order of the buckets.
    """
    count = experts.shape[1]
    turns = torch.arange(experts_per_token, device=buckets.device)
    places = (buckets[..., None] * experts_per_token + turns) % count
    chosen = experts[:, None].expand(-1, buckets.shape[1], -1).gather(2, places)
    return (chosen[..., None] == torch.arange(count, device=buckets.device)).any(2)


def hash_choice(
    buckets: Int[Tensor, "*trials tokens"], table: Bool[Tensor, "*trials buckets experts"]
) -> Bool[Tensor, "*trials tokens experts"]:
    """Looks up the experts of each token in a fixed table, that of its trial. Nothing is learned, and gates are 1.

    >>> hash_choice(torch.tensor([1, 0]), torch.tensor([[True, False], [False, True]])).int().tolist()
    [[0, 1], [1, 0]]

    References: Roller et al. 2021.
    """
    return table.gather(-2, buckets[..., None].expand(*buckets.shape, table.shape[-1]))
