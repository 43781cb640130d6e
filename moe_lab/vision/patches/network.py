"""The networks of pmoe2023, section 5.2, as the authors' code has them.

Shapes: B images, D channels of the last map, h x w cells of it in n patches, k experts that keep l patches each.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from moe_lab.vision.layers import Gates, SameConv2d, norm, same_conv2d

LAYOUT = torch.channels_last
"""The memory layout of images in which convolutions of few channels take about half of the time on a CPU."""


class RoutedImages(NamedTuple):
    """Which patches the experts keep.

    Attributes:
      gates: what every patch is multiplied by, 0 where it is not kept.
      places: the kept patches, in no order; None where all are kept.
    """

    gates: Float[Tensor, "B k n"]
    places: Int[Tensor, "B k l"] | None

    @property
    def kept(self) -> Bool[Tensor, "B k n"]:
        if self.places is None:
            return torch.ones_like(self.gates, dtype=torch.bool)
        return torch.zeros_like(self.gates, dtype=torch.bool).scatter(2, self.places, True)


class Block(nn.Module):
    """A wide residual block: BN-ReLU-conv3x3 twice, beside a 1x1 convolution that matches the channels."""

    def __init__(self, inputs: int, outputs: int, stride: int, momentum: float) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            norm(inputs, momentum),
            nn.ReLU(),
            SameConv2d(inputs, outputs, 3, stride),
            norm(outputs, momentum),
            nn.ReLU(),
            SameConv2d(outputs, outputs, 3),
        )
        self.identity = nn.Conv2d(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return self.identity(x) + self.residual(x)


def trunk(kind: str, channels: int, width: int, momentum: float) -> list[nn.Module]:
    """Returns the layers before the last group, which give 32 x width channels at half of the image's side."""
    narrow, wide = 16 * width, 32 * width
    if kind == "plain":
        return [
            SameConv2d(channels, narrow, 3),
            norm(narrow, momentum),
            nn.ReLU(),
            SameConv2d(narrow, wide, 3, 2),
        ]
    return [SameConv2d(channels, 16, 3), Block(16, narrow, 1, momentum), Block(narrow, wide, 2, momentum)]


def narrowed(width: int, momentum: float) -> list[nn.Module]:
    """Returns BN-ReLU-conv3x3 of stride 2, to the D = 64 x width channels of the last map."""
    return [norm(32 * width, momentum), nn.ReLU(), SameConv2d(32 * width, 64 * width, 3, 2)]


class ConvNetwork(nn.Module):
    """WRN-10; with the plain trunk, its last group has no identity beside it."""

    layout: torch.memory_format = LAYOUT

    def __init__(self, kind: str, channels: int, width: int, classes: int, momentum: float) -> None:
        super().__init__()
        last = 64 * width
        if kind == "plain":
            group = [*narrowed(width, momentum), norm(last, momentum), nn.ReLU(), SameConv2d(last, last, 3)]
        else:
            group = [Block(32 * width, last, 2, momentum)]
        self.body = nn.Sequential(*trunk(kind, channels, width, momentum), *group, norm(last, momentum), nn.ReLU())
        self.dense = nn.Linear(last, classes)

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B c"]:
        return self.dense(self.body(x.contiguous(memory_format=self.layout)).mean((2, 3)))


