"""The claims of gridlock2019's figures: how fast the gates are found, and whether joint EM is worse."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import xarray as xr

from moe_lab.recovery.gridlock.grid_points import FOUND
from moe_lab.recovery.gridlock.published import REPLICATION
from moe_lab_papers.claim import Claim, Measurement, Needs, Published, Rule
from moe_lab_papers.gridlock2019.sources import FIGURES, PICTURE
from moe_lab_papers.ranges import share_from

_OURS, _JOINT, _GRADIENT = "spectral+em", "joint-em", "joint-em-gradient"
_OFTEN = 0.25  # the paper gives no number for "often": a quarter of the trials
_CLEARLY = 0.9  # an error is clearly smaller where it is less than this part of the other
_REACHED = 1.1  # the error of EM from the truth counts as reached within a tenth of it

FIGURE_3 = Measurement.sized(
    name="gridlock2019/figure3",
    function=f"{FIGURES}:figure3",
    sizes={"trials": (8, 40)},
    seconds=(14, 70),
    device=True,
    picture=PICTURE,
    sees="Gates are found in two iterations; joint EM ends where EM from the spectral initialization does, but later.",
)
FIGURE_4 = Measurement(
    name="gridlock2019/figure4",
    function=f"{FIGURES}:figure4",
    quick={"trials": 12, "samples": (1000, 5000, 10000)},
    full={"trials": 40, "samples": (1000, 5000, 10000)},
    seconds=(16, 52),
    split=("samples", "samples"),
    device=True,
    picture=PICTURE,
    sees="For each n both kinds of EM come down to the error of EM from the truth; spectral regressors alone do not.",
)
FIGURE_5 = Measurement(
    name="gridlock2019/figure5",
    function=f"{FIGURES}:figure5",
    quick={"trials": 6, "activation": ("sigmoid", "relu"), "noise": (0.1,)},
    full={"trials": 40, "activation": ("sigmoid", "relu"), "noise": (0.1,)},
    seconds=(9, 57),
    split=("activation", "activation"),
    device=True,
    picture=PICTURE,
    sees="With sigmoid and ReLU experts joint EM is as good as EM from the spectral initialization.",
)
STUCK = Measurement.sized(
    name="gridlock2019/section4.3-stuck",
    function=f"{FIGURES}:stuck_rate",
    sizes={"trials": (8, 40)},
    seconds=(13, 67),
    device=True,
    picture=PICTURE,
    sees="With 8 experts joint EM is stuck in most trials, EM from the spectral initialization finds the regressors in "
    "most.",
)


def _figure_6(source: str, pattern: str, words: str) -> Measurement:
    return Measurement(
        name=f"gridlock2019/figure6-{source}",
        function=f"{FIGURES}:figure6",
        quick={"source": source, "trials": 8},
        full={"source": source, "trials": 20},
        seconds=(5, 12),
        picture=PICTURE,
        sees=f"Prediction errors on {source}: spectral regressors alone are worse than the variance, with EM after "
        "them they do as well as joint EM.",
        needs=Needs(what=words, argument="path", pattern=pattern, as_file=True),
    )


AIRFOIL = _figure_6(
    source="airfoil",
    pattern="airfoil*",
    words="the airfoil self-noise data of the UCI repository (airfoil_self_noise.dat)",
)
CONCRETE = _figure_6(
    source="concrete", pattern="concrete*", words="the concrete strength data of the UCI repository as concrete.csv"
)
Read = Callable[[xr.Dataset], xr.DataArray]


def _end(data: xr.Dataset, method: str, **at: object) -> xr.DataArray:
    """The error where a method ended."""
    return data["error"].sel({"algorithm": method, **at}).isel(iteration=-1)


def _ours_smaller(method: str = _OURS, **at: object) -> Read:
    """Reads 1 where our error is clearly smaller than joint EM's; a trial without a spectral initialization is not."""
    return lambda data: (_end(data, method, **at) < _CLEARLY * _end(data, _JOINT, **at)).astype(float)


