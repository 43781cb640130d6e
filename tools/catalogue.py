"""Writes papers/moe_lab_papers/catalogue.csv, the list of all claims: `python -m tools.catalogue` after a change."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from moe_lab_papers.catalogue import FILE, Entry, entry
from moe_lab_papers.ledger import claims

PATH = Path(__file__).parents[1] / "papers" / "moe_lab_papers" / FILE


def content() -> str:
    """Returns the list as it should stand in the file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([Entry._fields, *(entry(claim) for claim in claims())])
    return text.getvalue()


if __name__ == "__main__":
    PATH.write_text(content(), encoding="utf-8")
