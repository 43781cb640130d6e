"""The claims of chen2022's lemmas D.1 to F.1, and of sections 3.2 and 5 about soft routing and the load of experts.

The lemmas bound quantities by powers of n, d and sigma_0 with hidden constants, so that the powers are judged. Lemma
D.5 is D.2 for the filters' start. Lemmas E.2, E.3, E.5, E.8 and E.10 to E.18 are steps of the proofs of E.4, E.6, E.7
and theorem 4.2, and proposition E.9 is about d^(-.001), which is .996 at d = 50.

That experts of a group have equal loads is proved until T_2 = 1/(eta M^2) (lemma E.16), which is before the exploration
stage ends, at d = 50. Over a whole training one expert of a group takes over, in the paper's tables 4 and 5 too. Of
soft routing, with all experts, the paper states only that it takes time.
"""

from __future__ import annotations

import xarray as xr

from moe_lab_papers.chen2022 import lemma_measures, measures
from moe_lab_papers.paper import Paper, budgets, says
from moe_lab_papers.ranges import at_least, factor_of_two, plus_minus, share_from
from moe_lab_papers.readers import at, reader

paper = Paper("chen2022")

start = paper.measure(
    "lemmas-start",
    lemma_measures.before_training,
    seconds=(1.5, 8),
    unit="power",
    trials=100,
    tries=budgets(20_000, 400_000),
)
for name, words in (
    ("centers", "the sum of y beta^3"),
    ("features", "the sum of alpha^3 less its expectation"),
):
    start.claim(
        f"lemmaD.1/{name}",
        f"over a cluster's samples, {words} grows as the root of n",
        at(name),
        says(0.5, "power of n, up to logarithms").agrees(plus_minus(0.1)),
    )
for name, value, words in (
    ("norm", 0.0, "norm of a noise patch does not grow with d"),
    ("signal", -0.5, "product of a noise patch with a signal falls as the root of d"),
    ("other", -0.5, "product of two noise patches falls as the root of d"),
):
    start.claim(
        f"lemmaD.2/{name}",
        f"the largest {words}",
        at(name),
        says(value, "power of d, up to logarithms").agrees(plus_minus(0.1), in_kind=plus_minus(0.2)),
        "the largest of all pairs of 800 patches falls faster between d = 50 and 800, by its logarithms",
    )

_FAR = "d = 50 and sigma_0 from .0025 to .04 are far from the limit: other filters of an expert grow with its best one"
exploration = paper.measure(
    "lemmas-exploration",
    lemma_measures.exploration_powers,
    seconds=(2, 8),
    unit="power of sigma_0",
    starts=(0.0025, 0.01, 0.04),
    samples=budgets(8000, 16000),
    trials=budgets(10, 20),
)
exploration.claim(
    "lemmaD.4/best-filter",
    "before training every expert has a filter whose product with a label signal is at least .01 sigma_0",
    at("start"),
    says(0.01, "sigma_0", bound="at least").agrees(at_least, of="lowest"),
)
exploration.claim(
    "lemmaE.4/uniform-routing",
    "until the end of the exploration stage every expert gets a sample with probability 1/M, up to a difference that "
    "vanishes as sigma_0^1.5",
    at("uneven"),
    says(1.5, "as sigma_0 becomes small", bound="at least").agrees(at_least),
)
exploration.claim(
    "lemmaE.6/best-filter",
    "at the end of the exploration stage an expert's best filter has grown to the order of sigma_0^.5",
    at("own"),
    says(0.5).agrees(plus_minus(0.1), factor_of_two()),
    _FAR,
)
exploration.claim(
    "lemmaE.6/other-filters",
    "all other products of filters and signals are of the order of sigma_0 still",
    at("other"),
    says(1, "up to logarithms").agrees(plus_minus(0.1), factor_of_two()),
    _FAR,
)
exploration.claim(
    "lemmaE.7/gradient-along-signal",
    "at its end an expert's gradient is along its label signal, at its best filter, up to sigma_0^.1: the smallest "
    "share over 1 - sigma_0^.1",
    at("along"),
    says(1, bound="at least").agrees(at_least),
    "with few samples noise patches hide it: .2 to .5 from 1,000, 1.1 to 1.5 from 8,000 and 16,000",
)
exploration.claim(
    "section5/equal-loads",
    "experts of one group get almost the same amount of data, at the end of the exploration stage: the smallest "
    "expected load of a group over its largest",
    at("loads"),
    says(1, "almost").agrees(share_from(0.9), in_kind=share_from(0.5)),
    where="section 5, key techniques 2 and 3, and eq. 5.1",
    unit="",
)

_EXPERTS = 8
soft = paper.measure(
    "soft-routing", measures.soft_routing, seconds=(1, 5), samples=budgets(4000, 16000), steps=4, repeats=9
)


@reader
def times(data: xr.Dataset) -> xr.DataArray:
    """Returns the median ratio of the times of a step with all experts and with one per sample."""
    seconds = data["seconds"]
    return (seconds.sel(experts_per_sample=_EXPERTS) / seconds.sel(experts_per_sample=1)).median("repeat")


soft.claim(
    "section3.2/soft-routing-time",
    "soft routing, which uses all eight experts for every sample, takes much more time than switch routing: that of a "
    "training step over that of one expert per sample",
    times(),
    says("time consuming; switch routing greatly reduces the time").in_kind((2.0, 2.0 * _EXPERTS)),
    "the paper has no number: twice the time counts as much more, and more than twice the eightfold operations of the "
    "experts as another effect; 2.6 to 4.6 on a busy machine",
    where="section 3.2 and section 5, main difficulty 1",
    unit="times",
)
