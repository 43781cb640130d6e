"""The folders of the widgets: no Lab imports another, what they share imports none, and no imports go in a circle."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import moe_lab_widgets
from moe_lab.registry import LABS as DECLARED

ROOT = Path(moe_lab_widgets.__file__).parent
SHARED = {"engine", "drawing", "frames"}
LABS = sorted(path.parent.name for path in ROOT.glob("*/lab.py") if path.parent.name not in SHARED)


def imported(path: Path) -> set[str]:
    """The modules of this package that a module imports, inside functions and under TYPE_CHECKING too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} has a relative import"
            within = {f"{node.module}.{alias.name}" for alias in node.names}
            modules = within & set(FILES)
            found |= modules if len(modules) == len(within) else {str(node.module), *modules}
    return found & set(FILES)


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {_name(path): path for path in sorted(ROOT.rglob("*.py"))}
IMPORTS = {name: imported(path) for name, path in FILES.items() if path != ROOT / "__init__.py"}


def _folder(name: str) -> str:
    return name.partition(".")[2].partition(".")[0]


def test_every_lab_has_the_same_doors() -> None:
    assert sorted(lab.folder for lab in DECLARED) == LABS
    for lab in LABS:
        for door in ("lab", "settings", "stories", "record", "picture", "panels"):
            assert f"moe_lab_widgets.{lab}.{door}" in FILES, f"{lab} has no {door}"


def test_no_lab_imports_another_and_shared_parts_import_none() -> None:
    wrong = [
        f"{name} imports {other}"
        for name, others in IMPORTS.items()
        for other in others
        if _folder(other) in LABS and _folder(other) != _folder(name)
    ]
    assert not wrong, wrong


def test_drawing_does_not_import_the_engine() -> None:
    assert not [
        name for name, others in IMPORTS.items() if _folder(name) == "drawing" and "engine" in map(_folder, others)
    ]


def test_imports_do_not_go_in_a_circle() -> None:
    list(TopologicalSorter(IMPORTS).static_order())  # raises CycleError, which names the circle
