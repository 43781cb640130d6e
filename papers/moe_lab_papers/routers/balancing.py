"""What five papers state about uneven load, its cures and the division into experts, on clusters.

The mixture that collapses is that of notebook 10: eight linear experts, and a router that begins by preferring the
first. The one that does not has four cubic experts for four clusters, each of them three times as frequent as the next.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from moe_lab.specialization import ClusterTask, TopKMoE, balancing
from moe_lab_papers.paper import Paper, budgets, says
from moe_lab_papers.ranges import ROUNDING, Range, at_least
from moe_lab_papers.readers import at, reader
from moe_lab_papers.routers import measures

paper = Paper("routers")

_EXPERTS = 8
_SCALE = "clusters and a mixture of small experts in the place of the paper's language models"
BETTER: Range = at_least(0.01)
"""A share of right answers is larger if it is by a point: what the trials here tell from nothing."""

free = paper.measure(
    "no-lead",
    balancing.balancing,
    seconds=(1, 4),
    device=False,
    trials=budgets(12, 40),
    samples=1000,
    kinds=("none",),
    strengths=(0.1,),
    model=TopKMoE(activation="linear"),
)
collapse = paper.measure(
    "collapse",
    balancing.balancing,
    seconds=(9, 26),
    device=False,
    trials=budgets(8, 24),
    samples=1000,
    kinds=("none", "switch", "importance", "bias"),
    strengths=(0.01, 0.1, 1.0),
    model=balancing.COLLAPSING,
)
unequal = paper.measure(
    "unequal",
    balancing.balancing,
    seconds=(6, 20),
    device=False,
    trials=budgets(6, 20),
    samples=1000,
    kinds=("none", "importance", "z-loss"),
    strengths=(0.001, 0.1),
    model=TopKMoE(experts=4),
    task=ClusterTask(imbalance=3.0),
)


@reader
def experts_worth(data: xr.Dataset) -> Any:
    """Returns the number of equally loaded experts with the same entropy of the load."""
    return xr.apply_ufunc(np.exp, data["load_entropy"].squeeze(("balancing", "strength"), drop=True))


@reader
def gain(data: xr.Dataset, kind: str, strength: float) -> xr.DataArray:
    """Returns the accuracy less that without balancing."""
    right = data["test_accuracy"].sel(strength=strength)
    return right.sel(balancing=kind) - right.sel(balancing="none")


free.claim(
    "shazeer2017/few-experts",
    "Without a loss on it, a router that starts from zero comes to favour the same few experts: at most half of eight, "
    "by the entropy of the load",
    experts_worth(),
    says("converges to large weights for the same few experts").in_kind((1.0, _EXPERTS / 2), of="median"),
    not_comparable=f"{_SCALE}; experts are linear: cubic ones share the clusters among them, and four to five are used",
    where="Shazeer et al. 2017, section 4",
    unit="experts",
)
collapse.claim(
    "shazeer2017/no-loss-much-worse",
    "A collapsed mixture has much fewer right, five points or more, than with the importance loss at .1",
    gain("importance", 0.1),
    says("perplexity 39.8 without a loss, 35.6 to 35.7 with one").in_kind(at_least(0.05), of="median"),
    not_comparable=_SCALE,
    where="Shazeer et al. 2017, appendix A, table 6",
)
unequal.claim(
    "shazeer2017/no-loss-much-worse-unequal",
    "A mixture that does not collapse, on clusters of unequal frequency, has fewer right, by a point or more, than "
    "with that loss",
    gain("importance", 0.1),
    says("having no loss was much worse").in_kind(BETTER),
    not_comparable=f"{_SCALE}: the right load is as uneven as the clusters; with an even one, experts of rare clusters "
    "take samples of the common one. The loss costs one to three points, at eight seeds",
    where="Shazeer et al. 2017, appendix A, table 6",
)

least = paper.measure(
    "least-loss", measures.least_switch_loss, seconds=(0.1, 1), trials=budgets(5, 20), tries=budgets(2000, 20000)
)
least.claim(
    "switch2021/uniform-is-least",
    "The auxiliary loss M sum f P is least under a uniform load, where it is 1; measured is the least value over "
    "random gates",
    at("least"),
    says(1.0, bound="at least").agrees(at_least(1 - ROUNDING), of="lowest"),
    "f and P are different numbers: whoever gets four samples of six narrowly, and of the other two nearly nothing, "
    "has the smaller mean gate. The loss is below 1 at an uneven load",
    where="Fedus et al. 2021, section 2.2, below eq. 6",
)


@reader
def largest_load(data: xr.Dataset, kind: str, strength: float) -> xr.DataArray:
    """Returns the largest load over the mean load."""
    return 1 + data["maximal_violation"].sel(balancing=kind, strength=strength)


collapse.claim(
    "switch2021/published-weight",
    "A weight of .01 balances the load of the collapsing mixture: no expert gets more than twice the mean, which is "
    "what a capacity factor of 2 serves",
    largest_load("switch", 0.01),
    says("balanced load quickly without interfering with the training loss").in_kind((1.0, 2.0), of="median"),
    not_comparable=f"{_SCALE}: 300 steps at .01 do not make up for a lead of 4 in the scores; at .1 the largest load "
    "is 1.1 to 1.4 times the mean. A weight fits a router's learning rate and the size of the task's loss",
    where="Fedus et al. 2021, section 2.2",
    unit="times the mean load",
)
unequal.claim(
    "stmoe2022/no-loss-of-quality",
    "At the published weight, .001, the z-loss costs no quality: half a point at most of the right answers",
    gain("z-loss", 0.001),
    says("more stable, and no quality is lost").in_kind(at_least(-0.005)),
    not_comparable=f"{_SCALE}; at .1 and this router's learning rate of 10 it costs points",
    where="Zoph et al. 2022, section on the router z-loss, eq. 5",
)


def _at_best(data: xr.Dataset, kind: str) -> xr.Dataset:
    """A way to balance at the strength at which the median trial has most right."""
    one = data.sel(balancing=kind)
    return one.sel(strength=one["test_accuracy"].median("trial").idxmax("strength"))


@reader
def violation_of_bias(data: xr.Dataset) -> float:
    """Returns the median violation under the bias over that under the Switch loss."""
    bias, switch = (_at_best(data, kind)["maximal_violation"].median("trial") for kind in ("bias", "switch"))
    return float(bias / switch)


@reader
def lead_of_bias(data: xr.Dataset) -> xr.DataArray:
    """Returns the accuracy of the bias less that of the Switch loss, each at its best strength."""
    return _at_best(data, "bias")["test_accuracy"] - _at_best(data, "switch")["test_accuracy"]


collapse.claim(
    "wang2024/better-balance",
    "The bias balances better than the Switch loss, each at its best strength: its maximal violation is at most a "
    "quarter of the loss's",
    violation_of_bias(),
    says(".04 against .72, and .04 against .52").in_kind(
        (0.0, 0.25)  # nearer, as a ratio, to the published 1/18 and 1/13 than to 1
    ),
    not_comparable=f"{_SCALE}: both balance: at most two fifths above the mean goes to an expert with either, and the "
    "ratio is .5 to 1.5 at eight seeds. The paper's loss has a weight of .001, which leaves more to be done",
    where="Wang et al. 2024, abstract and table 2",
    unit="times the loss's violation",
)
collapse.claim(
    "wang2024/better-models",
    "Models that the bias balances are better than those that the Switch loss balances, each at its best strength: by "
    "a tenth of a point or more",
    lead_of_bias(),
    says("perplexity 9.50 against 9.56, and 7.92 against 7.97").in_kind(at_least(0.001)),
    not_comparable=f"{_SCALE}: both have 98 % right or more, and the bias stays behind, by up to a point on average; "
    "why is not known",
    where="Wang et al. 2024, abstract and table 2",
)

finer = paper.measure(
    "finer",
    balancing.divisions,
    seconds=(8, 24),
    device=False,
    parts=(1, 4),
    shared=(0,),
    trials=budgets(8, 24),
    samples=800,
)
shared = paper.measure(
    "shared",
    balancing.divisions,
    seconds=(7, 22),
    device=False,
    parts=(2,),
    shared=(0, 1),
    trials=budgets(8, 24),
    samples=800,
)


@reader
def last_ahead(data: xr.Dataset) -> xr.DataArray:
    """Returns the accuracy of the last division less that of the first."""
    return data["test_accuracy"].isel(division=-1) - data["test_accuracy"].isel(division=0)


finer.claim(
    "deepseekmoe2024/finer-experts",
    "Eight experts of 16 filters have fewer right, by a point or more, than 32 of 4 filters, four of them for each "
    "sample: as many parameters, as much work",
    last_ahead(),
    says("finer experts raise the performance of nearly every benchmark (figure 3)").in_kind(BETTER),
    not_comparable=f"{_SCALE}; eight clusters, and no expert to spare",
    where="Dai et al. 2024, section 3.1",
)
shared.claim(
    "deepseekmoe2024/shared-expert",
    "Two of 16 routed experts have fewer right, by a point or more, than a shared one and one of 15",
    last_ahead(),
    says("a shared expert raises the performance of most benchmarks (figure 3)").in_kind(BETTER, of="median"),
    not_comparable=f"{_SCALE}: the median difference is within a point at eight seeds. A guess: clusters have nothing "
    "in common that a shared expert could take over. Where a router collapses it does help (notebook 10)",
    where="Dai et al. 2024, section 3.2 and figure 3",
)
