"""The analysed layer of pruning2024 and one exact training step of it, in pattern coordinates.

    f(x) = sum_s a^(s) sum_{j in J_s} G_j^(s) sum_r ReLU(<w_r^(s), x^(j)>)                     (section 4.2, appendix C)

Because tokens are orthonormal patterns, f depends on a router only through its component along each pattern, and on an
expert only through the table sigma_q^(s) = sum_r ReLU(<w_r^(s), q>). Weights are stored in these coordinates; `layer`
has the same layer on vectors. The reported loss is the hinge loss max(0, 1 - y f); its gradient is that of 1 - y f, as
in the paper, or the true one.

Shapes: T trials, k experts of m neurons, d patterns, B samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, Self

import torch
from jaxtyping import Float, Int
from pydantic import model_validator
from torch import Tensor

from moe_lab.core.config import Config, knob, require
from moe_lab.core.counted_routing import copies_chosen, expert_choice_of_counts
from moe_lab.core.graphs import on_accelerator
from moe_lab.core.routing import Scratch, token_choice

Routing = Literal["expert-choice", "token-choice"]
LossName = Literal["linear", "hinge"]
_WIDTH = 6.0  # standard deviations of spare copies in the first search over patterns; wider searches follow if needed


class TokenMoE(Config):
    """A mixture of two-layer ReLU experts with a fixed head: the first half votes +, the others - (section 4.2).

    Raises:
      ConfigError: a value is out of bounds, k is odd, or l is greater than k in token-choice routing.
    """

    experts: int = knob(20, symbol="k", meaning="experts, half of them vote +", ge=2, le=4096, slider=(4, 40, 2))
    neurons: int = knob(20, symbol="m", meaning="neurons per expert", ge=1, le=65536, slider=(1, 64, 1))
    routing: Routing = knob(
        "expert-choice", meaning="experts choose tokens, or tokens experts", choices=("expert-choice", "token-choice")
    )
    top: int = knob(
        5, symbol="l", meaning="tokens an expert keeps, or experts a token picks", ge=1, le=65536, slider=(1, 20, 1)
    )
    learning_rate: float = knob(
        0.1, symbol="eta_e", meaning="experts' learning rate", ge=0, le=1e6, slider=(0.02, 0.4, 0.02)
    )
    router_learning_rate: float = knob(
        0.05, symbol="eta_r", meaning="routers' learning rate", ge=0, le=1e6, slider=(0.0, 0.1, 0.005)
    )
    loss: LossName = knob(
        "linear", meaning="gradient of 1 - y f (the paper's), or of the hinge loss itself", choices=("linear", "hinge")
    )

    name: ClassVar[str] = "token-moe"

    @model_validator(mode="after")
    def _possible(self) -> Self:
        require(self.experts % 2 == 0, "experts (k) must be even, because half of them vote -", k=self.experts)
        rule = "top (l) must be at most experts (k) where tokens choose"
        require(self.routing == "expert-choice" or self.top <= self.experts, rule, l=self.top, k=self.experts)
        return self

    @property
    def coupled(self) -> bool:
        """Whether an expert's training depends on the other experts.

        It does in token-choice routing (gates share a softmax) and with the hinge gradient (f decides which samples
        count), but not in expert-choice routing with the gradient of 1 - y f.
        """
        return self.routing == "token-choice" or self.loss == "hinge"

    def width(self, tokens: int, patterns: int) -> int:
        """Estimates how many of its best patterns an expert must search to find its l tokens."""
        enough = self.top + _WIDTH * self.top**0.5 + _WIDTH
        return min(patterns, int(enough * patterns / tokens) + 1)


@dataclass(frozen=True)
class Weights:
    """The weights of a layer in pattern coordinates, without pruned experts.

    Attributes:
      routers: (T, R, d) <w_s, q>. One per expert, but token-choice routing keeps the routers of pruned experts.
      neurons: (T, k, d, m) <w_r^(s), q>, the neurons last.
      experts: (T, k) the index of each kept expert's router: in the unpruned layer for token-choice, in this layer for
        expert-choice.
      numbers: (T, k) each expert's number in the unpruned layer, ascending.
      signs: (k,) a^(s), +1 or -1; experts that vote + come first.
    """

    routers: Float[Tensor, "T R d"]
    neurons: Float[Tensor, "T k d m"]
    experts: Int[Tensor, "T k"]
    numbers: Int[Tensor, "T k"]
    signs: Float[Tensor, " k"]

    @classmethod
    def unpruned(cls, routers: Float[Tensor, "T k d"], neurons: Float[Tensor, "T k d m"]) -> Weights:
        """Makes an unpruned layer: every expert has a router, and the first half votes +.

        Raises:
          ValueError: the shapes do not match, or k is odd.
        """
        fits = neurons.ndim == 4 and routers.shape == neurons.shape[:3] and routers.shape[1] % 2 == 0
        rule = "routers must be (trials, k, d) and neurons (trials, k, d, m), with k even"
        require(fits, rule, routers=tuple(routers.shape), neurons=tuple(neurons.shape))
        trials, k, _ = routers.shape
        numbers = torch.arange(k, device=routers.device).expand(trials, k).clone()
        signs = routers.new_ones(k)
        signs[k // 2 :] = -1
        return cls(routers, neurons, numbers, numbers, signs)

    @property
    def trials(self) -> int:
        return self.routers.shape[0]

    @property
    def parameters(self) -> int:
        """The number of parameters per trial: routers and neurons."""
        return int((self.routers[0].numel() + self.neurons[0].numel()) if self.trials else 0)

    @property
    def sums(self) -> Float[Tensor, "T k d"]:
        """sigma_q^(s), the output of each expert on each pattern, before its gate."""
        return self.neurons.clamp(min=0).sum(3)

    @property
    def own_routers(self) -> Float[Tensor, "T k d"]:
        """The routers of the kept experts."""
        return self.routers.gather(1, self.experts[..., None].expand(-1, -1, self.routers.shape[2]))

    @classmethod
    def joined(cls, parts: Sequence[Weights]) -> Weights:
        """Concatenates layers of the same shape along the trials."""

        def along(name: str) -> Tensor:
            return torch.cat([getattr(part, name) for part in parts])

        return cls(along("routers"), along("neurons"), along("experts"), along("numbers"), parts[0].signs)

    def clone(self) -> Weights:
        """Returns a copy that training may change in place."""
        return Weights(self.routers.clone(), self.neurons.clone(), self.experts, self.numbers, self.signs)

    def of(self, trials: Int[Tensor, " V"]) -> Weights:
        """Returns the weights of some trials by index; an index may occur several times."""
        return Weights(
            self.routers[trials], self.neurons[trials], self.experts[trials], self.numbers[trials], self.signs
        )


# --- the layer on samples -------------------------------------------------------------------------------------------


class RoutedTokens(NamedTuple):
    """The routing of samples.

    Attributes:
      order: (T, k, W) for each expert the patterns that it may receive; W = d in token-choice routing.
      gates: for expert-choice, (T, k, W, B) the sum of G over the copies of each pattern that the expert receives; for
        token-choice, (T, k, d) the gate of one copy, the same in all samples.
      counts: (T, d, B) number of copies of each pattern in each sample.
    """

    order: Int[Tensor, "T k W"]
    gates: Tensor
    counts: Float[Tensor, "T d B"]

    def outputs(self, sums: Float[Tensor, "T k d"]) -> Float[Tensor, "T k B"]:
        """Computes F_s(x) = sum_{j in J_s} G_j sigma_j, each expert's output without its sign."""
        if self.gates.ndim == 3:
            return (self.gates * sums) @ self.counts
        return self._over_slots(sums.gather(2, self.order))

    def gate_of(self, pattern: int) -> Float[Tensor, "T k B"]:
        """Returns the gate of a pattern that occurs at most once per sample; 0 if it is absent or not kept."""
        if self.gates.ndim == 3:
            return self.gates[:, :, pattern, None] * self.counts[:, None, pattern]
        return self._over_slots((self.order == pattern).to(self.gates.dtype))

    def means(self, factors: Float[Tensor, "T k F B"]) -> Float[Tensor, "T k F W"]:
        """Computes sum_x factor(x) P_q(x) over the samples x, where P_q sums the gates of the copies of a pattern q."""
        summed = torch.bmm(factors.flatten(0, 1), self.gates.flatten(0, 1).mT)
        return summed.view(*factors.shape[:3], -1)

    def _over_slots(self, values: Float[Tensor, "T k W"]) -> Float[Tensor, "T k B"]:
        """Sums the gates over each expert's patterns, weighted by values."""
        summed = torch.bmm(values.flatten(0, 1)[:, None], self.gates.flatten(0, 1))
        return summed.view(*values.shape[:2], -1)


