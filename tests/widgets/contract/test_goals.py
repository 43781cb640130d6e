"""Every goal of every Lab is refused at its start and reached by its solution, and what is said of it is so."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import moe_lab_widgets
from moe_lab.drawing.words import say, written
from moe_lab.registry import LABS
from moe_lab_widgets import Lab
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.drawing.on_axes import box_of
from moe_lab_widgets.engine import progress
from moe_lab_widgets.engine.goal import BACK, CLOSE, COMPARE, DRAW, FAR, JUST_RUN, KEEP, MOVED, REACHED, Goal, Question
from moe_lab_widgets.live.pictures import goals_in_page
from tests.helpers.effort import THOROUGH, one_in
from tests.widgets.cases import Case
from tests.widgets.labs import Make

KINDS = [getattr(moe_lab_widgets, lab.name) for lab in LABS]
BENCHES = [moe_lab_widgets.PullBench, moe_lab_widgets.MomentBench, moe_lab_widgets.ArrowBench]
"""Labs in which nothing is trained."""


def goals_of(kinds: Sequence[Any]) -> list[tuple[Any, int]]:
    return [(kind, number) for kind in kinds for number in range(1, len(kind.declaration.goals) + 1)]


SEEDS = range(5) if THOROUGH else range(1)
WAIT = 300


def named(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else str(value)


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Opens Labs that run in threads, on a machine on which no goal has been reached, and closes them."""
    monkeypatch.setenv("MOE_LAB_CACHE", str(tmp_path))
    made: list[Lab] = []

    def open_(kind: Any, **values: Any) -> Lab:
        made.append(kind(**values))
        made[-1].controls.speed.value = "as fast as it trains"
        assert made[-1].wait(WAIT)
        return made[-1]

    yield open_
    for lab in made:
        lab.close()


def said(lab: Lab) -> str:
    return html.unescape(lab.controls.goal.value)


def answers(lab: Lab) -> list[str]:
    return [button.description for button in lab.controls.answers if button.layout.display != "none"]


def last(lab: Lab) -> MarkRecord:
    return MarkRecord(lab.seen(lab.records[-1]))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("kind", "number"), [*goals_of(BENCHES), *one_in(6, goals_of(KINDS))], ids=named)
def test_a_goal_is_refused_at_its_start_reached_by_its_solution_and_its_reason_is_so(
    opened: Any, kind: Any, number: int, seed: int
) -> None:
    goal: Goal = kind.declaration.goals[number - 1]
    lab = opened(kind, goal=number, seed=seed)
    start = last(lab)
    assert not bool(goal.reached(start)), written(goal.so_far(start))
    assert f"{goal.asks} {written(goal.so_far(start))}" in said(lab) and not answers(lab)
    lab.set(**goal.solved_by)
    assert lab.wait(WAIT)
    end = last(lab)
    assert bool(goal.reached(end)), written(goal.so_far(end))
    assert bool(goal.why.measured(start, end)), "what is said of the right answer is not so"
    assert f"{REACHED} {goal.why.asks}" in said(lab) and set(answers(lab)) == set(goal.why.answers)
    wrong = next(answer for answer in goal.why.offered if answer != goal.why.right)
    lab.controls.answers[goal.why.offered.index(wrong)].click()
    assert goal.why.answers[wrong] in said(lab) and lab.controls.answers[goal.why.offered.index(wrong)].disabled
    assert "goals 0 of" in lab.controls.heading.value
    lab.controls.answers[goal.why.offered.index(goal.why.right)].click()
    assert said(lab).endswith(f"{goal.why.answers[goal.why.right]} {goal.seen}</p>") and not answers(lab)
    assert f"goals 1 of {len(kind.declaration.goals)}" in lab.controls.heading.value
    assert lab.controls.menu.value == goal.asks, "its tick does not take it away"
    assert progress.reached(kind.__name__) == {goal.asks}


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_goals_are_worded_for_a_line_and_differ_from_their_solution(kind: Any) -> None:
    goals, knobs = kind.declaration.goals, {knob.name for knob in kind.knobs}
    assert len(goals) >= 3 and len({goal.asks for goal in goals}) == len(goals)
    for goal in goals:
        assert goal.asks.endswith(".") and len(goal.asks) <= 100 and goal.why.asks.endswith("?")
        assert not set(goal.keeps) & set(goal.solved_by) and set(goal.keeps) <= knobs
        assert all(one.endswith(".") for one in (*goal.why.answers.values(), goal.seen))
        assert all(len(answer) <= 60 for answer in goal.why.answers), "a button is one line"
        assert max(len(f"{one} {goal.seen}") for one in goal.why.answers.values()) <= 320
    if kind.declaration.page is not None:
        assert len(goals_in_page(kind)) >= 2, "a page asks, too"


