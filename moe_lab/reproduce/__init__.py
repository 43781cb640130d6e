"""Claims of five papers, and of others on routing, with the measurements and rules that test them: `moe-lab reproduce`.

A claim (`claim.Claim`) has a place in a paper, the published statement, the call that measures it, and the rule, stated
before the run, that judges it. `ledger.claims()` returns all of them, `ledger.errata()` the misprints and omitted steps
that were found. `run(...)` measures, judges, and writes results.json and report.html.
"""

from moe_lab.reproduce.claim import Claim as Claim
from moe_lab.reproduce.command import run as run
from moe_lab.reproduce.erratum import Erratum as Erratum
from moe_lab.reproduce.ledger import chosen as chosen
from moe_lab.reproduce.ledger import claims as claims
from moe_lab.reproduce.ledger import errata as errata
