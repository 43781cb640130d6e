"""Writes the list of all claims and the schema of their file: `python -m tools.catalogue` after a change."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from moe_lab_papers.catalogue import FILE, Entry, entry
from moe_lab_papers.exchange import json_text
from moe_lab_papers.form import SCHEMA, schema
from moe_lab_papers.ledger import claims

FOLDER = Path(__file__).parents[1] / "papers" / "moe_lab_papers"


def contents() -> dict[str, str]:
    """Returns what should stand in each file of the folder of claims."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([Entry._fields, *(entry(claim) for claim in claims())])
    return {FILE: text.getvalue(), SCHEMA: json_text(schema())}


if __name__ == "__main__":
    for name, content in contents().items():
        (FOLDER / name).write_text(content, encoding="utf-8")
