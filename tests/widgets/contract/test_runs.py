"""Play, pause, step, reset, speed, the end of every Lab, and runs inside a notebook's cell."""

from __future__ import annotations

import re
import threading
from typing import Any

import numpy as np
import pytest

from tests.helpers.living import living_widgets
from tests.widgets.cases import Case, cases_of, one_case_in
from tests.widgets.labs import Make, bare, done, pixels, shown

RHYTHM = ("record_every", "measure_every")
"""How often a run measures, in its Config."""


@one_case_in(3, 2)
def test_step_play_and_reset(make: Make, ended: Any) -> None:
    lab = shown(make(playing=False))
    begun = len(lab.records)
    assert lab.record.step == 0 and lab.record.begun and not lab.playing and "paused" in lab.controls.status.value
    assert lab.controls.play.description == "Play"
    lab.controls.step.click()
    assert len(shown(lab).records) == begun + 1 and lab.record is lab.records[begun]
    lab.controls.reset.click()
    assert len(shown(lab).records) == begun
    lab.controls.play.click()
    assert lab.controls.play.description == "Pause"
    done(lab)
    assert len(lab.records) == len(ended.records)
    np.testing.assert_array_equal(pixels(lab), pixels(ended))


@cases_of(lambda lab: lab.runs is not None)
def test_the_first_record_waits_for_no_run_but_the_first(case: Case, ended: Any) -> None:
    names = list(ended.configs(ended.values))
    assert [list(record.parts) for record in ended.records[:3]] == [names[:1], names, names]
    assert ended.record.ended and not ended.records[1].ended


@cases_of(lambda lab: lab.runs is not None)
def test_runs_side_by_side_differ_in_the_model_alone(case: Case) -> None:
    first, *others = bare(case.kind).configs(case.defaults).values()
    own = {name: getattr(first, name) for name in ("model", *RHYTHM) if hasattr(first, name)}
    assert others or case.name == "PruningLab", "which has one run alone"
    assert all(other.replace(**own) == first for other in others), "samples, trials and seed are the same"


@cases_of(lambda lab: lab.runs is not None and lab.seconds is not None)
def test_a_record_takes_little_even_where_a_step_is_dear(case: Case) -> None:
    declaration = case.kind.declaration
    highest = {knob.name: knob.slider[1] for knob in case.kind.knobs if knob.slider}
    for values in (case.defaults, {**case.defaults, **highest}):
        for run in bare(case.kind).configs(values).values():
            every, few = run.record_every, max(1, round(values["steps"] / declaration.records))
            assert every == 1 or every * declaration.seconds(values) <= declaration.slowest
            assert every == few or (every < few and (every + 1) * declaration.seconds(values) > declaration.slowest)


def test_closing_leaves_no_thread_and_no_widget(case: Case) -> None:
    threads, count = set(threading.enumerate()), len(living_widgets())
    lab = case.kind(**case.small)
    assert set(threading.enumerate()) > threads
    lab.pin()
    lab.close()
    lab.close()
    assert set(threading.enumerate()) <= threads
    assert len(living_widgets()) == count and lab.screen.image.comm is None and lab.records == []
    assert not lab.picture.figure.axes, "the figure is freed"


@one_case_in(3)
def test_without_a_thread_it_runs_inside_the_cell_and_errors_reach_it(
    case: Case, monkeypatch: pytest.MonkeyPatch, ended: Any
) -> None:
    monkeypatch.setenv("MOE_LAB_HEADLESS", "1")
    monkeypatch.setenv("MOE_LAB_BUDGET", "300")
    monkeypatch.setattr(case.kind, "frames", 1.0)
    threads, (values, sentence) = threading.active_count(), case.refused[0]
    with case.short_runs():
        lab = case.kind(**case.small)
        try:
            assert lab.finished and threading.active_count() == threads
            np.testing.assert_array_equal(pixels(lab), pixels(ended))
            before = lab.values
            with pytest.raises(ValueError, match=re.escape(sentence)):
                lab.set(**values)
            lab.set(**before)
            assert lab.finished and lab.error is None
        finally:
            lab.close()


@one_case_in(3, 1)
def test_without_a_thread_a_run_ends_with_its_budget(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOE_LAB_HEADLESS", "1")
    monkeypatch.setattr(case.kind, "budget", 0.0)
    lab = case.kind(**case.small)
    try:
        assert not lab.finished and len(lab.records) == 1 and lab.record is lab.records[0]
        assert lab.caption(lab.record) and lab.screen.image.value
    finally:
        lab.close()
