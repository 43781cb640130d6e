"""How long a run says that the rest takes."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from moe_lab_papers.progress import Clock
from moe_lab_papers.runner import Done, Piece


def piece(number: int, seconds: float) -> Piece:
    return Piece("paper/measurement", "module:function", {"number": number}, seconds)


def done(one: Piece, seconds: float, fresh: bool = True) -> Done:
    return Done(one, xr.Dataset(), seconds, fresh=fresh)


@pytest.mark.parametrize("parallel", [1, 2, 4])
@pytest.mark.parametrize("slower", [0.5, 1.0, 4.0])
def test_every_guess_after_the_first_piece_is_within_a_factor_of_two(parallel: int, slower: float) -> None:
    """On a machine faster or slower than stated, pieces as unlike as those of the papers, several at a time."""
    random = np.random.default_rng(0)
    pieces = [piece(number, float(10 ** random.uniform(0, 2.3))) for number in range(40)]
    takes = {one.call: one.seconds * slower * float(random.uniform(0.7, 1.4)) for one in pieces}
    ends, events = [0.0] * parallel, []
    for one in sorted(pieces, key=lambda one: -one.seconds):  # the order of the runner
        process = int(np.argmin(ends))
        ends[process] += takes[one.call]
        events.append((ends[process], one))
    clock, whole = Clock(pieces, parallel), max(ends)
    for now, one in sorted(events, key=lambda event: event[0]):
        clock.finished(done(one, takes[one.call]))
        assert (whole - now) / 2 - 5 <= clock.left(now) <= 2 * (whole - now) + 5
    assert clock.left(whole) == pytest.approx(0, abs=1e-6)


def test_no_time_is_left_only_where_nothing_is() -> None:
    """A piece that takes much longer than it states: until it ends, the words do not say that it is about to."""
    clock = Clock([piece(0, 10.0), piece(1, 10.0)], 2)
    clock.finished(done(piece(0, 10.0), 10.0))
    assert clock.words(10.0) == clock.words(50.0) == "the rest takes longer than estimated"
    assert clock.words(9.7) == "about 0:01 left"
    clock.finished(done(piece(1, 10.0), 53.0))
    assert clock.words(53.0) == "about 0:00 left"


def test_what_is_kept_takes_no_time_and_tells_the_machine() -> None:
    pieces = [piece(0, 100.0), piece(1, 100.0), piece(2, 100.0)]
    clock = Clock(pieces, 1)
    assert clock.left(0) == 300
    clock.finished(done(pieces[0], 50.0, fresh=False))
    clock.finished(done(pieces[1], 50.0, fresh=False))
    assert clock.left(0) == pytest.approx(50, rel=0.05)
