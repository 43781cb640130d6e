"""Every story of every Lab sets its knobs and begins. The numbers that it names are checked in the Lab's own tests."""

from __future__ import annotations

import html

from tests.widgets.cases import Case
from tests.widgets.labs import Make, move, shown


def test_every_story_sets_its_knobs_begins_and_says_what_to_see(case: Case, make: Make) -> None:
    lab = make(**case.defaults, playing=False)
    for story in case.kind.stories:
        lab.controls.menu.value = story.name
        shown(lab)
        assert lab.error is None and lab.record.step == 0 and lab.record.begun
        assert lab.values == {**case.defaults, **story.values}
        assert lab.code(lab.values) in html.unescape(lab.controls.code.value)
        assert lab.controls.see.value == "", "what there is to see is said at the end"
    move(lab, "seed", 7)
    assert lab.controls.see.value == ""
    assert lab.controls.menu.value == "(my own settings)" and shown(lab).values["seed"] == 7


def test_stories_differ_and_their_values_stand_on_the_sliders(case: Case) -> None:
    knobs = {knob.name: knob for knob in case.kind.knobs}
    names = [story.name for story in case.kind.stories]
    assert 3 <= len(names) == len(set(names)) <= 4
    for story in case.kind.stories:
        assert story.what_to_see.endswith(".") and len(story.what_to_see) <= 240, "two lines on a laptop"
        for name, value in story.values.items():
            if name != "seed" and knobs[name].slider:
                low, high, step = knobs[name].slider or (0, 0, 1)
                assert low <= value <= high, (story.name, name)
                assert abs((value - low) / step - round((value - low) / step)) < 1e-9, (story.name, name)
