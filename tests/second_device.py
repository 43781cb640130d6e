"""A second device on a CPU: its tensors hold numbers, refuse to meet the host's, and tell when the host waits for them.

torch lets Python register a device. A tensor there wraps a tensor of the host, on which every operation runs. As on
CUDA, an operation on tensors of two devices raises, unless one of them is a single number of the host; and while a
step is captured, whatever waits for the device raises, and the operations are kept, to be repeated as a graph does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode

from moe_lab.core import devices, graphs
from moe_lab.patch_routing import fixed_learners, grid_points, learner

NAME = "second"
CAPTURING = "operation not permitted when stream is capturing"
_INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}
WAITS = {
    *("_local_scalar_dense", "equal", "nonzero", "masked_select", "bincount", "repeat_interleave", "_linalg_eigh"),
    *("_unique2", "unique_consecutive", "unique_dim", "_linalg_check_errors", "_linalg_svd", "linalg_lstsq"),
}
"""Operations for which the host waits on CUDA: their result is a number, or its shape depends on numbers."""

# Where there is CUDA, its tests run in its place: torch pins the host's memory for one kind of device in a process.
registers = hasattr(backend_registration, "_setup_privateuseone_for_python_backend") and not torch.cuda.is_available()
if registers:  # at import, because the first gradient of the process starts a thread for each device
    backend_registration._setup_privateuseone_for_python_backend(NAME)


class There(Tensor):
    """A tensor of the second device."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor, device: torch.device) -> There:
        return Tensor._make_wrapper_subclass(  # type: ignore[attr-defined, no-any-return]
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=device,
        )

    def __init__(self, inner: Tensor, device: torch.device) -> None:
        self.inner = inner

    def __repr__(self, *, tensor_contents: object = None) -> str:
        return f"There({self.inner!r})"

    def tolist(self) -> Any:
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"a tensor of the second device outlived it: {func}")


class SecondDevice(TorchDispatchMode):
    """The device while a test runs.

    Attributes:
      name: of the device, for `device=`.
      waits: how often the host waited, by the name of the operation.
      captures: how many steps were captured.
    """

    def __init__(self, index: int) -> None:
        super().__init__()
        self.name = f"{NAME}:{index}"
        self.waits: Counter[str] = Counter()
        self.captures = 0
        self.tape: list[tuple[Any, Any, Any, Any]] | None = None  # what a capture keeps
        self.replaying = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No compiler is at work here; skipping the method would load it, for 4 seconds, and ask it at every step."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.replaying:
            return func(*args, **kwargs)
        kwargs = kwargs or {}
        given = _tensors(args) + _tensors(tuple(kwargs.values()))
        there = [value for value in given if isinstance(value, There)]
        target = _target(func, args, kwargs, there)
        self._check(func.overloadpacket.__name__, args, given, target)
        inner = {name: _each(_inner, value) for name, value in kwargs.items() if name != "pin_memory"}
        if inner.get("device") is not None:
            inner["device"] = "cpu"
        inner_args = _each(_inner, args)
        found = func(*inner_args, **inner)
        if self.tape is not None and target:
            self.tape.append((func, inner_args, inner, found))
        same = {id(value.inner): value for value in there}

        def wrapped(value: Any) -> Any:
            if id(value) in same:
                return same[id(value)]
            return There(value, target) if target and isinstance(value, Tensor) else value

        with torch.inference_mode(False):  # whose views of wrappers torch refuses
            return _each(wrapped, found)

    def _check(self, name: str, args: Any, given: list[Tensor], target: torch.device | None) -> None:
        """Refuses what mixes devices, and counts what waits; in a capture that is refused too."""
        capturing = self.tape is not None
        if name in ("copy_", "_to_copy"):
            moves = given[-1].device != (target or torch.device("cpu"))
            if moves and (capturing or target is None):  # outside of captures the host may send numbers
                self._wait(name)
            return
        indices = _tensors(args[1]) if name in _INDEXED else []
        on_host = [value for value in given if value.device.type == "cpu" and value.ndim]
        devices = {value.device for value in given if value.device.type == NAME}
        mixed = [value for value in on_host if not any(value is index for index in indices)]
        if len(devices) > 1 or (devices and (mixed or (given[0].device.type == "cpu" and indices))):
            raise RuntimeError(
                f"expected all tensors on one device: got {[str(one.device) for one in given]} in {name}"
            )
        chooses = any(index.dtype in (torch.bool, torch.uint8) for index in indices)
        sends = capturing and any(index.device.type == "cpu" for index in indices)
        if devices and (name in WAITS or chooses or sends):
            self._wait(name)

    def _wait(self, name: str) -> None:
        if self.tape is not None:
            raise RuntimeError(f"{CAPTURING}: {name}\nas CUDA says on further lines")
        self.waits[name] += 1

    @contextmanager
    def capture(self, graph: Graph, **how: Any) -> Iterator[None]:
        """In place of `torch.cuda.graph`."""
        assert self.tape is None, "two captures at a time"
        self.tape = graph.tape
        try:
            yield
        finally:
            self.tape = None
        assert graph.tape, "nothing was captured"
        graph.device = self
        self.captures += 1


