"""What pruning2024 proves, looked at: lemmas 4.1, 4.2, 4.4, theorems 4.3, 4.5, their conditions, and what decouples.

A statement comes back as a Finding: "holds", "fails" or "assumption not met", with the numbers that say so.
"""

from moe_lab.findings import Finding
from moe_lab.pruning.theory_conditions import asked_for, conditions
from moe_lab.pruning.theory_evidence import Evidence, Reading, evidence, kinds
from moe_lab.pruning.theory_identities import decoupling, printed_proficiency
from moe_lab.pruning.theory_run import lemma_4_1, lemma_4_2, lemma_4_4, theorem_4_3, theorem_4_5

__all__ = [
    "Evidence",
    "Finding",
    "Reading",
    "asked_for",
    "conditions",
    "decoupling",
    "evidence",
    "kinds",
    "lemma_4_1",
    "lemma_4_2",
    "lemma_4_4",
    "printed_proficiency",
    "theorem_4_3",
    "theorem_4_5",
]
