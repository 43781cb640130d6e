"""The claims of pmoe2023, "Patch-level Routing in Mixture-of-Experts is Provably Sample-efficient".

Section 5.1 is in `pmoe2023_figures` (digits) and `pmoe2023_mnist`, what the paper proves in `pmoe2023_theory`. Figures
10 to 16 and table 2 need wide residual networks on CelebA and CIFAR-10, which are not here; table 2 is told in kind.
"""

from __future__ import annotations

from moe_lab.reproduce import pmoe2023_errata, pmoe2023_figures, pmoe2023_mnist, pmoe2023_theory
from moe_lab.reproduce.claim import Claim, Erratum

CLAIMS: tuple[Claim, ...] = (*pmoe2023_figures.CLAIMS, *pmoe2023_mnist.CLAIMS, *pmoe2023_theory.CLAIMS)
ERRATA: tuple[Erratum, ...] = pmoe2023_errata.ERRATA
