"""RoutedMoE: the experts of `JointMoE` behind any of the routings of `moe_lab.routers.choices`, as functions of arrays.

    f(x) = sum_s sum_j G_{j,s} V_{j,s},   V_{j,s} = sum_{r in s} (a_{r,s} / q) ReLU(<w_{r,s}, x^(j)>)

for all routings but soft MoE, where the experts see the means of patches that are in their slots. q is C with expert
choice, as in eq. 1, and n with all others, because there the sum runs over all patches, as in the CNN (eq. 5).

It trains by SGD with the gradient that torch finds: gates differ from routing to routing, and the analytic step of each
would be long. All patches are multiplied by all neurons and masked afterwards, which is fastest at these sizes; the
number of places says how many products a large model would compute.

Shapes as in `joint`; S = k C slots.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple, Self, get_args

import torch
from jaxtyping import Bool, Float
from pydantic import model_validator
from torch import Tensor

from moe_lab.core.config import knob, require
from moe_lab.core.graphs import on_accelerator
from moe_lab.core.trials import Draw, drawn
from moe_lab.patch_routing.model import PatchModel, check_division
from moe_lab.routers.choices import (
    GATES,
    Gates,
    Order,
    capacity_of,
    hash_choice,
    noisy_scores,
    sign_hash,
    soft_weights,
    table_of,
    top_gates,
    within_capacity,
)

Routing = Literal["expert-choice", "token-choice", "soft", "hash"]
ROUTINGS: tuple[Routing, ...] = get_args(Routing)


class RoutedMoE(PatchModel):
    """The experts of `JointMoE` behind another routing, trained jointly with it, at equal compute for every routing.

    Whoever chooses, every expert has the same number of places, C = ceil(c n / k) (`places`), so that at most k C
    products of a patch and an expert are computed, c for each patch. With expert choice each expert takes C patches;
    with C = l, "softmax" gates and no noise the model is JointMoE. With token choice each patch asks t experts, and
    those without a free place drop it: c is the capacity factor of Switch transformers (t = 1), and c / t that of
    GShard. With "soft" each expert has C slots, and with "hash" a fixed table takes the router's place; gates, order
    and noise then have no effect.
    """

    experts: int = knob(8, symbol="k", meaning="experts", ge=1, le=1024, slider=(1, 8, 1))
    routing: Routing = knob("token-choice", meaning="who chooses", choices=ROUTINGS)
    gates: Gates = knob("softmax", meaning="gates", choices=GATES)
    experts_per_patch: int = knob(1, symbol="t", meaning="experts that a patch asks", ge=1, le=1024, slider=(1, 8, 1))
    capacity_factor: float = knob(
        1.0, symbol="c", meaning="places for each patch", gt=0, le=1e3, slider=(0.25, 3.0, 0.25)
    )
    order: Order = knob("arrival", meaning="who gets a place first", choices=("arrival", "priority"))
    router_noise: float = knob(
        0.0, symbol="sigma", meaning="noise on the scores in training", ge=0, le=1e3, slider=(0.0, 2.0, 0.1)
    )

    name: ClassVar[str] = "routed"

    @model_validator(mode="after")
    def _experts_suffice(self) -> Self:
        check_division(self.neurons, self.experts)
        rule = "experts_per_patch (t) must be at most experts (k)"
        require(self.experts_per_patch <= self.experts, rule, t=self.experts_per_patch, k=self.experts)
        return self

    def places(self, patches: int) -> int:
        """Returns C, the places of an expert for a sample of n patches, at most n."""
        return capacity_of(patches, self.experts, 1, self.capacity_factor)


class RoutedRules(NamedTuple):
    """The constants of training."""

    outputs: Float[Tensor, "T c k m"]  # a_{r,s} / q at the neurons r of expert s, else 0
    directions: Float[Tensor, "T bits d"]  # of the hash; no bits for other routings
    table: Bool[Tensor, "T buckets k"]  # of the hash
    learning_rate: Float[Tensor, "T 1 1"]

    def of(self, trials: slice | Tensor) -> RoutedRules:
        """Returns the rules of some trials."""
        return RoutedRules(*(part[trials] for part in self))


class PatchChoice(NamedTuple):
    """Where patches go.

    Attributes:
      asked: (T, k, B, n) bool, the experts that each patch asks, or, with expert choice, the patches that each takes.
      mask: same shape, those among them that find a place.
      gates: same shape, zero elsewhere; for soft MoE the patch's mean weight in the expert's slots.
    """

    asked: Bool[Tensor, "T k B n"]
    mask: Bool[Tensor, "T k B n"]
    gates: Float[Tensor, "T k B n"]


class RoutedPass(NamedTuple):
    """The result of a forward pass."""

    choice: PatchChoice
    outputs: Float[Tensor, "T c B"]

    @property
    def mask(self) -> Bool[Tensor, "T k B n"]:
        return self.choice.mask

    @property
    def gates(self) -> Float[Tensor, "T k B n"]:
        return self.choice.gates


def router_rows(model: RoutedMoE, patches: int) -> int:
    """Returns how many rows of weights the router has: k, as many again for learned noise, one a slot, or none."""
    if model.routing == "soft":
        return model.experts * model.places(patches)
    return 0 if model.routing == "hash" else model.experts * (2 if model.router_noise else 1)


def pooled(model: RoutedMoE, patches: int) -> int:
    """Returns q, by which the output weights are divided."""
    return model.places(patches) if model.routing == "expert-choice" else patches


def initial_router(
    trials: Sequence[int], seed: int, model: RoutedMoE, patches: int, dimension: int
) -> Float[Tensor, "T rows d"]:
    """Returns the router's rows: for scores as in JointMoE (eq. 7), for noise zeros (Shazeer et al. 2017)."""
    rows = router_rows(model, patches)
    random = min(rows, model.experts) if model.routing != "soft" else rows
    raw = Draw("routers", (random, dimension), "normal").by_trial(trials, seed)
    scores = raw / (patches**2 * math.sqrt(dimension))
    return torch.nn.functional.pad(scores, (0, 0, 0, rows - random))


