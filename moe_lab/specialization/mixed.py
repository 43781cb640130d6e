"""Outputs and gradients of mixtures that send a sample to several experts, whose weighted outputs are added.

The counterpart of `Experts.gradient`, which knows one expert per sample: the derivative of a sample's loss depends on
the outputs of all its experts. On a CPU, pairs of a sample and an expert are sorted by expert, so that each expert
takes two matrix products with its own samples; on an accelerator every expert computes every sample.

Shapes: T trials, E experts of J filters, S experts of a sample ("slots"), N samples, Q patches of d numbers.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from moe_lab.specialization.experts import DispatchedExperts, Experts, LinearExperts, Link, MaskedExperts


class Mixed(NamedTuple):
    """A pass through a mixture and back.

    Attributes:
      outputs: f of each sample's experts.
      margin: y F(x), with F the weighted sum of the outputs.
      slopes: the derivative of each sample's loss in F.
      gradient: of the summed losses.
    """

    outputs: Float[Tensor, "T S N"]
    margin: Float[Tensor, "T N"]
    slopes: Float[Tensor, "T N"]
    gradient: Float[Tensor, "T E J d"]


def mixed_gradient(
    experts: Experts,
    weights: Float[Tensor, "T E J d"],
    slots: Int[Tensor, "T S N"],
    factors: Float[Tensor, "T S N"],
    link: Link,
) -> Mixed:
    """Computes outputs and gradient with each sample at its experts.

    Args:
      experts: bound to the samples.
      slots: the experts of each sample, all different.
      factors: of their outputs in F.
      link: derivative of the loss with respect to the margin y F.
    """
    if isinstance(experts, DispatchedExperts) and experts.inputs.rows.shape[2]:
        return _sorted(experts, weights, slots, factors, link)
    return _dense(experts, weights, slots, factors, link)


def _ends(
    labels: Tensor, outputs: Float[Tensor, "T S N"], factors: Float[Tensor, "T S N"], link: Link
) -> tuple[Float[Tensor, "T N"], Float[Tensor, "T N"]]:
    """Returns the margins and the derivatives of the losses in F."""
    margin = labels * (factors * outputs).sum(1)
    return margin, link(margin) * labels


def _spread(values: Float[Tensor, "T S N"], slots: Int[Tensor, "T S N"], experts: int) -> Float[Tensor, "T E N"]:
    """Returns the values at each sample's experts, 0 at the others."""
    trials, _, samples = slots.shape
    return values.new_zeros(trials, experts, samples).scatter_(1, slots, values)


def _dense(experts: Experts, weights: Tensor, slots: Tensor, factors: Tensor, link: Link) -> Mixed:
    """Every expert computes every sample."""
    inputs, count = experts.inputs, weights.shape[1]
    signal = experts.signal(weights)
    rows = experts.row_outputs(weights) if isinstance(experts, MaskedExperts) else None
    if isinstance(experts, LinearExperts):
        every = experts.every(weights)
    else:
        parts = [part[0] for part in (signal, rows) if part is not None]
        every = sum(parts[1:], parts[0])
    outputs = every.gather(1, slots)
    margin, slopes = _ends(inputs.labels, outputs, factors, link)
    at_experts = _spread(slopes[:, None] * factors, slots, count)
    gradient = torch.zeros_like(weights)
    if isinstance(experts, LinearExperts):
        gradient += experts.signs[:, None] * (at_experts @ inputs.totals)[:, :, None]
    if rows is not None:
        signed = at_experts[:, :, None] * experts.signs[:, None]  # (T, E, J, N)
        weighted = (rows[1] * signed[:, None]).flatten(2, 3)  # (T, Q, E J, N)
        gradient += (weighted @ inputs.rows.transpose(1, 2)).sum(1).view_as(weights)
    if signal is not None:
        gradient += experts.signal_gradient(signal[1], at_experts)
    return Mixed(outputs, margin, slopes, gradient)


def _sorted(experts: DispatchedExperts, weights: Tensor, slots: Tensor, factors: Tensor, link: Link) -> Mixed:
    """Pairs of a sample and an expert sorted by expert."""
    inputs, pairs = experts.inputs, _Pairs(slots, weights.shape[1])
    patches, d = inputs.rows.shape[2:]
    signal = experts.signal(weights)
    rows = inputs.rows.flatten(0, 1).flatten(1).index_select(0, pairs.samples).view(-1, d)
    products = rows.new_empty(weights.shape[2], len(rows))
    parts = [slice(begin * patches, end * patches) for begin, end in pairs.parts]
    for filters, part in zip(weights.flatten(0, 1), parts, strict=True):
        torch.mm(filters, rows[part].T, out=products[:, part])
    values, derivatives = experts.activation.pair(products)
    outputs = pairs.back(experts.pooled(values, patches))
    if signal is not None:
        outputs += signal[0].gather(1, slots)
    margin, slopes = _ends(inputs.labels, outputs, factors, link)
    by_outputs = slopes[:, None] * factors
    by_rows = by_outputs.flatten().index_select(0, pairs.order).repeat_interleave(patches)
    derivatives *= by_rows if experts.one_sign else experts.signs[:, None] * by_rows
    gradient = torch.zeros_like(weights)
    for by_filters, part in zip(gradient.flatten(0, 1), parts, strict=True):
        by_filters.addmm_(derivatives[:, part], rows[part])
    if signal is not None:
        gradient += experts.signal_gradient(signal[1], _spread(by_outputs, slots, weights.shape[1]))
    return Mixed(outputs, margin, slopes, gradient)


class _Pairs:
    """All pairs of a sample and one of its experts, sorted by trial and expert.

    Attributes:
      order: the sorted pairs, as places in the flat (T, S, N).
      samples: of the sorted pairs, as places in the flat (T, N).
      parts: where each expert's pairs begin and end.
    """

    def __init__(self, slots: Int[Tensor, "T S N"], experts: int) -> None:
        trials, count, samples = self._shape = slots.shape
        keys = (slots.numpy() + np.arange(0, trials * experts, experts)[:, None, None]).ravel()
        if trials * experts <= 256:
            keys = keys.astype(np.uint8)  # sorting bytes is 10 times faster
        self.order = torch.from_numpy(np.argsort(keys, kind="stable"))
        self.samples = self.order // (count * samples) * samples + self.order % samples
        ends = np.bincount(keys, minlength=trials * experts).cumsum()
        self.parts = list(pairwise([0, *ends.tolist()]))

    def back(self, values: Float[Tensor, " pairs"]) -> Float[Tensor, "T S N"]:
        """Returns values of the sorted pairs where their samples and slots are."""
        return torch.empty_like(values).index_copy_(0, self.order, values).view(self._shape)
