"""The claims of chen2022 about linear experts: what they can represent, and reach with a balancing loss or in table 6.

And that an ensemble does not help single experts, which theorem 4.1 bounds in the same way.
"""

from __future__ import annotations

from moe_lab.specialization.published import published
from moe_lab_papers.chen2022 import linear_measures as measures
from moe_lab_papers.chen2022 import tables
from moe_lab_papers.chen2022.mixtures import SETTINGS
from moe_lab_papers.paper import Paper, budgets, says
from moe_lab_papers.ranges import ROUNDING, at_least, nearer, plus_minus, share_from
from moe_lab_papers.readers import at

paper = Paper("chen2022")

table_9, table_6 = paper.again(tables.table_9), paper.again(tables.table_6)

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
for setting in SETTINGS:
    theirs = published("table 9").sel(setting=setting, model="moe-linear")
    value, spread = float(theirs["test_accuracy"]), float(theirs["test_accuracy_std"])
    beside = published("table 3")["test_accuracy"].sel(setting=setting)
    low, high = (nearer(value, float(beside.sel(model=model))) for model in ("single-linear", "moe-cubic"))
    table_9.claim(
        f"table9/setting{setting}-linear",
        f"With the load-balancing loss eight linear experts reach only {100 * value:.2f} % of the test samples in "
        f"setting {setting}",
        at("test_accuracy", setting=setting, model="moe-linear"),
        says(value, spread=spread).agrees(plus_minus(spread), in_kind=(low, high)),  # nearer than to other models
        f"{_WEIGHT}: {_BY_SEED[setting]} at seeds 0 to 2",
        where=f"table 9, setting {setting}",
    )

_ALONE = float(published("table 6")["test_accuracy"])
_OF_NONLINEAR = float(published("table 5")["test_accuracy"])
_SPREAD = float(published("table 1")["test_accuracy_std"].sel(setting=1, model="moe-linear"))
table_6.claim(
    "table6/accuracy",
    f"The accuracy of linear experts under such a dispatch is lower, at {100 * _ALONE:.2f} %",
    at("test_accuracy"),
    says(_ALONE, "one training in setting 1").agrees(
        plus_minus(_SPREAD), in_kind=(_ALONE - _SPREAD, nearer(_ALONE, _OF_NONLINEAR))
    ),
    "the table shows one training, which is more than a published deviation below the mean of table 1, .930; ours are "
    "near that mean: .940, .928 and .941 at seeds 0 to 2",
    where="table 6, caption",
)

represented = paper.measure(
    "linear-mixture",
    measures.linear_mixture,
    seconds=(0.5, 6),
    settings=(measures.FIGURE_1, *SETTINGS),
    trials=budgets(4, 20),
    samples=budgets(4000, 16_000),
)
represented.claim(
    "section1/linear-represents",
    "A mixture of linear experts can represent the labels of figure 1's data with 100 % accuracy: the one whose "
    "filters are the label signals and whose routers are the cluster centers",
    at("test_accuracy", setting=measures.FIGURE_1),
    says(1.0).agrees(share_from(0.999)),
    where="section 1, with figure 1",
)
represented.claim(
    "section1/linear-represents-all-settings",
    "The same mixture represents the labels of settings 1 to 4 with 100 % accuracy",
    at("test_accuracy", setting=[str(setting) for setting in SETTINGS], lowest="setting"),
    says(1.0, "of 'this data distribution'").agrees(share_from(0.999), in_kind=share_from(0.99)),
    "In settings 2 and 4 the random noise, with sigma_p = 2, changes the sign of an answer or the choice of an expert "
    "in one of 200 samples; with sigma_p = 1 in none of thousands",
    where="section 1 and appendix A.2",
)

ensembles = paper.measure(
    "ensembles",
    measures.ensembles,
    seconds=(1, 40),
    sizes=budgets((1, 4, 16), (1, 4, 16, 64)),
    trials=budgets(6, 40),
    samples=budgets(200, 500),
)
ensembles.claim(
    "theorem4.1/ensemble",
    "An ensemble of single experts, too, errs on an eighth at least, with 4 and with 16 of them, where each errs on "
    "more by itself",
    at("ensemble", lowest="size"),
    says(0.125, "an ensemble still has the theorem's form", bound="at least").agrees(
        at_least(0.125 - ROUNDING), of="lowest"
    ),
    where="section 4, below theorem 4.1",
)
