"""The claims of gated2019's theorems, lemmas and examples."""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy.stats import chi2

from moe_lab_papers import recovery_measures as shared
from moe_lab_papers.gated2019 import measures
from moe_lab_papers.gated2019.figures import NOT_STUCK
from moe_lab_papers.paper import Paper, budgets, says
from moe_lab_papers.ranges import Range, plus_minus, up_to
from moe_lab_papers.readers import at, reader

paper = Paper("gated2019")

_NOISE = "squared standard errors"
eq_8 = paper.measure("eq8", measures.eq7_and_eq8, seconds=(6, 23), unit=_NOISE, trials=budgets(24, 100))


@reader
def squared(data: xr.Dataset, gating: str, *experts: int) -> xr.DataArray:
    """Returns the squared deviation in standard errors, on the mean over numbers of experts."""
    return (data["z"].sel(gating=gating, experts=list(experts)) ** 2).mean("experts")


def _median_of_24(squares: int) -> Range:
    """Returns where the median of 24 means of squared standard errors is, but for 3 samples of 1000."""
    away = 3 / 2 / 24**0.5  # three standard errors of the share of values below a median
    low, high = chi2.ppf((0.5 - away, 0.5 + away), squares) / squares
    return float(low), float(high)


eq_8.claim(
    "theorem5/eq8",
    "L4 on samples is eq. 8, within sampling error, where gates are orthogonal to the regressors (k = 2 and 3, random "
    "A)",
    squared("orthogonal", 2, 3),
    says(0.7, "median, where it is so").agrees(_median_of_24(2), of="median"),
    where="appendix C, theorem 5",
)
eq_8.claim(
    "theorem5/eq8-random-gates",
    "The technical assumption is not needed: for two experts eq. 8 holds where gates are random, too",
    squared("random", 2),
    says(0.45, "median, where it is so").agrees(_median_of_24(1), of="median"),
    where="section 3.1",
)

fourth = paper.measure(
    "lemma1-tensor", shared.fourth_moment, seconds=(6, 60), trials=budgets(12, 60), samples=budgets(full=400_000)
)


@reader
def median_square(data: xr.Dataset) -> xr.DataArray:
    """Returns the median over activations and directions of z^2, which is .45 where the lemma holds."""
    return (data["z"].sel(label="Q4(y)") ** 2).median(("activation", "direction"))


fourth.claim(
    "lemma1/tensor",
    "T4 of Q4(y) is c sum E[p_i] a_i a_i a_i a_i for linear, ReLU and sigmoid experts (k = 3), within sampling error",
    median_square(),
    says(0.455, "median of chi-squared").agrees(
        plus_minus(0.3),
        of="median",  # three standard errors of 12 trials' median of 24 squares
    ),
    where="appendix C, lemma 1",
    unit=_NOISE,
)

conditions = paper.measure("conditions", shared.stein_conditions, seconds=(0.2, 0.2))
conditions.claim(
    "appendix-b/conditions",
    "Q4 and Q2 exist for linear, ReLU, leaky ReLU, sigmoid and tanh experts",
    at("residual", polynomial=["P2", "Q4"], highest=("polynomial", "noise")),
    says(0.0, "to rounding").follows(up_to(1e-10), of="highest"),
    where="appendix B, conditions 1 and 2",
)
_NOTHING_LEFT = says(0.0, "E[S He_j] that is left, as a part of c")
printed_linear = paper.measure("printed-identity", shared.printed_forms, seconds=(0.1, 0.1), activation="identity")
printed_linear.claim(
    "appendix-b/example1",
    "The printed Q4 and Q2 of linear experts are right",
    at("left", form=["gated2019: Q4", "gated2019: Q2"], highest="form"),
    _NOTHING_LEFT.follows(up_to(1e-10), of="highest"),
    where="appendix B, example 1",
)
printed_relu = paper.measure("printed-relu", shared.printed_forms, seconds=(0.1, 0.1), activation="relu")
printed_relu.claim(
    "appendix-b/example2",
    "The printed system for the ReLU's Q4 meets the conditions",
    at("left", form="gated2019: Q4"),
    _NOTHING_LEFT.follows(up_to(1e-3), of="highest"),
    "Three sigma^2 in the column of beta do not belong there: a constant has no moment with He_j, j > 0",
    where="appendix B, example 2",
)

landscape = paper.measure("theorem1-landscape", measures.landscape, seconds=(3, 20), trials=budgets(40, 400))


@reader
def off_scale(data: xr.Dataset) -> xr.DataArray:
    """Returns the largest distance of an entry of D from 1."""
    return abs(data["scale"] - 1).max(("experts", "expert"))


landscape.claim(
    "theorem1/landscape",
    "Every descent on eq. 8 ends at a permutation of the true regressors (2, 3 and 5 experts)",
    at("regressor_error", highest="experts"),
    says(0.0, "error at the end, of the worst initialization").agrees(up_to(1e-3), of="highest"),
)
landscape.claim(
    "theorem1/scale",
    "There (A^+)^T is D Gamma A* with D close to 1 and Gamma_ii = sqrt(E[p_i])",
    off_scale(),
    says(0.0, "distance of every entry of D from 1").agrees(up_to(0.05), of="highest"),
    unit="distance of D from 1",
)
fixed = paper.measure("theorem2-fixed", measures.fixed_samples, seconds=(5, 22), trials=budgets(4, 20))
fixed.claim(
    "theorem2/finite-samples",
    "On a fixed set of samples L4 keeps its landscape: every descent finds the regressors (n = 65,536)",
    at("regressor_error"),
    says(0.0, "error at the end").agrees(up_to(NOT_STUCK), of="highest"),
)

log = paper.measure("theorem3-descent", measures.log_descent, seconds=(4, 17), trials=budgets(24, 100))


@reader
def error_rate(data: xr.Dataset) -> np.ndarray:
    """Returns the slope of log error on log n, (trial,)."""
    count = np.log(data["samples"].values)
    return np.polyfit(count, np.log(data["error"].transpose("samples", "trial").values), 1)[0]


@reader
def slope_by_samples(data: xr.Dataset) -> xr.DataArray:
    """Returns the gradient at the true gates with 16,000 samples over that with 1000, each times sqrt(n)."""
    return data["slope"].sel(samples=16000).mean() / data["slope"].sel(samples=1000).mean()


log.claim(
    "theorem3/contraction",
    "Descent on L_log contracts the distance to where it ends at every step, for the worst initialization (k = 3, n = "
    "16,000)",
    at("contraction", samples=16000),
    says(1.0, bound="less than").agrees(up_to(0.99), of="highest"),
)
log.claim(
    "theorem4/rate",
    "The gates' error falls as 1 / sqrt(n)",
    error_rate(),
    says(-0.5, "slope of log error on log n").agrees(plus_minus(0.1)),
)
log.claim(
    "lemma2/fixed-point",
    "The true gates are a fixed point: L_log's gradient there is 0 but for sampling, as 1 / sqrt(n)",
    slope_by_samples(),
    says(1.0, "gradient at n = 16,000 over that at 1000, each times sqrt(n)").agrees(plus_minus(0.2)),
    where="appendix D, lemma 2",
)
