"""The claims of pmoe2023."""

from __future__ import annotations

from moe_lab.reproduce.claim import Claim, Erratum

CLAIMS: tuple[Claim, ...] = ()
ERRATA: tuple[Erratum, ...] = ()
