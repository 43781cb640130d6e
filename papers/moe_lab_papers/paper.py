"""The form in which claims are written: a paper, the calls that measure it, and what the paper says of each.

::

    paper = Paper("pmoe2023")
    figure_6 = paper.measure("figure6-digits", accuracy_by_experts, seconds=(9, 60), trials=budgets(30, 150))
    figure_6.claim(
        "figure6/fall",
        "the error grows by half from 8 to 40 experts",
        over_mean("test_accuracy", error=True, experts=(40, 8)),
        says(1.5, "times the error").agrees(plus_minus(0.15)),
    )
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import xarray as xr

from moe_lab.core.config import require
from moe_lab.core.findings import Finding
from moe_lab_papers.claim import Bound, Claim, Measurement, Needs, Published, Rule
from moe_lab_papers.erratum import Erratum
from moe_lab_papers.ranges import Ends, Range
from moe_lab_papers.readers import Reader

Check = Callable[[], Finding]


@dataclass(frozen=True)
class Judged:
    """A paper's statement, and the rule that judges the measured number."""

    published: Published
    rule: Rule


class Says(Published):
    """A paper's statement, before its rule: `says(0.6, "of the CNN's samples").agrees(plus_minus(0.05))`.

    Ranges are pairs, or follow from the published number: see `ranges`. `of` is the statistic of the trials that is
    judged: "mean", "median", "lowest" or "highest".
    """

    def agrees(self, agrees: Ends, in_kind: Ends | None = None, *, of: str = "mean") -> Judged:
        """Adds the rule that the measured number agrees in one range, and in kind in another."""
        return Judged(self, Rule(agrees=self._range(agrees), in_kind=self._range(in_kind), of=of))

    def in_kind(self, in_kind: Ends, *, of: str = "mean") -> Judged:
        """Adds the rule that it agrees in kind at most: the paper has no number that this setting could reproduce."""
        return Judged(self, Rule(in_kind=self._range(in_kind), of=of))

    def follows(self, agrees: Ends, in_kind: Ends | None = None, *, of: str = "mean") -> Judged:
        """Adds the rule that it follows by arithmetic from the paper's own formulas or sizes, within a range."""
        return Judged(self, Rule(agrees=self._range(agrees), in_kind=self._range(in_kind), of=of, follows=True))

    def _range(self, ends: Ends | None) -> Range | None:
        if not callable(ends):
            return ends
        if self.value is None:
            raise ValueError(f"a range that follows from the published number needs one: {self.relation!r} has none")
        return ends(self.value)


def says(number: float | str, relation: str = "", *, bound: Bound = "", spread: float | None = None) -> Says:
    """Returns a paper's statement: a number, with or without words, or words alone.

    Args:
      number: in the unit of the measurement; words where the paper shows a curve or states a relation.
      relation: the meaning of the number, in words.
      bound: how the number bounds the measured one, where the paper states an inequality.
      spread: its standard deviation or half-width, where the paper gives one.
    """
    if isinstance(number, str):
        return Says(relation=number)
    return Says(value=number, relation=relation, bound=bound, spread=spread)


_ABSENT = object()


@dataclass(frozen=True)
class Budgets:
    """The values of an argument in the three budgets; an absent one leaves the argument out."""

    quick: Any
    full: Any
    paper: Any


def budgets(quick: Any = _ABSENT, full: Any = _ABSENT, paper: Any = _ABSENT) -> Budgets:
    """Declares an argument that differs between budgets: `budgets(8, 20, paper=40)` or `budgets(full=15)`.

    Where a budget has none, the function's default is taken; the paper's budget is the full one where it has none.
    """
    return Budgets(quick, full, paper)