class RoutedCopies(NamedTuple):
    """The same routing by expert choice copy by copy, for accelerators.

    Attributes:
      order: (T, k, d) all patterns, for each expert.
      patterns: (T, k, B, l) of the copies that each expert receives.
      gates: (T, k, B, l) G of each copy.
    """

    order: Int[Tensor, "T k d"]
    patterns: Int[Tensor, "T k B l"]
    gates: Float[Tensor, "T k B l"]

    def outputs(self, sums: Float[Tensor, "T k d"]) -> Float[Tensor, "T k B"]:
        """Computes F_s(x), as `RoutedTokens.outputs`."""
        return (sums.gather(2, self.patterns.flatten(2)).view_as(self.gates) * self.gates).sum(3)

    def gate_of(self, pattern: int) -> Float[Tensor, "T k B"]:
        """Returns the gate of a pattern, as `RoutedTokens.gate_of`."""
        return ((self.patterns == pattern) * self.gates).sum(3)

    def means(self, factors: Float[Tensor, "T k F B"]) -> Float[Tensor, "T k F d"]:
        """Computes sum_x factor(x) P_q(x), as `RoutedTokens.means`."""
        values = (factors[..., None] * self.gates[:, :, None]).flatten(3)
        places = self.patterns.flatten(2)[:, :, None].expand(values.shape)
        return values.new_zeros(*factors.shape[:3], self.order.shape[2]).scatter_add_(3, places, values)


