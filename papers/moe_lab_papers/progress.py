"""How far the measurements are, and how long the rest takes."""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.progress import BarColumn, Progress

from moe_lab.core.console import PlainColumn, PlainConsole
from moe_lab_papers.claim import Claim
from moe_lab_papers.runner import Done, Piece

_TRUST = 5.0
"""Stated seconds that weigh as much as measured ones: the first short pieces are mostly imports."""


class Clock:
    """Estimates when all pieces are done.

    A piece states its seconds on some machine. Those that are finished, kept ones included, say how much slower or
    faster this one is. The pieces that are not kept go to the processes in the order in which the runner begins them.
    """

    def __init__(self, pieces: Sequence[Piece], parallel: int) -> None:
        self._parallel = parallel
        self._stated = {piece.call: piece.seconds for piece in pieces}
        self._done: dict[str, Done] = {}

    def finished(self, part: Done) -> None:
        self._done[part.piece.call] = part

    @property
    def pace(self) -> float:
        """Seconds that a stated second takes."""
        measured = [part for part in self._done.values() if part.data is not None]
        stated = sum(part.piece.seconds for part in measured)
        return (sum(part.seconds for part in measured) + _TRUST) / (stated + _TRUST)

    def left(self, elapsed: float) -> float:
        """Returns how many seconds the rest takes, so many after the beginning."""
        pace = self.pace
        rest = [seconds * pace for call, seconds in self._stated.items() if call not in self._done]
        rest.sort(reverse=True)
        begun, waiting = rest[: self._parallel], rest[self._parallel :]
        if not begun:
            return 0.0
        spent = elapsed * self._parallel - sum(part.seconds for part in self._done.values() if part.fresh)
        ends = [max(0.0, takes - spent / len(begun)) for takes in begun]
        heapq.heapify(ends)
        for takes in waiting:
            heapq.heapreplace(ends, ends[0] + takes)
        return max(ends)

    def words(self, elapsed: float) -> str:
        """Returns the same in words; what has taken its estimate and still runs says so, in place of no time at all."""
        left = self.left(elapsed)
        if not left and len(self._done) < len(self._stated):
            return "the rest takes longer than estimated"
        return f"about {minutes(left)} left"


@contextmanager
def shown(
    claims: Sequence[Claim], plan: Mapping[str, Sequence[Piece]], parallel: int, console: PlainConsole
) -> Iterator[Generator[None, Done, None]]:
    """Yields a generator that takes finished pieces and shows the progress: a bar in a terminal, lines elsewhere."""
    every = [piece for calls in plan.values() for piece in calls]
    columns = (PlainColumn("{task.description}"), BarColumn(), PlainColumn("{task.fields[left]}"))
    live, clock, began = console.is_terminal, Clock(every, parallel), time.perf_counter()
    first = clock.words(0.0)
    if not live:
        console.print(f"{len(claims)} claims, {first}")
    with Progress(*columns, console=console, transient=True, disable=not live) as progress:
        bar = progress.add_task(f"claims 0/{len(claims)}", total=sum(piece.seconds for piece in every), left=first)

        def watch() -> Generator[None, Done, None]:
            known, trials, ended = 0.0, 0, dict.fromkeys(plan, 0)
            while True:
                part = yield
                clock.finished(part)
                known += part.piece.seconds
                trials += part.piece.trials
                ended[part.piece.measurement] += 1
                whole = {name for name, count in ended.items() if count == len(plan[name])}
                decided = sum(claim.measurement.name in whole for claim in claims)
                left = clock.words(time.perf_counter() - began)
                words = f"claims {decided}/{len(claims)}, trials {trials}/{sum(piece.trials for piece in every)}"
                progress.update(bar, completed=known, description=words, left=left)
                if not live:
                    what = f"{part.piece.measurement}: {part.failure or f'{part.seconds:.1f} s'}"
                    kept = "" if part.fresh else " (kept)"
                    console.print(f"{words}, {left}; {what}{kept}", soft_wrap=True)

        watching = watch()
        next(watching)
        yield watching


def minutes(seconds: float) -> str:
    """Returns seconds, rounded up, as minutes and seconds: "8:12"."""
    whole = math.ceil(seconds)
    return f"{whole // 60}:{whole % 60:02d}"