def _short(method: str, **at: object) -> Read:
    """Reads 1 where a method has not reached the error of EM from the truth."""
    return lambda data: (~(_end(data, method, **at) <= _REACHED * data["best_error"].sel(at))).astype(float)


def _iterations(data: xr.Dataset) -> np.ndarray:
    """Counts iterations until EM from the spectral initialization stays near the error of EM from truth, (k, trial)."""
    error = data["error"].sel(algorithm=_OURS).transpose("iteration", "k", "trial").values
    far = ~(error <= _REACHED * data["best_error"].transpose("k", "trial").values)
    return np.where(far.any(0), len(far) - far[::-1].argmax(0), 0)


def _gate_iterations(data: xr.Dataset) -> np.ndarray:
    """Counts iterations of EM until the gating fit stays within .01 of its last value, (trial,)."""
    fit = data["gates_alone"].sel(gate_algorithm="spectral").transpose("gate_iteration", "trial").values
    far = np.abs(fit - fit[-1]) > 0.01
    return np.where(far.any(0), len(far) - far[::-1].argmax(0), 0)


def _found(data: xr.Dataset, method: str) -> xr.DataArray:
    return (data["regressor_fit"].sel(algorithm=method) >= FOUND).astype(float)


def _advantage(identity: str, where: str, words: str, measurement: Measurement, read: Read, why: str) -> Claim:
    return Claim(
        id=f"gridlock2019/{identity}",
        where=where,
        statement=f"EM from the spectral initialization ends with a clearly smaller error than joint EM {words}, in "
        "most trials",
        published=Published(value=0.5, bound="at least", relation="share of trials: 'consistently outperforms'"),
        measurement=measurement,
        read=read,
        rule=Rule(agrees=share_from(0.5)),
        reason=why,
    )


_figure_3 = partial(Claim, measurement=FIGURE_3)
_FIGURE_3 = (
    _figure_3(
        id="gridlock2019/figure3/a-gates-iterations",
        where="figure 3a",
        statement="EM of the gates converges in less than 5 iterations in every trial",
        published=Published(value=5.0, bound="less than"),
        read=_gate_iterations,
        rule=Rule(agrees=(1.0, 4.0), of="highest"),
        unit="iterations",
    ),
    *(
        _advantage(
            identity=f"figure3/{panel}-advantage",
            where=f"figure 3{panel}",
            words=f"at k = {k}",
            measurement=FIGURE_3,
            read=_ours_smaller(k=k),
            why=REPLICATION["figure 3"],
        )
        for panel, k in (("b", 3), ("c", 4))
    ),
    _figure_3(
        id="gridlock2019/figure3/bc-spectral-alone",
        where="figures 3b and 3c",
        statement="Algorithms 1 and 2 as they are, which leave the spectral regressors alone, end with a clearly "
        "smaller error than joint EM in most trials",
        published=Published(value=0.5, bound="at least", relation="share of trials"),
        read=lambda data: _ours_smaller("spectral")(data).mean("k"),
        rule=Rule(agrees=share_from(0.5)),
        reason="At sigma = .5 the spectral regressors carry sampling errors that no EM of the gates can take away",
    ),
    _figure_3(
        id="gridlock2019/figure3/bc-joint-em-stuck",
        where="figures 3b and 3c",
        statement="Joint EM often gets stuck: it does not reach the error of EM from the truth",
        published=Published(value=_OFTEN, bound="at least", relation="share of trials: 'often'"),
        read=lambda data: _short(_JOINT)(data).mean("k"),
        rule=Rule(agrees=share_from(_OFTEN)),
        reason=REPLICATION["figure 3"],
    ),
    _figure_3(
        id="gridlock2019/figure3/bc-gradient-joint-em-stuck",
        where="figures 3b and 3c",
        statement="Joint EM with one gradient step for an M-step, and gates within R = 1, often has not reached that "
        "error",
        published=Published(value=_OFTEN, bound="at least", relation="share of trials: 'often'"),
        read=lambda data: _short(_GRADIENT)(data).mean("k"),
        rule=Rule(in_kind=share_from(_OFTEN)),
        not_comparable="this is another joint EM than the paper describes, and the one that reproduces the paper's "
        "picture",
    ),
    _figure_3(
        id="gridlock2019/figure3/bc-iterations",
        where="section 4.3",
        statement="EM from the spectral initialization often needs less than 10 iterations",
        published=Published(value=_OFTEN, bound="at least", relation="share of trials: 'often less than 10'"),
        read=lambda data: (_iterations(data) < 10).mean(0),
        rule=Rule(agrees=share_from(_OFTEN)),
    ),
)

