"""A double of CUDA's streams and captures on a CPU, for what happens where a capture fails.

It keeps what torch keeps: the current stream, the pools that allocations of a capture go to, and whether the random
generator is in the mode of captures. A read in the middle of a capture spoils it, as on CUDA.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from itertools import count
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.doubles import NoWaiting, WaitError

DEVICE = torch.device("cuda", 0)
READ = "CUDA error: operation not permitted when stream is capturing"
ENDED = "CUDA error: operation failed due to a previous error during capture"


class OnCuda(Tensor):
    """A tensor of the CPU that says it is on CUDA."""

    device = property(lambda self: DEVICE)  # type: ignore[assignment]


def on_cuda(*values: float) -> Tensor:
    return torch.tensor(values).as_subclass(OnCuda)


class Stream:
    """A stream, by its name."""

    def __init__(self, device: torch.device = DEVICE) -> None:
        self.device = device

    def wait_stream(self, other: Stream) -> None:
        assert isinstance(other, Stream)


class Recorder(NoWaiting):
    """Keeps the operations of a capture; one that waits is an error of CUDA, after which the capture cannot end."""

    spoiled = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            return super().__torch_dispatch__(func, types, args, kwargs)
        except WaitError:
            self.spoiled = True
            raise RuntimeError(f"{READ}\nCUDA kernel errors might be reported later") from None


class Current:
    """The context in which a stream is the current one; a capture leaves it only where it ends well."""

    def __init__(self, cuda: Cuda, stream: Stream) -> None:
        self.cuda, self.stream = cuda, stream

    def __enter__(self) -> None:
        self.before, self.cuda.stream = self.cuda.stream, self.stream

    def __exit__(self, *error: object) -> None:
        self.cuda.stream = self.before


class Cuda:
    """The state of the double.

    Args:
      tidy: whether a capture that fails ends its allocations, as in torch since pull request 180395, and leaves the
        random generator alone.
    """

    def __init__(self, patch: pytest.MonkeyPatch, tidy: bool) -> None:
        self.tidy, self.default = tidy, Stream()
        self.stream, self.library = self.default, "default"
        self.underway: list[tuple[int, int]] = []
        self.libraries: list[str] = []
        self.random_captures, self.begun, self.broken = False, 0, False
        pools, cuda = count(1), self

        class Graph:
            def capture_begin(self, pool: tuple[int, int], **how: Any) -> None:
                assert cuda.stream is not cuda.default and how["capture_error_mode"] == "thread_local"
                cuda.begun += 1
                cuda.underway.append(pool)
                cuda.libraries.append(cuda.library)
                if cuda.broken:
                    raise RuntimeError("CUDA error: initialization error")
                cuda.random_captures, self.pool, self.recorder = True, pool, Recorder()
                self.recorder.__enter__()

            def capture_end(self) -> None:
                self.recorder.__exit__(None, None, None)
                if self.recorder.spoiled:
                    if cuda.tidy:
                        cuda.underway.remove(self.pool)
                        cuda.random_captures = False
                    raise RuntimeError(ENDED)
                cuda.underway.remove(self.pool)
                cuda.random_captures = False

            def replay(self) -> None:
                self.recorder.replay()

        fakes = {
            "CUDAGraph": Graph,
            "Stream": Stream,
            "stream": partial(Current, self),
            "current_stream": lambda device: self.stream,
            "device": lambda device: nullcontext(),
            "synchronize": lambda device=None: None,
            "empty_cache": lambda: None,
            "graph_pool_handle": lambda: (0, next(pools)),
            "has_magma": True,
        }
        for name, fake in fakes.items():
            patch.setattr(torch.cuda, name, fake)
        patch.setattr(torch._C, "_host_emptyCache", lambda: None, raising=False)
        patch.setattr(torch._C, "_cuda_endAllocateToPool", self._end, raising=False)
        patch.setattr(torch.backends.cuda, "preferred_linalg_library", self._prefer)

    def _end(self, device: int, pool: tuple[int, int]) -> None:
        if pool not in self.underway or device != DEVICE.index:
            raise RuntimeError("endAllocatePool: not currently recording to mempool_id")
        self.underway.remove(pool)

    def _prefer(self, library: str | None = None) -> str:
        self.library = library or self.library
        return self.library
