"""Scores each layer's experts, before and after fine-tuning, and chooses those that stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab.core import saliency
from moe_lab.core.config import require
from moe_lab.core.saliency import Criterion, Statistics, UndefinedCriterionError
from moe_lab.core.sentences import brief
from moe_lab.core.trials import stream
from moe_lab_hub.experts import LayerExperts, Pair
from moe_lab_hub.families import Family, read_field
from moe_lab_hub.rounding import Alike, exchangeable, of_difference, of_norms
from moe_lab_hub.survey import Layer, Tensors, check_finite, groups_of, natural, top_of

CRITERIA: dict[str, Criterion] = {**saliency.CRITERIA, "reap": saliency.reap}
"""Every criterion by name: those of the paper, and REAP's."""

MAGNITUDES: Mapping[str, str] = {
    "router-norm-change": "router-magnitude",
    "router-difference-norm": "router-magnitude",
    "neuron-magnitude-change": "neuron-magnitude",
}
"""What scores a layer that the model before fine-tuning does not have."""


@dataclass(frozen=True)
class Source:
    """A model or a checkpoint as pruning reads it.

    Attributes:
      family: its family.
      layers: its mixture-of-experts blocks.
      tensors: what it holds.
      config: its transformers config.
    """

    family: Family
    layers: tuple[Layer, ...]
    tensors: Tensors
    config: Any


@dataclass(frozen=True)
class Scored:
    """The scores of one layer.

    Attributes:
      scores: (E,) of each expert.
      criterion: the name of the criterion that gave them; "function" for one without a name.
      alone: whether this layer has no partner to compare with, where others have.
      variances: (E,) the variance of each score that rounding leaves; None for criteria that compare no two models, and
        for functions.
      kind: the type of the numbers that were compared; "" where none were.
    """

    scores: Float[Tensor, " k"]
    criterion: str
    alone: bool = False
    variances: Float[Tensor, " k"] | None = None
    kind: str = ""


def check_pair(before: Source, after: Source) -> None:
    """Checks that two models are one before and after fine-tuning.

    The blocks of the second count. Of those the first may lack some, as transformers leaves those out that predict
    tokens further ahead.

    Raises:
      ValueError: their families, layers or experts differ.
    """
    rule = "before must be the same model before fine-tuning: the same family, layers, experts and sizes"
    old, new = (
        {"family": source.family.name, "num_hidden_layers": _depth(source), **_routers(source)}
        for source in (before, after)
    )
    differ = [key for key in new if key in old and old[key] != new[key]]
    first = min(differ, key=natural, default="") if "family" not in differ else "family"
    require(not differ, rule, before=old.get(first), after=new.get(first), where=first)
    shared = _routers(before).keys() & _routers(after).keys()
    require(bool(shared), rule, before=[*_routers(before)], after=[*_routers(after)])


def _depth(source: Source) -> int | None:
    return getattr(source.config.get_text_config(), "num_hidden_layers", None)


def _routers(source: Source) -> dict[str, tuple[int, ...]]:
    return {layer.name: source.tensors.shape(layer.router) for layer in source.layers}


def scores_of(
    criterion: str | Criterion,
    before: Source | None,
    after: Source,
    statistics: Mapping[str, Statistics],
    layers: Sequence[Layer],
) -> Iterator[tuple[str, Scored]]:
    """Yields a score for each expert of each layer with the layer's name.

    A layer that `before` does not have is scored by the magnitude where the criterion is a change of it; a function is
    given the layer itself in place of the missing one.

    Raises:
      ValueError: the name is unknown, what the criterion needs is missing, or its scores have the wrong shape.
      UndefinedCriterionError: no router of a layer has moved, or no neuron.
    """
    name = checked_name(criterion) if isinstance(criterion, str) else "function"
    rule = f"{name} compares with the model before fine-tuning: give before="
    require(before is not None or name not in saliency.NEED_BEFORE, rule, before=None)
    compares = before is not None and (callable(criterion) or name in saliency.NEED_BEFORE)
    partners = {layer.name: layer for layer in before.layers} if before is not None and compares else {}
    for layer in layers:
        old, known = partners.get(layer.name), statistics[layer.name]
        if before is not None and old is not None:
            check_finite_read(before, old, name)
            scored = _compared(criterion, before, old, after, layer, known)
        else:
            own = criterion if callable(criterion) or not compares else MAGNITUDES[criterion]
            scored = _alone(own, after, layer, known)
            scored = replace(scored, alone=compares)
        yield layer.name, scored