class PatchLayer(nn.Module):
    """k experts, BN-ReLU-conv each, of which expert s sees the patches that its gate keeps; then BN-ReLU and pooling.

    Unkept patches are zeros, which count in the experts' batch norm, as in the authors' code.

    Args:
      channels: D.
      experts, patches_per_expert: k and l.
      side: of a patch, in cells; experts convolve with 1x1 for patches of one cell, else with 3x3.
      gates: "learned", "none", "random" or "soft".
      over_kept: whether the softmax runs over the kept patches (eq. 5) or over all (the authors' code).
      sparse: whether to compute kept patches only, where patches are one cell.
    """

    def __init__(
        self,
        channels: int,
        experts: int,
        patches_per_expert: int,
        *,
        side: int = 1,
        gates: str = "learned",
        over_kept: bool = False,
        sparse: bool = True,
        momentum: float = 0.01,
    ) -> None:
        super().__init__()
        self.experts, self.keep, self.side, self.kind = experts, patches_per_expert, side, gates
        self.over_kept, self.sparse = over_kept, sparse and side == 1
        self.gates = Gates(experts, channels, side) if gates in ("learned", "soft") else None
        self.norm = norm(experts * channels, momentum)
        self.conv = SameConv2d(channels, channels, 1 if side == 1 else 3)  # rows s D/k ... (s+1) D/k are expert s
        self.last = norm(channels, momentum)
        self.random = torch.Generator()  # of random gates while training; evaluation starts a new one each time
        self.seed = 0

    def seeded(self, seed: int) -> None:
        """Sets the stream of random gates."""
        self.seed = seed
        self.random.manual_seed(seed)

    def routed(self, x: Float[Tensor, "B D h w"]) -> RoutedImages:
        """Routes the patches to the experts (gates: eq. 5)."""
        shape = (len(x), self.experts, (x.shape[2] // self.side) * (x.shape[3] // self.side))
        if self.kind == "none":
            return RoutedImages(x.new_ones(shape), None)
        if self.gates is None:
            random = self.random if self.training else torch.Generator().manual_seed(self.seed)
            index = torch.rand(shape, generator=random, device="cpu").topk(self.keep, 2, sorted=False).indices
            index = index.to(x.device)
            return RoutedImages(torch.zeros(shape, dtype=x.dtype, device=x.device).scatter(2, index, 1.0), index)
        scores = self.gates(x).flatten(2)
        if self.kind == "soft":
            return RoutedImages(scores.softmax(2), None)
        places = scores.detach().sort(dim=2, descending=True, stable=True).indices[..., : self.keep]
        values = scores.gather(2, places).softmax(2) if self.over_kept else scores.softmax(2).gather(2, places)
        return RoutedImages(torch.zeros_like(scores).scatter(2, places, values), places)

    def forward(self, x: Float[Tensor, "B D h w"]) -> Float[Tensor, "B D"]:
        return self.pooled(x, self.routed(x))

    def pooled(self, x: Float[Tensor, "B D h w"], routed: RoutedImages) -> Float[Tensor, "B D"]:
        """Computes the mean over all cells of the experts' outputs on their patches, after BN-ReLU."""
        if routed.places is None or not self.sparse:
            return self.masked(x, routed.gates)
        return self.gathered(x, routed.gates.gather(2, routed.places), routed.places)

    def masked(self, x: Float[Tensor, "B D h w"], gates: Float[Tensor, "B k n"]) -> Float[Tensor, "B D"]:
        """Computes every expert on all cells, with those of unkept patches multiplied by zero."""
        batch, channels, height, width = x.shape
        maps = gates.view(batch, self.experts, height // self.side, width // self.side)
        if self.side > 1:
            maps = maps.repeat_interleave(self.side, 2).repeat_interleave(self.side, 3)
        answers = []
        for expert, (weight, bias) in enumerate(self._convolutions()):
            own = slice(expert * channels, (expert + 1) * channels)
            of_all = self.norm.running_mean, self.norm.running_var
            mean, variance = (average[own].clone() for average in of_all)  # type: ignore[index]
            learned = self.norm.weight[own], self.norm.bias[own]
            z = x if self.kind == "none" else x * maps[:, expert : expert + 1]
            momentum, epsilon = self.norm.momentum or 0, self.norm.eps
            z = functional.batch_norm(z, mean, variance, *learned, self.training, momentum, epsilon)
            for average, new in zip(of_all, (mean, variance), strict=True):
                average[own].copy_(new)  # type: ignore[index]
            answers.append(same_conv2d(z.relu_(), weight, bias))
        return self.last(torch.cat(answers, 1)).relu_().mean((2, 3))

    def gathered(
        self, x: Float[Tensor, "B D h w"], gates: Float[Tensor, "B k l"], index: Int[Tensor, "B k l"]
    ) -> Float[Tensor, "B D"]:
        """Computes `masked` on kept cells only; an expert's output on all others is the same, and is computed once."""
        batch, channels = x.shape[:2]
        experts, keep = index.shape[1:]
        cells = x.permute(0, 2, 3, 1).reshape(-1, channels)  # no copy of a channels-last map
        count = len(cells) // batch
        rows = index.transpose(0, 1) + torch.arange(batch, device=x.device)[:, None] * count
        kept = cells.index_select(0, rows.reshape(-1)).view(experts, batch * keep, channels)
        kept = kept * gates.transpose(0, 1).reshape(experts, -1, 1)
        kept, fill = _norm_relu(self.norm, kept, kept.new_zeros(experts, channels), len(cells))
        weight = self.conv.weight.view(experts, -1, channels)
        bias = self.conv.bias.view(experts, 1, -1)  # type: ignore[union-attr]
        kept = torch.baddbmm(bias, kept, weight.mT)
        fill = torch.baddbmm(bias, fill[:, None], weight.mT)[:, 0]
        kept, fill = _norm_relu(self.last, kept, fill, len(cells))
        total = kept.view(experts, batch, keep, -1).sum(2) + (count - keep) * fill[:, None]
        return total.transpose(0, 1).reshape(batch, -1) / count

    def _convolutions(self) -> list[tuple[Tensor, Tensor]]:
        """Weight and bias of each expert."""
        bias: Tensor = self.conv.bias  # type: ignore[assignment]
        return list(zip(self.conv.weight.chunk(self.experts), bias.chunk(self.experts), strict=True))


def _norm_relu(
    layer: nn.BatchNorm2d, rows: Float[Tensor, "k r c"], fill: Float[Tensor, "k c"], total: int
) -> tuple[Float[Tensor, "k r c"], Float[Tensor, "k c"]]:
    """BN-ReLU of `total` rows of each expert of which all but the first r are equal to `fill`."""
    if layer.training:
        rest = total - rows.shape[1]
        mean = (rows.sum(1) + rest * fill) / total
        variance = ((rows - mean[:, None]).square().sum(1) + rest * (fill - mean).square()) / total
        if layer.running_mean is not None and layer.running_var is not None:
            with torch.no_grad():
                unbiased = variance.flatten() * (total / (total - 1))
                for average, of_batch in ((layer.running_mean, mean.flatten()), (layer.running_var, unbiased)):
                    average += (layer.momentum or 0) * (of_batch - average)  # lerp_ cannot be batched
    else:
        mean, variance = (part.view_as(fill) for part in (layer.running_mean, layer.running_var))  # type: ignore[union-attr]
    scale = layer.weight.view_as(fill) * torch.rsqrt(variance + layer.eps)
    shift = layer.bias.view_as(fill) - mean * scale
    return torch.addcmul(shift[:, None], rows, scale[:, None]).relu_(), torch.addcmul(shift, fill, scale).relu_()


class PatchNetwork(nn.Module):
    """A trunk, the convolution to D channels, the layer of experts and a dense layer."""

    layout: torch.memory_format = LAYOUT

    def __init__(self, kind: str, channels: int, width: int, classes: int, momentum: float, layer: PatchLayer) -> None:
        super().__init__()
        self.body = nn.Sequential(*trunk(kind, channels, width, momentum), *narrowed(width, momentum))
        self.layer = layer
        self.dense = nn.Linear(64 * width, classes)

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B c"]:
        return self.routed(x)[0]

    def routed(self, x: Float[Tensor, "B C H W"]) -> tuple[Float[Tensor, "B c"], RoutedImages]:
        """Computes the logits and the routing."""
        cells = self.body(x.contiguous(memory_format=self.layout))
        routed = self.layer.routed(cells)
        return self.dense(self.layer.pooled(cells, routed)), routed
