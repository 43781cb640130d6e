"""The claims of gated2019 about regressors that are off, about samples, and remark 2."""

from __future__ import annotations

from moe_lab_papers import recovery_lemmas as shared
from moe_lab_papers.gated2019 import remarks
from moe_lab_papers.paper import Paper, budgets, says
from moe_lab_papers.ranges import near, plus_minus, up_to
from moe_lab_papers.readers import at
from moe_lab_papers.recovery_lemmas import slope_in
from moe_lab_papers.recovery_operators import operators, without_noise

paper = Paper("gated2019")

by_samples = paper.measure("landscape-by-samples", shared.landscape_by_samples, seconds=(5, 12), trials=budgets(24, 60))
by_samples.claim(
    "theorem2/deviation",
    "L4 of n samples comes nearer to eq. 8, whose landscape it inherits, as a mean of n samples does: as 1 / sqrt(n)",
    slope_in("deviation", "samples"),
    says("n of a polynomial in d and 1 / eps suffices").in_kind(near(-0.5, 0.1)),
    "The paper names no exponent, so that any polynomial would do: 1 / sqrt(n) is n of the order 1 / eps^2",
    where="theorem 2 and appendix C.3",
    unit="power of n",
)

remark = paper.measure(
    "remark2",
    remarks.remark_2_landscape,
    seconds=(2, 80),
    where="appendix C, remark 2, and theorem 1",
    experts=budgets((2, 3), (2, 3, 5)),
    trials=budgets(4, 100),
)
remark.claim(
    "remark2/landscape",
    "With the mu, lambda and delta of remark 2 every minimization of eq. 8 by Newton's method ends at D Gamma A* up to "
    "an E of eps_0 = .01 (random regressors, c = .01)",
    at("error", highest="experts"),
    says(0.01, "|E|, of the worst initialization", bound="at most").agrees(up_to, of="highest"),
)
remark.claim(
    "remark2/scale",
    "There every entry of the diagonal matrix D is close to 1, within .01",
    at("scale", highest="experts"),
    says(0.0, "distance of every entry of D from 1").agrees(up_to(0.01), of="highest"),
    unit="distance of D from 1",
)

operated = paper.measure(
    "operators",
    operators,
    seconds=(2, 50),
    noise=budgets((0.025, 0.05), (0.0125, 0.025)),
    trials=budgets(2, 20),
    samples=budgets(20_000, 50_000),
)
operated.claim(
    "theorem3/vanishing-factor",
    "The factor rho by which a descent on L_log contracts vanishes with sigma (k = 2, with the step 2 / (mu + lambda) "
    "of gridlock2019's theorem 5)",
    without_noise(),
    says(0.0, "o(1) in sigma: the limit").agrees(plus_minus(0.05)),
    "EM's factor vanishes, as the other paper states. A descent's does not: without noise L_log is the cross-entropy "
    "of the experts, whose curvatures go from .144 to .25, so that one step leaves at least (.25 - .144) / (.25 + "
    ".144) = .27 of an error along the flattest direction",
)

wrong = paper.measure("wrong-regressors", shared.wrong_regressors, seconds=(4, 20), trials=budgets(8, 40))
wrong.claim(
    "theorem3/wrong-regressors",
    "with regressors off by sigma^2 eps_reg descent ends at gates that are off in proportion to it",
    slope_in("end", "error"),
    says(1, "kappa eps_reg: power of eps_reg").agrees(plus_minus(0.1)),
    unit="power of eps_reg",
)

fresh = paper.measure(
    "fresh-samples", shared.fresh_samples, seconds=(1.5, 4), unit="power of n", trials=budgets(24, 60)
)
_ROOT = says(-0.5, "power of n").agrees(plus_minus(0.1))
fresh.claim(
    "theorem4/fresh-samples",
    "with n/T fresh samples in each of T steps the gates' error falls as 1 / sqrt(n)",
    slope_in("error", "samples"),
    _ROOT,
)
fresh.claim(
    "lemma4/deviation",
    "the gradient of n samples comes nearer to its expectation as 1 / sqrt(n)",
    slope_in("deviation", "samples"),
    _ROOT,
    where="appendix D, lemma 4",
)