def _checked(scores: Tensor, name: str, layer: Layer) -> Float[Tensor, " k"]:
    """Returns the scores of a layer without the axis of trials."""
    rule = f"a criterion must give (1, {layer.experts}) scores"
    require(tuple(scores.shape) == (1, layer.experts), rule, scores=tuple(scores.shape))
    require(bool(scores.isfinite().all()), f"{name} must give finite scores", layer=layer.name)
    return scores[0]


def _alone(criterion: str | Criterion, source: Source, layer: Layer, known: Statistics) -> Scored:
    """Scores the experts of a layer by what needs no other model."""
    function: Callable[..., Tensor] = criterion if callable(criterion) else CRITERIA[criterion]
    if criterion != "neuron-magnitude":
        experts = LayerExperts(source.family, layer, source.tensors)
        scores = function(experts, experts, known)
        return Scored(_checked(scores, _name(criterion), layer), _name(criterion))
    found = []
    for expert in range(layer.experts):
        one = LayerExperts(source.family, layer, source.tensors, [expert])
        require(one.neurons.numel() > 0, f"{criterion} needs experts that are not quantised", layer=layer.name)
        found.append(function(one, one, known))
    return Scored(_checked(torch.cat(found, 1), criterion, layer), criterion)


def _compared(
    criterion: str | Criterion, before: Source, old: Layer, after: Source, new: Layer, known: Statistics
) -> Scored:
    """Scores the experts of a layer by what they were before and are after fine-tuning."""

    def pair(experts: Sequence[int] | None = None) -> Pair:
        return Pair(
            LayerExperts(before.family, old, before.tensors, experts),
            LayerExperts(after.family, new, after.tensors, experts),
        )

    if callable(criterion):
        return Scored(_checked(criterion(*pair().sides, known), "function", new), "function")
    function: Callable[..., Tensor] = CRITERIA[criterion]
    if criterion != "neuron-magnitude-change":
        whole = pair()
        _check_moved(whole.routers.moved, "router", whole.routers, new)
        of = of_norms if criterion == "router-norm-change" else of_difference
        variances = of(whole.routers.before, whole.routers.after, whole.routers.kind)
        found = _checked(function(*whole.sides, known), criterion, new)
        return Scored(found, criterion, variances=variances, kind=_kind(whole.routers))
    scores, errors, moved = [], [], False
    for expert in range(new.experts):  # so that one at a time is in memory
        one = pair([expert])
        neurons = one.neurons
        require(neurons.after.numel() > 0, f"{criterion} needs experts that are not quantised", layer=new.name)
        scores.append(function(*one.sides, known))
        each = of_norms(neurons.before[0].T, neurons.after[0].T, neurons.kind)
        errors.append(each.sum() / len(each) ** 2)
        moved = moved or neurons.moved
    _check_moved(moved, "neuron", neurons, new)
    found = _checked(torch.cat(scores, 1), criterion, new)
    return Scored(found, criterion, variances=torch.stack(errors), kind=_kind(neurons))


def check_finite_read(source: Source, layer: Layer, criterion: str) -> None:
    """Checks what a criterion reads of the model before fine-tuning: the router, the neurons, or all."""
    router, neurons = criterion.startswith("router-"), criterion.startswith("neuron-")
    roles = {
        name: role
        for name, role in layer.roles.items()
        if not (router or neurons) or (router and name == layer.router) or (neurons and role.neurons)
    }
    check_finite([replace(layer, roles=roles)], source.tensors, "before")


def told(scored: Mapping[str, Scored], kept: Mapping[str, Sequence[int]], groups: int) -> tuple[str, ...]:
    """Returns what a user must know of the scores: which layers were scored otherwise, and what rounding decides."""
    sentences = []
    alone = [name for name, one in scored.items() if one.alone]
    if alone:
        criterion = scored[alone[0]].criterion
        way = "with the model itself in its place" if criterion == "function" else f"by {criterion}"
        sentences.append(f"before has no {brief(', '.join(alone), 150)}, which is scored {way}")
    unsure = {name: count for name, one in scored.items() if (count := unsure_of(one, kept[name], groups))}
    if unsure:
        kinds = " and ".join(sorted({scored[name].kind for name in unsure}))
        sentences.append(
            f"rounding to {kinds} hides which experts should stay: {sum(unsure.values())} of "
            f"{sum(len(kept[name]) for name in scored)} kept could change places with pruned ones, in "
            f"{brief(', '.join(unsure), 100)}"
        )
    return tuple(sentences)


