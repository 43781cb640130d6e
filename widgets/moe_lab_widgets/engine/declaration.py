"""What a Lab is: a `Declaration` of what runs and what is drawn, and all that is derived from it.

From the Configs of the runs come the checks, the runs side by side, how often they record, the copied code, the saved
data, the status line and the sentences on divergence. `make.lab` makes Labs of declarations.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from moe_lab.core.config import RunConfig
from moe_lab.core.devices import device_names
from moe_lab.core.snapshots import Snapshot
from moe_lab.core.training import Training
from moe_lab_widgets.drawing.panel import Panel
from moe_lab_widgets.drawing.picture import Picture
from moe_lab_widgets.engine.copying import code_of, own_code, started
from moe_lab_widgets.engine.goal import Goal, Question
from moe_lab_widgets.engine.knobs import LabKnob, on_gpu, record_count, time_limit
from moe_lab_widgets.engine.own import records_of
from moe_lab_widgets.engine.record import ONLY, Record, dataset, side_by_side
from moe_lab_widgets.engine.story import Story
from moe_lab_widgets.live.declare import LivePage

if TYPE_CHECKING:
    import xarray

    from moe_lab_widgets.engine.board import KnobBoard

Values = Mapping[str, Any]
Argument = Callable[[Sequence[LabKnob], Any, dict[str, Any]], tuple[Sequence[LabKnob], dict[str, Any]]]

MOST_NAMED = 12
"""Trials that a sentence names one by one."""


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """The arguments of `lab`. Functions that are not given are derived.

    Attributes:
      train, runs, panels, goals, seconds, measures, caption, arguments: see `lab`.
      question: what it asks before a run.
      check: raises a ValueError where values do not fit together.
      check_view: the same for values of view-only knobs.
      training: what trains the runs, by which a page can record them.
      page: how the Lab is recorded for a page without Python.
      begin: begins a run, given its Config and a dict that lasts as long as the Lab, at first with its own arguments.
      steps: returns the steps of a whole run.
      work: returns the numbers that a step touches, by which "auto" chooses a GPU.
      records: the approximate number of records of a run.
      slowest: the most seconds of steps per record.
      more: returns the records that a run that has ended should add for a view-only knob, or None.
      compares: whether a record holds the last one of the run before, which may be large.
      progress: returns the progress of the run in words, by default "step 5 of 9".
      trouble: returns a sentence on what went wrong in a record, besides divergence; empty if nothing did.
      diverged: the sentence on trials whose loss became infinite, with {name} and {trials}, or a function of both.
      code: returns the code that makes the run.
      data: returns the Dataset that "save data" writes.
    """

    train: Callable[..., Iterable[Any]] | None = None
    runs: Callable[[Values], Mapping[str, RunConfig]] | None = None
    training: type[Training[Any]] | None = None
    page: LivePage | None = None
    begin: Callable[[RunConfig, dict[str, Any]], Iterator[Any]] | None = None
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    panels: Sequence[Panel] = ()
    question: Question | None = None
    goals: Sequence[Goal] = ()
    steps: Callable[[Values], int] | None = None
    compares: bool = True
    records: int = 80
    seconds: Callable[[Values], float] | None = None
    slowest: float = 0.05
    measures: Mapping[str, str] | Callable[[RunConfig], Mapping[str, str]] = field(default_factory=dict)
    caption: Callable[[Record], str] | None = None
    progress: Callable[[Record], str] | None = None
    trouble: Callable[[Record], str] | None = None
    diverged: str | Callable[[str, str], str] = "The loss became infinite in {trials}: try a smaller learning rate."
    check: Callable[[Values], object] | None = None
    check_view: Callable[[Values], object] | None = None
    more: Callable[[Record], Iterator[Any] | None] | None = None
    work: Callable[[Values], float] | None = None
    code: Callable[[Values], str] | None = None
    data: Callable[[Record], xarray.Dataset] | None = None


class Declared:
    """What the engine asks of a Lab, derived from its declaration. It knows no widget but the board of its knobs.

    Attributes:
      own: the Lab's own arguments, None where they were not given; hooks find them among the values.
    """

    declaration: ClassVar[Declaration]
    title: ClassVar[str] = "Lab"
    knobs: Sequence[LabKnob] = ()
    stories: ClassVar[Sequence[Story]] = ()
    speed: ClassVar[str] = "easy to follow"
    """The speed at which a Lab opens, one of `controls.SPEEDS`."""
    frames: ClassVar[float] = 30
    """Most frames per second."""
    most_records: ClassVar[int] = 600
    """Most records kept; a longer run is thinned evenly."""
    budget: ClassVar[float] = 20.0
    """Seconds after which a headless run is cut short; MOE_LAB_BUDGET gives every Lab more."""

    own: dict[str, Any]
    scale: float
    _board: KnobBoard
    _cache: dict[str, Any]

    @property
    @abstractmethod
    def values(self) -> dict[str, Any]:
        """Every knob's value, the seed, and the device."""

    @property
    @abstractmethod
    def records(self) -> list[Any]:
        """The records of the present run."""

    def take_arguments(self, values: dict[str, Any]) -> dict[str, Any]:
        """Takes the Lab's own arguments out of the initial values, and returns the values of the knobs."""
        self.own = {}
        for name, take in self.declaration.arguments.items():
            self.own[name] = given = values.pop(name, None)
            if given is not None:
                self.knobs, values = take(self.knobs, given, values)
        self._cache = dict(self.own)
        return values

    def _all(self, values: Values) -> dict[str, Any]:
        """Returns the values that hooks are given."""
        return {**self.own, **values}

    def seen(self, record: Record) -> Record:
        """Returns a record as the view-only knobs show it now."""
        return record.seen_with(self._board.view_of(self.values)) if self._board.view_names else record

    # ---- what runs ----

    def check(self, values: Values) -> None:
        """Raises a ValueError if the values do not fit together. A slider then goes to the nearest value that fits.

        It is called for every value that a slider offers, so it may make Configs, but must sample nothing.
        """
        if self.declaration.runs is not None:
            self.declaration.runs(self._all(values))
        if self.declaration.check is not None:
            self.declaration.check(self._all(values))

    def check_view(self, values: Values) -> None:
        """Raises a ValueError if the value of a view-only knob breaks a rule."""
        if self.declaration.check_view is not None:
            self.declaration.check_view(self._all(values))

    def configs(self, values: Values) -> dict[str, RunConfig]:
        """Returns the Configs of the runs, which record as often as a Lab wants, or as they say themselves."""
        assert self.declaration.runs is not None
        runs = self.declaration.runs(self._all(values))
        return {
            name: run
            if "record_every" in run.model_fields_set
            else run.replace(record_every=self.record_every(values, run))
            for name, run in runs.items()
        }

    def record_every(self, values: Values, run: RunConfig) -> int:
        """Returns the steps per record: `records` in all, but none that takes long. Depends on the values alone."""
        few = round(self._steps(values, run) / record_count(self.declaration.records, values))
        if self.declaration.seconds is None or on_gpu(values):
            return max(1, few)
        return max(
            1, min(few, int(time_limit(self.declaration.slowest, values) / self.declaration.seconds(self._all(values))))
        )

    def start(self, values: dict[str, Any]) -> Iterator[Record]:
        """Checks the values and returns the run, an iterator of records. Called on the worker thread."""
        given = self._all(values)
        if self.declaration.train is not None:
            begun = self._train(given)  # what it refuses at once leaves the run before on show
            return side_by_side({ONLY: lambda: begun}, given, self._total(values), self._before())
        start = self.declaration.begin or _begun
        runs = {name: partial(start, run, self._cache) for name, run in self.configs(values).items()}
        return side_by_side(runs, given, self._total(values), self._before())

    def _train(self, values: Values) -> Iterator[Any]:
        assert self.declaration.train is not None
        return records_of(self.declaration.train, self.declaration.train(**self._arguments(values)))

    def _arguments(self, values: Values) -> dict[str, Any]:
        """Returns the values that the function of a Lab names."""
        assert self.declaration.train is not None
        named = inspect.signature(self.declaration.train).parameters
        every = any(one.kind is one.VAR_KEYWORD for one in named.values())
        given = {name: value for name, value in values.items() if every or name in named}
        own = {"present": lambda: self._all(self.values), "cache": self._cache}
        return {**{name: one for name, one in own.items() if name in named}, **given}  # a knob may have that name

    def more(self, record: Record) -> Iterator[Record] | None:
        """Returns further records of a run that has ended with `record`, where a view-only knob asks for them.

        Called on the worker thread.
        """
        further = None if self.declaration.more is None else self.declaration.more(self.seen(record))
        return None if further is None else self._continued(record, further)

    @staticmethod
    def _continued(record: Record, further: Iterator[Any]) -> Iterator[Record]:
        name = record.names[0]
        for one in further:
            record = replace(record, shots={**record.shots, name: (*record.shots[name], one)})
            yield record

    def work(self, values: Values) -> float:
        """Returns the `RunConfig.numbers_per_step` of the largest run, by which "auto" is a GPU or the CPU.

        The values have passed `check`.
        """
        if self.declaration.work is not None:
            return self.declaration.work(self._all(values))
        if self.declaration.runs is None:
            return 0.0
        return max(run.numbers_per_step for run in self.declaration.runs(self._all(values)).values())

    def devices(self) -> tuple[str, ...]:
        """Returns the devices on which the Lab can run, the CPU first."""
        return device_names()

    def _total(self, values: Values) -> int:
        """Returns the steps of a whole run: those of its Configs, or the argument `steps` of a function; else 0."""
        if self.declaration.steps is not None:
            return self.declaration.steps(self._all(values))
        if self.declaration.runs is not None:
            return max(self._steps(values, run) for run in self.declaration.runs(self._all(values)).values())
        assert self.declaration.train is not None
        named = inspect.signature(self.declaration.train).parameters.get("steps")
        default = 0 if named is None or named.default is named.empty else named.default
        return int(values.get("steps", default))

    def _steps(self, values: Values, run: RunConfig) -> int:
        if self.declaration.steps is not None:
            return self.declaration.steps(self._all(values))
        return int(getattr(run, "last_step", 0) or values["steps"])

    def _before(self) -> Record | None:
        """Returns the end of the run before; where that was cut short, with the end of the last whole run before it."""
        records = self.records if self.declaration.compares else []
        if not records:
            return None
        last: Record = records[-1]
        whole = None if last.ended or last.before is None else last.before.before or last.before
        return replace(last, shots={name: shots[-1:] for name, shots in last.shots.items()}, before=whole)

    # ---- what is shown and saved ----

    def make_picture(self, values: dict[str, Any]) -> Picture:
        """Returns the picture. Called once."""
        return Picture(self.declaration.panels, scale=self.scale)

    def parts(self, record: Record) -> dict[str, Snapshot]:
        """Returns the Snapshots in a record, by the name of their run."""
        shots = {name: getattr(part, "shot", part) for name, part in record.parts.items()}
        return {name: shot for name, shot in shots.items() if isinstance(shot, Snapshot)}

    def progress(self, record: Record) -> str:
        """Returns how far the run is, in words."""
        if self.declaration.progress is not None:
            return self.declaration.progress(self.seen(record))
        return f"step {record.step}" + (f" of {record.total}" if record.total else "")

    def caption(self, record: Record) -> str:
        """Returns a sentence that describes the picture."""
        return "" if self.declaration.caption is None else self.declaration.caption(self.seen(record))

    def trouble(self, record: Record) -> str:
        """Returns what went wrong in this record, in words; empty when nothing did."""
        lost = {name: part.diverged for name, part in self.parts(record).items() if part.diverged.any()}
        sentences = [self._diverged(name, trials_in_words(which)) for name, which in lost.items()]
        if self.declaration.trouble is not None:
            sentences.append(self.declaration.trouble(self.seen(record)))
        return " ".join(filter(None, sentences))

    def _diverged(self, name: str, trials: str) -> str:
        words = self.declaration.diverged
        return words(name, trials) if callable(words) else words.format(name=name, trials=trials)

    def code(self, values: dict[str, Any]) -> str:
        """Returns the Python code that makes this run."""
        if self.declaration.code is not None:
            return self.declaration.code(self._all(values))
        if self.declaration.train is not None:
            given = self._arguments(values)
            return own_code(self.declaration.train, {name: given[name] for name in given if name in values})
        return code_of(self.configs(values), self.declaration.measures, self.own)

    def data(self, records: Sequence[Record]) -> xarray.Dataset:
        """Returns what "save data" writes."""
        now = self.seen(records[-1])
        now = replace(now, values={**now.values, "device": self.values["device"]})  # as asked for, not as found
        if self.declaration.data is not None:
            return self.declaration.data(now)
        return dataset(now, self.code(dict(now.values)) if self.declaration.train is not None else "")


def _begun(run: RunConfig, cache: dict[str, Any]) -> Iterator[Any]:
    return started(run)


def trials_in_words(which: NDArray[np.bool_]) -> str:
    """Returns some trials in words: "trials 2, 4", or how many where there are many."""
    numbers = [str(trial + 1) for trial in np.flatnonzero(which)]
    if len(numbers) > MOST_NAMED:
        return f"{len(numbers)} of {len(which)} trials"
    return f"trial{'s' * (len(numbers) > 1)} {', '.join(numbers)}"
