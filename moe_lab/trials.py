"""The trial axis: one random stream per trial, and the device that computes.

Random numbers come from a NumPy generator named by (seed, trial, purpose). They are sampled on the host in float64,
then cast and moved. So trial i gets the same numbers alone or among a thousand, in float32 or float64, on any device;
and because each purpose has its own stream, N samples are the first N of any larger number.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
import torch

from moe_lab.config import Precision, RunConfig, require
from moe_lab.errors import InputError, OperationError

DeviceName = str
_OF_TWO = ("linalg.solve_ex", "linalg.lstsq")  # functions of two matrices
Step = TypeVar("Step")


def stream(seed: int, trial: int, purpose: str) -> np.random.Generator:
    """Returns the random stream of one trial for one purpose (such as "labels" or "noise").

    Raises:
      ValueError: the seed or the trial is negative.
    """
    if seed < 0 or trial < 0:
        raise InputError(f"seed and trial must be at least 0: got seed={seed}, trial={trial}")
    key = (trial, zlib.crc32(purpose.encode()))
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(entropy=seed, spawn_key=key)))


def choose_device(name: DeviceName = "auto") -> torch.device:
    """Returns the device for a name: "auto" takes CUDA, else MPS, else the CPU.

    Raises:
      ValueError: torch does not know the name.
      RuntimeError: the device is known but not present on this machine.
    """
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        known = device.type in ("cpu", "cuda", "mps")
    except (RuntimeError, TypeError, ValueError):
        known = False
    rule = "device must be 'auto', 'cpu', 'cuda', 'cuda:N' or 'mps'"
    require(known, rule, device=name)
    present = {
        "cpu": True,
        "cuda": torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count(),
        "mps": torch.backends.mps.is_available(),
    }[device.type]
    if not present:
        raise OperationError(f"device {name!r} is not present on this machine; 'auto' chooses one that is")
    return device


def choose_dtype(precision: Precision, device: torch.device) -> torch.dtype:
    """Returns torch's dtype for "float32" or "float64".

    Raises:
      ValueError: float64 on MPS, which has none.
    """
    if precision == "float64" and device.type == "mps":
        raise InputError("precision must be 'float32' on an MPS device, which has no float64: got precision='float64'")
    return {"float32": torch.float32, "float64": torch.float64}[precision]


def placement(run: RunConfig) -> tuple[torch.device, torch.dtype]:
    """The device and the dtype of a run.

    A run that an MPS device cannot compute goes to the CPU, with a warning the first time: one that needs an operation
    which is missing there, and one in float64 for which the device was left to "auto".

    Raises:
      ValueError, RuntimeError: as `choose_device` and `choose_dtype`.
    """
    device = choose_device(run.device)
    if device.type == "mps":
        lacks = missing_operation(device, run.operations)
        if run.precision == "float64" and run.device == "auto":
            lacks = "float64"
        if lacks:
            _warn_once(f"the MPS device has no {lacks}, so that this run computes on the CPU")
            device = torch.device("cpu")
    return device, choose_dtype(run.precision, device)


@lru_cache
def missing_operation(device: torch.device, operations: tuple[str, ...]) -> str:
    """The first of some functions of torch, such as "linalg.eigh", that a device does not have; "" if it has all."""
    square = torch.eye(2, device=device)
    for name in operations:
        try:
            attrgetter(name)(torch)(*[square] * (2 if name in _OF_TWO else 1))
        except NotImplementedError:
            return name
    return ""


@lru_cache
def _warn_once(words: str) -> None:
    warnings.warn(words, stacklevel=3)


def device_label(device: torch.device) -> str:
    """Describes a device for status lines and results: "cpu" or "cuda (NVIDIA H100)"."""
    return f"cuda ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else device.type


_WORTH_SHARING = 2e8  # operations per step from which several threads are faster than one


@contextmanager
def threads_for(operations: float, device: torch.device) -> Iterator[None]:
    """Limits small steps on the CPU to one torch thread, and restores the caller's number of threads.

    On two threads a step of these sizes costs 2 to 9 times the CPU time, most of it spent waiting.

    Args:
      operations: approximate number per step.
      device: where the steps run; other devices than the CPU are left alone.
    """
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads == 1 or operations >= _WORTH_SHARING:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def on_one_thread(steps: Iterator[Step], device: torch.device) -> Iterator[Step]:
    """Iterates over small steps under `threads_for`, while the consumer keeps its own number of threads."""
    return each_within(steps, lambda: threads_for(0, device))


def each_within(steps: Iterator[Step], context: Callable[[], AbstractContextManager[Any]]) -> Iterator[Step]:
    """Computes every step within a context of its own, which its consumer is not in."""
    end = object()
    while True:
        with context():  # not across the yield
            step = next(steps, end)
        if step is end:
            return
        yield step  # type: ignore[misc]


def in_groups(trials: Sequence[int], size: int) -> list[Sequence[int]]:
    """Divides trials into groups of at most `size`."""
    return [trials[begin : begin + size] for begin in range(0, len(trials), size)]
