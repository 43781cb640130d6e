"""What every Lab sends to a page: drawn by the page alone, small, and nothing where nothing changes."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.lines import Line2D

from moe_lab.core.snapshots import Snapshot
from moe_lab.drawing import theme
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.drawing.trials import MOST_LINES
from moe_lab_widgets.frames.writer import FrameWriter, Stream
from tests.widgets.cases import one_case_in
from tests.widgets.labs import another_picture

MOST = 3072
"""Bytes of a frame, compressed, as a mean over a run with its background and all resources."""
RECORDS = 6
"""Of a run that is drawn with a thousand trials."""


@one_case_in(2)
def test_a_run_s_frames_are_small_and_need_no_pixels_of_agg(ended: Any) -> None:
    picture, stream = ended.picture, Stream()
    writer = FrameWriter(picture)
    sizes, bodies = [], []
    for number, record in enumerate(ended.records):
        picture.show(record)
        bodies.append(writer.frame(number))
        sizes.append(len(stream.pack(bodies[-1])))
    assert writer.unsupported == set()
    first, rest = sizes[0], sizes[1:]
    assert first < 120_000, "the background and what every frame uses"
    assert np.mean(rest) <= MOST
    assert (first + sum(rest)) / max(len(sizes), 80) <= MOST, "a run of a default's length"
    assert b'{"name":' in b"".join(bodies) and b'{"parts":' in b"".join(bodies), "a pointer finds names"


def test_a_record_drawn_again_sends_nothing_new(ended: Any) -> None:
    picture, record = ended.picture, ended.records[-1]
    writer = FrameWriter(picture)
    picture.show(record)
    first = writer.frame(0)
    picture.show(record)
    again = writer.frame(0)
    kind, number, length = struct.unpack("<BII", again[:9])
    assert (kind, number, len(again)) == (4, 0, 9 + length), "a frame, and no resources"
    assert first.endswith(again)


def test_every_artist_of_a_record_has_a_name(ended: Any) -> None:
    picture = ended.picture
    picture.show(ended.records[-1])
    for artist in picture.content():
        if isinstance(artist, Sheet):
            words_alone = not artist.edges and not artist.images
            assert words_alone or artist in picture.names, artist.words
        elif artist.get_zorder() > 1:  # below are lines that lead from a name to its curve
            edge = isinstance(artist, Line2D) and artist.get_color() in (theme.PAPER, "white")
            assert edge or artist in picture.names, artist


@one_case_in(3, 2)
def test_a_live_picture_follows_its_scale(ended: Any) -> None:
    picture, record = ended.picture, ended.records[-1]
    picture.show(record)
    before = picture.pixels().copy()
    large = another_picture(ended, scale=1.5)
    large.show(record)
    picture.set_scale(1.5)
    picture.show(record)
    np.testing.assert_array_equal(picture.pixels(), large.pixels())
    assert FrameWriter(picture).size == (1650, 672)
    picture.set_scale(1.0)
    picture.show(record)
    np.testing.assert_array_equal(picture.pixels(), before)
    large.close()


# ---- a thousand trials ----


class Widened:
    """Records whose trials are repeated up to a count, each a little different."""

    def __init__(self, trials: int) -> None:
        self.trials, self._random = trials, np.random.default_rng(trials)
        self._known: dict[int, tuple[Any, Any]] = {}

    def __call__(self, value: Any, before: int) -> Any:
        if isinstance(value, Snapshot):
            if id(value) not in self._known:
                self._known[id(value)] = value, self._snapshot(value)
            return self._known[id(value)][1]
        if isinstance(value, tuple):
            return tuple(self(one, before) for one in value)
        if isinstance(value, Mapping):
            return {key: self(one, before) for key, one in value.items()}
        if isinstance(value, np.ndarray) and len(value) == before:
            return self._array(value)
        return value

    def record(self, record: Any) -> Any:
        parts = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
        return dataclasses.replace(record, **{name: self(part, record.trials) for name, part in parts.items()})

    def _snapshot(self, shot: Snapshot) -> Snapshot:
        arrays = {name: self._array(getattr(shot, name)) for name in ("steps", "finished", "diverged")}
        return dataclasses.replace(shot, values={name: self._array(one) for name, one in shot.values.items()}, **arrays)

    def _array(self, value: np.ndarray) -> np.ndarray:
        repeated = np.resize(value, (self.trials, *value.shape[1:]))
        some = value.ndim == 1 and value.dtype == float
        return repeated * np.exp(self._random.normal(0, 0.02, self.trials)) if some else repeated


def frames_of(lab: Any, trials: int) -> tuple[float, Any]:
    """(the mean bytes of a frame after the first, the picture) of a run with some trials."""
    picture, widened, stream = another_picture(lab, trials=trials), Widened(trials), Stream()
    writer, sizes = FrameWriter(picture), []
    for number, record in enumerate(lab.records[:: max(len(lab.records) // RECORDS, 1)]):
        picture.show(widened.record(record))
        sizes.append(len(stream.pack(writer.frame(number))))
    assert writer.unsupported == set(), "bands are drawn by the page"
    return float(np.mean(sizes[1:])), picture


@one_case_in(3, 1)
def test_bytes_of_a_frame_do_not_grow_with_the_trials(ended: Any) -> None:
    few, picture = frames_of(ended, 8)
    drawn = list(picture.content())
    if not any(isinstance(artist, LineCollection) and len(artist.get_paths()) == 8 for artist in drawn):
        pytest.skip("it draws no line for each trial")
    assert all(not artist.get_paths() for artist in drawn if isinstance(artist, PolyCollection))
    assert max(len(artist.get_paths()) for artist in drawn if isinstance(artist, LineCollection)) == 8
    picture.close()
    many, picture = frames_of(ended, 1000)
    drawn = list(picture.content())
    assert {len(artist.get_paths()) for artist in drawn if isinstance(artist, PolyCollection)} == {1, 2}, (
        "a density, bands"
    )
    assert all(len(artist.get_paths()) <= MOST_LINES for artist in drawn if isinstance(artist, LineCollection))
    picture.close()
    assert many <= 2 * few, "with a thousand trials, against eight"
