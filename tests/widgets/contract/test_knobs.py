"""Every knob of every Lab reaches its run, or only the picture, or is greyed out."""

from __future__ import annotations

import html
import re
from typing import Any

import numpy as np
import pytest

from moe_lab.core.grid import Table
from moe_lab_widgets.engine.device import offered
from tests.widgets.cases import Case, one_case_in
from tests.widgets.labs import Make, done, move, pixels, shown, tooltip


def calls(lab: Any) -> dict[str, str]:
    """The call that made each run of the record on show."""
    if hasattr(lab.record, "run"):
        return {"run": lab.record.run.code()}
    parts = getattr(lab.record, "parts", {})
    return {name: (part.attrs if isinstance(part, Table) else part.origin)["call"] for name, part in parts.items()}


def data(lab: Any) -> Any:
    """Everything measured, without the calls."""
    return lab.data(lab.records)


def trained_for(lab: Any) -> str:
    """The seconds that a run has trained, as the Lab says."""
    found = re.search(r"[\d.]+ s of training", lab.controls.status.value)
    assert found, lab.controls.status.value
    return found[0]


def test_every_knob_is_moved_here_and_has_a_label_of_its_own(case: Case) -> None:
    knobs = case.kind.knobs
    assert set(case.moves) == {knob.name for knob in knobs if not knob.view_only} | {"seed"}
    assert set(case.views) == {knob.name for knob in knobs if knob.view_only}
    assert len({knob.label for knob in knobs}) == len(knobs)
    assert max(len(knob.label) for knob in knobs) <= 37, "three sliders stand side by side"
    beside = [knob.label for knob in knobs if knob.main and knob.slider]
    assert max(map(len, beside), default=0) <= 24, "on a laptop a label and its number take one line"
    assert 4 <= sum(knob.main for knob in knobs) <= 8, "with the seed, three rows of three"
    symbols = [knob.symbol for knob in knobs if knob.symbol]
    assert len(set(symbols)) == len(symbols)


def test_every_knob_has_a_tooltip_and_says_why_it_is_greyed_out(case: Case, make: Make) -> None:
    lab = make(**case.greyed[-1][0] if case.greyed else {}, playing=False)
    for knob in offered(lab):
        assert knob.meaning and knob.effect.endswith("."), knob.name
        assert bool(knob.applies) == (knob.enabled_when is not None or knob.at_most is not None), knob.name
        for enabled in (True, False):
            tip = knob.tip(enabled=enabled)
            assert knob.symbol in tip and knob.effect in tip and not re.search("None|null", tip), tip
            assert (knob.applies in tip and "Greyed out" in tip) != enabled or not knob.applies, tip
        widget = lab.controls.knobs[knob.name]
        assert tooltip(widget) == knob.tip(enabled=not widget.disabled)
        assert not widget.disabled or "Greyed out" in tooltip(widget)
    assert "random numbers" in tooltip(lab.controls.seed)


@one_case_in(3, 1)
def test_every_knob_reaches_the_run_the_code_and_the_picture(case: Case, make: Make) -> None:
    lab = done(make(**case.moved_from))
    for name, chosen in case.moves.items():
        before, old, measured = pixels(lab), calls(lab), data(lab)
        move(lab, name, chosen.value)
        done(lab)
        assert lab.values[name] == chosen.value
        assert chosen.words in lab.code(lab.values)
        assert lab.code(lab.values) in html.unescape(lab.controls.code.value)
        for part, call in calls(lab).items():
            reached = part in (chosen.reaches or old)
            assert (call != old.get(part)) == reached, (name, part)
            assert chosen.words in call or not reached, (name, call)
        assert not data(lab).equals(measured), name
        assert not np.array_equal(pixels(lab), before), f"the picture did not change with {name}"


def test_a_view_only_knob_changes_the_picture_and_starts_no_run(case: Case, make: Make) -> None:
    if not case.views:
        pytest.skip("it has none")
    lab = done(make())
    first, pictures = {name: lab.values[name] for name in case.views}, [pixels(lab)]
    begun, records, trained = lab.records[0], len(lab.records), trained_for(lab)
    for name, value in case.views.items():
        move(lab, name, value)
        done(lab)
        assert lab.values[name] == value
        assert not np.array_equal(pixels(lab), pictures[-1]), f"the picture did not change with {name}"
        assert lab.code(lab.values) in html.unescape(lab.controls.code.value)
        pictures.append(pixels(lab))
    done(lab, **first)
    np.testing.assert_array_equal(pixels(lab), pictures[0])
    assert (lab.records[0] is begun, len(lab.records), trained_for(lab)) == (True, records, trained)


