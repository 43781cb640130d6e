"""The claims of gridlock2019's theorem 2 about the constant kappa for more than two experts and for nonlinear ones."""

from __future__ import annotations

import xarray as xr

from moe_lab_papers.gridlock2019.gate_measures import one_m_step
from moe_lab_papers.paper import Paper, budgets, says
from moe_lab_papers.ranges import plus_minus, up_to
from moe_lab_papers.readers import at, reader

paper = Paper("gridlock2019")

m_step = paper.measure(
    "one-m-step",
    one_m_step,
    seconds=(3.5, 70),
    experts=(3, 4),
    activations=("identity", "relu", "sigmoid"),
    dimensions=(8, 32),
    trials=budgets(2, 12),
    samples=budgets(4000, 20_000),
)


@reader
def moved_by_dimension(data: xr.Dataset) -> xr.DataArray:
    """Returns the distance at d = 32 over that at d = 8, on the mean over experts and activations."""
    return (data["moved"].sel(dimension=32) / data["moved"].sel(dimension=8)).mean(("experts", "activation"))


m_step.claim(
    "theorem2/kappa",
    "An M-step with regressors off by sigma^2 eps is at most kappa eps away from one with the true ones, with kappa = "
    "(k - 1) sqrt(6 (2 + sigma^2)) / 2, for 3 and 4 linear, ReLU and sigmoid experts",
    at("over_kappa", highest=("experts", "activation", "dimension")),
    says(1.0, "of kappa eps", bound="at most").agrees(up_to, of="highest"),
    where="theorem 2 and appendix E",
)
m_step.claim(
    "theorem2/kappa-by-dimension",
    "That distance does not depend on the dimension of the inputs, measured at d = 32 and d = 8",
    moved_by_dimension(),
    says(1.0, "ratio of the distances: a dimension-independent constant").agrees(
        plus_minus(0.25)  # a distance that grows as sqrt(d) would double
    ),
)
