"""Puts a page of the playground into one HTML file that needs nothing else, and asks the network for nothing.

The engine is one function, `moeEngine`, whose source a worker can be given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape

from moe_lab.registry import LABS, NOTEBOOKS, PAGES
from moe_lab_widgets.engine.linking import NOWHERE, own_site
from moe_lab_widgets.playground import declared
from moe_lab_widgets.playground.modules import Modules

INSIDE = "inside"
"""The module for a page inside another one, in every page."""
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval' blob:; worker-src blob:; "
    "style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
"""What a page may load, which the browser enforces: only what stands in it, and the module of matrix products."""

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