def test_goals_can_say_of_every_record_how_far_it_is(case: Case, make: Make) -> None:
    lab = make()
    assert lab.wait(WAIT) == "ended"
    for record in lab.records:
        now = MarkRecord(lab.seen(record))
        for goal in case.kind.declaration.goals:
            assert written(goal.so_far(now)) and goal.reached(now).dtype == torch.bool, record.step


def test_a_question_holds_the_lab_until_it_is_answered_and_the_end_judges_the_answer(case: Case, make: Make) -> None:
    lab = make(ask=True)
    question = case.kind.declaration.question
    assert lab.wait(WAIT) == "held" and said(lab).endswith(f"{question.asks}</p>") and not lab.playing
    assert answers(lab) == [*question.answers, *([DRAW] if question.sketch else []), JUST_RUN]
    lab.controls.answers[0].click()
    assert lab.wait(WAIT) == "ended" and not answers(lab)
    right = float(question.right(last(lab)))
    begun = "The prediction cannot" if math.isnan(right) else "As you predicted, " if right == 0 else "You predicted: "
    assert said(lab).startswith(f"<p aria-live='polite'>{begun}")
    if not math.isnan(right):
        assert written(question.seen(last(lab))) in said(lab)


def test_a_question_is_of_the_settings_before_an_answer_and_may_be_left_unanswered() -> None:
    small = {"trials": 1, "steps": 20, "samples": 100}
    lab = moe_lab_widgets.SpecializationLab(ask=True, **small)
    lab.wait(WAIT)
    lab.set(seed=3)
    assert lab.wait(WAIT) == "held" and answers(lab), "it is still open"
    lab.controls.answers[1].click()
    lab.wait(WAIT)
    assert "redicted" in said(lab)
    lab.set(seed=4)
    lab.wait(WAIT)
    assert MOVED in said(lab) and answers(lab) == [BACK], "the prediction was about other settings"
    lab.controls.answers[0].click()
    assert lab.wait(WAIT) == "held" and lab.values["seed"] == 3 and len(answers(lab)) > 1, "it is asked again"
    lab.close()
    lab = moe_lab_widgets.SpecializationLab(ask=True, **small)
    lab.wait(WAIT)
    lab.controls.answers[len(answers(lab)) - 1].click()
    assert lab.wait(WAIT) == "ended" and said(lab) == ""
    lab.set(seed=5)
    assert lab.wait(WAIT) == "ended" and said(lab) == "", "who just runs it is left alone"
    lab.pause()
    lab.controls.reset.click()
    assert lab.wait(WAIT) == "held" and len(answers(lab)) > 1, "Reset asks anew"
    lab.close()