_LARGER = "it does at k = 8, d = 16, n = 6000 and sigma = .1, where the paper has k = 3 and 4, at which none is stuck"
_OTHER_FIGURES = (
    *(
        _advantage(
            identity=f"figure4/n{n}-advantage",
            where=f"figure 4, n = {n}",
            words=f"with {n} samples",
            measurement=FIGURE_4,
            read=_ours_smaller(samples=n),
            why=REPLICATION["figure 4"],
        )
        for n in (1000, 5000, 10000)
    ),
    *(
        _advantage(
            identity=f"figure5/{g}-advantage",
            where=f"figure 5, {g}",
            words=f"with {g} experts (sigma = .1; the paper states none)",
            measurement=FIGURE_5,
            read=_ours_smaller(activation=g, noise=0.1),
            why=REPLICATION["figure 5"],
        )
        for g in ("sigmoid", "relu")
    ),
    Claim(
        id="gridlock2019/section4.3/joint-em-stuck",
        where="sections 2 and 4.3",
        statement="Joint EM often gets stuck: converged without the regressors after 250 iterations",
        published=Published(value=_OFTEN, bound="at least", relation="share of trials: 'often'"),
        measurement=STUCK,
        read=lambda data: data["stuck"].sel(algorithm=_JOINT),
        rule=Rule(in_kind=share_from(_OFTEN)),
        not_comparable=_LARGER,
    ),
    Claim(
        id="gridlock2019/section4.3/spectral-finds-more",
        where="section 4.3",
        statement="EM from the spectral initialization finds the regressors in more trials than joint EM, by at least "
        "a quarter of all",
        published=Published(value=_OFTEN, bound="at least", relation="share of all trials: joint EM is 'often' stuck"),
        measurement=STUCK,
        read=lambda data: _found(data, _OURS) - _found(data, _JOINT),
        rule=Rule(in_kind=share_from(_OFTEN)),
        not_comparable=_LARGER,
    ),
)


def _real(measurement: Measurement, method: str, words: str) -> Claim:
    source = measurement.name.rsplit("-", 1)[1]

    def read(data: xr.Dataset) -> xr.DataArray:
        error = data["test_error"]
        return (error.sel(algorithm=method) < _CLEARLY * error.sel(algorithm="joint-em")).astype(float)

    return Claim(
        id=f"gridlock2019/figure6/{source}-{method.replace('+', '-')}",
        where="figure 6, appendix H.2",
        statement=f"{words} predicts {source} with a clearly smaller error than joint EM, in three of four divisions",
        published=Published(
            value=0.75, bound="at least", relation="share of divisions: 'in all settings a smaller prediction error'"
        ),
        measurement=measurement,
        read=read,
        rule=Rule(agrees=share_from(0.75)),
        reason=REPLICATION["figure 6"],
    )


# The paper's third data set, stock portfolios, is at UCI as an Excel file: no run on it is known. Diabetes, which come
# with scikit-learn and which `figure6` shows where none of the paper's data are there, are not the paper's.
_REAL = tuple(
    _real(measurement=measurement, method=method, words=words)
    for measurement in (AIRFOIL, CONCRETE)
    for method, words in (("spectral", "The spectral mixture"), (_OURS, "EM from the spectral initialization"))
)
CLAIMS: tuple[Claim, ...] = (*_FIGURE_3, *_OTHER_FIGURES, *_REAL)
