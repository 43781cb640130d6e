"""The claim of pmoe2023 about table 1's totals, at the sizes of section 5.1; `formulas` has its other ratios."""

from __future__ import annotations

from moe_lab_papers.claim import Claim, Measurement, Published, Rule, selected
from moe_lab_papers.pmoe2023.sources import MEASURES
from moe_lab_papers.ranges import near

_SIZES = {"patches": 16, "patches_per_expert": 6, "experts": 8, "neurons": 40}
_N, _L, _K = 16, 6, 8
_JOINT_TOTAL = _N**5 / (_K**2 * _L**3)

BOUNDS = Measurement(
    name="pmoe2023/bounds", function=f"{MEASURES}:bounds", seconds=(0.1, 0.1), quick=_SIZES, full=_SIZES, seeded=False
)
CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="pmoe2023/table1/joint-total",
        where="table 1 and appendix N",
        statement=f"operations until error eps, the CNN's over joint training's, at n = {_N}, l = {_L}, k = {_K}",
        published=Published(value=_JOINT_TOTAL, relation="n^5 / (k^2 l^3)"),
        measurement=BOUNDS,
        read=selected("whole", kind="joint"),
        rule=Rule(agrees=near(_JOINT_TOTAL, 0.05 * _JOINT_TOTAL), follows=True),
        not_comparable="the paper states an order, for large m: at its own m = 40 table 1's rows for the routers, "
        "B k n d and B k l^2 d, cost more than the experts, and the advantage is a third of the printed one",
    ),
)
