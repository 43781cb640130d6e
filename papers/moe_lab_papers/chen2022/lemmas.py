"""The claims of chen2022's lemmas D.1 to F.1, and of sections 3.2 and 5 about soft routing and the load of experts.

The lemmas bound quantities by powers of n, d and sigma_0 with hidden constants, so that the powers are judged. Lemma
D.5 is D.2 for the filters' start. Lemmas E.2, E.3, E.5, E.8 and E.10 to E.18 are steps of the proofs of E.4, E.6, E.7
and theorem 4.2, and proposition E.9 is about d^(-.001), which is .996 at d = 50.

That experts of a group have equal loads is proved until T_2 = 1/(eta M^2) (lemma E.16), which is before the exploration
stage ends, at d = 50. Over a whole training one expert of a group takes over, in the paper's tables 4 and 5 too. Of
soft routing, with all experts, the paper states only that it takes time.
"""

from __future__ import annotations

from functools import partial

import xarray as xr

from moe_lab_papers.chen2022.sources import MEASURES
from moe_lab_papers.claim import Claim, Measurement, Published, Rule, selected
from moe_lab_papers.ranges import at_least, half_to_double, near, share_from

_MEASURES = "moe_lab_papers.chen2022.lemma_measures"
_EXPERTS = 8
START = Measurement.sized(
    name="chen2022/lemmas-start",
    function=f"{_MEASURES}:before_training",
    sizes={"trials": (100, 100), "tries": (20_000, 400_000)},
    seconds=(1.5, 8),
)
EXPLORATION = Measurement.sized(
    name="chen2022/lemmas-exploration",
    function=f"{_MEASURES}:exploration_powers",
    sizes={"starts": ((0.0025, 0.01, 0.04), (0.0025, 0.01, 0.04)), "samples": (8000, 16000), "trials": (10, 20)},
    seconds=(2, 8),
)
SOFT = Measurement.sized(
    name="chen2022/soft-routing",
    function=f"{MEASURES}:soft_routing",
    sizes={"samples": (4000, 16000), "steps": (4, 4), "repeats": (9, 9)},
    seconds=(1, 5),
)

_start = partial(Claim, measurement=START, unit="power")
_exploration = partial(Claim, measurement=EXPLORATION, unit="power of sigma_0")


def _times(data: xr.Dataset) -> xr.DataArray:
    """How many times a step with one expert per sample takes with all, in the median of the turns."""
    seconds = data["seconds"]
    return (seconds.sel(experts_per_sample=_EXPERTS) / seconds.sel(experts_per_sample=1)).median("repeat")


_FAR = "d = 50 and sigma_0 from .0025 to .04 are far from the limit: other filters of an expert grow with its best one"
CLAIMS: tuple[Claim, ...] = (
    *(
        _start(
            id=f"chen2022/lemmaD.1/{name}",
            where="lemma D.1",
            statement=f"over a cluster's samples, {words} grows as the root of n",
            published=Published(value=0.5, relation="power of n, up to logarithms"),
            read=selected(name),
            rule=Rule(agrees=near(0.5, 0.1)),
        )
        for name, words in (
            ("centers", "the sum of y beta^3"),
            ("features", "the sum of alpha^3 less its expectation"),
        )
    ),
    *(
        _start(
            id=f"chen2022/lemmaD.2/{name}",
            where="lemma D.2",
            statement=f"the largest {words}",
            published=Published(value=value, relation="power of d, up to logarithms"),
            read=selected(name),
            rule=Rule(agrees=near(value, 0.1), in_kind=near(value, 0.2)),
            reason="the largest of all pairs of 800 patches falls faster between d = 50 and 800, by its logarithms",
        )
        for name, value, words in (
            ("norm", 0.0, "norm of a noise patch does not grow with d"),
            ("signal", -0.5, "product of a noise patch with a signal falls as the root of d"),
            ("other", -0.5, "product of two noise patches falls as the root of d"),
        )
    ),
    _exploration(
        id="chen2022/lemmaD.4/best-filter",
        where="lemma D.4",
        statement="before training every expert has a filter whose product with a label signal is at least .01 sigma_0",
        published=Published(value=0.01, bound="at least", relation="sigma_0"),
        read=selected("start"),
        rule=Rule(agrees=at_least(0.01), of="lowest"),
    ),
    _exploration(
        id="chen2022/lemmaE.4/uniform-routing",
        where="lemma E.4",
        statement="until the end of the exploration stage every expert gets a sample with probability 1/M, up to a "
        "difference that vanishes as sigma_0^1.5",
        published=Published(value=1.5, bound="at least", relation="as sigma_0 becomes small"),
        read=selected("uneven"),
        rule=Rule(agrees=at_least(1.5)),
    ),
    _exploration(
        id="chen2022/lemmaE.6/best-filter",
        where="lemma E.6",
        statement="at the end of the exploration stage an expert's best filter has grown to the order of sigma_0^.5",
        published=Published(value=0.5),
        read=selected("own"),
        rule=Rule(agrees=near(0.5, 0.1), in_kind=half_to_double(0.5)),
        reason=_FAR,
    ),
    _exploration(
        id="chen2022/lemmaE.6/other-filters",
        where="lemma E.6",
        statement="all other products of filters and signals are of the order of sigma_0 still",
        published=Published(value=1, relation="up to logarithms"),
        read=selected("other"),
        rule=Rule(agrees=near(1, 0.1), in_kind=half_to_double(1)),
        reason=_FAR,
    ),
    _exploration(
        id="chen2022/lemmaE.7/gradient-along-signal",
        where="lemma E.7",
        statement="at its end an expert's gradient is along its label signal, at its best filter, up to sigma_0^.1: "
        "the smallest share over 1 - sigma_0^.1",
        published=Published(value=1, bound="at least"),
        read=selected("along"),
        rule=Rule(agrees=at_least(1)),
        reason="with few samples noise patches hide it: .2 to .5 from 1,000, 1.1 to 1.5 from 8,000 and 16,000",
    ),
    Claim(
        id="chen2022/section5/equal-loads",
        where="section 5, key techniques 2 and 3, and eq. 5.1",
        statement="experts of one group get almost the same amount of data, at the end of the exploration stage: the "
        "smallest expected load of a group over its largest",
        published=Published(value=1, relation="almost"),
        measurement=EXPLORATION,
        read=selected("loads"),
        rule=Rule(agrees=share_from(0.9), in_kind=share_from(0.5)),
    ),
    Claim(
        id="chen2022/section3.2/soft-routing-time",
        where="section 3.2 and section 5, main difficulty 1",
        statement="soft routing, which uses all eight experts for every sample, takes much more time than switch "
        "routing: that of a training step over that of one expert per sample",
        published=Published(relation="time consuming; switch routing greatly reduces the time"),
        measurement=SOFT,
        read=_times,
        rule=Rule(in_kind=(2.0, 2.0 * _EXPERTS)),
        reason="the paper has no number: twice the time counts as much more, and more than twice the eightfold "
        "operations of the experts as another effect; 2.6 to 4.6 on a busy machine",
        unit="times",
    ),
)
