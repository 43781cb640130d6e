"""Fixtures that no test asks for, and environment variables that nothing reads: a setting that does nothing."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LISTED = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
TEXTS = (".py", ".md", ".toml", ".yml", ".js", "Makefile", "run")
OURS = re.compile(r"\b(?:MOE_LAB|BROWSER)_[A-Z_]+\b")


def trees(folders: tuple[str, ...], *words: str) -> Iterator[tuple[str, ast.Module]]:
    """Yields the Python files of some folders that have one of some words."""
    for path in LISTED:
        if path.endswith(".py") and path.startswith(folders):
            text = (ROOT / path).read_text(encoding="utf-8")
            if any(word in text for word in words):
                yield path, ast.parse(text)


def fixture_of(function: ast.FunctionDef) -> tuple[str, bool] | None:
    """Returns a fixture's name and whether pytest uses it unasked; None for another function."""
    for mark in function.decorator_list:
        if ast.unparse(mark).startswith("pytest.fixture"):
            given = {word.arg: word.value for word in getattr(mark, "keywords", [])}
            named, unasked = given.get("name"), given.get("autouse")
            return (ast.literal_eval(named) if named else function.name), bool(unasked and ast.literal_eval(unasked))
    return None


def test_every_fixture_is_asked_for():
    """One that overrides a name which has gone changes nothing, and what it was to set up is not."""
    asked: set[str] = set()
    fixtures: dict[str, str] = {}
    for path, tree in trees(("tests/", "benchmarks/", "conftest.py"), "def test", "fixture"):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                found = fixture_of(node)
                if found is not None and not found[1]:
                    fixtures[found[0]] = path
                if found is not None or node.name.startswith("test"):
                    asked |= {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)}
            elif isinstance(node, ast.Call) and called(node) in ("usefixtures", "getfixturevalue"):
                asked |= {argument.value for argument in node.args if isinstance(argument, ast.Constant)}
    assert len(fixtures) > 20
    assert {name: path for name, path in fixtures.items() if name not in asked} == {}


def called(call: ast.Call) -> str:
    """Returns the last name of what is called: "get" of `os.environ.get(...)`."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def is_environ(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "environ"


def variables_read(tree: ast.Module) -> Iterator[str]:
    """Yields the names of environment variables that a file reads, given as a text or by a constant of the file."""
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        name: ast.expr | None = None
        if isinstance(node, ast.Call) and node.args and called(node) in ("get", "getenv"):
            name = node.args[0] if called(node) == "getenv" or is_environ(node.func.value) else None
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and is_environ(node.value):
            name = node.slice
        if isinstance(name, ast.Name):
            yield str(constants.get(name.id, ""))
        elif isinstance(name, ast.Constant):
            yield str(name.value)


def test_every_variable_of_ours_that_is_named_is_read():
    read = {name for _, tree in trees(("",), "environ", "getenv") for name in variables_read(tree)}
    named = {
        name: path
        for path in LISTED
        if path.endswith(TEXTS) and (ROOT / path).is_file() and path != "CHANGELOG.md"
        for name in OURS.findall((ROOT / path).read_text(encoding="utf-8"))
    }
    assert {"MOE_LAB_DEBUG", "BROWSER_TINY"} <= set(named)
    assert {name: path for name, path in named.items() if name not in read} == {}
