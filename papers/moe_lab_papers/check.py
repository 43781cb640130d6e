"""`moe-lab reproduce --check FILE`: judges results that somebody else measured by the rules of this version."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from moe_lab.core.arguments import checked
from moe_lab.core.config import require
from moe_lab.core.errors import InputError, MissingFileError
from moe_lab.core.files import named
from moe_lab_papers import ledger, tables
from moe_lab_papers.catalogue import selected
from moe_lab_papers.claim import Claim
from moe_lab_papers.command import reasons, table
from moe_lab_papers.exchange import hash_of_rules
from moe_lab_papers.form import SCHEMA, File, ResultPart
from moe_lab_papers.spread import Interval, judgement
from moe_lab_papers.verdicts import Row, tally

UNMEASURED = ("needs data", "failed")


@checked
def check(path: Path | str, names: Sequence[str] = ()) -> list[Row]:
    """Judges the results in a file and prints the table of verdicts.

    Args:
      path: of a file in the form of claims.schema.json, such as a results.json of `moe-lab reproduce`.
      names: ids of claims in the file, or beginnings of ids; none for all.

    Returns:
      The judged claims.

    Raises:
      ValueError: the file has another form, unknown claims, other rules than this version or no results; or no claim in
        it has such a name.
      FileNotFoundError: there is no such file.
    """
    file = read(Path(path))
    rows = judged_again(file)
    require(bool(rows), f"a file to check must have results, and {named(Path(path))} has none", claims=len(file.claims))
    ids = set(selected([row.claim.id for row in rows], names))
    rows = [row for row in rows if row.claim.id in ids]
    console = tables.console()
    console.print(table(console, rows))
    said = {part.id: part.result.verdict for part in file.claims if part.result}
    other = [f"{row.claim.id}: the file says {said[row.claim.id]}" for row in rows if said[row.claim.id] != row.verdict]
    for line in (*reasons(rows), *other):
        console.print(line, soft_wrap=True)
    console.print(f"{tally(rows)}; {file.how}; rules {file.rules}", soft_wrap=True)
    return rows


def read(path: Path) -> File:
    """Reads a file of claims and checks that it has the claims and rules of this version.

    Raises:
      ValueError: it has another form, unknown claims, or other rules.
      FileNotFoundError: there is no such file.
    """
    if not os.path.isfile(path):
        raise MissingFileError(f"there is no file {named(path)}")
    try:
        file = File.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = "".join(f"{part} " for part in first["loc"])
        raise InputError(f"a file of claims must fit {SCHEMA}: got {named(path)} ({place}{first['msg']})") from error
    known = {claim.id: claim for claim in ledger.claims()}
    unknown = [part.id for part in file.claims if part.id not in known]
    require(not unknown, f"a file of claims must have those of this version, and {named(path)} has others", ids=unknown)
    ours = hash_of_rules([known[part.id] for part in file.claims])
    other = [part.id for part in file.claims if part.rule.words != known[part.id].rule.words]
    rule = f"a file of claims must have the rules of this version, of hash {ours[:12]}, and {named(path)} has others"
    require(file.rules == ours, rule, hash=file.rules[:12], ids=other)
    return file


def judged_again(file: File) -> list[Row]:
    """Returns a row for each claim that has a result, judged by its trials."""
    known = {claim.id: claim for claim in ledger.claims()}
    return [_row(known[part.id], part.result) for part in file.claims if part.result]


def _row(claim: Claim, result: ResultPart) -> Row:
    values = np.array([np.nan if one is None else one for one in result.trials])
    rule = "a claim without trials needs data or has failed"
    require(values.size > 0 or result.verdict in UNMEASURED, rule, id=claim.id, verdict=result.verdict)
    if not values.size:
        return Row(claim, result.verdict, values, result.seconds, result.device, result.calls, result.note)
    found = judgement(claim, values, Interval(**result.interval.model_dump()) if result.interval else None)
    return Row(
        claim,
        found.verdict,
        values,
        result.seconds,
        result.device,
        result.calls,
        result.note,
        leaning=found.leaning,
        interval=found.interval,
        settled_by=found.settled_by,
    )
