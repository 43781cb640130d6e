"""One exact training step of a mixture as a pure function (chen2022, algorithm 1, and what language models add to it).

    F(x) = sum over the k experts with the largest h_m + r_m + b_m of pi_m f_m(x)  +  sum of all shared f_s(x),
    pi = softmax(h),  h = Theta^T sum_p x^(p)                                                          (section 3.2)

With k = 1, no shared expert and no bias b this is the paper's mixture. Experts take steps of one length along their
gradients, or ordinary ones; the router takes an ordinary gradient step (eq. 3.4 and 3.5).

Shapes: T trials, M routed experts, E = M + shared experts of J filters, S = k + shared experts of a sample, N samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from moe_lab.core.graphs import on_accelerator
from moe_lab.core.trials import Draw, drawn
from moe_lab.routers import balance
from moe_lab.specialization.layer import Layer
from moe_lab.specialization.model import LOSSES, SwitchMoE
from moe_lab.specialization.topk import TopKMoE

Mixture = SwitchMoE | TopKMoE


class State(NamedTuple):
    """What training changes: filters of routed and then shared experts, routers, and the bias of the selection."""

    experts: Float[Tensor, "T E J d"]
    routers: Float[Tensor, "T M d"]
    bias: Float[Tensor, "T M"]


# --- initialization -------------------------------------------------------------------------------------------------


def initial_experts(trials: Sequence[int], seed: int, model: Mixture, dimension: int) -> Float[Tensor, "T E J d"]:
    """Samples filters from N(0, sigma_0^2) (algorithm 1); of d + 1 numbers if they have biases.

    Filter j of expert m does not depend on M, J and the shared experts.
    """
    shape = model.filters, dimension + model.biases
    numbers = {"experts": model.experts, "shared": model.shared}
    wanted = {kind: Draw(f"{kind}/{{}}", shape, "normal", several) for kind, several in numbers.items() if several}
    return torch.cat(list(drawn(wanted, trials, seed).values()), dim=1) * model.initial_scale


def initial_routers(trials: Sequence[int], seed: int, model: Mixture, dimension: int) -> Float[Tensor, "T M d"]:
    """Samples routers from N(0, sigma_r^2); of d + 1 numbers where filters have biases."""
    draw = Draw("routers", (model.experts, dimension + model.biases), "normal")
    return draw.by_trial(trials, seed) * model.initial_router


def initial_state(model: Mixture, trials: Sequence[int], seed: int, dimension: int, train: Layer) -> State:
    """Returns the state before training; a `lead` of expert 1 is a score on the mean training sample."""
    routers = initial_routers(trials, seed, model, dimension).to(train.totals)
    if model.lead:  # along the mean sample: the shortest router with this score
        mean = train.totals.sum(1) / len(train)
        routers[:, 0] += model.lead * mean / mean.square().sum(1, keepdim=True)
    experts = initial_experts(trials, seed, model, dimension).to(train.totals)
    return State(experts, routers, routers.new_zeros(routers.shape[:2]))


# --- routing ----------------------------------------------------------------------------------------------------------


class Routing(NamedTuple):
    """Who gets which sample.

    Attributes:
      scores: h.
      gates: pi of every routed expert; with the authors' objective its score h + r instead.
      picked: the routed experts of each sample.
      slots: all experts of each sample, the routed ones first.
      weights: the factors of their outputs: gates, and 1 for shared experts.
    """

    scores: Float[Tensor, "T M N"]
    gates: Float[Tensor, "T M N"]
    picked: Int[Tensor, "T k N"]
    slots: Int[Tensor, "T S N"]
    weights: Float[Tensor, "T S N"]

    def spread(self, values: Float[Tensor, "T k N"] | float) -> Float[Tensor, "T M N"]:
        """Returns values at the routed experts of each sample, 0 at the others."""
        empty = torch.zeros_like(self.gates)
        return empty.scatter_(1, self.picked, values)  # type: ignore[arg-type]

    @property
    def chosen(self) -> Float[Tensor, "T M N"]:
        """1 where a routed expert gets the sample, else 0."""
        return self.spread(1.0)


def route(state: State, layer: Layer, noise: Float[Tensor, "T M N"] | None, model: Mixture) -> Routing:
    """Selects each sample's k experts with the largest h + r + b, ties to the lowest index (section 3.2).

    Scores that are NaN, in a trial that has diverged, select some expert all the same.
    """
    scores = state.routers @ layer.totals.mT
    noisy = scores if noise is None else scores + noise
    remaining: Tensor = noisy
    if model.balancing == "bias":
        remaining = noisy + state.bias[..., None]
    gates = scores.softmax(1) if model.objective == "paper" else noisy
    slots = picked = first_of(remaining, model.experts_per_sample)
    weights = gates.gather(1, picked)
    if model.shared:
        common = torch.arange(model.experts, model.experts + model.shared, device=scores.device)
        slots = torch.cat((slots, common[None, :, None].expand(len(slots), -1, len(layer))), 1)
        weights = torch.cat((weights, weights.new_ones(len(weights), model.shared, len(layer))), 1)
    return Routing(scores, gates, picked, slots, weights)


def first_of(scores: Float[Tensor, "T M N"], count: int) -> Int[Tensor, "T k N"]:
    """Returns the experts with the largest scores, in their order, ties to the lowest index."""
    if count > 1 and on_accelerator(scores.device):  # the same operations for any number of them
        return scores.sort(dim=1, descending=True, stable=True).indices[:, :count]
    picks = [scores.max(1, keepdim=True).indices]
    for _ in range(count - 1):  # a sort takes 1.5 to 2.4 times as long on a CPU, for 4 and 2 experts
        scores = scores.scatter(1, picks[-1], -torch.inf)
        picks.append(scores.max(1, keepdim=True).indices)
    return torch.cat(picks, 1)


class Forward(NamedTuple):
    """The result of a forward pass: the routing, f of every expert, and F(x)."""

    routing: Routing
    every: Float[Tensor, "T E N"]
    output: Float[Tensor, "T N"]


def forward(state: State, layer: Layer, noise: Float[Tensor, "T M N"] | None, model: Mixture) -> Forward:
    """Computes F(x), and f of all experts, with noise r on the router's scores if any is given."""
    routing, every = route(state, layer, noise, model), layer.every(state.experts)
    return Forward(routing, every, (routing.weights * every.gather(1, routing.slots)).sum(1))


