"""The Labs that live in a page."""

from __future__ import annotations

from moe_lab.registry import PAGES
from moe_lab_widgets.live.documents import page_of
from moe_lab_widgets.playground.declared import kind_of

RUNS = [lab for lab in PAGES if page_of(kind_of(lab)).fills is None]
"""Those whose page trains their runs; the others fill a map."""
