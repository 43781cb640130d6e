"""Cancelling a run between two Snapshots: before each step, its loop checks whether the consumer still wants the next.

A run is an iterator, so it stops wherever it is no longer consumed. A consumer that learns in the middle of a long
`next(run)` that it does not want the Snapshot any more interrupts it here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_unwanted: ContextVar[Callable[[], bool]] = ContextVar("unwanted", default=lambda: False)


class Interrupted(Exception):  # noqa: N818 (no error, as StopIteration is none)
    """A run was left between two Snapshots; it cannot go on."""


@contextmanager
def interrupted_when(unwanted: Callable[[], bool]) -> Iterator[None]:
    """Makes a run of this thread raise Interrupted at its next step once `unwanted()` is True."""
    before = _unwanted.set(unwanted)
    try:
        yield
    finally:
        _unwanted.reset(before)


def stop_if_unwanted() -> None:
    """Raises Interrupted if the consumer has cancelled the run. Training loops call it once per step."""
    if _unwanted.get()():
        raise Interrupted
