"""Two-layer CNN experts bound to samples (chen2022, eq. 3.1): their outputs, and the gradient of a mixture's loss.

    f_m(x) = sum_j a_j sum_p sigma(<w_mj, x^(p)>)        a_j = 1 for odd activations, else half of them are -1

A `Layer` has up to two parts, whose outputs are added: a table (see `tables`) for patches that are known multiples of a
few directions, such as the signals, and rows, patches that need a product each.

On a CPU, rows are computed for the sample's own experts alone, sorted by expert; on an accelerator, where the host
would have to wait for the sizes of the sorted parts, every expert computes every sample, and a mask selects. Table and
rows together, sorted rows alone and linear experts are timed by `python -m benchmarks specialization`.

Shapes: T trials, M experts of J filters, N samples at S experts each, Q rows of d numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.core.graphs import on_accelerator
from moe_lab.specialization.activations import ACTIVATIONS
from moe_lab.specialization.data import ClusterSamples
from moe_lab.specialization.tables import CubicWithBiases, Homogeneous, Linear, Pull, Table

NUMBERS_IN_CACHE = 2**18
"""Of the rows, and their products, that go forward and back together: more leave the cache, fewer cost more small
operations. With several experts a sample nothing goes back before all have gone forward, and parts may be larger."""
SAMPLES_AT_ONCE = 2**11
"""Samples for which every expert computes its rows at once on a CPU, to measure."""

Link = Callable[[Tensor], Tensor]
"""The derivative of a sample's loss with respect to its margin y F, elementwise."""


def rows_of(activation: str, biases: bool, signal_basis: bool | None) -> Literal["all", "noise", "none"]:
    """Returns which patches need a matrix product each: all, the random noise (signal basis), or none (linear).

    Raises:
      ValueError: signal_basis is True, but these filters have no signal basis.
    """
    if activation == "linear":
        return "none"
    possible = activation == "cubic" or (ACTIVATIONS[activation].degree is not None and not biases)
    rule = "signal_basis needs cubic filters, or filters without biases and with sigma(a z) = a^p sigma(z)"
    require(possible or not signal_basis, rule, activation=activation, biases=biases)
    return "noise" if possible and signal_basis is not False else "all"


# --- patches that need a product each ---------------------------------------------------------------------------------


class Rows:
    """sum_j a_j sum_q sigma(<w_mj, x^(q)>) over the rows of a sample, (T, N, Q, d)."""

    def __init__(self, rows: Float[Tensor, "T N Q d"], activation: str, signs: Float[Tensor, " J"]) -> None:
        self.rows, self.activation, self.signs = rows.contiguous(), ACTIVATIONS[activation], signs

    @cached_property
    def one_sign(self) -> bool:
        """Whether a_j = 1 for all filters; read on a CPU alone."""
        return bool((self.signs == 1).all())

    def every(
        self, weights: Float[Tensor, "T M J d"], part: slice = slice(None)
    ) -> tuple[Float[Tensor, "T M N"], Pull]:
        """Computes every expert's output for every sample, or for a part of them."""
        rows, shape = self.rows[:, part], weights.shape[1:3]
        products = weights.flatten(1, 2)[:, None] @ rows.permute(0, 2, 3, 1)  # (T, Q, M J, N)
        values, slopes = self.activation.pair(products)

        def back(by_outputs: Float[Tensor, "T M N"]) -> Float[Tensor, "T M J d"]:
            signed = (by_outputs[:, :, None] * self.signs[:, None]).flatten(1, 2)
            return ((slopes * signed[:, None]) @ rows.transpose(1, 2)).sum(1).view_as(weights)

        return self.signs @ values.sum(1).unflatten(1, shape), back


