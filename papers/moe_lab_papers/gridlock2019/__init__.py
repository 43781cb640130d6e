"""The claims and errata of gridlock2019, "Breaking the gridlock in Mixture-of-Experts"."""

from __future__ import annotations

from moe_lab_papers.claim import Claim
from moe_lab_papers.erratum import Erratum
from moe_lab_papers.gridlock2019 import errata, figures, gates, lemmas, operators, regressors, tables, theorems

CLAIMS: tuple[Claim, ...] = (
    *tables.paper.claims,
    *theorems.paper.claims,
    *regressors.paper.claims,
    *gates.paper.claims,
    *operators.paper.claims,
    *lemmas.paper.claims,
    *figures.paper.claims,
)
ERRATA: tuple[Erratum, ...] = tuple(errata.paper.errata)
