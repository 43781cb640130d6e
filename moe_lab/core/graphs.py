"""Steps that never wait for an accelerator, and CUDA graphs for those whose kernels take longer to launch than to run.

Reading a number from an accelerator makes the host wait until all that is queued there has run. So a step in the form
for accelerators reads nothing: masks take the place of choices, shapes are static, rows that have ended are masked, and
errors, losses and counts are read where a Snapshot is due. On a CPU the other form, which looks and skips, is faster.
`on_accelerator` says which form to take; it is the only place where that is decided.
"""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

_CAPTURING = threading.RLock()  # one capture at a time: a process may have several Labs, each with its thread
_WARM_UPS = 3  # a capture needs a few ordinary runs on a side stream before it
_AS_ON_ACCELERATOR = ContextVar("as on an accelerator", default=False)


def on_accelerator(device: torch.device) -> bool:
    """Whether a step on this device takes the form that never waits for it: on all but the CPU."""
    return device.type != "cpu" or _AS_ON_ACCELERATOR.get()


@contextmanager
def as_on_accelerator() -> Iterator[None]:
    """Makes the CPU take the accelerators' code paths, slower but with the same results, for tests and comparisons."""
    before = _AS_ON_ACCELERATOR.set(True)
    try:
        yield
    finally:
        _AS_ON_ACCELERATOR.reset(before)


def to_device(values: np.ndarray | Tensor, device: torch.device | str, dtype: torch.dtype | None = None) -> Tensor:
    """Moves an array, or a tensor of the host, to a device; the host does not wait for CUDA to have it.

    On CUDA it is cast there, because the copy of a cast would lie in memory from which a copy has to be waited for.
    """
    tensor = values if isinstance(values, Tensor) else torch.from_numpy(np.ascontiguousarray(values))
    if torch.device(device).type == "cuda":
        tensor = (tensor if tensor.is_pinned() else tensor.pin_memory()).to(device, non_blocking=True)
    return tensor.to(device=device, dtype=dtype)


def concurrently(calls: Sequence[Callable[[], None]], device: torch.device) -> None:
    """Makes calls that read and write different tensors, in any order; all complete before what follows.

    On CUDA each runs on a stream of its own: a captured graph has them as branches, so that several small batches are
    in flight where one does not fill the device. What a call allocates there is used by the call alone.
    """
    if device.type != "cuda" or len(calls) < 2:
        for call in calls:
            call()
        return
    here = torch.cuda.current_stream(device)
    sides = [torch.cuda.Stream(device) for _ in calls]
    for side, call in zip(sides, calls, strict=True):
        side.wait_stream(here)
        with torch.cuda.stream(side):
            call()
    for side in sides:
        here.wait_stream(side)


class CapturedStep:
    """Calls `update(*inputs)`, which changes the tensors of `state` in place; on CUDA, as one captured graph.

    The update must read and write the same tensors every time and never wait for the device. In the form for
    accelerators it is called with copies of the inputs, which stay where they are; on the CPU, with the inputs
    themselves. Make a new CapturedStep whenever a shape changes.

    Args:
      update: a function of the inputs and of tensors that it holds.
      state: every tensor that the update changes, at least one; restored after the warm-up runs of a capture.
      inputs: example inputs; each later call must give the same shapes.
    """

    def __init__(self, update: Callable[..., object], state: Sequence[Tensor], inputs: Sequence[Tensor] = ()) -> None:
        self._update: Callable[..., object] | None = None
        self._repeat: Callable[[], object] | None = None
        if on_accelerator(state[0].device):
            self._inputs = [value.clone() for value in inputs]
            # What is captured needs no update, which often belongs to the owner of this object: without a circle of
            # references a run that is dropped gives its graphs' memory back at once.
            self._repeat = _captured(partial(update, *self._inputs), state)
        else:
            self._update = update

    def __call__(self, *inputs: Tensor) -> None:
        if self._repeat is None:
            assert self._update is not None
            self._update(*inputs)
            return
        for static, value in zip(self._inputs, inputs, strict=True):
            static.copy_(value)
        self._repeat()


def _captured(call: Callable[[], object], state: Sequence[Tensor]) -> Callable[[], object]:
    """Returns a function that repeats a call: as a graph on CUDA; elsewhere the call itself.

    Where the capture fails, for whatever reason, the call itself too, with a warning: slower, not wrong. If the step
    itself is at fault, its next call says so. Later steps are captured all the same.
    """
    capture = _CAPTURES.get(state[0].device.type)
    if capture is None:
        return call
    before = [value.clone() for value in state]
    try:
        return capture(call, state[0].device)
    except Exception as error:
        cause = error.__context__ or error  # torch's own error is about the capture's end
        why = str(cause).partition("\n")[0] or type(cause).__name__
        warnings.warn(f"this step runs kernel by kernel, because its capture as a graph failed: {why}", stacklevel=2)
        return call
    finally:
        for value, was in zip(state, before, strict=True):
            value.copy_(was)


def _cuda_graph(call: Callable[[], object], device: torch.device) -> Callable[[], None]:
    """Captures a call on CUDA, after warm-up runs, and returns what repeats it."""
    with _CAPTURING, torch.cuda.device(device):
        here, side = torch.cuda.current_stream(device), torch.cuda.Stream(device)
        side.wait_stream(here)
        try:
            with torch.cuda.stream(side):
                for _ in range(_WARM_UPS):
                    call()
        finally:
            here.wait_stream(side)
        try:
            return _graph_of(call, side)
        except Exception:
            _leave_mode_of_captures(device)
            raise


def _graph_of(call: Callable[[], object], side: Any) -> Callable[[], None]:
    """Captures a call and returns what repeats it. If that fails, the current stream and the allocator are as before.

    Args:
      side: the stream, of the device, on which to capture.
    """
    graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
    try:
        # A capture that fails leaves its own stream as the current one. Other threads may use the device meanwhile.
        # The stream is this device's: the one that torch keeps for captures belongs to the first device in use.
        here = torch.cuda.stream(torch.cuda.current_stream(side.device))
        capture = torch.cuda.graph(graph, pool=pool, stream=side, capture_error_mode="thread_local")
        # Another graph in Python's garbage, destroyed in the middle of a capture, would end that.
        with without_collection(), here, capture:
            call()
    except BaseException:
        _end_allocation(side.device, pool)
        raise
    return graph.replay  # type: ignore[no-any-return]


def _end_allocation(device: torch.device, pool: Any) -> None:
    """Ends the allocation of a capture that failed, which torch leaves open before its pull request 180395.

    An allocator that believes in a capture gives no memory back. torch offers this under a private name alone.
    """
    for name in ("_cuda_endAllocateToPool", "_cuda_endAllocateCurrentStreamToPool"):  # by version
        end = getattr(torch._C, name, None)
        if end is not None:
            with suppress(Exception):  # it has ended already, or this version takes other arguments
                end(device.index, pool)
            return


def _leave_mode_of_captures(device: torch.device) -> None:
    """Captures next to nothing, after a capture that failed.

    In versions in which torch's random generator stays in the mode of captures after a failure, this ends that mode.
    """
    with suppress(Exception):  # the failure before is the one to report
        torch.cuda.synchronize(device)
        _graph_of(partial(torch.zeros(1, device=device).add_, 1), torch.cuda.Stream(device))


_CAPTURES: dict[str, Callable[[Callable[[], object], torch.device], Callable[[], object]]] = {"cuda": _cuda_graph}
"""By the type of a device, what captures a call there and returns what repeats it."""


@contextmanager
def without_collection() -> Iterator[None]:
    """Keeps Python's garbage for later."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
