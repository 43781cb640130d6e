"""What a claim is: a statement of a paper, what measures it, and the rule that judges it, stated before the run."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import xarray as xr

from moe_lab.config import require

Budget = Literal["quick", "full"]
Verdict = Literal["agrees", "agrees in kind", "differs", "needs data", "failed"]
VERDICTS: tuple[Verdict, ...] = ("agrees", "agrees in kind", "differs", "needs data", "failed")
"""In the order in which they are counted. "failed" is none of the rule's: the run broke off with an error."""

Range = tuple[float, float]
_OF: Mapping[str, tuple[str, Callable[[np.ndarray], float]]] = {
    "mean": ("the mean of the trials", lambda values: float(np.mean(values))),
    "median": ("the median of the trials", lambda values: float(np.median(values))),
    "lowest": ("the lowest trial", lambda values: float(np.min(values))),
    "highest": ("the highest trial", lambda values: float(np.max(values))),
}


def within(number: float, bounds: Range) -> bool:
    """Whether a number is in a closed range; NaN is in none."""
    return bounds[0] <= number <= bounds[1]


@dataclass(frozen=True)
class Rule:
    """Which measured numbers agree with the paper.

    Attributes:
      agrees: the closed range in which the number agrees with the published one; None where the paper has no number
        that this setting could meet (a curve, another network), so that it agrees in kind at most.
      in_kind: the range in which it still shows what the paper says, if not its number.
      of: which number of the trials is judged: "mean", "median", "lowest" or "highest".
    """

    agrees: Range | None
    in_kind: Range | None = None
    of: str = "mean"

    def __post_init__(self) -> None:
        require(self.of in _OF, f"a rule judges one of {', '.join(_OF)}", of=self.of)
        require(self.agrees is not None or self.in_kind is not None, "a rule needs a range", agrees=self.agrees)
        for bounds in (self.agrees, self.in_kind):
            require(bounds is None or bounds[0] <= bounds[1], "a range goes from low to high", bounds=bounds)

    @property
    def words(self) -> str:
        """The rule as a sentence."""
        ranges = [(self.agrees, "agrees"), (self.in_kind, "agrees in kind")]
        told = [f"{name} {in_words(bounds)}" for bounds, name in ranges if bounds is not None]
        return f"{_OF[self.of][0]} {', or '.join(told)}"

    def number(self, values: np.ndarray) -> float:
        """The number of the trials that is judged; NaN if any trial is."""
        return _OF[self.of][1](values)

    def verdict(self, values: np.ndarray) -> Verdict:
        """What the rule says of (trial,) measured values."""
        number = self.number(values)
        if self.agrees is not None and within(number, self.agrees):
            return "agrees"
        if self.in_kind is not None and within(number, self.in_kind):
            return "agrees in kind"
        return "differs"


def in_words(bounds: Range) -> str:
    """ "from .9 to 1", "at least .9" or "at most .1"."""
    low, high = bounds
    if math.isinf(high):
        return f"at least {low:g}"
    if math.isinf(low):
        return f"at most {high:g}"
    return f"at {low:g}" if low == high else f"from {low:g} to {high:g}"


def at_least(low: float) -> Range:
    return low, math.inf


def at_most(high: float) -> Range:
    return -math.inf, high


def near(number: float, tolerance: float) -> Range:
    return number - tolerance, number + tolerance


@dataclass(frozen=True)
class Published:
    """What the paper has.

    Attributes:
      value: the number, in the unit of what is measured; None where the paper shows a curve or states a relation.
      spread: its standard deviation or half-width, where the paper gives one.
      relation: what the curve shows or the theorem says, in words; "" where the number is all.
    """

    value: float | None = None
    spread: float | None = None
    relation: str = ""

    def __post_init__(self) -> None:
        require(self.value is not None or self.relation != "", "a paper publishes a value or a relation", value=None)

    @property
    def words(self) -> str:
        number = "" if self.value is None else f"{self.value:.4g}"
        number += "" if self.spread is None else f" ± {self.spread:.2g}"
        return f"{number} ({self.relation})" if number and self.relation else number or self.relation


