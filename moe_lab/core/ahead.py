"""Numbers that the host draws for an accelerator while that computes.

A trial's numbers come from its own NumPy stream, so that they are the same alone and among a thousand. NumPy leaves the
interpreter to other threads while it fills an array; so the trials' streams are drawn from by several threads, and the
numbers of the next steps while the device takes the present ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

import torch
from torch import Tensor

from moe_lab.core.workers import processors

Fill = tuple[Tensor, Sequence[Callable[[], None]]]
"""Memory, and calls that fill it, in any order and at the same time."""


def host_memory(shape: Sequence[int], device: torch.device) -> Tensor:
    """Returns memory of the host for float32, from which CUDA copies without the host's help."""
    return torch.empty(tuple(shape), dtype=torch.float32, pin_memory=device.type == "cuda")


class Ahead:
    """Iterates without end over filled memory; while the consumer uses one piece, threads fill the next.

    Use it in a `with` statement, at whose end the threads end.

    Args:
      begin: returns new memory with the calls that fill it. It is called by the consumer, one piece ahead.
      threads: as many as there are processors, if None.
    """

    def __init__(self, begin: Callable[[], Fill], threads: int | None = None) -> None:
        self._begin = begin
        self._threads = ThreadPoolExecutor(threads or processors(), thread_name_prefix="moe-lab numbers")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def __iter__(self) -> Iterator[Tensor]:
        values, calls = self._filling()
        while True:
            for call in calls:
                call.result()
            following = self._filling()  # not before the present piece is whole: both draw from the same streams
            yield values
            values, calls = following

    def _filling(self) -> tuple[Tensor, list[Future[None]]]:
        values, calls = self._begin()
        return values, [self._threads.submit(call) for call in calls]
