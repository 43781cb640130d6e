"""What may be wrong with a Lab of one's own, in words: its parts as it is declared, its records as it runs."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from moe_lab.core.config import require
from moe_lab.core.errors import InputError
from moe_lab.core.sentences import shown
from moe_lab_widgets.drawing.panel import Panel
from moe_lab_widgets.engine.goal import MOST_ANSWERS, Goal
from moe_lab_widgets.engine.knobs import LabKnob
from moe_lab_widgets.engine.story import Story

GIVEN = ("seed", "device", "present", "cache")
"""Arguments that every function that trains is given, if it names them."""


def check_parts(knobs: Sequence[LabKnob], panels: Any, goals: Sequence[Goal], stories: Sequence[Story]) -> None:
    """Raises a ValueError where the parts of a Lab do not fit together."""
    for name, count in Counter(knob.name for knob in knobs).items():
        require(count == 1, "each knob of a Lab must have a name of its own", name=name)
        require(name not in ("seed", "device"), "a knob must not be what every Lab has, seed or device", name=name)
    if isinstance(panels, Panel) or not all(isinstance(panel, Panel) for panel in panels):
        raise InputError(f"panels must be a sequence of Panels, as in panels=(Panel(...),): got panels={shown(panels)}")
    names = {*(knob.name for knob in knobs), *GIVEN}
    for story in stories:
        for name in story.values:
            require(name in names, f"the story {story.name!r} must set knobs of its Lab", name=name)
    for goal in goals:
        for name in (*goal.start, *goal.solved_by, *goal.keeps):
            require(name in names, f"the goal {goal.name!r} must set knobs of its Lab", name=name)
        answers = len(goal.why.answers)
        require(2 <= answers <= MOST_ANSWERS, f"{goal.why.asks!r} must have two answers or three", answers=answers)


def check_arguments(train: Callable[..., Any], knobs: Sequence[LabKnob], arguments: Iterable[str]) -> None:
    """Raises a ValueError where a function that trains and the knobs do not name the same things."""
    named = inspect.signature(train).parameters
    if not any(one.kind is one.VAR_KEYWORD for one in named.values()):
        for knob in knobs:
            rule = f"{train.__name__} must name each slider as an argument, or the slider must be view_only"
            require(knob.view_only or knob.name in named, rule, slider=knob.name)
    known = {*(knob.name for knob in knobs), *GIVEN, *arguments}
    for name, one in named.items():
        must = one.default is one.empty and one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
        rule = f"each argument of {train.__name__} must be a slider's name, or have a default"
        require(not must or name in known, rule, argument=name)


def records_of(train: Callable[..., Any], begun: Any) -> Iterator[Any]:
    """Yields the records of a user's training function, dicts with copies of their arrays.

    A function that changes an array in place would change its earlier records, too.

    Raises:
      ValueError: it has not yielded records.
    """
    rule = f"{train.__name__} must yield records, such as dicts"
    if not isinstance(begun, Iterable) or isinstance(begun, (Mapping, str)):
        raise InputError(f"{rule}: got {shown(begun)} from return (is there a yield?)")
    for record in begun:
        if isinstance(record, Mapping):
            copied = (one.copy() if isinstance(one, np.ndarray) else one for one in record.values())
            yield dict(zip(record, copied, strict=True))
        elif hasattr(record, "__dict__"):
            yield record
        else:
            raise InputError(f"{rule}: got {shown(record)}")
