"""Routing of V-MoE: gates, capacity, who gets a place in which expert's buffer, and the losses that balance experts.

Tokens are routed in groups that do not depend on each other. Shapes: G groups of S tokens, E experts, K selected
experts, M members, C places in a buffer, D dimensions.

References: Riquelme et al., 2021, sections 2 and 3 and appendix A; Allingham et al., 2022, section 4.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.core.routing import sorted_patches
from moe_lab.routers.balance import squared_variation

Gates = Float[Tensor, "G S E"]


def capacity_of(
    tokens: int,
    experts: int,
    factor: float,
    rounding: Literal["ceil", "round"] = "ceil",
    multiple_of: int | None = 4,
) -> int:
    """Computes C, the places that an expert has for the tokens of a group.

    >>> capacity_of(tokens=520 * 2, experts=8, factor=1.5)
    196

    Args:
      tokens: S K, the selections to be served.
      experts: E.
      factor: capacity over an equal share of the selections.
      rounding: how the capacity becomes a whole number.
      multiple_of: the capacity is then rounded up to a multiple of this; None for no such rounding.

    Raises:
      ValueError: the capacity would be less than 1.
    """
    exact = tokens * factor / experts
    capacity = math.ceil(exact) if rounding == "ceil" else round(exact)
    require(capacity >= 1, "an expert's capacity must be at least 1", tokens=tokens, experts=experts, factor=factor)
    return capacity + -capacity % multiple_of if multiple_of else capacity


class Assignment(NamedTuple):
    """Which experts each token selects, and its place in their buffers.

    Attributes:
      experts: (G, S, K) the experts in the order of their gates; among equal gates the lower number comes first.
      places: (G, S, K) the place in the expert's buffer; the expert does not see the token where it is C or more.
      gates: (G, S, K) the gates of the selected experts, which are not normalized again.
      capacity: C.
    """

    experts: Int[Tensor, "G S K"]
    places: Int[Tensor, "G S K"]
    gates: Float[Tensor, "G S K"]
    capacity: int

    @property
    def served(self) -> Bool[Tensor, "G S K"]:
        """Whether the token has a place in the expert's buffer."""
        return self.places < self.capacity


def assign(gates: Gates, selected: int, capacity: int, batch_priority: bool = False) -> Assignment:
    """Lets each token select its K largest gates; tokens take places in the experts' buffers in turn.

    All first choices come before all second choices. Within a choice, tokens come in the order of the group, or with
    batch priority in the order of their largest gate.

    >>> gates = torch.tensor([[[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]]])
    >>> assign(gates, 1, 2).places.flatten().tolist(), assign(gates, 1, 2, True).places.flatten().tolist()
    ([0, 1, 2], [0, 2, 1])

    Args:
      gates: (G, S, E).
      selected: K.
      capacity: C.
      batch_priority: whether tokens with a large gate come first (Riquelme et al., 2021, section 3.2).
    """
    groups, tokens, count = gates.shape
    experts = sorted_patches(gates)[..., :selected]
    chosen = gates.gather(-1, experts)
    queue, order = experts, None
    if batch_priority:
        order = sorted_patches(chosen[..., 0].detach())[..., None].expand_as(experts)
        queue = experts.gather(1, order)
    queue = queue.transpose(1, 2).reshape(groups, 1, selected * tokens)
    arrived = (queue == torch.arange(count, device=gates.device)[:, None]).cumsum(-1, dtype=torch.int32)
    places = (arrived.gather(1, queue)[:, 0].long() - 1).view(groups, selected, tokens).transpose(1, 2)
    if order is not None:
        places = torch.empty_like(places).scatter_(1, order, places)
    return Assignment(experts, places, chosen, capacity)


class Buffers(NamedTuple):
    """Where the tokens lie in the buffers of the experts that are left.

    Attributes:
      rows: (G, S, K) the row of the flattened (experts, G, C) buffers; 0 where the token has none.
      served: (G, S, K) whether it has one.
      tokens: (experts, G C) the token in each row, or G S where the row is empty.
    """

    rows: Int[Tensor, "G S K"]
    served: Bool[Tensor, "G S K"]
    tokens: Int[Tensor, "E_kept R"]


