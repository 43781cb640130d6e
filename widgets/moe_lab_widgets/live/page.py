"""Puts a recorded Lab into one HTML file that needs nothing else, and asks the network for nothing."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from moe_lab.core.errors import InputError
from moe_lab.registry import LABS
from moe_lab_widgets.engine.files import with_suffix, write_whole
from moe_lab_widgets.live.documents import document
from moe_lab_widgets.live.product import module
from moe_lab_widgets.playground import bundle, declared

HERE = Path(__file__).parent
POLICY = bundle.POLICY.replace("script-src 'unsafe-inline'", "script-src 'unsafe-inline' 'wasm-unsafe-eval'")
"""What the page may load, which the browser enforces: only what stands in it, and the module of matrix products."""


def live_labs() -> list[str]:
    """Returns the names of the Labs that are recorded."""
    return [lab.name for lab in LABS if declared.kind_of(lab.name).declaration.page is not None]


def page(lab: str, site: str | None = None) -> str:
    """Returns the page of a Lab as one HTML file. Recording a Lab takes up to two minutes, once in a process.

    Args:
      lab: its name.
      site: where the course's pages are, to which it links; the repository's own pages when None.

    Raises:
      ValueError: the Lab is not recorded.
    """
    if lab not in live_labs():
        raise InputError(f"a live page has one of {', '.join(live_labs())}: got {lab!r}")
    kind = declared.kind_of(lab)
    links = bundle.links(lab, site)
    modules = bundle.Modules(generated(lab, links), [HERE, bundle.HERE])
    engine = f"function moeEngine(post) {{\n{modules.bundled('session')}return new Session(post);\n}}"
    script = bundle.in_script(f'"use strict";\n{engine}\n(() => {{\n{modules.bundled("live_page")}}})();')
    html = (HERE / "live.html").read_text(encoding="utf-8")
    about = " ".join((kind.__doc__ or kind.title).split())
    words = {
        "title": escape(kind.title),
        "about": escape(about),
        "source": escape(f"Made by moe_lab {_version()}. The picture is that of {lab} in the notebooks."),
        "links": " ".join(f'<a href="{escape(one["address"])}">{escape(one["words"])}</a>' for one in links),
        "recorded": document(kind).replace("<", "\\u003c"),
    }
    for name, text in words.items():
        html = html.replace(f"{{{name}}}", text)
    policy = f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    html = html.replace('<meta charset="utf-8">', policy)
    for style in ("page.css", "live.css"):
        text = modules.text(style)
        html = html.replace(f'<link rel="stylesheet" href="{style}">', f"<style>\n{text}</style>")
    return html.replace('<script type="module" src="live_page.js"></script>', f"<script>\n{script}\n</script>")


def generated(lab: str, links: Sequence[Any] = ()) -> dict[str, str]:
    """Returns the modules that are made, by name: the product, and the colours."""
    told = {"theme": declared.colours(), "links": list(links), "labs": {}}
    return {
        "product": f'export const PRODUCT = "{base64.b64encode(module()).decode()}";\n',
        "declared": f"export const DECLARED = {json.dumps(told, ensure_ascii=False)};\n",
    }


def write(lab: str, path: Path | str, site: str | None = None) -> Path:
    """Writes a page, whole or not at all; into a folder under its name on the site. Returns the file's path.

    Raises:
      ValueError: the Lab is not recorded.
      FileNotFoundError, RuntimeError: the file cannot be written.
    """
    path = Path(path)
    path = path / file_of(lab) if path.is_dir() else with_suffix(path, ".html", ".htm")
    return write_whole(path, page(lab, site).encode())


def file_of(lab: str) -> str:
    """Returns the name of a Lab's page on the site."""
    home = declared.kind_of(lab).__module__.rpartition(".")[2]
    return f"live_{home}.html"


@cache
def _version() -> str:
    import moe_lab

    return moe_lab.__version__
