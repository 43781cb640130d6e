"""The README's example runs and prints what the README says."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parent.parent / "README.md").read_text()
NUMBER = re.compile(r"\d+\.\d+")


@pytest.fixture(scope="module")
def example() -> tuple[str, str]:
    """The example's code and its printed lines."""
    found = re.search(r"```python\n(.*?)```\n+```\n(.*?)```", README, re.S)
    assert found
    return found[1], found[2]


def test_example_prints_what_it_says(example, capsys):
    code, said = example
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert NUMBER.sub("#", printed) == NUMBER.sub("#", said)
    numbers = [float(text) for text in NUMBER.findall(said)]
    assert len(numbers) == 6
    # float32 rounding differs between machines; a lost percent would be a change.
    assert [float(text) for text in NUMBER.findall(printed)] == pytest.approx(numbers, abs=0.0101)


def test_example_is_short(example):
    assert len(example[0].splitlines()) <= 15


def test_named_files_and_commands_exist(root):
    for name in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (root / name).exists(), name
    targets = set(re.findall(r"^([a-z]+):", (root / "Makefile").read_text(), re.M))
    assert set(re.findall(r"`make (\w+)", README)) | set(re.findall(r"^make (\w+)$", README, re.M)) <= targets


def test_every_function_in_the_tables_exists():
    """Each paper's table follows the sentence that names its room."""
    _, *parts = re.split(r"functions are in\s`moe_lab/([\w/]+)/`", README)
    rooms = dict(zip(parts[::2], parts[1::2], strict=True))
    assert set(rooms) == {
        *("patch_routing", "specialization", "pruning", "recovery/gridlock", "recovery/landscape", "recovery"),
    }
    for room, text in rooms.items():
        named = re.findall(r"`(figures|theory|separability|transforms|printed|gru)\.(\w+)[`(]", text)
        assert len(named) >= 2
        missing = [f"{room}.{module}.{name}" for module, name in named if not callable(found(room, module, name))]
        assert missing == []


def found(room: str, module: str, name: str) -> object:
    return getattr(importlib.import_module(f"moe_lab.{room.replace('/', '.')}.{module}"), name, None)
