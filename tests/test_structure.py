"""Which module may import which: no room another room, nothing what lies above it, and no circles.

All imports count: at the top of a module, inside functions, and for type checkers alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HOMES = {"moe_lab": ".", "moe_lab_widgets": "widgets", "moe_lab_papers": "papers", "moe_lab_hub": "hub", "tools": "."}
"""Where each package is."""
ROOMS = (
    "patch_routing",
    "specialization",
    "pruning",
    "recovery",
    "recovery.gridlock",
    "recovery.landscape",
    "vision",
)
VERSION = "moe_lab"
"""The package itself: it holds the version, which every part may read, and names that load when they are first used."""
MOST_AT_THE_ROOT = 8
"""Files: the root of the library is its table of contents."""


@cache
def modules(package: str) -> dict[str, ast.Module]:
    """The modules of a package by name, itself among them."""
    home = ROOT / HOMES[package]
    paths = sorted((home / package).rglob("*.py"))
    names = (".".join(path.relative_to(home).with_suffix("").parts).removesuffix(".__init__") for path in paths)
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in zip(names, paths, strict=True)}


def imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(module, name) of every import below a node; the name is empty for `import module`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)


@cache
def graph(package: str) -> dict[str, set[str]]:
    """The modules that each module of a package imports, of any package of ours."""
    known = {module for one in HOMES for module in modules(one)} - {VERSION}

    def sources(tree: ast.Module) -> set[str]:
        return {f"{module}.{name}" if f"{module}.{name}" in known else module for module, name in imported(tree)}

    return {module: (sources(tree) & known) - {module} for module, tree in modules(package).items()}


def room_of(module: str) -> str:
    """The innermost room that a module belongs to; empty outside them."""
    rooms = [room for room in ROOMS if f"{module}.".startswith(f"moe_lab.{room}.")]
    return max(rooms, key=len, default="")


def test_no_room_imports_another_room() -> None:
    for module, found in graph("moe_lab").items():
        here = room_of(module)
        for origin in found:
            there = room_of(origin)
            shared = f"{here}.".startswith(f"{there}.")  # both rooms of recovery stand on what lies beside them
            exported = f"{there}.".startswith(f"{here}.") and module == f"moe_lab.{here}"
            assert not here or not there or shared or exported, f"{module} imports {origin}"


@pytest.mark.parametrize("package", HOMES)
def test_there_is_no_circle(package: str) -> None:
    try:
        TopologicalSorter(graph(package)).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


@pytest.mark.parametrize(
    ("below", "may"),
    [
        ("moe_lab.core", ("moe_lab.core", "moe_lab.registry")),
        ("moe_lab.drawing", ("moe_lab.core", "moe_lab.drawing", "moe_lab.datasets")),
        ("moe_lab.plain", ()),
        ("moe_lab", ("moe_lab",)),
        ("moe_lab_widgets", ("moe_lab", "moe_lab_hub", "moe_lab_widgets")),
        ("moe_lab_papers", ("moe_lab", "moe_lab_papers")),
        ("moe_lab_hub", ("moe_lab", "moe_lab_hub")),
    ],
)
def test_nothing_imports_what_lies_above_it(below: str, may: tuple[str, ...]) -> None:
    package = below.partition(".")[0]
    looked_at = [module for module in modules(package) if f"{module}.".startswith(f"{below}.")]
    wrong = [
        f"{module} imports {origin}"
        for module in looked_at
        for origin in graph(package)[module]
        if not f"{origin}.".startswith(tuple(f"{one}." for one in may))
    ]
    assert looked_at and wrong == []


def test_the_root_of_the_library_is_a_table_of_contents() -> None:
    assert len(list((ROOT / "moe_lab").glob("*.py"))) <= MOST_AT_THE_ROOT


def test_imports_and_rooms_are_recognised() -> None:
    assert room_of("moe_lab.recovery.em") == "recovery" and room_of("moe_lab.recovery.gridlock.run.MixtureRun") in ROOMS
    assert room_of("moe_lab.core.trials") == ""
    assert "moe_lab.core.trials" in graph("moe_lab")["moe_lab.pruning.checkpoints"]
    assert {"moe_lab.core.config", "moe_lab_widgets.labs.phase_transition_words"} <= {
        origin for package in HOMES for found in graph(package).values() for origin in found
    }
