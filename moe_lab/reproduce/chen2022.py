"""The claims of chen2022, "Towards Understanding the Mixture-of-Experts Layer in Deep Learning".

Its tables 2, 10 and 11 and figures 6 to 8 are of images and language, for which there is no model here.
"""

from __future__ import annotations

from moe_lab.reproduce import (
    chen2022_errata,
    chen2022_figures,
    chen2022_mixtures,
    chen2022_tables,
    chen2022_theory,
)
from moe_lab.reproduce.claim import Claim, Erratum

CLAIMS: tuple[Claim, ...] = (
    *chen2022_mixtures.CLAIMS,
    *chen2022_tables.CLAIMS,
    *chen2022_figures.CLAIMS,
    *chen2022_theory.CLAIMS,
)
ERRATA: tuple[Erratum, ...] = chen2022_errata.ERRATA
