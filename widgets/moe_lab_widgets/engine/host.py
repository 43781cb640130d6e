"""What a Runner asks of whoever shows its records."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Protocol

from moe_lab_widgets.engine.recorder import Recorder


class Outcome(StrEnum):
    """How waiting for a run has come to an end. Only `OUT_OF_TIME` is false in a condition."""

    ENDED = "ended"
    """The run has come to its end."""
    HELD = "held"
    """The run is paused, and goes on with `play()`."""
    OUT_OF_TIME = "out of time"
    """The run still trains; or it was held because the seconds that it may train inside a cell are over."""

    def __bool__(self) -> bool:
        return self is not Outcome.OUT_OF_TIME


class Run(Protocol):
    """The state of a Runner that a Host may read."""

    records: Recorder
    playing: bool
    error: Exception | None
    seconds: float
    resting: bool

    @property
    def finished(self) -> bool:
        """Whether the run of the latest values has come to its end."""

    @property
    def scrubbed_to(self) -> int | None:
        """The index of the earlier record on show, or None when the picture follows the run."""


class Host(Protocol):
    """The methods of a Lab that a Runner calls, never from two threads at the same time."""

    def begin(self, runner: Run) -> Iterator[Any]:
        """Starts a run with the latest values; may raise."""

    def further(self, runner: Run) -> Iterator[Any] | None:
        """Returns the records that a run that has ended should add for the present view; None for none."""

    def ready(self) -> bool:
        """Whether a frame may be drawn now, or must wait for the page."""

    def show(self, runner: Run, index: int) -> None:
        """Draws the index-th record."""

    def fill(self, runner: Run) -> bool:
        """Draws one earlier record that the page lacks; returns whether there may be more."""

    def nudge(self) -> None:
        """Asks the page for an answer, on which `go_on` is called."""

    def failed(self, error: Exception) -> None:
        """Reports in words that the run has failed."""

    def ended(self, runner: Run) -> None:
        """Called when the run has ended and its last record is drawn."""

    def idle(self) -> None:
        """Called a second after a frame if nothing was requested since; only where there is a thread."""
