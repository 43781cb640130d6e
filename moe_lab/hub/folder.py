"""Reads a checkpoint folder, safetensors and config.json, without building the model or mapping its files.

safetensors checks each file once; after that numbers are read from their place, so that only what is asked for is ever
in memory.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.core.errors import InputError, MissingFileError, OperationError
from moe_lab.core.files import named
from moe_lab.hub.families import Family, family_of, read_field, transformers
from moe_lab.hub.scores import Source
from moe_lab.hub.survey import Tensors, layers_of

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
CONFIG = "config.json"
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


class Folder(Tensors):
    """The named tensors of a checkpoint folder.

    Attributes:
      path: the folder.
      entries: where each tensor is.
      metadata: of each file.
      settings: the content of config.json.

    Raises:
      FileNotFoundError: config.json or the safetensors files are missing.
      ValueError: a file is damaged, or does not hold what the index says.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.settings: dict[str, Any] = _read_json(self._existing(CONFIG))
        self.entries: dict[str, Entry] = {}
        self.metadata: dict[str, Mapping[str, str]] = {}
        self.index: dict[str, Any] | None = None
        if os.path.exists(self.path / INDEX):
            self.index = _read_json(self.path / INDEX)
            found: Mapping[str, str] = self.index.get("weight_map", {})
        else:
            self._existing(SINGLE)
            found = {}
        for file in sorted(set(found.values()) or {SINGLE}):
            require(Path(file).name == file, "a file of the index must lie in its folder", file=file)
            self._add(file)
        if found:
            differ = {name for name in found.keys() | self.entries.keys() if found.get(name) != self._file(name)}
            rule = f"{INDEX} must name every tensor's file"
            require(not differ, rule, tensor=min(differ, default=""))

    @property
    def names(self) -> Iterable[str]:
        """The names of all tensors."""
        return self.entries

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the shape of a tensor, without reading it."""
        return self.entries[name].shape

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

    def _file(self, name: str) -> str:
        return self.entries[name].file if name in self.entries else ""

    def _existing(self, name: str) -> Path:
        path = self.path / name
        if not os.path.isfile(path):
            rule = f"a checkpoint folder must hold {CONFIG} and safetensors"
            raise MissingFileError(f"{rule}: got no {name} in {named(self.path)}")
        return path

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
                require(key not in self.entries, "a tensor must be in one file", tensor=key)
                begin, end = (8 + length + offset for offset in told["data_offsets"])
                self.entries[key] = Entry(name, told["dtype"], tuple(told["shape"]), begin, end)


def _read_json(path: Path) -> dict[str, Any]:
    """The content of a JSON file."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise InputError(f"{path} must be JSON ({error})") from error
    require(isinstance(content, dict), f"{path} must hold a JSON object", content=type(content).__name__)
    return dict(content)


def source_of_folder(folder: Folder) -> Source:
    """Returns a checkpoint as pruning reads it.

    Raises:
      ValueError: its family is not supported, or it holds something of experts that is not known.
    """
    family: Family = family_of(str(folder.settings.get("model_type")))
    config = transformers().AutoConfig.from_pretrained(folder.path, trust_remote_code=False)
    layers = layers_of(family, folder, int(read_field(config, family.count)))
    return Source(family, layers, folder, config)
