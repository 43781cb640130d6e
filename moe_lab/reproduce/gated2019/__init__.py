"""The claims of gated2019, "Learning in Gated Neural Networks"; its misprints are in `errata`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from moe_lab.reproduce.claim import Claim, Measurement, Published, Range, Rule, at_least, at_most, near
from moe_lab.reproduce.gated2019.errata import ERRATA as ERRATA

_FIGURES = "moe_lab.recovery.landscape.figures"
_MEASURES = "moe_lab.reproduce.gated2019.measures"
_SHARED = "moe_lab.reproduce.gridlock2019.measures"
_PICTURE = "moe_lab.recovery.landscape.plots:picture"
Read = Callable[[xr.Dataset], Any]
_FOUND = 0.01  # an error of a mean curve that the paper shows to end at 0: cosines of more than .99
_NOT_STUCK = 0.05  # the same of every single run, as in `moe_lab.recovery.landscape.stuck`

FIGURE_2A = Measurement(
    "gated2019/figure2a",
    f"{_FIGURES}:l4_against_l2",
    quick={"trials": 24},
    full={"trials": 100},
    seconds=(23, 96),
    picture=_PICTURE,
    sees="On L4 every start comes to an error of 0; on the squared error about half of the same starts stay near .5.",
)
FIGURE_2B = Measurement(
    "gated2019/figure2b",
    f"{_FIGURES}:gates_given_regressors",
    quick={"trials": 8},
    full={"trials": 40},
    seconds=(14, 69),
    picture=_PICTURE,
    sees="With L4's regressors L_log finds the gates as with the true ones; with those of the squared error often not.",
)
FIGURE_3 = Measurement(
    "gated2019/figure3",
    f"{_FIGURES}:random_gates",
    quick={"trials": 5},
    full={"trials": 40},
    seconds=(8, 60),
    picture=_PICTURE,
    sees="With random gates, too, both errors go to 0 in every run.",
)
FIGURE_4 = Measurement(
    "gated2019/figure4",
    f"{_FIGURES}:small_batches",
    quick={"trials": 4},
    full={"trials": 20},
    seconds=(9, 43),
    picture=_PICTURE,
    sees="With batches of 128 the regressors' error on L4 still goes to 0.",
)
SECTION_2 = Measurement(
    "gated2019/section2-gru",
    f"{_FIGURES}:gate_sharpness",
    quick={"cells": 5},
    full={"cells": 40},
    seconds=(1, 4),
    picture=_PICTURE,
    sees="As gates sharpen, a GRU of torch's kind becomes the mixture of eq. 5; the paper's kind does not.",
)
EQ_8 = Measurement(
    "gated2019/eq8", f"{_MEASURES}:eq7_and_eq8", quick={"trials": 24}, full={"trials": 100}, seconds=(6, 23)
)
FOURTH = Measurement(
    "gated2019/lemma1-tensor", f"{_SHARED}:fourth_moment", quick={"trials": 12},
    full={"trials": 60, "samples": 400_000}, seconds=(6, 60),
)  # fmt: skip
LANDSCAPE = Measurement(
    "gated2019/theorem1-landscape",
    f"{_MEASURES}:landscape",
    quick={"trials": 40},
    full={"trials": 400},
    seconds=(3, 20),
)
FIXED = Measurement(
    "gated2019/theorem2-fixed", f"{_MEASURES}:fixed_samples", quick={"trials": 4}, full={"trials": 20}, seconds=(5, 22)
)
LOG = Measurement(
    "gated2019/theorem3-descent",
    f"{_MEASURES}:log_descent",
    quick={"trials": 24},
    full={"trials": 100},
    seconds=(4, 17),
)
CONDITIONS = Measurement(
    "gated2019/conditions", f"{_SHARED}:stein_conditions", quick={}, full={}, seconds=(1, 1), seeded=False
)
PRINTED = {
    g: Measurement(f"gated2019/printed-{g}", f"{_SHARED}:printed_forms", quick={"activation": g},
                   full={"activation": g}, seconds=(1, 1), seeded=False)
    for g in ("identity", "relu")
}  # fmt: skip


def _ends(loss: str) -> Read:
    return lambda data: data["regressor_error"].sel(loss=loss).isel(step=-1)


def _rests_on_the_way(data: xr.Dataset) -> np.ndarray:
    """(trial,) 1 where L4's error falls by less than 5 % in some 50 steps while it is over .05, and then comes to 0."""
    error = data["regressor_error"].sel(loss="L4").transpose("step", "trial").values
    window = max(1, round(50 / float(data["step"][1] - data["step"][0])))
    rests = (error[:-window] > 0.05) & (error[:-window] - error[window:] < 0.05 * error[:-window])
    return (rests.any(0) & (error[-1] < _FOUND)).astype(float)


def _gating(source: str) -> Read:
    return lambda data: data["gating_error"].sel(regressors=source).isel(step=-1)


def _squared(gating: str, *experts: int) -> Read:
    return lambda data: (data["z"].sel(gating=gating, experts=list(experts)) ** 2).mean("experts")


