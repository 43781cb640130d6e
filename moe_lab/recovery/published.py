"""What gridlock2019 publishes in its tables, as labelled data to lay beside what is measured, and what replicates.

Its figures are curves without numbers; of figure 6 not even the axis can be read from the text.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from moe_lab.config import require

PLACES = ("table 1", "table 2")

_TABLE_1 = {  # p -> mean and spread
    0.1: ((0.93, 0.06), (0.90, 0.10)),
    0.3: ((0.94, 0.02), (0.97, 0.01)),
    0.5: ((0.92, 0.04), (0.93, 0.04)),
    0.7: ((0.92, 0.02), (0.96, 0.03)),
    0.9: ((0.91, 0.06), (0.97, 0.01)),
}
_TABLE_2 = {"orthogonal": ((0.93, 0.03), (0.96, 0.03)), "random": ((0.90, 0.08), (0.96, 0.02))}
_NAMES = ("regressor_fit", "gating_fit")


def published(place: str) -> xr.Dataset:
    """What the paper publishes in one of its tables.

    Args:
      place: "table 1" or "table 2".

    Returns:
      regressor_fit and gating_fit and the `_std` of each, over first_share (table 1) or gating (table 2).

    Raises:
      ValueError: there is no such table.
    """
    require(place in PLACES, f"place must be one of {', '.join(PLACES)}", place=place)
    across, rows = ("first_share", _TABLE_1) if place == "table 1" else ("gating", _TABLE_2)
    values = np.array(list(rows.values()))  # (row, measure, mean or spread)
    data = xr.Dataset(coords={across: list(rows)}, attrs={"paper": f"gridlock2019, {place}"})
    for number, name in enumerate(_NAMES):
        data[name] = across, values[:, number, 0]
        data[f"{name}_std"] = across, values[:, number, 1]
    return data


REPLICATION: dict[str, str] = {}
