"""Records what torch computes, as a list of operations on buffers.

An operation has the name that torch's dispatcher gives it ("add.Tensor"), its arguments, and the places of its results.
A place is a buffer with an offset, sizes and strides in it: so views are no operations, and writing in place needs no
rule of its own. Everything must be in the form for accelerators, which reads no number: what a number decides while it
is recorded would be decided for ever.
"""

from __future__ import annotations

import math
import re
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from moe_lab_widgets.live.chosen import OF_OPERATIONS, table_of
from moe_lab_widgets.live.decomposed import taken_apart

META = torch.device("meta")
Place = dict[str, Any]
"""{"buffer", "offset", "sizes", "strides"}"""


class Operation(NamedTuple):
    """One operation.

    Attributes:
      name: as torch's dispatcher has it.
      arguments, named: places, numbers, words, None, and lists of them.
      results: where its results are.
      reads: the places among its arguments.
      lacking: why a page cannot do it, with the line of the library; "" where it can.
    """

    name: str
    arguments: list[Any]
    named: dict[str, Any]
    results: list[Place]
    reads: list[Place]
    lacking: str = ""

    @property
    def told(self) -> list[Any]:
        """What a document has of it."""
        return [self.name, self.arguments, self.named, self.results]

    @property
    def written(self) -> set[int]:
        """The numbers of the buffers that it writes."""
        return {place["buffer"] for place in self.results}


ABOUT_MEMORY = ("layout", "device", "pin_memory", "memory_format", "non_blocking", "dtype")
"""Named arguments that say where numbers lie, not what they are; a place's buffer knows its dtype."""
READS = ("_local_scalar_dense.default", "nonzero.default", "masked_select.default", "equal.default")
"""Operations after which the host knows a number, or whose results' sizes depend on one."""


_MODULES = ("kernels", "operations", "by_index", *OF_OPERATIONS)
"""A page's modules that can do operations."""


@cache
def known() -> frozenset[str]:
    """Returns the names of the operations that a page can do, without their overloads (`plain`)."""
    return frozenset(name for module in _MODULES for name in table_of(module).names)


@cache
def plain(name: str) -> str:
    """Returns the name of an operation without its overload, and without what says that it writes in place."""
    return re.sub(r"(?<=\w)_$", "", name.partition(".")[0])


class NotRecordedError(RuntimeError):
    """What was computed cannot be repeated by a page."""


