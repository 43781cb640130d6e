"""The claims and errata of pmoe2023, "Patch-level Routing in Mixture-of-Experts is Provably Sample-efficient".

Section 5.1 is in `figures` (digits), `mnist` and `mnist_authors` (as the authors' code trains). What the paper proves
is in `theorems`, `lemmas` and `bounds`. Section 5.2 and appendix A, about wide residual networks, are in `deep`.
Figures 10 to 12 need CelebA, which is not here.
"""

from __future__ import annotations

from moe_lab_papers.claim import Claim
from moe_lab_papers.erratum import Erratum
from moe_lab_papers.pmoe2023 import bounds, deep, errata, figures, lemmas, mnist, mnist_authors, theorems

CLAIMS: tuple[Claim, ...] = (
    *figures.paper.claims,
    *mnist.paper.claims,
    *mnist_authors.paper.claims,
    *theorems.paper.claims,
    *lemmas.paper.claims,
    *bounds.paper.claims,
    *deep.paper.claims,
)
ERRATA: tuple[Erratum, ...] = tuple(errata.paper.errata)
