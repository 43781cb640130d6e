"""The claims of pmoe2023's theorems 4.2 and 4.3 about the powers of p and 1 / epsilon in the samples needed.

N grows as p^a / epsilon^b where the error of N samples is a constant times (p^a / N)^(1 / b), which is fitted to the
mean error over trials at several p and N. Joint training has no claim: at N = 400 it errs on no test sample in some
sets of trials, so that its power is not settled.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from moe_lab_papers.paper import Paper, budgets, says
from moe_lab_papers.pmoe2023 import measures
from moe_lab_papers.readers import reader

paper = Paper("pmoe2023")

by_size = paper.measure(
    "theorems-by-p-and-error",
    measures.error_by_size,
    seconds=(6, 60),
    pattern_sets=budgets((16, 256), (16, 64, 256)),
    samples=budgets((100, 400), (100, 200, 400)),
    trials=budgets(8, 30),
    test_samples=2000,
)


def _powers(data: xr.Dataset, model: str) -> tuple[float, float]:
    """(a, b) of N = p^a / epsilon^b, by least squares of log error against log N and log p."""
    errors = data["test_error"].sel(model=model).mean("trial").transpose("pattern_sets", "samples")
    p, n = np.meshgrid(np.log(errors["pattern_sets"]), np.log(errors["samples"]), indexing="ij")
    columns = np.stack([np.ones(errors.size), p.ravel(), n.ravel()], axis=1)
    _, of_p, of_n = np.linalg.lstsq(columns, np.log(errors.values.ravel()), rcond=None)[0]
    return float(-of_p / of_n), float(-1 / of_n)


@reader
def power_of_p(data: xr.Dataset, model: str) -> float:
    """Returns the power of p with which the number of samples for a given error grows."""
    return _powers(data, model)[0]


@reader
def power_of_error(data: xr.Dataset, model: str) -> float:
    """Returns the power of 1 / epsilon with which the number of samples for an error epsilon grows."""
    return _powers(data, model)[1]


for theorem, model, whose in (
    ("4.2", "separate", "separate training needs"),
    ("4.3", "cnn", "the CNN needs"),
):
    by_size.claim(
        f"theorem{theorem}/power-of-p",
        f"the samples that {whose} grow with the number of pattern sets, as a power of p of at most 12",
        power_of_p(model),
        says(12, "power of p", bound="at most").in_kind((0.1, 12)),
        "a power of 12 suffices for the proof; on these patterns far smaller ones do, and nothing tells 12 from 1",
        where=f"theorem {theorem}",
        unit="power of p",
    )
    by_size.claim(
        f"theorem{theorem}/power-of-error",
        f"the samples that {whose} grow as the error falls, as a power of 1 / epsilon of at most 16",
        power_of_error(model),
        says(16, "power of 1 / epsilon", bound="at most").in_kind((0.1, 16)),
        "a power of 16 suffices for the proof; on these patterns far smaller ones do, and nothing tells 16 from 1",
        where=f"theorem {theorem}",
        unit="power of 1 / epsilon",
    )
