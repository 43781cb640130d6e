"""The claims and errata of pruning2024, "A Provably Effective Method for Pruning Experts in Fine-tuned Sparse MoE".

The paper prunes each mixture by itself (section 5.2) and compares that with nothing, so that experts of all mixtures
ranked together (`moe_lab_papers.pruning2024.vmoe.prune(..., together=True)`) have no claim.
"""

from __future__ import annotations

from moe_lab_papers.claim import Claim
from moe_lab_papers.erratum import Erratum
from moe_lab_papers.pruning2024 import costs, criteria, deep, errata, figures, inference, released, theorems

CLAIMS: tuple[Claim, ...] = (
    *figures.paper.claims,
    *theorems.paper.claims,
    *criteria.paper.claims,
    *costs.paper.claims,
    *inference.paper.claims,
    *deep.paper.claims,
    *released.paper.claims,
)
ERRATA: tuple[Erratum, ...] = tuple(errata.paper.errata)
