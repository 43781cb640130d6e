"""Two-layer CNN experts and their gradients (chen2022, eq. 3.1), with each sample dispatched to one expert.

    f_m(x) = sum_j a_j sum_p sigma(<w_mj, x^(p)>)        a_j = 1 for odd activations, else half of them are -1

Implementations of the same mathematics, chosen by `experts_for`:

- `DispatchedExperts`: samples sorted by expert, and two matrix products per expert.
- The same in the signal basis (see `basis`), for generated data: only the random noise is sorted.
- `LinearExperts`: the output depends only on sum_j a_j w_mj, one vector per expert.
- `MaskedExperts`, for CUDA and MPS: every expert computes its output for every sample, and a mask selects one. More
  arithmetic, but no synchronization to sort.

Shapes: T trials, M experts of J filters, N samples with Q patches of d numbers that need a product, D directions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from moe_lab.core.graphs import on_accelerator
from moe_lab.specialization.activations import ACTIVATIONS, Activation
from moe_lab.specialization.basis import SignalBasis, make_basis, rows_of
from moe_lab.specialization.data import Samples

_NUMBERS_IN_CACHE = 2**18
"""Of the rows that go through both products together: more leave the cache, fewer cost more small operations."""


@dataclass(frozen=True)
class Inputs:
    """Samples in the form in which experts and routers use them.

    Attributes:
      totals: (T, N, d) the sum of a sample's patches, the input of routers and linear experts.
      rows: (T, N, Q, d) the patches that need a matrix product each.
      basis: the signal patches in the signal basis; None if they are among the rows.
      labels: (T, N) -1. or +1.
      clusters: (T, N) k.
    """

    totals: Float[Tensor, "T N d"]
    rows: Float[Tensor, "T N Q d"]
    basis: SignalBasis | None
    labels: Float[Tensor, "T N"]
    clusters: Int[Tensor, "T N"]

    @property
    def samples(self) -> int:
        return int(self.labels.shape[1])


def make_inputs(samples: Samples, activation: str, *, biases: bool = False, signal_basis: bool | None = None) -> Inputs:
    """Prepares samples for experts with a given activation.

    Args:
      biases: whether filters have biases; if so, every patch gets an extra 1, and a filter's last weight is its bias.
      signal_basis: whether to use the signal basis; None uses it where possible.

    Raises:
      ValueError: signal_basis is True, but these experts have no signal basis.
    """
    kind = rows_of(activation, biases, signal_basis)
    signal = samples.signal_patches()  # (T, N, 3, d)
    totals = signal.sum(2) + samples.noise.sum(2)
    if kind == "all":
        rows = torch.cat((signal, samples.noise), dim=2)
    else:
        rows = samples.noise if kind == "noise" else totals.new_empty(*totals.shape[:2], 0, totals.shape[2])
    if biases:
        patches = signal.shape[2] + samples.noise.shape[2]
        totals = torch.cat((totals, totals.new_full((*totals.shape[:2], 1), patches)), dim=-1)
        rows = torch.cat((rows, rows.new_ones((*rows.shape[:3], 1))), dim=-1)
    return Inputs(
        totals.contiguous(),
        rows.contiguous(),
        make_basis(samples, activation, biases) if kind == "noise" else None,
        samples.labels.to(totals.dtype),
        samples.clusters,
    )


Link = Callable[[Tensor], Tensor]
"""The derivative of a sample's loss with respect to its margin y g f, elementwise."""


class Dispatch(NamedTuple):
    """The expert to which each sample is dispatched: as one-hot columns, and as an index."""

    one_hot: Float[Tensor, "T M N"]
    expert: Int[Tensor, "T N"]

    def at(self, values: Float[Tensor, "T M N"]) -> Float[Tensor, "T N"]:
        """Returns each sample's value at its expert."""
        return values.gather(1, self.expert[:, None])[:, 0]

    def spread(self, values: Float[Tensor, "T N"]) -> Float[Tensor, "T M N"]:
        """Returns each sample's value at its expert, 0 at the others."""
        return self.one_hot * values[:, None]


@cache
def _count_and_index(experts: int, dtype: torch.dtype) -> Float[Tensor, "2 M"]:
    """Makes the matrix whose product with one-hot columns is the number of ones and the index of a single one."""
    return torch.stack((torch.ones(experts, dtype=dtype), torch.arange(experts, dtype=dtype)))


