"""Records a Lab: how its runs begin, step and are measured, and the marks and the sentence of its picture.

::

    draws ── begin ──> learners ── step ──> learners ── measure ──> measures, history ── marks ──> marks, sentence
    values ── furniture ──> marks of the axes, notes

Each arrow is a program, a list of operations on buffers (`operations`). A page fills the draws and the values, runs the
programs when they are due, and keeps the history; it knows neither the Lab nor the library.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

import torch
from torch import Tensor

from moe_lab.core.config import RunConfig
from moe_lab.core.graphs import as_on_accelerator
from moe_lab.core.training import Learner
from moe_lab.core.trials import Draw, numbers_from
from moe_lab.drawing.marks import Mark, Words, parts_of
from moe_lab_widgets.drawing.mark_record import MarkValues
from moe_lab_widgets.live.operations import (
    NotRecordedError,
    Operation,
    OperationRecorder,
    Place,
    buffers_in,
    needed,
    number_in_json,
    places_in,
)

Document = dict[str, Any]
LETTERS = {torch.float64: "f", torch.float32: "f", torch.int64: "i", torch.bool: "b", torch.uint8: "i"}
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
    """What functions of marks read of a record (`MarkRecord`) as buffers: measures, and their history in fixed rows."""

    def __init__(
        self, recorder: OperationRecorder, values: RecordedValues, latest: Mapping[str, Mapping[str, Tensor]], rows: int
    ) -> None:
        self.values, self.names, self._recorder, self._latest = values, tuple(latest), recorder, latest
        with torch._C._DisableTorchDispatch():
            self.first, self.ended = torch.tensor(False), torch.tensor(False)
            self.steps = torch.zeros(rows, dtype=torch.float64)
        for one in (self.first, self.ended, self.steps):
            recorder.given(one)
        self.history: dict[tuple[str, str], Tensor] = {}

    def curve(self, measure: str, name: str | None = None) -> tuple[Tensor, Tensor]:
        key = (self.names[0] if name is None else name, measure)
        if key not in self.history:
            with torch._C._DisableTorchDispatch():
                self.history[key] = torch.zeros(len(self.steps), *self.last(measure, name).shape, dtype=torch.float64)
            self._recorder.given(self.history[key])
        return self.steps, self.history[key]

    def last(self, measure: str, name: str | None = None) -> Tensor:
        return self._latest[self.names[0] if name is None else name][measure]


def recorded(
    lab: Any, values: Mapping[str, Any], views: Mapping[str, Sequence[Any]] | None = None, whole: bool = False
) -> Document:
    """Records a Lab for some values of all of its knobs.

    Args:
      lab: the class of a Lab whose panels and sentence are marks, and which declares its `training`.
      views: view-only knobs with the values for which the picture is recorded.
      whole: whether to keep measures that no picture reads.

    Raises:
      NotRecordedError: something cannot be repeated by a page; says what, and where it is.
    """
    declaration, recorder = lab.declaration, OperationRecorder()
    runs = {name: run.replace(precision="float64", device="cpu") for name, run in declaration.runs(values).items()}
    draws = _Draws(recorder)
    learners = _begun(declaration.training, runs, recorder, draws)
    _stepped(learners, recorder, draws)
    latest = _measured(learners, recorder)
    given = RecordedValues(recorder, values)
    now = RecordedNow(recorder, given, latest, rows_of(declaration.records))
    furniture, pictures = {}, {}
    for key, view in _views(views or {}):
        given.plain = {**values, **view}
        with recorder.program(f"furniture{key}"):
            furniture[key] = [
                {"note": _note(panel.marks.note, given), "axes": _lists(panel.marks.furniture(given))}
                for panel in declaration.panels
            ]
        with recorder.program(f"marks{key}"):
            panels = [_lists(panel.marks.draw(now)) for panel in declaration.panels]
            pictures[key] = {"panels": panels, "sentence": declaration.caption.words(now)}
    place = recorder.place
    encoded = {
        key: {"furniture": _encoded(furniture[key], recorder), **_encoded(pictures[key], recorder)} for key in pictures
    }
    document: Document = {
        "programs": recorder.programs,
        "draws": draws.told(steps=False),
        "stepDraws": draws.told(steps=True),
        "values": {name: place(one) for name, one in given.given.items()},
        "first": place(now.first),
        "ended": place(now.ended),
        "steps": place(now.steps),
        "history": [
            {"run": run, "measure": measure, "place": place(one)} for (run, measure), one in now.history.items()
        ],
        "state": {name: {"loss": place(one.loss), "active": place(one.active)} for name, one in learners.items()},
        "finite": list(declaration.training.must_be_finite),
        "measured": {name: {measure: place(one) for measure, one in some.items()} for name, some in latest.items()},
        "pictures": encoded,
    }
    return _tidied(document, recorder, whole)


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
        self._known: dict[tuple[Draw, bool], tuple[Tensor, Place]] = {}

    def __call__(self, draw: Draw, trials: Sequence[int], steps: bool = False) -> Tensor:
        if draw.kind == "gumbel":
            raise NotRecordedError(f"a page cannot draw the numbers for {draw.purpose!r}, which are {draw.kind}")
        if (draw, steps) not in self._known:
            with torch._C._DisableTorchDispatch():
                made = torch.rand(len(trials), *draw.whole_shape, dtype=torch.float64)
            self._known[draw, steps] = made, self._recorder.given(made)
        return self._known[draw, steps][0]

    def told(self, steps: bool) -> list[dict[str, Any]]:
        """Returns the buffers with the streams that fill them."""
        return [
            {"place": place, "purpose": draw.purpose, "kind": draw.kind, "several": draw.several or 0}
            for (draw, of_steps), (_, place) in self._known.items()
            if of_steps is steps
        ]


def _begun(
    training: Any, runs: Mapping[str, RunConfig], recorder: OperationRecorder, draws: _Draws
) -> dict[str, Learner]:
    """Records how each run begins."""
    learners: dict[str, Learner] = {}
    for name, run in runs.items():
        with as_on_accelerator(), numbers_from(draws), recorder.program(f"begin/{name}"):
            begun = training(run).learners
        if len(begun) != 1:
            raise NotRecordedError("a run that is divided into groups of trials cannot be recorded: take fewer trials")
        learners[name] = begun[0]
    return learners


def _stepped(learners: Mapping[str, Learner], recorder: OperationRecorder, draws: _Draws) -> None:
    """Records a step of each run."""
    for name, learner in learners.items():
        raw = {one: draws(draw, learner.trials, steps=True) for one, draw in learner.step_draws.items()}
        with as_on_accelerator(), recorder.program(f"step/{name}"):
            learner.take_step(*learner.inputs_of(raw))


def _measured(learners: Mapping[str, Learner], recorder: OperationRecorder) -> dict[str, dict[str, Tensor]]:
    """Records how runs are measured, wholly or not, into the same buffers."""
    latest: dict[str, dict[str, Tensor]] = {}
    for name, learner in learners.items():
        latest[name] = {}
        for whole in (True, False):
            with as_on_accelerator(), recorder.program(f"{'whole' if whole else 'measure'}/{name}"):
                for measure, value in learner.measure(whole).items():
                    if measure not in latest[name]:
                        latest[name][measure] = torch.empty(value.shape, dtype=torch.float64)
                    latest[name][measure].copy_(value)
    return latest


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


# ---- what nobody needs, and what is done twice ----


def _tidied(document: Document, recorder: OperationRecorder, whole: bool) -> Document:
    """Leaves out what nobody needs, does once what several runs begin alike, and numbers buffers anew."""
    programs: dict[str, list[Operation]] = document["programs"]
    _shared(programs, document)
    results = [document["pictures"], document["state"]]
    results += [some[name] for some in document["measured"].values() for name in document["finite"]]
    results += [document["measured"][one["run"]][one["measure"]] for one in document["history"]]
    if whole:
        results.append(document["measured"])
    kinds = ("begin", "step", "step", "whole", "measure", "furniture", "marks")
    order = [name for kind in kinds for name in programs if name.partition("/")[0] == kind]
    programs = needed(programs, order, buffers_in(*results))
    used = buffers_in(*results).union(*(one.buffers for some in programs.values() for one in some))
    document["measured"] = {
        run: {name: place for name, place in some.items() if place["buffer"] in used}
        for run, some in document["measured"].items()
    }
    for name in ("draws", "stepDraws", "history"):
        document[name] = [one for one in document[name] if one["place"]["buffer"] in used]
    document["values"] = {name: place for name, place in document["values"].items() if place["buffer"] in used}
    # in an order in which programs that several recordings have alike get the same numbers
    names = ("values", "first", "ended", "steps", "history", "measured", "state", "pictures", "draws", "stepDraws")
    every = [place for name in names for place in places_in(document[name])]
    for kind in reversed(dict.fromkeys(kinds)):
        for name, some in programs.items():
            if name.partition("/")[0] == kind:
                every += [place for one in some for place in (*one.reads, *one.results)]
    numbers = {old: new for new, old in enumerate(dict.fromkeys(place["buffer"] for place in every))}
    for place in {id(place): place for place in every}.values():
        place["buffer"] = numbers[place["buffer"]]
    document["programs"] = {name: [one.told for one in some] for name, some in programs.items()}
    document["buffers"] = [[LETTERS[recorder.buffers[old][0]], recorder.buffers[old][1]] for old in numbers]
    document["constants"] = {
        str(numbers[old]): _constant(values) for old, values in recorder.constants.items() if old in numbers
    }
    return document


def _shared(programs: dict[str, list[Operation]], document: Document) -> None:
    """Removes operations of `begin` that an earlier run has done on the same buffers, all of which are written once."""
    writers: dict[int, int] = {}
    for some in programs.values():
        for one in some:
            for buffer in one.written:
                writers[buffer] = writers.get(buffer, 0) + 1
    known: dict[str, Operation] = {}
    instead: dict[int, int] = {}

    def move(places: Iterable[Place]) -> None:
        for place in places:
            place["buffer"] = instead.get(place["buffer"], place["buffer"])

    for name, some in programs.items():
        kept = []
        for one in some:
            move(one.reads)
            move(one.results)
            if name.startswith("begin/") and all(writers.get(buffer, 0) < 2 for buffer in one.buffers):
                before = known.setdefault(json.dumps(one.told[:3]), one)
                if before is not one:
                    pairs = zip(one.results, before.results, strict=True)
                    instead.update({new["buffer"]: old["buffer"] for new, old in pairs})
                    continue
            kept.append(one)
        programs[name] = kept
    for name in ("measured", "state", "pictures", "history"):
        move(places_in(document[name]))


def _constant(values: Tensor) -> Any:
    """Returns a constant's numbers: one number where all are the same."""
    numbers = [number_in_json(value) for value in values.to(torch.float64).tolist()]
    return numbers[0] if len(set(numbers)) == 1 else numbers
