"""Records a Lab: how its runs begin, step and are measured, and the marks and the sentence of its picture.

::

    draws ── begin ──> learners ── step, end ──> learners ── measure ──> measures, history ── marks ──> marks, sentence
    values ── furniture ──> marks of the axes, notes

Each arrow is a program, a list of operations on buffers (`operations`). A page fills the draws and the values, runs the
programs when they are due, and keeps the history; it knows neither the Lab nor the library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from moe_lab.core.config import RunConfig
from moe_lab.core.graphs import as_on_accelerator
from moe_lab.core.training import Learner, Training
from moe_lab.core.trials import Draw, numbers_from
from moe_lab_widgets.live.declare import Fills
from moe_lab_widgets.live.operations import NotRecordedError, OperationRecorder, Place
from moe_lab_widgets.live.pictures import Pictures, RecordedNow, RecordedValues, pictures_in, pictures_of
from moe_lab_widgets.live.tidying import Document, in_stage, shared_runs, tidied

SPARE = 1.5
"""How many times as many records as a Lab wants there may be."""


def rows_of(records: int) -> int:
    """Returns how many records a page keeps of a run that should have about `records`."""
    return int(SPARE * records) + 2


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
    runs = [declaration.runs({**values, **choice}) for choice in choices]
    pictures = pictures_of(lab, values, views or {}, choices)
    return _recorded(declaration.training, runs, values, declaration.records, pictures)


def recorded_training(fills: Fills, values: Mapping[str, Any], whole: bool = False) -> Document:
    """Records a training, and what it comes to.

    Args:
      values: of the knobs, and of those that the training has besides.
      whole: whether to keep measures that no result needs.

    Raises:
      NotRecordedError: something cannot be repeated by a page; says what, and where it is.
    """

    def results(recorder: OperationRecorder, given: RecordedValues, now: RecordedNow, number: int) -> Document:
        with recorder.program(f"marks/{number}"):
            return {"": {name: result(now) for name, result in fills.results.items()}}

    return _recorded(fills.training, [{"training": fills.run(values)}], values, 2, results, whole)


def _recorded(
    training: Callable[[Any], Training[Any]],
    wanted: Sequence[Mapping[str, RunConfig]],
    values: Mapping[str, Any],
    records: int,
    pictures: Pictures,
    whole: bool = False,
) -> Document:
    """Records the runs of each choice, and its pictures."""
    runs, of_choices = _runs_of(wanted)
    recorder = OperationRecorder()
    draws, given = _Draws(recorder), RecordedValues(recorder, values)
    trainings = _begun(training, runs, recorder, draws, given)
    learners = {name: one.learners[0] for name, one in trainings.items()}
    for learner in learners.values():
        learner.coming = draws.of_steps(learner.step_draws, learner.trials)
    latest: dict[str, dict[str, Tensor]] = {name: {} for name in learners}
    apart = any(type(one).online is not Learner.online for one in learners.values())
    alike = all(one.measures_alike for one in learners.values())
    # in the order in which they run, so that what a first program keeps is there for the others
    _measured("first" if apart else "whole", learners, recorder, latest)
    _stepped(learners, recorder, latest)
    ends = _ended(learners, recorder)
    last = {name: max(0, len(learner.stages) - 1) for name, learner in learners.items()}
    for kind in ("whole", "measure") if apart and not alike else ("measure",):
        _measured(kind, learners, recorder, latest, last)
    constant = {name: learner.constants for name, learner in learners.items()}
    measured = {name: latest[name] | constant[name] for name in runs}
    now = RecordedNow(recorder, given, measured, rows_of(records), learners)
    drawn = [pictures(recorder, given, now.of(names), number) for number, names in enumerate(of_choices)]
    place = recorder.place
    document = pictures_in(recorder, given, now, of_choices, drawn) | {
        "measured": {name: {measure: place(one) for measure, one in some.items()} for name, some in latest.items()},
        "draws": draws.told(steps=False),
        "stepDraws": draws.told(steps=True),
        "ends": ends,
        "stages": {name: list(learner.stages) for name, learner in learners.items() if learner.stages},
        "state": {name: {"loss": place(one.loss), "active": place(one.active)} for name, one in learners.items()},
        "finite": list(trainings[now.names[0]].must_be_finite),
        "constant": {name: {measure: place(one) for measure, one in some.items()} for name, some in constant.items()},
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
        if (draws, steps) not in self._known:
            with torch._C._DisableTorchDispatch():
                made = torch.rand(len(trials), *draws[-1].whole_shape, dtype=torch.float64)
            self._known[draws, steps] = made, self._recorder.given(made)
        return self._known[draws, steps][0]

    def told(self, steps: bool) -> list[dict[str, Any]]:
        """Returns the buffers with the streams that fill them, and what is drawn of these before."""
        return [
            {"place": place, "purpose": draw.purpose, "kind": draw.kind, "several": draw.several or 0,
             "things": draw.things or 0, "block": list(draw.block or ()),
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


def _stepped(
    learners: Mapping[str, Learner], recorder: OperationRecorder, latest: dict[str, dict[str, Tensor]]
) -> None:
    """Records a step of each run; of one in stages a step of each, how it begins, and how what it moves is measured."""
    for name, learner in learners.items():
        for stage in range(max(1, len(learner.stages))):
            if stage:
                _measured("measure", {name: learner}, recorder, latest, {name: stage - 1})
                with as_on_accelerator(), recorder.program(f"enter/{in_stage(name, stage)}"):
                    learner.enter()
            with as_on_accelerator(), recorder.program(f"step/{in_stage(name, stage)}"):
                learner.take_step(*learner.inputs_of(learner.coming or {}))


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
    kind: str,
    learners: Mapping[str, Learner],
    recorder: OperationRecorder,
    latest: dict[str, dict[str, Tensor]],
    stages: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Records how runs are measured, into the buffers that are there or new ones.

    Args:
      kind: "first", before the first step where that differs; "whole", at the end and else at the start; or "measure".
      stages: in which each run is measured; by default in the first one.
    """
    for name, learner in learners.items():
        learner.done = int(kind != "first")
        with as_on_accelerator(), recorder.program(f"{kind}/{in_stage(name, stages.get(name, 0))}"):
            found = ({} if kind == "first" else learner.online()) | learner.measure(kind != "measure")
            for measure, value in found.items():
                if measure not in latest[name]:
                    latest[name][measure] = torch.empty(value.shape, dtype=torch.float64)
                latest[name][measure].copy_(value)
