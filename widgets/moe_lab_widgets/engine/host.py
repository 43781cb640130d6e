"""What a Runner needs of a Lab."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from moe_lab_widgets.engine.runner import Runner


class Host(Protocol):
    """What a Runner needs of a Lab. Never called by two threads at the same time."""

    def begin(self, runner: Runner) -> Iterator[Any]:
        """Starts a run with the latest values; may raise."""

    def further(self, runner: Runner) -> Iterator[Any] | None:
        """Returns the records that a run that has ended should add for the present view; None for none."""

    def show(self, runner: Runner, index: int) -> None:
        """Draws the index-th record."""

    def failed(self, error: Exception) -> None:
        """Reports in words that the run has failed."""

    def ended(self, runner: Runner) -> None:
        """Called when the run has ended and its last record is drawn."""

    def idle(self) -> None:
        """Called when nothing was asked for during a second after a frame. Only where there is a thread."""
