"""The form of claims.json and results.json, each part declared once, with the JSON schema that follows from it.

`python -m tools.catalogue` writes the schema to claims.schema.json.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.json_schema import GenerateJsonSchema

from moe_lab_papers.claim import Bound, Budget, Verdict

SCHEMA = "claims.schema.json"
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


class IntervalPart(_Part):
    """The 95 % interval of the number that the rule judges."""

    low: float
    high: float
    trials: int
    """How many independent trials are behind it."""


class ResultPart(_Part):
    """What the run measured of a claim."""

    verdict: Verdict
    """By the rule and the interval; "needs data" and "failed" have no trials."""
    trials: tuple[float | None, ...]
    """The number of each trial, in the claim's unit; null for one that is not finite."""
    mean: float | None
    """Their mean; null if there is none."""
    judged: float | None
    """The statistic that the rule judges; null if there is none."""
    interval: IntervalPart | None
    """Of the judged number; null where nothing is random, or a single trial was read."""
    leaning: Verdict | None
    """The rule's verdict on the judged number itself, whatever its interval; null where nothing was judged."""
    settled_by: int | None
    """About how many trials would make an unsteady verdict steady; null where it is steady, or none would."""
    reason: str
    """Why it does not agree, or why there is no number, as far as is known."""
    note: str
    """What the run itself adds to the reason, such as a missing file, or fewer samples than in the full budget."""
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
    not_comparable: str
    """What was measured in the place of the paper's data or models, and what that shows; empty for most."""
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