@one_case_in(3, 2)
def test_the_knobs_that_change_nothing_are_greyed_out(case: Case, make: Make) -> None:
    declared = {knob.name for knob in case.kind.knobs if knob.enabled_when is not None}
    assert set().union(*(names for _, names in case.greyed)) == declared
    for values, names in case.greyed:
        lab = make(**values)
        assert {name for name in declared if lab.controls.knobs[name].disabled} == names
        if not names:
            continue
        done(lab)
        code, measured = lab.code(lab.values), data(lab)
        for name in names:
            move(lab, name, case.moves[name].value)
        if lab.code(lab.values) != code:  # the words differ, the numbers must not
            assert data(done(lab))["test_accuracy"].equals(measured["test_accuracy"])


def test_knobs_follow_another_one_unless_the_user_has_moved_them(case: Case, make: Make) -> None:
    declared = {knob.name for knob in case.kind.knobs if knob.follows is not None}
    assert set().union(*(follows for _, _, follows in case.follows)) == declared
    for name, value, follows in case.follows:
        lab = make(**{follower: case.defaults[follower] for follower in declared}, playing=False)
        move(lab, name, value)
        assert {follower: lab.values[follower] for follower in follows} == dict(follows)
        assert {follower: lab.controls.knobs[follower].value for follower in follows} == dict(follows)
        move(lab, name, case.defaults[name])
        assert all(lab.values[follower] == case.defaults[follower] for follower in declared)
        moved = {follower: case.moves[follower].value for follower in follows}
        for follower, own in moved.items():
            move(lab, follower, own)
        move(lab, name, value)
        assert {follower: lab.values[follower] for follower in follows} == moved, "what the user has moved stays"
        for given in ({}, moved):
            other = case.kind(**{name: value, **given}, playing=False)
            other.close()
            assert {follower: other.values[follower] for follower in follows} == {**follows, **given}


def test_a_knob_never_exceeds_its_limit(case: Case, make: Make) -> None:
    limited = next((knob for knob in case.kind.knobs if knob.at_most is not None), None)
    if limited is None:
        pytest.skip("it has none")
    assert (limited.name, limited.at_most) == ("shown", "trials")
    lab = shown(make(trials=3, shown=3, playing=False))
    slider = lab.controls.knobs["shown"]
    assert (slider.value, slider.disabled) == (3, False)
    move(lab, "trials", 2)
    shown(lab)
    assert slider.value == lab.values["shown"] == 2
    run = lab.records[0]
    move(lab, "shown", slider.max)  # as the End key does
    shown(lab)
    assert slider.value == lab.values["shown"] == 2 and lab.records[0] is run
    move(lab, "trials", 1)
    assert slider.disabled and shown(lab).values["shown"] == 1
    lab.set(trials=4, shown=4)
    assert (slider.value, slider.disabled, shown(lab).values["shown"]) == (4, False, 4)


@one_case_in(2)
def test_both_ends_of_every_slider_begin_or_are_refused_in_words(case: Case, make: Make) -> None:
    """The start and a record more: the rest of a run is the same for all values."""
    lab, refused = make(playing=False), set()
    for knob in case.kind.knobs:
        for place, end in enumerate(knob.slider[:2] if knob.slider else ()):
            lab.set(**{**case.defaults, **case.small, **case.room.get(knob.name, {}), knob.name: end})
            try:
                shown(lab)
            except ValueError as error:
                assert "got" in str(error)
                refused.add((knob.name, place))
                continue
            if knob.view_only:
                continue
            begun = len(lab.records)
            lab.step()
            shown(lab)
            assert lab.error is None and len(lab.records) == begun + 1 and lab.values[knob.name] == end, knob.name
    assert refused == case.ends


@one_case_in(3)
def test_of_a_drag_the_last_value_wins(case: Case, make: Make) -> None:
    lab = make()
    name, values = case.drag
    for value in values:
        move(lab, name, value)
    done(lab)
    assert lab.values[name] == values[-1]
    for call in (lab.code(lab.values), *calls(lab).values()):
        assert f"{name}={values[-1]}" in call
    first = lab.records[0]
    assert not (first["done"].any() if isinstance(first, Table) else first.step), "a run begins at its start"