def _error_rate(data: xr.Dataset) -> np.ndarray:
    """(trial,) the slope of log error on log n."""
    count = np.log(data["samples"].values)
    return np.polyfit(count, np.log(data["error"].transpose("samples", "trial").values), 1)[0]


def _claim(
    name: str, where: str, statement: str, published: Published, measurement: Measurement, read: Read, rule: Rule,
    reason: str = "", unit: str = "",
) -> Claim:  # fmt: skip
    return Claim(f"gated2019/{name}", where, statement, published, measurement, read, rule, reason, unit)


def _highest(bounds: Range) -> Rule:
    return Rule(bounds, of="highest")


_EXACT = "With binary gates a GRU is the hierarchical mixture of eq. 5"
_NOISE = "squared standard errors"

_FIGURE_CLAIMS = (
    _claim("figure2/a-l4-recovers", "figure 2a", "Descent on L4 finds the regressors from every start",
           Published(0.0, relation="where the curve ends"), FIGURE_2A, _ends("L4"), _highest(at_most(_NOT_STUCK))),
    _claim("figure2/a-l2-stuck", "figure 2a", "Descent on the squared error gets stuck from the same starts",
           Published(0.2, relation="share of starts, at least: one of five runs, else the mean curve would end at 0"),
           FIGURE_2A, lambda data: data["stuck"].sel(loss="l2").astype(float), Rule(at_least(0.2))),
    _claim("figure2/a-l2-mean", "figure 2a", "The mean error of l2's runs stays far above that of L4's",
           Published(relation="far above: by .1 at least"), FIGURE_2A,
           lambda data: _ends("l2")(data) - _ends("L4")(data), Rule(at_least(0.1))),
    _claim("figure2/a-plateau", "figure 2a and section 4", "On its way L4's error rests on a plateau, a saddle, in "
           "most runs", Published(0.5, relation="share of runs, at least: 'a plateau around 200 epochs'"), FIGURE_2A,
           _rests_on_the_way, Rule(None, at_least(0.5)),
           "The paper's delta, lambda, mu and rate are not printed; with those that work here the error falls without "
           "a rest in most runs"),
    _claim("figure2/b-l4-as-true", "figure 2b", "With L4's regressors L_log finds the gates as well as with true ones",
           Published(0.0, relation="difference of the two errors"), FIGURE_2B,
           lambda data: _gating("L4")(data) - _gating("true")(data), Rule(near(0.0, _FOUND))),
    _claim("figure2/b-l4-finds", "figure 2b", "With L4's regressors L_log finds the gates in every run",
           Published(0.0, relation="where the curve ends"), FIGURE_2B, _gating("L4"), _highest(at_most(_NOT_STUCK))),
    _claim("figure2/b-l2-fails", "figure 2b", "With l2's regressors the mean gating error stays far from 0",
           Published(relation="far from 0: .1 at least"), FIGURE_2B, _gating("l2"), Rule(at_least(0.1))),
    _claim("figure3/a-regressors", "figure 3a", "L4 finds the regressors in every run where gates are random",
           Published(0.0, relation="where the curves end"), FIGURE_3,
           lambda data: data["regressor_error"].isel(step=-1), _highest(at_most(_NOT_STUCK))),
    _claim("figure3/b-gates", "figure 3b", "L_log then finds the gates in every run where they are random",
           Published(0.0, relation="where the curves end"), FIGURE_3,
           lambda data: data["gating_error"].isel(gate_step=-1), _highest(at_most(_NOT_STUCK))),
    _claim("figure4/small-batches", "figure 4, appendix E.1", "The median descent on L4 with batches of 128 still "
           "converges to 0 (d = 5, learning rate .001; 1 of 28 did not)",
           Published(0.0, relation="where the mean curve ends"), FIGURE_4,
           lambda data: data["regressor_error"].isel(step=-1).squeeze("batch"),
           Rule(at_most(_FOUND), of="median")),
    _claim("section2/gru", "section 2, eq. 5", f"{_EXACT}, with the reset gate before the product, as printed",
           Published(0.0, relation="largest gap"), SECTION_2,
           lambda data: data["largest"].sel(convention="paper", sharpness=np.inf), _highest(at_most(1e-12)),
           "W (r * h) mixes the reset gates of all units: eq. 5 holds only where W is diagonal or all of r are alike"),
    _claim("section2/gru-torch", "section 2, eq. 5", f"{_EXACT}, with the reset gate after the product, as in torch",
           Published(0.0, relation="largest gap"), SECTION_2,
           lambda data: data["largest"].sel(convention="torch", sharpness=np.inf),
           Rule(None, at_most(1e-12), of="highest"), "The paper's GRU is another, for which it is not so"),
)  # fmt: skip

