"""The layer on vectors, as it would be deployed: what pruning saves in memory, operations and time.

Only chosen tokens meet an expert. Where experts choose they do so in one product of all experts; where tokens choose,
expert by expert, since each receives another number of them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Self

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from moe_lab.config import require
from moe_lab.pruning.model import Routing, TokenMoE, Weights
from moe_lab.trials import stream


class Layer(nn.Module):
    """One trial's layer, unpruned or pruned, on tokens that are vectors (pruning2024, eqs 1, 2, 7 with d' = 1).

    Args:
      weights: in pattern coordinates.
      trial: the place of the trial among them.
      vectors: (d, d) the patterns, in the rows.
      model: says who chooses, and l.

    Attributes:
      routers: (R, d).
      hidden: (k, d, m) W_1 of every expert that is here.
      head: (k, m, 1) the fixed a^(s).
      serving: (k,) which router is whose.

    Raises:
      ValueError: the vectors are not as many as the patterns.
    """

    routers: Tensor
    hidden: Tensor
    head: Tensor
    serving: Tensor

    def __init__(self, weights: Weights, trial: int, vectors: Float[Tensor, "d e"], model: TokenMoE) -> None:
        patterns = weights.routers.shape[2]
        rule = "vectors must be one row for each of the weights' patterns (d)"
        require(vectors.shape == (patterns, patterns), rule, vectors=tuple(vectors.shape), d=patterns)
        like, neurons = weights.routers, weights.neurons[trial]
        vectors = vectors.to(device=like.device, dtype=like.dtype)
        self._set(like[trial] @ vectors, vectors.mT @ neurons, weights.signs, weights.experts[trial], model)

    def _set(self, routers: Tensor, hidden: Tensor, signs: Tensor, serving: Tensor, model: TokenMoE) -> None:
        super().__init__()
        self.routing: Routing = model.routing
        self.top = model.top
        self.routers, self.hidden = nn.Parameter(routers.contiguous()), nn.Parameter(hidden.contiguous())
        self.register_buffer("head", signs[:, None, None].expand(-1, hidden.shape[2], 1).contiguous())
        self.register_buffer("serving", serving.clone())

    @classmethod
    def random(cls, model: TokenMoE, dimension: int, *, kept: int | None = None, seed: int = 0) -> Self:
        """An untrained layer of any size, whole or with only so many of its k experts, to measure what it costs.

        Raises:
          ValueError: kept is odd, or not between 2 and k.
        """
        kept = model.experts if kept is None else kept
        rule = "kept must be even and between 2 and experts (k)"
        require(2 <= kept <= model.experts and kept % 2 == 0, rule, kept=kept, k=model.experts)
        experts = kept if model.routing == "expert-choice" else model.experts
        one = stream(seed, 0, "layer")
        routers = torch.as_tensor(one.standard_normal((experts, dimension)), dtype=torch.float32)
        hidden = one.standard_normal((kept, dimension, model.neurons)) / np.sqrt(dimension)
        gap = experts // 2 - kept // 2  # between the + and the - experts that are left, in numbers of routers
        serving = torch.arange(kept) + gap * (torch.arange(kept) >= kept // 2)
        signs = torch.cat((torch.ones(kept // 2), -torch.ones(kept // 2)))
        layer = cls.__new__(cls)
        layer._set(routers / np.sqrt(dimension), torch.as_tensor(hidden, dtype=torch.float32), signs, serving, model)
        return layer

    @property
    def parameter_count(self) -> int:
        """Numbers that can be trained: routers and neurons."""
        return sum(one.numel() for one in self.parameters())

    @property
    def bytes(self) -> int:
        """Memory of all that the layer holds, the fixed head included."""
        held = [*self.parameters(), *self.buffers()]
        return sum(one.untyped_storage().nbytes() for one in held)

    def forward(self, tokens: Float[Tensor, "B n d"]) -> Float[Tensor, " B"]:
        """f(x) for every sample.

        Raises:
          ValueError: an expert is to keep more tokens than there are.
        """
        if self.routing == "token-choice":
            return self._token_choice(tokens)
        require(self.top <= tokens.shape[1], "top (l) must be at most tokens (n)", l=self.top, n=tokens.shape[1])
        return self._expert_choice(tokens)

    def _expert_choice(self, tokens: Float[Tensor, "B n d"]) -> Float[Tensor, " B"]:
        samples, n, d = tokens.shape
        scores = (tokens.reshape(-1, d) @ self.routers.mT).view(samples, n, -1).permute(2, 0, 1)
        best, places = scores.topk(self.top, dim=2)
        rows = places + torch.arange(0, samples * n, n, device=tokens.device)[:, None]
        chosen = tokens.reshape(-1, d)[rows.flatten(1)]  # (k, B l, d)
        answers = torch.bmm(torch.bmm(chosen, self.hidden).relu_(), self.head)
        return (best.softmax(2) * answers.view_as(best)).sum((0, 2))

    def _token_choice(self, tokens: Float[Tensor, "B n d"]) -> Float[Tensor, " B"]:
        samples, n, d = tokens.shape
        flat = tokens.reshape(-1, d)
        best, picked = (flat @ self.routers.mT).topk(self.top, dim=1)
        gates = best.softmax(1)
        output = tokens.new_zeros(samples)
        for expert, router in enumerate(self.serving.tolist()):
            rows, places = (picked == router).nonzero(as_tuple=True)
            answers = (flat[rows] @ self.hidden[expert]).relu_() @ self.head[expert]
            output.index_add_(0, rows // n, gates[rows, places] * answers[:, 0])
        return output

    def received(self, tokens: Float[Tensor, "B n d"]) -> Int[Tensor, " k"]:
        """How many tokens each expert that is here gets from these samples."""
        if self.routing == "expert-choice":
            return torch.full_like(self.serving, self.top * tokens.shape[0])
        picked = (tokens.flatten(0, 1) @ self.routers.mT).topk(self.top, dim=1).indices
        return (picked.flatten() == self.serving[:, None]).sum(1)


def operations(
    model: TokenMoE, *, tokens: int, dimension: int, experts: int, routers: int | None = None, received: float = 0.0
) -> float:
    """Floating-point operations of the layer's products for one sample; a multiplication and an addition are two.

    Routers take 2 n d each, and a token that meets an expert 2 d m + 2 m. Where experts choose, l tokens meet each.

    Args:
      tokens, dimension: n and d.
      experts: k', those that are left.
      routers: those that are left, k' where experts choose and all k where tokens choose when None.
      received: (token, expert) pairs a sample that meet, where tokens choose: `Layer.received(x).sum() / len(x)`. An
        unpruned layer has n l.
    """
    chooses = model.routing == "expert-choice"
    if routers is None:
        routers = experts if chooses else model.experts
    pairs = experts * model.top if chooses else received
    return 2.0 * tokens * dimension * routers + pairs * (2 * dimension * model.neurons + 2 * model.neurons)


def counted_operations(layer: Layer, tokens: Float[Tensor, "B n d"]) -> float:
    """Operations for one sample, as torch's own counter sees them."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        layer(tokens)
    return counter.get_total_flops() / len(tokens)


def inference_seconds(
    layers: Sequence[Layer], tokens: Float[Tensor, "B n d"], repeats: int = 5
) -> Float[np.ndarray, "layers repeats"]:
    """Seconds that each layer takes for the samples: CPU time, or elapsed time on a GPU.

    Layers take turns, so that a slow moment of the machine hits all of them; a first round is not counted.
    """
    require(repeats >= 1, "repeats must be at least 1", repeats=repeats)
    seconds = np.empty((len(layers), repeats))
    with torch.no_grad():
        for repeat in range(-1, repeats):
            for place, layer in enumerate(layers):
                began = _clock(tokens.device)
                layer(tokens)
                if repeat >= 0:
                    seconds[place, repeat] = _clock(tokens.device) - began
    return seconds


def _clock(device: torch.device) -> float:
    if device.type != "cuda":
        return time.process_time()
    torch.cuda.synchronize(device)
    return time.perf_counter()
