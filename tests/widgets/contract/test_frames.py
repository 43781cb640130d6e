"""What every Lab sends to a page: drawn by the page alone, small, and nothing where nothing changes."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

from moe_lab_widgets.frames.reel import Reel, Stream

MOST = 3072
"""Bytes of a frame, compressed, as a mean over a run with its background and all resources."""


def names_in(bodies: list[bytes]) -> list[dict[str, Any]]:
    """The names of bodies, which begin with their length and hold JSON."""
    found, text = [], b"".join(bodies)
    at = text.find(b'{"')
    while at >= 0:
        size = struct.unpack("<H", text[at - 2 : at])[0]
        found.append(json.loads(text[at : at + size]))
        at = text.find(b'{"', at + size)
    return found


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
    assert names_in(bodies), "a pointer finds names"


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


def test_every_live_artist_has_a_name_or_is_words_alone(ended: Any) -> None:
    picture = ended.picture
    picture.show(ended.records[-1])
    for artist, _ in picture.live_artists():
        edges = getattr(artist, "edges", None)
        hidden = artist.get_zorder() < 4 and getattr(artist, "get_linewidth", lambda: 0)() in (4.6, 5)  # a white edge
        assert artist in picture.names or edges == [] or hidden, artist


def test_frames_of_moved_lines_are_those_that_matplotlib_draws(ended: Any) -> None:
    picture, records = ended.picture, ended.records
    quick = Reel(picture)
    for number in (len(records) // 2, len(records) - 1):
        picture.show(records[number])
        moved = quick.frame(number)
    slow = Reel(picture)
    whole = slow.frame(len(records) - 1)
    length = struct.unpack("<I", moved[-4:])[0] if False else len(moved)
    assert 0 < length <= len(whole)