_THEOREMS = (
    _claim("theorem5/eq8", "appendix C, theorem 5", "L4 on samples is eq. 8, within sampling error, where gates are "
           "orthogonal to the regressors (k = 2 and 3, random A)", Published(0.7, relation="median, where it is so"),
           EQ_8, _squared("orthogonal", 2, 3), Rule(at_most(2.0), of="median"), unit=_NOISE),
    _claim("theorem5/eq8-random-gates", "section 3.1", "The technical assumption is not needed: for two experts eq. 8 "
           "holds where gates are random, too", Published(0.45, relation="median, where it is so"), EQ_8,
           _squared("random", 2), Rule(at_most(2.0), of="median"), unit=_NOISE),
    _claim("lemma1/tensor", "appendix C, lemma 1", "T4 of Q4(y) is c sum E[p_i] a_i a_i a_i a_i for linear, ReLU and "
           "sigmoid experts (k = 3), within sampling error", Published(0.455, relation="median of chi-squared"), FOURTH,
           lambda data: (data["z"].sel(label="Q4(y)") ** 2).median(("activation", "direction")),
           Rule(at_most(2.0), of="median"),
           unit=_NOISE),
    _claim("appendix-b/conditions", "appendix B, conditions 1 and 2", "Q4 and Q2 exist for linear, ReLU, leaky ReLU, "
           "sigmoid and tanh experts", Published(0.0, relation="to rounding"), CONDITIONS,
           lambda data: data["residual"].sel(polynomial=["P2", "Q4"]).max(("polynomial", "noise")),
           _highest(at_most(1e-10))),
    _claim("appendix-b/constants", "appendix B, conditions 1 and 2", "The constants c and c', which carry the "
           "regressors, are not zero for any of these activations", Published(relation="not zero"), CONDITIONS,
           lambda data: data["strength"].sel(polynomial=["P2", "Q4"]).min(("polynomial", "noise")),
           Rule(at_least(1e-6), of="lowest")),
    _claim("appendix-b/example1", "appendix B, example 1", "The printed Q4 and Q2 of linear experts are right",
           Published(0.0, relation="E[S He_j] that is left, as a part of c"), PRINTED["identity"],
           lambda data: data["left"].sel(form=["gated2019: Q4", "gated2019: Q2"]).max("form"),
           _highest(at_most(1e-10))),
    _claim("appendix-b/example2", "appendix B, example 2", "The printed system for the ReLU's Q4 meets the conditions",
           Published(0.0, relation="E[S He_j] that is left, as a part of c"), PRINTED["relu"],
           lambda data: data["left"].sel(form="gated2019: Q4"), _highest(at_most(1e-3)),
           "Three sigma^2 in the column of beta do not belong there: a constant has no moment with He_j, j > 0"),
    _claim("theorem1/landscape", "theorem 1", "Every descent on eq. 8 ends at a permutation of the true regressors "
           "(2, 3 and 5 experts)", Published(0.0, relation="error at the end, of the worst start"), LANDSCAPE,
           lambda data: data["regressor_error"].max("experts"), _highest(at_most(1e-3))),
    _claim("theorem1/scale", "theorem 1", "There (A^+)^T is D Gamma A* with D close to 1 and Gamma_ii = sqrt(E[p_i])",
           Published(1.0, relation="every entry of D"), LANDSCAPE,
           lambda data: abs(data["scale"] - 1).max(("experts", "expert")), _highest(at_most(0.05)),
           unit="distance of D from 1"),
    _claim("theorem2/finite-samples", "theorem 2", "On samples that are drawn once L4 keeps its landscape: every "
           "descent finds the regressors (n = 65,536)", Published(0.0, relation="error at the end"), FIXED,
           lambda data: data["regressor_error"], _highest(at_most(_NOT_STUCK))),
    _claim("theorem3/contraction", "theorem 3", "Descent on L_log contracts the distance to where it ends at every "
           "step, for the worst start (k = 3, n = 16,000)", Published(1.0, relation="less than"), LOG,
           lambda data: data["contraction"].sel(samples=16000), _highest((0.0, 0.99))),
    _claim("theorem4/rate", "theorem 4", "The gates' error falls as 1 / sqrt(n)",
           Published(-0.5, relation="slope of log error on log n"), LOG, _error_rate, Rule(near(-0.5, 0.1))),
    _claim("lemma2/fixed-point", "appendix D, lemma 2", "The true gates are a fixed point: L_log's gradient there is "
           "0 but for sampling, as 1 / sqrt(n)",
           Published(1.0, relation="gradient at n = 16,000 over that at 1000, each times sqrt(n)"), LOG,
           lambda data: data["slope"].sel(samples=16000).mean() / data["slope"].sel(samples=1000).mean(),
           Rule((0.5, 2.0))),
    _claim("appendix-d3/gradient-em", "appendix D.3", "A step on L_log is a step of gradient EM",
           Published(0.0, relation="to rounding"), LOG, lambda data: data["from_em"].max("samples"),
           _highest(at_most(1e-12))),
)  # fmt: skip

CLAIMS: tuple[Claim, ...] = (*_FIGURE_CLAIMS, *_THEOREMS)
