"""Puts a recorded Lab into one HTML file that needs nothing else, and asks the network for nothing."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import moe_lab
from moe_lab.core.errors import InputError
from moe_lab.registry import PAGES
from moe_lab_widgets.live import documents
from moe_lab_widgets.live.product import module
from moe_lab_widgets.live.template import in_json
from moe_lab_widgets.playground import bundle, declared

HERE = Path(__file__).parent
LABS = tuple(PAGES)
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
    how, links = documents.page_of(kind), bundle.links(lab, site)
    if how.trains is not None:  # a map, which its page draws itself
        named = modules(links, (lab,))
        html = bundle.assembled("phase.html", named, ("map_session", "MapSession"), links)
        return html.replace("{recorded}", _in_html(documents.document(kind)))
    if values is not None and not how.has(values):
        raise InputError(f"a live page must be able to run the values that it begins with: {' '.join(how.missing)}")
    start = {name: value for name, value in (values or {}).items() if name != "device"}
    html = bundle.assembled("live.html", modules(links), ("session", "Session"), links)
    words = {
        "title": escape(kind.title),
        "about": escape(" ".join((kind.__doc__ or kind.title).partition("\n\n")[0].split())),
        "source": escape(f"Made by moe_lab {moe_lab.__version__}. The picture is that of {lab} in the notebooks."),
        "start": _in_html(in_json(start)),
        "recorded": _in_html(documents.document(kind)),
    }
    for name, text in words.items():
        html = html.replace(f"{{{name}}}", text)
    return html


def modules(links: Sequence[Mapping[str, str]] = (), labs: Sequence[str] = ()) -> bundle.Modules:
    """Returns the modules of a page, which `links` lead to others, and which draws the maps of some Labs."""
    product = f'export const PRODUCT = "{base64.b64encode(module()).decode()}";\n'
    return bundle.Modules({"product": product, "declared": declared.module(labs, links)}, [HERE, bundle.HERE])


def _in_html(text: str) -> str:
    return text.replace("<", "\\u003c")
