"""The claim of gridlock2019 about theorem 2's additive error; `formulas` has the constants of theorems 2 and 5."""

from __future__ import annotations

from moe_lab_papers.paper import Paper, budgets, says
from moe_lab_papers.ranges import plus_minus
from moe_lab_papers.recovery_lemmas import slope_in, wrong_regressors

paper = Paper("gridlock2019")

wrong = paper.measure("wrong-regressors", wrong_regressors, seconds=(4, 20), trials=budgets(8, 40))
wrong.claim(
    "theorem2/additive-error",
    "the gates that are found with such regressors are off in proportion to eps",
    slope_in("end", "error"),
    says(1, "kappa eps / (1 - rho): power of eps").agrees(plus_minus(0.1)),
    unit="power of eps",
)
