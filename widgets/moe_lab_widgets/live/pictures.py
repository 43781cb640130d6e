"""Records pictures: what functions of marks read, as buffers, and the marks and sentences that they return, as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, fields
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from moe_lab.core.graphs import as_on_accelerator
from moe_lab.core.training import Learner
from moe_lab.drawing.marks import Mark, parts_of
from moe_lab.drawing.words import Words
from moe_lab_widgets.drawing.mark_record import MarkValues
from moe_lab_widgets.live.operations import OperationRecorder, number_in_json
from moe_lab_widgets.live.tidying import Document, tidied
from moe_lab_widgets.playground.declared import opening

PALE = "before"
"""What a page calls the shares of the map before."""
ONLY = "map"
"""What it calls a map, in place of a run."""


class RecordedValues(MarkValues):
    """Values of knobs whose numbers are buffers, filled from outside."""

    def __init__(self, recorder: OperationRecorder, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._recorder = recorder
        self.given: dict[str, Tensor] = {}
        self.choices: dict[str, Sequence[str]] = {}

    def number(self, name: str) -> Tensor:
        return self._given(name, self.plain[name])

    def place(self, name: str, choices: Sequence[str]) -> Tensor:
        self.choices[name] = choices
        return self._given(name, choices.index(self.plain[name]))

    def table(self, name: str, shape: Sequence[int]) -> Tensor:
        """Returns numbers that a page fills in, NaN where it has none."""
        return self._given(name, torch.nan, shape)

    def _given(self, name: str, value: Any, shape: Sequence[int] = ()) -> Tensor:
        if name not in self.given:
            with torch._C._DisableTorchDispatch():
                self.given[name] = torch.full(tuple(shape), float(value), dtype=torch.float64)
            self._recorder.given(self.given[name])
        return self.given[name]


class RecordedNow:
    """What functions of marks read of a record (`MarkRecord`) as buffers: measures, and their history in fixed rows.

    Attributes:
      runs: the recorded run of each name; other choices may have others (`of`).
      measured: the latest measures of each run.
      learners: what trains each run, for marks that evaluate it on something else.
    """

    def __init__(
        self,
        recorder: OperationRecorder,
        values: RecordedValues,
        latest: Mapping[str, Mapping[str, Tensor]],
        rows: int,
        learners: Mapping[str, Learner] = MappingProxyType({}),
    ) -> None:
        self.values, self.measured, self.learners, self._recorder = values, latest, learners, recorder
        self.runs = {name: name for name in latest}
        with torch._C._DisableTorchDispatch():
            self.first, self.ended = torch.tensor(False), torch.tensor(False)
            self.step, self.total = torch.tensor(0.0, dtype=torch.float64), torch.tensor(0.0, dtype=torch.float64)
            self.steps = {name: torch.zeros(rows, dtype=torch.float64) for name in latest}
        for one in (self.first, self.ended, self.step, self.total, *self.steps.values()):
            recorder.given(one)
        self.history: dict[tuple[str, str], Tensor] = {}
        self.results: dict[Any, Any] = {}

    def of(self, runs: Mapping[str, str]) -> RecordedNow:
        """Returns what is read where the names stand for these runs."""
        other = copy(self)
        other.runs, other.results = dict(runs), {}
        return other

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.runs)

    def _run(self, name: str | None) -> str:
        return self.runs[self.names[0] if name is None else name]

    def learner(self, name: str | None = None) -> Any:
        """Returns what trains a run, the first one by default."""
        return self.learners[self._run(name)]

    def curve(self, measure: str, name: str | None = None) -> tuple[Tensor, Tensor]:
        run = self._run(name)
        if (run, measure) not in self.history:
            rows = len(self.steps[run])
            with torch._C._DisableTorchDispatch():
                self.history[run, measure] = torch.zeros(rows, *self.last(measure, name).shape, dtype=torch.float64)
            self._recorder.given(self.history[run, measure])
        return self.steps[run], self.history[run, measure]

    def last(self, measure: str, name: str | None = None) -> Tensor:
        return self.measured[self._run(name)][measure]

    def pale(self, share: Callable[[RecordedNow], Tensor], columns: str) -> Tensor:
        """Returns the shares of the map before, which a page keeps."""
        return self.last(PALE)


Pictures = Callable[[OperationRecorder, RecordedValues, RecordedNow, int], Document]
"""Records the pictures of a choice, given by its number."""


def pictures_of(
    lab: Any,
    values: Mapping[str, Any],
    views: Mapping[str, Sequence[Any]],
    choices: Sequence[Mapping[str, Any]],
) -> Pictures:
    """Returns what records a Lab's picture, as each view shows it, and what its goals are told."""
    declaration, goals = lab.declaration, goals_in_page(lab)

    def pictures(recorder: OperationRecorder, given: RecordedValues, now: RecordedNow, number: int) -> Document:
        asked, found = declaration.question, {}
        for key, view in _views(views):
            given.plain = {**values, **choices[number], **view}
            with recorder.program(f"furniture/{number}{key}"):
                furniture = [
                    {"note": _note(panel.marks.note, given), "axes": _lists(panel.marks.furniture(given))}
                    for panel in declaration.panels
                ]
            now = now.of(now.runs)  # each picture computes its own results
            with recorder.program(f"marks/{number}{key}"):
                panels = [_lists(panel.marks.draw(now)) for panel in declaration.panels]
                found[key] = {"furniture": furniture, "panels": panels, "sentence": declaration.caption.words(now)}
                if asked is not None:
                    found[key] |= {"right": asked.right(now), "seen": asked.seen(now)}
                    if asked.sketch is not None:
                        found[key]["ends"] = asked.sketch.ends(now)
                if declaration.page.drawn is not None:
                    with as_on_accelerator():
                        found[key]["drawn"] = declaration.page.drawn(now)
                found[key]["goals"] = [{"reached": one.reached(now), "so_far": one.so_far(now)} for one in goals]
                if hasattr(declaration.trouble, "words"):
                    found[key]["trouble"] = declaration.trouble.words(now)
        return found

    return pictures


