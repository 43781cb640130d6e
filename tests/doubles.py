"""Doubles of an accelerator, on a CPU: a captured graph, and a device whose numbers nobody can read."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import GeneratorType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from moe_lab.core import graphs
from moe_lab.core.graphs import as_on_accelerator

aten = torch.ops.aten
WAITS = {
    aten._local_scalar_dense,
    aten.equal,
    aten.nonzero,
    aten.masked_select,
    aten.unique_consecutive,
    aten._unique2,
    aten._linalg_check_errors,
    aten.lift_fresh,  # a number or an array of the host becomes a tensor
}
"""Operations for which the host waits: their result is a number, or its shape depends on numbers."""


class WaitError(AssertionError):
    """A step waited for the device."""


def _tensors(values: Any) -> list[Tensor]:
    return [value for value in tree_flatten(values)[0] if isinstance(value, Tensor)]


class NoWaiting(TorchDispatchMode):
    """Fails at an operation that waits for the device, and keeps those that run, as a capture does.

    Args:
      sends: whether the host may send numbers to the device, as it may outside of captures.
    """

    def __init__(self, sends: bool = False) -> None:
        super().__init__()
        self.sends = sends
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = _tensors((args, kwargs))
        if func.overloadpacket in WAITS and not (self.sends and func.overloadpacket == aten.lift_fresh):
            raise WaitError(f"a step waits for the device: {func}")
        masks = func.overloadpacket in (aten.index, aten.index_put, aten.index_put_)
        if masks and any(value.dtype in (torch.bool, torch.uint8) for value in given[1:2]):
            raise WaitError(f"a step indexes by a mask, whose number of ones has to be waited for: {func}")
        if len({value.device.type for value in given if value.ndim}) > 1:
            raise WaitError(f"a step moves numbers between the host and the device: {func}")
        found = func(*args, **kwargs)
        elsewhere = {value.device.type for value in _tensors(found)} - {"meta"}
        if {value.device.type for value in given} == {"meta"} and elsewhere:
            raise WaitError(f"a step fetches numbers from the device: {func}")
        self.calls.append((func, args, kwargs, found))
        return found

    @torch.no_grad()  # a graph repeats what autograd computed, not what it recorded
    def replay(self) -> None:
        """Runs the kept operations again, on the same tensors, as a graph does: nothing else of the step runs."""
        for func, args, kwargs, kept in self.calls:
            for old, new in zip(_tensors(kept), _tensors(func(*args, **kwargs)), strict=True):
                if old.untyped_storage().data_ptr() != new.untyped_storage().data_ptr():
                    old.copy_(new)


def captured(call: Callable[[], object], state: Sequence[Tensor]) -> Callable[[], None]:
    """In place of `graphs._captured`: what a CUDA graph would repeat, and nothing that Python does beside it."""
    before = [value.clone() for value in state]
    call()  # warms up
    with NoWaiting() as tape:
        call()
    assert tape.calls, "nothing was captured"
    for value, was in zip(state, before, strict=True):
        value.copy_(was)
    return tape.replay


def without_numbers(call: Callable[[], object]) -> None:
    """Runs a call where no tensor has numbers: it fails if it needs any, or tensors that are not on the device."""

    def to_meta(tensor: Tensor, memo: dict[int, Any]) -> Tensor:
        there = tensor.detach().to("meta")
        there = nn.Parameter(there, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else there
        return memo.setdefault(id(tensor), there)  # type: ignore[no-any-return]

    with pytest.MonkeyPatch.context() as patch:
        for kind in (Tensor, nn.Parameter):
            patch.setattr(kind, "__deepcopy__", to_meta)
        for whole in (GeneratorType, torch.Generator):  # nothing copies these
            patch.setitem(copy._deepcopy_dispatch, whole, lambda steps, memo: steps)  # type: ignore[attr-defined]
        there = copy.deepcopy(call)
    with NoWaiting():
        there()


@contextmanager
def as_captured() -> Iterator[list[partial[object]]]:
    """Has the CPU take the form for accelerators, with the double of a graph; yields a list of the calls that it keeps.

    Each call also runs where no tensor has numbers.
    """
    calls = []

    def capture(call: partial[object], state: Sequence[Tensor]) -> Callable[[], None]:
        calls.append(call)
        without_numbers(call)
        return captured(call, state)

    with pytest.MonkeyPatch.context() as patch, as_on_accelerator():
        patch.setattr(graphs, "_captured", capture)
        yield calls


class Peak(TorchDispatchMode):
    """Counts the bytes of the tensors that exist at once; `most` is the largest number so far."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for tensor in _tensors(found):
            storage = tensor.untyped_storage()
            if storage._cdata not in self._known:
                self._known.add(storage._cdata)
                self.now += storage.nbytes()
                weakref.finalize(storage, self._freed, storage._cdata, storage.nbytes())
        self.most = max(self.most, self.now)
        return found

    def _freed(self, storage: int, size: int) -> None:
        self._known.discard(storage)
        self.now -= size
