"""Puts a page of the playground into one HTML file that needs nothing else, and asks the network for nothing.

The page's modules are plain ES modules. A bundle is a classic script, since a browser loads no module from file://: the
modules follow one another without `import` and `export`, each before those that import it. So all their names must
differ. The engine is one function, `moeEngine`, whose source a worker can be given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

from moe_lab.registry import LABS, NOTEBOOKS, PAGES
from moe_lab_widgets.engine.linking import NOWHERE, own_site
from moe_lab_widgets.playground import declared

HERE = Path(__file__).parent
INSIDE = "inside"
"""The module for a page inside another one, in every page."""
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval' blob:; worker-src blob:; "
    "style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
"""What a page may load, which the browser enforces: only what stands in it, and the module of matrix products."""


_IMPORT = re.compile(r'^import\s*\{([^}]*)\}\s*from\s*"\./(\w+)\.js";[ \t]*\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:const|let|function|class)\b)", re.MULTILINE)
_NAME = re.compile(r"^(?:async )?(?:const|let|var|function\*?|class) (\w+|[\[{])", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*(?:/\*.*?\*/|//[^\n]*)[ \t]*\n", re.MULTILINE | re.DOTALL)
_BLANK = re.compile(r"^[ \t]+|^\n", re.MULTILINE)
_STYLE = re.compile(r'<link rel="stylesheet" href="([\w.]+)">')
_SCRIPT = re.compile(r'<script type="module" src="(\w+)\.js"></script>')
_NOTICE = re.compile(r'<p id="old".*?</p>', re.DOTALL)
_CHARSET = re.compile(r'<meta charset="utf-8">', re.IGNORECASE)


def assembled(file: str, modules: Modules, engine: tuple[str, str], links: Sequence[Mapping[str, str]]) -> str:
    """Returns a file of HTML with the style and the modules that it names, and with its policy (`POLICY`).

    Args:
      file: its name, in a folder of the modules.
      engine: the module that trains, and its class.
      links: `words` and `address` of other pages, to which it leads without a script, too.

    Raises:
      RuntimeError: the page's files cannot be put together: see the message.
    """
    html = modules.text(file)
    first = _SCRIPT.search(html)
    if first is None or _CHARSET.search(html) is None:
        raise RuntimeError(f"{file} must have a charset, and name its first module in a <script>")
    name, made = engine
    trains = f"function moeEngine(post) {{\n{modules.bundled(name)}return new {made}(post);\n}}"
    script = in_script(f'"use strict";\n{trains}\n(() => {{\n{modules.bundled(first[1], INSIDE)}tellHeight();\n}})();')
    allowed = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    html = _CHARSET.sub(lambda found: f"{found[0]}\n{allowed}", html)
    plain = " ".join(f'<a href="{escape(one["address"])}">{escape(one["words"])}</a>' for one in links)
    html = _NOTICE.sub(lambda found: f"{found[0]}<noscript>{plain}</noscript>", html)
    html = _STYLE.sub(lambda found: f"<style>\n{modules.text(found[1])}</style>", html)
    return html.replace(first[0], f"<script>\n{script}\n</script>")


def links(lab: str, site: str | None = None) -> list[dict[str, str]]:
    """Returns where a page leads: to the course, to the notebook about it, and to the other pages.

    Nowhere when `site` is None and the installed package does not say where its pages are.
    """
    if site is None:
        site = own_site()
        if site == NOWHERE:
            return []
    number = next(one.notebook for one in LABS if one.name == lab)
    notebook = next(one for one in NOTEBOOKS if one.number == number)
    found = {"The course": "course.html", f"Notebook {notebook.heading}": f"{notebook.stem}.html"}
    found |= {declared.kind_of(other).title: page for other, page in PAGES.items() if other != lab}
    return [{"words": words, "address": f"{site.rstrip('/')}/{name}"} for words, name in found.items()]


def in_script(code: str) -> str:
    """Returns code in which no string ends the script that it stands in, or begins a comment of HTML."""
    return re.sub(r"<(?=/script|!--)", r"\\x3C", code, flags=re.IGNORECASE)


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