# --- one step ---------------------------------------------------------------------------------------------------------


def balancing_loss(routing: Routing, model: Mixture) -> tuple[Float[Tensor, " T"], Float[Tensor, "T M #N"]] | None:
    """Computes the weighted balancing loss, a mean over the samples, and its derivative in the scores; None without.

    With the authors' objective the mean gate of the switch loss is the mean of h + r.
    """
    if model.balancing in ("none", "bias") or not model.strength:
        return None
    if model.balancing == "z-loss":
        size = balance.router_z_loss(routing.scores)
        return model.strength * size.value, model.strength * size.by_scores
    mean = routing.gates.mean(2)
    if model.balancing == "switch":
        value, by_mean = balance.switch_loss(balance.load_of(routing.chosen), mean)
    else:
        value, by_mean = balance.importance_loss(mean)
    by_scores = by_mean[..., None]
    if model.objective == "paper":
        by_scores = balance.through_softmax(routing.gates, by_scores)
    return model.strength * value, model.strength * by_scores / routing.scores.shape[2]


class Sums(NamedTuple):
    """The sums from which a step is computed.

    Attributes:
      loss: summed over the samples, with N times that of the balancing.
      right: the number of outputs with the label's sign.
      experts: the experts' gradient of the mean loss.
    """

    loss: Float[Tensor, " T"]
    right: Int[Tensor, " T"]
    experts: Float[Tensor, "T E J d"]


def step(state: State, layer: Layer, noise: Float[Tensor, "T M N"], model: Mixture) -> tuple[State, Sums]:
    """Takes one step on all samples of a layer, with router noise r: the new state, and the sums before the step."""
    samples, loss_of = len(layer), LOSSES[model.objective]
    routing = route(state, layer, noise, model)
    found = layer.gradient(state.experts, routing.slots, routing.weights, loss_of.link)
    by_gates = found.slopes[:, None] * found.outputs[:, : model.experts_per_sample]
    by_scores = routing.spread(by_gates)
    if model.objective == "paper":  # through the softmax (eq. E.1), to which most experts give 0
        mean = (routing.weights[:, : model.experts_per_sample] * by_gates).sum(1, keepdim=True)
        by_scores.sub_(mean).mul_(routing.gates)
    by_scores.div_(samples)
    loss, bias = loss_of.value(found.margin).sum(1), state.bias
    balancing = balancing_loss(routing, model)
    if balancing is not None:
        loss, by_scores = loss + samples * balancing[0], by_scores + balancing[1]
    if model.balancing == "bias":
        bias = balance.updated_bias(bias, routing.chosen.count_nonzero(2), model.strength)
    by_routers, by_experts = by_scores @ layer.totals, found.gradient / samples
    if model.biases:
        by_routers[..., -1].zero_()  # routers have no biases
    move = normalised(by_experts, model.biases) if model.equal_steps else by_experts
    after = State(
        torch.sub(state.experts, move, alpha=model.learning_rate),
        torch.sub(state.routers, by_routers, alpha=model.router_learning_rate),
        bias,
    )
    return after, Sums(loss, (found.margin > 0).sum(1), by_experts)


def normalised(gradient: Float[Tensor, "T M J d"], biases: bool) -> Float[Tensor, "T M J d"]:
    """Normalises each expert's gradient (eq. 3.4), filters and biases separately; a zero gradient stays zero."""
    if biases:
        return torch.cat([normalised(part, False) for part in (gradient[..., :-1], gradient[..., -1:])], dim=-1)
    norm = torch.linalg.vector_norm(gradient, dim=(2, 3), keepdim=True)
    return gradient / torch.where(norm > 0, norm, 1)
