"""What a Lab asks its user: the goal or the story that was chosen, what is said of it, and when a goal is reached."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from moe_lab.core.config import require
from moe_lab.drawing.words import written
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.engine import progress
from moe_lab_widgets.engine.callbacks import OwnMoves, alone
from moe_lab_widgets.engine.controls import OWN, Controls
from moe_lab_widgets.engine.declaration import Declared
from moe_lab_widgets.engine.goal import KEEP, NOT_SO, REACHED, RIGHT, Goal, Question
from moe_lab_widgets.engine.knobs import LabKnob
from moe_lab_widgets.engine.questioner import Questioner
from moe_lab_widgets.engine.record import Record
from moe_lab_widgets.engine.story import Story
from moe_lab_widgets.frames.screen import Screen


def entry_of(goals: Sequence[Goal], stories: Sequence[Story], goal: int | None, story: str | None) -> Any:
    """Returns the goal of a number, counted from 1, or the story of a name; None for neither.

    Raises:
      ValueError: there is none, or both are asked for.
    """
    require(goal is None or story is None, "a Lab opens with a goal or with a story", goal=goal, story=story)
    if goal is not None:
        require(1 <= goal <= len(goals), f"goal must be from 1 to {len(goals)}, as this Lab has them", goal=goal)
        return goals[goal - 1]
    names = [one.name for one in stories]
    require(story is None or story in names, f"story must be one of {', '.join(map(repr, names))}", story=story)
    return next((one for one in stories if one.name == story), None)


class Asker:
    """Asks before a run; keeps what was chosen in the menu of a Lab, and says what is to be said of it.

    Args:
      lab: whose question, goals and stories they are.
      screen: shows the picture, on which a prediction may be drawn.
      play: starts a run that is held.
      back: takes settings, and holds their run at step 0.

    Attributes:
      question: what is asked before a run; None where nothing is.
      chosen: the goal or the story; None for the user's own settings.
      reached: whether a run has reached the goal.
      done: the names of the goals that are reached and answered, now or earlier (`progress`).
    """

    def __init__(
        self,
        lab: Declared,
        controls: Controls,
        knobs: Sequence[LabKnob],
        own_moves: OwnMoves,
        screen: Screen,
        play: Callable[[], None],
        back: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self._lab, self._controls, self._own_moves = type(lab).__name__, controls, own_moves
        self._screen, self._play, self._back = screen, play, back
        self._titles = {knob.name: knob.title for knob in knobs}
        self._goals: Sequence[Goal] = lab.declaration.goals
        self._entries: dict[str, Goal | Story] = {goal.name: goal for goal in self._goals}
        self._entries |= {story.name: story for story in lab.stories}
        self.question: Questioner | None = None
        self.chosen: Goal | Story | None = None
        self.reached, self.done = False, {goal.name for goal in self._goals} & progress.reached(self._lab)
        self._answered: list[str] = []
        self._kept: dict[str, Any] = {}
        self._tell_done()

    def open(self, entry: Goal | Story | None, asks: Question | None, values: dict[str, Any]) -> None:
        """Takes the goal or the story, or the question, with which a Lab opens, if any, and its values."""
        if asks is not None:
            self.question = Questioner(asks, values, self._say, self._screen, self._play, self._back)
        if entry is not None:
            self.choose(entry.name)
            self.begin(values)

    @alone
    def choose(self, name: str) -> Goal | Story | None:
        """Takes what was chosen in the menu."""
        self.chosen, self.reached, self._answered, self._kept = self._entries.get(name), False, [], {}
        if self.question is not None:
            self.question = None
            self._screen.show_sketch(None)
        self._controls.explain("")
        self._say("" if not isinstance(self.chosen, Goal) else self.chosen.asks)
        with self._own_moves():
            self._controls.menu.value = name if self.chosen else OWN
        return self.chosen

    def begin(self, values: dict[str, Any]) -> None:
        """Takes the values with which a goal begins, some of which it keeps."""
        if isinstance(self.chosen, Goal):
            self._kept = {name: values[name] for name in self.chosen.keeps}

    def moved(self, values: Mapping[str, Any]) -> None:
        """A setting was moved: stories are of others, a goal is still sought, and a question knows for itself."""
        if self.question is not None:
            self.question.moved(values)
        if isinstance(self.chosen, Story):
            self.choose(OWN)
        else:
            self._controls.explain("")

    @alone
    def look(self, record: Record, ended: bool) -> None:
        """Says what there is to say of the record on show.

        Args:
          record: as the view-only knobs show it.
          ended: whether it is the last one of a run that has come to its end.
        """
        if isinstance(self.chosen, Story) and ended:
            self._controls.explain(self.chosen.what_to_see)
        if self.question is not None:
            self.question.look(MarkRecord(record), ended)
        if not isinstance(self.chosen, Goal) or self.reached:
            return
        now, goal = MarkRecord(record), self.chosen
        if not (ended and bool(goal.reached(now))):
            self._say(f"{goal.asks} {written(goal.so_far(now))}")
            return
        moved = [name for name, value in self._kept.items() if record.values[name] != value]
        if moved:
            self._say(KEEP.format(knobs=", ".join(self._titles.get(name, name) for name in moved)))
            return
        self.reached = True
        self._say(f"{REACHED} {goal.why.asks}", goal.why.offered)

    @alone
    def answer(self, number: int) -> None:
        """Takes an answer to the question before a run, which starts it, or to that of the goal that is reached."""
        if self.question is not None:
            self.question.answer(number)
            return
        assert isinstance(self.chosen, Goal)
        why = self.chosen.why
        answer = why.offered[number]
        self._answered.append(answer)
        if answer == why.right:
            self.done.add(self.chosen.name)
            progress.keep(self._lab, self.chosen.name)
            self._say(f"{RIGHT} {why.answers[answer]} {self.chosen.seen}")
            self._tell_done()
        else:
            self._say(f"{NOT_SO} {why.answers[answer]} {why.asks}", why.offered)

    def ask_anew(self) -> bool:
        """Asks of the run that begins now, if there is a question; returns whether there is."""
        if self.question is not None:
            self.question.reset()
        return self.question is not None

    def played(self) -> None:
        """The run goes on."""
        if self.question is not None:
            self.question.played()

    @alone
    def drawn(self, levels: Sequence[float | None]) -> None:
        """Takes what was drawn on the picture before a run."""
        if self.question is not None:
            self.question.drawn(levels)

    def _say(self, words: str, answers: Sequence[str] = ()) -> None:
        self._controls.ask(words, answers, self._answered)

    def _tell_done(self) -> None:
        if self._goals:
            with self._own_moves():
                self._controls.tell_goals([goal.name for goal in self._goals], self.done)
