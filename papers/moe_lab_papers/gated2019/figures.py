"""The claims of gated2019's figures and of section 2."""

from __future__ import annotations

from functools import partial

import numpy as np
import xarray as xr

from moe_lab_papers.claim import Claim, Measurement, Published, Read, Rule
from moe_lab_papers.gated2019.sources import FIGURES, PICTURE
from moe_lab_papers.ranges import near, share_from, up_to

_FOUND = 0.01  # an error of a mean curve that the paper shows to end at 0: cosines of more than .99
NOT_STUCK = 0.05  # the same of every single run, as in `moe_lab.recovery.landscape.stuck`

FIGURE_2A = Measurement.sized(
    name="gated2019/figure2a",
    function=f"{FIGURES}:l4_against_l2",
    sizes={"trials": (24, 100)},
    seconds=(20, 96),
    picture=PICTURE,
    sees="On L4 every run reaches an error of 0; on the squared error about half of the same initializations stay near "
    ".5.",
)
FIGURE_2B = Measurement.sized(
    name="gated2019/figure2b",
    function=f"{FIGURES}:gates_given_regressors",
    sizes={"trials": (8, 40)},
    seconds=(14, 69),
    picture=PICTURE,
    sees="With L4's regressors L_log finds the gates as with the true ones; with those of the squared error often not.",
)
FIGURE_3 = Measurement.sized(
    name="gated2019/figure3",
    function=f"{FIGURES}:random_gates",
    sizes={"trials": (5, 40)},
    seconds=(8, 60),
    picture=PICTURE,
    sees="With random gates, too, both errors go to 0 in every run.",
)
FIGURE_4 = Measurement.sized(
    name="gated2019/figure4",
    function=f"{FIGURES}:small_batches",
    sizes={"trials": (4, 20)},
    seconds=(9, 43),
    picture=PICTURE,
    sees="With batches of 128 the regressors' error on L4 still goes to 0.",
)
SECTION_2 = Measurement.sized(
    name="gated2019/section2-gru",
    function=f"{FIGURES}:gate_sharpness",
    sizes={"cells": (5, 40)},
    seconds=(1, 4),
    picture=PICTURE,
    sees="As gates sharpen, a GRU of torch's kind becomes the mixture of eq. 5; the paper's kind does not.",
)


def _ends(loss: str) -> Read:
    return lambda data: data["regressor_error"].sel(loss=loss).isel(step=-1)


def _plateau(data: xr.Dataset) -> np.ndarray:
    """Reads 1 where L4's error falls by less than 5 % in some 50 steps while above .05, and then reaches 0."""
    error = data["regressor_error"].sel(loss="L4").transpose("step", "trial").values
    window = max(1, round(50 / float(data["step"][1] - data["step"][0])))
    flat = (error[:-window] > 0.05) & (error[:-window] - error[window:] < 0.05 * error[:-window])
    return (flat.any(0) & (error[-1] < _FOUND)).astype(float)


def _gating(source: str) -> Read:
    return lambda data: data["gating_error"].sel(regressors=source).isel(step=-1)


