"""Where a run computes: what "auto" means everywhere, and whether torch can use the GPU that is there.

"auto" is the GPU where a step touches enough numbers to gain by it (`WORTH_A_GPU`), and the CPU everywhere else. Every
`train`, the figures and the Labs ask `choose`.

On one CPU two runs of the same call are equal, bit for bit. On a GPU they agree to rounding: docs/howto/saving.md.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import lru_cache

import torch

from moe_lab.core.config import require
from moe_lab.core.errors import OperationError

AUTO, CPU, GPU = "auto", "cpu", "cuda"
WORTH_A_GPU = 10_000_000
"""Numbers that a step must touch (`RunConfig.numbers_per_step`) for "auto" to be the GPU.

Measured on an H100 beside one thread of its machine, with loaded kernels (benchmarks/RESULTS.md): both take equally
long at some hundred thousand numbers, and at ten million the GPU is 2 to 15 times faster. But the first run of a
process loads kernels and captures, for one to two seconds. At ten million numbers a run of some hundred steps has
made up for that; below, a CPU is soon enough done."""
NO_GPU = "this machine has no GPU that torch can use (CUDA)"
MPS_NOT_OFFERED = (
    "this machine's Apple GPU (MPS) is not offered in a Lab: steps are captured as graphs on CUDA alone, and MPS lacks "
    "operations that some runs need; train(..., device='mps') tries it"
)

DeviceName = str

_PRESENT: dict[str, Callable[[torch.device], bool]] = {
    CPU: lambda device: True,
    GPU: lambda device: torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count(),
    "mps": lambda device: torch.backends.mps.is_available(),
}
"""By the type of a device, whether there is such a one."""


def choose(device: DeviceName = AUTO, numbers: float = math.inf) -> torch.device:
    """Returns the device that a name stands for.

    "auto" is CUDA where a step touches at least `WORTH_A_GPU` numbers and torch can use the GPU, else the CPU. An Apple
    GPU (MPS) must be named: its steps are launched kernel by kernel.

    Args:
      numbers: that a step touches; without them, what "auto" is for the largest steps.

    Raises:
      ValueError: torch does not know the name.
      RuntimeError: the device is not present on this machine, or torch cannot use it.
    """
    if device == AUTO:
        worth_it = numbers >= WORTH_A_GPU
        if worth_it and torch.cuda.is_available() and not gpu_usable():
            warn_once(f"{no_gpu()}, so that 'auto' is the CPU")
        return torch.device(GPU if worth_it and gpu_usable() else CPU)
    try:
        chosen = torch.device(device)
        known = chosen.type in _PRESENT
    except (RuntimeError, TypeError, ValueError):
        known = False
    require(known, "device must be 'auto', 'cpu', 'cuda', 'cuda:N' or 'mps'", device=device)
    if not _PRESENT[chosen.type](chosen):
        raise OperationError(f"device {device!r} is not present on this machine; 'auto' chooses one that is")
    if refusal(chosen):
        raise OperationError(f"device {device!r} must run torch's kernels, and 'cpu' does: got {refusal(chosen)!r}")
    return chosen


def refusal(device: torch.device) -> str:
    """Returns why torch cannot compute on a device that is there, by one tiny launch; empty where it can.

    A GPU that is older or newer than the kernels of this torch is listed as available all the same.
    """
    if device.type == CPU:
        return ""
    try:
        _launch(device)
    except Exception as error:
        return str(error).partition("\n")[0] or type(error).__name__
    return ""


@lru_cache
def _launch(device: torch.device) -> None:
    """Computes one number on a device, once where that works; a GPU whose memory is full may have some later."""
    (torch.ones(1, device=device) + 1).item()


def gpu_usable() -> bool:
    """Whether there is a GPU (CUDA) that torch can use."""
    return torch.cuda.is_available() and not refusal(torch.device(GPU))


def device_names() -> tuple[str, ...]:
    """Returns the names of the devices between which "auto" chooses on this machine."""
    return (CPU, GPU) if gpu_usable() else (CPU,)


def no_gpu() -> str:
    """Returns why a Lab offers no GPU on this machine, in words."""
    if torch.cuda.is_available():
        return f"torch cannot use this machine's GPU ({refusal(torch.device(GPU))})"
    return MPS_NOT_OFFERED if torch.backends.mps.is_available() else NO_GPU


@lru_cache
def warn_once(words: str) -> None:
    """Warns the first time that these words are to be said."""
    warnings.warn(words, stacklevel=3)


def device_word(device: str) -> str:
    """Returns a device as a word: "GPU" for "cuda"."""
    return {CPU: "CPU", GPU: "GPU"}.get(device, device)


def device_label(device: torch.device) -> str:
    """Describes a device for status lines and results: "cpu", "cuda (NVIDIA H100)" or "cuda:1 (NVIDIA H100)"."""
    return f"{device} ({torch.cuda.get_device_name(device)})" if device.type == GPU else device.type


def label_of(name: DeviceName) -> str:
    """Describes what a name stands for, as `device_label`: "auto" may be two devices."""
    label = device_label(choose(name))
    return f"{label} for large steps, else cpu" if name == AUTO and label != CPU else label