@dataclass(frozen=True)
class Needs:
    """Data that a measurement cannot do without, and where it is looked for.

    Attributes:
      what: in words, with where to get it.
      argument: of the function, which gets the place.
      pattern: a glob pattern of one of its files in the folder given with --data.
      as_file: whether the argument is that file, rather than the folder.
    """

    what: str
    argument: str
    pattern: str
    as_file: bool = False


@dataclass(frozen=True)
class Measurement:
    """A call that measures something; several claims can read it.

    Attributes:
      name: "chen2022/table3-cubic", say: unique, and the name of its file.
      function: "moe_lab.specialization.figures:table3": a function that returns a Dataset.
      quick, full: its arguments in either budget; `seed` (and `device`, where it is taken) are added.
      seconds: about how long each budget takes on one CPU core.
      split: (argument, dimension): the values of that argument, a tuple, are measured one by one, perhaps on several
        cores, and joined along that dimension of the result.
      device: whether the function takes a device.
      seeded: whether it takes a seed; False where nothing is random.
      picture: "moe_lab.specialization.plots:picture": a function of the Dataset that returns a figure; "" for none.
      sees: one sentence on what the picture shows.
      needs: data that it cannot do without.
    """

    name: str
    function: str
    quick: Mapping[str, Any]
    full: Mapping[str, Any]
    seconds: tuple[float, float]
    split: tuple[str, str] | None = None
    device: bool = False
    seeded: bool = True
    picture: str = ""
    sees: str = ""
    needs: Needs | None = None

    def arguments(self, budget: Budget) -> dict[str, Any]:
        return dict(self.quick if budget == "quick" else self.full)

    def takes(self, budget: Budget) -> float:
        """About how many seconds of one CPU core."""
        return self.seconds[0 if budget == "quick" else 1]


def imported(path: str) -> Callable[..., Any]:
    """The function behind "module:name"; rooms are imported when they are first needed."""
    module, name = path.split(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


@dataclass(frozen=True)
class Claim:
    """A statement of a paper that runs.

    Attributes:
      id: "chen2022/table3/setting1-cubic": the paper's key, the place, what is claimed.
      where: the place in the paper, as a reader looks it up.
      statement: what is claimed, in one sentence.
      published: the paper's number or relation.
      measurement: what measures it.
      read: takes the number of each trial from the measurement's Dataset, (trial,); one number where there are none.
      rule: what agrees, stated before the run.
      reason: why it differs or agrees in kind only, as far as was found; "" where it is expected to agree.
      unit: of the numbers.
    """

    id: str
    where: str
    statement: str
    published: Published
    measurement: Measurement
    read: Callable[[xr.Dataset], Any] = field(repr=False)
    rule: Rule
    reason: str = ""
    unit: str = ""

    @property
    def paper(self) -> str:
        return self.id.split("/")[0]

    @property
    def sentence(self) -> str:
        return sentence(self.statement)

    def values(self, data: xr.Dataset) -> np.ndarray:
        """(trial,) the measured numbers."""
        return np.atleast_1d(np.asarray(self.read(data), dtype=np.float64)).reshape(-1)


def sentence(words: str) -> str:
    """The words with a capital and a full stop; a symbol that comes first, such as l*, stays as it is."""
    first = words.split(maxsplit=1)[0].rstrip(",:;") if words else ""
    plain = first.replace("-", "").isalpha() and (len(first) > 1 or first == "a")
    return (words[0].upper() + words[1:] if plain else words).removesuffix(".") + "." if words else ""


@dataclass(frozen=True)
class Erratum:
    """A misprint, or a step that a paper does not tell.

    Attributes:
      id: "gridlock2019/example3-relu".
      where: the place in the paper.
      printed: what stands there, or that nothing does.
      instead: what should.
      evidence: how one knows, in words.
      check: "module:function" of a function without arguments that returns a Finding, which holds where the correction
        is right and the printed form is not; "" where only reading tells.
    """

    id: str
    where: str
    printed: str
    instead: str
    evidence: str
    check: str = ""

    @property
    def paper(self) -> str:
        return self.id.split("/")[0]
