"""The claims of gated2019's theorems, lemmas and examples."""

from __future__ import annotations

from functools import partial

import numpy as np
import xarray as xr
from scipy.stats import chi2

from moe_lab_papers.claim import Claim, Measurement, Published, Read, Rule
from moe_lab_papers.gated2019.figures import NOT_STUCK
from moe_lab_papers.gated2019.sources import MEASURES, SHARED
from moe_lab_papers.ranges import Range, near, up_to

EQ_8 = Measurement.sized(
    name="gated2019/eq8", function=f"{MEASURES}:eq7_and_eq8", sizes={"trials": (24, 100)}, seconds=(6, 23)
)
FOURTH = Measurement(
    name="gated2019/lemma1-tensor",
    function=f"{SHARED}:fourth_moment",
    quick={"trials": 12},
    full={"trials": 60, "samples": 400_000},
    seconds=(6, 60),
)
LANDSCAPE = Measurement.sized(
    name="gated2019/theorem1-landscape", function=f"{MEASURES}:landscape", sizes={"trials": (40, 400)}, seconds=(3, 20)
)
FIXED = Measurement.sized(
    name="gated2019/theorem2-fixed", function=f"{MEASURES}:fixed_samples", sizes={"trials": (4, 20)}, seconds=(5, 22)
)
LOG = Measurement.sized(
    name="gated2019/theorem3-descent", function=f"{MEASURES}:log_descent", sizes={"trials": (24, 100)}, seconds=(4, 17)
)
CONDITIONS = Measurement(
    name="gated2019/conditions",
    function=f"{SHARED}:stein_conditions",
    quick={},
    full={},
    seconds=(0.2, 0.2),
    seeded=False,
)
PRINTED = {
    g: Measurement(
        name=f"gated2019/printed-{g}",
        function=f"{SHARED}:printed_forms",
        quick={"activation": g},
        full={"activation": g},
        seconds=(0.1, 0.1),
        seeded=False,
    )
    for g in ("identity", "relu")
}


def _squared(gating: str, *experts: int) -> Read:
    return lambda data: (data["z"].sel(gating=gating, experts=list(experts)) ** 2).mean("experts")


def _error_rate(data: xr.Dataset) -> np.ndarray:
    """Returns the slope of log error on log n, (trial,)."""
    count = np.log(data["samples"].values)
    return np.polyfit(count, np.log(data["error"].transpose("samples", "trial").values), 1)[0]


def _median_of_24(squares: int) -> Range:
    """Returns where the median of 24 means of squared standard errors is, but for 3 samples of 1000."""
    away = 3 / 2 / 24**0.5  # three standard errors of the share of values below a median
    low, high = chi2.ppf((0.5 - away, 0.5 + away), squares) / squares
    return float(low), float(high)


_NOISE = "squared standard errors"