@dataclass
class Paper:
    """A part of a paper, with its claims in the order of the file.

    Attributes:
      key: of the paper or the topic, "pmoe2023".
      picture: function behind the pictures of its measurements, for those whose `sees` says what there is to see.
      claims, errata: those made so far.
    """

    key: str
    picture: str = ""
    claims: list[Claim] = field(default_factory=list)
    errata: list[Erratum] = field(default_factory=list)

    def measure(
        self,
        name: str,
        function: Callable[..., xr.Dataset],
        /,
        *,
        seconds: tuple[float, float],
        split: str | tuple[str, str] | None = None,
        sees: str = "",
        needs: Needs | None = None,
        device: bool = True,
        where: str = "",
        unit: str = "",
        reason: str = "",
        not_comparable: str = "",
        **arguments: Any,
    ) -> Measured:
        """Returns a call that claims can read.

        Args:
          name: without the paper, "figure4-digits"; names the files of its results.
          function: returns a Dataset. A seed and a device are added where its signature has them.
          seconds: approximate duration of the quick and the full budget on one CPU core.
          split: the argument whose values, a tuple, are measured one by one; with the dimension along which they are
            joined if that has another name.
          sees: one sentence on what its picture shows; "" for no picture.
          needs: data that it requires; the argument that receives them is added.
          device: False where its signature has `**settings` and they may not be a device.
          where, unit, reason, not_comparable: those of its claims that state none.
          **arguments: of the function; `budgets(...)` for one that differs.

        Raises:
          TypeError: the function does not take these arguments, or needs others.
        """
        signature = inspect.signature(function)
        parameters = signature.parameters
        settings = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
        split = (split, split) if isinstance(split, str) else split
        require(split is None or split[0] in arguments, "a measurement is split along an argument", split=split)
        sizes = {one: of if isinstance(of, Budgets) else budgets(of, of) for one, of in arguments.items()}
        quick, full, paper = (
            {one: value for one, of in sizes.items() if (value := getattr(of, budget)) is not _ABSENT}
            for budget in ("quick", "full", "paper")
        )
        for given in (quick, full, {**full, **paper}):
            signature.bind(**given, **({needs.argument: ""} if needs else {}))
        measurement = Measurement(
            name=f"{self.key}/{name}",
            function=f"{function.__module__}:{function.__name__}",
            quick=quick,
            full=full,
            paper=paper,
            seconds=seconds,
            split=split,
            device="device" in parameters or (settings and device),
            seeded="seed" in parameters,
            picture=self.picture if sees else "",
            sees=sees,
            needs=needs,
        )
        return Measured(self, measurement, where, unit, reason, not_comparable)

    def again(self, measured: Measured) -> Measured:
        """Returns a call that another file declares, for claims of this one."""
        return replace(measured, paper=self)

    def erratum(self, id: str, where: str, *, printed: str, instead: str, evidence: str) -> Callable[[Check], Check]:
        """Adds an erratum, with the function below it as its check; a call alone adds one without a check.

        Args:
          id: without the paper, "example3-relu".
          where, printed, instead, evidence: as for `Erratum`.
        """
        number = len(self.errata)
        self.errata.append(
            Erratum(id=f"{self.key}/{id}", where=where, printed=printed, instead=instead, evidence=evidence)
        )

        def checked_by(check: Check) -> Check:
            self.errata[number] = replace(self.errata[number], check=check)
            return check

        return checked_by


@dataclass(frozen=True)
class Measured:
    """A call to which claims are added; `where`, `unit`, `reason` and `not_comparable` are those that claims share."""

    paper: Paper
    measurement: Measurement
    where: str = ""
    unit: str = ""
    reason: str = ""
    not_comparable: str = ""

    def claim(
        self,
        id: str,
        statement: str,
        read: Reader,
        judged: Judged,
        reason: str | None = None,
        *,
        not_comparable: str | None = None,
        where: str = "",
        unit: str | None = None,
    ) -> None:
        """Adds a claim to the paper.

        Args:
          id: without the paper, "figure4/joint-samples".
          statement: what is claimed, in one sentence.
          read: takes the number of each trial from the Dataset: `at(...)`, or another of `readers`.
          judged: the paper's statement, and the numbers that agree with it: `says(0.6).agrees(plus_minus(0.05))`.
          reason: why it differs or agrees in kind only, as far as is known.
          not_comparable: the data or models measured in place of the paper's, and what they show.
          where: the place in the paper; that in the id if neither it nor the measurement says ("figure4": "figure 4").
          unit: of the numbers.
        """
        place = re.sub(r"^([a-z]+)(?=[A-Z0-9])", r"\1 ", id.split("/")[0])
        self.paper.claims.append(
            Claim(
                id=f"{self.paper.key}/{id}",
                where=where or self.where or place,
                statement=statement,
                published=judged.published,
                measurement=self.measurement,
                read=read,
                rule=judged.rule,
                reason=self.reason if reason is None else reason,
                not_comparable=self.not_comparable if not_comparable is None else not_comparable,
                unit=self.unit if unit is None else unit,
            )
        )
