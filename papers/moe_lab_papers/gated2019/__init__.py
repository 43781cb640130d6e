"""The claims and errata of gated2019, "Learning in Gated Neural Networks"."""

from __future__ import annotations

from moe_lab_papers.claim import Claim
from moe_lab_papers.erratum import Erratum
from moe_lab_papers.gated2019 import errata, figures, lemmas, samples, theorems

CLAIMS: tuple[Claim, ...] = (*figures.paper.claims, *theorems.paper.claims, *lemmas.paper.claims, *samples.paper.claims)
ERRATA: tuple[Erratum, ...] = tuple(errata.paper.errata)
