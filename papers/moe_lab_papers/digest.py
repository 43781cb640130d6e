"""What replicates of a paper, what does not and why, and what is open: the first screen of the report and of the site.

`claims.html` has the macros that show it, and the table with a row for each claim.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined

from moe_lab.registry import CLAIMED, PAPERS, TOPICS
from moe_lab_papers.claim import VERDICTS, Claim, Verdict, sentence
from moe_lab_papers.erratum import Erratum
from moe_lab_papers.in_short import CAUSES, Cause
from moe_lab_papers.ledger import errata
from moe_lab_papers.verdicts import Row, tally

REPLICATES: tuple[Verdict, ...] = VERDICTS[:2]
"""The verdicts of what replicates: it agrees, or it does so in kind."""
SETTLED: tuple[Verdict, ...] = VERDICTS[:4]
"""The verdicts of a rule: those, and what follows or differs. All others leave it open."""
MEANINGS: Mapping[Verdict, str] = {
    "agrees": "the measured number is in the range of the rule",
    "in kind": "it shows what the paper states, not its number",
    "follows": "by arithmetic from the paper's own formulas or sizes, which says nothing about training",
    "differs": "it does not agree",
    "unsteady": "the 95 % interval crosses a bound of the rule",
    "not comparable": "measured on other data or models than the paper's",
    "needs data": "files that were not given",
    "failed": "the measurement raised an error",
}
KINDS = "algorithm|appendix|assumption|eq|figure|finding|lemma|remark|section|table|theorem"
MOST_PLACES = 4


@dataclass(frozen=True)
class Digest:
    """A paper or topic: its claims, and the results of those that a run has judged.

    Attributes:
      key: of the paper or topic.
      claims: all that are shown.
      rows: the results by the claims' ids.
    """

    key: str
    claims: Sequence[Claim]
    rows: Mapping[str, Row]

    @property
    def title(self) -> str:
        return CLAIMED[self.key].citation

    @property
    def url(self) -> str:
        """Where the paper can be read; "" for a topic, whose claims name a paper each."""
        return PAPERS[self.key].url if self.key in PAPERS else ""

    @property
    def errata(self) -> tuple[Erratum, ...]:
        return tuple(erratum for erratum in errata() if erratum.paper == self.key)

    def of(self, *verdicts: Verdict) -> list[Row]:
        """Returns the results with one of these verdicts."""
        return [row for row in self.rows.values() if row.verdict in verdicts]

    @property
    def replicating(self) -> list[Row]:
        return self.of(*REPLICATES)

    @property
    def causes(self) -> list[Cause]:
        """The causes whose claims all differ."""
        differing = {row.claim.id for row in self.of("differs")}
        return [cause for cause in CAUSES if differing.issuperset(cause.claims)]

    @property
    def unexplained(self) -> list[Row]:
        """The results that differ and that no cause of `causes` names."""
        named = {identity for cause in self.causes for identity in cause.claims}
        return [row for row in self.of("differs") if row.claim.id not in named]

    @property
    def open(self) -> list[str]:
        """The verdicts that leave a statement open, in words: "4 need data (figures 14 and 15)"."""
        found = [self.of(verdict) for verdict in VERDICTS if verdict not in SETTLED]
        return [f"{tally(rows)} ({places(rows)})" for rows in found if rows]


def digests(claims: Sequence[Claim], rows: Sequence[Row]) -> list[Digest]:
    """Returns the digests of the papers and topics that have claims, in their order."""
    results = {row.claim.id: row for row in rows}
    made = []
    for key in CLAIMED:
        shown = [claim for claim in claims if claim.paper == key]
        if shown:
            made.append(Digest(key, shown, {claim.id: results[claim.id] for claim in shown if claim.id in results}))
    return made


def meanings(shown: Sequence[Digest]) -> dict[str, str]:
    """Returns the meanings of the verdicts that occur."""
    return {verdict: MEANINGS[verdict] for verdict in VERDICTS if any(one.of(verdict) for one in shown)}


def places(rows: Sequence[Row]) -> str:
    """Names the places of claims in their papers: "figure 4, table 2 and 3 more"."""
    named = list(dict.fromkeys(place(row.claim) for row in rows))
    left = len(named) - MOST_PLACES
    if left <= 1:
        return ", ".join(named)
    return f"{', '.join(named[:MOST_PLACES])} and {left} more"


def place(claim: Claim) -> str:
    """Returns a claim's place as its id names it, "figure 4" for "figure4"; of a topic, the paper that states it."""
    if claim.paper in TOPICS:
        return claim.where.split(",")[0]
    return re.sub(f"^({KINDS})-?", r"\1 ", claim.id.split("/")[1])


def templates() -> Environment:
    """Returns the environment that reads this package's templates."""
    made = Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        loader=PackageLoader("moe_lab_papers", "."),
        autoescape=True,
        undefined=StrictUndefined,
    )
    made.globals |= {"places": places, "tally": tally, "meanings": meanings}
    made.filters["sentence"] = sentence
    return made
