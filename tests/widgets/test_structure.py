"""The folders of the widgets: no Lab imports another, what they share imports none, and no imports go in a circle."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import moe_lab_widgets
from moe_lab.registry import LABS as DECLARED

ROOT = Path(moe_lab_widgets.__file__).parent
LABS = sorted(lab.module.removeprefix("labs.") for lab in DECLARED)
"""The module of every Lab; what belongs to one begins with its name."""


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


def _lab(name: str) -> str:
    """The Lab to which a module belongs; empty for those that all share."""
    module = name.partition(".labs.")[2]
    return max((lab for lab in LABS if module == lab or module.startswith(f"{lab}_")), key=len, default="")


def test_every_lab_is_a_file_with_its_goals_and_stories_beside_it() -> None:
    modules = {name.partition(".labs.")[2] for name in FILES if ".labs." in name}
    assert {*LABS, *(f"{lab}_{own}" for lab in LABS for own in ("goals", "stories"))} <= modules
    assert all(_lab(f"moe_lab_widgets.labs.{module}") for module in modules), "a file of no Lab"


def test_no_lab_imports_another_and_shared_parts_import_none() -> None:
    wrong = [
        f"{name} imports {other}"
        for name, others in IMPORTS.items()
        for other in others
        if _lab(other) and _lab(other) != _lab(name)
    ]
    assert not wrong, wrong


def test_drawing_does_not_import_the_engine() -> None:
    assert not [
        name for name, others in IMPORTS.items() if _folder(name) == "drawing" and "engine" in map(_folder, others)
    ]


def test_imports_do_not_go_in_a_circle() -> None:
    list(TopologicalSorter(IMPORTS).static_order())  # raises CycleError, which names the circle
