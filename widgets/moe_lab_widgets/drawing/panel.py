"""A panel of a Lab's picture: two plain functions on matplotlib Axes.

::

    def furnish(ax, values):                # what stays during a run: limits, ticks, labels, rules
        ax.set(xlim=(0, values["steps"]), ylim=(0, 1), xlabel="step", ylabel="accuracy")
    def draw(ax, now):                      # what one record looks like, with any call of matplotlib
        ax.plot(*now.curve("accuracy"), color="k", label="accuracy")
    Panel("Accuracy", draw, furnish)

`draw` is called for each frame on Axes that hold the furniture alone: what it adds is the frame's content and is
removed before the next frame, so nothing is registered, moved or updated. A `label` is what a pointer over an artist
shows, and a labelled line is what a pin keeps. Limits that `furnish` leaves open grow with the data. A `draw` that
changes ticks, limits or titles works, too, but has the furniture drawn again (30 ms).

`furnish` is called again when a value that it has read changes. Where many values give one result, it reads the result:
`low = values.of(lowest_accuracy)` calls `lowest_accuracy(values)`, and only another result furnishes the panel again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

Result = TypeVar("Result")


class PanelMarks(NamedTuple):
    """Functions that return marks for each of a panel's Axes; and its note, or a function that returns words."""

    furniture: Callable[[Any], Any]
    draw: Callable[[Any], Any]
    note: Any


@dataclass(frozen=True)
class Panel:
    """One panel of a Lab's picture: the functions that draw it, and its size.

    Attributes:
      title: its heading.
      draw: takes the Axes (a list if there are several) and the present `Record`.
      furnish: takes the Axes and the values of the knobs.
      note: a line or two below the title, or a function of the values that returns it.
      width: its share of the picture's width.
      margins: pixels around the Axes: left, right, top, bottom; None for as much as ticks and labels need.
      rows: the number of Axes on top of one another, or their relative heights: (1, 4).
      columns: Axes side by side, in each row.
      gap: pixels between them.
      pin: draws a pinned record, given the Axes, that record and the present one; without it a pin keeps labelled
        lines, dotted.
      above: pixels above the Axes in which marks stand; a page leaves out what is above them.
      marks: the functions of which `mark_panel` has made it.
    """

    title: str
    draw: Callable[[Any, Any], None]
    furnish: Callable[[Any, PanelValues], None] = lambda ax, values: None
    note: str | Callable[[Mapping[str, Any]], str] = ""
    width: float = 1.0
    margins: tuple[float, float, float, float] | None = None
    rows: int | tuple[float, ...] = 1
    columns: int = 1
    gap: float = 34
    pin: Callable[[Any, Any, Any], None] | None = None
    above: float = 34
    marks: PanelMarks | None = None

    @property
    def heights(self) -> tuple[float, ...]:
        """The heights of its Axes in proportion."""
        return self.rows if isinstance(self.rows, tuple) else (1.0,) * self.rows

    def note_of(self, values: PanelValues) -> str:
        """Returns the note for some values."""
        return values.of(self.note) if callable(self.note) else self.note


class PanelValues(Mapping[str, Any]):
    """Values that remember which of them were read, and what functions of them returned."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._read: dict[str, Any] = {}
        self._results: dict[Callable[[Any], Any], Any] = {}

    def __getitem__(self, name: str) -> Any:
        self._read[name] = value = self._values[name]
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def of(self, function: Callable[[Mapping[str, Any]], Result]) -> Result:
        """Returns a function's result for these values; what the function reads does not count as read."""
        result = self._results[function] = function(self._values)
        return result

    def same(self, values: Mapping[str, Any]) -> bool:
        """Whether all that was read is the same for other values."""
        return all(values[name] == value for name, value in self._read.items()) and all(
            function(values) == result for function, result in self._results.items()
        )
