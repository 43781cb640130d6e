"""The claims of gridlock2019's tables 1 and 2."""

from __future__ import annotations

from functools import partial

import numpy as np
import xarray as xr

from moe_lab.recovery.gridlock.published import published
from moe_lab_papers.claim import Claim, Measurement, Published, Rule, near, share_from
from moe_lab_papers.gridlock2019.sources import FIGURES, PICTURE

_SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
_MEASURED = {"regressor_fit": "finds the regressors", "gating_fit": "and EM of the gates finds the gates"}

TABLE_1 = Measurement(
    name="gridlock2019/table1",
    function=f"{FIGURES}:table1",
    quick={"trials": 200, "first_share": _SHARES, "methods": ("orth-als",)},
    full={"trials": 800, "first_share": _SHARES, "methods": ("orth-als",)},
    seconds=(27, 123),
    split=("first_share", "first_share"),
    device=True,
    picture=PICTURE,
    sees="Regressor and gating fits of table 1 by Orth-ALS: most trials lie near the published means, and some far "
    "below pull the measured means down.",
)
TABLE_2 = Measurement(
    name="gridlock2019/table2",
    function=f"{FIGURES}:table2",
    quick={"trials": 120, "gating": ("orthogonal", "random"), "methods": ("orth-als",)},
    full={"trials": 600, "gating": ("orthogonal", "random"), "methods": ("orth-als",)},
    seconds=(6, 47),
    split=("gating", "gating"),
    device=True,
    picture=PICTURE,
    sees="Regressor and gating fits of table 2: each mark is a trial, open stars are published.",
)


def _cell(place: str, axis: str, at: float | str, name: str) -> Claim:
    """Orth-ALS and EM of the gates in a cell of a table: the published mean, within one published deviation."""
    theirs = published(place).sel({axis: at})
    value, spread = float(theirs[name]), float(theirs[f"{name}_std"])
    short = place.replace(" ", "")
    where = f"p = {at:g}" if isinstance(at, float) else at
    setting = f"inputs of which a share p={at:g} is from the first Gaussian" if axis == "first_share" else f"{at} gates"

    def read(data: xr.Dataset) -> xr.DataArray:
        return data[name].sel({axis: at, "algorithm": "orth-als"})

    return Claim(
        id=f"gridlock2019/{short}/{where.replace(' = ', '')}-{name.replace('_', '-')}",
        where=f"{place}, {where}",
        statement=f"Orth-ALS on the full tensor {_MEASURED[name]}, with {setting} (n = 2000)",
        published=Published(value=value, spread=spread),
        measurement=TABLE_1 if place == "table 1" else TABLE_2,
        read=read,
        rule=Rule(agrees=near(value, spread)),
        reason="" if place == "table 2" else _TAILS + (f"; {_EDGE[name]}" if at == 0.7 else ""),
    )


_TAILS = (
    "Single trials whose third moment has an outlier end as low as .5 and pull the mean below the published one, whose "
    "printed spread is a fifth of what 300 trials have; the median trial has .92 (regressors) and .96 (gates)"
)


_EDGE = {
    "regressor_fit": "this cell is at the lower edge of the published range, .90: .898, .891 and .903 at seeds 0 to 2",
    "gating_fit": "this cell is at the lower edge of the published range, .93: .935, .918 and .922 at seeds 0 to 2",
}


def _row(name: str) -> Claim:
    """All of a row of table 1: the mean over p, within the mean published deviation."""
    theirs = published("table 1")
    value, spread = float(theirs[name].mean()), float(theirs[f"{name}_std"].mean())

    def read(data: xr.Dataset) -> xr.DataArray:
        return data[name].sel(algorithm="orth-als").mean("first_share")

    return Claim(
        id=f"gridlock2019/table1/all-p-{name.replace('_', '-')}",
        where="table 1",
        statement=f"Orth-ALS on the full tensor {_MEASURED[name]} for inputs from two Gaussians, on the mean of all p",
        published=Published(value=value, spread=spread, relation="mean of the row"),
        measurement=TABLE_1,
        read=read,
        rule=Rule(agrees=near(value, spread)),
    )


def _same_in_both(data: xr.Dataset) -> xr.DataArray:
    fit = data["regressor_fit"].sel(algorithm="orth-als")
    return fit.sel(gating="orthogonal") - fit.sel(gating="random")


def _least_of_both(data: xr.Dataset) -> np.ndarray:
    fits = data[["regressor_fit", "gating_fit"]].sel(algorithm="orth-als").to_dataarray()
    return np.atleast_1d(fits.mean("trial").values.min())


_table_2 = partial(Claim, where="section 4.2", measurement=TABLE_2)
CLAIMS: tuple[Claim, ...] = (
    *(_cell(place="table 1", axis="first_share", at=p, name=name) for name in _MEASURED for p in _SHARES),
    *(_row(name) for name in _MEASURED),
    *(
        _cell(place="table 2", axis="gating", at=gating, name=name)
        for gating in ("orthogonal", "random")
        for name in _MEASURED
    ),
    _table_2(
        id="gridlock2019/table2/same-in-both-settings",
        statement="The regressors are found almost as well where gates are not orthogonal to them",
        published=Published(value=0.03, relation="difference of the two fits, orthogonal less random"),
        read=_same_in_both,
        rule=Rule(agrees=near(0.0, 0.03)),
    ),
    _table_2(
        id="gridlock2019/table2/above-0.9",
        statement="Regressor and gating fit are greater than .9 on average in both settings",
        published=Published(value=0.9, bound="at least"),
        read=_least_of_both,
        rule=Rule(agrees=share_from(0.9)),
    ),
)
