"""Initialization of fine-tuning: tiny random weights, a planted checkpoint, or branches pre-trained apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from moe_lab.core.config import Config, knob, require
from moe_lab.core.saliency import ranks
from moe_lab.core.trials import Draw, drawn, tensor_of
from moe_lab.pruning.data import TokenTask
from moe_lab.pruning.model import TokenMoE


class RandomStart(Config):
    """Tiny Gaussian routers and neurons (section 5.1: variances 1e-8 and 1e-4)."""

    router_scale: float = knob(1e-4, meaning="spread of the first routers", gt=0, le=1e6)
    neuron_scale: float = knob(1e-2, meaning="spread of the first neurons", gt=0, le=1e6)

    name: ClassVar[str] = "random"


class PlantedStart(Config):
    """A checkpoint in which it is known which experts matter (appendix C, assumptions on the pre-trained model).

    Of each half, a few experts at random places are important: small routers, whose component along their class's
    pattern is C_p above that along any other, and half of whose neurons are active on it. All others are specialists of
    something else: their routers have norms between 0 and twice others_norm, spread over a few irrelevant patterns that
    no other expert prefers, and rank the task's two patterns last, so that p = 0; their neurons are larger (up to
    twice others_neurons, drawn for each expert), and carry no information.

    The contrasts between criteria are by construction: large, confident routers are the useless ones. With others_norm
    of 1 or less the router norm serves as well as its change.
    """

    important: int = knob(2, meaning="important experts of each class", ge=0, le=2048, slider=(0, 5, 1))
    margin: float = knob(
        0.05, symbol="C_p", meaning="how far an important router puts its pattern above any other", gt=0, le=1e3
    )
    others_norm: float = knob(12.0, meaning="mean norm of the others' routers", gt=0, le=1e4, slider=(1.0, 20.0, 1.0))
    others_neurons: float = knob(
        0.2, meaning="mean spread of the others' neurons", gt=0, le=1e6, slider=(0.01, 0.5, 0.01)
    )
    favourites: int = knob(
        8,
        meaning="most irrelevant patterns that one of the others prefers (fewer where there are not enough)",
        ge=1,
        le=65536,
    )
    router_scale: float = knob(0.02, meaning="spread of the routers' other components", gt=0, le=1e3)
    neuron_scale: float = knob(1e-2, meaning="spread of the important experts' neurons", gt=0, le=1e6)

    name: ClassVar[str] = "planted"


class BranchStart(Config):
    """A checkpoint of specialists: each branch of experts was trained from `RandomStart` on a task of its own.

    Task b has the patterns 2b and 2b + 1; the downstream task is one of them. Branches hold equally many experts that
    vote + and -, dealt out in turn, and are put side by side when they are done (branch-train-merge).

    Pre-training samples are short, so that nearly every expert often meets its task's patterns and becomes a specialist
    of them: with samples of n=100 tokens about half of the experts do.
    """

    tasks: int = knob(4, meaning="pre-training tasks, one branch each", ge=1, le=64, slider=(1, 5, 1))
    tokens: int | None = knob(None, meaning="tokens in a pre-training sample (none: l + 1)", ge=2, le=65536)
    steps: int = knob(200, meaning="pre-training steps", ge=1, le=10**6, slider=(50, 400, 10))
    batch: int = knob(100, meaning="samples in a pre-training step", ge=1, le=10**5)
    router_learning_rate: float = knob(0.01, meaning="routers' learning rate in pre-training", ge=0, le=1e6)
    router_scale: float = knob(1e-4, meaning="spread of the first routers", gt=0, le=1e6)
    neuron_scale: float = knob(1e-2, meaning="spread of the first neurons", gt=0, le=1e6)

    name: ClassVar[str] = "pretrained"

    def tokens_for(self, model: TokenMoE) -> int:
        """Returns the number of tokens in a pre-training sample."""
        return model.top + 1 if self.tokens is None else self.tokens


Start = RandomStart | PlantedStart | BranchStart


def check_start(start: Start, model: TokenMoE, task: TokenTask) -> None:
    """Checks that a start can be made for a model and a task.

    Raises:
      ValueError: more important experts than a half has, tasks that do not divide the experts or the patterns.
    """
    if isinstance(start, PlantedStart):
        rule = "important experts must leave at least one other in each half of the experts (k)"
        require(start.important < model.experts // 2, rule, important=start.important, k=model.experts)
        rule = "experts (k) must be at most 2 important + d - 2, so that each other one has an irrelevant pattern"
        fits = model.experts - 2 * start.important <= task.patterns - 2
        require(fits, rule, k=model.experts, important=start.important, d=task.patterns)
    if isinstance(start, BranchStart):
        rule = "experts (k) must be at least two per pre-training task, so that each branch has one of each sign"
        require(model.experts >= 2 * start.tasks, rule, k=model.experts, tasks=start.tasks)
        rule = "the pre-training tasks must leave at least one irrelevant pattern among the patterns (d)"
        require(2 * start.tasks < task.patterns, rule, tasks=start.tasks, d=task.patterns)
        rule = "pair must be one of the pre-training tasks, counted from 0"
        require(task.pair < start.tasks, rule, pair=task.pair, tasks=start.tasks)
        smallest = 2 * (model.experts // 2 // start.tasks)
        rule = f"top (l) must be at most the {smallest} experts of the smallest branch where tokens choose"
        fits = model.routing == "expert-choice" or model.top <= smallest
        require(fits, rule, l=model.top, k=model.experts, tasks=start.tasks)
        rule = "top (l) must be at most the tokens in a pre-training sample where experts choose"
        fits = model.routing == "token-choice" or model.top <= start.tokens_for(model)
        require(fits, rule, l=model.top, tokens=start.tokens)


def important_experts(start: PlantedStart, experts: int, trials: Sequence[int], seed: int) -> np.ndarray:
    """Returns (trials, k) bool: which experts are planted as important."""
    raw = drawn({"places": _places(experts)}, trials, seed)
    return np.asarray(_important(start, raw["places"]).numpy())


def _places(experts: int) -> Draw:
    """The raw numbers that decide which experts of each half are important."""
    return Draw("planted/places {}", (experts // 2,), several=2)


def _important(start: PlantedStart, places: Float[Tensor, "T 2 half"]) -> Bool[Tensor, "T k"]:
    """Marks the important experts: those of each half whose raw numbers are the smallest."""
    return (ranks(-places) < tensor_of(start, "important")).flatten(1)


def branch_of(experts: int, tasks: int) -> np.ndarray:
    """Returns (k,) the branch of each expert: in each half, dealt out in turn."""
    half = experts // 2
    return np.tile(np.arange(half) % tasks, 2)


def random_weights(
    start: RandomStart | BranchStart | PlantedStart, model: TokenMoE, patterns: int, trials: Sequence[int], seed: int
) -> tuple[Float[Tensor, "T k d"], Float[Tensor, "T k d m"]]:
    """Samples router and neuron components from N(0, scale^2).

    A Gaussian is invariant under rotations, so the components along the patterns are sampled.
    """

    raw = drawn(_random_draws(model, patterns), trials, seed)
    return _random(raw, start)


def _random_draws(model: TokenMoE, patterns: int) -> dict[str, Draw]:
    """The raw numbers of random weights."""
    each: dict[str, Any] = {"kind": "normal", "several": model.experts}
    return {
        "routers": Draw("routers/{}", (patterns,), **each),
        "neurons": Draw("neurons/{}", (model.neurons, patterns), **each),
    }


def _random(raw: Mapping[str, Tensor], start: Start) -> tuple[Float[Tensor, "T k d"], Float[Tensor, "T k d m"]]:
    """Returns random weights that raw numbers determine."""
    return raw["routers"] * start.router_scale, raw["neurons"].mT.contiguous() * start.neuron_scale


def planted_weights(
    start: PlantedStart, model: TokenMoE, task: TokenTask, trials: Sequence[int], seed: int
) -> tuple[Float[Tensor, "T k d"], Float[Tensor, "T k d m"]]:
    """Returns router and neuron components of a planted checkpoint, as `random_weights` gives them."""
    wanted = _random_draws(model, task.patterns) | {
        "places": _places(model.experts),
        "sizes": Draw("planted/sizes", (3, model.experts)),
        "favourites": Draw("planted/favourites", (task.patterns - 2,)),
    }
    raw = drawn(wanted, trials, seed)
    routers, neurons = _random(raw, start)
    important = _important(start, raw["places"])
    norms, spreads, numbers = raw["sizes"].unbind(1)
    mine = _preferred(start, model, task, important, numbers, ranks(-raw["favourites"]))
    sign = torch.arange(model.experts) >= model.experts // 2
    columns, (one, two) = torch.arange(task.patterns), task.specific
    own = torch.where(sign[:, None], columns == two, columns == one)  # (k, d) each expert's own pattern

    highest = routers.masked_fill(own, -torch.inf).amax(2, keepdim=True)
    confident = torch.where(own, highest + start.margin, routers)
    lowest = routers.amin(2, keepdim=True) - start.margin
    others = torch.where((columns == one) | (columns == two), lowest, routers)
    others = _of_norm(others, mine, 2 * tensor_of(start, "others_norm") * norms[..., None])

    alternating = torch.where(torch.arange(model.neurons) % 2 == 0, 1.0, -1.0).to(neurons)
    active = torch.where(own[..., None], neurons.abs() * alternating, neurons)
    spread = 2 * tensor_of(start, "others_neurons") * spreads / start.neuron_scale
    neurons = torch.where(important[..., None, None], active, neurons * spread[..., None, None])
    return torch.where(important[..., None], confident, others), neurons


def _preferred(
    start: PlantedStart,
    model: TokenMoE,
    task: TokenTask,
    important: Bool[Tensor, "T k"],
    numbers: Float[Tensor, "T k"],
    places: Int[Tensor, "T irrelevant"],
) -> Bool[Tensor, "T k d"]:
    """Marks the patterns that each of the others prefers: some of those that are its share of the irrelevant ones.

    Args:
      numbers: uniform in [0, 1), how many it prefers of the most that it could.
      places: of the irrelevant patterns, in the order in which they are dealt out.
    """
    others = (tensor_of(model, "experts") - 2 * tensor_of(start, "important")).clamp(min=1)
    most = ((tensor_of(task, "patterns") - 2) / others).floor().clamp(max=start.favourites)
    begin = ((~important).cumsum(1) - 1) * most  # they are dealt out expert by expert
    end = begin + 1 + (numbers * most).floor()
    place = places[:, None]
    dealt = (place >= begin[..., None]) & (place < end[..., None]) & ~important[..., None]
    before, after = dealt[..., : 2 * task.pair], dealt[..., 2 * task.pair :]
    return torch.cat((before, torch.zeros_like(dealt[..., :2]), after), dim=2)


def _of_norm(
    routers: Float[Tensor, "T k d"], mine: Bool[Tensor, "T k d"], norm: Float[Tensor, "T k 1"]
) -> Float[Tensor, "T k d"]:
    """Returns routers of these norms, whose preferred components outgrow the others, a little apart, so that none ties.

    Args:
      mine: which components are preferred.
    """
    rest = routers.masked_fill(mine, 0).square().sum(2, keepdim=True)
    preferred = (1 + routers.abs()).masked_fill(~mine, 0)
    length = torch.linalg.vector_norm(preferred, dim=2, keepdim=True)
    routers = torch.where(mine, preferred * (norm.square() - rest).clamp(min=0).sqrt() / length, routers)
    return routers * (norm / torch.linalg.vector_norm(routers, dim=2, keepdim=True))