_CURVE = "The paper has a curve and no number, and names no rate and no weights"
_EXACT = "With binary gates a GRU is the hierarchical mixture of eq. 5"
_figure_2a = partial(Claim, measurement=FIGURE_2A)
_figure_2b = partial(Claim, where="figure 2b", measurement=FIGURE_2B)
CLAIMS: tuple[Claim, ...] = (
    _figure_2a(
        id="gated2019/figure2/a-l4-recovers",
        where="figure 2a",
        statement="Descent on L4 finds the regressors from every initialization",
        published=Published(value=0.0, relation="where the curve ends"),
        read=_ends("L4"),
        rule=Rule(agrees=up_to(NOT_STUCK), of="highest"),
        reason="of the full budget's 100 initializations at seed 0 one is at .26, on a plateau, when the cosine has "
        "taken the rate to 0 after 1,200 steps; with 2,400 it ends at .0002",
    ),
    _figure_2a(
        id="gated2019/figure2/a-l2-stuck",
        where="figure 2a",
        statement="Descent on the squared error gets stuck from the same initializations",
        published=Published(
            value=0.2,
            bound="at least",
            relation="share of initializations: one of five runs, else the mean curve would end at 0",
        ),
        read=lambda data: data["stuck"].sel(loss="l2").astype(float),
        rule=Rule(agrees=share_from(0.2)),
    ),
    _figure_2a(
        id="gated2019/figure2/a-l2-mean",
        where="figure 2a",
        statement="The mean error of l2's runs stays far above that of L4's",
        published=Published(relation="far above: by .1 at least"),
        read=lambda data: _ends("l2")(data) - _ends("L4")(data),
        rule=Rule(in_kind=(0.1, 1.0)),  # an error is 1 at most
        reason=_CURVE,
    ),
    _figure_2a(
        id="gated2019/figure2/a-plateau",
        where="figure 2a and section 4",
        statement="L4's error stays on a plateau, a saddle, for a while in most runs",
        published=Published(value=0.5, bound="at least", relation="share of runs: 'a plateau around 200 epochs'"),
        read=_plateau,
        rule=Rule(in_kind=share_from(0.5)),
        reason="The paper's delta, lambda, mu and rate are not printed. With those that work here the error falls "
        "without a plateau in most runs; without sampling noise 2 of 12 rest, where eq. 8 curves down, at a saddle. "
        "With delta = .1 and a rate of .01 all of 12 runs rest, but 10 of them, at an error near .1, in a slow "
        "direction: eq. 8 curves up everywhere, and delta alone pulls in what is outside the span of the regressors",
    ),
    _figure_2b(
        id="gated2019/figure2/b-l4-as-true",
        statement="With L4's regressors L_log finds the gates as well as with true ones",
        published=Published(value=0.0, relation="difference of the two errors"),
        read=lambda data: _gating("L4")(data) - _gating("true")(data),
        rule=Rule(agrees=near(0.0, _FOUND)),
    ),
    _figure_2b(
        id="gated2019/figure2/b-l4-finds",
        statement="With L4's regressors L_log finds the gates in every run",
        published=Published(value=0.0, relation="where the curve ends"),
        read=_gating("L4"),
        rule=Rule(agrees=up_to(NOT_STUCK), of="highest"),
    ),
    _figure_2b(
        id="gated2019/figure2/b-l2-fails",
        statement="With l2's regressors the mean gating error stays far from 0",
        published=Published(relation="far from 0: .1 at least"),
        read=_gating("l2"),
        rule=Rule(in_kind=(0.1, 1.0)),
        reason=_CURVE,
    ),
    Claim(
        id="gated2019/figure3/a-regressors",
        where="figure 3a",
        statement="L4 finds the regressors in every run where gates are random",
        published=Published(value=0.0, relation="where the curves end"),
        measurement=FIGURE_3,
        read=lambda data: data["regressor_error"].isel(step=-1),
        rule=Rule(agrees=up_to(NOT_STUCK), of="highest"),
    ),
    Claim(
        id="gated2019/figure3/b-gates",
        where="figure 3b",
        statement="L_log then finds the gates in every run where they are random",
        published=Published(value=0.0, relation="where the curves end"),
        measurement=FIGURE_3,
        read=lambda data: data["gating_error"].isel(gate_step=-1),
        rule=Rule(agrees=up_to(NOT_STUCK), of="highest"),
    ),
    Claim(
        id="gated2019/figure4/small-batches",
        where="figure 4, appendix E.1",
        statement="The median descent on L4 with batches of 128 still "
        "converges to 0 (d = 5, learning rate .001; 1 of 28 did not)",
        published=Published(value=0.0, relation="where the mean curve ends"),
        measurement=FIGURE_4,
        read=lambda data: data["regressor_error"].isel(step=-1).squeeze("batch"),
        rule=Rule(agrees=up_to(_FOUND), of="median"),
    ),
    Claim(
        id="gated2019/section2/gru",
        where="section 2, eq. 5",
        statement=f"{_EXACT}, with the reset gate before the product, as printed",
        published=Published(value=0.0, relation="largest gap"),
        measurement=SECTION_2,
        read=lambda data: data["largest"].sel(convention="paper", sharpness=np.inf),
        rule=Rule(agrees=up_to(1e-12), of="highest", follows=True),
        reason="W (r * h) mixes the reset gates of all units: eq. 5 holds only where W is diagonal or all of r are "
        "alike",
    ),
    Claim(
        id="gated2019/section2/gru-torch",
        where="section 2, eq. 5",
        statement=f"{_EXACT}, with the reset gate after the product, as in torch",
        published=Published(value=0.0, relation="largest gap"),
        measurement=SECTION_2,
        read=lambda data: data["largest"].sel(convention="torch", sharpness=np.inf),
        rule=Rule(in_kind=up_to(1e-12), of="highest"),
        reason="The paper's GRU is another, for which it is not so",
    ),
)
