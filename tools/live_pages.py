"""The playground on the site: its pages, and their place in the pages of notebooks, where their Labs stand.

A page inside another one trains what its address says. Without a script, and on paper, the still picture that the
notebook stores stands there instead (docs/site.css).
"""

from __future__ import annotations

import ast
import base64
import html
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from nbformat import NotebookNode

from moe_lab.registry import LABS, NOTEBOOKS, PAGES
from moe_lab_widgets import pages
from moe_lab_widgets.engine.linking import link_of, own_site
from moe_lab_widgets.playground.declared import complete, kind_of
from tools.pairs import read

FRONT = "RouterAlignmentLab"
"""Whose page is the site's first one, too."""
# A page inside another one tells how high it is (playground/inside.js).
HEIGHTS = """<script>
onmessage = ({ data, source }) => {
  for (const frame of document.querySelectorAll(".moe-lab-live iframe")) {
    if (frame.contentWindow === source && data.moeLabHeight > 0) frame.style.height = `${data.moeLabHeight}px`;
  }
};
</script>"""


HEADING = "# The Labs"
OPENING = "All of them train in your browser. No kernel and no network is needed."
# This page has no use for a table of contents beside the pictures, which need its place.
WIDE = """```{raw} html
<style>
.bd-sidebar-secondary { display: none !important; }
.bd-main .bd-content .bd-article-container { max-width: 1180px !important; padding-inline: 8px; }
</style>
```"""
CARDS = "cards"
"""The folder of the site with the pictures of cards."""
TITLED = '<meta property="og:title"'
OPENED = ("ask", "playing", "projector")
"""Arguments of a Lab that say how it opens, and not what runs."""


class Run(NamedTuple):
    """A run that a cell of a notebook shows: the name of its Lab, and the value of every knob."""

    lab: str
    values: Mapping[str, Any]


def lab_of_cell(cell: NotebookNode) -> Run | None:
    """Returns the run of the Lab that a cell shows; None where it shows none, or one with a model made there."""
    names = {lab.name for lab in LABS}
    if cell.cell_type != "code" or not any("image/png" in output.get("data", {}) for output in cell.get("outputs", [])):
        return None
    for node in ast.walk(ast.parse(cell.source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            known = {"SEED": 0}
            if any(isinstance(one.value, ast.Name) and one.value.id not in known for one in node.keywords):
                return None  # made in the notebook
            values = {
                str(one.arg): known[one.value.id] if isinstance(one.value, ast.Name) else ast.literal_eval(one.value)
                for one in node.keywords
                if one.arg not in OPENED
            }
            return Run(node.func.id, complete(kind_of(node.func.id), values))
    return None


def cells_of(notebook: NotebookNode) -> dict[int, Run]:
    """Returns the runs of the Labs in a notebook by the number of their cell."""
    found = {number: lab_of_cell(cell) for number, cell in enumerate(notebook.cells)}
    return {number: run for number, run in found.items() if run is not None}


def labs_page() -> str:
    """Returns a page with all Labs that train there, in the order of the course."""
    titles, parts = {notebook.number: notebook for notebook in NOTEBOOKS}, [WIDE, HEADING, OPENING]
    for lab in LABS:
        if lab.page:
            kind, stem = kind_of(lab.name), titles[lab.notebook].stem
            note = f'<a href="{stem}.html">Open the notebook</a> to read about it.'
            parts.append(f"## {kind.title}\n\n```{{raw}} html\n{live(lab.name, complete(kind, {}), note)}\n```")
    return "\n\n".join(parts) + "\n"


def live(lab: str, values: Mapping[str, Any], note: str) -> str:
    """Returns a part of a page in which a page of the playground trains a run.

    Args:
      lab: the name of the Lab that it mirrors.
      values: of every knob, and the seed.
      note: HTML that stands below.
    """
    kind = kind_of(lab)
    address = html.escape(link_of(kind, values, {}, ".", {}).address)
    frame = f'<iframe src="{address}" title="{html.escape(kind.title)}, live" loading="lazy"></iframe>'
    return f'<div class="moe-lab-live">{frame}<p class="moe-lab-note">{note}</p></div>\n{HEIGHTS}'


def write_pages(root: Path, folder: Path) -> None:
    """Writes the pages of the playground into the built site, and that of `FRONT` as its first page.

    Whoever posts the address of one sees a card: the picture of its Lab that the notebook stores.
    """
    (folder / CARDS).mkdir(exist_ok=True)
    for lab, name in PAGES.items():
        card = Path(CARDS, name).with_suffix(".png")
        (folder / card).write_bytes(picture_of(lab, root))
        text = pages.page(lab, ".").replace(TITLED, f"{card_at(card)}{TITLED}", 1)
        (folder / name).write_text(text, encoding="utf-8")
    shutil.copyfile(folder / PAGES[FRONT], folder / "index.html")


def card_at(card: Path) -> str:
    """Returns what tells of a card at the address of the site: who shows it knows no other."""
    address = html.escape(f"{own_site()}/{card.as_posix()}")
    return f'<meta property="og:image" content="{address}">\n<meta name="twitter:card" content="summary_large_image">\n'


def picture_of(lab: str, root: Path) -> bytes:
    """Returns the first picture of a Lab in its notebook, as PNG."""
    (number,) = (one.notebook for one in LABS if one.name == lab)
    (stem,) = (one.stem for one in NOTEBOOKS if one.number == number)
    notebook = read(root / "notebooks" / f"{stem}.ipynb")
    place = next(place for place, run in cells_of(notebook).items() if run.lab == lab)
    found = (output.get("data", {}).get("image/png") for output in notebook.cells[place].outputs)
    return base64.b64decode(next(one for one in found if one))
