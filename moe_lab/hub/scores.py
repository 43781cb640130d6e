"""Scores each layer's experts, before and after fine-tuning, and chooses those that stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab.core import saliency
from moe_lab.core.config import require
from moe_lab.core.saliency import Criterion, Statistics, UndefinedCriterionError
from moe_lab.core.trials import stream
from moe_lab.hub.families import Family, read_field
from moe_lab.hub.survey import Layer, Tensors, groups_of, natural, top_of

CRITERIA: dict[str, Criterion] = {**saliency.CRITERIA, "reap": saliency.reap}
"""Every criterion by name: those of the paper, and REAP's."""

_OF_NEURONS = ("neuron-magnitude", "neuron-magnitude-change")  # expert by expert, so that one at a time is in memory


class LayerExperts:
    """The experts of one layer as criteria read them, in float64, whatever the precision of the model.

    A neuron is what an expert multiplies its input with: a row of its gate's and of its up projection.
    """

    def __init__(self, family: Family, layer: Layer, tensors: Tensors, experts: Sequence[int] | None = None) -> None:
        self._family, self._layer, self._tensors = family, layer, tensors
        self._experts = range(layer.experts) if experts is None else experts

    @cached_property  # isinstance reads what a Protocol declares
    def own_routers(self) -> Float[Tensor, "1 k d"]:
        """(1, E, D) the rows of the router; not its bias."""
        rows = self._tensors.read(self._layer.router).detach().to("cpu", torch.float64)
        return rows[list(self._experts)][None]

    @cached_property
    def neurons(self) -> Float[Tensor, "1 k d m"]:
        """(1, E, D, F) the neurons; none (D = F = 0) of experts that are quantised."""
        each = [self._neurons(expert) for expert in self._experts]
        return (torch.stack(each) if len(each) > 1 else each[0][None])[None]

    def _neurons(self, expert: int) -> Float[Tensor, "d m"]:
        """The neurons of one expert, one in each column."""
        roles = self._layer.roles
        own = [name for name in sorted(roles) if roles[name].neurons and roles[name].expert in (expert, -1)]
        found = [self._columns(name, expert).detach().cpu() for name in own]
        plain = bool(found) and all(_plain(part) for part in found)
        return torch.cat(found, 1).to(torch.float64) if plain else torch.empty(0, 0, dtype=torch.float64)

    def _columns(self, name: str, expert: int) -> Tensor:
        """One tensor's neurons of an expert, one in each column."""
        role = self._layer.roles[name]
        if role.kind == "listed":
            return self._tensors.read(name).T
        size = self._tensors.shape(name)[0] // self._layer.experts
        own = self._tensors.read(name, expert * size, (expert + 1) * size)
        own = own if own.ndim == 2 else own[0]
        wide = role.neurons == "either" and own.shape[1] == self._tensors.shape(self._layer.router)[1]
        return own.T if wide or role.neurons == "rows" else own


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


def check_pair(before: Source, after: Source) -> None:
    """Checks that two models are one before and after fine-tuning.

    Raises:
      ValueError: their families, layers or experts differ.
    """
    rule = "before must be the same model before fine-tuning: the same family, layers, experts and sizes"
    told = [
        {"family": source.family.name, **{layer.name: source.tensors.shape(layer.router) for layer in source.layers}}
        for source in (before, after)
    ]
    differ = {key for told_one in told for key in told_one if told[0].get(key) != told[1].get(key)}
    first = min(differ, key=natural, default="")
    require(not differ, rule, before=told[0].get(first), after=told[1].get(first), where=first)


def scores_of(
    criterion: str | Criterion,
    before: Source | None,
    after: Source,
    statistics: Mapping[str, Statistics],
    layers: Sequence[Layer],
) -> Iterator[tuple[str, Float[Tensor, " k"]]]:
    """Yields a score for each expert of each layer, (E,), with the layer's name.

    Raises:
      ValueError: the name is unknown, what the criterion needs is missing, or its scores have the wrong shape.
      UndefinedCriterionError: no router of a layer has moved.
    """
    function: Callable[..., Tensor] = criterion if callable(criterion) else CRITERIA[checked_name(criterion)]
    needs_before = criterion in saliency.NEED_BEFORE if isinstance(criterion, str) else False
    rule = f"{criterion} compares with the model before fine-tuning: give before="
    require(before is not None or not needs_before, rule, before=None)
    base = before or after
    old = {layer.name: layer for layer in base.layers}
    for layer in layers:
        of_routers = isinstance(criterion, str) and criterion.startswith("router-") and needs_before
        pair = (base.family, old[layer.name], base.tensors), (after.family, layer, after.tensors)
        if of_routers:
            _check_moved(*pair)
        known = statistics[layer.name]
        if isinstance(criterion, str) and criterion in _OF_NEURONS:
            numbers = LayerExperts(after.family, layer, after.tensors, [0]).neurons.numel()
            require(numbers > 0, f"{criterion} needs experts that are not quantised", layer=layer.name)
            each = (tuple(LayerExperts(*one, [expert]) for one in pair) for expert in range(layer.experts))
            scores = torch.cat([function(*two, known) for two in each], 1)
        else:
            scores = function(*(LayerExperts(*one) for one in pair), known)
        rule = f"a criterion must give (1, {layer.experts}) scores"
        require(tuple(scores.shape) == (1, layer.experts), rule, scores=tuple(scores.shape))
        require(bool(scores.isfinite().all()), f"{criterion} must give finite scores", layer=layer.name)
        yield layer.name, scores[0]


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
    experts, top = source.layers[0].experts, top_of(source.family, source.config)
    own = experts // groups - saliency.pruned_count(share, experts // groups)
    rule = f"as many experts must be kept as a token is sent to (top-k = {top})"
    require(own * groups >= top, rule, kept=own * groups, experts=experts, share=share)
    if groups > 1:
        rule = f"{source.family.name} must keep at least {source.family.least} experts in each of its {groups} groups"
        require(own >= source.family.least, rule, kept=own, share=share)
        chosen = int(read_field(source.config, source.family.group_top))
        rule = f"the {chosen} groups that a token chooses must keep as many experts as it is sent to (top-k = {top})"
        require(own * chosen >= top, rule, kept=own * chosen, share=share)


def source_groups(source: Source, mode: str) -> int:
    """Returns how many groups must keep equally many experts: the model's, unless its routers stay as they are."""
    return groups_of(source.family, source.config) if mode == "rerouted" else 1


def _plain(part: Tensor) -> bool:
    """Whether a tensor holds numbers as they are, and not quantised ones that have a scale elsewhere."""
    return part.is_floating_point() and part.element_size() > 1


def _check_moved(
    before: tuple[Family, Layer, Tensors],
    after: tuple[Family, Layer, Tensors],
) -> None:
    """Raises an UndefinedCriterionError if no router of a layer has moved."""
    if torch.equal(LayerExperts(*before).own_routers, LayerExperts(*after).own_routers):
        raise UndefinedCriterionError(
            "the change of the routers is undefined where none has moved (LoRA usually leaves routers alone, and with "
            "top-k = 1 and renormalised gates they have no gradient): use another criterion; got equal routers in "
            f"{after[1].name}"
        )