_eq_8 = partial(Claim, measurement=EQ_8, unit=_NOISE)
_conditions = partial(Claim, where="appendix B, conditions 1 and 2", measurement=CONDITIONS)
_landscape = partial(Claim, where="theorem 1", measurement=LANDSCAPE)
_log = partial(Claim, measurement=LOG)
CLAIMS: tuple[Claim, ...] = (
    _eq_8(
        id="gated2019/theorem5/eq8",
        where="appendix C, theorem 5",
        statement="L4 on samples is eq. 8, within sampling error, where gates are "
        "orthogonal to the regressors (k = 2 and 3, random A)",
        published=Published(value=0.7, relation="median, where it is so"),
        read=_squared("orthogonal", 2, 3),
        rule=Rule(agrees=_median_of_24(2), of="median"),
    ),
    _eq_8(
        id="gated2019/theorem5/eq8-random-gates",
        where="section 3.1",
        statement="The technical assumption is not needed: for two experts eq. 8 holds where gates are random, too",
        published=Published(value=0.45, relation="median, where it is so"),
        read=_squared("random", 2),
        rule=Rule(agrees=_median_of_24(1), of="median"),
    ),
    Claim(
        id="gated2019/lemma1/tensor",
        where="appendix C, lemma 1",
        statement="T4 of Q4(y) is c sum E[p_i] a_i a_i a_i a_i for linear, ReLU and "
        "sigmoid experts (k = 3), within sampling error",
        published=Published(value=0.455, relation="median of chi-squared"),
        measurement=FOURTH,
        read=lambda data: (data["z"].sel(label="Q4(y)") ** 2).median(("activation", "direction")),
        rule=Rule(agrees=near(0.455, 0.3), of="median"),  # three standard errors of 12 trials' median of 24 squares
        unit=_NOISE,
    ),
    _conditions(
        id="gated2019/appendix-b/conditions",
        statement="Q4 and Q2 exist for linear, ReLU, leaky ReLU, sigmoid and tanh experts",
        published=Published(value=0.0, relation="to rounding"),
        read=lambda data: data["residual"].sel(polynomial=["P2", "Q4"]).max(("polynomial", "noise")),
        rule=Rule(agrees=up_to(1e-10), of="highest", follows=True),
    ),
    Claim(
        id="gated2019/appendix-b/example1",
        where="appendix B, example 1",
        statement="The printed Q4 and Q2 of linear experts are right",
        published=Published(value=0.0, relation="E[S He_j] that is left, as a part of c"),
        measurement=PRINTED["identity"],
        read=lambda data: data["left"].sel(form=["gated2019: Q4", "gated2019: Q2"]).max("form"),
        rule=Rule(agrees=up_to(1e-10), of="highest", follows=True),
    ),
    Claim(
        id="gated2019/appendix-b/example2",
        where="appendix B, example 2",
        statement="The printed system for the ReLU's Q4 meets the conditions",
        published=Published(value=0.0, relation="E[S He_j] that is left, as a part of c"),
        measurement=PRINTED["relu"],
        read=lambda data: data["left"].sel(form="gated2019: Q4"),
        rule=Rule(agrees=up_to(1e-3), of="highest", follows=True),
        reason="Three sigma^2 in the column of beta do not belong there: a constant has no moment with He_j, j > 0",
    ),
    _landscape(
        id="gated2019/theorem1/landscape",
        statement="Every descent on eq. 8 ends at a permutation of the true regressors (2, 3 and 5 experts)",
        published=Published(value=0.0, relation="error at the end, of the worst initialization"),
        read=lambda data: data["regressor_error"].max("experts"),
        rule=Rule(agrees=up_to(1e-3), of="highest"),
    ),
    _landscape(
        id="gated2019/theorem1/scale",
        statement="There (A^+)^T is D Gamma A* with D close to 1 and Gamma_ii = sqrt(E[p_i])",
        published=Published(value=0.0, relation="distance of every entry of D from 1"),
        read=lambda data: abs(data["scale"] - 1).max(("experts", "expert")),
        rule=Rule(agrees=up_to(0.05), of="highest"),
        unit="distance of D from 1",
    ),
    Claim(
        id="gated2019/theorem2/finite-samples",
        where="theorem 2",
        statement="On a fixed set of samples L4 keeps its landscape: every descent finds the regressors (n = 65,536)",
        published=Published(value=0.0, relation="error at the end"),
        measurement=FIXED,
        read=lambda data: data["regressor_error"],
        rule=Rule(agrees=up_to(NOT_STUCK), of="highest"),
    ),
    _log(
        id="gated2019/theorem3/contraction",
        where="theorem 3",
        statement="Descent on L_log contracts the distance to where it ends at every "
        "step, for the worst initialization (k = 3, n = 16,000)",
        published=Published(value=1.0, bound="less than"),
        read=lambda data: data["contraction"].sel(samples=16000),
        rule=Rule(agrees=up_to(0.99), of="highest"),
    ),
    _log(
        id="gated2019/theorem4/rate",
        where="theorem 4",
        statement="The gates' error falls as 1 / sqrt(n)",
        published=Published(value=-0.5, relation="slope of log error on log n"),
        read=_error_rate,
        rule=Rule(agrees=near(-0.5, 0.1)),
    ),
    _log(
        id="gated2019/lemma2/fixed-point",
        where="appendix D, lemma 2",
        statement="The true gates are a fixed point: L_log's gradient there is 0 but for sampling, as 1 / sqrt(n)",
        published=Published(value=1.0, relation="gradient at n = 16,000 over that at 1000, each times sqrt(n)"),
        read=lambda data: data["slope"].sel(samples=16000).mean() / data["slope"].sel(samples=1000).mean(),
        rule=Rule(agrees=near(1.0, 0.2)),
    ),
)
