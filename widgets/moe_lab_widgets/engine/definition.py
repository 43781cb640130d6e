"""What an engine asks of a Lab, whatever it is made of. `lab` (declared.py) makes Labs that answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from moe_lab.core.devices import device_names
from moe_lab.core.snapshots import Snapshot
from moe_lab_widgets.engine.knobs import LabKnob

if TYPE_CHECKING:
    import xarray

    from moe_lab_widgets.drawing.picture import Picture

MOST_NAMED = 12
"""Trials that a sentence names one by one."""


@dataclass(frozen=True)
class Story:
    """A preset: knob values (the others take their defaults) and a sentence on what it shows."""

    name: str
    values: Mapping[str, Any]
    what_to_see: str


class Definition:
    """Attributes and hooks of a Lab."""

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

    def check(self, values: Mapping[str, Any]) -> None:
        """Raises a ValueError if the values do not fit together. A slider then goes to the nearest value that fits.

        It is called for every value that a slider offers, so it may make Configs, but must sample nothing.
        """

    def check_view(self, values: Mapping[str, Any]) -> None:
        """Raises a ValueError if the value of a view-only knob breaks a rule."""

    def start(self, values: dict[str, Any]) -> Iterator[Any]:
        """Checks the values and returns the run, an iterator of records. Called on the worker thread."""
        raise NotImplementedError

    def more(self, record: Any) -> Iterator[Any] | None:
        """Returns further records of a run that has ended with `record`, where a view-only knob asks for them.

        Called on the worker thread.
        """
        raise NotImplementedError

    def work(self, values: Mapping[str, Any]) -> float:
        """Returns the `RunConfig.numbers_per_step` of the largest run, by which "auto" is a GPU or the CPU.

        The values have passed `check`.
        """
        raise NotImplementedError

    def devices(self) -> tuple[str, ...]:
        """Returns the devices on which the Lab can run, the CPU first."""
        return device_names()

    def make_picture(self, values: dict[str, Any]) -> Picture:
        """Returns the picture. Called once."""
        raise NotImplementedError

    def caption(self, record: Any) -> str:
        """Returns a sentence that describes the picture."""
        raise NotImplementedError

    def progress(self, record: Any) -> str:
        """Returns how far the run is, in words."""
        raise NotImplementedError

    def trouble(self, record: Any) -> str:
        """Returns what went wrong in this record, in words; empty when nothing did."""
        raise NotImplementedError

    def code(self, values: dict[str, Any]) -> str:
        """Returns the Python code that makes this run."""
        raise NotImplementedError

    def data(self, records: Sequence[Any]) -> xarray.Dataset:
        """Returns what "save data" writes."""
        raise NotImplementedError

    def parts(self, record: Any) -> dict[str, Snapshot]:
        """Returns the Snapshots in a record, by the name of their run."""
        raise NotImplementedError


def trials_in_words(which: NDArray[np.bool_]) -> str:
    """Returns some trials in words: "trials 2, 4", or how many where there are many."""
    numbers = [str(trial + 1) for trial in np.flatnonzero(which)]
    if len(numbers) > MOST_NAMED:
        return f"{len(numbers)} of {len(which)} trials"
    return f"trial{'s' * (len(numbers) > 1)} {', '.join(numbers)}"
