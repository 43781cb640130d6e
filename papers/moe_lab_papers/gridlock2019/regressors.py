"""The claims of gridlock2019 about its transforms of y, of which there are others, and about how many experts it finds.

Theorem 1 asks for gates that are orthogonal to all regressors: k and k - 1 directions, which fit where 2k - 1 <= d.
"""

from __future__ import annotations

from moe_lab_papers.claim import Claim, Measurement, Published, Rule
from moe_lab_papers.ranges import at_least, near, share_from

_MEASURES = "moe_lab_papers.gridlock2019.regressor_measures"
FREE = Measurement(
    name="gridlock2019/free-coefficients",
    function=f"{_MEASURES}:free_coefficients",
    quick={},
    full={},
    seconds=(0.1, 0.1),
    seeded=False,
)
QUARTIC = Measurement.sized(
    name="gridlock2019/quartic-moment",
    function=f"{_MEASURES}:quartic_moment",
    sizes={"trials": (8, 40)},
    seconds=(1, 5),
)
FEWEST = Measurement(
    name="gridlock2019/fewest-dimensions",
    function=f"{_MEASURES}:fewest_dimensions",
    quick={"experts": (2, 3, 4), "trials": 4, "samples": 20_000},
    full={"experts": (2, 3, 4, 5), "trials": 20, "samples": 40_000},
    seconds=(1.5, 30),
    device=True,
)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="gridlock2019/section3.1/unique-cubic",
        where="section 3.1 and appendix C",
        statement="The conditions determine every coefficient of the quadratic P2 and of the cubic P3, for linear, "
        "ReLU, leaky ReLU, sigmoid and tanh experts",
        published=Published(value=0.0, relation="coefficients are left free: the choice is unique"),
        measurement=FREE,
        read=lambda data: [data["free"].sel(polynomial=f"P{m}", degree=m).max() for m in (2, 3)],
        rule=Rule(agrees=near(0.0, 0.1), of="highest", follows=True),
    ),
    Claim(
        id="gridlock2019/section3.1/other-polynomials",
        where="section 3.1, below algorithm 1",
        statement="Any other polynomial of y fails to yield the tensor of the regressors alone: so does one of degree "
        "4, with linear experts",
        published=Published(relation="beyond sampling error: two standard errors or more"),
        measurement=QUARTIC,
        read=lambda data: (data["z"] ** 2).median("direction"),
        rule=Rule(in_kind=at_least(4.0)),
        reason="Only the cubic is unique. A quartic has one coefficient more and no condition more, so that one is "
        "left free: its tensor is c sum E[p_i] a_i a_i a_i within sampling error, and noisier than the cubic's",
        unit="squared standard errors",
    ),
    Claim(
        id="gridlock2019/section1/as-many-experts",
        where="section 1.1, related work",
        statement="As long as 2k - 1 < d the spectral initialization and EM find all regressors, whatever the "
        "trial (d = 2k, sigma = .1)",
        published=Published(value=1.0, relation="global convergence: a fit of 1 in the limit of many samples"),
        measurement=FEWEST,
        read=lambda data: data["regressor_fit"].min("k"),
        rule=Rule(agrees=share_from(0.999), of="lowest"),
    ),
)
