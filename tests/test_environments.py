"""Environments of other versions: pins at the lower ends, an interpreter that is there, and the workflow's matrix."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tools import environments

ROOT = Path(__file__).resolve().parent.parent


def test_every_range_is_pinned_once_at_its_lower_end():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins = dict(pin.split("==") for pin in environments.oldest(ROOT / "pyproject.toml"))
    for text in declared["dependencies"]:
        name, version = re.match(r"([\w-]+)>=([\d.]+)", text).groups()
        assert pins[name] == version
    assert pins["transformers"] == "5" and "moe-lab" not in pins


def test_the_highest_of_several_lower_ends_counts(tmp_path):
    extras = '[project.optional-dependencies]\na = ["x>=1.10", "y>=2"]\nb = ["x>=1.9", "z"]\n'
    (tmp_path / "pyproject.toml").write_text(f'[project]\ndependencies = ["x>=1.2"]\n{extras}')
    assert environments.oldest(tmp_path / "pyproject.toml") == ["x==1.10", "y==2"]


def test_the_workflow_runs_all_of_them():
    text = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    matrix = re.findall(r'\{ python: "([\d.]+)", which: "(.*?)" \}', text)
    assert matrix == [(version, "") for version in environments.PYTHONS[1:]] + [(environments.PYTHONS[0], "--oldest")]


def test_a_python_that_is_not_there_is_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"Python 3\.13 must be on the path or in pyenv"):
        environments.interpreter("3.13")
