"""Numbers drawn ahead: in order, whole, by threads that all runs of a process share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

from moe_lab.core import ahead
from moe_lab.core.ahead import Ahead, host_memory
from moe_lab.core.workers import processors

NAME = "moe-lab numbers"


def numbered(counts: list[int], seen: set[str]) -> tuple[Tensor, list[Callable[[], None]]]:
    """A piece of four numbers, each its place plus ten times the number of the piece; the first comes last."""
    values, piece = host_memory((4,), torch.device("cpu")), len(counts)
    counts.append(piece)

    def fill(into: np.ndarray, place: int) -> None:
        seen.add(threading.current_thread().name)
        time.sleep(0.02 if place == 0 else 0)
        into[place] = 10 * piece + place

    return values, [partial(fill, values.numpy(), place) for place in range(4)]


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """How many threads draw, for all runs of the process together."""
    with ThreadPoolExecutor(request.param, thread_name_prefix=NAME) as pool:
        monkeypatch.setattr(ahead, "_threads", lambda: pool)
        yield request.param


def test_pieces_come_whole_and_in_order_and_one_ahead(threads: int) -> None:
    counts: list[int] = []
    seen: set[str] = set()
    with Ahead(partial(numbered, counts, seen)) as pieces, Ahead(partial(numbered, [], seen)) as others:
        next(iter(others))
        for number, piece in zip(range(3), pieces, strict=False):
            assert piece.tolist() == [10 * number + place for place in range(4)]
            assert len(counts) == number + 2  # the next one has begun
    assert all(name.startswith(NAME) for name in seen) and len(seen) <= threads


def test_a_stream_is_drawn_from_in_order() -> None:
    """With more threads than streams, and pieces that take longer than their consumer."""
    random, alone = np.random.default_rng(3), np.random.default_rng(3)

    def begin() -> tuple[Tensor, list[Callable[[], None]]]:
        values = host_memory((50,), torch.device("cpu"))

        def fill() -> None:
            for place in range(50):
                time.sleep(0.0005)
                values[place] = float(random.random(dtype=np.float32))

        return values, [fill]

    with Ahead(begin) as pieces:
        for _, piece in zip(range(4), pieces, strict=False):
            assert piece.tolist() == alone.random(50, dtype=np.float32).tolist()


def test_nothing_is_drawn_after_its_consumer_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread is busy with the first call of a piece when the others are not wanted any more."""
    drawn: list[int] = []
    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(ahead, "_threads", lambda: pool)

        def draw() -> None:
            time.sleep(0.05)
            drawn.append(1)

        with Ahead(lambda: (torch.zeros(1), [draw] * 4)) as pieces:
            next(iter(pieces))
    assert 4 <= len(drawn) < 8


def test_a_process_has_at_most_as_many_threads_as_processors() -> None:
    for _ in range(3):
        with Ahead(lambda: (torch.zeros(1), [lambda: None] * 4 * processors())) as pieces:
            next(iter(pieces))
    drawing = [thread for thread in threading.enumerate() if thread.name.startswith("moe-lab numbers")]
    assert 1 <= len(drawing) <= processors()


def test_an_error_in_a_thread_reaches_the_consumer() -> None:
    def wrong() -> None:
        raise ZeroDivisionError("no number")

    pieces = Ahead(lambda: (torch.zeros(1), [wrong]))
    with pieces, pytest.raises(ZeroDivisionError, match="no number"):
        next(iter(pieces))
