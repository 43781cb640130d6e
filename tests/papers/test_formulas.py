"""What follows by arithmetic does, each number on its own."""

from __future__ import annotations

import pytest

from moe_lab.registry import PAPERS
from moe_lab_papers.formulas import FORMULAS, Formula


@pytest.mark.parametrize("formula", FORMULAS, ids=lambda formula: f"{formula.where}: {formula.words[:40]}")
def test_a_printed_number_follows(formula: Formula) -> None:
    assert formula.computed() == pytest.approx(formula.printed, abs=formula.tolerance)
    assert abs(1.1 * formula.printed + 0.1 - formula.printed) > formula.tolerance, "another number would not"


def test_every_formula_names_its_paper() -> None:
    assert {formula.where.split(",")[0] for formula in FORMULAS} <= set(PAPERS)
