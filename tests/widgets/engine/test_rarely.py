"""At the fastest speed a run measures rarely: what is measured does not change, and training takes most of the time."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import moe_lab_widgets
from moe_lab.registry import LABS
from moe_lab_widgets import RouterAlignmentLab
from moe_lab_widgets.engine.controls import FASTEST
from moe_lab_widgets.engine.knobs import FEW_RECORDS, RARELY
from tests.widgets.labs import bare

Every = Callable[[dict[str, Any]], int]


def _derived(kind: Any) -> Every:
    return lambda values: max(int(run.record_every) for run in bare(kind).configs(values).values())


KINDS = {lab.name: getattr(moe_lab_widgets, lab.name) for lab in LABS}
EVERY = {name: _derived(kind) for name, kind in KINDS.items() if kind.declaration.runs is not None}


@pytest.mark.parametrize("name", EVERY)
def test_a_record_holds_more_steps_at_the_fastest_speed(name: str) -> None:
    every = EVERY[name]
    values = {**{knob.name: knob.default for knob in KINDS[name].knobs}, "seed": 0}
    usual, rare = every(values), every({**values, RARELY: True})
    assert rare >= 2 * usual
    assert every({**values, RARELY: False}) == usual


@pytest.fixture(name="lab")
def _lab() -> Iterator[RouterAlignmentLab]:
    lab = RouterAlignmentLab(trials=2, steps=60, samples=60, playing=False)
    assert lab.wait(120)
    yield lab
    lab.close()


def test_the_fastest_speed_measures_rarely_and_ends_with_the_same_numbers(lab: RouterAlignmentLab) -> None:
    ends = {}
    for speed in ("slow", FASTEST):
        lab.controls.speed.value = speed
        lab.reset()
        assert lab.wait(120)
        lab.controls.speed.value = FASTEST  # which changes the next run, and the pace of this one
        lab.play()
        assert lab.wait(120) and lab.finished
        ends[speed] = lab.record, len(lab.records), html.unescape(lab.controls.code.value)
    (usual, many, _), (rare, few, told) = ends.values()
    assert many >= 60 and few <= FEW_RECORDS + 3
    for name, part in usual.parts.items():
        for measure in ("test_accuracy", *(("coverage",) if name == "joint" else ())):
            np.testing.assert_array_equal(rare.parts[name][measure], part[measure])
    assert "record_every=5" in told, "copied code makes the records of this run"
    assert f"record_every={60 // RouterAlignmentLab.declaration.records or 1}" in lab.code(lab.values)


def test_without_a_page_every_record_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stills and recordings are made of a headless run, whatever speed its Lab opens with."""
    monkeypatch.setenv("MOE_LAB_HEADLESS", "1")
    monkeypatch.setattr(RouterAlignmentLab, "speed", FASTEST)
    lab = RouterAlignmentLab(trials=1, steps=40, samples=40)
    try:
        assert lab.finished and len(lab.records) > 2 * FEW_RECORDS
    finally:
        lab.close()