def route(
    weights: Weights,
    counts: Float[Tensor, "T d B"],
    model: TokenMoE,
    width: int | None = None,
    scratch: Scratch | None = None,
) -> RoutedTokens | RoutedCopies:
    """Routes samples to the kept experts; a pruned expert's share of a token is lost (eq. 5, 6).

    Args:
      width, scratch: see `expert_choice_of_counts`; width is `model.width` if None.
    """
    if model.routing == "token-choice":
        _, gates = token_choice(weights.routers.mT, model.top)
        index = weights.experts[:, None].expand(-1, gates.shape[1], -1)
        every = torch.arange(gates.shape[1], device=gates.device).expand(*weights.experts.shape, -1)
        return RoutedTokens(every, gates.gather(2, index).mT, counts)
    if on_accelerator(counts.device):
        every = torch.arange(counts.shape[1], device=counts.device).expand(*weights.experts.shape, -1)
        return RoutedCopies(every, *copies_chosen(weights.routers, counts, model.top))
    if width is None:
        width = model.width(max(1, int(counts[:1, :, :1].sum())), counts.shape[1])
    return RoutedTokens(*expert_choice_of_counts(weights.routers, counts, model.top, width, scratch), counts)


# --- one step -------------------------------------------------------------------------------------------------------


class Step(NamedTuple):
    """The update of an SGD step, and the loss before it.

    Attributes:
      rows: (P,) flattened (T, k, d) indices (trial, expert, pattern) at which neurons change; None for all, in order.
      by: (P,) the update of each active neuron in these rows.
      routers: (T, k, d) the updates of the experts' routers.
      loss: (T,) mean hinge loss of the batch.
      right: (T,) number of samples in the batch that are classified correctly.
    """

    rows: Int[Tensor, " P"] | None
    by: Float[Tensor, " P"]
    routers: Float[Tensor, "T k d"]
    loss: Float[Tensor, " T"]
    right: Int[Tensor, " T"]


