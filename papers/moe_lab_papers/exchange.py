"""Claims and what a run measured of them as JSON, for readers without Python: claims.json and results.json.

Both files have one form, which the classes below declare. `claims.schema.json` is its JSON schema; `python -m
tools.catalogue` writes it.
"""

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

from pydantic import BaseModel, ConfigDict
from pydantic.json_schema import GenerateJsonSchema

from moe_lab import __version__
from moe_lab.core.arguments import checked
from moe_lab.core.files import plain, write_whole
from moe_lab.registry import CLAIMED
from moe_lab_papers.claim import Bound, Budget, Claim, Measurement, Verdict
from moe_lab_papers.ledger import chosen, measurements
from moe_lab_papers.runner import Order
from moe_lab_papers.verdicts import Row

SCHEMA = "claims.schema.json"
ABOUT = (
    "Statements of papers on mixtures of experts, each with the rule, stated before any run, that judges a "
    "measurement; 'result' is what the run measured, null where nothing was. In a range, null is an end that is open. "
    "`moe-lab reproduce --check FILE` judges the results in such a file."
)
Ends = tuple[float | None, float | None]


class _Part(BaseModel):
    """A part of the file. A wrong type, an unknown field and a number that is not finite are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True)


class PublishedPart(_Part):
    """What the paper reports."""

    value: float | None
    """The number, in the claim's unit; null where the paper shows a curve or states a relation."""
    spread: float | None
    """Its standard deviation or half-width, where the paper gives one."""
    bound: Bound
    """How the number bounds what is measured, where the paper states an inequality; else empty."""
    relation: str
    """What the curve shows or the theorem states; empty where the number is all."""
    words: str
    """All of this in words."""


class RulePart(_Part):
    """Which measured numbers agree with the paper."""

    agrees: Ends | None
    """The closed range in which the number agrees; null where none does."""
    in_kind: Ends | None
    """The closed range in which it agrees in kind."""
    of: str
    """The statistic of the trials that is judged."""
    follows: bool
    """Whether a number that agrees follows by arithmetic from the paper's own formulas or sizes."""
    words: str
    """The rule in words."""


class MeasurementPart(_Part):
    """A call whose result several claims can read."""

    function: str
    """A Python function of moe_lab, as module:name."""
    arguments: dict[Budget, dict[str, Any]]
    """Its arguments in each budget, without seed and device."""
    seconds: dict[Budget, float]
    """The approximate duration in each budget, on one CPU core."""
    seeded: bool
    """Whether it takes a seed; false where nothing is random."""
    needs: str
    """Data files that it requires; empty for none."""


class ResultPart(_Part):
    """What the run measured of a claim."""

    verdict: Verdict
    """By the rule; "needs data" and "failed" have no trials."""
    trials: tuple[float | None, ...]
    """The number of each trial, in the claim's unit; null for one that is not finite."""
    mean: float | None
    """Their mean; null if there is none."""
    judged: float | None
    """The statistic that the rule judges; null if there is none."""
    reason: str
    """Why it does not agree, or why there is no number, as far as is known."""
    seconds: float
    """CPU time of the measurement, which several claims may share."""
    device: str
    """On which it was measured; empty where it was not."""
    calls: tuple[str, ...]
    """Python calls that repeat the measurement."""


class ClaimPart(_Part):
    """A statement of a paper."""

    id: str
    """The paper's key, the place, and what is claimed."""
    paper: str
    """The key of the paper, or of the topic, in "papers"."""
    where: str
    """The place in the paper."""
    statement: str
    """What is claimed, in one sentence."""
    published: PublishedPart
    unit: str
    """Of the numbers; empty where they have none."""
    rule: RulePart
    reason: str
    """Why it is expected to differ or to agree in kind only; empty where it is expected to agree."""
    measurement: str
    """The name of its call in "measurements"."""
    result: ResultPart | None


class RunPart(_Part):
    """How the results were measured."""

    budget: Budget
    seed: int
    """Of all random streams."""
    device: str
    versions: dict[str, str]
    """Of the software."""
    machine: str


class File(_Part):
    """Statements of papers, the rules that judge them, and what a run measured."""

    about: str
    """What this file is."""
    version: str
    """Of moe_lab, whose claims these are."""
    rules: str
    """The SHA-256 hash of the rules: of the id, the ranges and the statistic of every claim in the file."""
    papers: dict[str, str]
    """The papers and topics by their keys."""
    run: RunPart | None
    """Null where nothing was measured."""
    claims: tuple[ClaimPart, ...]
    measurements: dict[str, MeasurementPart]
    """The calls by their names."""

    @property
    def how(self) -> str:
        """How the results were measured, in words."""
        run = f"{self.run.budget} budget, seed {self.run.seed}, {self.run.device}" if self.run else "it is not said how"
        return f"{run}, moe_lab {self.version}"


class _Schema(GenerateJsonSchema):
    """Without titles that repeat the names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def schema() -> dict[str, Any]:
    """Returns the JSON schema of the file."""
    return {"$schema": GenerateJsonSchema.schema_dialect, **File.model_json_schema(schema_generator=_Schema)}


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
    """Returns JSON with one field a line; a list or a mapping of a few values stays on its line."""

    def joined(found: re.Match[str]) -> str:
        line = re.sub(r"\n\s*", " ", found[0])
        return line[0] + line[2:-2] + line[-1] if len(line) < 100 else found[0]

    text = json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False)
    return re.sub(r"[\[{]\n[^\[\]{}]*\n\s*[\]}]", joined, text) + "\n"


def file(claims: Sequence[Claim], rows: Sequence[Row] = (), run: RunPart | None = None) -> File:
    """Returns claims as data.

    Args:
      claims: in the order of the file.
      rows: the result of each claim that has one.
      run: how they were measured; None where nothing was.
    """
    results = {row.claim.id: _result(row) for row in rows}
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
    return json.dumps([claim.id, fields], sort_keys=True)


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
        measurement=claim.measurement.name,
        result=result,
    )


def _measurement(one: Measurement) -> MeasurementPart:
    budgets: tuple[Budget, ...] = get_args(Budget)
    return MeasurementPart(
        function=one.function,
        arguments={budget: plain(one.arguments(budget)) for budget in budgets},
        seconds={budget: round(one.takes(budget), 3) for budget in budgets},
        seeded=one.seeded,
        needs=one.needs.what if one.needs else "",
    )


def _result(row: Row) -> ResultPart:
    values = row.values
    return ResultPart(
        verdict=row.verdict,
        trials=tuple(_finite(value) for value in values.tolist()),
        mean=_finite(float(values.mean())) if values.size else None,
        judged=_finite(row.claim.rule.number(values)) if values.size else None,
        reason=row.reason,
        seconds=round(row.seconds, 3),
        device=row.device,
        calls=row.calls,
    )


def _ends(bounds: Sequence[float] | None) -> Ends | None:
    return None if bounds is None else (_finite(bounds[0]), _finite(bounds[1]))


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None