def dispatch(scores: Float[Tensor, "T M N"]) -> Dispatch:
    """Dispatches each sample to the expert with the largest score, ties to the lowest index (chen2022, section 3.2).

    Equal to `routing.switch` with fewer operations: without ties, comparing with the largest score suffices.
    """
    largest = (scores == scores.amax(1, keepdim=True)).to(scores.dtype)
    if not on_accelerator(scores.device):
        winners, expert = (_count_and_index(scores.shape[1], scores.dtype) @ largest).unbind(1)
        if (winners == 1).all():
            return Dispatch(largest, expert.long())
    expert = scores.max(1).indices  # ties or NaN
    return Dispatch(torch.zeros_like(scores).scatter_(1, expert[:, None], 1), expert)


class Experts(ABC):
    """Experts of one architecture, bound to a set of samples; `signs` are a_j."""

    def __init__(self, inputs: Inputs, activation: str, signs: Float[Tensor, " J"]) -> None:
        self.inputs, self.signs = inputs, signs
        self.activation: Activation = ACTIVATIONS[activation]
        self.one_sign = bool((signs == 1).all())

    @abstractmethod
    def gradient(
        self, weights: Float[Tensor, "T M J d"], sent: Dispatch, gates: Float[Tensor, "T N"], link: Link
    ) -> tuple[Float[Tensor, "T N"], Float[Tensor, "T N"], Float[Tensor, "T M J d"]]:
        """Computes outputs and gradient with each sample at its expert.

        Args:
          sent: the expert of each sample.
          gates: y g, the label times the factor of f.
          link: derivative of the loss with respect to the margin y g f.

        Returns:
          f of each sample, the derivative of its loss in f, and the gradient of the summed losses.
        """

    @abstractmethod
    def every(self, weights: Float[Tensor, "T M J d"]) -> Float[Tensor, "T M N"]:
        """Computes f of every sample at every expert."""

    def signal(self, weights: Tensor) -> tuple[Tensor, Any] | None:
        """Computes the outputs for the signal patches; None without a signal basis."""
        return None if self.inputs.basis is None else self.inputs.basis.outputs(weights, self.signs)

    def signal_gradient(self, saved: Any, slopes: Tensor) -> Tensor:
        assert self.inputs.basis is not None
        return self.inputs.basis.gradient(saved, slopes, self.signs)


def experts_for(inputs: Inputs, activation: str, signs: Float[Tensor, " J"]) -> Experts:
    """Makes experts with the implementation that is fastest on the inputs' device."""
    if activation == "linear":
        return LinearExperts(inputs, activation, signs)
    kind = MaskedExperts if on_accelerator(inputs.totals.device) else DispatchedExperts
    return kind(inputs, activation, signs)


class LinearExperts(Experts):
    """sigma(z) = z: f_m depends only on u_m = sum_j a_j w_mj, and all filters of an expert have the same gradient."""

    def every(self, weights: Tensor) -> Tensor:
        return (self.signs @ weights) @ self.inputs.totals.mT

    def gradient(self, weights: Tensor, sent: Dispatch, gates: Tensor, link: Link) -> tuple[Tensor, Tensor, Tensor]:
        outputs = sent.at(self.every(weights))
        slopes = link(gates * outputs).mul_(gates)
        by_vector = sent.spread(slopes) @ self.inputs.totals  # (T, M, d)
        return outputs, slopes, self.signs[:, None] * by_vector[:, :, None]


def _groups(ends: Sequence[int], least: int) -> Iterator[slice]:
    """Divides experts, whose sorted samples end at `ends`, into groups of at least `least` samples but for the last."""
    first, begin = 0, 0
    for number, end in enumerate(ends, 1):
        if end - begin >= least or (number == len(ends) and end > begin):
            yield slice(first, number)
            first, begin = number, end


