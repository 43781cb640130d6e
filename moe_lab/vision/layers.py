"""Layers as Keras has them, weights drawn from a trial's own stream, and what a network costs.

The authors of pmoe2023 use Keras, whose defaults differ from torch's: batch norm averages with a momentum of .99
(torch's .01) and has an epsilon of .001, "same" convolutions of stride 2 pad right and below only, and weights start
with Glorot's uniform distribution and zero biases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from moe_lab.core.trials import Draw

Start = Literal["keras", "torch"]
GATE_SPREAD = 1e-4
"""Standard deviation of the gates' first weights (pmoe2023, the authors' code)."""


class SameConv2d(nn.Conv2d):
    """A convolution whose output has 1 / stride of the input's side, rounded up, padded as Keras and TensorFlow do.

    Where the padding is odd, the larger half goes right and below: with a kernel of 3, a stride of 2 and an even side
    that is one row below and one column to the right, and none above or to the left.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride)

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D h w"]:
        return same_conv2d(x, self.weight, self.bias, self.stride[0])


def same_conv2d(x: Tensor, weight: Tensor, bias: Tensor | None, stride: int = 1) -> Tensor:
    """Convolves with the padding of `SameConv2d`."""
    kernel = weight.shape[-1]
    totals = [max((-(-side // stride) - 1) * stride + kernel - side, 0) for side in x.shape[-2:]]
    if any(total % 2 for total in totals):
        (top, bottom), (left, right) = ((total // 2, total - total // 2) for total in totals)
        return functional.conv2d(functional.pad(x, (left, right, top, bottom)), weight, bias, stride)
    return functional.conv2d(x, weight, bias, stride, padding=[total // 2 for total in totals])


class Gates(nn.Module):
    """Router weights of k experts, each a filter of the size of a patch, without bias.

    Shapes: weight (k, channels, side, side).
    """

    def __init__(self, experts: int, channels: int, side: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(experts, channels, side, side))

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B k h w"]:
        return functional.conv2d(x, self.weight, stride=self.weight.shape[-1])


def norm(channels: int, momentum: float = 0.01) -> nn.BatchNorm2d:
    """Returns a batch norm with Keras's epsilon; its momentum of .99 is torch's .01."""
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=momentum)


# --- weights --------------------------------------------------------------------------------------------------------


def made(
    build: Callable[[], nn.Module], random: np.random.Generator, start: Start, device: torch.device, dtype: torch.dtype
) -> nn.Module:
    """Builds a network and draws its weights from `random`, in float64 and in the order of its modules."""
    with torch.device("meta"):  # so that torch draws nothing from its global stream
        network = build()
    raw = {name: torch.as_tensor(draw.of(random)) for name, draw in draws_of(network).items()}
    first = first_weights(network, raw, start)
    for module in network.modules():
        _allocate(module, device, dtype)
        if isinstance(module, nn.BatchNorm2d):
            module.reset_running_stats()
    with torch.no_grad():
        for name, weight in network.named_parameters():
            weight.copy_(first[name])
    return network


def draws_of(network: nn.Module) -> dict[str, Draw]:
    """Returns the raw numbers of a network's first weights by parameter, in the order in which they are drawn."""
    found: dict[str, Draw] = {}
    for place, module in network.named_modules():
        if not isinstance(module, Gates | nn.Conv2d | nn.Linear):
            continue
        kind: Literal["normal", "uniform"] = "normal" if isinstance(module, Gates) else "uniform"
        for name, weight in module.named_parameters(recurse=False):
            found[f"{place}.{name}".lstrip(".")] = Draw("weights", tuple(weight.shape), kind)
    return found


def first_weights(network: nn.Module, raw: Mapping[str, Tensor], start: Start) -> dict[str, Tensor]:
    """Makes a network's first weights (..., *shape) of raw numbers, those of batch norm as one weight of all trials."""
    first: dict[str, Tensor] = {}
    for place, module in network.named_modules():
        own = {name: f"{place}.{name}".lstrip(".") for name, _ in module.named_parameters(recurse=False)}
        if isinstance(module, nn.BatchNorm2d):
            first[own["weight"]] = torch.ones(module.num_features, dtype=torch.float64)
            first[own["bias"]] = torch.zeros(module.num_features, dtype=torch.float64)
        elif isinstance(module, Gates):
            first[own["weight"]] = GATE_SPREAD * raw[own["weight"]]
        elif isinstance(module, nn.Conv2d | nn.Linear):
            limits = dict(zip(("weight", "bias"), _limits(module, start), strict=True))
            first |= {whole: limits[name] * (2 * raw[whole] - 1) for name, whole in own.items()}
    return first


def _allocate(module: nn.Module, device: torch.device, dtype: torch.dtype) -> None:
    """Gives the parameters and buffers of a module memory; `Module.to_empty` loads a package of symbols to do so."""
    for name, weight in list(module.named_parameters(recurse=False)):
        setattr(module, name, nn.Parameter(torch.empty(weight.shape, device=device, dtype=dtype)))
    for name, buffer in list(module.named_buffers(recurse=False)):
        kind = dtype if buffer.is_floating_point() else buffer.dtype
        setattr(module, name, torch.empty(buffer.shape, device=device, dtype=kind))


def _limits(module: nn.Conv2d | nn.Linear, start: Start) -> tuple[float, float]:
    """Largest first weight and bias: Glorot's and 0 (Keras), or 1 / sqrt(inputs) of both (torch)."""
    cells = module.weight[0, 0].numel() if isinstance(module, nn.Conv2d) else 1
    inputs, outputs = module.weight.shape[1] * cells, module.weight.shape[0] * cells
    if start == "keras":
        return float(np.sqrt(6 / (inputs + outputs))), 0.0
    return float(inputs**-0.5), float(inputs**-0.5)


# --- costs ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Count:
    """The costs of a network.

    Attributes:
      parameters: trained numbers; moving averages of batch norm are not among them.
      macs: multiplications, each with an addition, of convolutions and dense layers in one image's forward pass.
      macs_skipping: the same where experts leave out patches that they do not keep; the authors' code multiplies them
        by zero instead, and spends `macs`.
      training_flops: of one image in one training step: two FLOPs per multiplication, forward and twice that backward,
        less the gradient of the image itself, which nothing needs.
    """

    parameters: int
    macs: int
    macs_skipping: int
    training_flops: int


def count(build: Callable[[], nn.Module], image: tuple[int, int, int], skipped: int = 0) -> Count:
    """Counts a network's parameters and, by running it on tensors without storage, its multiplications.

    Args:
      image: channels, height and width.
      skipped: multiplications for patches that no expert keeps.
    """
    from torch.utils.flop_counter import FlopCounterMode  # here: its use loads torch's compiler, which takes seconds

    with torch.device("meta"):
        network = build()
        x = torch.empty(1, *image)
    with FlopCounterMode(display=False) as forward:
        output = network.eval()(x)
    with FlopCounterMode(display=False) as backward:
        output.sum().backward()
    macs = forward.get_total_flops() // 2
    training = forward.get_total_flops() + backward.get_total_flops()
    return Count(sum(part.numel() for part in network.parameters()), macs, macs - skipped, training)


def about_operations(network: nn.Module, image: tuple[int, int, int]) -> int:
    """Estimates a step's operations per image, as if every weight worked on each cell of the last map.

    `count` is exact, and takes seconds the first time.
    """
    cells = image[1] * image[2] // 16
    return 6 * cells * sum(weight.numel() for weight in network.parameters())
