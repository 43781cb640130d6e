"""The claims of gridlock2019 about the operators of two experts: theorems 4 and 5, lemma 5 and eq. 51.

Theorem 4 is another paper's, with a factor gamma / lambda for any Q that meets its assumptions. Theorem 2 verifies them
with lambda = .1442 and a gamma that vanishes with sigma, so that both can be measured. The same for theorem 5, with the
step 2 / (mu + lambda) of its proof, which is for two experts.
"""

from __future__ import annotations

from functools import partial

from moe_lab_papers.claim import Claim, Measurement, Published, Rule, at_least, up_to
from moe_lab_papers.recovery_operators import over_bound, power_of_noise, rate

_FLATTEST = 0.1442 / 0.25
"""lambda / mu, as printed: the part of a bound with lambda that is met at least, since no curvature exceeds mu."""
OPERATORS = Measurement.sized(
    name="gridlock2019/operators",
    function="moe_lab_papers.recovery_operators:operators",
    sizes={"trials": (2, 20), "samples": (20_000, 50_000)},
    seconds=(0.5, 80),
)
_claim = partial(Claim, measurement=OPERATORS)
_theorem_5 = partial(_claim, where="appendix G, theorem 5 and its proof")
_FACTOR = "factor, at sigma = .1, from the worst of 11 gates in the unit ball"
CLAIMS: tuple[Claim, ...] = (
    _claim(
        id="gridlock2019/theorem4/stability",
        where="appendix B, assumption 3, and appendix F",
        statement="Q is stable with a gamma that is less than lambda at sigma = .1",
        published=Published(value=0.1442, bound="less than", relation="lambda"),
        read=lambda data: data["stability"].sel(noise=0.1),
        rule=Rule(agrees=up_to(0.1442), of="highest"),
    ),
    _claim(
        id="gridlock2019/theorem4/contraction",
        where="appendix B, theorem 4",
        statement=f"EM of the gates contracts by gamma / lambda at most ({_FACTOR})",
        published=Published(value=1.0, bound="at most", relation="of gamma / lambda"),
        read=lambda data: over_bound(data, 0.1),
        rule=Rule(agrees=(_FLATTEST, 1.0), of="highest"),
    ),
    _claim(
        id="gridlock2019/lemma5/minimisers",
        where="appendix E, lemma 5",
        statement="An M-step moves by L / lambda at most if other regressors add a function with slope L (off by "
        "sigma^2 / 2, at every sigma)",
        published=Published(value=1.0, bound="at most", relation="of L / lambda"),
        read=lambda data: data["moved"].max("noise"),
        rule=Rule(agrees=(_FLATTEST, 1.0), of="highest"),
    ),
    _claim(
        id="gridlock2019/eq51/contraction",
        where="appendix F, eq. 51",
        statement="gamma, and with it EM's factor, vanishes as sigma^(1/4) or faster",
        published=Published(value=0.25, bound="at least", relation="power of sigma, as it becomes small"),
        read=lambda data: power_of_noise(data, "stability"),
        rule=Rule(agrees=at_least(0.25)),
        unit="power of sigma",
    ),
    _theorem_5(
        id="gridlock2019/theorem5/gradient-em",
        statement="Gradient EM with the step 2 / (mu + lambda), or half of it, comes nearer to the true gate by a "
        f"constant {_FACTOR} (k = 2)",
        published=Published(value=1.0, bound="less than"),
        read=lambda data: data["gradient"].sel(noise=0.1).max("step"),
        rule=Rule(agrees=up_to(0.99), of="highest"),
    ),
    _theorem_5(
        id="gridlock2019/theorem5/rate",
        statement="At that step its factor is at most 1 - (2 lambda + 2 gamma) / (mu + lambda)",
        published=Published(value=1.0, bound="at most", relation="of the printed factor"),
        read=lambda data: rate(data, 0.1, sign=1),
        rule=Rule(agrees=(0.5, 1.0), of="highest"),
        reason="The sign of gamma is wrong: as printed, a less stable Q would make gradient EM faster. The factor is "
        "two to four times the printed one, and within the one with -2 gamma",
    ),
    _theorem_5(
        id="gridlock2019/theorem5/rate-corrected",
        statement="At that step its factor is at most 1 - (2 lambda - 2 gamma) / (mu + lambda)",
        published=Published(value=1.0, bound="at most", relation="of the factor with the other sign of gamma"),
        read=lambda data: rate(data, 0.1, sign=-1),
        rule=Rule(in_kind=(0.5, 1.0), of="highest"),
        reason="The paper prints + 2 gamma",
    ),
)