class SortedPairs:
    """The pairs of a sample and one of its experts, sorted by trial and expert, on their way through the rows.

    Each expert takes one product with the rows of its own samples in the forward pass, and one in the backward pass.

    Attributes:
      order: (pairs,) the sorted pairs, as places in the flat (T, S, N).
      parts: consecutive parts of the sorted pairs, whose rows fit into the cache; they may cut through an expert's.
      gradient: (T, M, J, d) what the parts that have gone back have contributed to it.
    """

    def __init__(self, rows: Rows, weights: Float[Tensor, "T M J d"], slots: Int[Tensor, "T S N"]) -> None:
        (trials, experts, filters, d), (_, several, samples) = weights.shape, slots.shape
        self.rows, self.patches = rows, rows.rows.shape[2]
        keys = (slots.numpy() + np.arange(0, trials * experts, experts)[:, None, None]).ravel()
        if trials * experts <= 256:
            keys = keys.astype(np.uint8)  # sorting bytes is 10 times faster
        self.order = torch.from_numpy(np.argsort(keys, kind="stable"))
        self._samples = self.order  # as places in the flat (T, N)
        if several > 1:
            self._samples = self.order // (several * samples) * samples + self.order % samples
        self._ends = np.bincount(keys, minlength=trials * experts).cumsum().tolist()
        size = max(1, several * NUMBERS_IN_CACHE // (self.patches * (d + filters)))
        self.parts = [slice(begin, begin + size) for begin in range(0, len(keys), size)]
        self.gradient = torch.zeros_like(weights)
        self._filters, self._by_filters = weights.flatten(0, 1), self.gradient.flatten(0, 1)

    def forward(self, part: slice) -> tuple[Float[Tensor, " pairs"], tuple[Tensor, Tensor]]:
        """Computes the outputs of a part of the pairs, and what `back` needs: the rows and the filters' slopes."""
        rows = self.rows.rows.flatten(0, 1).flatten(1).index_select(0, self._samples[part]).flatten(0, 1)
        rows = rows.view(-1, self._filters.shape[2])
        products = rows.new_empty(self._filters.shape[1], len(rows))
        for expert, own in self._experts_in(part):
            torch.mm(self._filters[expert], rows[own].T, out=products[:, own])
        values, slopes = self.rows.activation.pair(products)
        outputs = values.sum(0) if self.rows.one_sign else self.rows.signs @ values
        return outputs if self.patches == 1 else outputs.view(-1, self.patches).sum(1), (rows, slopes)

    def back(self, part: slice, saved: tuple[Tensor, Tensor], by_outputs: Float[Tensor, " pairs"]) -> None:
        """Adds the contribution of a part to the gradient; overwrites its saved values."""
        rows, slopes = saved
        by_rows = by_outputs if self.patches == 1 else by_outputs.repeat_interleave(self.patches)
        slopes *= by_rows if self.rows.one_sign else self.rows.signs[:, None] * by_rows
        for expert, own in self._experts_in(part):
            self._by_filters[expert].addmm_(slopes[:, own], rows[own])

    def _experts_in(self, part: slice) -> Iterator[tuple[int, slice]]:
        """Yields the experts that have pairs in a part, and where in the part's rows theirs are."""
        for expert, (begin, end) in enumerate(pairwise([0, *self._ends])):
            begin, end = max(begin, part.start), min(end, part.stop)
            if begin < end:
                yield expert, slice(self.patches * (begin - part.start), self.patches * (end - part.start))


# --- both -------------------------------------------------------------------------------------------------------------


class Pass(NamedTuple):
    """A pass through the experts and back.

    Attributes:
      outputs: f of each sample's experts.
      margin: y F(x), with F the weighted sum of the outputs.
      slopes: the derivative of each sample's loss in F.
      gradient: of the summed losses.
    """

    outputs: Float[Tensor, "T S N"]
    margin: Float[Tensor, "T N"]
    slopes: Float[Tensor, "T N"]
    gradient: Float[Tensor, "T M J d"]


class Layer:
    """Experts of one architecture bound to a set of samples.

    Args:
      signs: a_j.
      biases: whether filters have biases; if so, every patch gets an extra 1, and a filter's last weight is its bias.
      signal_basis: whether the signal patches go into a table; None puts them there where possible.

    Attributes:
      totals: (T, N, d) the sum of a sample's patches, the input of routers.
      labels: (T, N) -1. or +1.
      clusters: (T, N) k.
      table, rows: the two parts; None where there is nothing to compute.

    Raises:
      ValueError: signal_basis is True, but these filters have no signal basis.
    """

    def __init__(
        self,
        samples: ClusterSamples,
        activation: str,
        signs: Float[Tensor, " J"],
        biases: bool = False,
        signal_basis: bool | None = None,
    ) -> None:
        kind, signal = rows_of(activation, biases, signal_basis), samples.signal_patches()
        totals, rows = signal.sum(2) + samples.noise.sum(2), samples.noise
        if kind == "all":
            rows = torch.cat((signal, samples.noise), dim=2)
        if biases:
            patches = signal.shape[2] + samples.noise.shape[2]
            totals = torch.cat((totals, totals.new_full((*totals.shape[:2], 1), patches)), dim=-1)
            rows = torch.cat((rows, rows.new_ones((*rows.shape[:3], 1))), dim=-1)
        self.totals, self.labels, self.clusters = totals, samples.labels.to(totals.dtype), samples.clusters
        self.table: Table | None = Linear(totals, signs) if kind == "none" else None
        if kind == "noise":
            self.table = CubicWithBiases(samples, signs) if biases else Homogeneous(samples, activation, signs)
        self.rows = Rows(rows, activation, signs) if kind != "none" and rows.shape[2] else None

    def __len__(self) -> int:
        return int(self.labels.shape[1])

    def every(self, weights: Float[Tensor, "T M J d"]) -> Float[Tensor, "T M N"]:
        """Computes f of every sample at every expert."""
        found = [] if self.table is None else [self.table.every(weights)[0]]
        if self.rows is not None:
            size = len(self) if on_accelerator(self.labels.device) else SAMPLES_AT_ONCE
            parts = [slice(begin, begin + size) for begin in range(0, len(self), size)]
            found.insert(0, torch.cat([self.rows.every(weights, part)[0] for part in parts], 2))
        return sum(found[1:], found[0])

    def gradient(
        self,
        weights: Float[Tensor, "T M J d"],
        slots: Int[Tensor, "T S N"],
        factors: Float[Tensor, "T S N"],
        link: Link,
    ) -> Pass:
        """Computes outputs and gradient with each sample at its experts.

        Args:
          slots: the experts of each sample, all different.
          factors: of their outputs in F.
          link: the derivative of the loss in the margin y F.
        """
        sort = self.rows is not None and not on_accelerator(self.labels.device)
        passed = [part.every(weights) for part in (self.table, None if sort else self.rows) if part is not None]
        outputs, gradient = torch.zeros_like(factors), torch.zeros_like(weights)
        for every, _ in passed:
            outputs += every.gather(1, slots)
        if sort:
            outputs, gradient = self._sorted(weights, slots, factors, outputs, link)
        margin = self.labels * (factors * outputs).sum(1)
        slopes = link(margin) * self.labels
        if passed:
            empty = factors.new_zeros(*weights.shape[:2], len(self))
            by_outputs = empty.scatter_(1, slots, slopes[:, None] * factors)
            for _, back in passed:
                gradient += back(by_outputs)
        return Pass(outputs, margin, slopes, gradient)

    def _sorted(
        self, weights: Tensor, slots: Tensor, factors: Tensor, outputs: Float[Tensor, "T S N"], link: Link
    ) -> tuple[Float[Tensor, "T S N"], Float[Tensor, "T M J d"]]:
        """Adds the rows' outputs to those of the table, and computes the rows' gradient."""
        assert self.rows is not None
        pairs = SortedPairs(self.rows, weights, slots)
        found = outputs.flatten().index_select(0, pairs.order)
        if slots.shape[1] == 1:  # no other expert has a say in the loss: back at once, while the rows are in the cache
            signed = (self.labels[:, None] * factors).flatten().index_select(0, pairs.order)
            for part in pairs.parts:
                own, saved = pairs.forward(part)
                own += found[part]
                found[part] = own
                pairs.back(part, saved, link(signed[part] * own).mul_(signed[part]))
            return torch.empty_like(found).index_copy_(0, pairs.order, found).view_as(outputs), pairs.gradient
        passed = [pairs.forward(part) for part in pairs.parts]
        for part, (own, _) in zip(pairs.parts, passed, strict=True):
            found[part] += own
        outputs = torch.empty_like(found).index_copy_(0, pairs.order, found).view_as(outputs)
        slopes = link(self.labels * (factors * outputs).sum(1)) * self.labels
        by_pairs = (slopes[:, None] * factors).flatten().index_select(0, pairs.order)
        for part, (_, saved) in zip(pairs.parts, passed, strict=True):
            pairs.back(part, saved, by_pairs[part])
        return outputs, pairs.gradient
