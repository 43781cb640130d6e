"""What the module of a layer's experts is given, and a module whose pruned experts answer 0 (silent pruning)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

Call = Literal["index", "dense", "one-hot"]


@dataclass(frozen=True)
class Pairs:
    """Which tokens go to which experts.

    Attributes:
      token, expert: (P,) the token and the expert of each pair.
      gate: (P,) its gate.
      tokens: how many tokens there are.
    """

    token: Int[Tensor, " P"]
    expert: Int[Tensor, " P"]
    gate: Float[Tensor, " P"]
    tokens: int

    def counted(self, values: Float[Tensor, " P"], experts: int) -> Float[Tensor, " k"]:
        """Sums a value of each pair over the pairs of each expert, in float64."""
        total = torch.zeros(experts, dtype=torch.float64)
        return total.index_add_(0, self.expert.cpu(), values.detach().to("cpu", torch.float64))


def pairs_of(call: Call, given: Sequence[Any], experts: int) -> Pairs:
    """Reads the pairs from the arguments of the experts' module; of dense calls from the scores, (tokens, E)."""
    if call == "dense":
        scores = given[0]
        token, expert = (scores > 0).nonzero(as_tuple=True)
        return Pairs(token, expert, scores[token, expert], len(scores))
    _, chosen, gates = given
    if call == "one-hot":
        chosen = chosen.reshape(-1, experts)
        token, expert = chosen.nonzero(as_tuple=True)
        return Pairs(token, expert, gates.reshape(-1)[token], len(chosen))
    token = torch.arange(len(chosen), device=chosen.device).repeat_interleave(chosen.shape[1])
    return Pairs(token, chosen.reshape(-1), gates.reshape(-1), len(chosen))


class SilentExperts(nn.Module):
    """The experts that stay of a layer, for a router that still knows all of them; the others answer 0.

    Tokens of pruned experts are not computed: floating-point operations and time fall, and with the weights memory.
    """

    place: Tensor
    kept: Tensor

    def __init__(self, call: Call, experts: nn.Module, kept: Sequence[int], count: int, device: torch.device) -> None:
        super().__init__()
        self.call, self.count, self.experts = call, count, experts
        place = torch.full((count,), -1, device=device)
        place[list(kept)] = torch.arange(len(kept), device=device)
        self.register_buffer("place", place, persistent=False)
        self.register_buffer("kept", torch.as_tensor(list(kept), device=device), persistent=False)

    def forward(self, hidden: Tensor, *chosen: Tensor) -> Tensor:
        """Computes what the full module would if the pruned experts answered 0."""
        if self.call == "dense":
            every = hidden.view(self.count, -1, hidden.shape[-1])
            answer = self.experts(every[self.kept].reshape(-1, hidden.shape[-1])).view(len(self.kept), *every.shape[1:])
            return torch.zeros_like(every).index_copy(0, self.kept, answer).view(hidden.shape)
        if self.call == "one-hot":
            return self.experts(hidden, chosen[0][..., self.kept], chosen[1])
        return self._of_pairs(hidden, *chosen)

    def _of_pairs(self, hidden: Tensor, index: Tensor, gates: Tensor) -> Tensor:
        """Computes the pairs of tokens and experts that stay, and adds them up token by token."""
        tokens = hidden.reshape(-1, hidden.shape[-1])
        place = self.place[index]
        token, slot = (place >= 0).nonzero(as_tuple=True)
        answer = torch.zeros_like(tokens)
        if len(token):
            own = self.experts(tokens[token], place[token, slot][:, None], gates[token, slot][:, None])
            answer = answer.index_add(0, token, own.reshape(len(token), -1).to(answer.dtype))
        return answer.view(hidden.shape)
