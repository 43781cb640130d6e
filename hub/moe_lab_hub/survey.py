"""What a model or checkpoint holds: its mixture-of-experts layers, their experts, and whether they can be pruned."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from moe_lab.core.config import require
from moe_lab.core.errors import InputError
from moe_lab.core.signatures import with_notebook
from moe_lab.core.words import with_article
from moe_lab_hub.families import Family, Role, family_of, read_field, transformers

_OF_EXPERTS = re.compile(r"(^|[._])(experts?|router)[._]|\be_score_correction_bias$")


class Tensors:
    """Named tensors of a model in memory; `hub.folder.Folder` reads those of a checkpoint in the same way."""

    def __init__(self, state: Mapping[str, Tensor]) -> None:
        self._state = state

    @property
    def names(self) -> Iterable[str]:
        """The names of all tensors."""
        return self._state

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the shape of a tensor, without reading it."""
        return tuple(self._state[name].shape)

    def kind(self, name: str) -> torch.dtype | None:
        """Returns a tensor's type; None where torch has none for it."""
        return self._state[name].dtype

    def read(self, name: str, begin: int = 0, end: int | None = None) -> Tensor:
        """Returns a tensor, or some of its entries along axis 0."""
        return self._state[name][begin:end] if self._state[name].ndim else self._state[name]


@dataclass(frozen=True)
class Layer:
    """One mixture-of-experts block.

    Attributes:
      name: in a model in memory: "model.layers.0.mlp".
      experts: E.
      router: the full name of the router's weights.
      roles: what each of the block's tensors is, by full name.
    """

    name: str
    experts: int
    router: str
    roles: Mapping[str, Role]


@dataclass(frozen=True)
class Survey:
    """The experts of a model, as `experts_of` reports them.

    Attributes:
      supported: whether `prune_experts` can prune the model.
      reason: why not, in a sentence; "" if it can.
      family: such as "Mixtral".
      layers: the number of experts of each mixture-of-experts block, by name.
      top: K, the number of experts that a token gets.
      groups: how many groups the experts form; 1 without groups.
    """

    supported: bool
    reason: str = ""
    family: str = ""
    layers: Mapping[str, int] = field(default_factory=dict)
    top: int = 0
    groups: int = 1


@with_notebook
def experts_of(model: nn.Module) -> Survey:
    """Reports a model's experts by layer, and whether `prune_experts` supports it.

    Args:
      model: any model; one that is not supported is reported, not refused.
    """
    try:
        family, layers = layers_of_model(model)
    except ValueError as error:
        return Survey(False, str(error))
    config: Any = model.config
    counts = {layer.name: layer.experts for layer in layers}
    return Survey(True, "", family.name, counts, top_of(family, config), groups_of(family, config))


def layers_of_model(model: nn.Module, only: Collection[str] | None = None) -> tuple[Family, tuple[Layer, ...]]:
    """Returns the family and the mixture-of-experts blocks of a model in memory, or some of these, as `layers_of`.

    Raises:
      ValueError: it is not a model of a supported family, is quantised, has been changed, or is not all in memory.
    """
    rule = "a model must be one of transformers' own (merge adapters into it first)"
    require(isinstance(model, transformers().PreTrainedModel), rule, model=type(model).__name__)
    config: Any = model.config
    quantised = getattr(config, "quantization_config", None)
    require(quantised is None, "a model in memory must not be quantised", quantization_config=type(quantised).__name__)
    family = family_of(config.model_type)
    state = model.state_dict(keep_vars=True)
    away = [name for name, tensor in state.items() if tensor.is_meta]
    rule = "a model must be in memory as a whole (load it without offloading, or prune its folder on disk)"
    require(not away, rule, on_the_meta_device=next(iter(away), ""))
    return family, layers_of(family, Tensors(state), read_field(config, family.count), only)


def layers_of(family: Family, tensors: Tensors, count: int, only: Collection[str] | None = None) -> tuple[Layer, ...]:
    """Finds the mixture-of-experts blocks among named tensors, in the order of their layers.

    Args:
      only: names of blocks, of which those that are there are returned, whatever else there is: of a model that another
        is compared with. None for all.

    Raises:
      ValueError: there is none, an expert is missing, or a tensor may be of experts and is not declared.
    """
    blocks: dict[str, dict[str, str]] = {}
    for name in tensors.names:
        if place := family.split(name):
            blocks.setdefault(place[0], {})[name] = place[1]
    routed = {block: names for block, names in blocks.items() if any(rest in family.routers for rest in names.values())}
    if only is not None:
        return tuple(_layer(family, block, routed[block], tensors, count) for block in only if block in routed)
    known = {name for names in routed.values() for name in names}
    strange = [name for name in tensors.names if name not in known and _OF_EXPERTS.search(name)]
    rule = f"every tensor of experts must lie in a block that {family.name} is known to have"
    require(not strange, rule, tensor=next(iter(strange), ""))
    require(bool(routed), f"{with_article(family.name)} model must have a layer of experts", experts=count)
    return tuple(_layer(family, block, routed[block], tensors, count) for block in sorted(routed, key=natural))


