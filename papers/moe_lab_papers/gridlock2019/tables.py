"""The claims of gridlock2019's tables 1 and 2.

In a cell the mean over trials is within one published deviation of the published mean.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from moe_lab.recovery.gridlock import figures
from moe_lab.recovery.gridlock.published import published
from moe_lab_papers.paper import Judged, Paper, budgets, says
from moe_lab_papers.ranges import near, plus_minus, share_from
from moe_lab_papers.readers import at, difference, reader

paper = Paper("gridlock2019", picture="moe_lab.recovery.gridlock.plots:picture")

_SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
_GATING = ("orthogonal", "random")
_MEASURED = {"regressor_fit": "finds the regressors", "gating_fit": "and EM of the gates finds the gates"}
_TAILS = (
    "Single trials whose third moment has an outlier end as low as .5 and pull the mean below the published one, whose "
    "printed spread is a fifth of what 300 trials have; the median trial has .92 (regressors) and .96 (gates)"
)
_EDGE = {
    "regressor_fit": "this cell is at the lower edge of the published range, .90: .898, .891 and .903 at seeds 0 to 2",
    "gating_fit": "this cell is at the lower edge of the published range, .93: .935, .918 and .922 at seeds 0 to 2",
}


def _mean_of(theirs: xr.Dataset, name: str, relation: str = "") -> Judged:
    """The published mean, of cells of a table, within one published deviation."""
    value, spread = float(theirs[name].mean()), float(theirs[f"{name}_std"].mean())
    return says(value, relation, spread=spread).agrees(plus_minus(spread))


table_1 = paper.measure(
    "table1",
    figures.table1,
    seconds=(27, 123),
    split="first_share",
    sees="Regressor and gating fits of table 1 by Orth-ALS: most trials lie near the published means, and some far "
    "below pull the measured means down.",
    trials=budgets(200, 800),
    first_share=_SHARES,
    methods=("orth-als",),
)
for name, words in _MEASURED.items():
    for p in _SHARES:
        table_1.claim(
            f"table1/p{p:g}-{name.replace('_', '-')}",
            f"Orth-ALS on the full tensor {words}, with inputs of which a share p={p:g} is from the first Gaussian "
            "(n = 2000)",
            at(name, first_share=p, algorithm="orth-als"),
            _mean_of(published("table 1").sel(first_share=p), name),
            f"{_TAILS}; {_EDGE[name]}" if p == 0.7 else _TAILS,
            where=f"table 1, p = {p:g}",
        )
for name, words in _MEASURED.items():
    table_1.claim(
        f"table1/all-p-{name.replace('_', '-')}",
        f"Orth-ALS on the full tensor {words} for inputs from two Gaussians, on the mean of all p",
        at(name, algorithm="orth-als", mean="first_share"),
        _mean_of(published("table 1"), name, "mean of the row"),
    )

table_2 = paper.measure(
    "table2",
    figures.table2,
    seconds=(6, 47),
    split="gating",
    sees="Regressor and gating fits of table 2: each mark is a trial, open stars are published.",
    trials=budgets(120, 600),
    gating=_GATING,
    methods=("orth-als",),
)
for gating in _GATING:
    for name, words in _MEASURED.items():
        table_2.claim(
            f"table2/{gating}-{name.replace('_', '-')}",
            f"Orth-ALS on the full tensor {words}, with {gating} gates (n = 2000)",
            at(name, gating=gating, algorithm="orth-als"),
            _mean_of(published("table 2").sel(gating=gating), name),
            where=f"table 2, {gating}",
        )


@reader
def least_of_both(data: xr.Dataset) -> np.ndarray:
    """Returns the lower of the two mean fits, in the setting where it is lower."""
    fits = data[["regressor_fit", "gating_fit"]].sel(algorithm="orth-als").to_dataarray()
    return np.atleast_1d(fits.mean("trial").values.min())


table_2.claim(
    "table2/same-in-both-settings",
    "The regressors are found almost as well where gates are not orthogonal to them",
    difference("regressor_fit", algorithm="orth-als", gating=_GATING),
    says(0.03, "difference of the two fits, orthogonal less random").agrees(near(0.0, 0.03)),
    where="section 4.2",
)
table_2.claim(
    "table2/above-0.9",
    "Regressor and gating fit are greater than .9 on average in both settings",
    least_of_both(),
    says(0.9, bound="at least").agrees(share_from),
    where="section 4.2",
)
