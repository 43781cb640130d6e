"""The claims of gridlock2019, "Breaking the gridlock in Mixture-of-Experts"."""

from __future__ import annotations

import xarray as xr

from moe_lab.recovery.published import published
from moe_lab.reproduce.claim import Claim, Erratum, Measurement, Published, Rule, near

_FIGURES = "moe_lab.recovery.figures"
_PICTURE = "moe_lab.recovery.plots:picture"

TABLE_2 = Measurement(
    "gridlock2019/table2",
    f"{_FIGURES}:table2",
    quick={"trials": 10, "gating": ("orthogonal", "random")},
    full={"trials": 40, "gating": ("orthogonal", "random")},
    seconds=(6, 24),
    split=("gating", "gating"),
    device=True,
    picture=_PICTURE,
    sees="Regressor and gating fits of table 2: each mark is a trial, open stars are published.",
)


def _table_2(gating: str, name: str, method: str, words: str) -> Claim:
    theirs = published("table 2").sel(gating=gating)
    value, spread = float(theirs[name]), float(theirs[f"{name}_std"])

    def read(data: xr.Dataset) -> xr.DataArray:
        return data[name].sel({"gating": gating, "method": method})

    return Claim(
        f"gridlock2019/table2/{gating}-{method}-{name.replace('_', '-')}",
        f"table 2, {gating} gates",
        f"{words} at n = 2000",
        Published(value, spread),
        TABLE_2,
        read,
        Rule(near(value, 2 * spread)),
    )


CLAIMS: tuple[Claim, ...] = tuple(
    _table_2(gating, name, "orth-als", words)
    for gating in ("orthogonal", "random")
    for name, words in (
        ("regressor_fit", "Orth-ALS on the full tensor finds the regressors"),
        ("gating_fit", "EM of the gates with these regressors finds the gates"),
    )
)
ERRATA: tuple[Erratum, ...] = ()
