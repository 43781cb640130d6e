"""Puts ES modules into one script.

A bundle is a classic script, since a browser loads no module from file://: the modules follow one another without
`import` and `export`, each before those that import it. So all their names must differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).parent

_IMPORT = re.compile(r'^import\s*\{([^}]*)\}\s*from\s*"\./(\w+)\.js";[ \t]*\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:const|let|function|class)\b)", re.MULTILINE)
_NAME = re.compile(r"^(?:async )?(?:const|let|var|function\*?|class) (\w+|[\[{])", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*(?:/\*.*?\*/|//[^\n]*)[ \t]*\n", re.MULTILINE | re.DOTALL)
_BLANK = re.compile(r"^[ \t]+|^\n", re.MULTILINE)


class Modules:
    """The modules of some folders, by default this one, and generated ones by name."""

    def __init__(self, generated: Mapping[str, str], folders: Sequence[Path] = (HERE,)) -> None:
        self._generated = {name.removesuffix(".js"): text for name, text in generated.items()}
        self._folders = folders

    def text(self, file: str) -> str:
        """Returns the text of a file, of the first folder that has it."""
        return next(folder / file for folder in self._folders if (folder / file).exists()).read_text(encoding="utf-8")

    def written(self, folder: Path, *names: str) -> None:
        """Writes modules and all that they import into a folder, from which node runs them."""
        for name in self.needed(*names):
            (folder / f"{name}.js").write_text(self.source(name), encoding="utf-8")
        (folder / "package.json").write_text('{"type": "module"}')

    def source(self, name: str) -> str:
        """Returns a module as it was written or generated."""
        return self._generated[name] if name in self._generated else self.text(f"{name}.js")

    def needed(self, *names: str) -> list[str]:
        """Returns the names of modules and of all that they import, each after those that it imports itself."""
        found: list[str] = []

        def visit(one: str, way: tuple[str, ...]) -> None:
            if one in way:
                raise RuntimeError(f"modules of the playground import one another: {' -> '.join([*way, one])}")
            if one not in found:
                for _, other in _IMPORT.findall(self.source(one)):
                    visit(other, (*way, one))
                found.append(one)

        for name in names:
            visit(name, ())
        return found

    def bundled(self, *names: str) -> str:
        """Returns modules after all that they import, as statements of one scope, without comments and indentation.

        Raises:
          RuntimeError: two modules define the same name, or one has an import or export of another form.
        """
        parts = {one: self._plain(one) for one in self.needed(*names)}
        home: dict[str, str] = {}
        for one, text in parts.items():
            for defined in names_of(text):
                if home.setdefault(defined, one) != one:
                    raise RuntimeError(f"{one}.js and {home[defined]}.js of the playground both define {defined}")
        return "".join(_BLANK.sub("", text) for text in parts.values())

    def _plain(self, name: str) -> str:
        text = _COMMENT.sub("", self.source(name))
        text = _EXPORT.sub("", _IMPORT.sub("", text))
        if left := re.search(r"^(?:import|export)\b.*", text, re.MULTILINE):
            raise RuntimeError(f"a bundle of the playground cannot have this line of {name}.js: {left[0]}")
        return text if text.endswith("\n") else f"{text}\n"


def names_of(text: str) -> Iterator[str]:
    """Yields the names that a module defines at its top level.

    Raises:
      RuntimeError: it takes an array or object apart there, whose names are not read.
    """
    for name in _NAME.findall(text):
        if name in ("[", "{"):
            raise RuntimeError("a module of the playground must define one name at a time at its top level")
        yield name
