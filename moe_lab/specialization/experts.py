"""Two-layer CNN experts, forwards and backwards (chen2022, eq. 3.1), each sample at the one expert that it is sent to.

    f_m(x) = sum_j a_j sum_p sigma(<w_mj, x^(p)>)        a_j = 1 for odd activations, else half of them are -1

Three ways to the same numbers, chosen by `experts_for`:

- `DispatchedExperts`: samples sorted by expert, and two matrix products for each expert.
- The same in the signal basis (see `basis`), for generated data: only the random noise is left to sort.
- `LinearExperts`: sum_j a_j w_mj is all that counts, one vector an expert.

On CUDA and MPS every expert answers every sample and a mask picks one: more arithmetic, no waiting for the sort.

Shapes: T trials, M experts of J filters, N samples with Q patches of d numbers that need a product, D directions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from moe_lab.specialization.activations import ACTIVATIONS, Activation
from moe_lab.specialization.basis import SignalBasis, make_basis, rows_of
from moe_lab.specialization.data import Samples


@dataclass(frozen=True)
class Inputs:
    """Samples as the engine reads them.

    Attributes:
      totals: (T, N, d) the sum of a sample's patches, all that a router or a linear expert sees.
      rows: (T, N, Q, d) the patches that need a matrix product of their own.
      basis: the signal patches in the signal basis; None where they are among the rows.
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
    """The engine's arrays for samples.

    Args:
      activation: of the experts.
      biases: give every patch one more number, 1, so that a filter's last weight is its bias.
      signal_basis: whether to use it; None uses it wherever it can be.

    Raises:
      ValueError: a signal basis is asked for where there is none.
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
"""The slope of a sample's loss in its margin y g f, element by element."""


class Dispatch(NamedTuple):
    """Which expert each sample is sent to: as one-hot columns, and as a number."""

    sent: Float[Tensor, "T M N"]
    expert: Int[Tensor, "T N"]

    def at(self, values: Float[Tensor, "T M N"]) -> Float[Tensor, "T N"]:
        """Each sample's value at its expert."""
        return values.gather(1, self.expert[:, None])[:, 0]

    def spread(self, values: Float[Tensor, "T N"]) -> Float[Tensor, "T M N"]:
        """Each sample's value at its expert, 0 at the others."""
        return self.sent * values[:, None]


@cache
def _counters(experts: int, dtype: torch.dtype) -> Float[Tensor, "2 M"]:
    """Rows that tell how many experts have won, and which."""
    return torch.stack((torch.ones(experts, dtype=dtype), torch.arange(experts, dtype=dtype)))


def dispatch(scores: Float[Tensor, "T M N"]) -> Dispatch:
    """Sends each sample to the expert with the largest score, the lowest number among equals (chen2022, section 3.2).

    `routing.switch` in fewer operations: without ties, the places of the largest score are the answer already.
    """
    sent = (scores == scores.amax(1, keepdim=True)).to(scores.dtype)
    if scores.device.type == "cpu":
        winners, expert = (_counters(scores.shape[1], scores.dtype) @ sent).unbind(1)
        if (winners == 1).all():
            return Dispatch(sent, expert.long())
    expert = scores.max(1).indices  # ties, or scores that are no numbers
    return Dispatch(torch.zeros_like(scores).scatter_(1, expert[:, None], 1), expert)


class Experts(ABC):
    """Experts of one shape on one set of samples.

    Args:
      inputs: what `make_inputs` gives.
      activation: a name in ACTIVATIONS.
      signs: (J,) a_j.
    """

    def __init__(self, inputs: Inputs, activation: str, signs: Float[Tensor, " J"]) -> None:
        self.inputs, self.signs = inputs, signs
        self.activation: Activation = ACTIVATIONS[activation]
        self.one_sign = bool((signs == 1).all())

    @abstractmethod
    def gradient(
        self, weights: Float[Tensor, "T M J d"], sent: Dispatch, gates: Float[Tensor, "T N"], link: Link
    ) -> tuple[Float[Tensor, "T N"], Float[Tensor, "T N"], Float[Tensor, "T M J d"]]:
        """f of every sample at its expert, the slope of its loss in f, and the gradient of the summed losses.

        Args:
          weights: the filters.
          sent: where every sample goes.
          gates: y g, the label times what multiplies f.
          link: the loss's slope in the margin y g f.
        """

    @abstractmethod
    def every(self, weights: Float[Tensor, "T M J d"]) -> Float[Tensor, "T M N"]:
        """f of every sample at every expert."""

    def _signal(self, weights: Tensor) -> tuple[Tensor, Any] | None:
        """What the signal basis gives; None where there is none."""
        return None if self.inputs.basis is None else self.inputs.basis.outputs(weights, self.signs)

    def _signal_gradient(self, saved: Any, spread: Tensor) -> Tensor:
        assert self.inputs.basis is not None
        return self.inputs.basis.gradient(saved, spread, self.signs)


def experts_for(inputs: Inputs, activation: str, signs: Float[Tensor, " J"]) -> Experts:
    """The fastest form of these experts on the device where the inputs lie."""
    if activation == "linear":
        return LinearExperts(inputs, activation, signs)
    kind = DispatchedExperts if inputs.totals.device.type == "cpu" else MaskedExperts
    return kind(inputs, activation, signs)