def buffers_of(assignment: Assignment, column: Int[Tensor, " E"], experts: int) -> Buffers:
    """Finds the rows of tokens in the experts' buffers; pruned experts have none.

    Args:
      assignment: of tokens to E experts.
      column: (E,) the position of each expert among those left, -1 if it was pruned.
      experts: how many are left.
    """
    groups, tokens, _ = assignment.places.shape
    own = column[assignment.experts]
    served = assignment.served & (own >= 0)
    group = torch.arange(groups, device=own.device)[:, None, None]
    rows = (own * groups + group) * assignment.capacity + assignment.places
    size = experts * groups * assignment.capacity
    number = torch.arange(groups * tokens, device=own.device).view(groups, tokens, 1).expand_as(rows)
    holder = torch.full((size + 1,), groups * tokens, device=own.device)
    holder[torch.where(served, rows, size).flatten()] = number.flatten()
    return Buffers(rows.masked_fill(~served, 0), served, holder[:size].view(experts, -1))


def dispatch(inputs: Float[Tensor, "G S D"], buffers: Buffers) -> Float[Tensor, "E_kept R D"]:
    """Copies tokens into the buffers; empty rows are 0."""
    flat = inputs.flatten(0, 1)
    return torch.cat((flat, flat.new_zeros(1, flat.shape[1])))[buffers.tokens]


def combine(
    outputs: Float[Tensor, "E_kept R D"], buffers: Buffers, gates: Float[Tensor, "G S K"]
) -> Float[Tensor, "G S D"]:
    """Sums the outputs of each token's experts, weighted by its gates; experts without the token add nothing."""
    picked = outputs.flatten(0, 1)[buffers.rows]
    return ((gates * buffers.served)[..., None, :] @ picked)[..., 0, :]


# --- gates ----------------------------------------------------------------------------------------------------------


def router_logits(inputs: Float[Tensor, "G S D"], kernel: Tensor) -> Float[Tensor, "G M N own"]:
    """Multiplies tokens by the router of their member, where N = S/M and own = E/M.

    Args:
      inputs: (G, S, D), in E3 with the M copies of a token after each other.
      kernel: (D, E), or (D, M, E/M) in E3.
    """
    if kernel.ndim == 2:
        return (inputs @ kernel)[:, None]
    groups, tokens, size = inputs.shape
    by_member = inputs.view(groups, tokens // kernel.shape[1], kernel.shape[1], size).transpose(1, 2)
    return by_member @ kernel.transpose(0, 1)


def block_diagonal(gates: Float[Tensor, "G M N own"]) -> Gates:
    """Returns gates for all experts, 0 for those of other members; the M copies of a token are consecutive again."""
    groups, members, tokens, own = gates.shape
    if members == 1:
        return gates[:, 0]
    spread = torch.diag_embed(gates.movedim(1, -1)).movedim(2, -1)  # (G, N, M, M, own)
    return spread.reshape(groups, tokens * members, members * own)


def importance_loss(gates: Float[Tensor, "*groups N E"]) -> Float[Tensor, "*groups"]:
    """Computes the squared coefficient of variation of the summed gates (Riquelme et al., 2021, appendix A.2)."""
    return squared_variation(gates.sum(-2))


def load_loss(
    logits: Float[Tensor, "*groups N E"], noisy: Float[Tensor, "*groups N E"], noise: float, selected: int
) -> Float[Tensor, "*groups"]:
    """Computes the squared coefficient of variation of the experts' expected load under fresh noise.

    Args:
      logits, noisy: before and after adding noise.
      noise: its standard deviation.
      selected: K.
    """
    threshold = noisy.gather(-1, sorted_patches(noisy)[..., selected - 1 : selected])
    return squared_variation((0.5 * torch.erfc((threshold - logits) / (noise * math.sqrt(2)))).mean(-2))
