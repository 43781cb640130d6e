"""Claims: a statement of a paper, the measurement behind it, and the rule, stated before the run, that judges it.

They are written in the form of `paper`, which makes the objects of this module.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import xarray as xr

from moe_lab.core.config import require
from moe_lab_papers.ranges import Range

Budget = Literal["quick", "full", "paper"]
Verdict = Literal["agrees", "in kind", "follows", "differs", "unsteady", "not comparable", "needs data", "failed"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""In the order in which they are counted. A rule leans to one of the first four; `spread.judge` gives a verdict."""
Bound = Literal["", "at least", "at most", "less than"]

_STATISTICS: Mapping[str, tuple[str, Callable[[np.ndarray], float]]] = {
    "mean": ("the mean over trials", lambda values: float(np.mean(values))),
    "median": ("the median over trials", lambda values: float(np.median(values))),
    "lowest": ("the lowest trial", lambda values: float(np.min(values))),
    "highest": ("the highest trial", lambda values: float(np.max(values))),
}


def within(number: float, bounds: Range) -> bool:
    """Returns whether a number is in a closed range; NaN is in none."""
    return bounds[0] <= number <= bounds[1]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The ranges of measured numbers that agree with the paper.

    Attributes:
      agrees: closed range in which the number agrees with the published one; None where the paper has no number that
        this setting could reproduce (a curve, another network), so that the claim agrees in kind at most.
      in_kind: closed range in which the number still shows what the paper states, if not its value.
      of: the statistic of the trials that is judged: "mean", "median", "lowest" or "highest".
      follows: whether a number that agrees follows by arithmetic from the paper's own formulas or sizes. It says that
        the sums are right, and nothing about what is trained, so that it is counted apart.
    """

    agrees: Range | None = None
    in_kind: Range | None = None
    of: str = "mean"
    follows: bool = False

    def __post_init__(self) -> None:
        require(self.of in _STATISTICS, f"a rule judges one of {', '.join(_STATISTICS)}", of=self.of)
        require(self.agrees is not None or self.in_kind is not None, "a rule needs a range", agrees=self.agrees)
        require(not self.follows or self.agrees is not None, "what follows has a range", follows=self.follows)
        for bounds in (self.agrees, self.in_kind):
            require(bounds is None or bounds[0] <= bounds[1], "a range goes from low to high", bounds=bounds)

    @property
    def words(self) -> str:
        """The rule in words."""
        ranges = [(self.agrees, "follows" if self.follows else "agrees"), (self.in_kind, "in kind")]
        number, verdicts = _STATISTICS[self.of][0], []
        for bounds, verdict in ranges:
            if bounds is not None:
                verdicts.append(f"{verdict} if {number} is {in_words(bounds)}")
                number = "it"
        return ", ".join(verdicts)

    def number(self, values: np.ndarray) -> float:
        """Returns the statistic of the trials that is judged; NaN if any trial is."""
        return _STATISTICS[self.of][1](values)

    def leaning(self, values: np.ndarray) -> Verdict:
        """Returns the verdict on the number of measured values, (trial,), whatever their spread.

        `spread.judge` gives the verdict on a claim, which is "unsteady" where the spread leaves it open.
        """
        return self.of_number(self.number(values))

    def of_number(self, number: float) -> Verdict:
        """Returns the verdict on a number."""
        if self.agrees is not None and within(number, self.agrees):
            return "follows" if self.follows else "agrees"
        if self.in_kind is not None and within(number, self.in_kind):
            return "in kind"
        return "differs"


def in_words(bounds: Range) -> str:
    """Describes a range: "between .9 and 1", "at least .9", "at most .1" or "1"."""
    low, high = bounds
    if math.isinf(high):
        return f"at least {low:g}"
    if math.isinf(low):
        return f"at most {high:g}"
    return f"{low:g}" if f"{low:g}" == f"{high:g}" else f"between {low:g} and {high:g}"


@dataclass(frozen=True, kw_only=True)
class Published:
    """The number or statement that the paper reports.

    Attributes:
      value: the number, in the unit of the measurement; None where the paper shows a curve or states a relation.
      spread: its standard deviation or half-width, where the paper gives one.
      relation: what the curve shows or the theorem states, in words; "" where the number is all.
      bound: how the number bounds the measured one, where the paper states an inequality; "" where it is a value. Only
        a bound lets a rule be open at one end.
    """

    value: float | None = None
    spread: float | None = None
    relation: str = ""
    bound: Bound = ""

    def __post_init__(self) -> None:
        require(self.value is not None or self.relation != "", "a paper publishes a value or a relation", value=None)
        require(not self.bound or self.value is not None, "a bound needs its number", bound=self.bound)

    @property
    def words(self) -> str:
        number = "" if self.value is None else f"{self.bound} {self.value:.4g}".strip()
        number += "" if self.spread is None else f" ± {self.spread:.2g}"
        return f"{number} ({self.relation})" if number and self.relation else number or self.relation


@dataclass(frozen=True, kw_only=True)
class Needs:
    """Data that a measurement requires.

    Attributes:
      what: the data in words, with their source.
      argument: of the function, which receives the path.
      pattern: glob pattern of one of the files in the folder given with --data.
      as_file: whether the argument is that file rather than the folder.
      others: patterns of further files that must be there.
    """

    what: str
    argument: str
    pattern: str
    as_file: bool = False
    others: tuple[str, ...] = ()

    def met(self, folder: Path) -> bool:
        """Returns whether a folder has a file for every pattern."""
        return all(any(folder.glob(pattern)) for pattern in (self.pattern, *self.others))


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A call whose result several claims can read.

    Attributes:
      name: unique, such as "chen2022/table3-cubic"; names the files of its results.
      function: a function that returns a Dataset, such as "moe_lab.specialization.figures:table3".
      quick, full: its arguments in either budget; `seed` and `device` are added where it takes them.
      seconds: approximate duration of these two budgets on one CPU core.
      paper: arguments of the third budget that differ from the full one's, where the paper's experiment is larger.
      split: (argument, dimension): the values of that argument, a tuple, are measured one by one, possibly on several
        cores, and joined along that dimension of the result.
      device: whether the function takes a device.
      seeded: whether it takes a seed; False where nothing is random.
      picture: a function of the Dataset that returns a figure, such as "moe_lab.specialization.plots:picture"; "" for
        none.
      sees: one sentence on what the picture shows.
      needs: data that it requires; None for none.
    """

    name: str
    function: str
    quick: Mapping[str, Any]
    full: Mapping[str, Any]
    seconds: tuple[float, float]
    paper: Mapping[str, Any] = field(default_factory=dict)
    split: tuple[str, str] | None = None
    device: bool = False
    seeded: bool = True
    picture: str = ""
    sees: str = ""
    needs: Needs | None = None

    def arguments(self, budget: Budget) -> dict[str, Any]:
        """Returns the function's arguments, without seed and device."""
        return dict(self.quick) if budget == "quick" else {**self.full, **(self.paper if budget == "paper" else {})}

    def duration(self, budget: Budget) -> float:
        """Returns the approximate number of seconds on one CPU core.

        Those of the paper's budget follow from the full one's, in proportion to trials, samples and grid points.
        """
        if budget == "quick":
            return self.seconds[0]
        larger = self.paper.items() if budget == "paper" else ()
        return self.seconds[1] * math.prod(_size(value) / _size(self.full[name]) for name, value in larger)


