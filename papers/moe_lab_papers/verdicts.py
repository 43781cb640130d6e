"""Judges claims by their measurements: one row per claim, for results.json and the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from moe_lab.core.errors import trace_of
from moe_lab_papers.claim import VERDICTS, Claim, Verdict, sentence
from moe_lab_papers.runner import Done, Order, joined, missing
from moe_lab_papers.spread import Interval, judge


@dataclass(frozen=True)
class Row:
    """The result of a claim.

    Attributes:
      claim: the claim.
      verdict: by its rule, "unsteady" or "not comparable", see `spread.Judgement`; "needs data" where the data are
        missing, "failed" where the measurement raised an error.
      values: (trial,) the measured numbers; empty where there are none.
      seconds: CPU time of its measurement, which other claims may share.
      device: on which it was measured; "" where it was not.
      calls: Python code that repeats the measurement.
      note: why there is no number, or that there were fewer samples than in the full budget; "" for neither.
      trace: the traceback of the bug that is the reason; "" where there is none.
      leaning, interval, settled_by: how sure the verdict is, see `spread.Judgement`; None where nothing was judged.
    """

    claim: Claim
    verdict: Verdict
    values: np.ndarray
    seconds: float
    device: str
    calls: tuple[str, ...]
    note: str = ""
    trace: str = ""
    leaning: Verdict | None = None
    interval: Interval | None = None
    settled_by: int | None = None

    @property
    def reason(self) -> str:
        """Why it does not fully agree, and that it had fewer samples than in the full budget; "" for neither."""
        if self.verdict in ("needs data", "failed"):
            return self.note
        if self.verdict == "not comparable":
            return sentence(self.claim.not_comparable)
        known = self.claim.reason if self.verdict not in ("agrees", "follows") else ""
        known = known or ("no reason is known" if self.verdict == "differs" else "")
        return " ".join(part for part in (self._unsteady, sentence(known), sentence(self.note)) if part)

    @property
    def _unsteady(self) -> str:
        """Why it is unsteady, and what would settle it; "" where it is not."""
        if self.verdict != "unsteady" or self.interval is None:
            return ""
        more = f"about {self.settled_by:,}" if self.settled_by else "no number of"
        return (
            f"It leans to {self.leaning!r}: the 95 % interval, {self.interval.words}, crosses a bound of the rule; "
            f"{more} trials would settle it, of which it has {self.interval.trials}."
        )

    @property
    def measured(self) -> str:
        """The number that the rule judges in words, named where it is not the mean, with the mean's spread."""
        if not self.values.size:
            return ""
        rule, trials = self.claim.rule, self.values.size
        number = rule.number(self.values)
        if not np.isfinite(number):
            return "not finite"
        name = f"{rule.of} " if rule.of != "mean" and trials > 1 else ""
        spread = f" ± {self.values.std():.2g}" if rule.of == "mean" and trials > 1 else ""
        if self.interval is None:
            return f"{name}{number:.4g}{spread}"
        return f"{name}{self.interval.rounded(number)}{spread} (95 %: {self.interval.words})"


def judged(claims: Sequence[Claim], done: Mapping[str, Sequence[Done]], order: Order) -> list[Row]:
    """Returns a row for each claim whose measurement is finished, or lacks data; `done` is by measurement name."""
    rows = []
    for claim in claims:
        lack = missing(claim.measurement, order.data)
        if lack:
            rows.append(Row(claim, "needs data", np.zeros(0), 0.0, "", (), lack))
        elif claim.measurement.name in done:
            rows.append(_row(claim, done[claim.measurement.name]))
    return rows


def _row(claim: Claim, parts: Sequence[Done]) -> Row:
    calls = tuple(part.piece.call for part in parts)
    failed = next((part for part in parts if part.data is None), None)
    if failed is not None:
        return Row(claim, "failed", np.zeros(0), 0.0, "", calls, failed.failure, failed.trace)
    data = joined(claim.measurement, parts)
    seconds = sum(part.seconds for part in parts)
    device = str(data.attrs["measured_on"])
    try:
        values, found = claim.values(data), judge(claim, data)
    except (KeyError, ValueError, IndexError, TypeError) as error:  # an error in one claim must not lose the others
        note = f"{type(error).__name__}: {error}"
        return Row(claim, "failed", np.zeros(0), seconds, device, calls, note, trace_of(error))
    row = Row(claim, found.verdict, values, seconds, device, calls, note=_fewer_samples(claim, parts[0]))
    return replace(row, leaning=found.leaning, interval=found.interval, settled_by=found.settled_by)


def _fewer_samples(claim: Claim, part: Done) -> str:
    """Says that a measurement had fewer samples than in the full budget; "" where it had as many."""
    given, full = part.piece.arguments.get("samples"), claim.measurement.full.get("samples")
    if not (isinstance(given, int) and isinstance(full, int) and given < full):
        return ""
    return f"measured from {given:,} samples, where the full budget has {full:,}"


def counts(rows: Sequence[Row]) -> dict[Verdict, int]:
    """Counts the rows of each verdict that occurs."""
    found = Counter(row.verdict for row in rows)
    return {verdict: found[verdict] for verdict in VERDICTS if found[verdict]}


def tally(rows: Sequence[Row]) -> str:
    """Returns the counts in words: "1 agrees, 2 differ"."""
    return ", ".join(
        f"{number} {verdict if number == 1 else _PLURAL.get(verdict, verdict)}"
        for verdict, number in counts(rows).items()
    )


_PLURAL = {
    "agrees": "agree",
    "follows": "follow",
    "differs": "differ",
    "needs data": "need data",
}


def pictured(claims: Sequence[Claim], done: Mapping[str, Sequence[Done]]) -> dict[str, xr.Dataset]:
    """Returns the Datasets of the measurements that have a picture, by name."""
    needed = {claim.measurement.name: claim.measurement for claim in claims if claim.measurement.picture}
    return {
        name: joined(measurement, done[name])
        for name, measurement in needed.items()
        if name in done and all(part.data is not None for part in done[name])
    }
