"""The claims of gated2019 about regressors that are off, and about samples: theorems 2 to 4, lemmas 3 and 4.

Remark 2 has parameters for theorem 1 with a universal constant c, "e.g. .01", and a delta so small that a descent takes
millions of steps: the claims of theorem 1 have larger ones. Appendix A defines a mixture without a router (eq. 10), and
states that others have studied it: there is nothing to measure.
"""

from __future__ import annotations

from functools import partial

from moe_lab.reproduce.claim import Claim, Measurement, Published, Rule, near, up_to
from moe_lab.reproduce.recovery_lemmas import slope_in

_MEASURES = "moe_lab.reproduce.recovery_lemmas"
WRONG = Measurement.sized(
    name="gated2019/wrong-regressors",
    function=f"{_MEASURES}:wrong_regressors",
    sizes={"trials": (8, 40)},
    seconds=(4, 20),
)
FRESH = Measurement.sized(
    name="gated2019/fresh-samples", function=f"{_MEASURES}:fresh_samples", sizes={"trials": (8, 60)}, seconds=(0.5, 4)
)
LANDSCAPE = Measurement.sized(
    name="gated2019/landscape-by-samples",
    function=f"{_MEASURES}:landscape_by_samples",
    sizes={"trials": (24, 60)},
    seconds=(5, 12),
)

_by_samples = partial(
    Claim,
    published=Published(value=-0.5, relation="power of n"),
    rule=Rule(agrees=near(-0.5, 0.1)),
    unit="power of n",
)
CLAIMS: tuple[Claim, ...] = (
    _by_samples(
        id="gated2019/theorem2/deviation",
        where="theorem 2 and appendix C.3",
        statement="L4 of n samples comes nearer to eq. 8, whose landscape it inherits, as 1 / sqrt(n)",
        measurement=LANDSCAPE,
        read=lambda data: slope_in(data, "deviation", "samples"),
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
    Claim(
        id="gated2019/lemma3/one-step",
        where="appendix D, lemma 3",
        statement="one step with such regressors is at most the printed kappa times eps away from one with true ones",
        published=Published(value=1, bound="at most", relation="of kappa eps"),
        measurement=WRONG,
        read=lambda data: data["gradient"].max("error"),
        rule=Rule(agrees=up_to(1), of="highest"),
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
