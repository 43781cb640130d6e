"""The claims of chen2022, "Towards Understanding the Mixture-of-Experts Layer in Deep Learning".

Its tables 2, 10 and 11 and figures 6 to 8 are of images and language, for which there is no model here.
"""

from __future__ import annotations

from moe_lab.reproduce.chen2022 import errata, figures, mixtures, tables, theory
from moe_lab.reproduce.claim import Claim, Erratum

CLAIMS: tuple[Claim, ...] = (
    *mixtures.CLAIMS,
    *tables.CLAIMS,
    *figures.CLAIMS,
    *theory.CLAIMS,
)
ERRATA: tuple[Erratum, ...] = errata.ERRATA