def pictures_in(
    recorder: OperationRecorder,
    given: RecordedValues,
    now: RecordedNow,
    of_choices: list[dict[str, str]],
    drawn: list[Document],
) -> Document:
    """Returns what a page has of pictures, and of the measures that they read."""
    encoded, place = _encoded(drawn, recorder), recorder.place
    return {
        "runs": of_choices,
        "programs": recorder.programs,
        "draws": [],
        "stepDraws": [],
        "values": {name: place(one) for name, one in given.given.items()},
        "choices": {name: list(one) for name, one in given.choices.items()},
        "first": place(now.first),
        "ended": place(now.ended),
        "step": place(now.step),
        "total": place(now.total),
        "steps": {name: place(one) for name, one in now.steps.items()},
        "ends": {},
        "stages": {},
        "history": [
            {"run": run, "measure": measure, "place": place(one)} for (run, measure), one in now.history.items()
        ],
        "state": {},
        "finite": [],
        "measured": {
            name: {measure: place(one) for measure, one in some.items()} for name, some in now.measured.items()
        },
        "constant": {},
        "pictures": encoded,
    }


def recorded_map(lab: Any, values: Mapping[str, Any]) -> Document:
    """Records the picture of a map, which a page fills with what its trainings come to.

    Args:
      lab: the class of a Lab whose panels and sentence are marks, and whose page has a `fills`.
      values: of the knobs, and of the sizes that are none.

    Raises:
      NotRecordedError: something cannot be repeated by a page; says what, and where it is.
    """
    recorder, fills = OperationRecorder(), lab.declaration.page.fills
    given = RecordedValues(recorder, values)
    rows, columns = int(values[fills.rows]), fills.columns(values)
    cells: tuple[int, ...] = (*([len(fills.maps[1])] if fills.maps[1] else []), rows, len(columns))
    shapes: dict[str, tuple[int, ...]] = {name: (*cells, int(values["trials"])) for name in ("done", *fills.results)}
    shapes |= {"active": cells, PALE: cells, fills.column: (len(columns),)}
    with torch._C._DisableTorchDispatch():
        latest = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in shapes.items()}
    for one in latest.values():
        recorder.given(one)
    now = RecordedNow(recorder, given, {ONLY: latest}, 1)
    drawn = [pictures_of(lab, values, {}, [{}])(recorder, given, now, 0)]
    document = tidied(pictures_in(recorder, given, now, [{ONLY: ONLY}], drawn), recorder)
    own = {name: getattr(fills, name) for name in ("row", "column", "first", "passes", "lowest")}
    own["maps"] = [fills.maps[0], list(fills.maps[1])]
    return {**document, "fills": {**own, "rows": rows, "columns": list(columns), "results": list(fills.results)}}


def goals_in_page(lab: Any) -> list[Any]:
    """Returns the goals of a Lab that can be begun and reached in its page."""
    page = lab.declaration.page

    def has(values: Mapping[str, Any]) -> bool:
        return page is not None and bool(page.has(opening(lab, values)))

    return [one for one in lab.declaration.goals if has(one.start) and has({**one.start, **one.solved_by})]


# ---- marks as documents ----


def _views(views: Mapping[str, Sequence[Any]]) -> Iterable[tuple[str, dict[str, Any]]]:
    """Yields the name and the values of each picture."""
    if not views:
        return [("", {})]
    ((name, choices),) = views.items()
    return [(f"/{choice}", {name: choice}) for choice in choices]


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
