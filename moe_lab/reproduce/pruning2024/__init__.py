"""The claims and errata of pruning2024, "A Provably Effective Method for Pruning Experts in Fine-tuned Sparse MoE"."""

from __future__ import annotations

from moe_lab.reproduce.claim import Claim
from moe_lab.reproduce.erratum import Erratum
from moe_lab.reproduce.pruning2024 import costs, criteria, deep, errata, figures, theorems

CLAIMS: tuple[Claim, ...] = (*figures.CLAIMS, *theorems.CLAIMS, *criteria.CLAIMS, *costs.CLAIMS, *deep.CLAIMS)
ERRATA: tuple[Erratum, ...] = errata.ERRATA
