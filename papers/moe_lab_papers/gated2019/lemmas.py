"""The claims of gated2019 about regressors that are off, about samples, and remark 2."""

from __future__ import annotations

from functools import partial

from moe_lab_papers.claim import Claim, Measurement, Published, Rule
from moe_lab_papers.ranges import near, up_to
from moe_lab_papers.recovery_lemmas import slope_in
from moe_lab_papers.recovery_operators import without_noise

_MEASURES = "moe_lab_papers.recovery_lemmas"
_REMARKS = "moe_lab_papers.gated2019.remarks"
WRONG = Measurement.sized(
    name="gated2019/wrong-regressors",
    function=f"{_MEASURES}:wrong_regressors",
    sizes={"trials": (8, 40)},
    seconds=(4, 20),
)
OPERATORS = Measurement.sized(
    name="gated2019/operators",
    function="moe_lab_papers.recovery_operators:operators",
    sizes={"noise": ((0.025, 0.05), (0.0125, 0.025)), "trials": (2, 20), "samples": (20_000, 50_000)},
    seconds=(2, 50),
)
FRESH = Measurement.sized(
    name="gated2019/fresh-samples", function=f"{_MEASURES}:fresh_samples", sizes={"trials": (24, 60)}, seconds=(1.5, 4)
)
LANDSCAPE = Measurement.sized(
    name="gated2019/landscape-by-samples",
    function=f"{_MEASURES}:landscape_by_samples",
    sizes={"trials": (24, 60)},
    seconds=(5, 12),
)
REMARK = Measurement.sized(
    name="gated2019/remark2",
    function=f"{_REMARKS}:remark_2_landscape",
    sizes={"experts": ((2, 3), (2, 3, 5)), "trials": (4, 100)},
    seconds=(2, 80),
)

_by_samples = partial(
    Claim,
    published=Published(value=-0.5, relation="power of n"),
    rule=Rule(agrees=near(-0.5, 0.1)),
    unit="power of n",
)
CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="gated2019/theorem2/deviation",
        where="theorem 2 and appendix C.3",
        statement="L4 of n samples comes nearer to eq. 8, whose landscape it inherits, as a mean of n samples does: as "
        "1 / sqrt(n)",
        published=Published(relation="n of a polynomial in d and 1 / eps suffices"),
        measurement=LANDSCAPE,
        read=lambda data: slope_in(data, "deviation", "samples"),
        rule=Rule(in_kind=near(-0.5, 0.1)),
        reason="The paper names no exponent, so that any polynomial would do: 1 / sqrt(n) is n of the order 1 / eps^2",
        unit="power of n",
    ),
    Claim(
        id="gated2019/remark2/landscape",
        where="appendix C, remark 2, and theorem 1",
        statement="With the mu, lambda and delta of remark 2 every minimization of eq. 8 by Newton's method ends at "
        "D Gamma A* up to an E of eps_0 = .01 (random regressors, c = .01)",
        published=Published(value=0.01, bound="at most", relation="|E|, of the worst initialization"),
        measurement=REMARK,
        read=lambda data: data["error"].max("experts"),
        rule=Rule(agrees=up_to(0.01), of="highest"),
    ),
    Claim(
        id="gated2019/remark2/scale",
        where="appendix C, remark 2, and theorem 1",
        statement="There every entry of the diagonal matrix D is close to 1, within .01",
        published=Published(value=0.0, relation="distance of every entry of D from 1"),
        measurement=REMARK,
        read=lambda data: data["scale"].max("experts"),
        rule=Rule(agrees=up_to(0.01), of="highest"),
        unit="distance of D from 1",
    ),
    Claim(
        id="gated2019/theorem3/vanishing-factor",
        where="theorem 3",
        statement="The factor rho by which a descent on L_log contracts vanishes with sigma (k = 2, with the step "
        "2 / (mu + lambda) of gridlock2019's theorem 5)",
        published=Published(value=0.0, relation="o(1) in sigma: the limit"),
        measurement=OPERATORS,
        read=without_noise,
        rule=Rule(agrees=near(0.0, 0.05)),
        reason="EM's factor vanishes, as the other paper states. A descent's does not: without noise L_log is the "
        "cross-entropy of the experts, whose curvatures go from .144 to .25, so that one step leaves at least "
        "(.25 - .144) / (.25 + .144) = .27 of an error along the flattest direction",
    ),
    Claim(
        id="gated2019/theorem3/wrong-regressors",
        where="theorem 3",
        statement="with regressors off by sigma^2 eps_reg descent ends at gates that are off in proportion to it",
        published=Published(value=1, relation="kappa eps_reg: power of eps_reg"),
        measurement=WRONG,
        read=lambda data: slope_in(data, "end", "error"),
        rule=Rule(agrees=near(1, 0.1)),
        unit="power of eps_reg",
    ),
    _by_samples(
        id="gated2019/theorem4/fresh-samples",
        where="theorem 4",
        statement="with n/T fresh samples in each of T steps the gates' error falls as 1 / sqrt(n)",
        measurement=FRESH,
        read=lambda data: slope_in(data, "error", "samples"),
    ),
    _by_samples(
        id="gated2019/lemma4/deviation",
        where="appendix D, lemma 4",
        statement="the gradient of n samples comes nearer to its expectation as 1 / sqrt(n)",
        measurement=FRESH,
        read=lambda data: slope_in(data, "deviation", "samples"),
    ),
)
