"""How claims read their numbers from a Dataset: functions that say in words what they take.

    at("coverage", samples=LAST, lowest="class")
    difference("test_accuracy", model=("joint", "cnn"), samples=100)

Where these do not suffice, `@reader` makes one of any function of a Dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec

import xarray as xr

from moe_lab.core.config import require
from moe_lab.core.words import series


@dataclass(frozen=True)
class Last:
    """The last place along a dimension, in place of a label."""

    def __str__(self) -> str:
        return "last"


LAST = Last()


@dataclass(frozen=True)
class Reader:
    """Takes a claim's numbers from a Dataset; `words` say which."""

    words: str
    function: Callable[[xr.Dataset], Any] = field(repr=False)

    def __call__(self, data: xr.Dataset) -> Any:
        return self.function(data)


Dims = str | tuple[str, ...]
_OVER = {"mean": "mean", "median": "median", "lowest": "min", "highest": "max", "sum": "sum"}
"""What `at` takes over dimensions, by its argument: the method of a DataArray."""
P = ParamSpec("P")


def at(
    variable: str,
    /,
    *,
    per: float = 1,
    mean: Dims = (),
    median: Dims = (),
    lowest: Dims = (),
    highest: Dims = (),
    sum: Dims = (),
    **labels: Any,
) -> Reader:
    """Reads a variable at labels.

    Args:
      variable: its name.
      per: the unit of the claim in that of the variable: 1e6 for millions.
      mean, median, lowest, highest, sum: dimensions over which this is taken, in this order.
      **labels: by dimension; `LAST` for the last place, a list for several, a slice with labels for its ends. A
        dimension that is a word of Python has an underscore: `class_="o1"`.
    """
    named = {name.rstrip("_"): label for name, label in labels.items()}
    last = {name: -1 for name, label in named.items() if isinstance(label, Last)}
    exact = {name: label for name, label in named.items() if name not in last}
    over = dict(zip(_OVER, (mean, median, lowest, highest, sum), strict=True))

    def read(data: xr.Dataset) -> Any:
        values = data[variable].isel(last).sel(exact)
        for how, dims in over.items():
            values = getattr(values, _OVER[how])(dims) if dims else values
        return values if per == 1 else values / per

    places = ", ".join(f"{name} = {label}" for name, label in named.items())
    words = f"{variable} at {places}" if places else variable
    return Reader(
        words
        + "".join(
            f", {how} over {series([dims] if isinstance(dims, str) else dims)}" for how, dims in over.items() if dims
        ),
        read,
    )


def difference(variable: str, /, **labels: Any) -> Reader:
    """Reads one number less another: one label is a pair, `model=("joint", "cnn")`; the rest as for `at`."""
    first, second = _pair(variable, labels)
    return Reader(f"{first.words} less {second.words}", lambda data: first(data) - second(data))


def ratio(variable: str, /, **labels: Any) -> Reader:
    """Reads one number over another: one label is a pair, `kind=("joint", "cnn")`; the rest as for `at`."""
    first, second = _pair(variable, labels)
    return Reader(f"{first.words} over {second.words}", lambda data: first(data) / second(data))


def over_mean(variable: str, /, *, error: bool = False, **labels: Any) -> Reader:
    """Reads each trial at one label over the mean of the trials at another: one label is a pair, as for `ratio`.

    Args:
      variable: its name.
      error: whether 1 less the variable is read, the error of an accuracy.
      **labels: as for `at`.
    """
    first, second = _pair(variable, labels)

    def read(data: xr.Dataset) -> Any:
        ours, theirs = (1 - one(data) if error else one(data) for one in (first, second))
        return ours / theirs.mean("trial")

    return Reader(f"{'1 less ' if error else ''}{first.words} over the mean of {second.words}", read)


def reader(function: Callable[Concatenate[xr.Dataset, P], Any]) -> Callable[P, Reader]:
    """Makes a reader of a function that takes a Dataset first: `lead(data, "joint")` is then `lead("joint")`."""

    def made(*args: P.args, **kwargs: P.kwargs) -> Reader:
        given = ", ".join([*map(str, args), *(f"{name} = {value}" for name, value in kwargs.items())])
        return Reader(f"{function.__name__}({given})", lambda data: function(data, *args, **kwargs))

    return made


def _pair(variable: str, labels: Mapping[str, Any]) -> tuple[Reader, Reader]:
    """Returns the two readers of a comparison."""
    pairs = [name for name, label in labels.items() if isinstance(label, tuple) and name not in _OVER]
    require(len(pairs) == 1 and len(labels[pairs[0]]) == 2, "one label must be a pair", labels=dict(labels))
    first, second = (at(variable, **{**labels, pairs[0]: label}) for label in labels[pairs[0]])
    return first, second
