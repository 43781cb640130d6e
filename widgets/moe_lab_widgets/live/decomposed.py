"""Operations that are recorded as others: batch norm and slopes as torch takes them apart, convolutions as products.

A convolution is one product for each group: of its weights, and of all patches of the images, side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

aten = torch.ops.aten
Size = Sequence[int]


@cache
def taken_apart(operation: Any) -> Callable[..., Any] | None:
    """Returns what computes an operation of torch by others; None for one that is recorded as it is."""
    if operation in _decompositions():
        return _decompositions()[operation]
    composite = torch._C.DispatchKey.CompositeImplicitAutograd
    return operation.decompose if operation.has_kernel_for_dispatch_key(composite) else None


@cache
def _decompositions() -> dict[Any, Callable[..., Any]]:
    from torch._decomp import get_decompositions  # here: it takes a second, which a Lab need not wait for

    known = get_decompositions(
        [
            aten.native_batch_norm,
            aten.native_batch_norm_backward,
            aten._log_softmax_backward_data,
            aten.select_backward,
            aten.select_scatter,
        ]
    )
    return {
        **known,
        aten.var_mean.correction: variance_and_mean,
        aten.convolution.default: convolution,
        aten.convolution_backward.default: convolution_backward,
    }


def variance_and_mean(
    x: Tensor, dimensions: list[int], *, correction: int = 1, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """Computes both, by the squared distances from the mean."""
    mean = x.mean(dimensions, keepdim=True)
    square = (x - mean).square().sum(dimensions, keepdim=keepdim)
    count = math.prod(x.shape[one] for one in dimensions)
    return square / (count - correction), mean if keepdim else mean.squeeze(dimensions)


def convolution(
    x: Float[Tensor, "B GC H W"],
    weight: Float[Tensor, "GD C K K"],
    bias: Float[Tensor, " GD"] | None,
    stride: Size,
    padding: Size,
    dilation: Size,
    transposed: bool,
    output_padding: Size,
    groups: int,
) -> Float[Tensor, "B GD h w"]:
    """Computes a convolution.

    Raises:
      NotImplementedError: it is dilated or transposed.
    """
    _plain_only(dilation, transposed)
    patches, (height, width) = _patches(x, weight, stride, padding, groups)
    outputs = torch.bmm(_by_cells(weight, groups), patches)
    if bias is not None:
        outputs = outputs + bias.view(groups, -1, 1)
    return outputs.view(len(weight), len(x), height, width).transpose(0, 1)


def convolution_backward(
    slope: Float[Tensor, "B GD h w"],
    x: Float[Tensor, "B GC H W"],
    weight: Float[Tensor, "GD C K K"],
    bias_sizes: Size | None,
    stride: Size,
    padding: Size,
    dilation: Size,
    transposed: bool,
    output_padding: Size,
    groups: int,
    wanted: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Computes the slopes by the images, the weights and the biases, those that are wanted."""
    _plain_only(dilation, transposed)
    patches, (height, width) = _patches(x, weight, stride, padding, groups)
    own = slope.transpose(0, 1).reshape(groups, len(weight) // groups, -1)
    by_image = by_weight = None
    if wanted[0]:
        by_cells = torch.bmm(_by_cells(weight, groups).mT, own)
        by_cells = by_cells.view(groups, *weight.shape[2:], weight.shape[1], len(x), height, width)
        padded = x.new_zeros(groups, weight.shape[1], len(x), *_padded(x, padding))
        for down, across, cut in _cuts(weight, stride, (height, width)):
            padded[cut] += by_cells[:, down, across]
        (top, left), (rows, columns) = padding, x.shape[2:]
        inner = padded[..., top : top + rows, left : left + columns]
        by_image = inner.permute(2, 0, 1, 3, 4).reshape(x.shape)
    if wanted[1]:
        whole = torch.bmm(own, patches.mT).view(len(weight), *weight.shape[2:], weight.shape[1])
        by_weight = whole.permute(0, 3, 1, 2).clone(memory_format=torch.contiguous_format)
    return by_image, by_weight, slope.sum((0, 2, 3)) if wanted[2] else None


def _patches(
    x: Tensor, weight: Tensor, stride: Size, padding: Size, groups: int
) -> tuple[Float[Tensor, "G KKC Bhw"], tuple[int, int]]:
    """Returns the numbers that each cell of the result is a product of, cell by cell, and how many cells there are."""
    top, left = padding
    padded = torch.constant_pad_nd(x, [left, left, top, top]) if top or left else x
    height, width = (
        (side - kernel) // step + 1
        for side, kernel, step in zip(padded.shape[2:], weight.shape[2:], stride, strict=True)
    )
    inputs = padded.unflatten(1, (groups, weight.shape[1])).permute(1, 2, 0, 3, 4)  # group, channel, image, cells
    cells = torch.stack([inputs[cut] for _, _, cut in _cuts(weight, stride, (height, width))], 1)
    return cells.reshape(groups, -1, len(x) * height * width), (height, width)


def _cuts(weight: Tensor, stride: Size, cells: Size) -> list[tuple[int, int, tuple[Any, ...]]]:
    """Returns for each cell of the kernel which numbers of a padded image it meets."""
    rows, columns = weight.shape[2:]
    ends = [(count - 1) * step + 1 for count, step in zip(cells, stride, strict=True)]
    return [
        (
            down,
            across,
            (..., slice(down, down + ends[0], stride[0]), slice(across, across + ends[1], stride[1])),
        )
        for down in range(rows)
        for across in range(columns)
    ]


def _by_cells(weight: Tensor, groups: int) -> Float[Tensor, "G D KKC"]:
    return weight.permute(0, 2, 3, 1).reshape(groups, len(weight) // groups, -1)


def _padded(x: Tensor, padding: Size) -> list[int]:
    return [side + 2 * more for side, more in zip(x.shape[2:], padding, strict=True)]


def _plain_only(dilation: Size, transposed: bool) -> None:
    if transposed or any(one != 1 for one in dilation):
        raise NotImplementedError("a page knows no convolution that is dilated or transposed")
