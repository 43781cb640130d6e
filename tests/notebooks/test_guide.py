"""The instructor's guide says what the notebooks and the Labs say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from moe_lab.registry import NOTEBOOKS
from moe_lab_widgets import BalanceLab, PhaseTransitionLab
from tests.notebooks.test_notebooks import checked
from tests.solutions.every import MODULES
from tools import guide

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / guide.GUIDE).read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (\d\d) · (.+?)(?=^## |\Z)", TEXT, flags=re.M | re.S))
NUMBER = re.compile(r"\d+(?:\.\d+)? ?%|\d*\.\d+")


def test_has_a_section_for_every_notebook():
    assert list(SECTIONS) == [notebook.number for notebook in NOTEBOOKS]
    assert all(SECTIONS[one.number].startswith(f"{one.title}\n") for one in NOTEBOOKS)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
class TestEverySection:
    def test_has_its_parts(self, notebook):
        parts = ["**Timing:**", "**Talking points**", "**Misconceptions**", "**Ask, then ", "**Exercises:**"]
        places = [SECTIONS[notebook.number].find(part) for part in parts]
        assert -1 not in places and places == sorted(places)

    def test_timing_adds_up_to_the_notebook(self, notebook):
        (line,) = re.findall(r"\*\*Timing:\*\* (.+?)\n\n", SECTIONS[notebook.number], flags=re.S)
        assert sum(int(part) for part in re.findall(r" (\d+)[,.]", line)) == notebook.minutes

    def test_names_its_exercises_and_where_they_are_solved(self, notebook):
        said = SECTIONS[notebook.number].split("**Exercises:**")[1]
        named, place = re.findall(r"`(\w+)`", said), re.findall(r"`tests/solutions/(\w+)\.py`", said)
        assert named == checked(ROOT / "notebooks" / f"{notebook.stem}.py")
        assert place == [notebook.exercises] and set(named) <= set(MODULES[notebook.exercises].WRONG)

    def test_its_own_numbers_are_the_notebooks(self, notebook):
        own = re.sub(r"^ *(>|<!--).*$", "", SECTIONS[notebook.number], flags=re.M)
        text = (ROOT / "notebooks" / f"{notebook.stem}.py").read_text(encoding="utf-8")
        assert [number for number in NUMBER.findall(own) if number not in text] == []


def test_every_story_is_written_out_once_as_its_lab_tells_it():
    assert guide.stamped(TEXT) == TEXT, "`make notebooks` writes the stories"
    flat = " ".join(re.sub(r"^ *> ?", "", TEXT, flags=re.M).split())
    for story in guide.stories().values():
        assert flat.count(f"Story “{story.name}”".replace("*", r"\*")) == 1, story.name
        assert " ".join(story.what_to_see.split()).replace("*", r"\*") in flat, story.name


def test_stamping_mends_an_old_story_and_keeps_the_rest():
    old = "1. What now?\n   <!-- story: Pre-trained branches -->\n   > an older text\n   > of two lines\n\nThe rest.\n"
    new = guide.stamped(old)
    assert "older" not in new and new.startswith("1. What now?\n") and new.endswith("\n\nThe rest.\n")
    assert "   > Story “Pre-trained branches” (start = pre-trained," in new
    assert guide.stamped(new) == new
    assert not [line for line in new.splitlines() if re.match(r" *> *%", line) or len(line) > 120]


def test_stories_without_a_question_are_told_too():
    titles = [story.name for story in PhaseTransitionLab.stories]
    asked = "".join(f"1. What?\n   <!-- story: {title} -->\n\n" for title in titles[:-2])
    new = guide.stamped(f"{asked}<!-- other stories: PhaseTransitionLab -->\n\nThe rest.\n")
    others = new.split("<!-- other stories: PhaseTransitionLab -->\n")[1]
    assert re.findall("Story “(.+?)”", others) == titles[-2:]
    assert others.endswith("\n\nThe rest.\n") and guide.stamped(new) == new


def test_goals_stand_with_a_solution_and_the_answer():
    new = guide.stamped("<!-- goals: BalanceLab -->\n\nThe rest.\n")
    flat = " ".join(re.sub(r"^ *> ?", "", new, flags=re.M).split())
    for number, goal in enumerate(BalanceLab.declaration.goals, start=1):
        assert (
            f"Goal {number}: {goal.asks}" in flat and f"*{goal.why.right}.* {goal.why.answers[goal.why.right]}" in flat
        )
    assert guide.stamped(new) == new and new.endswith("\n\nThe rest.\n")


def test_an_unknown_story_or_lab_is_a_sentence():
    with pytest.raises(ValueError, match="the guide must name a story of a Lab: got story='Nothing'"):
        guide.stamped("<!-- story: Nothing -->\n")
    with pytest.raises(ValueError, match=r"the guide must name a Lab .*: got lab='NoLab'"):
        guide.stamped("<!-- other stories: NoLab -->\n")
