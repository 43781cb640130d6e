"""Reads a checkpoint folder, safetensors and config.json, without building the model or mapping its files.

safetensors checks each file once; after that numbers are read from their place, so that only what is asked for is ever
in memory.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.core.errors import InputError, MissingFileError, OperationError
from moe_lab.core.files import named
from moe_lab.core.sentences import brief
from moe_lab_hub.families import Family, family_of, read_field, transformers
from moe_lab_hub.scores import Source
from moe_lab_hub.survey import Tensors, layers_of

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
CONFIG = "config.json"
ADAPTER = "adapter_config.json"
NAMES_WEIGHTS = "transformers_weights"
"""The field of config.json that names the file to read in place of the usual ones."""
WEIGHTS = re.compile(r"\.(safetensors|bin|pt|pth|ckpt|h5|msgpack|gguf|onnx|onnx_data|distcp|index(\.[^./]+)?\.json)$")
"""What files of weights are called, and their indices, with a variant or without."""
_RULE = f"a checkpoint folder must hold {CONFIG} and safetensors"
_DISTRIBUTED = re.compile(r"shard-\d{5}-model-\d{5}-of-\d{5}\.safetensors$")
_TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


@dataclass(frozen=True)
class Entry:
    """Where a tensor is.

    Attributes:
      file: the name of its file.
      dtype: as safetensors calls it: "BF16".
      shape: its shape.
      begin, end: its first byte in the file, and the one after its last.
    """

    file: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def width(self) -> int:
        """Bytes of one number."""
        return (self.end - self.begin) // max(math.prod(self.shape), 1)

    def ranges(self, axis: int, experts: int, kept: Sequence[int]) -> list[tuple[int, int]]:
        """Returns the first bytes and lengths of the parts of some experts along an axis, in the order of the file."""
        rows = math.prod(self.shape[:axis])
        length = (self.end - self.begin) // (rows * experts)
        return [(self.begin + (row * experts + expert) * length, length) for row in range(rows) for expert in kept]


def check_checkpoint(path: Path | str) -> None:
    """Raises a FileNotFoundError unless a folder has a config.json, which costs no time."""
    if not os.path.isfile(Path(path) / CONFIG):
        raise MissingFileError(f"{_RULE}: got no {CONFIG} in {named(Path(path))}")


class Folder(Tensors):
    """The named tensors of a checkpoint folder: those that transformers reads, in whatever mixture of files.

    Attributes:
      path: the folder.
      entries: where each tensor is.
      metadata: of each file.
      settings: the content of config.json.
      index: the content of the index; None without one.
      index_name: its file.
      ignored: files of weights that transformers does not read.
      notes: what a user must know of them.

    Raises:
      FileNotFoundError: config.json or the safetensors files are missing.
      ValueError: a file is damaged, does not hold what the index says, or is not all of the model.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        check_checkpoint(self.path)
        self.settings: dict[str, Any] = read_json(self.path / CONFIG)
        self.entries: dict[str, Entry] = {}
        self.metadata: dict[str, Mapping[str, str]] = {}
        self.index: dict[str, Any] | None = None
        self.index_name = ""
        self._twice: list[str] = []
        start = self._start()
        found: Mapping[str, str] = {}
        files = [start]
        if start.endswith(".index.json"):
            self.index, self.index_name = read_json(self.path / start), start
            found = self.index.get("weight_map", {})
            whole = isinstance(found, dict) and found and all(isinstance(file, str) for file in found.values())
            require(bool(whole), f"{start} must name the file of each tensor", weight_map=found)
            for file in found.values():
                require(_contained(file), "a file of the index must lie in its folder", file=file)
            found = {name: _plain_name(file) for name, file in found.items()}
            files = sorted(set(found.values()))
        for file in files:
            self._add(file)
        absent = found.keys() - self.entries.keys()
        rule = f"the files of {start} must hold every tensor that it names"
        require(not absent, rule, tensor=min(absent, default=""))
        shown = (name for name in self.others() if not is_hidden(name))
        self.ignored = tuple(name for name in shown if WEIGHTS.search(name))
        self.notes = self._notes(found, start)

    def others(self) -> list[str]:
        """Returns the files that are neither the weights that are read nor config.json, hidden ones included."""
        own = {*self.metadata, self.index_name, CONFIG}
        paths = (path for path in self.path.rglob("*") if path.is_symlink() or path.is_file())
        return sorted({path.relative_to(self.path).as_posix() for path in paths} - own)

    def _start(self) -> str:
        """The file with which transformers begins: one that config.json names, the whole model, or an index.

        This is the order in `transformers.modeling_utils`, which takes PyTorch's own files and other formats last, and
        those with a variant in their names only when asked for it.

        Raises:
          FileNotFoundError: there is none.
          ValueError: the weights are in parts that belong together otherwise.
        """
        rule = "adapters must be merged into the model before it is pruned"
        require(not os.path.isfile(self.path / ADAPTER), rule, file=ADAPTER)
        parts = sorted(name for name in os.listdir(self.path) if _DISTRIBUTED.match(name))
        rule = "the shards of a distributed checkpoint must be merged first (transformers can consolidate them)"
        require(not parts, rule, file=next(iter(parts), ""))
        chosen = self.settings.get(NAMES_WEIGHTS)
        if chosen is not None:
            rule = f"{NAMES_WEIGHTS} in {CONFIG} must name a safetensors file of the folder, or an index of such files"
            right = isinstance(chosen, str) and chosen.endswith((".safetensors", ".safetensors.index.json"))
            require(right and _contained(chosen), rule, file=chosen)
            self._existing(chosen)
            return _plain_name(chosen)
        for name in (SINGLE, INDEX):
            if os.path.isfile(self.path / name):
                return name
        raise self._missing(SINGLE)

    def _notes(self, found: Mapping[str, str], start: str) -> tuple[str, ...]:
        """What a user must know of the files."""
        notes = []
        if self.ignored:
            names = brief(", ".join(self.ignored), 150)
            notes.append(f"transformers reads {start} in {named(self.path)} and ignores other weights: {names}")
        if self._twice:
            name = self._twice[0]
            notes.append(f"{name} is in several files, of which transformers reads {self.entries[name].file}")
        elsewhere = sorted(name for name, file in found.items() if self.entries[name].file != file)
        unnamed = sorted(self.entries.keys() - found.keys()) if found else []
        if first := next(iter([*elsewhere, *unnamed]), ""):
            notes.append(f"{start} is wrong on {first}, which transformers reads from {self.entries[first].file}")
        return tuple(notes)

    @property
    def names(self) -> Iterable[str]:
        """The names of all tensors."""
        return self.entries

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the shape of a tensor, without reading it."""
        return self.entries[name].shape

    def kind(self, name: str) -> torch.dtype | None:
        """Returns a tensor's type; None where it is not known."""
        return _TYPES.get(self.entries[name].dtype)

    def read(self, name: str, begin: int = 0, end: int | None = None) -> Tensor:
        """Reads a tensor, or some of its entries along axis 0.

        Raises:
          ValueError: its type is not known.
        """
        entry = self.entries[name]
        require(entry.dtype in _TYPES, f"{name} must be of a type in {', '.join(_TYPES)}", type=entry.dtype)
        shape = list(entry.shape)
        first, length = entry.begin, entry.end - entry.begin
        if shape:
            row = length // shape[0]
            first, length = entry.begin + begin * row, ((shape[0] if end is None else end) - begin) * row
            shape[0] = length // row
        with (self.path / entry.file).open("rb") as file:
            file.seek(first)
            content = bytearray(length)
            if file.readinto(content) != length:
                raise OperationError(f"{self.path / entry.file} ended early: it has been changed while it was read")
        return torch.frombuffer(content, dtype=_TYPES[entry.dtype]).view(shape)

    def chunks(self, entry: Entry, first: int, length: int, size: int = 2**24) -> Iterator[bytes]:
        """Yields some bytes of a tensor's file, a few at a time."""
        with (self.path / entry.file).open("rb") as file:
            file.seek(first)
            while length:
                content = file.read(min(size, length))
                if not content:
                    raise OperationError(f"{self.path / entry.file} ended early: it has been changed while it was read")
                length -= len(content)
                yield content

    def _existing(self, name: str) -> Path:
        path = self.path / name
        if not os.path.isfile(path):
            raise self._missing(name)
        return path

    def _missing(self, name: str) -> MissingFileError:
        """The error where a file is missing; it names the weights that are there instead."""
        weights = [one for one in sorted(os.listdir(self.path)) if WEIGHTS.search(one)]
        only = f", only {brief(', '.join(weights), 100)}" if weights else ""
        return MissingFileError(f"{_RULE}: got no {name} in {named(self.path)}{only}")

    def _add(self, name: str) -> None:
        """Adds the tensors of a file, after safetensors has checked that its header is sound."""
        path = self._existing(name)
        try:
            with safe_open(path, "pt") as file:
                self.metadata[name] = file.metadata() or {}
        except SafetensorError as error:
            raise InputError(f"a safetensors file must be sound: got {path} ({error})") from error
        with path.open("rb") as raw:
            length = int.from_bytes(raw.read(8), "little")
            header = json.loads(raw.read(length))
        for key, told in header.items():
            if key != "__metadata__":
                self._twice += [key] if key in self.entries else []  # the last file counts
                begin, end = (8 + length + offset for offset in told["data_offsets"])
                self.entries[key] = Entry(name, told["dtype"], tuple(told["shape"]), begin, end)


def is_hidden(name: str) -> bool:
    """Whether a file or one of its folders has a name that begins with a dot."""
    return any(part.startswith(".") for part in Path(name).parts)


def _contained(file: str) -> bool:
    """Whether the name of a file leads nowhere out of its folder."""
    return not os.path.isabs(file) and os.path.normpath(file) not in ("", ".") and ".." not in Path(file).parts


def _plain_name(file: str) -> str:
    return Path(os.path.normpath(file)).as_posix()


def read_json(path: Path) -> dict[str, Any]:
    """The content of a JSON file."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise InputError(f"{path} must be JSON ({error})") from error
    require(isinstance(content, dict), f"{path} must hold a JSON object", content=type(content).__name__)
    return dict(content)


def source_of_folder(folder: Folder, only: Collection[str] | None = None) -> Source:
    """Returns a checkpoint as pruning reads it, with all of its blocks or those of some names.

    Raises:
      ValueError: its family is not supported, or it holds something of experts that is not known.
    """
    family: Family = family_of(str(folder.settings.get("model_type")))
    config = transformers().AutoConfig.from_pretrained(folder.path, trust_remote_code=False)
    layers = layers_of(family, folder, int(read_field(config, family.count)), only)
    return Source(family, layers, folder, config)
