"""What a page without Python has of a Lab."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

Values = tuple[float, float, float]
"""Where a knob is at first, where it goes alone, and another value for the checks."""


@dataclass(frozen=True)
class Fills:
    """The map that a page fills with trainings, of one trial each; or several maps of the same cells.

    Attributes:
      run: returns the Config of a training for the values of the knobs and of `own`.
      training: begins it.
      results: what is kept of it: takes its last record (`MarkRecord`), returns a number.
      own: the values that a training has besides, as recorded first: that of its row, then that of its column.
      rows: the size (`Derived`) that says how many rows there are.
      columns: returns the values of the columns for the values of the knobs.
      numbers: at which sizes the map's picture is recorded, as `LivePage.numbers`.
      first: trials of every cell that train before the others.
      passes: over the data, in a training; 0 where its stages say how long it is.
      lowest: the value of the lowest row; each row's is one more than that of the row below.
      maps: where there are several, the name of a value that a training has besides, and its value for each map.
    """

    run: Callable[[Mapping[str, Any]], Any]
    training: Callable[[Any], Any]
    results: Mapping[str, Callable[[Any], Any]]
    own: Mapping[str, Any]
    rows: str
    columns: Callable[[Mapping[str, Any]], Sequence[int]]
    numbers: Mapping[str, tuple[float, float, float]]
    first: int
    passes: int = 0
    lowest: int = 1
    maps: tuple[str, Sequence[str]] = ("", ())

    @property
    def row(self) -> str:
        return next(iter(self.own))

    @property
    def column(self) -> str:
        return list(self.own)[1]


@dataclass(frozen=True)
class Derived:
    """A size that is no knob: a product of powers of knobs, rounded up, less a number.

    Attributes:
      powers: of the knobs; a recording for some size has the first one, whose power is 1, at a value that leads to it.
      most: the knob, or the number, that it does not exceed.
    """

    powers: Mapping[str, float]
    most: str | float
    less: int = 0

    def knob_for(self, size: float, values: Mapping[str, Any]) -> dict[str, float]:
        """Returns the value of the first knob that leads to a size, where the other knobs have these values."""
        first, *others = self.powers
        product_of_others = math.prod(float(values[name]) ** self.powers[name] for name in others)
        return {first: (size + self.less - 0.5) / product_of_others}


@dataclass(frozen=True)
class LivePage:
    """How a Lab is recorded for a page.

    A knob of `numbers` may take any value there. One of `choices` decides which operations there are, so that the Lab
    is recorded for each of its choices: a value, or a range (low, high) of values that have the same operations. Where
    choices are a list, the first one that a run's values fit is taken; a knob of `numbers` that it does not name may
    have any of its values there.

    Attributes:
      numbers: the values at which a knob is recorded: where all are at first, where it goes alone, and another one for
        the checks. Sizes of 1 and factors of 0 are no good: what torch leaves out there is not recorded. Of one whose
        choices are ranges, these values for each range.
      choices: choices by knob, of which any go together, or those that do.
      derived: sizes of `numbers` that are no knobs.
      fixed: knobs that the page does not have, with their values.
      looks: view-only knobs that pictures read as numbers, so that a page draws its records anew when one moves. For
        any other view-only knob a picture is recorded for each of its choices.
      missing: what the page lacks, as sentences.
      drawn: what becomes of the samples on show with what a visitor draws in their patches: takes what marks read
        (`RecordedNow`), returns the patches that are `kept` (class, expert, patch) and words that are `said`; nothing
        where there is nothing to draw in.
      restricted: pairs of knobs of which the second decides how far the first may go, and the conditions under which it
        does, if there are any: {"knob": name, "is": values} or {"knob": name, "not": values}.
      fills: the map that it fills, where it is one.
      length: the knob that says how many steps a run has.
    """

    numbers: Mapping[str, Values | Mapping[tuple[float, float], Values]]
    choices: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]] = field(default_factory=dict)
    derived: Mapping[str, Derived] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    looks: Sequence[str] = ()
    missing: Sequence[str] = ()
    drawn: Callable[[Any], Mapping[str, Any]] | None = None
    restricted: Sequence[tuple[Any, ...]] = ()
    fills: Fills | None = None
    length: str = "steps"

    def moving(self, when: Mapping[str, Any]) -> dict[str, Values]:
        """Returns the values at which the knobs that may move in a variant are recorded."""
        still = self.still(when)
        return {
            name: values[when[name]] if isinstance(values, Mapping) else values
            for name, values in self.numbers.items()
            if name not in still
        }

    def still(self, when: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the values of numbers that do not move in a variant."""
        return {name: one[0] for name, one in when.items() if isinstance(one, tuple) and one[0] == one[1]}

    @property
    def variants(self) -> list[Mapping[str, Any]]:
        """The choices that go together, for each of which the Lab is recorded."""
        if not isinstance(self.choices, Mapping):
            return list(self.choices)
        return [dict(zip(self.choices, some, strict=True)) for some in product(*self.choices.values())]

    def choice_of(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the choice by which these values are recorded.

        Raises:
          KeyError: they are not.
        """
        missing = [name for name, value in self.fixed.items() if values.get(name, value) != value]
        for one in self.variants:
            if not missing and all(_fits(choice, values[name]) for name, choice in one.items() if name in values):
                return one
        raise KeyError(*(missing or [name for one in self.variants for name in one]))

    def has(self, values: Mapping[str, Any]) -> bool:
        """Whether the page can run these values."""
        try:
            self.choice_of(values)
        except KeyError:
            return False
        return True


_SYNTHETIC, _IMITATED = {"knob": "source", "is": ["synthetic"]}, {"knob": "distractors", "not": [0]}
OF_PATTERNS = (
    ("distractors", "patches", (_SYNTHETIC,)),
    ("gap", "delta_r", (_SYNTHETIC, _IMITATED)),
    ("gap", "delta_d", (_SYNTHETIC, _IMITATED)),
)
"""Restricted pairs of the knobs of a `PatternTask`, in Labs whose knob `source` says that there is one."""


def _fits(choice: Any, value: Any) -> bool:
    return bool(choice[0] <= value <= choice[1]) if isinstance(choice, tuple) else bool(choice == value)
