"""The claim of pmoe2023 about table 1's totals, at the sizes of section 5.1; `formulas` has its other ratios."""

from __future__ import annotations

from moe_lab_papers.paper import Paper, says
from moe_lab_papers.pmoe2023 import measures
from moe_lab_papers.ranges import plus_minus
from moe_lab_papers.readers import at

paper = Paper("pmoe2023")

_N, _L, _K = 16, 6, 8
bounds = paper.measure(
    "bounds", measures.bounds, seconds=(0.1, 0.1), patches=_N, patches_per_expert=_L, experts=_K, neurons=40
)
bounds.claim(
    "table1/joint-total",
    f"operations until error eps, the CNN's over joint training's, at n = {_N}, l = {_L}, k = {_K}",
    at("whole", kind="joint"),
    says(_N**5 / (_K**2 * _L**3), "n^5 / (k^2 l^3)").follows(plus_minus(relative=0.05)),
    not_comparable="the paper states an order, for large m: at its own m = 40 table 1's rows for the routers, B k n d "
    "and B k l^2 d, cost more than the experts, and the advantage is a third of the printed one",
    where="table 1 and appendix N",
)
