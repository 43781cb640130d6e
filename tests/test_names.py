"""Files that our texts name exist, and hold what a text says is in them."""

from __future__ import annotations

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LISTED = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
TEXTS = [path for path in LISTED if path.endswith(".md") and path != "CHANGELOG.md"]
FILE = re.compile(r"`([\w/<>.-]+\.(?:py|js|md|toml|txt|zip|json))`")
HELD = (
    re.compile(r"`(\w+)(?:\([^`]*\))?`\s+\(`([\w/]+\.py)`\)"),  # `name` (`file.py`)
    re.compile(r"`(\w+)(?:\([^`]*\))?`\s+(?:in|of)\s+`([\w/]+\.py)`"),  # `name` in `file.py`
)
WRITTEN = {"results.json", "benchmarks/results.json", "plan.json"}
"""Files that a command writes."""
ANY = re.compile(r"<[^>]*>|KEY|NN_title")
"""What stands for a name of the reader's."""


def places(name: str) -> list[str]:
    """Returns the files of the checkout that a text may mean by a path or by its end."""
    pattern = re.compile("(?:.*/)?" + "[^/]+".join(re.escape(part) for part in ANY.split(name)))
    return [path for path in LISTED if pattern.fullmatch(path)]


@cache
def defined(path: str) -> set[str]:
    """Returns the names that a file defines at its top level, and the methods of its classes."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


@pytest.mark.parametrize("text", TEXTS)
def test_every_file_that_a_text_names_exists(text):
    named = set(FILE.findall((ROOT / text).read_text(encoding="utf-8"))) - WRITTEN
    assert [name for name in sorted(named) if not places(name)] == []


def test_every_name_is_in_the_file_that_a_text_says():
    stated = {
        (text, name, file)
        for text in TEXTS
        for pattern in HELD
        for name, file in pattern.findall((ROOT / text).read_text(encoding="utf-8"))
    }
    assert len(stated) >= 10
    wrong = [one for one in sorted(stated) if not any(one[1] in defined(path) for path in places(one[2]))]
    assert wrong == []
