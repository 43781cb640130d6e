"""Claims and what a run measured of them as JSON, for readers without Python: claims.json and results.json."""

from __future__ import annotations

import hashlib
import json
import math
import platform
import re
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

from moe_lab import __version__
from moe_lab.core.arguments import checked
from moe_lab.core.files import plain, write_whole
from moe_lab.registry import CLAIMED
from moe_lab_papers.claim import Budget, Claim, Measurement
from moe_lab_papers.form import (
    ClaimPart,
    Ends,
    File,
    IntervalPart,
    MeasurementPart,
    PublishedPart,
    ResultPart,
    RulePart,
    RunPart,
)
from moe_lab_papers.ledger import chosen, measurements
from moe_lab_papers.runner import Order
from moe_lab_papers.verdicts import Row

ABOUT = (
    "Statements of papers on mixtures of experts, each with the rule, stated before any run, that judges a "
    "measurement; 'result' is what the run measured, null where nothing was. In a range, null is an end that is open. "
    "`moe-lab reproduce --check FILE` judges the results in such a file."
)


@checked
def export(path: Path | str, names: Sequence[str] = ()) -> None:
    """Writes claims as data, and measures nothing.

    Args:
      path: of the file.
      names: ids of claims, or beginnings of ids; none for all.

    Raises:
      ValueError: no claim has such a name.
      RuntimeError: the file cannot be written.
    """
    write(Path(path), file(chosen(names)))


def write(path: Path, content: File) -> None:
    """Writes the file whole, in lines that a person can read."""
    write_whole(path, json_text(content.model_dump(mode="json")).encode())


def json_text(data: Any) -> str:
    """Returns JSON with one field a line; numbers, and a few words, stay on the line of their list or mapping."""

    def joined(found: re.Match[str]) -> str:
        line = re.sub(r"\n\s*", " ", found[0])
        return line[0] + line[2:-2] + line[-1] if len(line) < 100 or '"' not in line else found[0]

    text = json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False)
    return re.sub(r"[\[{]\n[^\[\]{}]*\n\s*[\]}]", joined, text) + "\n"


def file(claims: Sequence[Claim], rows: Sequence[Row] = (), run: RunPart | None = None) -> File:
    """Returns claims as data.

    Args:
      claims: in the order of the file.
      rows: the result of each claim that has one.
      run: how they were measured; None where nothing was.
    """
    results = {row.claim.id: result_part(row) for row in rows}
    return File(
        about=ABOUT,
        version=__version__,
        rules=hash_of_rules(claims),
        papers={key: CLAIMED[key].citation for key in CLAIMED if any(claim.paper == key for claim in claims)},
        run=run,
        claims=tuple(_claim(claim, results.get(claim.id)) for claim in claims),
        measurements={one.name: _measurement(one) for one in measurements(claims)},
    )


def run_part(order: Order, device: str) -> RunPart:
    """Returns how a run measures.

    Args:
      order: its arguments.
      device: in words.
    """
    return RunPart(
        budget=order.budget, seed=order.seed, device=device, versions=versions(), machine=platform.platform()
    )


def versions() -> dict[str, str]:
    """Returns the versions of the software on which the numbers depend."""
    packages = ("torch", "numpy", "scipy", "xarray", "scikit-learn", "matplotlib")
    return {
        "moe_lab": __version__,
        "Python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


def hash_of_rules(claims: Sequence[Claim]) -> str:
    """Returns the SHA-256 hash of the rules of some claims, whatever their order."""
    return hashlib.sha256("\n".join(sorted(rule_in_text(claim) for claim in claims)).encode()).hexdigest()


def rule_in_text(claim: Claim) -> str:
    """Returns a claim's id and all that its rule depends on, as text; two rules are the same if their texts are.

    Ends of ranges have nine digits: some are computed, and their last digits depend on the machine.
    """

    def rounded(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [rounded(one) for one in value]
        return f"{value:.9g}" if isinstance(value, float) else value

    fields = {name: rounded(value) for name, value in asdict(claim.rule).items()}
    return json.dumps([claim.id, fields, bool(claim.not_comparable)], sort_keys=True)


def _claim(claim: Claim, result: ResultPart | None) -> ClaimPart:
    said, rule = claim.published, claim.rule
    return ClaimPart(
        id=claim.id,
        paper=claim.paper,
        where=claim.where,
        statement=claim.sentence,
        published=PublishedPart(**asdict(said), words=said.words),
        unit=claim.unit,
        rule=RulePart(
            **asdict(rule) | {"agrees": _ends(rule.agrees), "in_kind": _ends(rule.in_kind)}, words=rule.words
        ),
        reason=claim.reason,
        not_comparable=claim.not_comparable,
        measurement=claim.measurement.name,
        result=result,
    )


def _measurement(one: Measurement) -> MeasurementPart:
    budgets: tuple[Budget, ...] = get_args(Budget)
    return MeasurementPart(
        function=one.function,
        arguments={budget: plain(one.arguments(budget)) for budget in budgets},
        seconds={budget: round(one.duration(budget), 3) for budget in budgets},
        seeded=one.seeded,
        needs=one.needs.what if one.needs else "",
    )


def result_part(row: Row) -> ResultPart:
    """Returns the result of a run for a claim."""
    values = row.values
    return ResultPart(
        verdict=row.verdict,
        trials=tuple(_finite(value) for value in values.tolist()),
        mean=_finite(float(values.mean())) if values.size else None,
        judged=_finite(row.claim.rule.number(values)) if values.size else None,
        interval=IntervalPart(**asdict(row.interval)) if row.interval else None,
        leaning=row.leaning,
        settled_by=row.settled_by,
        reason=row.reason,
        note=row.note,
        seconds=round(row.seconds, 3),
        device=row.device,
        calls=row.calls,
    )


def _ends(bounds: Sequence[float] | None) -> Ends | None:
    return None if bounds is None else (_finite(bounds[0]), _finite(bounds[1]))


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None
