"""Puts a recorded Lab into one HTML file that needs nothing else, and asks the network for nothing."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import moe_lab
from moe_lab.core.errors import InputError
from moe_lab.registry import LABS, PAGES, PAPERS
from moe_lab_widgets.live import documents
from moe_lab_widgets.live.chosen import SESSIONS, chosen
from moe_lab_widgets.live.folding import folded
from moe_lab_widgets.live.product import module
from moe_lab_widgets.live.template import in_json
from moe_lab_widgets.playground import bundle, declared
from moe_lab_widgets.playground.modules import HERE as OF_PLAYGROUND
from moe_lab_widgets.playground.modules import Modules

HERE = Path(__file__).parent


def page(lab: str, site: str | None = None, values: Mapping[str, Any] | None = None) -> str:
    """Returns the page of a Lab as one HTML file. Recording a Lab takes up to a minute, once for a
    version of the library: it is kept in the cache.

    Args:
      lab: its name.
      site: where the course's pages are, to which it links; the repository's own pages when None.
      values: of knobs, with which it begins unless its address has others; the defaults when None.

    Raises:
      ValueError: the Lab has no page, or none that begins with these values.
      RuntimeError: the page's files cannot be put together: see the message.
    """
    if lab not in PAGES:
        raise InputError(f"the Labs with a page are {', '.join(PAGES)}: got {lab!r}")
    kind = declared.kind_of(lab)
    how, links = documents.page_of(kind), bundle.links(lab, site)
    if values is not None and not how.has(values):
        raise InputError(f"a live page must be able to run the values that it begins with: {' '.join(how.missing)}")
    start = {name: value for name, value in (values or {}).items() if name != "device"}
    recorded, fills = documents.document(kind), how.fills is not None
    html = bundle.assembled("live.html", modules(links, recorded, fills), SESSIONS[fills], links)
    words = {
        "title": escape(kind.title),
        "about": escape(" ".join((kind.__doc__ or kind.title).partition("\n\n")[0].split())),
        "answers": answers(lab),
        "start": _in_html(in_json(start)),
        "recorded": folded(_in_html(recorded)),
    }
    for name, text in words.items():
        html = html.replace(f"{{{name}}}", text)
    return html


def answers(lab: str) -> str:
    """Returns what visitors ask first of a page, with short answers, as HTML."""
    paper = PAPERS[next(one.paper for one in LABS if one.name == lab)]
    link = f'<a href="{escape(paper.url)}">{escape(paper.citation)}</a>'
    found = {
        "What am I looking at?": "A mixture of experts while it trains: several small networks, and a router that "
        "decides which of them gets what. Nothing is a recording; your browser trains it now.",
        "What do the colours mean?": "An expert has its colour, its shape and its number everywhere. Black is the "
        "model under study, grey what it is compared with; red is what fails.",
        "Does it replicate a paper?": f"It shows the setting of {link}. <code>moe-lab reproduce {paper.key}</code> "
        "prints what the paper publishes beside what is measured.",
        "May I reuse it?": "Yes, under the MIT licence: it is one file, which needs no network. Keep it, send it on, "
        "teach with it.",
        "Who made it?": f"moe_lab {moe_lab.__version__}. The picture is that of {lab} in its notebooks.",
    }
    return "".join(f"<dt>{question}</dt><dd>{answer}</dd>" for question, answer in found.items())


def modules(links: Sequence[Mapping[str, str]] = (), recorded: str | None = None, fills: bool = False) -> Modules:
    """Returns the modules of a page, which `links` lead to others; for a Lab's document with what it needs alone, and
    for one that fills a map with what trains maps (`chosen`)."""
    product = f'export const PRODUCT = "{base64.b64encode(module()).decode()}";\n'
    generated = {"product": product, "declared": declared.module(links), **chosen(recorded, fills)}
    return Modules(generated, [HERE, OF_PLAYGROUND])


def _in_html(text: str) -> str:
    return text.replace("<", "\\u003c")
