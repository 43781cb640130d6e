"""Claims on routing and balancing, of nine papers that notebooks 10 and 11 cite.

None of them has a room, and none publishes a number for data that are here. A claim takes what the paper states about
its own models, and asks whether it holds on the clusters of chen2022 (balancing), the patches of pmoe2023 (choosing) or
a regression whose parameters are known (gates). Where data and models are not the paper's that is not comparable: the
claim says what it shows. Two statements are general, on the Switch loss and on gates of regressions, and are judged.
"""

from __future__ import annotations

from moe_lab_papers.claim import Claim
from moe_lab_papers.erratum import Erratum
from moe_lab_papers.routers import balancing, choosing

CLAIMS: tuple[Claim, ...] = (*balancing.paper.claims, *choosing.paper.claims)
ERRATA: tuple[Erratum, ...] = ()