class Graph:
    """In place of `torch.cuda.CUDAGraph`: repeats the operations of a capture, and nothing that Python does beside."""

    def __init__(self) -> None:
        self.tape: list[tuple[Any, Any, Any, Any]] = []
        self.device: SecondDevice | None = None

    @torch.no_grad()  # a graph repeats what autograd computed, not what it recorded
    def replay(self) -> None:
        assert self.device is not None, "nothing was captured"
        self.device.replaying = True
        for func, args, kwargs, kept in self.tape:
            for old, new in zip(_tensors(kept), _tensors(func(*args, **kwargs)), strict=True):
                if old.untyped_storage().data_ptr() != new.untyped_storage().data_ptr():
                    old.copy_(new)
        self.device.replaying = False


class Stream:
    """In place of `torch.cuda.Stream`: what is called has run."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def wait_stream(self, other: Stream) -> None:
        assert other.device == self.device


def _each(change: Callable[[Any], Any], values: Any) -> Any:
    """Changes every value in lists and tuples."""
    if isinstance(values, list | tuple):
        return type(values)([_each(change, value) for value in values])
    return change(values)


def _tensors(values: Any) -> list[Tensor]:
    if isinstance(values, list | tuple):
        return [tensor for value in values for tensor in _tensors(value)]
    return [values] if isinstance(values, Tensor) else []


def _inner(value: Any) -> Any:
    return value.inner if isinstance(value, There) else value


def _target(func: Any, args: Any, kwargs: Any, there: list[There]) -> torch.device | None:
    """The second device, where an operation leaves its result there."""
    asked = args[0].device if func.overloadpacket.__name__ == "copy_" else kwargs.get("device")
    if asked is not None:
        asked = torch.device(asked)
        return torch.device(NAME, asked.index or 0) if asked.type == NAME else None
    return there[0].device if there else None


class _Made(TorchFunctionMode):
    """Numbers of Python become a tensor of the host first, which is then moved."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        device = kwargs.get("device")
        if func in (torch.tensor, torch.as_tensor, torch.asarray) and device and torch.device(device).type == NAME:
            return func(*args, **{**kwargs, "device": "cpu"}).to(device)
        if func in (Tensor.__getitem__, Tensor.__setitem__):
            args = (args[0], _index(args[1]), *args[2:])
        return func(*args, **kwargs)


def _index(places: Any) -> Any:
    if isinstance(places, tuple):
        return tuple(_index(part) for part in places)
    return torch.as_tensor(places) if isinstance(places, list | np.ndarray) else places


@contextmanager
def second_device(index: int = 0) -> Iterator[SecondDevice]:
    """Offers the device under the name that it yields; its steps are captured by what captures them on CUDA."""
    if not registers:
        pytest.skip("this version of torch registers no device from Python, or the machine has CUDA")
    device = SecondDevice(index)
    at_hand: dict[str, Any] = {
        "CUDAGraph": Graph,
        "graph": device.capture,
        "graph_pool_handle": lambda: None,
        "Stream": Stream,
        "stream": lambda stream: nullcontext(),
        "current_stream": Stream,
        "device": lambda device: nullcontext(),
        "synchronize": lambda device: None,
    }
    with pytest.MonkeyPatch.context() as patch, device, _Made():
        patch.setitem(devices._PRESENT, NAME, lambda device: True)
        patch.setitem(graphs._CAPTURES, NAME, graphs._cuda_graph)
        for name, fake in at_hand.items():
            patch.setattr(torch.cuda, name, fake)
        for table in (learner.NUMBERS_AT_ONCE, fixed_learners.NUMBERS_WORTH_A_PART, grid_points.ROWS_AT_ONCE):
            patch.setitem(table, NAME, table["cuda"])
        devices.choose(device.name)  # looks whether it computes, once in a process
        device.waits.clear()
        yield device
