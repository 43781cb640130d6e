"""A thousand trials are bands, not a thousand lines: no frame grows with them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PolyCollection

from moe_lab.training import Snapshot
from moe_lab_widgets.drawing.trials import MOST_LINES
from moe_lab_widgets.frames.reel import Reel, Stream

RECORDS = 6


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
    picture, widened, stream = type(lab.picture)(), Widened(trials), Stream()
    values = {**lab.values, "trials": trials}
    picture.set_view({knob.name: values[knob.name] for knob in lab.knobs if knob.view_only})
    picture.begin(values)
    reel, sizes = Reel(picture), []
    for number, record in enumerate(lab.records[:: max(len(lab.records) // RECORDS, 1)]):
        picture.show(widened.record(record))
        sizes.append(len(stream.pack(reel.frame(number))))
    assert reel.unsupported == set(), "bands are drawn by the page"
    return float(np.mean(sizes[1:])), picture


def test_bytes_of_a_frame_do_not_grow_with_the_trials(ended: Any) -> None:
    if not any(isinstance(artist, PolyCollection) for artist, _ in ended.picture.live_artists()):
        pytest.skip("it draws no line for each trial")
    few, picture = frames_of(ended, 8)
    drawn = [artist for artist, _ in picture.live_artists()]
    assert all(not artist.get_paths() for artist in drawn if isinstance(artist, PolyCollection))
    assert max(len(artist.get_paths()) for artist in drawn if isinstance(artist, LineCollection)) == 8
    picture.close()
    many, picture = frames_of(ended, 1000)
    drawn = [artist for artist, _ in picture.live_artists()]
    assert {len(artist.get_paths()) for artist in drawn if isinstance(artist, PolyCollection)} == {2}
    assert max(len(artist.get_paths()) for artist in drawn if isinstance(artist, LineCollection)) <= MOST_LINES
    picture.close()
    assert many <= 2 * few, "with a thousand trials, against eight"
