"""Tests of the theory of chen2022: theorems 4.1 and 4.2, lemmas 5.1, 5.2, C.1, C.3, C.4 and E.1, appendix B.

Each test of a statement returns a Finding: "holds", "fails" or "assumption not met", with the numbers it is based on.
"""

from moe_lab.core.findings import Finding
from moe_lab.specialization.theory_noise import (
    GaussianNoise,
    UniformNoise,
    lemma_c_1,
    lemma_c_3,
    lemma_c_4,
    routing_probabilities,
    worst_ratio,
)
from moe_lab.specialization.theory_run import (
    conditions_4_2,
    groups,
    lemma_5_2,
    lemma_e_1,
    predicted_clusters,
    theorem_4_2,
)
from moe_lab.specialization.theory_single import (
    ERROR_FLOOR,
    additive_accuracy,
    additive_output,
    appendix_b,
    every_configuration,
    four_configurations,
    symmetrised,
    theorem_4_1,
    tight_classifier,
)

__all__ = [
    "ERROR_FLOOR",
    "Finding",
    "GaussianNoise",
    "UniformNoise",
    "additive_accuracy",
    "additive_output",
    "appendix_b",
    "conditions_4_2",
    "every_configuration",
    "four_configurations",
    "groups",
    "lemma_5_2",
    "lemma_c_1",
    "lemma_c_3",
    "lemma_c_4",
    "lemma_e_1",
    "predicted_clusters",
    "routing_probabilities",
    "symmetrised",
    "theorem_4_1",
    "theorem_4_2",
    "tight_classifier",
    "worst_ratio",
]
