"""Prunes experts of a checkpoint on disk, file by file, without building the model."""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import xarray as xr
from jaxtyping import Float
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.core.files import check_new_folder, whole_folder
from moe_lab.core.saliency import NEED_TOKENS, Criterion
from moe_lab.core.signatures import with_notebook
from moe_lab.hub.costs import costs_of
from moe_lab.hub.families import read_field, transformers
from moe_lab.hub.folder import CONFIG, INDEX, Entry, Folder, source_of_folder
from moe_lab.hub.scores import (
    Source,
    chance_of,
    check_count,
    check_pair,
    checked_name,
    kept_experts,
    scores_of,
    source_groups,
)

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".gguf", ".onnx", ".index.json")


@dataclass(frozen=True)
class Piece:
    """What stays of a tensor.

    Attributes:
      name: its new name.
      entry: the tensor.
      shape: its new shape.
      ranges: the first bytes and lengths of its parts.
    """

    name: str
    entry: Entry
    shape: tuple[int, ...]
    ranges: list[tuple[int, int]]

    @property
    def size(self) -> int:
        """Its bytes."""
        return sum(length for _, length in self.ranges)


@dataclass(frozen=True)
class CheckpointPlan:
    """A plan to prune a checkpoint; nothing has been written.

    Attributes:
      folder: the checkpoint.
      source: its family, layers and config.
      kept: the numbers of the experts that stay, ascending, by mixture-of-experts block.
      scores: the criterion's score of each expert, (E,), by block.
      costs: the model's costs, whole and pruned, see `hub.costs.costs_of`.
      left_out: files of the folder that are not copied: weights in other formats, which would be those of the unpruned
        model, and hidden files.
    """

    folder: Folder
    source: Source
    kept: Mapping[str, tuple[int, ...]]
    scores: Mapping[str, Float[Tensor, " k"]]
    costs: xr.Dataset
    left_out: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """How many bytes of numbers will be written."""
        return sum(piece.size for piece in self._pieces())

    def write(self, out: Path | str) -> Iterator[int]:
        """Writes the pruned checkpoint, whole or not at all.

        At no time is more than a few megabytes of it in memory.

        Yields:
          the bytes of numbers written so far, after each tensor.

        Raises:
          ValueError: there is something in `out`.
          RuntimeError: the folder cannot be written, or its config would not be read as it is meant.
        """
        files: dict[str, list[Piece]] = {}
        for piece in self._pieces():
            files.setdefault(piece.entry.file, []).append(piece)
        with whole_folder(out) as part:
            done = 0
            for file, pieces in files.items():
                for piece in _write_file(self.folder, part / file, pieces, self.folder.metadata[file]):
                    done += piece.size
                    yield done
            self._write_rest(part, {piece.name: file for file, pieces in files.items() for piece in pieces}, done)

    def _pieces(self) -> Iterator[Piece]:
        """What stays of each tensor."""
        layers = {name: layer for layer in self.source.layers for name in layer.roles}
        for name, entry in self.folder.entries.items():
            layer = layers.get(name)
            whole = Piece(name, entry, entry.shape, [(entry.begin, entry.end - entry.begin)])
            if layer is None or layer.roles[name].kind == "shared":
                yield whole
                continue
            role, kept = layer.roles[name], self.kept[layer.name]
            if role.kind != "listed":
                shape = list(entry.shape)
                shape[role.axis] = shape[role.axis] * len(kept) // layer.experts
                yield Piece(name, entry, tuple(shape), entry.ranges(role.axis, layer.experts, kept))
            elif role.expert in kept:
                place = self.source.family.split(name)
                assert place is not None
                new = self.source.family.renumbered(place[1], kept.index(role.expert))
                yield replace(whole, name=name[: -len(place[1])] + new)

    def _write_rest(self, part: Path, files: Mapping[str, str], size: int) -> None:
        """Writes the index and the config, and copies every other file."""
        if self.folder.index is not None:
            told = {**self.folder.index.get("metadata", {}), "total_size": size}
            told.pop("total_parameters", None)
            content = {**self.folder.index, "metadata": told, "weight_map": dict(sorted(files.items()))}
            (part / INDEX).write_text(json.dumps(content, indent=2) + "\n", "utf-8")
        left = len(next(iter(self.kept.values())))
        settings = _with_count(self.folder.settings, self.source, left)
        (part / CONFIG).write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", "utf-8")
        config = transformers().AutoConfig.from_pretrained(part, trust_remote_code=False)
        read = read_field(config, self.source.family.count)
        if read != left:
            raise RuntimeError(f"the written config must count {left} experts: got {read}")
        for path in _others(self.folder):
            if path.relative_to(self.folder.path).as_posix() not in self.left_out:
                target = part / path.relative_to(self.folder.path)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target)


