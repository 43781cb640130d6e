"""The claims of gridlock2019 about the operators of two experts: theorems 4 and 5, lemma 5 and eq. 51.

Theorem 4 is another paper's, with a factor gamma / lambda for any Q that meets its assumptions. Theorem 2 verifies them
with lambda = .1442 and a gamma that vanishes with sigma, so that both can be measured. The same for theorem 5, with the
step 2 / (mu + lambda) of its proof, which is for two experts.
"""

from __future__ import annotations

from moe_lab_papers.paper import Paper, budgets, says
from moe_lab_papers.ranges import at_least, up_to
from moe_lab_papers.readers import at
from moe_lab_papers.recovery_operators import operators, over_bound, power_of_noise, rate

paper = Paper("gridlock2019")

_FLATTEST = 0.1442 / 0.25
"""lambda / mu, as printed: the part of a bound with lambda that is met at least, since no curvature exceeds mu."""
_FACTOR = "factor, at sigma = .1, from the worst of 11 gates in the unit ball"
_THEOREM_5 = "appendix G, theorem 5 and its proof"
operated = paper.measure(
    "operators", operators, seconds=(3, 80), trials=budgets(2, 20), samples=budgets(20_000, 50_000)
)
operated.claim(
    "theorem4/stability",
    "Q is stable with a gamma that is less than lambda at sigma = .1",
    at("stability", noise=0.1),
    says(0.1442, "lambda", bound="less than").agrees(up_to, of="highest"),
    where="appendix B, assumption 3, and appendix F",
)
operated.claim(
    "theorem4/contraction",
    f"EM of the gates contracts by gamma / lambda at most ({_FACTOR})",
    over_bound(0.1),
    says(1.0, "of gamma / lambda", bound="at most").agrees((_FLATTEST, 1.0), of="highest"),
    where="appendix B, theorem 4",
)
operated.claim(
    "lemma5/minimisers",
    "An M-step moves by L / lambda at most if other regressors add a function with slope L (off by sigma^2 / 2, at "
    "every sigma)",
    at("moved", highest="noise"),
    says(1.0, "of L / lambda", bound="at most").agrees((_FLATTEST, 1.0), of="highest"),
    where="appendix E, lemma 5",
)
operated.claim(
    "eq51/contraction",
    "gamma, and with it EM's factor, vanishes as sigma^(1/4) or faster",
    power_of_noise("stability"),
    says(0.25, "power of sigma, as it becomes small", bound="at least").agrees(at_least),
    where="appendix F, eq. 51",
    unit="power of sigma",
)
operated.claim(
    "theorem5/gradient-em",
    "Gradient EM with the step 2 / (mu + lambda), or half of it, comes nearer to the true gate by a constant "
    f"{_FACTOR} (k = 2)",
    at("gradient", noise=0.1, highest="step"),
    says(1.0, bound="less than").agrees(up_to(0.99), of="highest"),
    where=_THEOREM_5,
)
operated.claim(
    "theorem5/rate",
    "At that step its factor is at most 1 - (2 lambda + 2 gamma) / (mu + lambda)",
    rate(0.1, sign=1),
    says(1.0, "of the printed factor", bound="at most").agrees((0.5, 1.0), of="highest"),
    "The sign of gamma is wrong: as printed, a less stable Q would make gradient EM faster. The factor is two to four "
    "times the printed one, and within the one with -2 gamma",
    where=_THEOREM_5,
)
operated.claim(
    "theorem5/rate-corrected",
    "At that step its factor is at most 1 - (2 lambda - 2 gamma) / (mu + lambda)",
    rate(0.1, sign=-1),
    says(1.0, "of the factor with the other sign of gamma", bound="at most").in_kind((0.5, 1.0), of="highest"),
    "The paper prints + 2 gamma",
    where=_THEOREM_5,
)
