"""The claims of chen2022 about linear experts: what they can represent, and reach with a balancing loss or in table 6.

And that an ensemble does not help single experts, which theorem 4.1 bounds in the same way.
"""

from __future__ import annotations

from moe_lab.specialization.published import published
from moe_lab_papers.chen2022.linear_measures import FIGURE_1
from moe_lab_papers.chen2022.mixtures import SETTINGS
from moe_lab_papers.chen2022.tables import TABLE_6, TABLE_9
from moe_lab_papers.claim import (
    ROUNDING,
    Claim,
    Measurement,
    Published,
    Rule,
    at_least,
    near,
    nearer,
    selected,
    share_from,
)

_MEASURES = "moe_lab_papers.chen2022.linear_measures"
REPRESENTED = Measurement.sized(
    name="chen2022/linear-mixture",
    function=f"{_MEASURES}:linear_mixture",
    sizes={"settings": ((FIGURE_1, *SETTINGS), (FIGURE_1, *SETTINGS)), "trials": (4, 20), "samples": (4000, 16_000)},
    seconds=(0.5, 6),
)
ENSEMBLES = Measurement.sized(
    name="chen2022/ensembles",
    function=f"{_MEASURES}:ensembles",
    sizes={"sizes": ((1, 4, 16), (1, 4, 16, 64)), "trials": (6, 40), "samples": (200, 500)},
    seconds=(1, 40),
)


def _balanced(setting: int) -> Claim:
    """A cell of table 9: within its published deviation, or nearer to it than to nonlinear and to single experts."""
    theirs = published("table 9").sel(setting=setting, model="moe-linear")
    value, spread = float(theirs["test_accuracy"]), float(theirs["test_accuracy_std"])
    beside = published("table 3")["test_accuracy"].sel(setting=setting)
    low, high = (nearer(value, float(beside.sel(model=model))) for model in ("single-linear", "moe-cubic"))
    return Claim(
        id=f"chen2022/table9/setting{setting}-linear",
        where=f"table 9, setting {setting}",
        statement=f"With the load-balancing loss eight linear experts reach only {100 * value:.2f} % of the test "
        f"samples in setting {setting}",
        published=Published(value=value, spread=spread),
        measurement=TABLE_9,
        read=selected("test_accuracy", setting=setting, model="moe-linear"),
        rule=Rule(agrees=near(value, spread), in_kind=(low, high)),
        reason=f"{_WEIGHT}: {_BY_SEED[setting]} at seeds 0 to 2",
    )


_WEIGHT = (
    "the weight of the loss is not published for these data, and decides: that of the paper's images, .001, leaves .98 "
    "in setting 3, and .1 leaves .78; our two trainings share a data set"
)
_BY_SEED = {
    1: "linear experts have .964, .967 and .960, where .966 is the limit,",
    2: "linear experts have .927, .926 and .922",
    3: "linear experts have .982, .978 and .987",
    4: "linear experts have .948, .937 and .934",
}

_ALONE = float(published("table 6")["test_accuracy"])
_OF_NONLINEAR = float(published("table 5")["test_accuracy"])
_SPREAD = float(published("table 1")["test_accuracy_std"].sel(setting=1, model="moe-linear"))

CLAIMS: tuple[Claim, ...] = (
    *(_balanced(setting) for setting in SETTINGS),
    Claim(
        id="chen2022/table6/accuracy",
        where="table 6, caption",
        statement=f"The accuracy of linear experts under such a dispatch is lower, at {100 * _ALONE:.2f} %",
        published=Published(value=_ALONE, relation="one training in setting 1"),
        measurement=TABLE_6,
        read=lambda data: data["trial_accuracy"],
        rule=Rule(agrees=near(_ALONE, _SPREAD), in_kind=(_ALONE - _SPREAD, nearer(_ALONE, _OF_NONLINEAR))),
        reason="the table shows one training, which is more than a published deviation below the mean of table 1, "
        ".930; ours are near that mean: .940, .928 and .941 at seeds 0 to 2",
    ),
    Claim(
        id="chen2022/section1/linear-represents",
        where="section 1, with figure 1",
        statement="A mixture of linear experts can represent the labels of figure 1's data with 100 % accuracy: the "
        "one whose filters are the label signals and whose routers are the cluster centers",
        published=Published(value=1.0),
        measurement=REPRESENTED,
        read=selected("test_accuracy", setting=FIGURE_1),
        rule=Rule(agrees=share_from(0.999)),
    ),
    Claim(
        id="chen2022/section1/linear-represents-all-settings",
        where="section 1 and appendix A.2",
        statement="The same mixture represents the labels of settings 1 to 4 with 100 % accuracy",
        published=Published(value=1.0, relation="of 'this data distribution'"),
        measurement=REPRESENTED,
        read=lambda data: data["test_accuracy"].sel(setting=[str(setting) for setting in SETTINGS]).min("setting"),
        rule=Rule(agrees=share_from(0.999), in_kind=share_from(0.99)),
        reason="In settings 2 and 4 the random noise, with sigma_p = 2, changes the sign of an answer or the choice of "
        "an expert in one of 200 samples; with sigma_p = 1 in none of thousands",
    ),
    Claim(
        id="chen2022/theorem4.1/ensemble",
        where="section 4, below theorem 4.1",
        statement="An ensemble of single experts, too, errs on an eighth at least, with 4 and with 16 of them, where "
        "each errs on more by itself",
        published=Published(value=0.125, bound="at least", relation="an ensemble still has the theorem's form"),
        measurement=ENSEMBLES,
        read=lambda data: data["ensemble"].min("size"),
        rule=Rule(agrees=at_least(0.125 - ROUNDING), of="lowest"),
    ),
)
