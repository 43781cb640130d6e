"""The playground on the site: its pages, and their place in the pages of notebooks, where their Labs stand.

A page inside another one trains what its address says. Without a script, and on paper, the still picture that the
notebook stores stands there instead (docs/site.css).
"""

from __future__ import annotations

import html
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moe_lab.registry import PAGES
from moe_lab_widgets import pages
from moe_lab_widgets.engine.linking import link_of
from tools.recordings import kind_of

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


def write_pages(folder: Path) -> None:
    """Writes the pages of the playground into the built site, and that of `FRONT` as its first page."""
    for lab in PAGES:
        pages.write(lab, folder, ".")
    shutil.copyfile(folder / PAGES[FRONT], folder / "index.html")
