"""The claim of gridlock2019 about theorem 2's additive error; `formulas` has the constants of theorems 2 and 5."""

from __future__ import annotations

from moe_lab_papers.claim import Claim, Measurement, Published, Rule
from moe_lab_papers.ranges import near
from moe_lab_papers.recovery_lemmas import slope_in

_MEASURES = "moe_lab_papers.recovery_lemmas"
WRONG = Measurement.sized(
    name="gridlock2019/wrong-regressors",
    function=f"{_MEASURES}:wrong_regressors",
    sizes={"trials": (8, 40)},
    seconds=(4, 20),
)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="gridlock2019/theorem2/additive-error",
        where="theorem 2",
        statement="the gates that are found with such regressors are off in proportion to eps",
        published=Published(value=1, relation="kappa eps / (1 - rho): power of eps"),
        measurement=WRONG,
        read=slope_in("end", "error"),
        rule=Rule(agrees=near(1, 0.1)),
        unit="power of eps",
    ),
)
