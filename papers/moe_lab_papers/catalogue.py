"""The list of all claims, which `moe-lab reproduce --list` prints without loading what measures them.

It stands in catalogue.csv, which `python -m tools.catalogue` writes; a test compares the two.
"""

from __future__ import annotations

import csv
import importlib
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from moe_lab.core.arguments import checked
from moe_lab.core.config import require
from moe_lab.core.console import PlainConsole
from moe_lab.registry import CLAIMED, PAPERS
from moe_lab_papers.tables import console, named, table

if TYPE_CHECKING:
    from moe_lab_papers.claim import Claim

FILE = "catalogue.csv"


class Entry(NamedTuple):
    """A claim in the list; the seconds are those of its measurement, which others may share, in the quick budget."""

    id: str
    published: str
    rule: str
    seconds: str


def entry(claim: Claim) -> Entry:
    """Returns a claim's line in the list."""
    return Entry(claim.id, claim.published.words, claim.rule.words, f"{claim.measurement.duration('quick'):g}")


def entries() -> tuple[Entry, ...]:
    """Returns the list."""
    lines = files("moe_lab_papers").joinpath(FILE).read_text(encoding="utf-8").splitlines()
    return tuple(Entry(*row) for row in list(csv.reader(lines))[1:])


def selected(ids: Iterable[str], names: Sequence[str]) -> list[str]:
    """Returns the ids that are one of the names or have it as their first parts; all if there are no names.

    Raises:
      ValueError: no id has a name as its first parts.
    """
    known = list(ids)
    for name in names:
        require(
            any(_is_in(identity, name) for identity in known),
            f"a claim must be named by its id or the first of its parts, such as {known[0]}, "
            f"{known[0].rpartition('/')[0]} or one of {', '.join(CLAIMED)} (--list shows all)",
            name=name,
        )
    return [identity for identity in known if not names or any(_is_in(identity, name) for name in names)]


def _is_in(identity: str, name: str) -> bool:
    return identity == name or identity.startswith(name.rstrip("/") + "/")


@checked
def show(names: Sequence[str] = ()) -> None:
    """Prints the named claims as a table; of one that is named alone, all that is known before it is measured.

    Raises:
      ValueError: no claim has such a name.
    """
    every = {one.id: one for one in entries()}
    ids, out = selected(every, names), console()
    if list(names) == ids:
        for identity in ids:
            paper = importlib.import_module(f"moe_lab_papers.{identity.split('/')[0]}")
            _details(out, paper.CLAIMS, identity)
        return
    layout = table(out, ("claim", "published", "rule", "seconds"))
    for identity in ids:
        one = every[identity]
        layout.add_row(named(out, identity), one.published, one.rule, one.seconds)
    out.print(layout)
    out.print(
        f"{len(ids)} claims; seconds of the quick budget on one CPU core. More on one: moe-lab reproduce --list ID"
    )


def _details(out: PlainConsole, claims: Sequence[Claim], identity: str) -> None:
    """Prints all that is known of a claim before it is measured."""
    from moe_lab_papers.readers import Reader
    from moe_lab_papers.runner import missing

    claim = next(claim for claim in claims if claim.id == identity)
    measurement = claim.measurement
    shared = sum(other.measurement.name == measurement.name for other in claims) - 1
    durations = ", ".join(f"{measurement.duration(budget):.0f} ({budget})" for budget in ("quick", "full", "paper"))
    lack = missing(measurement, None)
    paper = PAPERS.get(claim.paper)
    for name, text in {
        "paper": "" if paper is None else f"{paper.citation} ({paper.url})",
        "where": claim.where,
        "statement": claim.sentence,
        "published": claim.published.words,
        "number": claim.read.words if isinstance(claim.read, Reader) else "",
        "rule": claim.rule.words,
        "known reason": claim.reason,
        "seconds": f"{durations}; {shared} other claims share the measurement" if shared else durations,
        "data": lack,
        "measured by": measurement.function,
    }.items():
        if text:
            out.print(f"{name}: {text}", soft_wrap=True)
