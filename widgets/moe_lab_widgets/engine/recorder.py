"""The records of one run, kept within a bound, from the first to the latest."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np


def size_of(record: Any) -> int:
    """Returns the approximate size in bytes of a record's arrays, nested or not."""
    if isinstance(record, np.ndarray):
        return record.nbytes
    if hasattr(record, "own_size"):  # records that share their history
        return size_of(record.own_size)
    if isinstance(record, Mapping):
        return 64 + sum(size_of(value) for value in record.values())
    if isinstance(record, (list, tuple)):
        return 64 + sum(size_of(value) for value in record)
    if hasattr(record, "__dict__"):
        return 64 + sum(size_of(value) for value in vars(record).values())
    return 64


class Recorder:
    """Keeps records evenly over the whole run: when full, drops every second one and from then on adds every second.

    The latest record is always kept. A run appends on its own thread while others read.

    Args:
      most: records to keep, at least 4.
      most_bytes: bytes to keep.
    """

    def __init__(self, most: int = 600, most_bytes: int = 64_000_000) -> None:
        self.most, self.most_bytes = most, most_bytes
        self._kept: list[Any] = []
        self._tail: list[Any] = []
        self._seen = 0
        self._stride = 1
        self._room = most
        self._lock = threading.RLock()

    def append(self, record: Any) -> bool:
        """Adds the latest record. Returns True when that halved the kept ones (their indices halve as well)."""
        with self._lock:
            if self._seen == 0:
                self._room = max(4, min(self.most, self.most_bytes // max(size_of(record), 1)))
            halved = self._seen % self._stride == 0 and len(self._kept) >= self._room
            if halved:
                self._kept = self._kept[::2]
                self._stride *= 2
            if self._seen % self._stride == 0:
                self._kept.append(record)
                self._tail = []
            else:
                self._tail = [record]
            self._seen += 1
            return halved

    def all(self) -> list[Any]:
        """Returns a list of the kept records, oldest first."""
        with self._lock:
            return [*self._kept, *self._tail]

    def number(self, index: int) -> int:
        """Returns which record of the run the index-th one is; thinning does not change it."""
        with self._lock:
            return index * self._stride if index < len(self._kept) else self._seen - 1

    def index(self, number: int) -> int:
        """Returns the index of a record, or of the kept one before it, by its number in the run."""
        with self._lock:
            return len(self) - 1 if number >= self._seen - 1 else min(number // self._stride, len(self._kept) - 1)

    def __len__(self) -> int:
        with self._lock:
            return len(self._kept) + len(self._tail)

    def __getitem__(self, index: int) -> Any:
        return self.all()[index]
