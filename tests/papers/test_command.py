"""`moe-lab reproduce` as a user meets it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from moe_lab import cli
from moe_lab.registry import PAPERS
from moe_lab_papers import ledger
from moe_lab_papers.claim import Claim, Measurement, Published, Rule, sentence
from moe_lab_papers.ranges import near
from moe_lab_papers.tables import folded, width_of_ids
from tools import catalogue


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        cli.main(["reproduce", *arguments])
    assert isinstance(left.value.code, int)
    return left.value.code


def _results(folder: Path) -> list[dict[str, Any]]:
    return [claim["result"] for claim in json.loads((folder / "results.json").read_text())["claims"]]


def test_it_measures_judges_and_writes(
    few: tuple[Claim, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert call("--out", str(out), "--jobs", "1", "--seed", "0", "--device", "cpu") == 0
    printed = capsys.readouterr().out
    output = " ".join(printed.split())
    assert "claims 3/4, trials 9/9, about 0:00 left" in output
    lines = [" ".join(line.split()) for line in printed.splitlines()]  # in a file or a pipe, a claim a line
    assert "chen2022/squares/one 1 ± 0.5 1.10 ± 0.082 (95 %: 0.85 to 1.35) differs" in lines
    assert "chen2022/squares/one differs: One is smaller." in lines
    assert "1 agrees, 1 in kind, 1 differs, 1 needs data" in output
    file = json.loads((out / "results.json").read_text())
    assert file["run"]["budget"] == "quick" and file["run"]["seed"] == 0 and file["run"]["device"] == "cpu"
    results = [claim["result"] for claim in file["claims"]]
    assert [result["verdict"] for result in results] == ["needs data", "agrees", "in kind", "differs"]
    second = results[1]
    assert second["trials"] == pytest.approx([4.0, 4.1, 4.2]) and second["mean"] == pytest.approx(4.1)
    assert second["judged"] == second["mean"] and second["device"] == "cpu" and second["seconds"] >= 0
    assert len(second["calls"]) == 3 and all("squares(numbers=" in call for call in second["calls"])
    assert results[0]["trials"] == [] and results[0]["mean"] is None and "--data" in results[0]["reason"]
    assert results[2]["reason"] == "Three is larger." and results[1]["reason"] == ""


def test_the_report_stands_on_its_own(few: tuple[Claim, ...], tmp_path: Path) -> None:
    assert call("pmoe2023", "chen2022/squares", "--out", str(tmp_path), "--jobs", "1", "--seed", "3") == 0
    page = (tmp_path / "report.html").read_text()
    assert "data:image/png;base64," in page and "Squares rise." in page
    assert not re.search(r"src=\"(?!data:)|<link", page), "nothing is fetched from elsewhere"
    papers = {paper.url for paper in PAPERS.values()}
    assert "https://arxiv.org/abs/2306.04073" in set(re.findall(r'href="([^"#][^"]*)"', page)) <= papers
    for claim in few:
        assert claim.id in page and claim.sentence in page and sentence(claim.rule.words) in page
    assert "measure_runs.squares(numbers=(2,), trials=3, seed=3" in page
    assert "moe-lab reproduce pmoe2023 chen2022/squares --budget quick --seed 3" in page
    assert re.search(r"torch \d+\.\d+", page) and "seed 3" in page


def test_a_second_call_measures_nothing_again(
    few: tuple[Claim, ...], tmp_path: Path, computed: Callable[[], Counter[str]]
) -> None:
    for _ in range(2):
        assert call("--out", str(tmp_path / "out"), "--jobs", "1") == 0
    assert computed().total() == 3


def test_data_that_are_given_are_used(few: tuple[Claim, ...], tmp_path: Path) -> None:
    (tmp_path / "a.digits").touch()
    with pytest.raises(RuntimeError, match="root"):  # squares has none
        cli.main(["reproduce", "pmoe2023", "--out", str(tmp_path), "--data", str(tmp_path), "--jobs", "1"])
    (result,) = _results(tmp_path)
    assert result["verdict"] == "failed" and "root" in result["reason"]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_bug_in_a_measurement_is_shown_with_its_place_and_the_others_are_written(
    few: tuple[Claim, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: str
) -> None:
    bad = Measurement(name="chen2022/bad", function="measure_runs:broken", quick={"trials": 2}, full={}, seconds=(1, 1))
    failing = Claim(
        id="chen2022/bad/one",
        where="nowhere",
        statement="It runs",
        published=Published(value=1),
        measurement=bad,
        read=lambda data: 1,
        rule=Rule(agrees=near(1, 1)),
    )
    monkeypatch.setattr(ledger, "claims", lambda: (*few, failing))
    with pytest.raises(RuntimeError, match=r"1 of 4 claims could not be measured.*went wrong") as raised:
        cli.main(["reproduce", "chen2022", "--out", str(tmp_path), "--jobs", jobs, "--seed", "0"])
    (trace,) = raised.value.__notes__
    assert "measure_runs.py" in trace and "in broken" in trace
    assert [one["verdict"] for one in _results(tmp_path)] == ["agrees", "in kind", "differs", "failed"]


def test_ids_are_broken_between_words() -> None:
    """So that every id fits its column, and can be read."""
    for claim in ledger.claims():
        width = width_of_ids(80)
        lines = folded(claim.id, width).split("\n")
        assert "".join(lines) == claim.id and max(map(len, lines)) <= width
        assert all(line.endswith(("/", "-")) for line in lines[:-1])


def test_the_list_has_a_claim_on_each_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("chen2022/table3", "--list") == 0
    heading, *rows, last = capsys.readouterr().out.splitlines()
    assert heading.split() == ["claim", "published", "rule", "seconds"] and last.startswith(f"{len(rows)} claims")
    assert [row.split()[0] for row in rows] == [claim.id for claim in ledger.chosen(["chen2022/table3"])]
    assert call("pmoe2023/figure4/joint-outperforms", "--list") == 0
    told = capsys.readouterr().out
    assert "rule: in kind if the mean over trials is at least 0.01\n" in told and "\nwhere: figure 4" in f"\n{told}"
    assert "\nnumber: ahead(joint)\n" in told


def test_the_list_and_the_schema_are_those_of_the_claims() -> None:
    for name, content in catalogue.contents().items():
        assert (catalogue.FOLDER / name).read_text() == content, f"python -m tools.catalogue writes {name}"


def test_listing_loads_nothing_that_measures() -> None:
    """So that it answers at once: torch and xarray take seconds."""
    code = (
        "import sys; from moe_lab import cli\n"
        "try: cli.main(['reproduce', '--list'])\n"
        "finally: assert not {'torch', 'xarray', 'scipy'} & {*sys.modules}"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert f"{len(ledger.claims())} claims" in done.stdout


def test_the_papers_own_sizes_say_first_what_they_cost_and_want_a_gpu_or_somebody_who_asks_for_a_cpu(
    few: tuple[Claim, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moe_lab_papers.command.choose", lambda name: torch.device("cpu"))
    assert call("chen2022", "--budget", "paper", "--out", str(tmp_path), "--jobs", "2") == 1
    error = " ".join(capsys.readouterr().err.split())
    assert "budget='paper' needs a GPU (pass device='cpu' to run anyway)" in error
    assert "the papers' own sizes take about 2.0 hours of one CPU core" in error
    assert "got device='auto'" in error and not any(tmp_path.iterdir())
    assert call("chen2022", "--budget", "paper", "--device", "cpu", "--out", str(tmp_path), "--jobs", "2") == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first == ("the papers' own sizes take about 2.0 hours of one CPU core: about 1.0 hours in 2 processes")
    assert json.loads((tmp_path / "results.json").read_text())["run"]["budget"] == "paper"
    assert len(_results(tmp_path)[0]["trials"]) == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["chen2023"], "a claim must be named by its id or the first of its parts"),
        (["chen2022/squares/tw"], "a claim must be named by its id or the first of its parts"),
        (["--budget", "large"], "budget must be one of quick, full, paper: got budget='large'"),
        (["--seed", "-1"], "seed must be at least 0"),
        (["--jobs", "0"], "jobs must be at least 1"),
        (["--data", "/no/such/folder"], "data must be a folder"),
        (["--device", "abacus"], "device"),
        (["--out", "/proc/none"], "the folder must be writable"),
        (["--cluster", "tcp://127.0.0.1:9"], "no Dask scheduler answers at tcp://127.0.0.1:9"),
    ],
)
def test_wrong_input_is_one_sentence(
    few: tuple[Claim, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("moe_lab.core.workers.ANSWER_SECONDS", 1)
    assert call(*arguments) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
