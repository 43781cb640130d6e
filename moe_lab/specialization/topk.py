"""A mixture of the kind that language models use: k experts per sample, shared experts, and a choice of load balancing.

    F(x) = sum over the k experts with the largest h_m + r_m + b_m of pi_m f_m(x)  +  sum of all shared f_s(x),
    pi = softmax(h),  h = Theta^T sum_p x^(p)

With one expert per sample, no shared expert, no bias and equal steps it is `SwitchMoE` (chen2022, algorithm 1). It adds
k experts per sample (Shazeer et al., 2017), many small experts and shared ones (DeepSeekMoE: Dai et al., 2024, eq. 9 to
11, whose gates are not divided by their sum either), ordinary gradient steps, and balancing (`moe_lab.routers`).

Shapes: T trials, M routed experts, E = M + shared experts of J filters, S = k + shared experts of a sample, N samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import model_validator
from torch import Tensor
from torch.nn.functional import softplus

from moe_lab.core.config import Config, knob, require
from moe_lab.core.trials import stream
from moe_lab.routers import balance
from moe_lab.specialization.activations import ACTIVATIONS, ActivationName
from moe_lab.specialization.experts import Experts
from moe_lab.specialization.mixed import mixed_gradient
from moe_lab.specialization.model import check_signs, normalised, paper_link

Balancing = Literal["none", "switch", "importance", "z-loss", "bias"]
BALANCINGS: tuple[Balancing, ...] = ("none", "switch", "importance", "z-loss", "bias")


class TopKMoE(Config):
    """A mixture with top-k routing, shared experts and load balancing, trained by full-batch gradient steps.

    With `equal_steps` every expert takes a step of the same length (chen2022, eq. 3.4), so that one with few samples
    learns as fast as one with many; otherwise the step is the learning rate times the gradient, as usual in practice.
    A `lead` makes the router begin with a preference for expert 1 on all samples, from which collapse develops.

    `balancing` is "none"; one of three losses: "switch" (Fedus et al., 2021), "importance" (Shazeer et al., 2017) and
    "z-loss" (Zoph et al., 2022), of weight `strength`; or "bias" (Wang et al., 2024), whose updates are of that size.

    Departs from Wang et al.: the bias is added to the scores h + r, by which this model selects, not to their softmax,
    and it is updated from all training samples at each step.

    Raises:
      ConfigError: a value is out of bounds, k exceeds M, or J is odd where filters have two signs.
    """

    experts: int = knob(8, symbol="M", meaning="routed experts", ge=1, le=1024, slider=(2, 16, 1))
    experts_per_sample: int = knob(1, symbol="k", meaning="routed experts of a sample", ge=1, le=1024, slider=(1, 4, 1))
    shared: int = knob(0, symbol="K_s", meaning="shared experts, which get every sample", ge=0, le=64, slider=(0, 2, 1))
    filters: int = knob(8, symbol="J", meaning="filters of an expert", ge=1, le=65536, slider=(1, 32, 1))
    activation: ActivationName = knob("cubic", symbol="sigma", meaning="activation", choices=tuple(ACTIVATIONS))
    equal_steps: bool = knob(True, meaning="whether all experts take steps of the same length")
    learning_rate: float = knob(
        0.01, symbol="eta", meaning="experts' learning rate", gt=0, le=1e6, slider=(0.005, 0.05, 0.005)
    )
    router_learning_rate: float = knob(
        10.0, symbol="eta_r", meaning="router's learning rate", ge=0, le=1e9, slider=(0.0, 20.0, 0.5)
    )
    initial_scale: float = knob(0.01, symbol="sigma_0", meaning="spread of the first filters", gt=0, le=1e6)
    initial_router: float = knob(
        0.0, symbol="sigma_r", meaning="spread of the first router", ge=0, le=1e6, slider=(0.0, 2.0, 0.1)
    )
    lead: float = knob(
        0.0,
        symbol="h_0",
        meaning="first score of expert 1 on a mean sample",
        ge=0,
        le=1e6,
        slider=(0.0, 4.0, 0.25),
    )
    router_noise: float = knob(
        1.0, symbol="r", meaning="largest noise on a router's score", ge=0, le=1e6, slider=(0.0, 2.0, 0.1)
    )
    balancing: Balancing = knob("none", meaning="how the load is balanced", choices=BALANCINGS)
    strength: float = knob(0.01, symbol="lambda", meaning="strength of the balancing", ge=0, le=1e6)

    name: ClassVar[str] = "top-k"
    biases: ClassVar[bool] = False
    steps: ClassVar[int] = 300
    why_it_stops: ClassVar[str] = "as for the switch mixture, which some trials leave again with more steps"

    @model_validator(mode="after")
    def _possible(self) -> Self:
        check_signs(self.filters, self.two_signs, self.activation)
        rule = "experts_per_sample (k) must be at most experts (M)"
        require(self.experts_per_sample <= self.experts, rule, k=self.experts_per_sample, M=self.experts)
        return self

    @property
    def two_signs(self) -> bool:
        """Whether a_j = -1 for half of an expert's filters."""
        return not ACTIVATIONS[self.activation].odd

    @property
    def slots(self) -> int:
        """S, the number of experts that compute a sample's output."""
        return self.experts_per_sample + self.shared


