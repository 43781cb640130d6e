"""Reads checkpoints in the format of the released V-MoE models, with NumPy and msgpack alone.

A checkpoint is an index, PREFIX.index, and shards, PREFIX.data-00000-of-00001 and so on, each one msgpack object.

    index   {"version": "20220622", "shard_count": n, "index": tree of entries}
    entry   ext 8: (ext-less bytes of a shape, the slices of the chunks, the shard of each chunk)
    shape   (lengths of the axes, name of the dtype, weak type, {})                               (ext 4 elsewhere)
    slices  one packed (start, stop, step) for each axis, all of them packed again                 (ext 5 and 6)
    shard   {"__msgpack_array_chunk_a87ca2__": true, "i": [[parts, slices], ...]}
    part    ext 1: (shape, name of the dtype, bytes), a flat piece of the chunk                    (ext 3: a scalar)

where i counts the entries of the tree in the order of their sorted keys. A bfloat16 is the upper half of a float32.

Nothing in the files is trusted: a shard must not be larger than what the index says of it, the chunks of an array must
cover each of its elements once, and each chunk must lie in the shard that the index names.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from moe_lab.core.config import require
from moe_lab.core.errors import InputError

VERSION = "20220622"
_MARK = "__msgpack_array_chunk_a87ca2__"
_ARRAY, _SCALAR, _SHAPE, _SLICE, _SLICES, _ENTRY = 1, 3, 4, 5, 6, 8
_DTYPES = ("float32", "float16", "bfloat16", "float64", "int8", "int32", "int64", "uint8", "uint32", "uint64", "bool")
_INDEX_BYTES = 2**26
_SPARE_BYTES = 2**16  # what a shard may hold beside its numbers, and again for each chunk
_SHARDS = 2**12
_ITEMS = 2**16  # of one list or mapping

Slices = tuple[tuple[int, int], ...]


class CheckpointError(InputError):
    """A checkpoint is damaged, or not in the released format."""


@dataclass(frozen=True)
class Entry:
    """The index's entry on an array: its shape, dtype, and for each chunk its slices and its shard."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    chunks: dict[Slices, int]

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * _width(self.dtype)

    def bytes_in(self, shard: int) -> int:
        """Returns the bytes of the numbers that a shard holds of the array."""
        return sum(_count(slices) for slices, where in self.chunks.items() if where == shard) * _width(self.dtype)


def read_released(prefix: Path | str, *, limit: int = 2**35) -> dict[str, np.ndarray]:
    """Reads all arrays of a checkpoint.

    Args:
      prefix: of the files, as in "vmoe_b16_imagenet21k_randaug_strong".
      limit: bytes that the arrays may have in total.

    Returns:
      The arrays by name, its parts separated by "/". bfloat16 becomes float32.

    Raises:
      CheckpointError: a file is damaged, too large, or contradicts the index.
      FileNotFoundError: a file is missing.
    """
    entries, shards = read_index(prefix)
    total = sum(entry.bytes for entry in entries)
    _require(total <= limit, "the arrays of a checkpoint must not exceed the limit in bytes", bytes=total, limit=limit)
    sizes = [_shard_size(prefix, shard, shards, entries) for shard in range(shards)]
    arrays = [np.empty(entry.shape, _stored(entry.dtype)) for entry in entries]
    for shard, size in enumerate(sizes):
        _read_shard(_shard_path(prefix, shard, shards), size, shard, entries, arrays)
    return {entry.name: _widened(array, entry.dtype) for entry, array in zip(entries, arrays, strict=True)}


def read_index(prefix: Path | str) -> tuple[list[Entry], int]:
    """Reads the index of a checkpoint: its arrays in the order of the shards' numbers, and the number of shards.

    Raises:
      CheckpointError: the index is damaged or of another version.
      FileNotFoundError: it is missing.
    """
    path = Path(f"{prefix}.index")
    size = path.stat().st_size
    _require(size <= _INDEX_BYTES, "the index must be small", path=str(path), bytes=size, limit=_INDEX_BYTES)
    index = _unpacked(path.read_bytes(), str(path))
    proper = isinstance(index, dict) and index.keys() == {"version", "shard_count", "index"}
    _require(proper, "an index must hold version, shard_count and index", path=str(path))
    version, shards = index["version"], index["shard_count"]
    _require(version == VERSION, f"the version of a checkpoint must be {VERSION!r}", version=version)
    proper = _is_whole(shards) and 1 <= shards <= _SHARDS
    _require(proper, f"shard_count must be a whole number from 1 to {_SHARDS}", shard_count=shards)
    entries = [_entry(name, leaf, shards) for name, leaf in _leaves(index["index"], "")]
    _require(bool(entries), "an index must name an array", path=str(path))
    return entries, shards