def hash_of(
    trials: Sequence[int], seed: int, model: RoutedMoE, dimension: int
) -> tuple[Float[Tensor, "T bits d"], Bool[Tensor, "T buckets k"]]:
    """Draws directions and the table of each trial, at least four buckets for each expert; none for other routings."""
    if model.routing != "hash":
        return torch.zeros(len(trials), 0, dimension), torch.zeros(len(trials), 1, model.experts, dtype=torch.bool)
    bits = 2 + (model.experts - 1).bit_length()
    raw = drawn(
        {
            "directions": Draw("hash", (bits, dimension), "normal"),
            "buckets": Draw("hash", (2**bits,), "order", things=2**bits),
            "experts": Draw("hash", (model.experts,), "order", things=model.experts),
        },
        trials,
        seed,
    )
    orders = raw["buckets"].long(), raw["experts"].long()
    return raw["directions"], table_of(*orders, model.experts_per_patch)


def choose(
    scores: Float[Tensor, "T rows B n"],
    model: RoutedMoE,
    noise: Float[Tensor, "T k B n"] | None = None,
) -> PatchChoice:
    """Chooses by scores: expert choice or token choice with the model's gates, capacity and order.

    Args:
      scores: of the k experts, and below them the spreads of their noise if the model has any.
      noise: standard normal numbers; None for none, as in evaluation.
    """
    k, places = model.experts, model.places(scores.shape[3])
    if noise is not None:
        scores = noisy_scores(scores[:, :k], scores[:, k:], model.router_noise * noise)
    scores = scores[:, :k]
    if model.routing == "expert-choice":
        mask, gates = top_gates(scores, places, model.gates)
        return PatchChoice(mask, mask, gates)
    by_patch = scores.permute(0, 2, 3, 1)
    asked, gates = top_gates(by_patch, model.experts_per_patch, model.gates)
    mask = within_capacity(asked, by_patch, places, model.order)
    return PatchChoice(*(part.permute(0, 3, 1, 2) for part in (asked, mask, gates * mask)))


