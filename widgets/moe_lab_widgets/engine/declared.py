"""A Lab as a declaration: knobs, what runs, and panels that draw. The rest is derived.

Your own::

    MyLab = lab("What moves", train, knobs=(slider("rate", 0.1, 0.01, 1), ...), panels=(Panel("Loss", draw_loss),))

`train` is any function that yields records (dicts, Snapshots, objects); it is called with the knobs that it names.

Of the library::

    SpecializationLab = lab("Specialization", runs=runs, knobs=..., panels=..., caption=..., stories=...)

`runs(values)` returns Configs of runs, by name. From them come the checks, the runs side by side, how often they
record, the copied code, the saved data, the status line and the sentences on divergence.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from moe_lab.core.config import RunConfig, require
from moe_lab.core.errors import InputError
from moe_lab.core.scalars import python_of
from moe_lab.core.snapshots import Snapshot
from moe_lab_widgets.drawing.panel import Panel
from moe_lab_widgets.drawing.picture import Picture
from moe_lab_widgets.engine.copying import code_of, own_code, started
from moe_lab_widgets.engine.definition import Story, trials_in_words
from moe_lab_widgets.engine.knobs import LabKnob, on_gpu, record_count, time_limit
from moe_lab_widgets.engine.lab import Lab
from moe_lab_widgets.engine.now import ONLY, Now, dataset, moments
from moe_lab_widgets.engine.own import check_arguments, check_parts, records_of

if TYPE_CHECKING:
    import xarray

Values = Mapping[str, Any]
Argument = Callable[[Sequence[LabKnob], Any, dict[str, Any]], tuple[Sequence[LabKnob], dict[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """The arguments of `lab`. Functions that are not given are derived.

    Attributes:
      train, runs, panels, seconds, measures, caption, arguments: see `lab`.
      check: raises a ValueError where values do not fit together.
      check_view: the same for values of view-only knobs.
      begin: begins a run, given its Config and a dict that lasts as long as the Lab.
      steps: returns the steps of a whole run.
      work: returns the numbers that a step touches, by which "auto" chooses a GPU.
      records: the approximate number of records of a run.
      slowest: the most seconds of steps per record.
      more: returns the records that a run that has ended should add for a view-only knob, or None.
      compares: whether a moment holds the last one of the run before, which may be large.
      progress: returns the progress of the run in words, by default "step 5 of 9".
      trouble: returns a sentence on what went wrong in a record, besides divergence; empty if nothing did.
      diverged: the sentence on trials whose loss became infinite, with {name} and {trials}, or a function of both.
      code: returns the code that makes the run.
      data: returns the Dataset that "save data" writes.
    """

    train: Callable[..., Iterable[Any]] | None = None
    runs: Callable[[Values], Mapping[str, RunConfig]] | None = None
    begin: Callable[[RunConfig, dict[str, Any]], Iterator[Any]] | None = None
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    panels: Sequence[Panel] = ()
    steps: Callable[[Values], int] | None = None
    compares: bool = True
    records: int = 80
    seconds: Callable[[Values], float] | None = None
    slowest: float = 0.05
    measures: Mapping[str, str] | Callable[[RunConfig], Mapping[str, str]] = field(default_factory=dict)
    caption: Callable[[Now], str] | None = None
    progress: Callable[[Now], str] | None = None
    trouble: Callable[[Now], str] | None = None
    diverged: str | Callable[[str, str], str] = "The loss became infinite in {trials}: try a smaller learning rate."
    check: Callable[[Values], object] | None = None
    check_view: Callable[[Values], object] | None = None
    more: Callable[[Now], Iterator[Any] | None] | None = None
    work: Callable[[Values], float] | None = None
    code: Callable[[Values], str] | None = None
    data: Callable[[Now], xarray.Dataset] | None = None


class Declared(Lab):
    """The base of the classes that `lab` makes.

    Attributes:
      own: the Lab's own arguments, None where they were not given; hooks find them among the values.
    """

    declaration: ClassVar[Declaration]

    def __init__(self, /, *, playing: bool = True, projector: bool = False, **values: Any) -> None:
        self.own: dict[str, Any] = {}
        self._kept: dict[str, Any] = {}
        for name, take in self.declaration.arguments.items():
            self.own[name] = given = values.pop(name, None)
            if given is not None:
                self.knobs, values = take(self.knobs, given, values)
        super().__init__(playing=playing, projector=projector, **values)

    def _all(self, values: Values) -> dict[str, Any]:
        """Returns the values that hooks are given."""
        return {**self.own, **values}

    def _seen(self, record: Now) -> Now:
        """Returns a moment as the view-only knobs show it now."""
        return record.seen_with(self._board.view_of(self.values)) if self._board.view_names else record

    # ---- what runs ----

    def check(self, values: Values) -> None:
        if self.declaration.runs is not None:
            self.declaration.runs(self._all(values))
        if self.declaration.check is not None:
            self.declaration.check(self._all(values))

    def check_view(self, values: Values) -> None:
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

    def start(self, values: dict[str, Any]) -> Iterator[Now]:
        given = self._all(values)
        if self.declaration.train is not None:
            begun = self._train(given)  # what it refuses at once leaves the run before on show
            return moments({ONLY: lambda: begun}, given, self._total(values), self._before())
        start = self.declaration.begin or _begun
        runs = {name: partial(start, run, self._kept) for name, run in self.configs(values).items()}
        return moments(runs, given, self._total(values), self._before())

    def _train(self, values: Values) -> Iterator[Any]:
        assert self.declaration.train is not None
        return records_of(self.declaration.train, self.declaration.train(**self._arguments(values)))

    def _arguments(self, values: Values) -> dict[str, Any]:
        """Returns the values that the function of a Lab names."""
        assert self.declaration.train is not None
        named = inspect.signature(self.declaration.train).parameters
        every = any(one.kind is one.VAR_KEYWORD for one in named.values())
        given = {name: value for name, value in values.items() if every or name in named}
        own = {"present": lambda: self._all(self.values), "kept": self._kept}
        return {**{name: one for name, one in own.items() if name in named}, **given}  # a knob may have that name

    def more(self, record: Now) -> Iterator[Now] | None:
        further = None if self.declaration.more is None else self.declaration.more(self._seen(record))
        return None if further is None else self._continued(record, further)

    @staticmethod
    def _continued(record: Now, further: Iterator[Any]) -> Iterator[Now]:
        name = record.names[0]
        for one in further:
            record = replace(record, shots={**record.shots, name: (*record.shots[name], one)})
            yield record

    def work(self, values: Values) -> float:
        if self.declaration.work is not None:
            return self.declaration.work(self._all(values))
        if self.declaration.runs is None:
            return 0.0
        return max(run.numbers_per_step for run in self.declaration.runs(self._all(values)).values())

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

    def _before(self) -> Now | None:
        """Returns the end of the run before; where that was cut short, with the end of the last whole run before it."""
        records = self.records if self.declaration.compares else []
        if not records:
            return None
        last: Now = records[-1]
        whole = None if last.ended or last.before is None else last.before.before or last.before
        return replace(last, shots={name: shots[-1:] for name, shots in last.shots.items()}, before=whole)

    # ---- what is shown and saved ----

    def make_picture(self, values: dict[str, Any]) -> Picture:
        return Picture(self.declaration.panels, scale=self.scale)

    def parts(self, record: Now) -> dict[str, Snapshot]:
        shots = {name: getattr(part, "shot", part) for name, part in record.parts.items()}
        return {name: shot for name, shot in shots.items() if isinstance(shot, Snapshot)}

    def progress(self, record: Now) -> str:
        if self.declaration.progress is not None:
            return self.declaration.progress(self._seen(record))
        return f"step {record.step}" + (f" of {record.total}" if record.total else "")

    def caption(self, record: Now) -> str:
        return "" if self.declaration.caption is None else self.declaration.caption(self._seen(record))

    def trouble(self, record: Now) -> str:
        lost = {name: part.diverged for name, part in self.parts(record).items() if part.diverged.any()}
        sentences = [self._diverged(name, trials_in_words(which)) for name, which in lost.items()]
        if self.declaration.trouble is not None:
            sentences.append(self.declaration.trouble(self._seen(record)))
        return " ".join(filter(None, sentences))

    def _diverged(self, name: str, trials: str) -> str:
        words = self.declaration.diverged
        return words(name, trials) if callable(words) else words.format(name=name, trials=trials)

    def code(self, values: dict[str, Any]) -> str:
        if self.declaration.code is not None:
            return self.declaration.code(self._all(values))
        if self.declaration.train is not None:
            given = self._arguments(values)
            return own_code(self.declaration.train, {name: given[name] for name in given if name in values})
        return code_of(self.configs(values), self.declaration.measures, self.own)

    def data(self, records: Sequence[Now]) -> xarray.Dataset:
        now = self._seen(records[-1])
        now = replace(now, values={**now.values, "device": self.values["device"]})  # as asked for, not as found
        if self.declaration.data is not None:
            return self.declaration.data(now)
        return dataset(now, self.code(dict(now.values)) if self.declaration.train is not None else "")


def _begun(run: RunConfig, kept: dict[str, Any]) -> Iterator[Any]:
    return started(run)


def lab(
    title: str,
    train: Callable[..., Iterable[Any]] | None = None,
    *,
    knobs: Sequence[LabKnob],
    panels: Sequence[Panel],
    caption: Callable[[Now], str] | None = None,
    stories: Sequence[Story] = (),
    runs: Callable[[Values], Mapping[str, RunConfig]] | None = None,
    seconds: Callable[[Values], float] | None = None,
    measures: Mapping[str, str] | Sequence[str] | Callable[[RunConfig], Mapping[str, str]] = (),
    arguments: Mapping[str, Argument] | None = None,
    name: str = "",
    about: str = "",
    **more: Any,
) -> type[Declared]:
    """Makes a Lab: a class, of which `MyLab(rate=0.2)` is one on the page.

    Args:
      title: its heading.
      train: a function that yields records (dicts, Snapshots, objects), called with the knobs that it names, and with
        `present`, a function that returns the present values, and `kept`, a dict that lasts as long as the Lab, if it
        names them. Records may have a Snapshot as `shot`, from which divergence is read; or
      runs: a function of the values that returns Configs of runs, by name. The first is under study. How often they
        record is derived, unless they are given `record_every`.
      knobs: sliders and choices (`slider`, `offer`, `LabKnob`). Every Lab has a seed and a device, too.
      panels: what is drawn.
      caption: returns the sentence below the picture.
      stories: presets.
      seconds: about how long a step of all runs takes on one CPU thread.
      measures: the measures that copied code prints, each with the word before it, or a function that returns them for
        a run; the first one is drawn.
      arguments: further arguments of the Lab's constructor: for each name a function of the knobs, of the argument and
        of the initial values, which returns knobs and values. Functions find the argument among their values.
      name: of the class; by default from the title.
      about: its docstring.
      more: any other attribute of `Declaration` that is not to be derived: check, progress, code, data and others; and
        speed, frames, most_records or budget of `Definition`.

    Raises:
      ValueError: not exactly one of train and runs is given, or there is no such hook.
    """
    if (train is None) == (runs is None):
        got = "neither" if train is None else "both"
        raise InputError(f"a Lab must have either a function that yields records (train) or Configs (runs): got {got}")
    settings: dict[str, Any] = {
        one: more.pop(one) for one in ("speed", "frames", "most_records", "budget") if one in more
    }
    unknown = set(more) - set(Declaration.__dataclass_fields__)
    if unknown:
        raise InputError(
            f"a Lab must be made of what `help(lab)` and `Declaration` name: got {', '.join(sorted(unknown))}"
        )
    check_parts(knobs, panels, stories)
    if train is not None:
        check_arguments(train, knobs, arguments or {})
    printed = measures if isinstance(measures, Mapping) or callable(measures) else dict.fromkeys(measures, "")
    declaration = Declaration(
        train=train, runs=runs, panels=tuple(panels), caption=caption, seconds=seconds, measures=printed,
        arguments=arguments or {}, **more,
    )  # fmt: skip
    caller = inspect.currentframe().f_back  # type: ignore[union-attr]
    attributes: dict[str, Any] = {
        "title": title,
        "knobs": tuple(knobs),
        "stories": tuple(stories),
        "declaration": declaration,
        "__module__": caller.f_globals.get("__name__", "__main__") if caller else "__main__",
        "__doc__": about or title,
        **settings,
    }
    return type(name or "".join(filter(str.isalnum, title.title())) + "Lab", (Declared,), attributes)


def slider(
    name: str, default: float, low: float, high: float, step: float | None = None, meaning: str = "", **more: Any
) -> LabKnob:
    """Returns a slider for a Lab of your own.

    Args:
      name: the argument that it sets.
      default: its first value; whole numbers make a slider of whole numbers.
      low, high: its ends.
      step: between two values; None for about a hundredth of the range.
      meaning: its label; by default the name.
      more: other attributes of a `LabKnob`, such as `symbol`, `main` or `enabled_when`.
    """
    default, low, high, step = python_of((default, low, high, step))
    require(low <= default <= high and low < high, f"the slider {name} must begin between its ends", default=default)
    whole = all(isinstance(one, int) for one in (default, low, high))
    if step is None:
        step = 1 if whole else 10.0 ** round(math.log10((high - low) / 100))
    return LabKnob(
        name=name,
        meaning=meaning or name.replace("_", " "),
        default=default,
        low=low,
        near=low,
        far=high,
        slider=(low, high, step),
        **more,
    )
