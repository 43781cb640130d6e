"""Claims and results as JSON, and results that somebody else measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from moe_lab import cli
from moe_lab_papers import check, exchange, form, ledger
from moe_lab_papers.claim import VERDICTS, Claim
from moe_lab_papers.ranges import near
from moe_lab_papers.runner import Order
from moe_lab_papers.verdicts import Row

SCHEMA = json.loads((Path(form.__file__).parent / form.SCHEMA).read_text())


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        cli.main(["reproduce", *arguments])
    assert isinstance(left.value.code, int)
    return left.value.code


@pytest.fixture
def results(few: tuple[Claim, ...], tmp_path: Path) -> Path:
    """A results.json of the four claims, one of which lacks its data; a trial of another is not finite."""
    rows = [
        Row(few[0], "needs data", np.zeros(0), 0.0, "", (), "needs a file of digits"),
        Row(few[1], "agrees", np.array([4.0, 4.1]), 1.0, "cpu", ("call()",)),
        Row(few[2], "in kind", np.array([9.0]), 1.0, "cpu", ("call()",)),
        Row(few[3], "differs", np.array([1.0, np.nan]), 1.0, "cpu", ("call()",)),
    ]
    run = exchange.run_part(Order("quick", 3, "cpu", tmp_path), "cpu")
    exchange.write(tmp_path / "results.json", exchange.file(few, rows, run))
    return tmp_path / "results.json"


def changed(path: Path, change: Callable[[dict[str, Any]], None]) -> str:
    """Changes the file, and returns its path."""
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    return str(path)


def test_every_claim_is_exported_with_all_that_is_declared_of_it(tmp_path: Path) -> None:
    assert call("--export", str(tmp_path / "claims.json")) == 0
    data = json.loads((tmp_path / "claims.json").read_text())
    jsonschema.validate(data, SCHEMA)
    assert data["run"] is None and data["rules"] == exchange.hash_of_rules(ledger.claims())
    for claim, part in zip(ledger.claims(), data["claims"], strict=True):
        assert (part["id"], part["where"], part["statement"]) == (claim.id, claim.where, claim.sentence)
        assert (
            part["published"]["value"] == claim.published.value and part["published"]["bound"] == claim.published.bound
        )
        assert part["rule"]["words"] == claim.rule.words and part["result"] is None
        for name, bounds in (("agrees", claim.rule.agrees), ("in_kind", claim.rule.in_kind)):
            ends = part["rule"][name] and [one if one is not None else np.inf for one in part["rule"][name]]
            assert (ends is None) == (bounds is None) and (
                ends is None or np.abs(ends).tolist() == np.abs(bounds).tolist()
            )
        measured, one = data["measurements"][part["measurement"]], claim.measurement
        assert measured["function"] == one.function and set(measured["arguments"]) == {"quick", "full", "paper"}
        assert measured["seconds"]["full"] == pytest.approx(one.duration("full"), abs=1e-3)
        assert measured["needs"] == (one.needs.what if one.needs else "")


def test_a_selection_has_its_own_measurements_alone_and_stays_readable(tmp_path: Path) -> None:
    assert call("chen2022/figure1", "--export", str(tmp_path / "some.json")) == 0
    text = (tmp_path / "some.json").read_text()
    data = json.loads(text)
    ids = [claim.id for claim in ledger.chosen(["chen2022/figure1"])]
    assert [part["id"] for part in data["claims"]] == ids and set(data["papers"]) == {"chen2022"}
    assert set(data["measurements"]) == {part["measurement"] for part in data["claims"]}
    assert text.count("\n") > 40 and '"seconds": {"quick": ' in text


def test_the_schema_refuses_what_is_wrong_and_knows_every_verdict(results: Path) -> None:
    data = json.loads(results.read_text())
    jsonschema.validate(data, SCHEMA)
    assert SCHEMA["$defs"]["ResultPart"]["properties"]["verdict"]["enum"] == list(VERDICTS)
    wrong = [{**data, "rules": 3}, {**data, "more": 1}, {**data, "claims": [{"id": "x"}]}]
    for one in wrong:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(one, SCHEMA)


def test_the_hash_of_the_rules_turns_with_a_rule_and_with_nothing_else(few: tuple[Claim, ...]) -> None:
    first, *rest = few
    known = exchange.hash_of_rules(few)
    assert exchange.hash_of_rules([*rest, first]) == known
    assert exchange.hash_of_rules([replace(first, statement="said otherwise"), *rest]) == known
    for changes in ({"agrees": near(4, 0.6)}, {"in_kind": near(4, 2)}, {"of": "median"}, {"follows": True}):
        assert exchange.hash_of_rules([replace(first, rule=replace(first.rule, **changes)), *rest]) != known, changes
    assert exchange.hash_of_rules(rest) != known


def test_results_of_somebody_else_are_judged_by_our_rules(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def change(data: dict[str, Any]) -> None:
        data["claims"][1]["result"]["trials"] = [5.0, 5.2]

    assert call("--check", changed(results, change)) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "chen2022/squares/two 4 ± 0.5 5.1 ± 0.1 differs" in lines
    assert "chen2022/squares/two: the file says agrees" in lines
    assert "chen2022/squares/one 1 ± 0.5 not finite differs" in lines
    assert not any(line.startswith("chen2022/squares/one: the file says") for line in lines)
    assert any(line.startswith("1 in kind, 2 differ, 1 needs data; quick budget, seed 3, cpu") for line in lines)


def test_some_of_the_results_can_be_named(results: Path) -> None:
    assert [row.claim.id for row in check.check(results, ["chen2022/squares/one"])] == ["chen2022/squares/one"]


def test_what_a_run_writes_can_be_checked(few: tuple[Claim, ...], tmp_path: Path) -> None:
    assert call("--out", str(tmp_path), "--jobs", "1", "--seed", "0", "--device", "cpu") == 0
    data = json.loads((tmp_path / "results.json").read_text())
    jsonschema.validate(data, SCHEMA)
    assert data["rules"] in (tmp_path / "report.html").read_text()
    rows = check.check(tmp_path / "results.json")
    assert [row.verdict for row in rows] == [part["result"]["verdict"] for part in data["claims"]]


def _no_result(data: dict[str, Any]) -> None:
    for part in data["claims"]:
        part["result"] = None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.pop("rules"), "a file of claims must fit claims.schema.json: got"),
        (lambda data: data["claims"][1]["result"].update(trials=["4"]), "claims 1 result trials 0 Input should be a"),
        (lambda data: data["claims"][1]["result"].update(trials=[float("inf")]), "must fit claims.schema.json"),
        (lambda data: data["claims"][1].update(id="nobody/claims/this"), "has others: got ids=['nobody/claims/this']"),
        (lambda data: data.update(rules="0" * 64), "a file of claims must have the rules of this version, of hash "),
        (lambda data: data["claims"][0]["result"].update(verdict="agrees"), "without trials needs data or has failed"),
        (_no_result, "must have results, and "),
    ],
)
def test_another_file_is_refused_in_a_sentence(
    results: Path, capsys: pytest.CaptureFixture[str], change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    assert call("--check", changed(results, change)) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_other_rules_are_named(
    results: Path, few: tuple[Claim, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stricter = replace(few[1], rule=replace(few[1].rule, agrees=near(4, 0.01)))
    monkeypatch.setattr(ledger, "claims", lambda: (few[0], stricter, *few[2:]))
    assert call("--check", str(results)) == 1
    assert "ids=['chen2022/squares/two']" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"id": 1}'])
def test_what_is_no_file_of_claims_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    (tmp_path / "wrong.json").write_text(content)
    assert call("--check", str(tmp_path / "wrong.json")) == 1
    assert "a file of claims must fit claims.schema.json: got" in capsys.readouterr().err
    assert call("--check", str(tmp_path / "none.json")) == 1
    assert "there is no file" in capsys.readouterr().err
