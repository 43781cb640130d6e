"""The claims of gridlock2019's theorems 1, 2, 3 and 5, and of its equation 3."""

from __future__ import annotations

from collections.abc import Callable

import xarray as xr

from moe_lab.reproduce.claim import Claim, Measurement, Published, Rule, at_least, at_most, near

_FIGURES = "moe_lab.recovery.gridlock.figures"
_MEASURES = "moe_lab.reproduce.gridlock2019.measures"
_PICTURE = "moe_lab.recovery.gridlock.plots:picture"

CONDITIONS = Measurement(
    "gridlock2019/conditions",
    f"{_MEASURES}:stein_conditions",
    quick={},
    full={},
    seconds=(1, 1),
    seeded=False,
)
THIRD = Measurement(
    "gridlock2019/theorem1-tensor",
    f"{_MEASURES}:third_moment",
    quick={"trials": 12},
    full={"trials": 60, "samples": 400_000},
    seconds=(5, 46),
)
GATES = Measurement(
    "gridlock2019/theorem2-gates",
    f"{_MEASURES}:gates_from_anywhere",
    quick={"trials": 4, "samples": 5000},
    full={"trials": 12, "samples": 20_000},
    seconds=(5, 60),
)
MOMENT = Measurement(
    "gridlock2019/theorem3-moment", f"{_MEASURES}:gate_moment", quick={"trials": 8}, full={"trials": 40}, seconds=(1, 4)
)
BY_MOMENTS = Measurement(
    "gridlock2019/theorem3-gates",
    f"{_FIGURES}:gates_by_moments",
    quick={"trials": 20, "methods": ("moments", "spectral")},
    full={"trials": 100, "methods": ("moments", "spectral")},
    seconds=(4, 20),
    device=True,
    picture=_PICTURE,
    sees="How far the gate is off, by one moment and by EM, at 2000 and 20,000 samples: both work, EM is better.",
)


def _median_square(label: str, *activations: str) -> Callable[[xr.Dataset], xr.DataArray]:
    """Reads the median over activations and directions of z^2, which is .45 where what is said is so."""

    def read(data: xr.Dataset) -> xr.DataArray:
        z = data["z"].sel(label=label, activation=list(activations))
        return (z**2).median(("activation", "direction"))

    return read


def _of_step(name: str, step: str, noise: float) -> Callable[[xr.Dataset], xr.DataArray]:
    return lambda data: data[name].sel(step=step, noise=noise)


_CONVERGES = "contracts the distance to where it ends, at every iteration from a random start and for the worst trial"
CLAIMS: tuple[Claim, ...] = (
    Claim(
        "gridlock2019/theorem1/conditions",
        "appendix C, conditions 1 and 2",
        "P2 and P3 with vanishing E[S'] and E[S''] exist for linear, ReLU, leaky ReLU, sigmoid and tanh experts",
        Published(0.0, relation="to rounding"),
        CONDITIONS,
        lambda data: data["residual"].sel(polynomial=["P2", "P3"]).max(("polynomial", "noise")),
        Rule(at_most(1e-10), of="highest"),
    ),
    Claim(
        "gridlock2019/theorem1/constants",
        "theorem 1",
        "The constants c' and c, which carry the regressors, are not zero for any of these activations",
        Published(relation="not zero"),
        CONDITIONS,
        lambda data: data["strength"].sel(polynomial=["P2", "P3"]).min(("polynomial", "noise")),
        Rule(at_least(1e-6), of="lowest"),
    ),
    Claim(
        "gridlock2019/theorem1/tensor",
        "theorem 1",
        "T3 of P3(y) is c sum E[p_i] a_i a_i a_i for linear, ReLU and sigmoid experts (k = 3), within sampling error",
        Published(0.455, relation="median of chi-squared, where it is so"),
        THIRD,
        _median_square("P3(y)", "identity", "relu", "sigmoid"),
        Rule(at_most(1.0)),
        unit="squared standard errors",
    ),
    Claim(
        "gridlock2019/eq3/gates-come-in",
        "section 2, eq. 3",
        "The same tensor of y itself is no sum over regressors alone: the gates come in",
        Published(relation="beyond sampling error"),
        THIRD,
        _median_square("y", "identity", "relu"),
        Rule(at_least(1.0)),
        unit="squared standard errors",
    ),
    *(
        Claim(
            f"gridlock2019/theorem2/contraction-{sigma:g}",
            "theorem 2",
            f"With the true regressors EM of the gates {_CONVERGES} (k = 3, sigma = {sigma:g})",
            Published(1.0, relation="less than"),
            GATES,
            _of_step("contraction", "EM", sigma),
            Rule((0.0, 0.99), of="highest"),
        )
        for sigma in (0.1, 0.5)
    ),
    Claim(
        "gridlock2019/theorem2/faster-with-less-noise",
        "theorem 2",
        "The contraction factor of EM goes to 0 with sigma: it falls as sigma goes from .5 to .1 to .05",
        Published(1.0, relation="each factor less than this part of the one before"),
        GATES,
        lambda data: (
            data["contraction"].sel(step="EM") / data["contraction"].sel(step="EM").shift(noise=-1)
        ).max("noise"),
        Rule((0.0, 0.9), of="highest"),
    ),
    Claim(
        "gridlock2019/theorem2/from-anywhere",
        "theorem 2",
        "EM of the gates ends at the same gates from two random starts",
        Published(0.0, relation="distance of the ends"),
        GATES,
        _of_step("apart", "EM", 0.1),
        Rule((0.0, 1e-6), of="highest"),
    ),
    Claim(
        "gridlock2019/theorem5/gradient-em",
        "appendix G, theorem 5",
        f"Gradient EM of the gates with a step of 4 {_CONVERGES} too (sigma = .1)",
        Published(1.0, relation="less than"),
        GATES,
        _of_step("contraction", "gradient EM", 0.1),
        Rule((0.0, 0.99), of="highest"),
    ),
    Claim(
        "gridlock2019/theorem3/constant",
        "theorem 3",
        "The moment of 1{Ratio <= 1/2} with x is alpha w, with the alpha of the theorem (sigma = .1)",
        Published(1.0, relation="measured over said"),
        MOMENT,
        lambda data: data["ratio"].sel(noise=0.1),
        Rule(near(1.0, 0.03)),
    ),
    Claim(
        "gridlock2019/theorem3/normalised-moment",
        "appendix D.4, last display",
        "The moment of 1{Ratio <= 1/2} with x, normalised, is the gate w",
        Published(1.0, relation="cosine"),
        MOMENT,
        lambda data: data["cosine"].sel(noise=0.1),
        Rule(near(1.0, 0.01)),
        "The alpha of theorem 3 is negative, because Phi is more than 1/2: the moment points along -w, exactly",
    ),
    Claim(
        "gridlock2019/theorem3/gates-by-moments",
        "theorem 3",
        "One moment finds the direction of the gate of two experts (true regressors, n = 20,000, sign turned)",
        Published(1.0, relation="cosine, in the limit"),
        BY_MOMENTS,
        lambda data: data["gating_fit"].sel({"algorithm": "moments", "regressors": "true", "gating": "orthogonal"})
        .sel(samples=20000),
        Rule(at_least(0.99)),
    ),
)  # fmt: skip
