"""What every Lab sends to a page: drawn by the page alone, small, and nothing where nothing changes."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from matplotlib.lines import Line2D

from moe_lab import theme
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.frames.reel import Reel, Stream

MOST = 3072
"""Bytes of a frame, compressed, as a mean over a run with its background and all resources."""


def test_a_run_s_frames_are_small_and_need_no_pixels_of_agg(ended: Any) -> None:
    picture, stream = ended.picture, Stream()
    reel = Reel(picture)
    sizes, bodies = [], []
    for number, record in enumerate(ended.records):
        picture.show(record)
        bodies.append(reel.frame(number))
        sizes.append(len(stream.pack(bodies[-1])))
    assert reel.unsupported == set()
    first, rest = sizes[0], sizes[1:]
    assert first < 120_000, "the background and what every frame uses"
    assert np.mean(rest) <= MOST
    assert (first + sum(rest)) / max(len(sizes), 80) <= MOST, "a run of a default's length"
    assert b'{"name":' in b"".join(bodies) and b'{"parts":' in b"".join(bodies), "a pointer finds names"


def test_a_record_drawn_again_sends_nothing_new(ended: Any) -> None:
    picture, record = ended.picture, ended.records[-1]
    reel = Reel(picture)
    picture.show(record)
    first = reel.frame(0)
    picture.show(record)
    again = reel.frame(0)
    kind, number, length = struct.unpack("<BII", again[:9])
    assert (kind, number, len(again)) == (4, 0, 9 + length), "a frame, and no resources"
    assert first.endswith(again)


def test_every_live_artist_has_a_name(ended: Any) -> None:
    picture = ended.picture
    picture.show(ended.records[-1])
    for artist, _ in picture.live_artists():
        if isinstance(artist, Sheet):
            words_alone = not artist.edges and not artist.images
            assert words_alone or artist in picture.names, artist.words
        elif artist.get_zorder() > 1:  # below are lines that lead from a name to its curve
            edge = isinstance(artist, Line2D) and artist.get_color() in (theme.PAPER, "white")
            assert edge or artist in picture.names, artist


def test_frames_of_moved_lines_are_those_that_matplotlib_draws(ended: Any) -> None:
    picture, records = ended.picture, ended.records
    quick, slow = Reel(picture), Reel(picture)
    for number, record in enumerate(records[:: max(len(records) // 12, 1)]):
        picture.show(record)
        slow.forget_looks()
        assert quick.frame(number) == slow.frame(number)


def test_a_live_picture_follows_its_scale(ended: Any) -> None:
    picture, record, values = ended.picture, ended.records[-1], ended.values
    picture.show(record)
    before = picture.pixels().copy()
    large = type(picture)(scale=1.5)
    large.set_view({knob.name: values[knob.name] for knob in ended.knobs if knob.view_only})
    large.begin(values)
    large.show(record)
    picture.set_scale(1.5)
    picture.show(record)
    np.testing.assert_array_equal(picture.pixels(), large.pixels())
    assert Reel(picture).size == (1650, 672)
    picture.set_scale(1.0)
    picture.show(record)
    np.testing.assert_array_equal(picture.pixels(), before)
    large.close()
