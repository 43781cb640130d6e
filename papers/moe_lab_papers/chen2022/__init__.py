"""The claims and errata of chen2022, "Towards Understanding the Mixture-of-Experts Layer in Deep Learning".

Table 2, about images, is in `deep`. Tables 10 and 11 and figures 6 to 8 have no model or data here.
"""

from __future__ import annotations

from moe_lab_papers.chen2022 import deep, errata, figures, lemmas, linear_experts, mixtures, singles, tables, theorems
from moe_lab_papers.claim import Claim
from moe_lab_papers.erratum import Erratum

CLAIMS: tuple[Claim, ...] = (
    *mixtures.paper.claims,
    *singles.paper.claims,
    *tables.paper.claims,
    *linear_experts.paper.claims,
    *figures.paper.claims,
    *theorems.paper.claims,
    *lemmas.paper.claims,
    *deep.paper.claims,
)
ERRATA: tuple[Erratum, ...] = tuple(errata.paper.errata)
