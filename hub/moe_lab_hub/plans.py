"""Which experts of each layer stay: chosen by a criterion, by chance, or by a plan that somebody else has written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

from moe_lab.core.errors import InputError, MissingFileError
from moe_lab.core.sentences import brief
from moe_lab.core.trials import stream
from moe_lab_hub.scores import Source, check_left
from moe_lab_hub.survey import Layer

Kept = Mapping[str, tuple[int, ...]]
"""The numbers of the experts that stay, ascending, by mixture-of-experts block."""
STAY = ("kept", "retained", "keep", "retained_experts", "kept_experts", "retained_expert_indices")
GO = ("pruned", "removed", "dropped", "pruned_experts", "removed_experts", "experts_to_prune")
"""What a plan calls the experts that stay, and those that go."""


def kept_by_chance(layers: Sequence[Layer], like: Kept, groups: int, draw: int, seed: int) -> Kept:
    """Returns a random choice with as many experts in each layer, and in each of its groups, as another one.

    The same draw of the same seed orders the experts of a layer alike whatever the number that stays.
    """
    found = {}
    for number, layer in enumerate(layers):
        order = torch.as_tensor(stream(seed, draw, f"hub/chance/{number}").random(layer.experts)).view(groups, -1)
        stays = order.argsort(1).argsort(1) < _by_group(like[layer.name], layer, groups)[:, None]
        found[layer.name] = tuple(stays.flatten().nonzero()[:, 0].tolist())
    return found


def read_plan(path: Path, layers: Sequence[Layer]) -> Kept:
    """Reads which experts of each layer stay from a JSON or YAML file.

    A layer is named by its block ("model.layers.3.mlp") or by the number in it (3, "3", "layer_3"). Beside it stands a
    list of experts, or an object that holds one under `kept`, `retained`, `pruned`, `removed` and the like. A list that
    says neither is told by the key that holds all layers: {"pruned": {"0": [1, 2]}}. `moe-lab prune` writes
    {"layers": {"model.layers.0.mlp": {"kept": [...]}}}.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: its form is unknown, or it does not fit the model.
    """
    content = _content(path)
    by_number = {_number(layer.name): layer for layer in layers}
    found: dict[str, tuple[int, ...]] = {}
    for key, stays, listed in _entries(content, path):
        layer = next((one for one in layers if key == one.name or one.name.startswith(f"{key}.")), None)
        layer = layer or by_number.get(_number(key))
        if layer is None:
            raise InputError(f"a plan must name layers of the model ({_some(layers)}): got {brief(key)!r} in {path}")
        wrong = [one for one in listed if not isinstance(one, int) or not 0 <= one < layer.experts]
        if wrong:
            rule = f"a plan must list experts of {layer.name} as numbers from 0 to {layer.experts - 1}"
            raise InputError(f"{rule}: got {brief(str(wrong[0]))} in {path}")
        own = set(listed) if stays else set(range(layer.experts)) - set(listed)
        found[layer.name] = tuple(sorted(own))
    missing = [layer.name for layer in layers if layer.name not in found]
    if missing:
        raise InputError(f"a plan must say which experts of every layer stay: got nothing of {missing[0]} in {path}")
    empty = [name for name, kept in found.items() if not kept]
    if empty:
        raise InputError(f"a plan must keep an expert of every layer: got none of {empty[0]} in {path}")
    return found


def check_plan(kept: Kept, source: Source, groups: int, path: Path) -> None:
    """Checks that a model from which all other experts are removed can be built.

    Raises:
      ValueError: layers or groups keep different numbers, or fewer than a token is sent to.
    """
    each = {layer.name: _by_group(kept[layer.name], layer, groups).tolist() for layer in source.layers}
    for name, own in each.items():
        rule = f"a plan must keep as many experts in each of the {groups} groups"
        if len(set(own)) > 1:
            raise InputError(f"{rule}: got {own} in {name} of {path}")
    counts = {own[0] for own in each.values()}
    if len(counts) > 1:
        raise InputError(f"a plan must keep as many experts in each layer, or be silent alone (--ways silent): "
                         f"got {groups * min(counts)} to {groups * max(counts)} in {path}")  # fmt: skip
    check_left(source, min(counts), groups, plan=str(path))


def _by_group(kept: Sequence[int], layer: Layer, groups: int) -> Tensor:
    """Counts the experts that stay in each group of a layer."""
    return torch.bincount(torch.tensor(kept) // (layer.experts // groups), minlength=groups)


def _content(path: Path) -> Any:
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise MissingFileError(f"there must be a plan: got {path}") from None
    except UnicodeDecodeError:
        raise InputError(f"a plan must be JSON or YAML: got {path}") from None
    try:
        return json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError):
        raise InputError(f"a plan must be JSON (in a file named .json) or YAML: got {path}") from None


def _entries(content: Any, path: Path) -> Iterable[tuple[str, bool, list[Any]]]:
    """Yields the name of each layer, whether its list is of experts that stay, and the list."""
    for key, stays in (*((one, True) for one in STAY), *((one, False) for one in GO)):
        if isinstance(content, dict) and isinstance(content.get(key), (dict, list)):
            for name, listed in _by_layer(content[key]):
                yield name, stays, _list(listed, path)
            return
    inside = content.get("layers", content) if isinstance(content, dict) else content
    for name, about in _by_layer(inside):
        words = [(key, stays) for keys, stays in ((STAY, True), (GO, False)) for key in keys]
        known = [(key, stays) for key, stays in words if isinstance(about, dict) and key in about]
        if not known:
            raise InputError(
                f"a plan must say which experts stay, as {', '.join(STAY[:2])}, or go, as {', '.join(GO[:2])}: "
                f"got {brief(str(about))} of layer {brief(name)} in {path}"
            )
        (key, stays), *_ = known
        yield name, stays, _list(about[key], path)


def _by_layer(content: Any) -> Iterable[tuple[str, Any]]:
    """The layers of a plan by name, or by their places in a list."""
    if isinstance(content, dict):
        return [(str(name), about) for name, about in content.items()]
    return [(str(number), about) for number, about in enumerate(content)] if isinstance(content, list) else []


def _list(listed: Any, path: Path) -> list[Any]:
    if not isinstance(listed, list):
        raise InputError(f"a plan must list the numbers of experts: got {brief(str(listed))} in {path}")
    return listed


def _number(name: str) -> int:
    """The number of a layer in its name, -1 where there is none."""
    found = re.findall(r"\d+", name)
    return int(found[0]) if found else -1


def _some(layers: Sequence[Layer]) -> str:
    return brief(", ".join(layer.name for layer in layers), 80)
