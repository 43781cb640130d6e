"""What functions that return marks are given: the values of the knobs, and a record, as tensors.

A page repeats what these functions compute, for other values and later records. So where a number goes into a picture,
they ask for it as a tensor (`values.number`); what they read as it is (`values["activation"]`) decides which operations
there are, and a page has those for each of its choices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import torch
from torch import Tensor

from moe_lab_widgets.drawing.panel import PanelValues

About = ParamSpec("About")
Result = TypeVar("Result")


def once(function: Callable[Concatenate[Any, About], Result]) -> Callable[Concatenate[Any, About], Result]:
    """Returns a function of a record, and of names in it, that computes each result once for each record."""

    @wraps(function)
    def known(now: Any, *about: About.args, **named: About.kwargs) -> Result:
        results: dict[Any, Any] = now.results
        key = function, about, tuple(named.items())
        if key not in results:
            results[key] = function(now, *about, **named)
        return results[key]  # type: ignore[no-any-return]

    return known


class MarkValues:
    """The values of the knobs."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.plain = values

    def __getitem__(self, name: str) -> Any:
        return self.plain[name]

    def number(self, name: str) -> Tensor:
        """Returns a number as a tensor in float64."""
        return torch.tensor(float(self.plain[name]), dtype=torch.float64)

    def place(self, name: str, choices: Sequence[str]) -> Tensor:
        """Returns the place of a choice among all of its knob, counted from 0, for who draws every one alike."""
        return torch.tensor(float(choices.index(self.plain[name])), dtype=torch.float64)

    def of(self, function: Callable[[MarkValues], Tensor]) -> Tensor:
        """Returns a number that a function returns for these values; only another one furnishes a panel again."""
        if not isinstance(self.plain, PanelValues):
            return function(self)
        result = self.plain.of(lambda plain: float(function(MarkValues(plain))))
        return torch.tensor(result, dtype=torch.float64)


class MarkRecord:
    """A record of a Lab; its measures are in float64, NaN where a run has not begun.

    Attributes:
      values: of the knobs.
      names: of the runs, the one under study first.
      first: whether this is the first record.
      ended: whether no trial is still training.
      step, total: steps so far, of the run that has come furthest, and of a whole run.
      results: what functions have computed of it (`once`).
    """

    def __init__(self, now: Any) -> None:
        self._now, self.values = now, MarkValues(now.values)
        self.results: dict[Any, Any] = {}
        self.names: tuple[str, ...] = now.names

    @property
    def record(self) -> Any:
        """The record itself, for what no page repeats."""
        return self._now

    @property
    def first(self) -> Tensor:
        return torch.tensor(self._now.step == 0)

    @property
    def ended(self) -> Tensor:
        return torch.tensor(self._now.ended)

    @property
    def step(self) -> Tensor:
        return torch.tensor(float(self._now.step), dtype=torch.float64)

    @property
    def total(self) -> Tensor:
        return torch.tensor(float(self._now.total), dtype=torch.float64)

    def curve(self, measure: str, name: str | None = None) -> tuple[Tensor, Tensor]:
        """Returns the steps (R,) of the records and what was measured (R, trial, ...): a row of NaN where none is."""
        steps, values = self._now.curve(measure, name)
        if not len(steps):
            steps, values = np.full(1, np.nan), np.full((1, *values.shape[1:]), np.nan)
        return torch.as_tensor(np.asarray(steps, dtype=float)), torch.as_tensor(np.asarray(values, dtype=float))

    def last(self, measure: str, name: str | None = None) -> Tensor:
        """Returns what was measured last, (trial, ...); NaN before the run has recorded it.

        Raises:
          UnmeasuredError: no run has recorded it.
        """
        if not self._now.has(measure):
            self._now[measure]  # which says what there is
        return torch.as_tensor(self._now.last(measure, name))

    def pale(self, share: Callable[[MarkRecord], Tensor], columns: str) -> Tensor:
        """Returns the shares (rows, columns) of the map before, as far as it came, and then those of the one before it.

        They are NaN where there is none, or a map of other rows or columns.

        Args:
          share: returns the shares of a record.
          columns: the measure that says of what the columns of a map are.
        """
        now, shown, before = share(self), None, self._now.before
        while before is not None:
            other = MarkRecord(before)
            of_other = share(other)
            if of_other.shape != now.shape or not torch.equal(other.last(columns), self.last(columns)):
                break
            shown = of_other if shown is None else torch.where(shown.isfinite(), shown, of_other)
            before = before.before
        return torch.full_like(now, torch.nan) if shown is None else shown
