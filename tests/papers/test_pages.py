"""Numbers on the papers' pages that are measured at seed 0 are those of the kept results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.papers.measured import rows

PAGES = Path(__file__).parents[2] / "docs" / "papers"
ROWS = {row.claim.id: row for row in rows()}
_NUMBER = r"\d*\.?\d+"


def numbers(page: str, before: str, after: str) -> list[float]:
    """The numbers between two phrases of a page."""
    text = " ".join((PAGES / page).read_text().split())
    (found,) = re.findall(re.escape(before) + r"(.{1,60}?)" + re.escape(after), text)
    return [float(number) for number in re.findall(_NUMBER, found)]


def test_the_entropies_of_linear_experts_are_those_that_are_measured() -> None:
    stated = numbers("chen2022.md", "their entropy stays high (", " nats in settings 1 to 4)")
    for setting, number in enumerate(stated, 1):
        table = 1 if setting < 3 else 3
        found = ROWS[f"chen2022/table{table}/setting{setting}-linear-entropy"]
        assert found.values.mean() == pytest.approx(number, abs=0.006), setting
    assert len(stated) == 4


def test_the_share_of_samples_that_joint_training_needs_is_no_end_of_a_grid() -> None:
    """A grid that begins at N = 60 finds .15 at least; the claim's begins far below."""
    (stated,) = numbers("pmoe2023.md", "Joint training needs ", " % of the CNN's samples on 8x8 digits")
    claim = ROWS["pmoe2023/figure4/joint-samples"].claim
    assert stated < 15
    assert all(budget["samples"][0] <= 60 / 3 for budget in (claim.measurement.quick, claim.measurement.full))
