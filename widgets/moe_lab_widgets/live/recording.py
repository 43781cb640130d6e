"""Records a Lab: how its runs begin, step and are measured, and the marks and the sentence of its picture.

::

    draws ── begin ──> learners ── step, end ──> learners ── measure ──> measures, history ── marks ──> marks, sentence
    values ── furniture ──> marks of the axes, notes

Each arrow is a program, a list of operations on buffers (`operations`). A page fills the draws and the values, runs the
programs when they are due, and keeps the history; it knows neither the Lab nor the library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, fields
from typing import Any

import torch
from torch import Tensor

from moe_lab.core.config import RunConfig
from moe_lab.core.graphs import as_on_accelerator
from moe_lab.core.training import Learner, Training
from moe_lab.core.trials import Draw, numbers_from
from moe_lab.drawing.marks import Mark, parts_of
from moe_lab.drawing.words import Words
from moe_lab_widgets.drawing.mark_record import MarkValues
from moe_lab_widgets.live.declare import Trains
from moe_lab_widgets.live.operations import (
    NotRecordedError,
    OperationRecorder,
    Place,
    number_in_json,
)
from moe_lab_widgets.live.tidying import Document, shared_runs, tidied

SPARE = 1.5
"""How many times as many records as a Lab wants there may be."""


def rows_of(records: int) -> int:
    """Returns how many records a page keeps of a run that should have about `records`."""
    return int(SPARE * records) + 2


class RecordedValues(MarkValues):
    """Values of knobs whose numbers are buffers, filled from outside."""

    def __init__(self, recorder: OperationRecorder, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._recorder = recorder
        self.given: dict[str, Tensor] = {}

    def number(self, name: str) -> Tensor:
        if name not in self.given:
            with torch._C._DisableTorchDispatch():
                self.given[name] = torch.tensor(float(self.plain[name]), dtype=torch.float64)
            self._recorder.given(self.given[name])
        return self.given[name]


class RecordedNow:
    """What functions of marks read of a record (`MarkRecord`) as buffers: measures, and their history in fixed rows.

    Attributes:
      runs: the recorded run of each name; other choices may have others (`of`).
    """

    def __init__(
        self, recorder: OperationRecorder, values: RecordedValues, latest: Mapping[str, Mapping[str, Tensor]], rows: int
    ) -> None:
        self.values, self.runs, self._recorder, self._latest = values, {name: name for name in latest}, recorder, latest
        with torch._C._DisableTorchDispatch():
            self.first, self.ended = torch.tensor(False), torch.tensor(False)
            self.step, self.total = torch.tensor(0.0, dtype=torch.float64), torch.tensor(0.0, dtype=torch.float64)
            self.steps = {name: torch.zeros(rows, dtype=torch.float64) for name in latest}
        for one in (self.first, self.ended, self.step, self.total, *self.steps.values()):
            recorder.given(one)
        self.history: dict[tuple[str, str], Tensor] = {}

    def of(self, runs: Mapping[str, str]) -> RecordedNow:
        """Returns what is read where the names stand for these runs."""
        other = copy(self)
        other.runs = dict(runs)
        return other

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.runs)

    def _run(self, name: str | None) -> str:
        return self.runs[self.names[0] if name is None else name]

    def curve(self, measure: str, name: str | None = None) -> tuple[Tensor, Tensor]:
        run = self._run(name)
        if (run, measure) not in self.history:
            rows = len(self.steps[run])
            with torch._C._DisableTorchDispatch():
                self.history[run, measure] = torch.zeros(rows, *self.last(measure, name).shape, dtype=torch.float64)
            self._recorder.given(self.history[run, measure])
        return self.steps[run], self.history[run, measure]

    def last(self, measure: str, name: str | None = None) -> Tensor:
        return self._latest[self._run(name)][measure]


def recorded(
    lab: Any,
    values: Mapping[str, Any],
    views: Mapping[str, Sequence[Any]] | None = None,
    choices: Sequence[Mapping[str, Any]] = ({},),
) -> Document:
    """Records a Lab for some values of all of its knobs, and for choices among which they differ besides.

    A run that several choices have is recorded once (`tidying.of_choices` takes them apart).

    Args:
      lab: the class of a Lab whose panels and sentence are marks, and which declares its `training`.
      views: view-only knobs with the values for which the picture is recorded.

    Raises:
      NotRecordedError: something cannot be repeated by a page; says what, and where it is.
    """
    declaration = lab.declaration

    def pictures(recorder: OperationRecorder, given: RecordedValues, now: RecordedNow, number: int) -> Document:
        asked, found = declaration.page and declaration.page.question, {}
        for key, view in _views(views or {}):
            given.plain = {**values, **choices[number], **view}
            with recorder.program(f"furniture/{number}{key}"):
                furniture = [
                    {"note": _note(panel.marks.note, given), "axes": _lists(panel.marks.furniture(given))}
                    for panel in declaration.panels
                ]
            with recorder.program(f"marks/{number}{key}"):
                panels = [_lists(panel.marks.draw(now)) for panel in declaration.panels]
                found[key] = {"furniture": furniture, "panels": panels, "sentence": declaration.caption.words(now)}
                if asked is not None:
                    found[key] |= {"right": asked.right(now), "seen": asked.seen(now)}
        return found

    runs = [declaration.runs({**values, **choice}) for choice in choices]
    return _recorded(declaration.training, runs, values, declaration.records, pictures)


def recorded_training(trains: Trains, values: Mapping[str, Any], whole: bool = False) -> Document:
    """Records a training, and what it comes to.

    Args:
      values: of the knobs, and of those that the training has besides.
      whole: whether to keep measures that no result needs.

    Raises:
      NotRecordedError: something cannot be repeated by a page; says what, and where it is.
    """

    def results(recorder: OperationRecorder, given: RecordedValues, now: RecordedNow, number: int) -> Document:
        with recorder.program(f"marks/{number}"):
            return {"": dict(trains.results(now))}

    return _recorded(trains.training, [{"training": trains.run(values)}], values, 2, results, whole)


def _recorded(
    training: Callable[[Any], Training[Any]],
    wanted: Sequence[Mapping[str, RunConfig]],
    values: Mapping[str, Any],
    records: int,
    pictures: Callable[[OperationRecorder, RecordedValues, RecordedNow, int], Document],
    whole: bool = False,
) -> Document:
    """Records the runs of each choice, and its pictures."""
    runs, of_choices = _runs_of(wanted)
    recorder = OperationRecorder()
    draws, given = _Draws(recorder), RecordedValues(recorder, values)
    trainings = _begun(training, runs, recorder, draws, given)
    learners = {name: one.learners[0] for name, one in trainings.items()}
    latest: dict[str, dict[str, Tensor]] = {name: {} for name in learners}
    apart = any(type(one).online is not Learner.online for one in learners.values())
    # in the order in which they run, so that what a first program keeps is there for the others
    _measured("first" if apart else "whole", learners, recorder, latest)
    _stepped(learners, recorder, draws)
    ends = _ended(learners, recorder)
    for kind in ("whole", "measure") if apart else ("measure",):
        _measured(kind, learners, recorder, latest)
    constant = {name: learner.constants for name, learner in learners.items()}
    now = RecordedNow(recorder, given, {name: latest[name] | constant[name] for name in runs}, rows_of(records))
    drawn = [pictures(recorder, given, now.of(names), number) for number, names in enumerate(of_choices)]
    encoded, place = _encoded(drawn, recorder), recorder.place
    document: Document = {
        "runs": of_choices,
        "programs": recorder.programs,
        "draws": draws.told(steps=False),
        "stepDraws": draws.told(steps=True),
        "values": {name: place(one) for name, one in given.given.items()},
        "first": place(now.first),
        "ended": place(now.ended),
        "step": place(now.step),
        "total": place(now.total),
        "steps": {name: place(one) for name, one in now.steps.items()},
        "ends": ends,
        "history": [
            {"run": run, "measure": measure, "place": place(one)} for (run, measure), one in now.history.items()
        ],
        "state": {name: {"loss": place(one.loss), "active": place(one.active)} for name, one in learners.items()},
        "finite": list(trainings[now.names[0]].must_be_finite),
        "measured": {name: {measure: place(one) for measure, one in some.items()} for name, some in latest.items()},
        "constant": {name: {measure: place(one) for measure, one in some.items()} for name, some in constant.items()},
        "pictures": encoded,
    }
    return tidied(document, recorder, whole)


def _runs_of(wanted: Sequence[Mapping[str, RunConfig]]) -> tuple[dict[str, RunConfig], list[dict[str, str]]]:
    """Returns the runs to record, those first that all choices have, and for each choice the run of each name."""
    known: dict[tuple[str, RunConfig], str] = {}
    of_choices = []
    for some in wanted:
        own = {name: run.replace(precision="float64", device="cpu") for name, run in some.items()}
        for name, run in own.items():
            known.setdefault((name, run), f"{name}/{len(known)}")
        of_choices.append({name: known[name, run] for name, run in own.items()})
    shared, runs = shared_runs(of_choices), {key: run for (_, run), key in known.items()}
    return {key: runs[key] for key in sorted(runs, key=lambda key: key not in shared)}, of_choices


def _views(views: Mapping[str, Sequence[Any]]) -> Iterable[tuple[str, dict[str, Any]]]:
    """Yields the name and the values of each picture."""
    if not views:
        return [("", {})]
    ((name, choices),) = views.items()
    return [(f"/{choice}", {name: choice}) for choice in choices]


class _Draws:
    """Raw numbers as buffers that a page fills, each once however many runs ask for them."""

    def __init__(self, recorder: OperationRecorder) -> None:
        self._recorder = recorder
        self._known: dict[tuple[tuple[Draw, ...], bool], tuple[Tensor, Place]] = {}

    def __call__(self, wanted: Mapping[str, Draw], trials: Sequence[int]) -> dict[str, Tensor]:
        """Returns numbers by name; those of one purpose follow one another."""
        found, of_purpose = {}, dict[str, tuple[Draw, ...]]()
        for name, draw in wanted.items():
            of_purpose[draw.purpose] = (*of_purpose.get(draw.purpose, ()), draw)
            found[name] = self._numbers(of_purpose[draw.purpose], trials, steps=False)
        return found

    def of_steps(self, wanted: Mapping[str, Draw], trials: Sequence[int]) -> dict[str, Tensor]:
        """Returns numbers by name, which are drawn anew for each step."""
        return {name: self._numbers((draw,), trials, steps=True) for name, draw in wanted.items()}

    def _numbers(self, draws: tuple[Draw, ...], trials: Sequence[int], steps: bool) -> Tensor:
        """Returns the numbers of the last one of some draws that follow one another."""
        if draws[-1].kind == "gumbel":
            raise NotRecordedError(f"a page cannot draw the numbers for {draws[-1].purpose!r}, which are gumbel")
        if (draws, steps) not in self._known:
            with torch._C._DisableTorchDispatch():
                made = torch.rand(len(trials), *draws[-1].whole_shape, dtype=torch.float64)
            self._known[draws, steps] = made, self._recorder.given(made)
        return self._known[draws, steps][0]

    def told(self, steps: bool) -> list[dict[str, Any]]:
        """Returns the buffers with the streams that fill them, and what is drawn of these before."""
        return [
            {"place": place, "purpose": draw.purpose, "kind": draw.kind, "several": draw.several or 0,
             "things": draw.things or 0,
             "before": [[one.kind, math.prod(one.shape), one.things or 0] for one in before]}
            for ((*before, draw), of_steps), (_, place) in self._known.items()
            if of_steps is steps
        ]  # fmt: skip


def _begun(
    training: Any, runs: Mapping[str, RunConfig], recorder: OperationRecorder, draws: _Draws, given: RecordedValues
) -> dict[str, Training[Any]]:
    """Records how each run begins."""

    def number(name: str, value: float) -> Tensor:
        if isinstance(given.plain.get(name), (int, float)) and float(given.plain[name]) == value:
            return given.number(name)
        return torch.tensor(value, dtype=torch.float64)

    trainings: dict[str, Training[Any]] = {}
    for name, run in runs.items():
        with as_on_accelerator(), numbers_from(draws, number), recorder.program(f"begin/{name}"):
            trainings[name] = training(run)
        if len(trainings[name].learners) != 1:
            raise NotRecordedError("a run that is divided into groups of trials cannot be recorded: take fewer trials")
    return trainings


def _stepped(learners: Mapping[str, Learner], recorder: OperationRecorder, draws: _Draws) -> None:
    """Records a step of each run."""
    for name, learner in learners.items():
        raw = draws.of_steps(learner.step_draws, learner.trials)
        with as_on_accelerator(), recorder.program(f"step/{name}"):
            learner.take_step(*learner.inputs_of(raw))


def _ended(learners: Mapping[str, Learner], recorder: OperationRecorder) -> dict[str, Any]:
    """Records the rule that ends trials of each run that has one; returns when it is due, and what it is told."""
    ends = {}
    for name, learner in learners.items():
        every = learner.until_rule()
        if every is None:
            continue
        with torch._C._DisableTorchDispatch():
            last = torch.tensor(False)
        place = recorder.given(last)
        with as_on_accelerator(), recorder.program(f"end/{name}"):
            learner.end_all(last)
        ends[name] = {"every": every, "last": place}
    return ends


def _measured(
    kind: str, learners: Mapping[str, Learner], recorder: OperationRecorder, latest: dict[str, dict[str, Tensor]]
) -> None:
    """Records how runs are measured, into the buffers that are there or new ones.

    Args:
      kind: "first", before the first step where that differs; "whole", at the end and else at the start; or "measure".
    """
    for name, learner in learners.items():
        learner.done = int(kind != "first")
        with as_on_accelerator(), recorder.program(f"{kind}/{name}"):
            found = ({} if kind == "first" else learner.online()) | learner.measure(kind != "measure")
            for measure, value in found.items():
                if measure not in latest[name]:
                    latest[name][measure] = torch.empty(value.shape, dtype=torch.float64)
                latest[name][measure].copy_(value)


# ---- marks as documents ----


def _note(note: Any, values: MarkValues) -> Words:
    return Words(note) if isinstance(note, str) else note(values)


def _lists(marks: Iterable[Sequence[Mark]]) -> list[list[Mark]]:
    return [list(some) for some in marks]


def _encoded(value: Any, recorder: OperationRecorder) -> Any:
    """Returns marks and words as JSON has them: tensors as places, attributes that are not their defaults."""
    if isinstance(value, Tensor):
        return recorder.place(value)
    if isinstance(value, (Mark, Words)):
        defaults = {one.name: one.default for one in fields(value)}  # type: ignore[arg-type]
        own = {
            name: _encoded(one, recorder)
            for name, one in parts_of(value)
            if isinstance(one, (Tensor, tuple, list)) or defaults[name] is MISSING or one != defaults[name]
        }
        return own if isinstance(value, Words) else {"mark": type(value).__name__, **own}
    if isinstance(value, (list, tuple)):
        return [_encoded(one, recorder) for one in value]
    if isinstance(value, dict):
        return {name: _encoded(one, recorder) for name, one in value.items()}
    return number_in_json(value) if isinstance(value, float) else value
