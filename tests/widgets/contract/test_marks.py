"""Every kind of mark in the picture of a Lab can be seen: without it the picture has other pixels.

An artist that is found may lie below another one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from matplotlib.collections import Collection
from matplotlib.lines import Line2D
from matplotlib.text import Text

from moe_lab_widgets.drawing.sheet import Sheet, Strip
from tests.widgets.cases import Case
from tests.widgets.labs import Make, done, pixels

Kind = tuple[int, str, str]
"""The number of a panel, whether the mark stays during a run, and what it is called."""

WHERE: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "RoutingChoicesLab": ({"routing": "hash", "capacity_factor": 0.5}, {"routing": "soft"}),
    "PruningLab": ({"steps": 100},),
}
"""Further settings, beside the small ones, in which marks appear."""
NAMED: Mapping[tuple[str, str], str] = {
    ("RouterAlignmentLab", "thick"): "mixture, median",
    ("PhaseTransitionLab", "pale"): "ShareMap",
    ("RoutingChoicesLab", "×"): "a patch without a place",
    ("RoutingChoicesLab", "framed"): "the patch that decides",
    ("RoutingChoicesLab", "dashed"): "line",
    ("SpecializationLab", "thick"): "cubic experts, median",
    ("BalanceLab", "thick"): "importance, median",
    ("GridlockLab", "thick"): "joint EM, median",
}
"""Marks that the text of a panel names, and what the artist is called that must be seen."""


def holds_something(artist: Any) -> bool:
    """Whether an artist has something to show."""
    if isinstance(artist, Sheet):
        return any(artist.fills) or any(word.strip() for word in artist.words) or bool(artist.images)
    if isinstance(artist, Line2D):
        places = np.asarray(artist.get_xydata(), dtype=float)
        drawn = artist.get_marker() not in ("None", "", None) or (len(places) > 1 and np.ptp(places, axis=0).any())
        return bool(len(places) and np.isfinite(places).all(1).any() and drawn)
    if isinstance(artist, Collection):
        return any(np.isfinite(path.vertices).all(1).any() for path in artist.get_paths())
    return bool(artist.get_text().strip()) if isinstance(artist, Text) else isinstance(artist, Strip)


def name(artist: Any) -> str:
    label = str(artist.get_label())
    return label if label and not label.startswith("_") else type(artist).__name__


def marks(lab: Any) -> Iterator[tuple[Kind, Any]]:
    """Yields the artists of the present picture by their kind."""
    for placed in lab.picture.placed:
        for artist in placed.content:
            yield (placed.number, "of the record", name(artist)), artist
        for ax in placed.family:
            for artist in (*ax.lines, *ax.collections, *ax.texts, *ax.artists):
                if artist not in placed.content:
                    yield (placed.number, "furniture", name(artist)), artist


def below_equal_ones(lab: Any, hidden: list[Any]) -> bool:
    """Whether these are lines all of whose points are those of other lines, as where two rules prune the same."""
    others = [one for _, one in marks(lab) if isinstance(one, Line2D) and one not in hidden]
    places = {tuple(place) for one in others for place in np.round(one.get_xydata(), 9).tolist()}
    return all(isinstance(one, Line2D) for one in hidden) and all(
        tuple(place) in places for one in hidden for place in np.round(one.get_xydata(), 9).tolist()
    )


def look(lab: Any, found: dict[Kind, bool]) -> None:
    """Notes of each kind of mark that has something to show whether the picture is another one without it.

    Kinds that have been seen before are left out.
    """
    kinds: dict[Kind, list[Any]] = defaultdict(list)
    for kind, artist in marks(lab):
        if not found.get(kind) and artist.get_visible() and holds_something(artist):
            kinds[kind].append(artist)
    whole = pixels(lab)
    for kind, artists in kinds.items():
        _show(lab, kind, artists, False)
        found[kind] = not np.array_equal(pixels(lab), whole) or below_equal_ones(lab, artists)
        _show(lab, kind, artists, True)


def _show(lab: Any, kind: Kind, artists: list[Any], shown: bool) -> None:
    for artist in artists:
        artist.set_visible(shown)
    if kind[1] == "furniture":
        lab.picture.placed[kind[0] - 1].touch()


def notes(lab: Any) -> str:
    """What the panels of a Lab say of their marks."""
    said = (placed.panel.note for placed in lab.picture.placed)
    return " ".join(note(lab.values) if callable(note) else note for note in said)


def test_each_kind_of_mark_changes_pixels(case: Case, make: Make) -> None:
    found: dict[Kind, bool] = {}
    lab, told = done(make()), ""
    for values in ({}, *WHERE.get(case.name, ())):
        done(lab, **values)
        told += notes(lab)
        for index in (len(lab.records) - 1, len(lab.records) // 2, 0):
            lab.picture.show(lab.records[index])
            look(lab, found)
    hidden = sorted(kind for kind, changes in found.items() if not changes)
    assert hidden == [], f"{case.name} draws what nobody sees: {hidden}"
    for (named, word), artist in NAMED.items():
        if named == case.name:
            assert word in told, f"no panel of {case.name} speaks of {word!r} any more"
            there = [kind for kind in found if re.match(artist, kind[2], re.IGNORECASE)]
            assert there, f"the text speaks of {word!r}, and there is no {artist!r}"
