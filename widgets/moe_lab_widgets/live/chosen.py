"""What of the JavaScript a page needs for its Lab: the marks that it draws and the operations that it repeats."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
SESSIONS = {False: ("session", "Session"), True: ("map_session", "MapSession")}
"""The module that trains and its class: of runs, and of maps that are filled."""
OF_OPERATIONS = ("linear", "matching", "rotations")
"""Modules of operations that not every Lab has."""

_OF_MARKS = ("boxes", "maps", "matches", "patched", "planes", "shapes", "strips", "tiles")
_MARK = '(this: import("./pen.js").AxesPen, one: any) => void'
_MAKER = 'import("./operations.js").Maker'
_CONNECTIONS = {False: ("workers", "connected"), True: ("map_crew", "crewed")}
_TABLE = re.compile(r"^(?:export )?const (LOOPS|MAKERS|BY_INDEX|OF_\w+) = \{\n(.*?)^\};", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"^  (\w+)[,:(]", re.MULTILINE)


class Table(NamedTuple):
    """A table of marks or operations: its name in a module, and what it has a line for, or begins with one."""

    name: str
    names: tuple[str, ...]


def table_of(module: str) -> Table:
    """Returns the table in a module of the page.

    Raises:
      RuntimeError: it has none.
    """
    found = _TABLE.search((HERE / f"{module}.js").read_text(encoding="utf-8"))
    if found is None:
        raise RuntimeError(f"{module}.js must have a table of marks or operations, with a line for each")
    return Table(found[1], tuple(_NAME.findall(found[2])))


def chosen(recorded: str | None, fills: bool) -> dict[str, str]:
    """Returns the modules `of_page` and `of_engine`, by name, as texts.

    Args:
      recorded: a Lab's document, in whose text its marks and operations stand; None for all that there are.
      fills: whether the Lab fills a map.
    """
    module, name = _CONNECTIONS[fills]
    connection = f'import {{ {name} }} from "./{module}.js";\nexport const connectedLab = {name};\n'
    return {
        "of_page": connection + _joined("MARKS_OF_LAB", _MARK, _OF_MARKS, recorded),
        "of_engine": _joined("OPERATIONS_OF_LAB", _MAKER, OF_OPERATIONS, recorded),
    }


def _joined(name: str, kind: str, modules: Iterable[str], recorded: str | None) -> str:
    """Returns a module that exports what a document needs of the tables of others, as one."""
    tables = {module: table_of(module) for module in modules}
    needed = {
        module: table.name
        for module, table in tables.items()
        if recorded is None or re.search(rf'"(?:{"|".join(table.names)})["._]', recorded)
    }
    lines = [f'import {{ {table} }} from "./{module}.js";' for module, table in needed.items()]
    lines += [f"/** @type {{Record<string, {kind}>}} */"]
    lines += [f"export const {name} = {{ {' '.join(f'...{table},' for table in needed.values())} }};"]
    return "\n".join(lines) + "\n"
