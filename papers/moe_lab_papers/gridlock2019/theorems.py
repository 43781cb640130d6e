"""The claims of gridlock2019's theorems 1, 2 and 3, and of its equation 3."""

from __future__ import annotations

import xarray as xr

from moe_lab.recovery.gridlock.gate_figures import gates_by_moments
from moe_lab_papers import recovery_measures as shared
from moe_lab_papers.gridlock2019 import measures
from moe_lab_papers.paper import Paper, budgets, says
from moe_lab_papers.ranges import at_least, plus_minus, share_from, up_to
from moe_lab_papers.readers import at, reader

paper = Paper("gridlock2019", picture="moe_lab.recovery.gridlock.plots:picture")

conditions = paper.measure("conditions", shared.stein_conditions, seconds=(0.2, 0.2))
conditions.claim(
    "theorem1/conditions",
    "P2 and P3 with vanishing E[S'] and E[S''] exist for linear, ReLU, leaky ReLU, sigmoid and tanh experts",
    at("residual", polynomial=["P2", "P3"], highest=("polynomial", "noise")),
    says(0.0, "to rounding").follows(up_to(1e-10), of="highest"),
    where="appendix C, conditions 1 and 2",
)

third = paper.measure(
    "theorem1-tensor",
    shared.third_moment,
    seconds=(5, 46),
    unit="squared standard errors",
    trials=budgets(12, 60),
    samples=budgets(full=400_000),
)


@reader
def median_square(data: xr.Dataset, label: str, *activations: str) -> xr.DataArray:
    """Reads the median over activations and directions of z^2, which is .45 where the theorem holds."""
    z = data["z"].sel(label=label, activation=list(activations))
    return (z**2).median(("activation", "direction"))


third.claim(
    "theorem1/tensor",
    "T3 of P3(y) is c sum E[p_i] a_i a_i a_i for linear, ReLU and sigmoid experts (k = 3), within sampling error",
    median_square("P3(y)", "identity", "relu", "sigmoid"),
    says(0.455, "median of chi-squared, where it is so").agrees(
        plus_minus(0.25)  # three standard errors of 12 trials, each a median of 24 squares
    ),
)
third.claim(
    "eq3/gates-come-in",
    "The same tensor of y itself is no sum over regressors alone: it depends on the gates",
    median_square("y", "identity", "relu"),
    says("beyond sampling error").in_kind(at_least(1.0)),
    "the paper has no number for how much it depends on them",
    where="section 2, eq. 3",
)

gates = paper.measure(
    "theorem2-gates",
    measures.gates_from_anywhere,
    seconds=(3, 60),
    trials=budgets(4, 12),
    samples=budgets(5000, 20_000),
)


@reader
def factor_by_noise(data: xr.Dataset) -> xr.DataArray:
    """Returns the largest of the contractions at one sigma over that at the next."""
    return (data["contraction"] / data["contraction"].shift(noise=-1)).max("noise")


for sigma in (0.1, 0.5):
    gates.claim(
        f"theorem2/contraction-{sigma:g}",
        "With the true regressors EM of the gates contracts the distance to its end, at every iteration from a random "
        f"initialization and for the worst trial (k = 3, sigma = {sigma:g})",
        at("contraction", noise=sigma),
        says(1.0, bound="less than").agrees(up_to(0.99), of="highest"),
    )
gates.claim(
    "theorem2/faster-with-less-noise",
    "The contraction factor of EM goes to 0 with sigma: it falls as sigma decreases from .5 to .1 to .05",
    factor_by_noise(),
    says(1.0, "each factor over the one before", bound="less than").agrees(up_to(0.9), of="highest"),
)
gates.claim(
    "theorem2/from-anywhere",
    "EM of the gates ends at the same gates from two random initializations",
    at("apart", noise=0.1),
    says(0.0, "distance of the ends").agrees(up_to(1e-6), of="highest"),
)

moment = paper.measure("theorem3-moment", measures.gate_moment, seconds=(1, 4), trials=budgets(8, 40))
moment.claim(
    "theorem3/constant",
    "The moment of 1{Ratio <= 1/2} with x is alpha w, with the alpha of the theorem (sigma = .1)",
    at("ratio", noise=0.1),
    says(1.0, "measured over stated").agrees(plus_minus(0.03)),
)
moment.claim(
    "theorem3/normalised-moment",
    "The moment of 1{Ratio <= 1/2} with x, normalised, is the gate w",
    at("cosine", noise=0.1),
    says(1.0, "cosine").agrees(plus_minus(0.01)),
    "The alpha of theorem 3 is negative, because Phi is more than 1/2: the moment points along -w, exactly",
    where="appendix D.4, last display",
)
by_moments = paper.measure(
    "theorem3-gates",
    gates_by_moments,
    seconds=(4, 20),
    sees="How far the gate is off, by one moment and by EM, at 2000 and 20,000 samples: both work, EM is better.",
    trials=budgets(20, 100),
    methods=("moments", "spectral"),
)
by_moments.claim(
    "theorem3/gates-by-moments",
    "One moment finds the direction of the gate of two experts (true regressors, n = 20,000, sign turned)",
    at("gating_fit", algorithm="moments", regressors="true", gating="orthogonal", samples=20000),
    says(1.0, "cosine, in the limit").agrees(share_from(0.99)),
)
