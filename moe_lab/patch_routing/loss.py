"""The loss of a batch with its derivative, which every step begins with.

Shapes: T trials, B samples per batch, c outputs (one for two classes, else one per class).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Loss(NamedTuple):
    """The loss of each sample of a batch."""

    value: Float[Tensor, "T B"]
    slope: Float[Tensor, "T c B"]  # derivative with respect to f
    right: Tensor  # (T, B) bool, whether the sample is classified correctly


def loss_of(outputs: Float[Tensor, "T c B"], labels: Int[Tensor, "T B"]) -> Loss:
    """Computes the logistic loss log(1 + exp(-y f)) for one output (eq. 2), else the cross-entropy (eq. 24)."""
    if outputs.shape[1] == 1:
        minus_y = labels.to(outputs.dtype).mul_(2).sub_(1)
        minus_margin = minus_y * outputs[:, 0]  # -y f
        slope = (minus_y * minus_margin.sigmoid())[:, None]
        return Loss(torch.nn.functional.softplus(minus_margin), slope, minus_margin < 0)
    own_class = labels[:, None]
    log_probabilities = outputs.log_softmax(dim=1)
    slope = log_probabilities.exp().scatter_add(1, own_class, -torch.ones_like(log_probabilities[:, :1]))
    return Loss(-log_probabilities.gather(1, own_class)[:, 0], slope, outputs.argmax(dim=1) == labels)


def relu_slope(slope: Tensor, hidden: Tensor) -> Tensor:
    """Returns the slope where the ReLU is active, else 0; autograd's kernel, far cheaper than torch.where."""
    return torch.ops.aten.threshold_backward(slope, hidden, 0)
