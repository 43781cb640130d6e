"""The claims as a whole: who they are, that each can be looked up, and that every erratum holds."""

from __future__ import annotations

import importlib
import inspect
import re
from collections import Counter
from pathlib import Path

import pytest

from moe_lab.findings import Finding
from moe_lab.registry import PAPERS
from moe_lab.reproduce import ledger
from moe_lab.reproduce.claim import Claim, Measurement, imported
from moe_lab.reproduce.erratum import Erratum
from moe_lab.reproduce.runner import Order, pieces

CLAIMS, ERRATA = ledger.claims(), ledger.errata()
MEASUREMENTS = ledger.measurements(CLAIMS)


def test_there_are_claims_of_every_paper() -> None:
    assert len(CLAIMS) >= 60
    assert set(Counter(claim.paper for claim in CLAIMS)) == set(PAPERS)
    assert {one.paper for one in ERRATA} == set(PAPERS)


def test_ids_are_unique_and_well_formed() -> None:
    for names in ([claim.id for claim in CLAIMS], [one.id for one in ERRATA], [one.name for one in MEASUREMENTS]):
        assert [name for name, count in Counter(names).items() if count > 1] == []
    assert all(re.fullmatch(r"[a-z0-9]+(/[A-Za-z0-9.+-]+){2,}", claim.id) for claim in CLAIMS)
    assert all(re.fullmatch(r"[a-z0-9]+(/[A-Za-z0-9.+-]+)+", one.id) for one in ERRATA)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_a_claim_says_what_where_and_how(claim: Claim) -> None:
    assert claim.where and len(claim.statement.split()) >= 4 and not claim.statement.endswith(".")
    assert claim.measurement.name.split("/")[0] == claim.paper


@pytest.mark.parametrize("one", MEASUREMENTS, ids=lambda one: one.name)
def test_both_budgets_call_a_function_that_there_is(one: Measurement, tmp_path: Path) -> None:
    signature = inspect.signature(imported(one.function))
    for budget in ("quick", "full"):
        order = Order(budget, 0, "cpu", tmp_path, data=_data(one, tmp_path))
        parts = pieces(one, order)
        assert parts
        for piece in parts:
            signature.bind(**piece.arguments)
    assert 0 < one.seconds[0] <= one.seconds[1]
    if one.picture:
        assert callable(imported(one.picture)) and len(one.sees.split()) >= 4


def _data(one: Measurement, folder: Path) -> Path:
    if one.needs is not None:
        (folder / one.needs.pattern.replace("*", "x").replace("?", "x")).touch()
    return folder


def test_all_of_them_fit_their_budgets_on_two_cores() -> None:
    """By the seconds that the measurements state; `moe-lab reproduce` says what it took."""
    free = [one for one in MEASUREMENTS if one.needs is None]
    assert sum(one.seconds[0] for one in free) / 2 <= 360
    assert sum(one.seconds[1] for one in free) / 2 <= 3600


@pytest.mark.parametrize("one", [one for one in ERRATA if one.check], ids=lambda one: one.id)
def test_an_erratum_is_one(one: Erratum) -> None:
    assert one.check is not None
    found = one.check()
    assert isinstance(found, Finding) and found.holds, found


def test_every_erratum_says_what_is_wrong_and_how_one_knows() -> None:
    assert all(one.printed and one.instead and one.evidence and one.where for one in ERRATA)
    assert sum(bool(one.check) for one in ERRATA) >= len(ERRATA) / 2


def test_a_name_is_an_id_or_its_beginning() -> None:
    first = CLAIMS[0]
    assert ledger.chosen([first.id]) == (first,)
    assert ledger.chosen([first.paper]) == tuple(claim for claim in CLAIMS if claim.paper == first.paper)
    assert ledger.chosen([f"{first.paper}/"]) == ledger.chosen([first.paper])
    assert ledger.chosen() == CLAIMS
    with pytest.raises(ValueError, match="got name='gated'"):
        ledger.chosen(["gated"])


def test_nothing_is_imported_before_it_is_needed() -> None:
    assert importlib.import_module("moe_lab.reproduce").claims is ledger.claims
