"""Puts a recorded Lab into one HTML file that needs nothing else, and asks the network for nothing."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from moe_lab.core.errors import InputError
from moe_lab.registry import PAGES
from moe_lab_widgets.live import documents
from moe_lab_widgets.live.product import module
from moe_lab_widgets.live.template import in_json
from moe_lab_widgets.playground import bundle, declared

HERE = Path(__file__).parent
POLICY = bundle.POLICY.replace("script-src 'unsafe-inline'", "script-src 'unsafe-inline' 'wasm-unsafe-eval'")
"""What the page may load, which the browser enforces: only what stands in it, and the module of matrix products."""


LABS = tuple(name for name in PAGES if name not in bundle.FILES)
"""The Labs that are recorded."""


def page(lab: str, site: str | None = None, values: Mapping[str, Any] | None = None) -> str:
    """Returns the page of a Lab as one HTML file. Recording a Lab takes up to two minutes, once in a process.

    Args:
      lab: its name.
      site: where the course's pages are, to which it links; the repository's own pages when None.
      values: of knobs, with which it begins unless its address has others; the defaults when None.

    Raises:
      ValueError: the Lab is not recorded, or not for these values.
    """
    if lab not in LABS:
        raise InputError(f"the Labs that are recorded for a live page are {', '.join(LABS)}: got {lab!r}")
    kind = declared.kind_of(lab)
    how = documents.page_of(kind)
    if values is not None and not how.has(values):
        raise InputError(f"a live page must be able to run the values that it begins with: {' '.join(how.missing)}")
    start = {name: value for name, value in (values or {}).items() if name != "device"}
    links = bundle.links(lab, site)
    modules = bundle.Modules(generated(), [HERE, bundle.HERE])
    engine = f"function moeEngine(post) {{\n{modules.bundled('session')}return new Session(post);\n}}"
    script = bundle.in_script(f'"use strict";\n{engine}\n(() => {{\n{modules.bundled("live_page")}}})();')
    html = (HERE / "live.html").read_text(encoding="utf-8")
    about = " ".join((kind.__doc__ or kind.title).split())
    words = {
        "title": escape(kind.title),
        "about": escape(about),
        "source": escape(f"Made by moe_lab {_version()}. The picture is that of {lab} in the notebooks."),
        "links": " ".join(f'<a href="{escape(one["address"])}">{escape(one["words"])}</a>' for one in links),
        "start": in_json(start).replace("<", "\\u003c"),
        "recorded": documents.document(kind).replace("<", "\\u003c"),
    }
    for name, text in words.items():
        html = html.replace(f"{{{name}}}", text)
    policy = f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    html = html.replace('<meta charset="utf-8">', policy)
    for style in ("page.css", "live.css"):
        text = modules.text(style)
        html = html.replace(f'<link rel="stylesheet" href="{style}">', f"<style>\n{text}</style>")
    return html.replace('<script type="module" src="live_page.js"></script>', f"<script>\n{script}\n</script>")


def generated() -> dict[str, str]:
    """Returns the modules that are made, by name: the product, and the colours."""
    told = {"theme": declared.colours(), "links": [], "labs": {}}
    return {
        "product": f'export const PRODUCT = "{base64.b64encode(module()).decode()}";\n',
        "declared": f"export const DECLARED = {json.dumps(told, ensure_ascii=False)};\n",
    }


@cache
def _version() -> str:
    import moe_lab

    return moe_lab.__version__
