"""Numbers that the host draws for an accelerator while that computes.

A trial's numbers come from its own NumPy stream, so that they are the same alone and among a thousand. NumPy leaves the
interpreter to other threads while it fills an array; so the trials' streams are drawn from by several threads, and the
numbers of the next steps while the device takes the present ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
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


@cache
def _threads() -> ThreadPoolExecutor:
    """The threads of this process that draw numbers, at most one for each processor, however many runs draw ahead."""
    return ThreadPoolExecutor(processors(), thread_name_prefix="moe-lab numbers")


class Ahead:
    """Iterates without end over filled memory; while the consumer uses one piece, threads fill the next.

    Use it in a `with` statement, at whose end nothing more is drawn.

    Args:
      begin: returns new memory with the calls that fill it. It is called by the consumer, one piece ahead.
    """

    def __init__(self, begin: Callable[[], Fill]) -> None:
        self._begin = begin
        self._calls: list[Future[None]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for call in self._calls:
            call.cancel()

    def __iter__(self) -> Iterator[Tensor]:
        values = self._filling()
        while True:
            for call in self._calls:
                call.result()
            following = self._filling()  # not before the present piece is whole: both draw from the same streams
            yield values
            values = following

    def _filling(self) -> Tensor:
        values, calls = self._begin()
        self._calls = [_threads().submit(call) for call in calls]
        return values
