"""What a Runner needs of a Lab."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from moe_lab_widgets.engine.recorder import Recorder


class Stage(Protocol):
    """What a Runner needs of a Lab. All are called by the one that runs, never by two threads at once."""

    def begin(self) -> Iterator[Any]:
        """Starts a run with the latest values; may raise."""

    def further(self) -> Iterator[Any] | None:
        """What a run that has ended still has to do for the present look at it; None when nothing."""

    def show(self, records: Recorder, index: int) -> None:
        """Draws a record."""

    def failed(self, error: Exception) -> None:
        """Says in words that the run has failed."""

    def ended(self) -> None:
        """The run came to its end and its last record is drawn."""

    def rested(self) -> None:
        """Something was drawn, and then nothing was asked for a second. Only where there is a thread."""