class DispatchedExperts(Experts):
    """Samples sorted by expert: one matrix product per expert and trial in the forward pass, one in the backward.

    A group of experts goes through both before the next one's rows are gathered, while its own are still in the cache.
    """

    def gradient(self, weights: Tensor, sent: Dispatch, gates: Tensor, link: Link) -> tuple[Tensor, Tensor, Tensor]:
        signal = self.signal(weights)
        outputs = torch.zeros_like(gates) if signal is None else sent.at(signal[0])
        gradient = torch.zeros_like(weights)
        if self.inputs.rows.shape[2]:
            slopes = self._through_rows(weights.flatten(0, 1), sent, gates, outputs, gradient.flatten(0, 1), link)
        else:
            slopes = link(gates * outputs).mul_(gates)
        if signal is not None:
            gradient += self.signal_gradient(signal[1], sent.spread(slopes))
        return outputs, slopes, gradient

    def _through_rows(
        self,
        weights: Float[Tensor, "TM J d"],
        sent: Dispatch,
        gates: Float[Tensor, "T N"],
        outputs: Float[Tensor, "T N"],
        gradient: Float[Tensor, "TM J d"],
        link: Link,
    ) -> Float[Tensor, "T N"]:
        """Adds the contribution of the rows to outputs and gradient; returns the derivatives of the losses in f."""
        (trials, experts, _), (patches, d) = sent.one_hot.shape, self.inputs.rows.shape[2:]
        keys = sent.expert.numpy() + np.arange(0, trials * experts, experts)[:, None]
        keys = keys.ravel().astype(np.uint8 if len(weights) <= 256 else np.int64)  # sorting bytes is 10 times faster
        order = torch.from_numpy(np.argsort(keys, kind="stable"))
        ends = np.cumsum(sent.one_hot.sum(2).flatten().numpy().astype(np.int64)).tolist()

        every, slopes = self.inputs.rows.flatten(0, 1).flatten(1), torch.empty_like(gates).flatten()
        sorted_outputs, sorted_gates = outputs.view(-1).index_select(0, order), gates.flatten().index_select(0, order)
        for group in _groups(ends, max(1, _NUMBERS_IN_CACHE // (patches * d))):
            samples = slice(ends[group.start - 1] if group.start else 0, ends[group.stop - 1])
            parts = [
                slice(patches * (begin - samples.start), patches * (end - samples.start))
                for begin, end in pairwise([samples.start, *ends[group]])
            ]
            rows = every.index_select(0, order[samples]).view(-1, d)  # sorted by expert
            products = rows.new_empty(weights.shape[1], len(rows))
            for filters, part in zip(weights[group], parts, strict=True):
                torch.mm(filters, rows[part].T, out=products[:, part])
            values, filter_slopes = self.activation.pair(products)  # (J, rows)
            found, own_gates = sorted_outputs[samples].add_(self.pooled(values, patches)), sorted_gates[samples]
            own_slopes = torch.mul(link(own_gates * found), own_gates, out=slopes[samples])
            row_slopes = own_slopes if patches == 1 else own_slopes.repeat_interleave(patches)
            filter_slopes *= row_slopes if self.one_sign else self.signs[:, None] * row_slopes
            for by_filters, part in zip(gradient[group], parts, strict=True):
                by_filters.addmm_(filter_slopes[:, part], rows[part])
        outputs.view(-1).index_copy_(0, order, sorted_outputs)
        return torch.empty_like(gates).view(-1).index_copy_(0, order, slopes).view_as(gates)

    def pooled(self, values: Float[Tensor, "*M J NQ"], patches: int) -> Float[Tensor, "*M N"]:
        """Sums filter outputs over the filters, with their signs, and over a sample's patches."""
        per_patch = values.sum(-2) if self.one_sign else self.signs @ values
        return per_patch if patches == 1 else per_patch.unflatten(-1, (-1, patches)).sum(-1)

    def every(self, weights: Tensor) -> Tensor:
        signal, patches = self.signal(weights), self.inputs.rows.shape[2]
        if signal is not None and not patches:  # no noise patches
            return signal[0]
        values, _ = self.activation.pair(weights.flatten(1, 2) @ self.inputs.rows.flatten(1, 2).mT)
        outputs = self.pooled(values.unflatten(1, weights.shape[1:3]), patches)
        return outputs if signal is None else outputs + signal[0]


class MaskedExperts(Experts):
    """Every expert computes its output for every sample, for devices on which synchronizing is slower."""

    def row_outputs(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Returns every expert's output for the rows, (T, M, N), and the filters' derivatives, (T, Q, M, J, N)."""
        shape = weights.shape[1:3]
        values, slopes = self.activation.pair(weights.flatten(1, 2)[:, None] @ self.inputs.rows.permute(0, 2, 3, 1))
        return self.signs @ values.sum(1).unflatten(1, shape), slopes.unflatten(2, shape)

    def every(self, weights: Tensor) -> Tensor:
        signal, (outputs, _) = self.signal(weights), self.row_outputs(weights)
        return outputs if signal is None else outputs + signal[0]

    def gradient(self, weights: Tensor, sent: Dispatch, gates: Tensor, link: Link) -> tuple[Tensor, Tensor, Tensor]:
        signal, (every, filter_slopes) = self.signal(weights), self.row_outputs(weights)
        outputs = sent.at(every if signal is None else every + signal[0])
        slopes = link(gates * outputs).mul_(gates)
        at_experts = sent.spread(slopes)
        signed = at_experts[:, :, None] * self.signs[:, None]  # (T, M, J, N)
        weighted = (filter_slopes * signed[:, None]).flatten(2, 3)  # (T, Q, M J, N)
        gradient = (weighted @ self.inputs.rows.transpose(1, 2)).sum(1).view_as(weights)
        if signal is not None:
            gradient = gradient + self.signal_gradient(signal[1], at_experts)
        return outputs, slopes, gradient
