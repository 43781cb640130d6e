"""Wrong values and infinite numbers in every Lab: a sentence is shown, and the Lab goes on."""

from __future__ import annotations

import html
import re
from typing import Any

import numpy as np
import pytest
from matplotlib.lines import Line2D

from tests.widgets.cases import Case, one_case_in
from tests.widgets.labs import Make, done, pixels, shown

WHERE_A_RUN_IS_NEEDED = ("lambda p must be greater",)
"""How rules begin that the first step finds broken, from samples or from the shares of the experts."""


def message(lab: Any) -> str:
    return html.unescape(lab.controls.message.value)


def test_a_refused_combination_is_explained_and_the_picture_stays(case: Case, make: Make) -> None:
    lab = shown(make(**case.refused_from, playing=False))
    for values, sentence in case.refused:
        good, record = lab.screen.image.value, lab.record
        before = {**lab.values}
        lab.set(**values)
        with pytest.raises(ValueError, match=re.escape(sentence)) as caught:
            lab.wait(60)
        assert str(caught.value) in message(lab) and "role='alert'" in message(lab)
        assert "no run: see the message above" in lab.controls.status.value
        assert {"moe-lab-stale", "moe-lab-refused"} <= set(lab.controls.box._dom_classes), "it is dimmed"
        assert lab.record is record
        assert lab.screen.image.value == good
        lab.set(**before)
        shown(lab)
        assert message(lab) == "" and lab.error is None and lab.record is not record
        assert not {"moe-lab-stale", "moe-lab-refused"} & set(lab.controls.box._dom_classes)
        assert lab.screen.image.value == good


def test_a_lab_is_not_made_of_values_that_do_not_fit(case: Case) -> None:
    for values, sentence in case.refused:
        if sentence.startswith(WHERE_A_RUN_IS_NEEDED):
            continue
        with case.short_runs(), pytest.raises(ValueError, match=re.escape(sentence)):
            case.kind(**{**case.small, **case.refused_from, **values})


@one_case_in(2, 1)
def test_a_value_that_no_widget_can_take_is_refused(case: Case, ended: Any) -> None:
    for values, sentence in case.unheld:
        with pytest.raises(ValueError, match=re.escape(sentence)):
            case.kind(**values)
        with pytest.raises(ValueError, match=re.escape(sentence)):
            ended.set(**values)
    assert done(ended).error is None


def diverge(lab: Any, trials: list[int]) -> None:
    """Has trials of the record on show lose all that they have measured."""
    for part in lab.parts(lab.record).values():
        part.diverged[trials] = True
        for value in part.values.values():
            if value.dtype.kind == "f":
                value[trials] = np.nan


def medians(lab: Any) -> list[Any]:
    """The medians of the trials on show."""
    drawn = (
        one for placed in lab.picture.placed for one in placed.content if str(one.get_label()).endswith(", median")
    )
    return [one.get_ydata() for one in drawn if isinstance(one, Line2D)]


def test_infinite_numbers_are_explained_and_the_picture_stays_finite(case: Case, make: Make) -> None:
    several = "trials" in case.defaults and case.lose is None
    lab = done(make(trials=3) if several else make())
    record = lab.record
    if case.lose is not None:
        case.lose(record)
    diverge(lab, [0, 2] if several else [0])
    for sentence in case.diverges:
        assert sentence in lab.trouble(record)
    before = pixels(lab)
    lab.picture.show(record)
    assert not np.array_equal(pixels(lab), before)
    assert "nan" not in lab.caption(record)
    if several:
        assert all(np.isfinite(values).all() for values in medians(lab)), "of the trials that are left"
        diverge(lab, [1])
        lab.picture.show(record)
        assert "nan" not in lab.caption(record), "where no trial is left"
    lab.reset()
    done(lab)
    assert message(lab) == ""
