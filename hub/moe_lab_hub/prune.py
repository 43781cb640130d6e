"""Prunes experts of a Hugging Face model in memory: a new, smaller model, built from its changed config."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, cast

import xarray as xr
from jaxtyping import Float
from torch import Tensor, nn

from moe_lab.core.config import require
from moe_lab.core.errors import OperationError
from moe_lab.core.saliency import NEED_TOKENS, Criterion
from moe_lab.core.signatures import with_notebook
from moe_lab_hub.check import self_check
from moe_lab_hub.costs import costs_of
from moe_lab_hub.families import Family, read_field, transformers, write_field
from moe_lab_hub.scores import (
    Source,
    chance_of,
    check_count,
    check_pair,
    checked_name,
    kept_experts,
    scores_of,
    source_groups,
    told,
)
from moe_lab_hub.silent import SilentExperts
from moe_lab_hub.survey import Layer, Tensors, check_finite, layers_of_model, part
from moe_lab_hub.tokens import measured


@dataclass(frozen=True)
class Pruned:
    """A pruned model, and how it was pruned.

    Attributes:
      model: the new model.
      kept: the numbers of the remaining experts in the given model, ascending, by mixture-of-experts block.
      scores: the criterion's score of each expert, (E,), by block.
      costs: its costs, whole and pruned in both ways, see `costs.costs_of`.
      mode: "rerouted" or "silent".
      notes: what was warned of: layers that `before` does not have, and scores that rounding does not tell apart.
    """

    model: nn.Module
    kept: Mapping[str, tuple[int, ...]]
    scores: Mapping[str, Float[Tensor, " k"]]
    costs: xr.Dataset
    mode: str
    notes: tuple[str, ...] = ()


@with_notebook
def prune_experts(
    model: nn.Module,
    before: nn.Module | None = None,
    criterion: str | Criterion = "router-norm-change",
    share: float = 0.5,
    mode: str = "rerouted",
    layers: Collection[str] | None = None,
    *,
    batches: Iterable[Mapping[str, Any]] | None = None,
    seed: int = 0,
) -> Pruned:
    """Removes a share of the experts of each layer of a transformers model; the given models are untouched.

    "rerouted" removes the pruned experts' rows of the router too, so that tokens choose among those left. That saves
    memory; a token is sent to as many experts as before, so that operations and time stay. The result is an ordinary
    model: `save_pretrained` writes a checkpoint that transformers reads like any other.

    "silent" keeps every row of the router, and a pruned expert answers 0, as in the paper (pruning2024). That saves
    operations and time, and in memory the weights of the experts too. No ordinary checkpoint has fewer experts than
    rows of its router, so the model lives in memory only: `save_pretrained` refuses, `state_dict` holds everything.

    The change of the router's norm needs the model before fine-tuning, and is only a heuristic. Tiny Mixtrals that
    were fine-tuned to a new rule of arithmetic kept .72, .47 and .26 of the answers with 6, 4 and 2 of 8 experts
    (random choice .69, .45 and .25; router norm .77, .54 and .30; the means of `repair.prune_and_repair(trials=20)`).
    Where they knew the rule before, the change of the norm was no better than random choice either (.62 and .61 with 4
    of 8). Forty steps of fine-tuning brought all of them back to .98 or more.

    Args:
      model: the fine-tuned model, of a family in `hub.families.FAMILIES`.
      before: the same model before fine-tuning, for criteria that compare with it. If it was stored in another type,
        both are compared in the narrower one. A block that it lacks is scored by the magnitude instead of its change.
      criterion: a name in `hub.CRITERIA`, or a function as in `moe_lab.core.saliency`; experts with large scores stay.
        A function sees each layer as a trial, (1, E, ...).
      share: of each layer's experts to REMOVE, rounded down to whole experts (of each group, where there are groups).
      mode: "rerouted" or "silent".
      layers: names of blocks as in `experts_of(model).layers`; all when None. Counts that differ from layer to layer
        are no ordinary checkpoint either: such a model lives in memory only.
      batches: keyword inputs of the model, for criteria that need tokens: importance-score, token-count, reap, or a
        function's.
      seed: of the random criterion.

    Raises:
      ValueError: the model is not supported, the two do not match, too few experts would be left, or a name is unknown.
      UndefinedCriterionError: no router of a layer has moved, or no neuron, by more than rounding.
      RuntimeError: an expert of the model has an effect on tokens that it does not receive.

    Warns:
      UserWarning: `before` lacks a block, or rounding hides which experts should stay.
    """
    require(mode in ("rerouted", "silent"), "mode must be 'rerouted' or 'silent'", mode=mode)
    if isinstance(criterion, str):
        checked_name(criterion)
        needs = criterion in NEED_TOKENS
        require(batches is not None or not needs, f"{criterion} needs tokens: give batches=", batches=batches)
    source = source_of(model)
    check_finite(source.layers, source.tensors)
    base = None if before is None else source_of(before, [layer.name for layer in source.layers])
    if base is not None:
        check_pair(base, source)
    chosen = _chosen(source, layers)
    groups = source_groups(source, mode)
    check_count(source, share, groups)
    self_check(model, source.family, chosen[0])
    statistics = chance_of(source.layers, seed)
    received: dict[str, list[float]] = {}
    if batches is not None:
        statistics = measured(model, source.family, source.layers, batches, statistics)
        received = {name: found.received[0].tolist() for name, found in statistics.items()}
    scored = dict(scores_of(criterion, base, source, statistics, chosen))
    scores = {name: one.scores for name, one in scored.items()}
    kept = {name: kept_experts(found, share, groups) for name, found in scores.items()}
    costs = costs_of(source, kept, received, _elements(model), dict(model.named_buffers()))
    costs.attrs = {"mode": mode, "share": share, "criterion": criterion if isinstance(criterion, str) else "function"}
    notes = told(scored, kept, groups)
    for note in notes:
        warnings.warn(note, stacklevel=2)
    return Pruned(built(model, source, kept, mode), kept, scores, costs, mode, notes)


def loaded(folder: Path, family: Family) -> nn.Module:
    """Returns the model of a checkpoint folder, for evaluation; nothing is fetched.

    Raises:
      RuntimeError: an expert has an effect on tokens that it does not receive.
    """
    library = transformers()
    library.logging.disable_progress_bar()
    read = library.AutoModelForCausalLM.from_pretrained
    model: nn.Module = read(folder, trust_remote_code=False, local_files_only=True, dtype="auto").eval()
    self_check(model, family, source_of(model).layers[0])
    return model


def source_of(model: nn.Module, only: Collection[str] | None = None) -> Source:
    """Returns a model in memory as pruning reads it, with all of its blocks or those of some names.

    Raises:
      ValueError: it is not supported.
    """
    family, layers = layers_of_model(model, only)
    return Source(family, layers, Tensors(model.state_dict(keep_vars=True)), model.config)


def _chosen(source: Source, names: Collection[str] | None) -> tuple[Layer, ...]:
    """The layers of these names, in their order in the model."""
    if names is None:
        return source.layers
    require(not isinstance(names, str) and len(names) > 0, "layers must be names of at least one layer", layers=names)
    known = [layer.name for layer in source.layers]
    unknown = [name for name in names if name not in known]
    require(not unknown, f"layers must be among {', '.join(known)}", layers=unknown)
    return tuple(layer for layer in source.layers if layer.name in names)


def _elements(model: nn.Module) -> dict[str, int]:
    """Bytes of one number of each parameter and buffer that is saved, without tied ones."""
    state, seen, found = model.state_dict(keep_vars=True), set(), {}
    for name, tensor in state.items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            found[name] = tensor.element_size()
    return found


def built(
    model: nn.Module, source: Source, kept: Mapping[str, Sequence[int]], mode: str, shares: bool = False
) -> nn.Module:
    """Builds a model of the changed config, with the kept part of the given one's state.

    Args:
      mode: "rerouted" or "silent".
      shares: whether what is not pruned is the given model's own memory; such a model is to be evaluated only.
    """
    from transformers.initialization import no_init_weights

    original: Any = model.config
    config = copy.deepcopy(original)
    left = len(next(iter(kept.values())))
    write_field(config, source.family.count, left)
    with no_init_weights():
        new = type(model)(config)
        ordinary = mode == "rerouted" and len(kept) == len(source.layers)
        if not ordinary:
            smaller, new = new, type(model)(copy.deepcopy(original))
            _transplant(new, smaller, source, kept, mode)
    state = _state(model, source, kept, mode)
    new.load_state_dict(
        state if shares else {name: one.clone() for name, one in state.items()}, strict=True, assign=True
    )
    _finish(new, model)
    if not ordinary:
        cast(Any, new).save_pretrained = _refuse_silent if mode == "silent" else _refuse_mixed
    assert read_field(new.config, source.family.count) == (left if ordinary else source.layers[0].experts)
    return new


def _transplant(
    new: nn.Module, smaller: nn.Module, source: Source, kept: Mapping[str, Sequence[int]], mode: str
) -> None:
    """Puts the blocks of a smaller model into one of the full size, or only their experts where routers stay."""
    for layer in source.layers:
        if layer.name not in kept:
            continue
        block = smaller.get_submodule(layer.name)
        if mode == "rerouted":
            parent, _, name = layer.name.rpartition(".")
            setattr(new.get_submodule(parent), name, block)
        else:
            device = source.tensors.read(layer.router).device
            experts = block.get_submodule("experts")
            silent = SilentExperts(source.family.call, experts, kept[layer.name], layer.experts, device)
            new.get_submodule(layer.name).experts = silent


def _state(model: nn.Module, source: Source, kept: Mapping[str, Sequence[int]], mode: str) -> dict[str, Tensor]:
    """What stays of a model's state, under its new names."""
    layers = {name: layer for layer in source.layers if layer.name in kept for name in layer.roles}
    found: dict[str, Tensor] = {}
    for name, tensor in model.state_dict().items():
        layer = layers.get(name)
        if layer is None:
            found[name] = tensor
            continue
        for key, value in _parts(source, layer, name, tensor, kept[layer.name], mode):
            found[key] = value
    return found


