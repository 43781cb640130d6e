"""The pieces of a vision transformer. Parameters have the names and shapes of the released checkpoints.

Shapes: N images, T tokens, D dimensions, F neurons, H heads, E experts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from torch.nn import functional

_EPSILON = 1e-6  # of layer normalization in flax


class Dense(nn.Module):
    """x W + b, where the inputs or outputs may be several axes, and one W per expert comes first if there are experts.

    Attributes:
      kernel: (inputs..., outputs...) or (E, inputs, outputs).
      bias: (outputs...) or (E, outputs).
    """

    def __init__(
        self, inputs: Sequence[int], outputs: Sequence[int], *, experts: int | None = None, bias: bool = True
    ) -> None:
        super().__init__()
        lead = () if experts is None else (experts,)
        self.inputs, self.outputs, self.experts = math.prod(inputs), tuple(outputs), experts
        self.kernel = nn.Parameter(torch.zeros(*lead, *inputs, *outputs))
        self.bias = nn.Parameter(torch.zeros(*lead, *outputs)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Maps (..., inputs) to (..., outputs...), or (E, rows, inputs) to (E, rows, outputs)."""
        if self.experts is not None and self.bias is not None:
            return torch.baddbmm(self.bias[:, None], x, self.kernel)
        kernel = self.kernel.view(self.inputs, -1)
        bias = None if self.bias is None else self.bias.view(-1)
        return functional.linear(x, kernel.T, bias).unflatten(-1, self.outputs)

    def draw(self, generator: Generator, how: str, alike: bool) -> None:
        """Draws the kernel: uniform with variance 2/(in + out) ("xavier"), or normal with 1/in ("lecun").

        Args:
          alike: whether all experts get the same kernel.
        """
        shape = self.kernel.shape if self.experts is None or not alike else self.kernel.shape[1:]
        fan_in, fan_out = self.inputs, math.prod(self.outputs)
        if how == "xavier":
            bound = math.sqrt(6 / (fan_in + fan_out))
            values = (2 * torch.rand(shape, generator=generator) - 1) * bound
        else:
            values = torch.randn(shape, generator=generator) / math.sqrt(fan_in)
        self.kernel.data.copy_(values.expand_as(self.kernel))


class LayerNorm(nn.Module):
    """Layer normalization over the last axis."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.scale, self.bias = nn.Parameter(torch.ones(size)), nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor) -> Tensor:
        return functional.layer_norm(x, self.scale.shape, self.scale, self.bias, _EPSILON)


class Attention(nn.Module):
    """Dot-product attention with several heads."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        split = (heads, size // heads)
        self.query, self.key, self.value = (Dense((size,), split) for _ in range(3))
        self.out = Dense(split, (size,))

    def forward(self, queries: Float[Tensor, "N Q D"], tokens: Float[Tensor, "N T D"]) -> Float[Tensor, "N Q D"]:
        query = self.query(queries).transpose(1, 2)
        key, value = self.key(tokens).transpose(1, 2), self.value(tokens).transpose(1, 2)
        return self.out(functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    """Two dense layers with a GELU (its tanh approximation) between them; with experts, one such network each."""

    def __init__(self, size: int, neurons: int, experts: int | None = None) -> None:
        super().__init__()
        self.Dense_0 = Dense((size,), (neurons,), experts=experts)
        self.Dense_1 = Dense((neurons,), (size,), experts=experts)

    def forward(self, x: Tensor) -> Tensor:
        return self.Dense_1(functional.gelu(self.Dense_0(x), approximate="tanh"))


class MapHead(nn.Module):
    """Pools tokens by the attention of one learned query, with an MLP after it."""

    def __init__(self, size: int, heads: int, neurons: int) -> None:
        super().__init__()
        self.probe = nn.Parameter(torch.zeros(1, 1, size))
        self.MultiHeadDotProductAttention = Attention(size, heads)
        self.LayerNorm = LayerNorm(size)
        self.Mlp = Mlp(size, neurons)

    def forward(self, tokens: Float[Tensor, "N T D"]) -> Float[Tensor, "N D"]:
        x = self.MultiHeadDotProductAttention(self.probe.expand(len(tokens), -1, -1), tokens)
        return (x + self.Mlp(self.LayerNorm(x)))[:, 0]


class Positions(nn.Module):
    """Adds a learned vector to each token."""

    def __init__(self, tokens: int, size: int) -> None:
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.zeros(1, tokens, size))

    def forward(self, x: Float[Tensor, "N T D"]) -> Float[Tensor, "N T D"]:
        return x + self.pos_embedding


def patches(images: Float[Tensor, "N height width C"], patch: tuple[int, int]) -> Float[Tensor, "N P pixels"]:
    """Cuts images into patches, row by row; pixels that fill no patch at the right and at the bottom are left out."""
    count, height, width, channels = images.shape
    rows, columns = height // patch[0], width // patch[1]
    cut = images[:, : rows * patch[0], : columns * patch[1]]
    grid = cut.reshape(count, rows, patch[0], columns, patch[1], channels).transpose(2, 3)
    return grid.reshape(count, rows * columns, -1)
