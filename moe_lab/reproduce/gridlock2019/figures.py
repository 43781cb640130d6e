"""The claims of gridlock2019's figures: how fast the gates are found, and whether joint EM is worse."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import xarray as xr

from moe_lab.recovery.gridlock.grid_points import FOUND
from moe_lab.recovery.gridlock.published import REPLICATION
from moe_lab.reproduce.claim import Claim, Measurement, Needs, Published, Rule, at_least, at_most

_FIGURES = "moe_lab.recovery.gridlock.figures"
_PICTURE = "moe_lab.recovery.gridlock.plots:picture"
_OURS, _JOINT, _GRADIENT = "spectral+em", "joint-em", "joint-em-gradient"
_OFTEN = 0.25  # the paper's "often", in no number: a quarter of the trials
_CLEARLY = 0.9  # an error is clearly smaller where it is less than this part of the other
_REACHED = 1.1  # the error of EM from the truth counts as reached within a tenth of it

FIGURE_3 = Measurement(
    "gridlock2019/figure3",
    f"{_FIGURES}:figure3",
    quick={"trials": 8},
    full={"trials": 40},
    seconds=(14, 70),
    device=True,
    picture=_PICTURE,
    sees="Gates are found in two iterations; joint EM ends where EM from the spectral start does, but later.",
)
FIGURE_4 = Measurement(
    "gridlock2019/figure4",
    f"{_FIGURES}:figure4",
    quick={"trials": 6, "samples": (1000, 5000, 10000)},
    full={"trials": 40, "samples": (1000, 5000, 10000)},
    seconds=(8, 52),
    split=("samples", "samples"),
    device=True,
    picture=_PICTURE,
    sees="For each n both kinds of EM come down to the error of EM from the truth; spectral regressors alone do not.",
)
FIGURE_5 = Measurement(
    "gridlock2019/figure5",
    f"{_FIGURES}:figure5",
    quick={"trials": 6, "activation": ("sigmoid", "relu"), "noise": (0.1,)},
    full={"trials": 40, "activation": ("sigmoid", "relu"), "noise": (0.1,)},
    seconds=(9, 57),
    split=("activation", "activation"),
    device=True,
    picture=_PICTURE,
    sees="With sigmoid and ReLU experts joint EM is as good as EM from the spectral start.",
)
STUCK = Measurement(
    "gridlock2019/section4.3-stuck",
    f"{_FIGURES}:stuck_rate",
    quick={"trials": 12},
    full={"trials": 40},
    seconds=(20, 67),
    device=True,
    picture=_PICTURE,
    sees="With 8 experts joint EM is stuck in most trials, EM from the spectral start finds the regressors in most.",
)


def _figure_6(source: str, pattern: str, words: str) -> Measurement:
    data = source != "diabetes"
    return Measurement(
        f"gridlock2019/figure6-{source}",
        f"{_FIGURES}:figure6",
        quick={"source": source, "trials": 8},
        full={"source": source, "trials": 20},
        seconds=(5, 12),
        picture=_PICTURE,
        sees=f"Prediction errors on {source}: spectral regressors alone are worse than the variance, with EM after "
        "them they do as well as joint EM.",
        needs=Needs(words, "path", pattern, as_file=True) if data else None,
    )


AIRFOIL = _figure_6("airfoil", "airfoil*", "the airfoil self-noise data of the UCI repository (airfoil_self_noise.dat)")
CONCRETE = _figure_6("concrete", "concrete*", "the concrete strength data of the UCI repository as concrete.csv")
DIABETES = _figure_6("diabetes", "", "")

Read = Callable[[xr.Dataset], xr.DataArray]


def _end(data: xr.Dataset, method: str, **at: object) -> xr.DataArray:
    """The error where a method ended."""
    return data["error"].sel({"algorithm": method, **at}).isel(iteration=-1)


def _ours_smaller(method: str = _OURS, **at: object) -> Read:
    """Reads 1 where our error is clearly smaller than joint EM's; a trial without a spectral start is not."""
    return lambda data: (_end(data, method, **at) < _CLEARLY * _end(data, _JOINT, **at)).astype(float)


def _short(method: str, **at: object) -> Read:
    """Reads 1 where a method has not come to the error of EM from the truth."""
    return lambda data: (~(_end(data, method, **at) <= _REACHED * data["best_error"].sel(at))).astype(float)


def _iterations(data: xr.Dataset) -> np.ndarray:
    """(k, trial) after how many iterations the error of EM from the spectral start stays by that of EM from truth."""
    error = data["error"].sel(algorithm=_OURS).transpose("iteration", "k", "trial").values
    far = ~(error <= _REACHED * data["best_error"].transpose("k", "trial").values)
    return np.where(far.any(0), len(far) - far[::-1].argmax(0), 0)


def _gate_iterations(data: xr.Dataset) -> np.ndarray:
    """(trial,) after how many iterations of EM the gating fit stays within .01 of where it ends."""
    fit = data["gates_alone"].sel(gate_algorithm="spectral").transpose("gate_iteration", "trial").values
    far = np.abs(fit - fit[-1]) > 0.01
    return np.where(far.any(0), len(far) - far[::-1].argmax(0), 0)


def _found(data: xr.Dataset, method: str) -> xr.DataArray:
    return (data["regressor_fit"].sel(algorithm=method) >= FOUND).astype(float)


def _advantage(identity: str, where: str, words: str, measurement: Measurement, read: Read, why: str) -> Claim:
    return Claim(
        f"gridlock2019/{identity}",
        where,
        f"EM from the spectral start ends with a clearly smaller error than joint EM {words}, in most trials",
        Published(0.5, relation="share of trials, at least: 'consistently outperforms'"),
        measurement,
        read,
        Rule(at_least(0.5)),
        why,
    )


