"""Checks of pruning2024: lemmas 4.1, 4.2, 4.4, theorems 4.3, 4.5, their conditions, and independence of the experts.

Each statement returns a Finding: "holds", "fails" or "assumption not met", with the numbers that were compared.
"""

from moe_lab.core.findings import Finding
from moe_lab.pruning.theory_conditions import conditions, required_sizes
from moe_lab.pruning.theory_evidence import Evidence, Reading, evidence, kinds
from moe_lab.pruning.theory_identities import decoupling, printed_proficiency
from moe_lab.pruning.theory_run import lemma_4_1, lemma_4_2, lemma_4_4, theorem_4_3, theorem_4_5

__all__ = [
    "Evidence",
    "Finding",
    "Reading",
    "conditions",
    "decoupling",
    "evidence",
    "kinds",
    "lemma_4_1",
    "lemma_4_2",
    "lemma_4_4",
    "printed_proficiency",
    "required_sizes",
    "theorem_4_3",
    "theorem_4_5",
]
