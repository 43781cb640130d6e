"""The claims of the papers as a page of the site, with what was measured where a results.json is given."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from moe_lab_papers import claims
from moe_lab_papers.check import judged_again, read
from moe_lab_papers.digest import Digest, digests, places, templates
from moe_lab_papers.exchange import file
from moe_lab_papers.form import SCHEMA, File
from moe_lab_papers.verdicts import tally
from tools.markdown import WIDE
from tools.reference import Shown

DATA = "claims.json"
OPENING = (
    "What five papers publish, and what nine others state about routing and balancing, each with the rule, stated "
    "before the run, that judges a measurement. `moe-lab reproduce` measures them."
)


def claims_page(results: Path | None) -> str:
    """Returns what replicates, all claims in one table, and the misprints that were found.

    Args:
      results: results.json of `moe-lab reproduce`; None for the claims alone.

    Raises:
      ValueError: the file has another form, unknown claims, or other rules than this version.
      FileNotFoundError: there is no such file.
    """
    found = None if results is None else read(results)
    rows = [] if found is None else judged_again(found)
    shown, parts = digests(claims(), rows), _macros()
    data = f"All of this as data: [{DATA}]({DATA}), in the form of [{SCHEMA}]({SCHEMA})."
    opening = OPENING if found is None else f"{tally(rows)}; {found.how}."
    link = "papers/{}.html".format
    first = parts.first_screen(shown, link) + parts.words_of_verdicts(shown) if rows else parts.contents(shown, link)
    pages = [f"{WIDE}\n# Claims", f"{opening} {data}", _html(first)]
    pages += ["## Every claim", _html(parts.every_claim(shown, bool(rows))), "## Misprints and omitted steps"]
    for one in shown:
        if one.errata:
            misprints = parts.misprints(one.title, [(erratum, None) for erratum in one.errata])
            pages.append(f"### {one.title}\n\n{_html(misprints)}")
    return "\n\n".join(pages) + "\n"


def paper_page(text: str, paper: Digest | None, documented: Collection[str], figures: Sequence[Shown] = ()) -> str:
    """Returns the page of a paper: its own text, how much replicates, and a row for each claim, made from the claims.

    Beside the first claim that a figure measures is its picture.

    Args:
      text: what was written about the paper, in Markdown; it begins with a heading.
      paper: its claims, and what was measured of them; None where it has none.
      documented: the modules that have a page of the reference.
      figures: those of the gallery.
    """
    if paper is None:
        return f"{WIDE}{text}"

    def link_to(function: str) -> str:
        module, name = function.split(":")
        return f"../reference/{module}.html#{module}.{name}" if module in documented else ""

    shown = {f"{one.module}:{one.name}": one for one in figures if one.drawn}

    def picture_of(function: str) -> Shown | None:
        return shown.pop(function, None)

    parts, measured = _macros(), bool(paper.rows)
    heading, _, rest = text.partition("\n\n")
    summary = f"**{_in_short(paper)}**\n\n" if measured else ""
    words = _html(parts.words_of_verdicts([paper])) if measured else ""
    table = _html(parts.every_claim([paper], measured, link_to, picture_of))
    return f"{WIDE}{heading}\n\n{summary}{rest.rstrip()}\n\n## Claim by claim\n\n{words}\n\n{table}\n"


def papers_judged(results: Path | None) -> dict[str, Digest]:
    """Returns the digest of each paper and topic that has claims, with what was measured where there are results."""
    rows = [] if results is None else judged_again(read(results))
    return {one.key: one for one in digests(claims(), rows)}


def _in_short(paper: Digest) -> str:
    """Returns how many claims replicate and how many do not, in a sentence."""
    differing = paper.of("differs")
    rest = f"; {tally(differing)} ({places(differing)})" if differing else ""
    return f"Of {len(paper.rows)} claims that were measured {len(paper.replicating)} replicate{rest}."


def claims_data(results: Path | None) -> File:
    """Returns the claims as data, with what was measured where a results.json is given."""
    return file(claims()) if results is None else read(results)


def _macros() -> Any:
    """What writes the parts of the page, in HTML."""
    return templates().get_template("claims.html").module


def _html(text: str) -> str:
    """HTML as a block of Markdown, which an empty line would end."""
    return re.sub(r"\n\s*\n", "\n", text.strip())
