"""Claims of five papers, and of others on routing, with the measurements and rules that test them: `moe-lab reproduce`.

A claim (`claim.Claim`) has a place in a paper, the published statement, the call that measures it, and the rule, stated
before the run, that judges it. `ledger.claims()` returns all of them, `ledger.errata()` the misprints and omitted steps
that were found. `run(...)` measures, judges, and writes results.json and report.html.

The names below load the first time that they are used, so that listing claims does not load what measures them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moe_lab_papers.claim import Claim
    from moe_lab_papers.command import run
    from moe_lab_papers.erratum import Erratum
    from moe_lab_papers.ledger import chosen, claims, errata

_HOMES = {
    "Claim": "claim",
    "Erratum": "erratum",
    "chosen": "ledger",
    "claims": "ledger",
    "errata": "ledger",
    "run": "command",
}

__all__ = ["Claim", "Erratum", "chosen", "claims", "errata", "run"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