def look_up(patches: Float[Tensor, "T B n d"], rules: RoutedRules, places: int) -> PatchChoice:
    """Sends patches where the hash says, in the order of their positions, with gates 1."""
    rows, directions = patches.flatten(1, 2), rules.directions
    if on_accelerator(patches.device):
        buckets = sign_hash(rows, directions)
    else:  # one by one: the product of all rounds otherwise, and a sign may turn
        buckets = torch.stack([sign_hash(*each) for each in zip(rows, directions, strict=True)])
    asked = hash_choice(buckets, rules.table).unflatten(1, patches.shape[1:3])
    mask = within_capacity(asked, asked.to(patches.dtype), places)
    return PatchChoice(*(part.permute(0, 3, 1, 2) for part in (asked, mask, mask.to(patches.dtype))))


def routed_forward(
    weights: Float[Tensor, "T rows d"],
    patches: Float[Tensor, "T B n d"],
    rules: RoutedRules,
    model: RoutedMoE,
    noise: Float[Tensor, "T k B n"] | None = None,
) -> RoutedPass:
    """Computes f and where the patches go. The weights are m rows of hidden weights, then the router's."""
    if model.routing == "soft":
        return soft_forward(weights, patches, rules, model)
    trials, batch, n, _ = patches.shape
    _, classes, experts, neurons = rules.outputs.shape
    products = weights @ patches.flatten(1, 2).mT
    if model.routing == "hash":
        choice = look_up(patches, rules, model.places(n))
    else:
        choice = choose(products[:, neurons:].view(trials, -1, batch, n), model, noise)
    hidden = products[:, :neurons].clamp_min(0)
    patch_outputs = (rules.outputs.flatten(1, 2) @ hidden).view(trials, classes, experts, batch, n)
    return RoutedPass(choice, (choice.gates[:, None] * patch_outputs).sum((2, 4)))


def soft_forward(
    weights: Float[Tensor, "T rows d"], patches: Float[Tensor, "T B n d"], rules: RoutedRules, model: RoutedMoE
) -> RoutedPass:
    """Computes f = sum_j sum_slots C_{j,slot} y_slot, where y_slot is the expert's output for the slot's mean patch."""
    trials, batch, n, d = patches.shape
    _, classes, experts, neurons = rules.outputs.shape
    scores = patches @ weights[:, None, neurons:].mT  # (T, B, n, S)
    dispatch, combine = soft_weights(scores)
    slots = (dispatch.mT @ patches).view(trials, batch, experts, -1, d).transpose(1, 2)  # (T, k, B, C, d)
    by_expert = weights[:, :neurons].view(trials, experts, -1, d)
    hidden = (slots.flatten(2, 3) @ by_expert.mT).clamp_min(0)  # (T, k, BC, m/k)
    own = rules.outputs.view(trials, classes, experts, experts, -1).diagonal(dim1=2, dim2=3)  # (T, c, m/k, k)
    slot_outputs = (hidden @ own.permute(0, 3, 2, 1)).view(trials, experts, batch, -1, classes)
    shares = combine.sum(2).view(trials, batch, experts, -1).transpose(1, 2)  # (T, k, B, C)
    every = torch.ones(trials, experts, batch, n, dtype=torch.bool, device=patches.device)
    weight = dispatch.view(trials, batch, n, experts, -1).mean(-1).permute(0, 3, 1, 2)
    outputs = (slot_outputs * shares[..., None]).sum((1, 3)).mT
    return RoutedPass(PatchChoice(every, every, weight), outputs)