def _parts(
    source: Source, layer: Layer, name: str, tensor: Tensor, kept: Sequence[int], mode: str
) -> list[tuple[str, Tensor]]:
    """What stays of one tensor of a pruned block: its new name and its values, or nothing."""
    role, rest = layer.roles[name], name.removeprefix(f"{layer.name}.")
    of_expert = rest.startswith("experts.")
    if role.kind == "shared" or (mode == "silent" and not of_expert):
        return [(name, tensor)]
    prefix = f"{layer.name}.experts." if mode == "silent" else f"{layer.name}."
    if role.kind != "listed":
        return [(prefix + rest, part(tensor, role.axis, layer.experts, kept))]
    if role.expert not in kept:
        return []
    return [(prefix + source.family.renumbered(rest, list(kept).index(role.expert)), tensor)]


def _finish(new: nn.Module, model: nn.Module) -> None:
    """Gives a new model what a state does not hold: buffers computed from the config, ties, modes and settings."""
    own = dict(new.named_buffers())
    for name, buffer in model.named_buffers():
        if name in own and own[name].shape == buffer.shape:
            module, _, leaf = name.rpartition(".")
            new.get_submodule(module)._buffers[leaf] = buffer.clone()
    given = dict(model.named_parameters())
    for name, parameter in new.named_parameters():
        source = given.get(name.replace(".experts.experts.", ".experts."))
        parameter.requires_grad_(source.requires_grad if source is not None else parameter.requires_grad)
    cast(Any, new).tie_weights()
    if getattr(model, "generation_config", None) is not None:
        cast(Any, new).generation_config = copy.deepcopy(model.generation_config)
    new.train(model.training)


def _refuse_silent(*_: Any, **__: Any) -> NoReturn:
    raise OperationError(
        "a silently pruned model cannot be saved by save_pretrained, because no ordinary checkpoint has fewer experts "
        "than rows of its router: prune with mode='rerouted', or save its state_dict with safetensors.torch.save_file"
    )


def _refuse_mixed(*_: Any, **__: Any) -> NoReturn:
    raise OperationError(
        "a model that is pruned in some layers alone cannot be saved by save_pretrained, because an ordinary "
        "checkpoint has the same number of experts in every layer: prune all layers, or save its state_dict with "
        "safetensors.torch.save_file"
    )
