"""The first screen of the report: what replicates of each paper, what does not and why, and what is open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe

from moe_lab_papers import ledger
from moe_lab_papers.claim import VERDICTS
from moe_lab_papers.digest import REPLICATES, SETTLED, Digest, digests, meanings, place, places
from moe_lab_papers.exchange import run_part
from moe_lab_papers.in_short import CAUSES
from moe_lab_papers.report import page
from moe_lab_papers.runner import Order
from moe_lab_papers.verdicts import Row
from tests.papers import measured

LAPTOP = {"width": 1366, "height": 768}
ORDER = Order("quick", 0, "cpu", Path("measured"))


@pytest.fixture(scope="module")
def rows() -> tuple[Row, ...]:
    """What the kept quick run at seed 0 has of every claim."""
    return measured.rows()


def test_every_cause_is_named_once_and_holds_in_the_kept_run(rows: tuple[Row, ...]) -> None:
    """A cause whose claims no longer differ goes, or its sentence changes."""
    verdicts = {row.claim.id: row.verdict for row in rows}
    named = [identity for cause in CAUSES for identity in cause.claims]
    assert len(named) == len(set(named))
    assert {identity: verdicts.get(identity) for identity in named} == dict.fromkeys(named, "differs")


def test_a_cause_is_left_out_where_one_of_its_claims_does_not_differ(rows: tuple[Row, ...]) -> None:
    cause = next(cause for cause in CAUSES if len(cause.claims) > 1)
    first, *others = cause.claims
    key = first.split("/")[0]

    def digest(given: Sequence[Row]) -> Digest:
        return next(one for one in digests(ledger.claims(), given) if one.key == key)

    assert cause in digest(rows).causes
    turned = digest([replace(row, verdict="agrees") if row.claim.id == first else row for row in rows])
    assert cause not in turned.causes
    assert {*others} <= {row.claim.id for row in turned.unexplained}


def test_every_claim_is_counted_once(rows: tuple[Row, ...]) -> None:
    for one in digests(ledger.claims(), rows):
        parts = [one.of(verdict) for verdict in VERDICTS]
        assert sum(map(len, parts)) == len(one.rows) == len(one.claims)
        explained = {identity for cause in one.causes for identity in cause.claims}
        assert {row.claim.id for row in one.of("differs")} == explained | {row.claim.id for row in one.unexplained}


def test_places_are_said_as_a_paper_says_them() -> None:
    first = ledger.claims()[0]
    for identity, words in {
        "chen2022/figure4b/x": "figure 4b",
        "chen2022/lemmac.3/x": "lemma c.3",
        "gated2019/appendix-b/x": "appendix b",
        "gridlock2019/eq51/x": "eq 51",
    }.items():
        assert place(replace(first, id=identity)) == words
    assert place(next(claim for claim in ledger.claims() if claim.paper == "routers")) == "Shazeer et al. 2017"
    made = [Row(replace(first, id=f"a/figure{n}/x"), "differs", np.zeros(1), 0.0, "", ()) for n in (1, 1, 2, 3, 4, 5)]
    assert places(made) == "figure 1, figure 2, figure 3, figure 4, figure 5"
    more = Row(replace(first, id="a/figure6/x"), "differs", np.zeros(1), 0.0, "", ())
    assert places([*made, more]) == "figure 1, figure 2, figure 3, figure 4 and 2 more"


def test_every_verdict_has_a_meaning_and_is_told_where_it_occurs() -> None:
    claims = ledger.claims()[: len(VERDICTS)]
    every = [Row(claim, verdict, np.ones(2), 0.0, "", ()) for claim, verdict in zip(claims, VERDICTS, strict=True)]
    assert set(meanings(digests(claims, every))) == set(VERDICTS)
    assert list(meanings(digests(claims[:1], every[:1]))) == [VERDICTS[0]]
    assert (REPLICATES[0], *SETTLED[2:]) == ("agrees", "follows", "differs") and "in kind" in REPLICATES[1]


def test_the_report_has_a_row_for_each_claim(rows: tuple[Row, ...]) -> None:
    text = unescape(page(rows, {}, ORDER, run_part(ORDER, "cpu")))
    for row in rows:
        line = text.partition(f'<tr id="{row.claim.id}">')[2].partition("</tr>")[0]
        assert row.claim.where in line and row.measured in line and f">{row.verdict}</td>" in line
        assert row.reason in line
    assert all(cause.sentence in text for cause in CAUSES)


@pytest.fixture(scope="module")
def screen(browser: Any, rows: tuple[Row, ...], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The report of the kept run on a laptop's screen."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page(rows, {}, ORDER, run_part(ORDER, "cpu")), encoding="utf-8")
    shown = browser.new_page(viewport=LAPTOP)
    shown.goto(path.as_uri())
    yield shown
    shown.close()


@pytest.mark.slow
@pytest.mark.browser
class TestOnAScreen:
    def test_what_replicates_fits_the_first(self, screen: Any) -> None:
        screen.set_viewport_size(LAPTOP)
        bottom = screen.evaluate("document.querySelector('.digest').getBoundingClientRect().bottom")
        assert 300 < bottom <= LAPTOP["height"]

    @pytest.mark.parametrize("size", [LAPTOP, {"width": 390, "height": 844}], ids=["laptop", "phone"])
    def test_axe_finds_nothing_wrong(self, screen: Any, size: dict[str, int]) -> None:
        screen.set_viewport_size(size)
        found = Axe().run(screen, options={"resultTypes": ["violations"]}).response
        assert len(found["passes"]) > 10 and found["violations"] == []