def test_what_is_drawn_on_the_picture_starts_the_run_and_is_judged_at_its_end(case: Case, make: Make) -> None:
    sketch = case.kind.declaration.question.sketch
    assert sketch is not None, "a Lab asks on its picture"
    lab = make(ask=True)
    assert lab.wait(WAIT) == "held"
    shown = lab.screen.page.sketch
    places, marks = shown["places"], shown["places"]["marks"]
    assert shown["open"] and 0 < len(marks) <= len(sketch.names), "the other rows have no place"
    across = ("left", "right") if places["upright"] else ("top", "bottom")
    placed = lab.picture.placed[sketch.panel]
    left, top, wide, high = box_of(placed.axes[sketch.axes])
    sides = {"left": left, "right": left + wide, "top": top, "bottom": top + high}
    assert all(sides[across[0]] <= one["across"] <= sides[across[1]] for one in marks)
    level = places["low"] + 0.25 * (places["high"] - places["low"])
    lab.screen.page._handle_custom_msg({"kind": "drawn", "levels": [level, *[None] * (len(marks) - 1)]}, [])
    told = f"{sketch.written(level)} for {sketch.names[0]}."
    assert told in said(lab) and answers(lab) == [COMPARE, JUST_RUN]
    lab.controls.answers[0].click()
    assert lab.wait(WAIT) == "ended" and not answers(lab)
    assert not lab.screen.page.sketch["open"] and lab.screen.page.sketch["drawn"][0] == level
    if not math.isnan(float(case.kind.declaration.question.right(last(lab)))):
        end = float(sketch.ends(last(lab))[0])
        ratio = max(end, level) / min(end, level) if sketch.log else abs(end - level)
        close = "" if not math.isfinite(end) else f" {CLOSE if ratio <= sketch.near else FAR}"
        assert f"{told}{close} " in said(lab)
    lab.set(seed=lab.values["seed"] + 1)
    assert lab.screen.page.sketch == {}, "it was about other settings"


def test_what_a_goal_keeps_must_stay_and_a_goal_outlives_moves_of_sliders(opened: Any) -> None:
    kind = moe_lab_widgets.RouterAlignmentLab
    goal = kind.declaration.goals[0]
    lab = opened(kind, goal=1)
    lab.set(trials=3, **goal.solved_by)
    assert lab.wait(WAIT)
    trials = next(knob.title for knob in kind.knobs if knob.name == "trials")
    assert KEEP.format(knobs=trials) in said(lab) and not answers(lab)
    lab.controls.menu.value = kind.declaration.goals[2].asks
    assert lab.wait(WAIT)
    assert lab.values["samples"] == 60 and lab.values["patches_per_expert"] != 1, "a goal has a start of its own"
    lab.controls.menu.value = "(my own settings)"
    assert said(lab) == "" and lab.values["samples"] == 60


def test_reached_goals_are_kept_counted_and_survive_a_broken_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MOE_LAB_CACHE", str(tmp_path / "not there yet"))
    kind = moe_lab_widgets.BalanceLab
    first, second, _ = (goal.asks for goal in kind.declaration.goals)
    assert progress.keep("BalanceLab", first) and progress.keep("BalanceLab", second)
    assert progress.keep("BalanceLab", "a goal that there was once")
    lab = kind(playing=False)
    assert "goals 2 of 3" in lab.controls.heading.value
    lab.close()
    moe_lab_widgets.goals()
    printed = capsys.readouterr().out
    assert f"{kind.title:22} ✓✓·" in printed and f"2 of {len(goals_of(KINDS))} goals reached" in printed
    progress.file().write_text("{")
    assert progress.reached("BalanceLab") == set() and progress.keep("BalanceLab", first)
    assert progress.reached("BalanceLab") == {first}


def test_a_lab_opens_with_a_goal_or_a_story_and_refuses_others() -> None:
    kind = moe_lab_widgets.SpecializationLab
    story = kind.stories[0]
    lab = kind(story=story.name, playing=False)
    assert lab.controls.menu.value == story.name and lab.values["clusters"] == story.values["clusters"]
    lab.close()
    for values, words in (
        ({"goal": 9}, "goal must be from 1 to 3, as this Lab has them: got goal=9"),
        ({"story": "Nothing"}, "story must be one of 'Twice the clusters"),
        ({"goal": 1, "story": story.name}, "a Lab opens with a goal or with a story: got goal=1"),
    ):
        with pytest.raises(ValueError, match=words):
            kind(**values)


@pytest.mark.parametrize("count", [1, 6])
def test_a_question_with_too_few_or_too_many_answers_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match=rf"^a question must have from two to 5 answers.*: got answers={count}"):
        Question("What?", [str(number) for number in range(count)], lambda now: 0, lambda now: say(""))
