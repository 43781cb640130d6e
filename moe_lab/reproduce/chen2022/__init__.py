"""The claims and errata of chen2022, "Towards Understanding the Mixture-of-Experts Layer in Deep Learning".

Tables 2, 10 and 11 and figures 6 to 8 are about images and language, for which there is no model here.
"""

from __future__ import annotations

from moe_lab.reproduce.chen2022 import errata, figures, mixtures, tables, theorems
from moe_lab.reproduce.claim import Claim
from moe_lab.reproduce.erratum import Erratum

CLAIMS: tuple[Claim, ...] = (*mixtures.CLAIMS, *tables.CLAIMS, *figures.CLAIMS, *theorems.CLAIMS)
ERRATA: tuple[Erratum, ...] = errata.ERRATA
