"""What five papers publish, as claims that run: `moe-lab reproduce`.

A claim (`claim.Claim`) names a place in a paper, what stands there, the call that measures it, and the rule that judges
it, stated before the run. `ledger.claims()` has them all, `ledger.errata()` the misprints and steps untold that were
found. `run(...)` measures, judges, and writes results.json and report.html.
"""

from moe_lab.reproduce.claim import Claim as Claim
from moe_lab.reproduce.command import run as run
from moe_lab.reproduce.erratum import Erratum as Erratum
from moe_lab.reproduce.ledger import chosen as chosen
from moe_lab.reproduce.ledger import claims as claims
from moe_lab.reproduce.ledger import errata as errata