class LinearExperts(Experts):
    """sigma(z) = z: f_m depends on u_m = sum_j a_j w_mj alone, and all filters of an expert share one gradient."""

    def every(self, weights: Tensor) -> Tensor:
        return (self.signs @ weights) @ self.inputs.totals.mT

    def gradient(self, weights: Tensor, sent: Dispatch, gates: Tensor, link: Link) -> tuple[Tensor, Tensor, Tensor]:
        outputs = sent.at(self.every(weights))
        slopes = link(gates * outputs).mul_(gates)
        vectors = sent.spread(slopes) @ self.inputs.totals  # (T, M, d)
        return outputs, slopes, self.signs[:, None] * vectors[:, :, None]


class DispatchedExperts(Experts):
    """Samples sorted by expert: one matrix product forwards and one back for each expert of each trial."""

    def gradient(self, weights: Tensor, sent: Dispatch, gates: Tensor, link: Link) -> tuple[Tensor, Tensor, Tensor]:
        signal = self._signal(weights)
        outputs = torch.zeros_like(gates) if signal is None else sent.at(signal[0])
        gradient = torch.zeros_like(weights)
        if self.inputs.rows.shape[2]:
            slopes = self._through_rows(weights.flatten(0, 1), sent, gates, outputs, gradient.flatten(0, 1), link)
        else:
            slopes = link(gates * outputs).mul_(gates)
        if signal is not None:
            gradient += self._signal_gradient(signal[1], sent.spread(slopes))
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
        """Adds to outputs and gradient what the rows give; returns the slopes of the losses in f."""
        (trials, experts, _), (patches, d) = sent.sent.shape, self.inputs.rows.shape[2:]
        keys = sent.expert.numpy() + np.arange(0, trials * experts, experts)[:, None]
        keys = keys.ravel().astype(np.uint8 if len(weights) <= 256 else np.int64)  # bytes sort 10 times faster
        order = torch.from_numpy(np.argsort(keys, kind="stable"))
        ends = np.cumsum(sent.sent.sum(2).flatten().numpy().astype(np.int64)) * patches
        parts = [slice(begin, end) for begin, end in pairwise([0, *ends.tolist()])]

        taken = self.inputs.rows.flatten(0, 1).flatten(1).index_select(0, order).view(-1, d)  # (T N Q, d), sorted
        sums = taken.new_empty(weights.shape[1], len(taken))
        for filters, part in zip(weights, parts, strict=True):
            torch.mm(filters, taken[part].T, out=sums[:, part])
        values, filter_slopes = self.activation.pair(sums)  # (J, T N Q)
        known = outputs.view(-1).index_select(0, order).add_(self._pooled(values, patches))
        ordered = gates.flatten().index_select(0, order)
        slopes = link(ordered * known).mul_(ordered)
        wanted = slopes if patches == 1 else slopes.repeat_interleave(patches)
        filter_slopes *= wanted if self.one_sign else self.signs[:, None] * wanted
        for into, part in zip(gradient, parts, strict=True):
            into.addmm_(filter_slopes[:, part], taken[part])
        outputs.view(-1).index_copy_(0, order, known)
        return torch.empty_like(gates).view(-1).index_copy_(0, order, slopes).view_as(gates)

    def _pooled(self, values: Float[Tensor, "*M J NQ"], patches: int) -> Float[Tensor, "*M N"]:
        """Filter outputs summed over the filters, with their signs, and over a sample's patches."""
        each = values.sum(-2) if self.one_sign else self.signs @ values
        return each if patches == 1 else each.unflatten(-1, (-1, patches)).sum(-1)

    def every(self, weights: Tensor) -> Tensor:
        signal, patches = self._signal(weights), self.inputs.rows.shape[2]
        if signal is not None and not patches:  # three patches, none of them noise
            return signal[0]
        values, _ = self.activation.pair(weights.flatten(1, 2) @ self.inputs.rows.flatten(1, 2).mT)
        outputs = self._pooled(values.unflatten(1, weights.shape[1:3]), patches)
        return outputs if signal is None else outputs + signal[0]


class MaskedExperts(Experts):
    """Every expert answers every sample, for devices that would rather compute than wait."""

    def _row_outputs(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """(T, M, N) what the rows give at every expert, and the filters' slopes, (T, Q, M, J, N)."""
        shape = weights.shape[1:3]
        values, slopes = self.activation.pair(weights.flatten(1, 2)[:, None] @ self.inputs.rows.permute(0, 2, 3, 1))
        return self.signs @ values.sum(1).unflatten(1, shape), slopes.unflatten(2, shape)

    def every(self, weights: Tensor) -> Tensor:
        signal, (outputs, _) = self._signal(weights), self._row_outputs(weights)
        return outputs if signal is None else outputs + signal[0]

    def gradient(self, weights: Tensor, sent: Dispatch, gates: Tensor, link: Link) -> tuple[Tensor, Tensor, Tensor]:
        signal, (everywhere, row_slopes) = self._signal(weights), self._row_outputs(weights)
        outputs = sent.at(everywhere if signal is None else everywhere + signal[0])
        slopes = link(gates * outputs).mul_(gates)
        spread = sent.spread(slopes)
        wanted = spread[:, :, None] * self.signs[:, None]  # (T, M, J, N)
        weighted = (row_slopes * wanted[:, None]).flatten(2, 3)  # (T, Q, M J, N)
        gradient = (weighted @ self.inputs.rows.transpose(1, 2)).sum(1).view_as(weights)
        if signal is not None:
            gradient = gradient + self._signal_gradient(signal[1], spread)
        return outputs, slopes, gradient
