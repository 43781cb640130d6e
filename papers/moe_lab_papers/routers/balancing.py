"""What five papers state about uneven load, its cures and the division into experts, on clusters.

The mixture that collapses is that of notebook 10: eight linear experts, and a router that begins by preferring the
first. The one that does not has four cubic experts for four clusters, each of them three times as frequent as the next.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from moe_lab.specialization import ClusterTask, TopKMoE
from moe_lab.specialization.balancing import COLLAPSING
from moe_lab_papers.claim import Claim, Measurement, Published, Read, Rule
from moe_lab_papers.ranges import ROUNDING, at_least
from moe_lab_papers.routers.sources import BALANCING, BETTER, MEASURES

_EXPERTS = 8
_SCALE = "clusters and a mixture of small experts in the place of the paper's language models"
_CUBIC = TopKMoE(experts=4)
_UNEQUAL = ClusterTask(imbalance=3.0)
_STRENGTHS = (0.01, 0.1, 1.0)


def _balancing(name: str, trials: tuple[int, int], seconds: tuple[float, float], **more: object) -> Measurement:
    call = {"samples": 1000, **more}
    return Measurement(
        name=f"routers/{name}",
        function=f"{BALANCING}:balancing",
        quick={"trials": trials[0], **call},
        full={"trials": trials[1], **call},
        seconds=seconds,
    )


FREE = _balancing(
    "no-lead",
    trials=(12, 40),
    seconds=(1, 4),
    kinds=("none",),
    strengths=(0.1,),
    model=TopKMoE(activation="linear"),
)
COLLAPSE = _balancing(
    "collapse",
    trials=(8, 24),
    seconds=(9, 26),
    kinds=("none", "switch", "importance", "bias"),
    strengths=_STRENGTHS,
    model=COLLAPSING,
)
UNEQUAL = _balancing(
    "unequal",
    trials=(6, 20),
    seconds=(6, 20),
    kinds=("none", "importance", "z-loss"),
    strengths=(0.001, 0.1),
    model=_CUBIC,
    task=_UNEQUAL,
)
LEAST = Measurement(
    name="routers/least-loss",
    function=f"{MEASURES}:least_switch_loss",
    quick={"trials": 5, "tries": 2000},
    full={"trials": 20, "tries": 20000},
    seconds=(0.1, 1),
)
FINER, SHARED = (
    Measurement(
        name=f"routers/{name}",
        function=f"{BALANCING}:divisions",
        quick={**call, "trials": trials, "samples": 800},
        full={**call, "trials": 24, "samples": 800},
        seconds=seconds,
    )
    for name, call, trials, seconds in (
        ("finer", {"parts": (1, 4), "shared": (0,)}, 8, (8, 24)),
        ("shared", {"parts": (2,), "shared": (0, 1)}, 8, (7, 22)),
    )
)


def experts_worth(data: xr.Dataset) -> xr.DataArray:
    """How many equally loaded experts have the same entropy of the load."""
    return xr.apply_ufunc(np.exp, data["load_entropy"].squeeze(("balancing", "strength"), drop=True))


def gain(kind: str, strength: float) -> Read:
    """Returns a function that reads how much larger the share of right answers is than without balancing."""

    def read(data: xr.Dataset) -> xr.DataArray:
        right = data["test_accuracy"].sel(strength=strength)
        return right.sel(balancing=kind) - right.sel(balancing="none")

    return read


def at_best(data: xr.Dataset, kind: str) -> xr.Dataset:
    """A way to balance at the strength at which the median trial has most right."""
    one = data.sel(balancing=kind)
    return one.sel(strength=one["test_accuracy"].median("trial").idxmax("strength"))


def _violation_of_bias(data: xr.Dataset) -> float:
    """The median violation under the bias over that under the Switch loss."""
    bias, switch = (at_best(data, kind)["maximal_violation"].median("trial") for kind in ("bias", "switch"))
    return float(bias / switch)


def _lead_of_bias(data: xr.Dataset) -> xr.DataArray:
    return at_best(data, "bias")["test_accuracy"] - at_best(data, "switch")["test_accuracy"]


def _last_ahead(data: xr.Dataset) -> xr.DataArray:
    """How much more the last division has right than the first."""
    return data["test_accuracy"].isel(division=-1) - data["test_accuracy"].isel(division=0)


_SHAZEER = (
    Claim(
        id="routers/shazeer2017/few-experts",
        where="Shazeer et al. 2017, section 4",
        statement="Without a loss on it, a router that starts from zero comes to favour the same few experts: at most "
        "half of eight, by the entropy of the load",
        published=Published(relation="converges to large weights for the same few experts"),
        measurement=FREE,
        read=experts_worth,
        rule=Rule(in_kind=(1.0, _EXPERTS / 2), of="median"),
        not_comparable=f"{_SCALE}; experts are linear: cubic ones share the clusters among them, and four to five "
        "are used",
        unit="experts",
    ),
    Claim(
        id="routers/shazeer2017/no-loss-much-worse",
        where="Shazeer et al. 2017, appendix A, table 6",
        statement="A collapsed mixture has much fewer right, five points or more, than with the importance loss at .1",
        published=Published(relation="perplexity 39.8 without a loss, 35.6 to 35.7 with one"),
        measurement=COLLAPSE,
        read=gain("importance", 0.1),
        rule=Rule(in_kind=at_least(0.05), of="median"),
        not_comparable=_SCALE,
    ),
    Claim(
        id="routers/shazeer2017/no-loss-much-worse-unequal",
        where="Shazeer et al. 2017, appendix A, table 6",
        statement="A mixture that does not collapse, on clusters of unequal frequency, has fewer right, by a point or "
        "more, than with that loss",
        published=Published(relation="having no loss was much worse"),
        measurement=UNEQUAL,
        read=gain("importance", 0.1),
        rule=Rule(in_kind=BETTER),
        not_comparable=f"{_SCALE}: the right load is as uneven as the clusters; with an even one, experts of rare "
        "clusters take samples of the common one. The loss costs one to three points, at eight seeds",
    ),
)
_SWITCH = (
    Claim(
        id="routers/switch2021/uniform-is-least",
        where="Fedus et al. 2021, section 2.2, below eq. 6",
        statement="The auxiliary loss M sum f P is least under a uniform load, where it is 1; measured is the least "
        "value over random gates",
        published=Published(value=1.0, bound="at least"),
        measurement=LEAST,
        read=lambda data: data["least"],
        rule=Rule(agrees=at_least(1 - ROUNDING), of="lowest"),
        reason="f and P are different numbers: whoever gets four samples of six narrowly, and of the other two "
        "nearly nothing, has the smaller mean gate. The loss is below 1 at an uneven load",
    ),
    Claim(
        id="routers/switch2021/published-weight",
        where="Fedus et al. 2021, section 2.2",
        statement="A weight of .01 balances the load of the collapsing mixture: no expert gets more than twice the "
        "mean, which is what a capacity factor of 2 serves",
        published=Published(relation="balanced load quickly without interfering with the training loss"),
        measurement=COLLAPSE,
        read=lambda data: 1 + data["maximal_violation"].sel(balancing="switch", strength=0.01),
        rule=Rule(in_kind=(1.0, 2.0), of="median"),
        not_comparable=f"{_SCALE}: 300 steps at .01 do not make up for a lead of 4 in the scores; at .1 the largest "
        "load is 1.1 to 1.4 times the mean. A weight fits a router's learning rate and the size of the task's loss",
        unit="times the mean load",
    ),
)
_Z_LOSS = (
    Claim(
        id="routers/stmoe2022/no-loss-of-quality",
        where="Zoph et al. 2022, section on the router z-loss, eq. 5",
        statement="At the published weight, .001, the z-loss costs no quality: half a point at most of the right "
        "answers",
        published=Published(relation="more stable, and no quality is lost"),
        measurement=UNEQUAL,
        read=gain("z-loss", 0.001),
        rule=Rule(in_kind=at_least(-0.005)),
        not_comparable=f"{_SCALE}; at .1 and this router's learning rate of 10 it costs points",
    ),
)
_BIAS = (
    Claim(
        id="routers/wang2024/better-balance",
        where="Wang et al. 2024, abstract and table 2",
        statement="The bias balances better than the Switch loss, each at its best strength: its maximal violation is "
        "at most a quarter of the loss's",
        published=Published(relation=".04 against .72, and .04 against .52"),
        measurement=COLLAPSE,
        read=_violation_of_bias,
        rule=Rule(in_kind=(0.0, 0.25)),  # nearer, as a ratio, to the published 1/18 and 1/13 than to 1
        not_comparable=f"{_SCALE}: both balance: at most two fifths above the mean goes to an expert with either, "
        "and the ratio is .5 to 1.5 at eight seeds. The paper's loss has a weight of .001, which leaves more to be "
        "done",
        unit="times the loss's violation",
    ),
    Claim(
        id="routers/wang2024/better-models",
        where="Wang et al. 2024, abstract and table 2",
        statement="Models that the bias balances are better than those that the Switch loss balances, each at its best "
        "strength: by a tenth of a point or more",
        published=Published(relation="perplexity 9.50 against 9.56, and 7.92 against 7.97"),
        measurement=COLLAPSE,
        read=_lead_of_bias,
        rule=Rule(in_kind=at_least(0.001)),
        not_comparable=f"{_SCALE}: both have 98 % right or more, and the bias stays behind, by up to a point on "
        "average; why is not known",
    ),
)
_DIVIDED = (
    Claim(
        id="routers/deepseekmoe2024/finer-experts",
        where="Dai et al. 2024, section 3.1",
        statement="Eight experts of 16 filters have fewer right, by a point or more, than 32 of 4 filters, four "
        "of them for each sample: as many parameters, as much work",
        published=Published(relation="finer experts raise the performance of nearly every benchmark (figure 3)"),
        measurement=FINER,
        read=_last_ahead,
        rule=Rule(in_kind=BETTER),
        not_comparable=f"{_SCALE}; eight clusters, and no expert to spare",
    ),
    Claim(
        id="routers/deepseekmoe2024/shared-expert",
        where="Dai et al. 2024, section 3.2 and figure 3",
        statement="Two of 16 routed experts have fewer right, by a point or more, than a shared one and one of 15",
        published=Published(relation="a shared expert raises the performance of most benchmarks (figure 3)"),
        measurement=SHARED,
        read=_last_ahead,
        rule=Rule(in_kind=BETTER, of="median"),
        not_comparable=f"{_SCALE}: the median difference is within a point at eight seeds. A guess: clusters have "
        "nothing in common that a shared expert could take over. Where a router collapses it does help (notebook 10)",
    ),
)
CLAIMS: tuple[Claim, ...] = (*_SHAZEER, *_SWITCH, *_Z_LOSS, *_BIAS, *_DIVIDED)
