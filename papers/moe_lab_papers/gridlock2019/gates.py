"""The claims of gridlock2019's theorem 2 about the constant kappa for more than two experts and for nonlinear ones."""

from __future__ import annotations

from moe_lab_papers.claim import Claim, Measurement, Published, Rule
from moe_lab_papers.ranges import near, up_to

ONE_M_STEP = Measurement(
    name="gridlock2019/one-m-step",
    function="moe_lab_papers.gridlock2019.gate_measures:one_m_step",
    quick={
        "experts": (3, 4),
        "activations": ("identity", "relu", "sigmoid"),
        "dimensions": (8, 32),
        "trials": 2,
        "samples": 4000,
    },
    full={
        "experts": (3, 4),
        "activations": ("identity", "relu", "sigmoid"),
        "dimensions": (8, 32),
        "trials": 12,
        "samples": 20_000,
    },
    seconds=(3.5, 70),
)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="gridlock2019/theorem2/kappa",
        where="theorem 2 and appendix E",
        statement="An M-step with regressors off by sigma^2 eps is at most kappa eps away from one with the true ones, "
        "with kappa = (k - 1) sqrt(6 (2 + sigma^2)) / 2, for 3 and 4 linear, ReLU and sigmoid experts",
        published=Published(value=1.0, bound="at most", relation="of kappa eps"),
        measurement=ONE_M_STEP,
        read=lambda data: data["over_kappa"].max(("experts", "activation", "dimension")),
        rule=Rule(agrees=up_to(1.0), of="highest"),
    ),
    Claim(
        id="gridlock2019/theorem2/kappa-by-dimension",
        where="theorem 2",
        statement="That distance does not depend on the dimension of the inputs, measured at d = 32 and d = 8",
        published=Published(value=1.0, relation="ratio of the distances: a dimension-independent constant"),
        measurement=ONE_M_STEP,
        read=lambda data: (data["moved"].sel(dimension=32) / data["moved"].sel(dimension=8)).mean(
            ("experts", "activation")
        ),
        rule=Rule(agrees=near(1.0, 0.25)),  # a distance that grows as sqrt(d) would double
    ),
)
