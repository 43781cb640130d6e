"""The claims of the papers as a page of the site, with what was measured where a results.json is given."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moe_lab.core.config import require
from moe_lab.registry import CLAIMED
from moe_lab_papers import claims, errata
from moe_lab_papers.claim import VERDICTS
from tools.markdown import WIDE, table

UNMEASURED = "not measured"


def claims_page(results: Path | None) -> str:
    """Returns all claims by paper, and the misprints that were found.

    Args:
      results: results.json of `moe-lab reproduce`; None for the claims alone.

    Raises:
      ValueError: the file is something else, or has a claim that this version lacks.
    """
    found = None if results is None else records(results)
    parts = [f"{WIDE}\n# Claims\n\n{_opening(found)}"]
    for key, paper in CLAIMED.items():
        if not any(claim.paper == key for claim in claims()):
            continue
        parts.append(f"## {paper.citation}\n\n[What replicates](papers/{key}.md), in short.\n\n{_claims(key, found)}")
        misprints = [erratum for erratum in errata() if erratum.paper == key]
        if misprints:
            rows = [(each.where, each.printed, each.instead, each.evidence) for each in misprints]
            listed = table(("where", "printed", "instead", "evidence"), rows)
            parts.append(_folded(f"Misprints and omitted steps ({len(rows)})", listed))
    return "\n\n".join(parts) + "\n"


def records(path: Path) -> dict[str, Mapping[str, Any]]:
    """The measured claims of a results.json by their id.

    Raises:
      ValueError: the file is something else, or has a claim that this version lacks.
    """
    rule = "results must be the results.json that `moe-lab reproduce` writes"
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        found = {row["id"]: row for row in rows if row["verdict"]}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{rule}: got {path} ({type(error).__name__}: {error})") from error
    unknown = sorted(set(found) - {claim.id for claim in claims()})
    require(not unknown, f"{rule}, of this version of moe_lab, which has no such claims", claims=unknown)
    return found


def _opening(found: Mapping[str, Mapping[str, Any]] | None) -> str:
    opening = (
        "What five papers publish, and what nine others state about routing and balancing, each with the rule that "
        "judges a measurement, stated before the run. `moe-lab reproduce` measures them. "
        "What only follows by arithmetic from the paper's own formulas or sizes is counted apart from what agrees."
    )
    if found is None:
        return opening
    counts = Counter(row["verdict"] for row in found.values())
    tally = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
    how = sorted(
        {f"{row['config']['budget']} budget, seed {row['seed']}, moe_lab {row['version']}" for row in found.values()}
    )
    return f"{opening} Measured here ({'; '.join(how)}): {tally}."


def _claims(paper: str, found: Mapping[str, Mapping[str, Any]] | None) -> str:
    """The claims of a paper, folded; those that were measured by their verdicts."""
    heads = ["where", "claim", "published", "rule"] + ([] if found is None else ["measured", "verdict"])
    groups: dict[str, list[list[str]]] = {verdict: [] for verdict in ("claims", *VERDICTS, UNMEASURED)}
    for claim in claims():
        if claim.paper == paper:
            row = [f"{claim.where} ({claim.id})", claim.sentence, claim.published.words, claim.rule.words]
            if found is None:
                groups["claims"].append(row)
            else:
                measured = found.get(claim.id)
                verdict = UNMEASURED if measured is None else str(measured["verdict"])
                groups[verdict].append(row + _measured(measured))
    return "\n\n".join(_folded(f"{len(rows)} {name}", table(heads, rows)) for name, rows in groups.items() if rows)


def _folded(summary: str, text: str) -> str:
    """Markdown that a reader opens."""
    return f"<details>\n<summary>{summary}</summary>\n\n{text}\n\n</details>"


def _measured(row: Mapping[str, Any] | None) -> list[str]:
    """The measured mean, and the verdict with its reason."""
    if row is None:
        return ["", UNMEASURED]
    numbers = row["measured"]
    words = ""
    if numbers is not None:
        words = "not finite" if numbers["mean"] is None else f"{numbers['mean']:.4g}"
        if numbers["mean"] is not None and numbers["trials"] != 1:
            words += f" ± {numbers['std']:.2g}"
        words += f" {row['unit']}" if row["unit"] else ""
    return [words, f"{row['verdict']}: {row['reason']}" if row["reason"] else row["verdict"]]
