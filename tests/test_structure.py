"""Which module may import which: no room another room, no library module a widget, and no circles."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = (
    "patch_routing",
    "specialization",
    "pruning",
    "hub",
    "recovery",
    "recovery.gridlock",
    "recovery.landscape",
    "vision",
)


@cache
def modules(package: str) -> dict[str, ast.Module]:
    """The modules of a package by name; a package itself is named "package.__init__"."""
    paths = sorted((ROOT / package).rglob("*.py"))
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): ast.parse(path.read_text()) for path in paths}


def imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(module, name) of every import below a node; the name is empty for `import module`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)


@cache
def all_imports(package: str) -> dict[str, list[tuple[str, str]]]:
    """Every import of each module, wherever it stands."""
    return {module: list(imported(tree)) for module, tree in modules(package).items()}


def at_once(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Imports that run when the module is imported: none in functions or for type checkers alone."""
    for node in tree.body:
        checking = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        if not checking and not isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield from imported(node)


@cache
def graph(package: str) -> dict[str, set[str]]:
    """The modules that each module imports at once; a name that a package re-exports stands for where it comes from."""
    known = modules(package)

    def source(module: str, name: str) -> str:
        if f"{module}.{name}" in known:
            return f"{module}.{name}"
        for origin, exported in at_once(known.get(f"{module}.__init__", ast.Module([], []))):
            if exported == name:
                return source(origin, name)
        return module

    return {
        module: {source(*pair) for pair in at_once(tree)} & set(known)
        for module, tree in known.items()
        if not module.endswith("__init__")
    }


def room_of(module: str) -> str:
    """The innermost room that a module belongs to; empty for the ground floor."""
    rooms = [room for room in ROOMS if f"{module}.".startswith(f"moe_lab.{room}.")]
    return max(rooms, key=len, default="")


def test_no_room_imports_another_room() -> None:
    for module, found in all_imports("moe_lab").items():
        here = room_of(module)
        for origin, name in found:
            there = room_of(f"{origin}.{name}")
            shared = f"{here}.".startswith(f"{there}.")  # both rooms of recovery stand on what lies beside them
            exported = module.endswith("__init__") and there.startswith(here)
            assert not here or not there or shared or exported, f"{module} imports {origin}.{name}"


@pytest.mark.parametrize("package", ["moe_lab", "tools"])
def test_there_is_no_circle(package: str) -> None:
    try:
        TopologicalSorter(graph(package)).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_the_library_imports_no_widgets() -> None:
    found = [(module, origin) for module, pairs in all_imports("moe_lab").items() for origin, _ in pairs]
    assert found and not [pair for pair in found if pair[1].startswith("moe_lab_widgets")]


def test_circles_and_rooms_are_recognised() -> None:
    assert room_of("moe_lab.recovery.em") == "recovery" and room_of("moe_lab.recovery.gridlock.run.Run") in ROOMS
    assert (
        room_of("moe_lab.core.trials") == ""
        and "moe_lab.core.trials" in graph("moe_lab")["moe_lab.pruning.checkpoints"]
    )
