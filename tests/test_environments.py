"""Environments of other versions: what they are called, how they end, and the workflow's matrix."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tools import environments

ROOT = Path(__file__).resolve().parent.parent


def test_the_workflow_runs_all_of_them():
    text = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    matrix = re.findall(r'\{ python: "([\d.]+)", which: "(.*?)" \}', text)
    assert matrix == [(version, "") for version in environments.PYTHONS[1:]] + [(environments.PYTHONS[0], "--oldest")]


def test_every_dependency_has_a_lower_end():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [text for group in declared["optional-dependencies"].values() for text in group]
    ours = [Requirement(text) for text in (*declared["dependencies"], *extras)]
    assert [str(one) for one in ours if one.name != "moe-lab" and ">=" not in str(one.specifier)] == []


def test_an_environment_that_cannot_be_made_ends_with_the_reason(monkeypatch, tmp_path, capfd):
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    for name in ("UV_OFFLINE", "UV_NO_PYTHON_DOWNLOADS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path))
    monkeypatch.setenv("UV_PYTHON_PREFERENCE", "only-managed")
    with pytest.raises(SystemExit) as ended:
        environments.main(["3.13"])
    assert ended.value.code and "3.13" in capfd.readouterr().err
    assert not (tmp_path / ".environments" / "3.13-newest" / "bin").exists()
