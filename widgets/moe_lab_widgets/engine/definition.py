"""What the author of a Lab writes.

A Lab in one screen::

    class MyLab(Lab):
        title = "What moves"
        knobs = (offer(PatternTask, "patches"), offer(JointMoE, "learning_rate", default=2.0))
        stories = (Story("Too noisy", {"noise": 1.5}, "Watch the accuracy stay at 50 %."),)

        def start(self, values):                  # checks first; a ValueError is shown beside the picture
            task, model = given(PatternTask, values), given(JointMoE, values)
            return train(model, task, seed=values["seed"])     # an iterator of records; many records = an agile slider
        def make_picture(self, values):               # once; later runs call picture.begin(values)
            return MyPicture(values, scale=self.scale)
        def caption(self, record):                    # the sentence below the picture
            return f"Step {record.step}: accuracy {...} %."
        def code(self, values):                       # the call that makes this run without a Lab
            return f"train({given(JointMoE, values).code()}, ...)"

A record is a `Snapshot`, a `Pair` (two runs with their histories; see pair.py), or anything plain and complete that a
picture can read. `values` holds every knob by name, and `seed`. `offer(Config, "name", ...)` makes a knob of a declared
parameter, with words or ranges of its own; other knobs are `LabKnob(...)`, with a slider range or choices. A knob can
declare `main`, `enabled_when`, `follows`, `at_most`, `far` and `view_only` (see `LabKnob`).
`given(Config, values)` makes the Config. Every Lab has the setting `device`, too: `start` receives where to compute as
`values["device"]`, `placed(values)` are the arguments for `train`, and `work(values)` says how much a step has to do.
At the fastest speed a run measures rarely: `fewer` and `longest` (knobs.py) say how many records it then makes.
`check(values)` keeps sliders among values that fit one another. `start` runs on a worker thread and
must not touch widgets. Moving a `view_only` knob calls `picture.set_view({name: value})`, draws the present record
again and starts nothing, unless `more(record)` returns records that the ended run should still add.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from moe_lab.devices import CPU, present
from moe_lab.training import Snapshot, collect
from moe_lab_widgets.engine.knobs import LabKnob

if TYPE_CHECKING:
    import xarray

MOST_NAMED = 12
"""Trials that a sentence names one by one."""


@dataclass(frozen=True)
class Story:
    """A preset: knob values (the others take their defaults) and a sentence on what to see."""

    name: str
    values: Mapping[str, Any]
    what_to_see: str


class Definition:
    """Attributes and hooks of a Lab. Those that raise NotImplementedError must be overridden."""

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
    cpu_because: ClassVar[str] = ""
    """Why the Lab computes on the CPU alone, in words; empty where a GPU can compute."""

    def check(self, values: Mapping[str, Any]) -> None:
        """Raises a ValueError if the values do not fit together. A slider then goes to the nearest value that fits.

        It is asked once for every value that a slider offers, so that it may make Configs, but sample nothing.
        """

    def start(self, values: dict[str, Any]) -> Iterator[Any]:
        """Checks the values and returns the run, an iterator of records. Called on the worker thread."""
        raise NotImplementedError(f"{type(self).__name__} must write start(values)")

    def make_picture(self, values: dict[str, Any]) -> Any:
        """Returns the Picture. Called once."""
        raise NotImplementedError(f"{type(self).__name__} must write make_picture(values)")

    def caption(self, record: Any) -> str:
        """Returns one sentence that describes the picture."""
        raise NotImplementedError(f"{type(self).__name__} must write caption(record)")

    def code(self, values: dict[str, Any]) -> str:
        """Returns the Python code that makes this run."""
        raise NotImplementedError(f"{type(self).__name__} must write code(values)")

    def parts(self, record: Any) -> dict[str, Snapshot]:
        """Returns the Snapshots in a record, by model name."""
        return {"run": record} if isinstance(record, Snapshot) else {}

    def data(self, records: Sequence[Any]) -> xarray.Dataset:
        """Returns what "save data" writes: by default all values of all records, which must be Snapshots."""
        return collect(records)

    def more(self, record: Any) -> Iterator[Any] | None:
        """Returns further records of a run that has ended with `record`, where a view-only knob asks for them.

        Called on the worker thread. A run that has not ended must read `self.values` itself.
        """
        return None

    def check_view(self, values: Mapping[str, Any]) -> None:
        """Raises a ValueError if the value of a view-only knob breaks a rule."""

    def diverged(self, name: str, trials: str) -> str:
        """Returns the sentence on a part whose loss became infinite in some trials, as in "trials 2, 4"."""
        return f"The loss became infinite in {trials}: try a smaller learning rate."

    def trouble(self, record: Any) -> str:
        """Returns what went wrong in this record, in words; empty when nothing did."""
        sentences = []
        for name, part in self.parts(record).items():
            if part.diverged.any():
                sentences.append(self.diverged(name, _trials(part.diverged)))
        return " ".join(sentences)

    def progress(self, record: Any) -> str:
        """Returns how far the run is, in words."""
        return f"step {record.step}"

    def work(self, values: Mapping[str, Any]) -> float:
        """Returns how many numbers a step touches (`RunConfig.numbers`), of the largest run: "auto" is a GPU by that.

        The values have passed `check`.
        """
        return 0.0

    def devices(self) -> tuple[str, ...]:
        """Returns the devices on which the Lab can run, the CPU first."""
        return (CPU,) if self.cpu_because else present()


def _trials(which: NDArray[np.bool_]) -> str:
    """Returns some trials in words: "trials 2, 4", or how many where there are many."""
    numbers = [str(trial + 1) for trial in np.flatnonzero(which)]
    if len(numbers) > MOST_NAMED:
        return f"{len(numbers)} of {len(which)} trials"
    return f"trial{'s' * (len(numbers) > 1)} {', '.join(numbers)}"