class State(NamedTuple):
    """What training changes: filters of routed and then shared experts, routers, and the bias of the selection."""

    experts: Float[Tensor, "T E J d"]
    routers: Float[Tensor, "T M d"]
    bias: Float[Tensor, "T M"]


class Sums(NamedTuple):
    """Sums over all samples before a step: the loss, with that of the balancing, and the correct outputs."""

    loss: Float[Tensor, " T"]
    right: Int[Tensor, " T"]


# ---- initialization ----


def initial_filters(trial: int, seed: int, model: TopKMoE, dimension: int) -> np.ndarray:
    """(E, J, d) filters from N(0, sigma_0^2); expert m's are those of `SwitchMoE`, whatever M and the shared ones."""
    names = [f"experts/{m}" for m in range(model.experts)] + [f"shared/{s}" for s in range(model.shared)]
    shape = model.filters, dimension
    return np.stack([stream(seed, trial, name).standard_normal(shape) for name in names]) * model.initial_scale


def initial_routers(trial: int, seed: int, model: TopKMoE, dimension: int) -> np.ndarray:
    """(M, d) routers from N(0, sigma_r^2)."""
    return stream(seed, trial, "routers").standard_normal((model.experts, dimension)) * model.initial_router


def towards_all(lead: float, totals: Sequence[Float[Tensor, "T b d"]]) -> Float[Tensor, "T d"]:
    """Computes the router whose score is `lead` on the mean training sample, the shortest of all such."""
    samples = sum(block.shape[1] for block in totals)
    mean = torch.stack([block.sum(1) for block in totals]).sum(0) / samples
    return lead * mean / mean.square().sum(1, keepdim=True)


# ---- routing ----


class Routing(NamedTuple):
    """Who gets which sample.

    Attributes:
      gates: pi of every routed expert.
      slots: each sample's experts, the routed ones first.
      weights: the factors of their outputs: pi, and 1 for shared experts.
      chosen: 1 where a routed expert gets the sample.
    """

    gates: Float[Tensor, "T M N"]
    slots: Int[Tensor, "T S N"]
    weights: Float[Tensor, "T S N"]
    chosen: Float[Tensor, "T M N"]


def route(scores: Float[Tensor, "T M N"], preferred: Float[Tensor, "T M N"], model: TopKMoE) -> Routing:
    """Selects each sample's k experts with the largest `preferred`, ties to the lowest index; gates are of `scores`."""
    remaining, picks = preferred, []
    for _ in range(model.experts_per_sample):
        picks.append(remaining.max(1, keepdim=True).indices)
        remaining = remaining.scatter(1, picks[-1], -torch.inf)
    picked, gates = torch.cat(picks, 1), scores.softmax(1)
    chosen = torch.zeros_like(gates).scatter_(1, picked, 1)
    slots, weights = picked, gates.gather(1, picked)
    if model.shared:
        trials, _, samples = scores.shape
        common = torch.arange(model.experts, model.experts + model.shared, device=scores.device)
        slots = torch.cat((slots, common[None, :, None].expand(trials, -1, samples)), 1)
        weights = torch.cat((weights, weights.new_ones(trials, model.shared, samples)), 1)
    return Routing(gates, slots, weights, chosen)


