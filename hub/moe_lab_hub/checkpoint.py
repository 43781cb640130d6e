"""Prunes experts of a checkpoint on disk, file by file, without building the model."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
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
from moe_lab_hub.costs import costs_of
from moe_lab_hub.families import read_field, transformers
from moe_lab_hub.folder import CONFIG, Entry, Folder, is_hidden, read_json, source_of_folder
from moe_lab_hub.prune import loaded
from moe_lab_hub.scores import (
    Scored,
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
from moe_lab_hub.settings import BESIDE, Renumbered, with_count
from moe_lab_hub.survey import check_finite
from moe_lab_hub.texts import Text, batches_of
from moe_lab_hub.tokens import measured_on_disk


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
      costs: the model's costs, whole and pruned, see `costs.costs_of`.
      settings: by file, the content of the pruned model's config.json, and of files beside it that name modules.
      others: files of the folder that are neither the weights nor the config.
      left_out: those of them that are not copied: weights that transformers does not read, which would be those of the
        unpruned model, hidden files, and links to folders or to nothing.
      scored: what gave the scores, by block.
      notes: what was warned of: weights that are ignored, layers that `before` does not have, and scores that rounding
        does not tell apart.
    """

    folder: Folder
    source: Source
    kept: Mapping[str, tuple[int, ...]]
    scores: Mapping[str, Float[Tensor, " k"]]
    costs: xr.Dataset
    settings: Mapping[str, Mapping[str, Any]]
    others: tuple[str, ...]
    left_out: tuple[str, ...]
    scored: Mapping[str, Scored]
    notes: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """How many bytes of numbers will be written."""
        return sum(piece.size for piece in self._pieces())

    def write(self, out: Path | str) -> Iterator[int]:
        """Writes the pruned checkpoint, whole or not at all.

        `out` may lie in the folder that is pruned: nothing in it is copied, nor its plan.json beside it. At no time is
        more than a few megabytes of the checkpoint in memory.

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
                (part / file).parent.mkdir(parents=True, exist_ok=True)
                for piece in _write_file(self.folder, part / file, pieces, self.folder.metadata[file]):
                    done += piece.size
                    yield done
            self._write_rest(part, {piece.name: file for file, pieces in files.items() for piece in pieces}, done)
            for name in self._copied(Path(out)):
                (part / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self.folder.path / name, part / name)

    def _copied(self, out: Path) -> Iterator[str]:
        """The other files that belong to the model: what lies in `out` or was written beside it does not."""
        plan = plan_file(out)
        target, plan = Path(os.path.realpath(out)), Path(os.path.realpath(plan.parent), plan.name)
        for name in self.others:
            path = Path(os.path.realpath((self.folder.path / name).parent), Path(name).name)
            if name not in {*self.left_out, *self.settings} and not path.is_relative_to(target) and path != plan:
                yield name

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
        """Writes the index, the config, and what names modules beside it."""
        if self.folder.index is not None:
            told = {**self.folder.index.get("metadata", {}), "total_size": size}
            told.pop("total_parameters", None)
            content = {**self.folder.index, "metadata": told, "weight_map": dict(sorted(files.items()))}
            (part / self.folder.index_name).write_text(json.dumps(content, indent=2) + "\n", "utf-8")
        left = len(next(iter(self.kept.values())))
        for name, changed in self.settings.items():
            (part / name).write_text(json.dumps(changed, indent=2, ensure_ascii=False) + "\n", "utf-8")
        config = transformers().AutoConfig.from_pretrained(part, trust_remote_code=False)
        read = read_field(config, self.source.family.count)
        if read != left:
            raise RuntimeError(f"the written config must count {left} experts: got {read}")


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
        expert, quantised or not. What transformers reads of it is pruned; other weights are ignored, and every other
        file is copied.
      out: a folder that is new or empty; it may lie in the first. It appears when it is complete.
      before: the folder of the same model before fine-tuning, for criteria that compare with it, as for
        `prune_experts`.
      criterion: a name in `hub.CRITERIA` but those that need tokens, or a function as in `moe_lab.core.saliency`.
      share: of each layer's experts to REMOVE, as in `prune_experts`.
      seed: of the random criterion.

    Raises:
      FileNotFoundError: a file is missing.
      ValueError: as `prune_experts`, or a file is damaged.
      UndefinedCriterionError: as `prune_experts`.
      RuntimeError: the folder cannot be written.

    Warns:
      UserWarning: as `prune_experts`, or some weights are ignored.
    """
    check_new_folder(out)  # scoring a large checkpoint takes minutes
    plan = planned(folder, before, criterion, share, seed=seed)
    _warn(plan)
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
      FileNotFoundError, ValueError, UndefinedCriterionError: as for `prune_checkpoint`, which warns as this does.
    """
    plan = planned(folder, before, criterion, share, seed=seed)
    _warn(plan)
    return plan


def planned(
    folder: Path | str,
    before: Path | str | None,
    criterion: str | Criterion,
    share: float,
    *,
    seed: int,
    texts: Sequence[Text] | None = None,
) -> CheckpointPlan:
    """Returns what `plan_checkpoint` does, and leaves its notes to the caller.

    Args:
      texts: on which the whole model is measured, for criteria that need tokens.
    """
    if isinstance(criterion, str):
        checked_name(criterion)
        rule = f"{criterion} needs tokens: load the model and use prune_experts with batches="
        require(criterion not in NEED_TOKENS or texts is not None, rule, criterion=criterion)
    opened = Folder(folder)
    source = source_of_folder(opened)
    other = None if before is None else Folder(before)
    base = None if other is None else source_of_folder(other, [layer.name for layer in source.layers])
    if base is not None:
        check_pair(base, source)
    groups = source_groups(source, "rerouted")
    check_count(source, share, groups)
    check_finite(source.layers, opened)
    statistics = chance_of(source.layers, seed)
    if texts is not None:
        model = loaded(opened.path, source.family)
        statistics = measured_on_disk(model, source.family, source.layers, batches_of(texts), seed)
        del model
    scored = dict(scores_of(criterion, base, source, statistics, source.layers))
    scores = {name: one.scores for name, one in scored.items()}
    kept = {name: kept_experts(found, share, groups) for name, found in scores.items()}
    costs = costs_of(source, kept, {}, {name: entry.width for name, entry in opened.entries.items()})
    costs.attrs = {"mode": "rerouted", "share": share}
    costs.attrs["criterion"] = criterion if isinstance(criterion, str) else "function"
    counted = with_count(opened.settings, source, len(next(iter(kept.values()))))
    others, renumbered = tuple(opened.others()), Renumbered(source.family, kept, opened.names)
    settings = {CONFIG: renumbered.settings(counted)}
    settings |= {name: renumbered.beside(read_json(opened.path / name)) for name in BESIDE if name in others}
    dropped = (name for name in others if is_hidden(name) or not (opened.path / name).is_file())
    left_out = tuple(sorted({*opened.ignored, *dropped}))
    notes = (*opened.notes, *(other.notes if other else ()), *told(scored, kept, groups))
    return CheckpointPlan(opened, source, kept, scores, costs, settings, others, left_out, scored, notes)


def plan_file(out: Path | str) -> Path:
    """Returns where the command writes the plan of a pruning to `out`: beside it."""
    out = Path(out)
    out = out if out.name not in ("", "..") else Path(os.path.realpath(out))
    return out.with_name(f"{out.name}.plan.json")


def _warn(plan: CheckpointPlan) -> None:
    for note in plan.notes:
        warnings.warn(note, stacklevel=3)


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
