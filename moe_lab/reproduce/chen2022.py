"""The claims of chen2022."""

from __future__ import annotations

from moe_lab.reproduce.claim import Claim, Erratum

CLAIMS: tuple[Claim, ...] = ()
ERRATA: tuple[Erratum, ...] = ()