def scores_of(state: State, blocks: Sequence[Experts]) -> Float[Tensor, "T M N"]:
    """Computes h of all samples."""
    return torch.cat([state.routers @ block.inputs.totals.mT for block in blocks], 2)


# ---- one step ----


def balancing_loss(
    scores: Float[Tensor, "T M N"], routing: Routing, load: Float[Tensor, "T M"], model: TopKMoE
) -> tuple[Float[Tensor, " T"], Float[Tensor, "T M N"]] | None:
    """Computes the weighted balancing loss, a mean over the samples, and its derivative in the scores; None without."""
    if model.balancing in ("none", "bias") or not model.strength:
        return None
    if model.balancing == "z-loss":
        size = balance.router_z_loss(scores)
        return model.strength * size.value, model.strength * size.by_scores
    mean_gates = routing.gates.mean(2)
    value, by_mean = (
        balance.switch_loss(load, mean_gates) if model.balancing == "switch" else balance.importance_loss(mean_gates)
    )
    by_scores = balance.through_softmax(routing.gates, by_mean[..., None]) / scores.shape[2]
    return model.strength * value, model.strength * by_scores


def topk_step(
    state: State, blocks: Sequence[Experts], noise: Float[Tensor, "T M N"], model: TopKMoE
) -> tuple[State, Sums]:
    """Takes one step on all samples.

    Args:
      blocks: experts bound to consecutive blocks of the samples, whose gradients are added.
      noise: r of this step.

    Returns:
      The new state, and the sums before the step.
    """
    samples = noise.shape[2]
    scores = scores_of(state, blocks)
    routing = route(scores, scores + noise + state.bias[..., None], model)
    load = balance.load_of(routing.chosen)
    gradient, right, loss = torch.zeros_like(state.experts), [], []
    by_gates = torch.zeros_like(scores)
    begin = 0
    for block in blocks:
        here = slice(begin, begin := begin + block.inputs.samples)
        slots, weights = routing.slots[..., here], routing.weights[..., here]
        found = mixed_gradient(block, state.experts, slots, weights, paper_link)
        gradient += found.gradient
        right.append((found.margin > 0).sum(1))
        loss.append(softplus(-found.margin).sum(1))
        routed = slice(0, model.experts_per_sample)
        by_gates[..., here].scatter_(1, slots[:, routed], found.slopes[:, None] * found.outputs[:, routed])
    by_scores = balance.through_softmax(routing.gates, by_gates) / samples
    total = sum(loss[1:], loss[0])
    extra = balancing_loss(scores, routing, load, model)
    if extra is not None:
        total, by_scores = total + samples * extra[0], by_scores + extra[1]
    bias = state.bias
    if model.balancing == "bias":
        bias = balance.updated_bias(bias, routing.chosen.sum(2), model.strength)
    return _moved(state, gradient / samples, _by_routers(by_scores, blocks), bias, model), Sums(
        total, sum(right[1:], right[0])
    )


def _by_routers(by_scores: Float[Tensor, "T M N"], blocks: Sequence[Experts]) -> Float[Tensor, "T M d"]:
    parts = by_scores.split([block.inputs.samples for block in blocks], dim=2)
    products = [part @ block.inputs.totals for part, block in zip(parts, blocks, strict=True)]
    return sum(products[1:], products[0])


def _moved(state: State, experts: Tensor, routers: Tensor, bias: Tensor, model: TopKMoE) -> State:
    step = normalised(experts, False) if model.equal_steps else experts
    return State(
        torch.sub(state.experts, step, alpha=model.learning_rate),
        torch.sub(state.routers, routers, alpha=model.router_learning_rate),
        bias,
    )
