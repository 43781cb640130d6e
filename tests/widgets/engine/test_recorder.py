"""The record of a run stays within its bound and still spans the whole run."""

from __future__ import annotations

import numpy as np
import pytest

from moe_lab_widgets.engine.recorder import Recorder, size_of


@pytest.mark.parametrize("count", [1, 7, 8, 9, 100, 1001])
def test_keeps_the_first_the_last_and_an_even_spread(count: int) -> None:
    recorder = Recorder(most=8)
    for record in range(count):
        recorder.append(record)
        assert len(recorder) <= 9 and recorder[-1] == record and recorder[0] == 0
    kept = recorder.all()
    assert kept == sorted(set(kept))
    if count > 8:
        gaps = np.diff(kept[:-1])
        assert gaps.min() == gaps.max()


def test_says_when_indices_halve() -> None:
    recorder = Recorder(most=4)
    halved = [recorder.append(record) for record in range(8)]
    assert halved == [False, False, False, False, True, False, False, False]
    assert recorder.all() == [0, 2, 4, 6, 7]


def test_bytes_are_bounded() -> None:
    recorder = Recorder(most=1000, most_bytes=100_000)
    for _ in range(500):
        recorder.append({"a": np.zeros(1000)})
    assert sum(size_of(record) for record in recorder.all()) <= 110_000
