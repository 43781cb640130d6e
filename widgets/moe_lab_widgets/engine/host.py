"""What a Runner needs of a Lab."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from moe_lab_widgets.engine.recorder import Recorder


class Host(Protocol):
    """What a Runner needs of a Lab. Never called by two threads at once."""

    def begin(self) -> Iterator[Any]:
        """Starts a run with the latest values; may raise."""

    def further(self) -> Iterator[Any] | None:
        """Returns the records that a run that has ended should add for the present view; None for none."""

    def show(self, records: Recorder, index: int) -> None:
        """Draws a record."""

    def failed(self, error: Exception) -> None:
        """Reports in words that the run has failed."""

    def ended(self) -> None:
        """Called when the run has ended and its last record is drawn."""

    def idle(self) -> None:
        """Called when nothing was asked for during a second after a frame. Only where there is a thread."""