@with_notebook
def prune_checkpoint(
    folder: Path | str,
    out: Path | str,
    before: Path | str | None = None,
    criterion: str | Criterion = "router-norm-change",
    share: float = 0.5,
    *,
    seed: int = 0,
) -> CheckpointPlan:
    """Removes a share of the experts of each layer of a checkpoint folder, and writes the smaller one to another.

    Tokens are rerouted, as with `prune_experts(mode="rerouted")`: memory falls, operations and time stay. The result is
    what `prune_experts` and `save_pretrained` give, without building the model: one tensor is in memory at a time.

    Args:
      folder: a model of transformers: config.json and safetensors, in one file or several, fused or one tensor for each
        expert, quantised or not. Every other file is copied.
      out: a folder that is new or empty. It appears when it is complete.
      before: the folder of the same model before fine-tuning, for criteria that compare with it.
      criterion: a name in `hub.CRITERIA` but those that need tokens, or a function as in `moe_lab.core.saliency`.
      share: of each layer's experts to REMOVE, as in `prune_experts`.
      seed: of the random criterion.

    Raises:
      FileNotFoundError: a file is missing.
      ValueError: as `prune_experts`, or a file is damaged.
      UndefinedCriterionError: no router of a layer has moved.
      RuntimeError: the folder cannot be written.
    """
    check_new_folder(out)  # scoring a large checkpoint takes minutes
    plan = plan_checkpoint(folder, before, criterion, share, seed=seed)
    for _ in plan.write(out):
        pass
    return plan


@with_notebook
def plan_checkpoint(
    folder: Path | str,
    before: Path | str | None = None,
    criterion: str | Criterion = "router-norm-change",
    share: float = 0.5,
    *,
    seed: int = 0,
) -> CheckpointPlan:
    """Scores the experts of a checkpoint folder and chooses those that stay; writes nothing.

    Args:
      folder, before, criterion, share, seed: as for `prune_checkpoint`.

    Returns:
      A plan whose `write` writes the pruned checkpoint.

    Raises:
      FileNotFoundError, ValueError, UndefinedCriterionError: as for `prune_checkpoint`.
    """
    if isinstance(criterion, str):
        checked_name(criterion)
        rule = f"{criterion} needs tokens: load the model and use prune_experts with batches="
        require(criterion not in NEED_TOKENS, rule, criterion=criterion)
    opened = Folder(folder)
    source = source_of_folder(opened)
    base = None if before is None else source_of_folder(Folder(before))
    if base is not None:
        check_pair(base, source)
    groups = source_groups(source, "rerouted")
    check_count(source, share, groups)
    scores = dict(scores_of(criterion, base, source, chance_of(source.layers, seed), source.layers))
    kept = {name: kept_experts(found, share, groups) for name, found in scores.items()}
    costs = costs_of(source, kept, {}, {name: entry.width for name, entry in opened.entries.items()})
    costs.attrs = {"mode": "rerouted", "share": share}
    costs.attrs["criterion"] = criterion if isinstance(criterion, str) else "function"
    names = [path.relative_to(opened.path).as_posix() for path in _others(opened)]
    left_out = tuple(name for name in names if name.endswith(_WEIGHTS) or name.startswith(".") or "/." in name)
    return CheckpointPlan(opened, source, kept, scores, costs, left_out)


def _others(folder: Folder) -> list[Path]:
    """The files of a folder that are neither its safetensors nor its config."""
    own = {folder.path / name for name in (*folder.metadata, INDEX, CONFIG)}
    return sorted(path for path in folder.path.rglob("*") if path.is_file() and path not in own)


def _with_count(settings: Mapping[str, Any], source: Source, left: int) -> dict[str, Any]:
    """The content of config.json with another number of experts, under each name that it has there."""
    changed = copy.deepcopy(dict(settings))
    *parents, field = source.family.count.split(".")
    inner, config = changed, source.config
    for parent in parents:
        inner, config = inner.setdefault(parent, {}), getattr(config, parent)
    aliases = {name for name, real in config.attribute_map.items() if real == field} | {field}
    for name in (aliases & inner.keys()) or {field}:
        inner[name] = left
    return changed


def _write_file(folder: Folder, path: Path, pieces: list[Piece], metadata: Mapping[str, str]) -> Iterator[Piece]:
    """Writes a safetensors file part by part, wide numbers first so that all are aligned; yields as it goes."""
    pieces = sorted(pieces, key=lambda piece: -piece.entry.width)
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    begin = 0
    for piece in pieces:
        offsets = [begin, begin + piece.size]
        header[piece.name] = {"dtype": piece.entry.dtype, "shape": list(piece.shape), "data_offsets": offsets}
        begin += piece.size
    told = json.dumps(header, separators=(",", ":")).encode()
    told += b" " * (-len(told) % 8)
    with path.open("xb") as file:
        file.write(len(told).to_bytes(8, "little") + told)
        for piece in pieces:
            for first, length in piece.ranges:
                for content in folder.chunks(piece.entry, first, length):
                    file.write(content)
            yield piece
        file.flush()
        os.fsync(file.fileno())
