"""The archive of results changes whole, and only where its maker has agreed to the cost."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from moe_lab.core.files import from_netcdf
from moe_lab_papers import ledger
from moe_lab_papers.runner import Order
from tests.papers import measured

CHEAP = min(
    (one for one in ledger.measurements(ledger.claims()) if one.needs is None), key=lambda one: one.duration("quick")
)


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "measured.zip"
    place.write_bytes(measured.KEPT.read_bytes())
    monkeypatch.setattr(measured, "KEPT", place)
    return place


def without(name: str) -> dict[str, object]:
    return {other: data for other, data in measured.datasets().items() if other != name}


def test_without_a_change_there_is_nothing_to_measure(tmp_path, archive, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or "n")
    measured.main([str(tmp_path / "results")])
    assert capsys.readouterr().out.startswith("0 of ")
    measured.main([str(tmp_path / "results"), "--all"])
    whole = capsys.readouterr().out
    assert not whole.startswith("0 of ") and "minutes on one core" in whole
    assert len(asked) == 2
    assert archive.read_bytes() == measured.KEPT.read_bytes() and not (tmp_path / "results").exists()


def test_what_is_missing_is_measured_and_all_else_stays(tmp_path, archive):
    kept = without(CHEAP.name)
    assert measured.to_measure(None, kept) == [CHEAP]
    measured.keep(Order("quick", 0, "cpu", tmp_path / "pieces"), kept, archive)
    with zipfile.ZipFile(archive) as file:
        found = {name.removesuffix(".nc"): from_netcdf(file.read(name)) for name in file.namelist()}
    assert set(found) == set(measured.datasets())
    for name, data in measured.datasets().items():
        if name != CHEAP.name:
            assert found[name].identical(data)
    for claim in (claim for claim in ledger.claims() if claim.measurement is CHEAP):
        np.testing.assert_allclose(claim.values(found[CHEAP.name]), claim.values(measured.datasets()[CHEAP.name]))


def test_a_run_that_is_stopped_leaves_the_archive_as_it_was(tmp_path, archive, monkeypatch):
    before = archive.read_bytes()

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(measured, "measured", stopped)
    with pytest.raises(KeyboardInterrupt):
        measured.keep(Order("quick", 0, "cpu", tmp_path / "pieces"), without(CHEAP.name), archive)
    assert archive.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["measured.zip"]
