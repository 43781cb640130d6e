"""The layer on vectors, as it would be deployed, and its memory, operations and inference time.

Experts process only the tokens that are routed to them: in one batched product in expert-choice routing, one expert
after another in token-choice routing, where each receives a different number of tokens.
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

from moe_lab.core.config import require
from moe_lab.core.trials import stream
from moe_lab.pruning.model import Routing, TokenMoE, Weights


class Layer(nn.Module):
    """One trial's layer, unpruned or pruned, on tokens that are vectors (pruning2024, eqs 1, 2, 7 with d' = 1).

    Args:
      weights: in pattern coordinates.
      trial: index of the trial.
      vectors: (d, d) the patterns, as rows.
      model: its routing and l are used.

    Attributes:
      routers: (R, d).
      hidden: (k, d, m) W_1 of every kept expert.
      head: (k, m, 1) the fixed a^(s).
      serving: (k,) the index of each expert's router.

    Raises:
      ValueError: the number of vectors differs from the number of patterns.
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
        """Makes an untrained layer of any size, with all or some of its k experts, to measure its costs.

        Raises:
          ValueError: kept is odd, or not between 2 and k.
        """
        kept = model.experts if kept is None else kept
        rule = "kept must be even and between 2 and experts (k)"
        require(2 <= kept <= model.experts and kept % 2 == 0, rule, kept=kept, k=model.experts)
        experts = kept if model.routing == "expert-choice" else model.experts
        generator = stream(seed, 0, "layer")
        routers = torch.as_tensor(generator.standard_normal((experts, dimension)), dtype=torch.float32)
        hidden = generator.standard_normal((kept, dimension, model.neurons)) / np.sqrt(dimension)
        gap = experts // 2 - kept // 2  # in router indices, between the kept + and - experts
        serving = torch.arange(kept) + gap * (torch.arange(kept) >= kept // 2)
        signs = torch.cat((torch.ones(kept // 2), -torch.ones(kept // 2)))
        layer = cls.__new__(cls)
        layer._set(routers / np.sqrt(dimension), torch.as_tensor(hidden, dtype=torch.float32), signs, serving, model)
        return layer

    @property
    def parameter_count(self) -> int:
        """The number of trainable parameters: routers and neurons."""
        return sum(parameter.numel() for parameter in self.parameters())

    @property
    def bytes(self) -> int:
        """Memory of parameters and buffers, including the fixed head."""
        return sum(tensor.untyped_storage().nbytes() for tensor in (*self.parameters(), *self.buffers()))

    def forward(self, tokens: Float[Tensor, "B n d"]) -> Float[Tensor, " B"]:
        """Computes f(x) for every sample.

        Raises:
          ValueError: l is greater than n in expert-choice routing.
        """
        if self.routing == "token-choice":
            return self._token_choice(tokens)
        require(self.top <= tokens.shape[1], "top (l) must be at most tokens (n)", l=self.top, n=tokens.shape[1])
        return self._expert_choice(tokens)

    def _expert_choice(self, tokens: Float[Tensor, "B n d"]) -> Float[Tensor, " B"]:
        samples, n, d = tokens.shape
        scores = (tokens.reshape(-1, d) @ self.routers.mT).view(samples, n, -1).permute(2, 0, 1)
        best, positions = scores.topk(self.top, dim=2)
        rows = positions + torch.arange(0, samples * n, n, device=tokens.device)[:, None]
        chosen = tokens.reshape(-1, d)[rows.flatten(1)]  # (k, B l, d)
        outputs = torch.bmm(torch.bmm(chosen, self.hidden).relu_(), self.head)
        return (best.softmax(2) * outputs.view_as(best)).sum((0, 2))

    def _token_choice(self, tokens: Float[Tensor, "B n d"]) -> Float[Tensor, " B"]:
        samples, n, d = tokens.shape
        flat = tokens.reshape(-1, d)
        best, picked = (flat @ self.routers.mT).topk(self.top, dim=1)
        gates = best.softmax(1)
        output = tokens.new_zeros(samples)
        for expert, router in enumerate(self.serving.tolist()):
            rows, ranks = (picked == router).nonzero(as_tuple=True)
            outputs = (flat[rows] @ self.hidden[expert]).relu_() @ self.head[expert]
            output.index_add_(0, rows // n, gates[rows, ranks] * outputs[:, 0])
        return output

    def received(self, tokens: Float[Tensor, "B n d"]) -> Int[Tensor, " k"]:
        """Counts the tokens of these samples that each kept expert receives."""
        if self.routing == "expert-choice":
            return torch.full_like(self.serving, self.top * tokens.shape[0])
        picked = (tokens.flatten(0, 1) @ self.routers.mT).topk(self.top, dim=1).indices
        return (picked.flatten() == self.serving[:, None]).sum(1)


def operations(
    model: TokenMoE, *, tokens: int, dimension: int, experts: int, routers: int | None = None, received: float = 0.0
) -> float:
    """Computes the floating-point operations of the layer's products per sample; a multiply-add counts as two.

    Each router takes 2 n d, and each (token, expert) pair 2 d m + 2 m. Expert-choice routing has l pairs per expert.

    Args:
      tokens, dimension: n and d.
      experts: k', the number of kept experts.
      routers: number of kept routers; if None, k' for expert-choice and all k for token-choice.
      received: (token, expert) pairs per sample of token-choice, `Layer.received(x).sum() / len(x)`; n l for an
        unpruned layer.
    """
    expert_choice = model.routing == "expert-choice"
    if routers is None:
        routers = experts if expert_choice else model.experts
    pairs = experts * model.top if expert_choice else received
    return 2.0 * tokens * dimension * routers + pairs * (2 * dimension * model.neurons + 2 * model.neurons)


def counted_operations(layer: Layer, tokens: Float[Tensor, "B n d"]) -> float:
    """Counts the operations per sample with torch's own counter."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        layer(tokens)
    return counter.get_total_flops() / len(tokens)


def inference_seconds(
    layers: Sequence[Layer], tokens: Float[Tensor, "B n d"], repeats: int = 5
) -> Float[np.ndarray, "layers repeats"]:
    """Measures the seconds that each layer takes for the samples: CPU time, or elapsed time on a GPU.

    The layers take turns, so that a slow moment of the machine affects all of them; a first round is not counted.
    """
    require(repeats >= 1, "repeats must be at least 1", repeats=repeats)
    seconds = np.empty((len(layers), repeats))
    with torch.no_grad():
        for repeat in range(-1, repeats):
            for index, layer in enumerate(layers):
                began = _clock(tokens.device)
                layer(tokens)
                if repeat >= 0:
                    seconds[index, repeat] = _clock(tokens.device) - began
    return seconds


def _clock(device: torch.device) -> float:
    if device.type != "cuda":
        return time.process_time()
    torch.cuda.synchronize(device)
    return time.perf_counter()
