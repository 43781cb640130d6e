"""What commands print: a user's text as it is, whatever rich would read in it."""

from __future__ import annotations

import ast
import io

import pytest
from rich.progress import Progress
from rich.table import Table

from moe_lab.core.console import PlainColumn, PlainConsole

TEXTS = ("out[v2]", "[bold]x[/bold]", "[/]", "[red", r"a\[b", ":smile:", "[link=x]y")
MARKED = {"markup", "Console", "TextColumn", "Text.from_markup", "print"}
"""Names of rich that read markup."""


@pytest.mark.parametrize("text", TEXTS)
def test_text_is_printed_as_it_is(text):
    printed = io.StringIO()
    console = PlainConsole(file=printed, width=100, force_terminal=True, color_system=None)
    table = Table(f"heading {text}", title=f"title {text}", caption=f"caption {text}")
    table.add_row(f"cell {text}")
    console.print(table)
    console.print(f"line {text}")
    with console.status(f"status {text}"):
        pass
    with Progress(PlainColumn("{task.description}"), console=console) as progress:
        progress.add_task(f"task {text}", total=1)
    told = printed.getvalue()
    for place in ("heading", "title", "caption", "cell", "line", "status", "task"):
        assert f"{place} {text}" in told


def test_nothing_else_prints_with_rich(root):
    """One console for all commands: no module takes what reads markup from rich itself."""
    found = []
    for home in ("moe_lab", "widgets", "papers", "hub", "tools", "benchmarks"):
        for path in (root / home).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = {alias.name for alias in node.names} if isinstance(node, ast.ImportFrom | ast.Import) else set()
                module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
                ours = path.name == "console.py" and path.parent.name == "core"
                if not ours and ((module.split(".")[0] == "rich" and names & MARKED) or "rich" in names):
                    found.append(path.relative_to(root).as_posix())
                assert module != "rich.markup" and "rich.markup" not in names, f"{path} escapes by hand"
    assert not found
