"""The claims of gridlock2019's theorems 1, 2 and 3, and of its equation 3."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import xarray as xr

from moe_lab_papers.claim import Claim, Measurement, Published, Rule, at_least, near, selected, share_from, up_to
from moe_lab_papers.gridlock2019.sources import FIGURES, MEASURES, PICTURE, SHARED

CONDITIONS = Measurement(
    name="gridlock2019/conditions",
    function=f"{SHARED}:stein_conditions",
    quick={},
    full={},
    seconds=(0.2, 0.2),
    seeded=False,
)
THIRD = Measurement(
    name="gridlock2019/theorem1-tensor",
    function=f"{SHARED}:third_moment",
    quick={"trials": 12},
    full={"trials": 60, "samples": 400_000},
    seconds=(5, 46),
)
GATES = Measurement.sized(
    name="gridlock2019/theorem2-gates",
    function=f"{MEASURES}:gates_from_anywhere",
    sizes={"trials": (4, 12), "samples": (5000, 20_000)},
    seconds=(3, 60),
)
MOMENT = Measurement.sized(
    name="gridlock2019/theorem3-moment", function=f"{MEASURES}:gate_moment", sizes={"trials": (8, 40)}, seconds=(1, 4)
)
BY_MOMENTS = Measurement(
    name="gridlock2019/theorem3-gates",
    function=f"{FIGURES}:gates_by_moments",
    quick={"trials": 20, "methods": ("moments", "spectral")},
    full={"trials": 100, "methods": ("moments", "spectral")},
    seconds=(4, 20),
    device=True,
    picture=PICTURE,
    sees="How far the gate is off, by one moment and by EM, at 2000 and 20,000 samples: both work, EM is better.",
)


def _median_square(label: str, *activations: str) -> Callable[[xr.Dataset], xr.DataArray]:
    """Reads the median over activations and directions of z^2, which is .45 where the theorem holds."""

    def read(data: xr.Dataset) -> xr.DataArray:
        z = data["z"].sel(label=label, activation=list(activations))
        return (z**2).median(("activation", "direction"))

    return read


_third = partial(Claim, measurement=THIRD, unit="squared standard errors")
_gates = partial(Claim, measurement=GATES)
CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="gridlock2019/theorem1/conditions",
        where="appendix C, conditions 1 and 2",
        statement="P2 and P3 with vanishing E[S'] and E[S''] exist for linear, ReLU, leaky ReLU, sigmoid and tanh "
        "experts",
        published=Published(value=0.0, relation="to rounding"),
        measurement=CONDITIONS,
        read=lambda data: data["residual"].sel(polynomial=["P2", "P3"]).max(("polynomial", "noise")),
        rule=Rule(agrees=up_to(1e-10), of="highest", follows=True),
    ),
    _third(
        id="gridlock2019/theorem1/tensor",
        where="theorem 1",
        statement="T3 of P3(y) is c sum E[p_i] a_i a_i a_i for linear, ReLU and sigmoid experts (k = 3), within "
        "sampling error",
        published=Published(value=0.455, relation="median of chi-squared, where it is so"),
        read=_median_square("P3(y)", "identity", "relu", "sigmoid"),
        rule=Rule(agrees=near(0.455, 0.25)),  # three standard errors of 12 trials, each a median of 24 squares
    ),
    _third(
        id="gridlock2019/eq3/gates-come-in",
        where="section 2, eq. 3",
        statement="The same tensor of y itself is no sum over regressors alone: it depends on the gates",
        published=Published(relation="beyond sampling error"),
        read=_median_square("y", "identity", "relu"),
        rule=Rule(in_kind=at_least(1.0)),
        reason="the paper has no number for how much it depends on them",
    ),
    *(
        _gates(
            id=f"gridlock2019/theorem2/contraction-{sigma:g}",
            where="theorem 2",
            statement="With the true regressors EM of the gates contracts the distance to its end, at every iteration "
            f"from a random initialization and for the worst trial (k = 3, sigma = {sigma:g})",
            published=Published(value=1.0, bound="less than"),
            read=selected("contraction", noise=sigma),
            rule=Rule(agrees=up_to(0.99), of="highest"),
        )
        for sigma in (0.1, 0.5)
    ),
    _gates(
        id="gridlock2019/theorem2/faster-with-less-noise",
        where="theorem 2",
        statement="The contraction factor of EM goes to 0 with sigma: it falls as sigma decreases from .5 to .1 to .05",
        published=Published(value=1.0, bound="less than", relation="each factor over the one before"),
        read=lambda data: (data["contraction"] / data["contraction"].shift(noise=-1)).max("noise"),
        rule=Rule(agrees=up_to(0.9), of="highest"),
    ),
    _gates(
        id="gridlock2019/theorem2/from-anywhere",
        where="theorem 2",
        statement="EM of the gates ends at the same gates from two random initializations",
        published=Published(value=0.0, relation="distance of the ends"),
        read=selected("apart", noise=0.1),
        rule=Rule(agrees=up_to(1e-6), of="highest"),
    ),
    Claim(
        id="gridlock2019/theorem3/constant",
        where="theorem 3",
        statement="The moment of 1{Ratio <= 1/2} with x is alpha w, with the alpha of the theorem (sigma = .1)",
        published=Published(value=1.0, relation="measured over stated"),
        measurement=MOMENT,
        read=lambda data: data["ratio"].sel(noise=0.1),
        rule=Rule(agrees=near(1.0, 0.03)),
    ),
    Claim(
        id="gridlock2019/theorem3/normalised-moment",
        where="appendix D.4, last display",
        statement="The moment of 1{Ratio <= 1/2} with x, normalised, is the gate w",
        published=Published(value=1.0, relation="cosine"),
        measurement=MOMENT,
        read=lambda data: data["cosine"].sel(noise=0.1),
        rule=Rule(agrees=near(1.0, 0.01)),
        reason="The alpha of theorem 3 is negative, because Phi is more than 1/2: the moment points along -w, exactly",
    ),
    Claim(
        id="gridlock2019/theorem3/gates-by-moments",
        where="theorem 3",
        statement="One moment finds the direction of the gate of two experts (true regressors, n = 20,000, sign "
        "turned)",
        published=Published(value=1.0, relation="cosine, in the limit"),
        measurement=BY_MOMENTS,
        read=lambda data: (
            data["gating_fit"]
            .sel({"algorithm": "moments", "regressors": "true", "gating": "orthogonal"})
            .sel(samples=20000)
        ),
        rule=Rule(agrees=share_from(0.99)),
    ),
)