def _layer(family: Family, block: str, names: Mapping[str, str], tensors: Tensors, count: int) -> Layer:
    """One block, every tensor of which must be declared and have the right number of experts."""
    roles: dict[str, Role] = {}
    listed: dict[str, set[int]] = {}
    routers = []
    for name, rest in names.items():
        role = family.role(rest)
        if role is None:
            raise InputError(f"every tensor of a block must be known in {family.name}: got {name!r}")
        roles[name] = role
        routers += [name] if role.kind == "router" else []
        if role.kind in ("router", "sliced"):
            size = tensors.shape(name)[role.axis]
            fits = size % count == 0 if family.flat and rest in family.fused else size == count
            require(fits, f"{name} must have an entry for each of the {count} experts", shape=tensors.shape(name))
        elif role.kind == "listed":
            listed.setdefault(re.sub(family.listed, "", rest), set()).add(role.expert)
    for own, numbers in listed.items():
        rule = f"{block} must have {own} of each expert, 0 to {count - 1}"
        require(numbers == set(range(count)), rule, experts=sorted(numbers))
    held = any(role.kind == "listed" or role.neurons for role in roles.values()) or any("_blocks" in n for n in roles)
    require(held, f"{block} must have experts", tensors=sorted(roles))
    once = f"{block} must hold each part once, under one name"
    require(len(routers) == 1, once, routers=routers)
    fused = [name for name, role in roles.items() if role.kind == "sliced" and role.neurons]
    require(not (fused and listed), once, experts=[*fused[:1], *sorted(listed)[:1]])
    return Layer(block, count, routers[0], roles)


def check_finite(layers: Iterable[Layer], tensors: Tensors, model: str = "a model") -> None:
    """Checks all weights of the blocks, expert by expert.

    What is added to an expert's score may be -inf, which switches the expert off.

    Raises:
      ValueError: some weight is infinite or not a number.
    """
    for layer in layers:
        for name in sorted(layer.roles, key=natural):
            role, kind = layer.roles[name], tensors.kind(name)
            if kind is None or not kind.is_floating_point:
                continue
            whole = role.axis or role.kind in ("listed", "shared")
            size = tensors.shape(name)[0] // layer.experts if not whole else 0
            added = role.kind == "sliced" and math.prod(tensors.shape(name)) == layer.experts
            for expert in [role.expert] if whole else range(layer.experts):
                read = tensors.read(name, expert * size, (expert + 1) * size) if size else tensors.read(name)
                numbers = read.detach() if read.element_size() > 1 else read.detach().float()
                wrong = ~numbers.isfinite()
                wrong = wrong & (numbers != -torch.inf) if added else wrong
                if bool(wrong.any()):
                    number = int(wrong.nonzero()[0, role.axis]) if role.axis else expert
                    of = f"expert {number} of {layer.name}" if number >= 0 else layer.name
                    value = float(numbers[wrong][0])
                    raise InputError(f"the weights of {model} must be finite: got {value} in {of} ({name})")


def top_of(family: Family, config: Any) -> int:
    """Returns K, the number of experts that a token gets; the largest where a config counts them layer by layer."""
    top = read_field(config, family.top) if family.top else 1
    return int(max(top) if isinstance(top, list) else top)


def groups_of(family: Family, config: Any) -> int:
    """Returns the number of groups among which a token chooses first; 1 without groups."""
    used = family.group and getattr(config, "topk_method", "group_limited_greedy") != "greedy"
    return int(read_field(config, family.group) or 1) if used else 1


def natural(name: str) -> tuple[tuple[str, int], ...]:
    """Returns a key that sorts layers.10 after layers.9."""
    return tuple((text, int(number or 0)) for text, number in re.findall(r"(\D+)(\d*)", name))


def part(tensor: Tensor, axis: int, experts: int, kept: Iterable[int]) -> Tensor:
    """Returns the entries of some experts along an axis that has an equal part for each; always a copy."""
    index = torch.as_tensor(list(kept), device=tensor.device)
    return tensor.unflatten(axis, (experts, -1)).index_select(axis, index).flatten(axis, axis + 1)