# --- the index ------------------------------------------------------------------------------------------------------


def _leaves(tree: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The entries of a tree in the order of their sorted keys; a place without an array has no number."""
    if isinstance(tree, Mapping):
        for key in sorted(tree):
            yield from _leaves(tree[key], f"{name}/{key}" if name else key)
    elif tree is not None:
        yield name, tree


def _entry(name: str, leaf: Any, shards: int) -> Entry:
    parts = _extension(leaf, _ENTRY, 3, name)
    shape, dtype, *_ = _extension(parts[0], _SHAPE, 4, name)
    dtype = _dtype(dtype, name)
    shape = _shape(shape, name)
    slices, homes = parts[1], parts[2]
    both = isinstance(slices, list) and isinstance(homes, list) and len(slices) == len(homes)
    _require(both, "an entry must name one shard for each chunk", array=name)
    inside = all(_is_whole(home) and 0 <= home < shards for home in homes)
    _require(inside, "chunks must lie in shards that exist", array=name, shards=homes[:8], shard_count=shards)
    chunks = dict(zip((_slices(packed, shape, name) for packed in slices), homes, strict=True))
    _require(len(chunks) == len(slices), "chunks must be different", array=name)
    entry = Entry(name, shape, dtype, chunks)
    _check_cover(entry)
    return entry


def _check_cover(entry: Entry) -> None:
    """Raises unless the chunks cover each element once: as many elements, and no two chunks with one in common."""
    covered, size = sum(map(_count, entry.chunks)), math.prod(entry.shape)
    rule = "chunks must cover every element of an array once"
    _require(covered == size, rule, array=entry.name, covered=covered, elements=size)
    ordered = sorted(slices for slices in entry.chunks if _count(slices))
    if not entry.shape:
        return
    open_: list[Slices] = []  # chunks that reach the present one along the first axis
    for slices in ordered:
        open_ = [other for other in open_ if other[0][1] > slices[0][0]]
        apart = all(any(a[1] <= b[0] or b[1] <= a[0] for a, b in zip(slices, other, strict=True)) for other in open_)
        _require(apart, rule, array=entry.name, chunk=slices)
        open_.append(slices)


# --- shards ---------------------------------------------------------------------------------------------------------


def _shard_path(prefix: Path | str, shard: int, shards: int) -> Path:
    return Path(f"{prefix}.data-{shard:05d}-of-{shards:05d}")


def _shard_size(prefix: Path | str, shard: int, shards: int, entries: list[Entry]) -> int:
    """The size of a shard's file, which the index bounds on both sides."""
    path = _shard_path(prefix, shard, shards)
    size, numbers = path.stat().st_size, sum(entry.bytes_in(shard) for entry in entries)
    count = sum(home == shard for entry in entries for home in entry.chunks.values())
    most = numbers + _SPARE_BYTES * (1 + count)
    rule = "a shard must hold the chunks that the index names, and little else"
    _require(numbers <= size <= most, rule, path=str(path), bytes=size, least=numbers, most=most)
    return size


def _read_shard(path: Path, size: int, shard: int, entries: list[Entry], arrays: list[np.ndarray]) -> None:
    """Copies the chunks of a shard into the arrays, and checks that they are those that the index names."""
    with path.open("rb") as file:
        content = _unpacked(file.read(size), str(path))
    _require(isinstance(content, dict) and content.pop(_MARK, False) is True, "a shard must hold chunks of arrays",
             path=str(path))  # fmt: skip
    wanted = {(i, slices) for i, entry in enumerate(entries) for slices, home in entry.chunks.items() if home == shard}
    for key in list(content):
        proper = isinstance(key, str) and key.isascii() and key.isdigit() and int(key) < len(entries)
        _require(proper, "chunks of a shard must belong to an array of the index", path=str(path), array=key)
        chunks, entry, i = content.pop(key), entries[int(key)], int(key)
        _require(isinstance(chunks, list), "a shard must list its chunks", path=str(path), array=entry.name)
        for chunk in chunks:
            pair = isinstance(chunk, list) and len(chunk) == 2 and isinstance(chunk[0], list)
            _require(pair, "a chunk must be a list of parts and its slices", path=str(path), array=entry.name)
            slices = _slices(chunk[1], entry.shape, entry.name)
            rule = "a shard must hold the chunks that the index names, each once"
            _require((i, slices) in wanted, rule, path=str(path), array=entry.name, chunk=slices)
            wanted.remove((i, slices))
            _fill(arrays[i], entry, slices, chunk[0])
    missing = [(entries[i].name, slices) for i, slices in sorted(wanted) if _count(slices)]
    _require(not missing, "a shard must hold the chunks that the index names", path=str(path), missing=missing[:3])


def _fill(array: np.ndarray, entry: Entry, slices: Slices, parts: list[Any]) -> None:
    """Copies the parts of a chunk, one after the other, into its place."""
    flat = [_part(part, entry) for part in parts]
    count, size = sum(part.size for part in flat), _count(slices)
    _require(count == size, "a chunk must be as large as its slices", array=entry.name, elements=count, slices=slices)
    place = tuple(slice(start, stop) for start, stop in slices)
    joined = flat[0] if len(flat) == 1 else np.concatenate([np.empty(0, array.dtype), *flat])
    array[place] = joined.reshape([stop - start for start, stop in slices])


def _part(part: Any, entry: Entry) -> np.ndarray:
    code = _SCALAR if isinstance(part, msgpack.ExtType) and part.code == _SCALAR else _ARRAY
    shape, dtype, content = _extension(part, code, 3, entry.name)
    same = _dtype(dtype, entry.name) == entry.dtype
    _require(same, "a chunk must have the dtype of its array", array=entry.name, dtype=dtype, expected=entry.dtype)
    size = math.prod(_shape(shape, entry.name))
    rule = "a part of a chunk must hold as many bytes as its shape says"
    fits = isinstance(content, bytes) and len(content) == size * _width(entry.dtype)
    _require(fits, rule, array=entry.name, shape=shape)
    return np.frombuffer(content, _stored(entry.dtype))


# --- values ---------------------------------------------------------------------------------------------------------


def _unpacked(content: bytes, where: str) -> Any:
    """Unpacks one msgpack object; lengths that it announces are bounded, so that they cannot fill the memory."""
    try:
        return msgpack.unpackb(content, raw=False, max_array_len=_ITEMS, max_map_len=_ITEMS, max_str_len=_ITEMS)
    except (ValueError, msgpack.exceptions.UnpackException, TypeError, RecursionError) as error:
        raise CheckpointError(f"a checkpoint must be whole msgpack files: got {where} ({error})") from error


def _extension(value: Any, code: int, length: int, name: str) -> list[Any]:
    """The list packed in an extension, or in plain bytes within another one."""
    if isinstance(value, msgpack.ExtType):
        _require(value.code == code, f"expected extension {code} of msgpack", array=name, code=value.code)
        value = value.data
    _require(isinstance(value, bytes), f"expected extension {code} of msgpack", array=name, type=type(value).__name__)
    try:
        packed = msgpack.unpackb(value, raw=True, max_array_len=_ITEMS, max_map_len=_ITEMS)
    except (ValueError, msgpack.exceptions.UnpackException, TypeError, RecursionError) as error:
        raise CheckpointError(f"extension {code} of msgpack is damaged: got array={name!r} ({error})") from error
    proper = isinstance(packed, list) and (length < 0 or len(packed) == length)
    _require(proper, f"extension {code} of msgpack must be a list of {length}", array=name)
    return packed


def _slices(packed: Any, shape: tuple[int, ...], name: str) -> Slices:
    """The (start, stop) of each axis, inside the shape."""
    axes = [_extension(axis, _SLICE, 3, name) for axis in _extension(packed, _SLICES, len(shape), name)]
    plain = all(_is_whole(a) and _is_whole(b) and step in (None, 1) for a, b, step in axes)
    inside = plain and all(0 <= a <= b <= length for (a, b, _), length in zip(axes, shape, strict=True))
    _require(inside, "slices must lie inside the array, with step 1", array=name, slices=axes, shape=shape)
    return tuple((start, stop) for start, stop, _ in axes)


def _shape(shape: Any, name: str) -> tuple[int, ...]:
    proper = isinstance(shape, list) and len(shape) <= 32 and all(_is_whole(length) and length >= 0 for length in shape)
    _require(proper, "a shape must be a list of whole numbers", array=name, shape=shape)
    return tuple(shape)


def _dtype(dtype: Any, name: str) -> str:
    text = dtype.decode("ascii", "replace") if isinstance(dtype, bytes) else str(dtype)
    _require(text in _DTYPES, f"the dtype of an array must be one of {', '.join(_DTYPES)}", array=name, dtype=text)
    return text


def _stored(dtype: str) -> np.dtype:
    return np.dtype("<u2") if dtype == "bfloat16" else np.dtype(dtype).newbyteorder("<")


def _width(dtype: str) -> int:
    return _stored(dtype).itemsize


def _widened(array: np.ndarray, dtype: str) -> np.ndarray:
    return (array.astype("<u4") << 16).view("<f4") if dtype == "bfloat16" else array


def _count(slices: Slices) -> int:
    return math.prod(stop - start for start, stop in slices)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _require(holds: bool, rule: str, **received: Any) -> None:
    try:
        require(holds, rule, **received)
    except ValueError as error:
        raise CheckpointError(str(error)) from None