def unsure_of(scored: Scored, kept: Sequence[int], groups: int) -> int:
    """Counts the experts kept that could change places with pruned ones of their group, as rounding hides the order."""
    if scored.variances is None:
        return 0
    stays = torch.zeros(len(scored.scores), dtype=torch.bool)
    stays[list(kept)] = True
    parts = (part.view(groups, -1) for part in (scored.scores, scored.variances, stays))
    return sum(exchangeable(*group) for group in zip(*parts, strict=True))


def _name(criterion: str | Criterion) -> str:
    return criterion if isinstance(criterion, str) else "function"


def _kind(numbers: Alike) -> str:
    return str(numbers.kind).removeprefix("torch.")


def checked_name(criterion: str) -> str:
    """Returns the name of a criterion.

    Raises:
      ValueError: there is none of this name.
    """
    require(criterion in CRITERIA, f"a criterion must be one of {', '.join(CRITERIA)}", criterion=criterion)
    return criterion


def chance_of(layers: Sequence[Layer], seed: int) -> dict[str, Statistics]:
    """Returns statistics without tokens: random numbers, which differ from layer to layer, and NaN."""
    found = {}
    for number, layer in enumerate(layers):
        nothing = torch.full((1, layer.experts), torch.nan, dtype=torch.float64)
        chance = torch.as_tensor(stream(seed, number, "hub/random").random(layer.experts))[None]
        found[layer.name] = Statistics(nothing, nothing, nothing, chance)
    return found


def kept_experts(scores: Float[Tensor, " k"], share: float, groups: int) -> tuple[int, ...]:
    """Returns the experts that stay, ascending: those with the largest scores, equally many of each group.

    Of equal scores the lower number stays. The number pruned in a group is rounded down.
    """
    sizes = scores.view(groups, -1)
    left = sizes.shape[1] - saliency.pruned_count(share, sizes.shape[1])
    stays = (saliency.ranks(sizes) < left).flatten()
    return tuple(stays.nonzero()[:, 0].tolist())


def check_count(source: Source, share: float, groups: int) -> None:
    """Checks, before anything is scored, that a token still finds as many experts as it is sent to.

    Raises:
      ValueError: the share is wrong, or too few experts would be left.
    """
    size = source.layers[0].experts // groups
    check_left(source, size - saliency.pruned_count(share, size), groups, share=share)


def check_left(source: Source, own: int, groups: int, **about: Any) -> None:
    """Checks that a token finds as many experts as it is sent to where so many of each group stay.

    Args:
      about: what a message shows besides.

    Raises:
      ValueError: too few experts would be left.
    """
    experts, top = source.layers[0].experts, top_of(source.family, source.config)
    rule = f"as many experts must be kept as a token is sent to (top-k = {top})"
    require(own * groups >= top, rule, kept=own * groups, experts=experts, **about)
    if groups > 1:
        rule = f"{source.family.name} must keep at least {source.family.least} experts in each of its {groups} groups"
        require(own >= source.family.least, rule, kept=own, **about)
        chosen = int(read_field(source.config, source.family.group_top))
        rule = f"the {chosen} groups that a token chooses must keep as many experts as it is sent to (top-k = {top})"
        require(own * chosen >= top, rule, kept=own * chosen, **about)


def source_groups(source: Source, mode: str) -> int:
    """Returns how many groups must keep equally many experts: the model's, unless its routers stay as they are."""
    return groups_of(source.family, source.config) if mode == "rerouted" else 1


def _check_moved(moved: bool, part: Literal["router", "neuron"], numbers: Alike, layer: Layer) -> None:
    """Raises an UndefinedCriterionError if nothing that a criterion compares in a layer has moved."""
    if moved:
        return
    reason = (
        " (LoRA usually leaves routers alone, and with top-k = 1 and renormalised gates they have no gradient)"
        if part == "router"
        else ""
    )
    equal = f"{part}s that are equal once rounded to {_kind(numbers)}" if numbers.rounded else f"equal {part}s"
    raise UndefinedCriterionError(
        f"the change of the {part}s is undefined where none has moved{reason}: use another criterion; got "
        f"{equal} in {layer.name}"
    )
