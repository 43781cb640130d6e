"""The claims and errata of pmoe2023, "Patch-level Routing in Mixture-of-Experts is Provably Sample-efficient".

Section 5.1 is in `figures` (digits) and `mnist`, what the paper proves in `theorems` and `bounds`. Figures 10 to 16 and
table 2 need wide residual networks on CelebA and CIFAR-10, which are not here; table 2 is judged in kind.
"""

from __future__ import annotations

from moe_lab.reproduce.claim import Claim
from moe_lab.reproduce.erratum import Erratum
from moe_lab.reproduce.pmoe2023 import bounds, errata, figures, mnist, theorems

CLAIMS: tuple[Claim, ...] = (*figures.CLAIMS, *mnist.CLAIMS, *theorems.CLAIMS, *bounds.CLAIMS)
ERRATA: tuple[Erratum, ...] = errata.ERRATA