class OperationRecorder(TorchDispatchMode):
    """A context in which operations are recorded, into the program that was begun last.

    Attributes:
      programs: operations by the name of their program.
      constants: what was in buffers that no recorded operation has written, by number.
    """

    def __init__(self) -> None:
        super().__init__()
        self.programs: dict[str, list[Operation]] = {}
        self.constants: dict[int, Tensor] = {}
        self._operations: list[Operation] = []
        self._buffers: dict[int, int] = {}
        self._storages: list[torch.UntypedStorage] = []  # alive, or another would be given the same address
        self._held: list[torch.UntypedStorage] = []  # those with numbers
        self._whole: list[tuple[torch.dtype, int]] = []

    def _free(self) -> None:
        """Frees the numbers of storages that nothing else holds. They stay themselves: their addresses are keys."""
        held = []
        for storage in self._held:
            if torch._C._storage_Use_Count(storage._cdata) > 1:  # this recorder alone
                held.append(storage)
            elif storage.resizable():  # not NumPy's
                storage.resize_(0)
        self._held = held

    @contextmanager
    def program(self, name: str) -> Iterator[None]:
        """Records a program."""
        self._operations = self.programs[name] = []
        with self:
            yield
        self._free()

    @property
    def buffers(self) -> list[tuple[torch.dtype, int]]:
        """The dtype of each buffer, and how many numbers it has."""
        return self._whole

    def given(self, tensor: Tensor) -> Place:
        """Returns the place of a tensor that will be filled from outside, before a program runs."""
        place = self.place(tensor)
        self.constants.pop(place["buffer"], None)
        return place

    def place(self, tensor: Tensor, *, result: bool = False) -> Place:
        """Returns where a tensor is. What is there already when it is first seen is a constant, unless it is a result.

        Raises:
          NotRecordedError: a buffer is read as another dtype than it was written.
        """
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._buffers:
            count = storage.nbytes() // tensor.element_size()
            self._buffers[key] = len(self._storages)
            self._storages.append(storage)
            self._held.append(storage)
            self._whole.append((tensor.dtype, count))
            if not result:
                with torch._C._DisableTorchDispatch():
                    whole = torch.empty(0, dtype=tensor.dtype).set_(storage, 0, (count,), (1,))  # type: ignore[arg-type]
                    self.constants[self._buffers[key]] = whole.clone()
        number = self._buffers[key]
        if self._whole[number][0] != tensor.dtype:
            raise NotRecordedError(f"a buffer of {self._whole[number][0]} is read as {tensor.dtype}{_where()}")
        offset, sizes, strides = tensor.storage_offset(), list(tensor.shape), list(tensor.stride())
        return {"buffer": number, "offset": offset, "sizes": sizes, "strides": strides}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if (kwargs and kwargs.get("device") == META) or any(isinstance(one, Tensor) and one.is_meta for one in args):
            return func(*args, **(kwargs or {}))  # shapes alone
        if (instead := taken_apart(func)) is not None:
            with self:
                return instead(*args, **(kwargs or {}))
        name, writes = _about(func)
        if name in READS:
            raise NotRecordedError(f"{func} reads a number, which a page has to decide anew{_where()}")
        reads: list[Place] = []
        arguments = [self._argument(one, reads) for one in args]
        named: dict[str, Any] = {}
        if kwargs:
            named = {name: self._argument(one, reads) for name, one in kwargs.items() if name not in ABOUT_MEMORY}
        given = {place["buffer"] for place in reads}
        made = func(*args, **(kwargs or {}))
        results = [made] if isinstance(made, Tensor) else list(_tensors(made))
        buffers = self._buffers
        fresh = [buffers.get(one.untyped_storage()._cdata) not in given for one in results]
        if writes or any(fresh):  # else it is a view
            places = [self.place(one, result=new) for one, new in zip(results, fresh, strict=True)]
            lacking = "" if plain(name) in known() else f"a page cannot do the operation {name}{_where()}"
            self._operations.append(Operation(name, arguments, named, places, reads, lacking))
        return made

    def _argument(self, value: Any, reads: list[Place]) -> Any:
        if isinstance(value, Tensor):
            reads.append(place := self.place(value))
            return place
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, (list, tuple)):
            return [self._argument(one, reads) for one in value]
        if isinstance(value, torch.dtype):
            return str(value).removeprefix("torch.")
        if isinstance(value, float):
            return number_in_json(value)
        raise NotRecordedError(f"an argument of an operation is {value!r}{_where()}")


@cache
def _about(operation: Any) -> tuple[str, bool]:
    """Returns the name of one of torch's operations, and whether it writes in place."""
    writes = any(one.alias_info is not None and one.alias_info.is_write for one in operation._schema.arguments)
    return str(operation).removeprefix("aten.").removeprefix("moe_lab."), writes


def _where() -> str:
    """Returns the line of the library that is at work, as the end of a sentence."""
    for frame in reversed(traceback.extract_stack()):
        if "/moe_lab" in frame.filename and "/live/" not in frame.filename:
            return f": in {frame.filename}, line {frame.lineno} ({frame.line})"
    return ""


def _tensors(value: Any) -> Iterator[Tensor]:
    """Yields the tensors in a nest of lists and tuples."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _tensors(one)


def number_in_json(value: float) -> float | str:
    """Returns a number, as a word that JavaScript reads where JSON has none for it."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def places_in(value: Any) -> Iterator[Place]:
    """Yields the places in a nest of lists and dicts."""
    if isinstance(value, dict):
        if "buffer" in value:
            yield value
        else:
            for one in value.values():
                yield from places_in(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from places_in(one)


def buffers_in(*values: Any) -> set[int]:
    """Returns the numbers of the buffers in nests of lists and dicts."""
    return {place["buffer"] for value in values for place in places_in(value)}


def needed(programs: dict[str, list[Operation]], order: Sequence[str], results: set[int]) -> dict[str, list[Operation]]:
    """Returns the operations that some results need.

    Args:
      order: names of programs, in the order in which they may run; one that runs again and again is named twice.
      results: buffers that are read at the end.
    """
    live, kept = set(results), {name: set[int]() for name in programs}
    for name in reversed(order):
        for number in reversed(range(len(programs[name]))):
            one = programs[name][number]
            if one.written & live:
                kept[name].add(number)
                live |= {place["buffer"] for place in one.reads}
    return {name: [one for number, one in enumerate(some) if number in kept[name]] for name, some in programs.items()}
