"""The claims of gridlock2019 about its transforms of y, of which there are others, and about how many experts it finds.

Theorem 1 asks for gates that are orthogonal to all regressors: k and k - 1 directions, which fit where 2k - 1 <= d.
"""

from __future__ import annotations

import xarray as xr

from moe_lab_papers.gridlock2019 import regressor_measures as measures
from moe_lab_papers.paper import Paper, budgets, says
from moe_lab_papers.ranges import at_least, plus_minus, share_from
from moe_lab_papers.readers import at, reader

paper = Paper("gridlock2019")


@reader
def most_free(data: xr.Dataset) -> list[xr.DataArray]:
    """Returns how many coefficients of P2 and of P3 are left free, of the kind of expert that leaves most."""
    return [data["free"].sel(polynomial=f"P{m}", degree=m).max() for m in (2, 3)]


free = paper.measure("free-coefficients", measures.free_coefficients, seconds=(0.1, 0.1))
free.claim(
    "section3.1/unique-cubic",
    "The conditions determine every coefficient of the quadratic P2 and of the cubic P3, for linear, ReLU, leaky ReLU, "
    "sigmoid and tanh experts",
    most_free(),
    says(0.0, "coefficients are left free: the choice is unique").follows(plus_minus(0.1), of="highest"),
    where="section 3.1 and appendix C",
)


@reader
def median_square(data: xr.Dataset) -> xr.DataArray:
    """Returns the median over directions of z^2, which is .45 where the tensor is that of the regressors."""
    return (data["z"] ** 2).median("direction")


quartic = paper.measure("quartic-moment", measures.quartic_moment, seconds=(1, 5), trials=budgets(8, 40))
quartic.claim(
    "section3.1/other-polynomials",
    "Any other polynomial of y fails to yield the tensor of the regressors alone: so does one of degree 4, with linear "
    "experts",
    median_square(),
    says("beyond sampling error: two standard errors or more").in_kind(at_least(4.0)),
    "Only the cubic is unique. A quartic has one coefficient more and no condition more, so that one is left free: its "
    "tensor is c sum E[p_i] a_i a_i a_i within sampling error, and noisier than the cubic's",
    where="section 3.1, below algorithm 1",
    unit="squared standard errors",
)

fewest = paper.measure(
    "fewest-dimensions",
    measures.fewest_dimensions,
    seconds=(1.5, 30),
    experts=budgets((2, 3, 4), (2, 3, 4, 5)),
    trials=budgets(4, 20),
    samples=budgets(20_000, 40_000),
)
fewest.claim(
    "section1/as-many-experts",
    "As long as 2k - 1 < d the spectral initialization and EM find all regressors, whatever the trial (d = 2k, sigma = "
    ".1)",
    at("regressor_fit", lowest="k"),
    says(1.0, "global convergence: a fit of 1 in the limit of many samples").agrees(share_from(0.999), of="lowest"),
    where="section 1.1, related work",
)
