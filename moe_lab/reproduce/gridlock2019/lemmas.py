"""The claims of gridlock2019 about the constants of theorems 2 and 5, its additive error, lemma 4 and eq. 51.

Lemma 5 is about any strongly convex function, and nothing of the model. Theorem 4 is another paper's, whose assumptions
theorem 2 verifies.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from moe_lab.reproduce.claim import Claim, Measurement, Published, Rule, at_least, near, selected, up_to
from moe_lab.reproduce.gridlock2019.theorems import GATES
from moe_lab.reproduce.recovery_lemmas import slope_in

_MEASURES = "moe_lab.reproduce.recovery_lemmas"
WRONG = Measurement.sized(
    name="gridlock2019/wrong-regressors",
    function=f"{_MEASURES}:wrong_regressors",
    sizes={"trials": (8, 40)},
    seconds=(4, 20),
)
CONCAVITY = Measurement(
    name="gridlock2019/concavity",
    function=f"{_MEASURES}:concavity",
    quick={},
    full={},
    seconds=(0.1, 0.1),
    seeded=False,
)


def _power_of_noise(data: xr.Dataset) -> np.ndarray:
    return slope_in(data.sel(step="EM"), "contraction", "noise")


CLAIMS: tuple[Claim, ...] = (
    *(
        Claim(
            id=f"gridlock2019/{place}",
            where=where,
            statement=f"the {words} eigenvalue of -Q's Hessian, over all gates of length 1 at most, is {value:g}",
            published=Published(value=value),
            measurement=CONCAVITY,
            read=selected(name),
            rule=Rule(agrees=near(value, 5e-5), follows=True),  # as printed, to four digits
        )
        for place, where, words, name, value in (
            ("theorem2/lambda", "appendix D.1, eq. 28", "smallest", "least", 0.1442),
            ("theorem5/mu", "appendix G", "largest", "largest", 0.25),
        )
    ),
    Claim(
        id="gridlock2019/eq51/contraction",
        where="appendix F, eq. 51",
        statement="EM's contraction factor vanishes as sigma^(1/4) or faster",
        published=Published(value=0.25, bound="at least", relation="power of sigma, as it becomes small"),
        measurement=GATES,
        read=_power_of_noise,
        rule=Rule(agrees=at_least(0.25)),
        unit="power of sigma",
    ),
    Claim(
        id="gridlock2019/lemma4/em-operator",
        where="appendix D, lemma 4",
        statement="an M-step with regressors off by sigma^2 eps is at most the printed kappa times eps away from one "
        "with the true ones",
        published=Published(value=1, bound="at most", relation="of kappa eps"),
        measurement=WRONG,
        read=lambda data: data["em"].max("error"),
        rule=Rule(agrees=up_to(1), of="highest"),
    ),
    Claim(
        id="gridlock2019/theorem2/additive-error",
        where="theorem 2",
        statement="the gates that are found with such regressors are off in proportion to eps",
        published=Published(value=1, relation="kappa eps / (1 - rho): power of eps"),
        measurement=WRONG,
        read=lambda data: slope_in(data, "end", "error"),
        rule=Rule(agrees=near(1, 0.1)),
        unit="power of eps",
    ),
)