def _size(value: Any) -> float:
    """Returns the size of an argument: a number itself, the sum of numbers, or the number of other values."""
    if isinstance(value, (int, float)):
        return float(value)
    numbers = isinstance(value, tuple) and all(isinstance(one, (int, float)) for one in value)
    return float(sum(value)) if numbers else float(len(value))


Read = Callable[[xr.Dataset], Any]
"""Takes the number of each trial, (trial,), or a single number, from the Dataset of a measurement."""


def imported(path: str) -> Callable[..., Any]:
    """Returns the function behind "module:name", importing its module when it is first needed."""
    module, name = path.split(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement of a paper, with the means to test it.

    Attributes:
      id: the paper's key, the place and what is claimed, such as "chen2022/table3/setting1-cubic"; or a topic's key,
        the paper and what is claimed, such as "routers/switch2021/published-weight".
      where: the place in the paper, as a reader looks it up.
      statement: what is claimed, in one sentence.
      published: the paper's number or relation.
      measurement: the call whose result is read.
      read: takes the Dataset of the measurement; returns the number of each trial, (trial,), or a single number.
      rule: which numbers agree, stated before the run.
      reason: why it differs or agrees in kind only, as far as is known; "" where it is expected to agree.
      not_comparable: the data or models measured in place of the paper's, and what they show; "" where the measurement
        can support or refute the statement. Such a claim neither agrees nor differs.
      unit: of the numbers.
    """

    id: str
    where: str
    statement: str
    published: Published
    measurement: Measurement
    read: Read = field(repr=False)
    rule: Rule
    reason: str = ""
    not_comparable: str = ""
    unit: str = ""

    @property
    def paper(self) -> str:
        return self.id.split("/")[0]

    @property
    def sentence(self) -> str:
        return sentence(self.statement)

    def values(self, data: xr.Dataset) -> np.ndarray:
        """Returns the measured numbers, (trial,)."""
        return np.atleast_1d(np.asarray(self.read(data), dtype=np.float64)).reshape(-1)


def sentence(words: str) -> str:
    """Adds a capital and a full stop; a leading symbol, such as l*, stays as it is."""
    first = words.split(maxsplit=1)[0].rstrip(",:;") if words else ""
    plain = first.replace("-", "").isalpha() and (len(first) > 1 or first == "a")
    return (words[0].upper() + words[1:] if plain else words).removesuffix(".") + "." if words else ""
