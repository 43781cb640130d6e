"""The claims of gridlock2019 about the constants of theorems 2 and 5, its additive error and lemma 4."""

from __future__ import annotations

from moe_lab_papers.claim import Claim, Measurement, Published, Rule, near, selected, up_to
from moe_lab_papers.recovery_lemmas import slope_in

_MEASURES = "moe_lab_papers.recovery_lemmas"
WRONG = Measurement.sized(
    name="gridlock2019/wrong-regressors",
    function=f"{_MEASURES}:wrong_regressors",
    sizes={"trials": (8, 40)},
    seconds=(4, 20),
)
ONE_STEP = Measurement.sized(
    name="gridlock2019/one-step", function=f"{_MEASURES}:one_step", sizes={"trials": (8, 40)}, seconds=(1.5, 8)
)
CONCAVITY = Measurement(
    name="gridlock2019/concavity",
    function=f"{_MEASURES}:concavity",
    quick={},
    full={},
    seconds=(0.1, 0.1),
    seeded=False,
)


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
        id="gridlock2019/lemma4/em-operator",
        where="appendix D, lemma 4",
        statement="an M-step with regressors off by sigma^2 eps, in the worst direction, is at most the printed kappa "
        "times eps away from one with the true ones (k = 2, sigma = 2)",
        published=Published(value=1, bound="at most", relation="of kappa eps"),
        measurement=ONE_STEP,
        read=lambda data: data["em"].max("error"),
        # The lemma is no more than a bound, and has room: half or twice the number would agree as well. Gates of
        # another trial would not (see test_recovery_lemmas.py). Lemma 5 is the sharp form of its proof.
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