_FIGURE_3 = (
    Claim(
        "gridlock2019/figure3/a-gates-iterations",
        "figure 3a",
        "EM of the gates converges in less than 5 iterations in every trial",
        Published(5.0, relation="less than"),
        FIGURE_3,
        _gate_iterations,
        Rule(at_most(4.0), of="highest"),
        unit="iterations",
    ),
    *(
        _advantage(f"figure3/{panel}-advantage", f"figure 3{panel}", f"at k = {k}", FIGURE_3, _ours_smaller(k=k),
                   REPLICATION["figure 3"])
        for panel, k in (("b", 3), ("c", 4))
    ),
    Claim(
        "gridlock2019/figure3/bc-spectral-alone",
        "figures 3b and 3c",
        "Algorithms 1 and 2 as they are, which leave the spectral regressors alone, end with a clearly smaller error "
        "than joint EM in most trials",
        Published(0.5, relation="share of trials, at least"),
        FIGURE_3,
        lambda data: _ours_smaller("spectral")(data).mean("k"),
        Rule(at_least(0.5)),
        "At sigma = .5 the spectral regressors carry sampling errors that no EM of the gates can take away",
    ),
    Claim(
        "gridlock2019/figure3/bc-joint-em-stuck",
        "figures 3b and 3c",
        "Joint EM often gets stuck: it does not come to the error of EM from the truth",
        Published(_OFTEN, relation="share of trials, at least: 'often'"),
        FIGURE_3,
        lambda data: _short(_JOINT)(data).mean("k"),
        Rule(at_least(_OFTEN)),
        REPLICATION["figure 3"],
    ),
    Claim(
        "gridlock2019/figure3/bc-gradient-joint-em-stuck",
        "figures 3b and 3c",
        "Joint EM with one gradient step for an M-step, and gates within R = 1, often has not come to that error",
        Published(_OFTEN, relation="share of trials, at least: 'often'"),
        FIGURE_3,
        lambda data: _short(_GRADIENT)(data).mean("k"),
        Rule(None, at_least(_OFTEN)),
        "This is another joint EM than the paper says it ran, and the one that shows the paper's picture",
    ),
    Claim(
        "gridlock2019/figure3/bc-iterations",
        "section 4.3",
        "EM from the spectral start is there in less than 10 iterations, often",
        Published(_OFTEN, relation="share of trials, at least: 'often less than 10'"),
        FIGURE_3,
        lambda data: (_iterations(data) < 10).mean(0),
        Rule(at_least(_OFTEN)),
    ),
)  # fmt: skip

_OTHER_FIGURES = (
    *(
        _advantage(f"figure4/n{n}-advantage", f"figure 4, n = {n}", f"with {n} samples", FIGURE_4,
                   _ours_smaller(samples=n), REPLICATION["figure 4"])
        for n in (1000, 5000, 10000)
    ),
    *(
        _advantage(f"figure5/{g}-advantage", f"figure 5, {g}", f"with {g} experts (sigma = .1; the paper says none)",
                   FIGURE_5, _ours_smaller(activation=g, noise=0.1), REPLICATION["figure 5"])
        for g in ("sigmoid", "relu")
    ),
    Claim(
        "gridlock2019/section4.3/joint-em-stuck",
        "sections 2 and 4.3",
        "Joint EM often gets stuck: converged without the regressors after 250 iterations",
        Published(_OFTEN, relation="share of trials, at least: 'often'"),
        STUCK,
        lambda data: data["stuck"].sel(algorithm=_JOINT),
        Rule(None, at_least(_OFTEN)),
        "It does at k = 8, d = 16, n = 6000 and sigma = .1, not at the paper's k = 3 and 4",
    ),
    Claim(
        "gridlock2019/section4.3/spectral-finds-more",
        "section 4.3",
        "EM from the spectral start finds the regressors in more trials than joint EM, by at least a quarter of all",
        Published(_OFTEN, relation="share of all trials, at least: joint EM is 'often' stuck"),
        STUCK,
        lambda data: _found(data, _OURS) - _found(data, _JOINT),
        Rule(None, at_least(_OFTEN)),
        "It does at k = 8, d = 16, n = 6000 and sigma = .1, not at the paper's k = 3 and 4",
    ),
)  # fmt: skip


def _real(measurement: Measurement, method: str, words: str, why: str) -> Claim:
    source = measurement.name.rsplit("-", 1)[1]
    paper = "the paper's data" if source != "diabetes" else "data that the paper does not have"

    def read(data: xr.Dataset) -> xr.DataArray:
        error = data["test_error"]
        return (error.sel(algorithm=method) < _CLEARLY * error.sel(algorithm="joint-em")).astype(float)

    agrees = None if source == "diabetes" else at_least(0.75)
    return Claim(
        f"gridlock2019/figure6/{source}-{method.replace('+', '-')}",
        "figure 6, appendix H.2",
        f"{words} predicts {source} ({paper}) with a clearly smaller error than joint EM, in three of four divisions",
        Published(0.75, relation="share of divisions, at least: 'in all settings a smaller prediction error'"),
        measurement,
        read,
        Rule(agrees, at_least(0.75) if agrees is None else None),
        why,
    )


_REAL = tuple(
    _real(measurement, method, words, REPLICATION["figure 6"])
    for measurement in (AIRFOIL, CONCRETE, DIABETES)
    for method, words in (("spectral", "The spectral mixture"), (_OURS, "EM from the spectral start"))
)
CLAIMS: tuple[Claim, ...] = (*_FIGURE_3, *_OTHER_FIGURES, *_REAL)