def sgd_step(
    weights: Weights,
    sums: Float[Tensor, "T k d"],
    counts: Float[Tensor, "T d B"],
    labels: Float[Tensor, "T B"],
    model: TokenMoE,
    width: int,
    scratch: Scratch | None = None,
) -> Step:
    """Computes one step of algorithm 1 (appendix C, step 2 or 4) from the mean gradient over the batch.

    Along a pattern q, with P = the gates of its kept copies and c = y (true hinge: 0 where y f >= 1), expert s moves
    every neuron with <w_r, q> >= 0 by eta_e a^(s) mean(c P_q) and, in expert-choice routing, its router by
    eta_r a^(s) mean(c P_q (sigma_q - F_s)). In token-choice routing, a token's output
    V_q = sum_s a^(s) G_q^(s) sigma_q^(s), over all experts that it picked, replaces a^(s) F_s; routers of pruned
    experts do not change.

    Args:
      sums: `weights.sums`, which training keeps up to date.
      width, scratch: see `expert_choice_of_counts`.
    """
    routed = route(weights, counts, model, width, scratch)
    order, gates = routed.order, routed.gates
    outputs = routed.outputs(sums)
    signs = weights.signs[:, None]
    margin = labels * (weights.signs @ outputs)
    pull = labels / labels.shape[1]
    if model.loss == "hinge":
        pull = pull * (margin < 1)
    if model.routing == "token-choice":
        mean = (counts @ pull[..., None]).mT  # (T, 1, d) mean of c over the copies of each pattern
        shares = signs * gates * mean
        values = (signs * gates * sums).sum(1, keepdim=True)
        moves = gates * mean * (signs * sums - values)
        # on an accelerator, how many gates are not zero, only the device knows
        at = None if on_accelerator(gates.device) else gates.flatten().nonzero()[:, 0]
        by = shares.flatten() if at is None else shares.flatten()[at]
    else:
        pulls = torch.stack((pull[:, None].expand_as(outputs), pull[:, None] * outputs), dim=2)
        plain, weighted = routed.means(pulls).unbind(2)  # (T, k, W) mean of c P and of c P F
        shares = signs * plain
        sigma = sums.gather(2, order)
        moves = torch.zeros_like(sums).scatter_(2, order, signs * (sigma * plain - weighted))
        experts = torch.arange(sums.shape[0] * sums.shape[1], device=sums.device).view(*sums.shape[:2], 1)
        at = None if isinstance(routed, RoutedCopies) else (order + experts * sums.shape[2]).flatten()
        by = shares.flatten()
    if model.top == 1:
        moves.zero_()  # the only gate is constant, so the gradient is 0; above, it is so only up to rounding
    return Step(
        rows=at,
        by=model.learning_rate * by,
        routers=model.router_learning_rate * moves,
        loss=(1 - margin).clamp(min=0).mean(1),
        right=(margin > 0).sum(1),
    )


def apply_step(weights: Weights, sums: Float[Tensor, "T k d"], step: Step, scratch: Scratch | None = None) -> None:
    """Applies a step to the weights and their sums, in place."""
    trials, k, d, m = weights.neurons.shape
    index = weights.experts[..., None].expand_as(step.routers)
    weights.routers.scatter_add_(1, index, step.routers)
    if step.rows is None:
        weights.neurons.addcmul_(weights.neurons >= 0, step.by.view(trials, k, d, 1))
        sums.copy_(weights.sums)
        return
    scratch = Scratch() if scratch is None else scratch
    neurons = weights.neurons.view(trials * k * d, m)
    moved = torch.index_select(neurons, 0, step.rows, out=scratch("moved", neurons, len(step.rows), m))
    active = torch.ge(moved, 0, out=scratch("active", neurons, len(step.rows), m))
    moved.addcmul_(active, step.by[:, None])
    neurons.index_copy_(0, step.rows, moved)
    sums.view(-1).index_copy_(0, step.rows, moved.clamp_(min=0).sum(1))
