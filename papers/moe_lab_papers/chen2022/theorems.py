"""The claims of chen2022's theorems and lemmas.

Algebraic statements (theorem 4.1, lemmas C.1 to C.4 and E.1) are judged as stated, up to rounding. The rest is about
the limit of large d: the paper does not define "o(1)" and "large" at d = 50, so that rules on trained mixtures are in
kind only, with the thresholds of `moe_lab.specialization.theory`, or round numbers.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from moe_lab_papers.chen2022.sources import MEASURES
from moe_lab_papers.claim import Claim, Measurement, Published, Rule, selected
from moe_lab_papers.ranges import at_least, at_most, near, share_from, up_to

_LIMIT = "the theorem is about the limit of large d; d is 50 here, and sigma_0 = .01 is below its d^(-1/3) = .27"
_ROUNDING = 1e-9

SINGLE = Measurement.sized(
    name="chen2022/theorem4.1",
    function=f"{MEASURES}:single_functions",
    sizes={"trials": (20, 200), "samples": (200, 1000)},
    seconds=(2, 40),
)
ROUTING = Measurement.sized(
    name="chen2022/lemma5.1",
    function=f"{MEASURES}:smooth_routing",
    sizes={"trials": (100, 1000), "tries": (60, 300), "experts": ((2, 4, 8, 16), (2, 4, 8, 16, 32))},
    seconds=(2, 20),
)
MIXTURE = Measurement.sized(
    name="chen2022/theorem4.2",
    function=f"{MEASURES}:mixture_theorem",
    sizes={"trials": (12, 20), "samples": (4000, 16000)},
    seconds=(7, 40),
    paper={"trials": 40},
    device=True,
)
_WIDE = 400
_LARGE = {
    "samples": 4000,
    "steps": 600,
    "dimension": _WIDE,
    "initial_scale": _WIDE ** (-1 / 3),
    "router_learning_rate": 0.64,
}
LARGE_START = Measurement(
    name="chen2022/theorem4.2-large-start",
    function=f"{MEASURES}:mixture_theorem",
    quick={"trials": 2, **_LARGE},
    full={"trials": 10, **_LARGE},
    seconds=(12, 60),
    paper={"trials": 40},
    device=True,
)
EXPLORATION = Measurement.sized(
    name="chen2022/lemma5.2",
    function=f"{MEASURES}:exploration",
    sizes={"trials": (12, 40), "samples": (4000, 16000)},
    seconds=(1, 8),
    device=True,
)


_OF_MIXTURE = tuple(
    Claim(
        id=f"chen2022/theorem4.2/{name}",
        where=f"theorem 4.2, {name.replace('-', ' ')}",
        statement=statement,
        published=published,
        measurement=MIXTURE,
        read=selected(variable),
        rule=rule,
        reason=_LIMIT,
    )
    for name, variable, rule, published, statement in (
        (
            "training-error",
            "training_error",
            Rule(in_kind=up_to(0.01)),
            Published(value=0, relation="training error zero"),
            "After training by algorithm 1 no training sample is wrong",
        ),
        (
            "test-error",
            "test_error",
            Rule(in_kind=up_to(0.01)),
            Published(relation="o(1)"),
            "The test error is nearly zero",
        ),
        (
            "groups",
            "smallest_group",
            Rule(in_kind=at_least(1), of="median"),
            Published(relation="K non-empty sets"),
            "The experts divide into a non-empty group for each cluster: experts of the smallest group",
        ),
        (
            "experts",
            "good_experts",
            Rule(in_kind=share_from(0.9)),
            Published(relation="error o(1) for every expert"),
            "Each expert is good on the cluster of its group: share of those that err on at most 5 % of it",
        ),
        (
            "router",
            "routed",
            Rule(in_kind=share_from(0.9)),
            Published(relation="probability 1 - o(1)"),
            "A sample is routed to an expert of its cluster's group: share of the test samples",
        ),
    )
)
_single = partial(Claim, measurement=SINGLE)
_routing = partial(Claim, measurement=ROUTING)
_exploration = partial(Claim, where="lemma 5.2", measurement=EXPLORATION)
CLAIMS: tuple[Claim, ...] = (
    _single(
        id="chen2022/theorem4.1/any-function",
        where="theorem 4.1",
        statement="Any sum over patches of one function errs on at least an eighth where alpha and gamma are drawn "
        "alike",
        published=Published(value=0.125, bound="at least"),
        read=lambda data: data["test_error"],
        rule=Rule(agrees=at_least(0.125 - _ROUNDING), of="lowest"),
    ),
    _single(
        id="chen2022/theorem4.1/one-of-four",
        where="appendix B",
        statement="Of each four configurations with opposed signs at least one is wrong, for any function",
        published=Published(value=1, bound="at least", relation="of I_1 ... I_4 is not zero"),
        read=lambda data: data["least_wrong"],
        rule=Rule(agrees=at_least(1), of="lowest"),
    ),
    _single(
        id="chen2022/theorem4.1/optimal-accuracy",
        where="table 7, optimal accuracy",
        statement="The optimal accuracy of a single expert is 87.5 %: an explicit function reaches it for 2 to 8 "
        "clusters",
        published=Published(value=0.875),
        read=lambda data: 1 - np.concatenate((data["tight_error"].values, data["tight_drawn"].values)),
        rule=Rule(agrees=near(0.875, _ROUNDING), of="lowest"),
    ),
    *_OF_MIXTURE,
    Claim(
        id="chen2022/theorem4.2/router-large-start",
        where="theorem 4.2, conditions",
        statement="From initial weights as large as the theorem requires, sigma_0 = d^(-1/3), with eta_r = M^2 eta the "
        "router does the same, in d = 400 dimensions",
        published=Published(value=1, relation="with probability 1 - o(1)"),
        measurement=LARGE_START,
        read=lambda data: data["routed"],
        rule=Rule(agrees=share_from(0.99), in_kind=share_from(0.9)),
        reason="d = 400 is far from the limit too, and trials scatter: twelve at six seeds have .62 to 1 and .88 "
        "in the mean, so that a quick run of two can differ; at d = 50 the first weights are as large as what training "
        "adds, experts do not divide, and .57 of the samples reach their group",
    ),
    _routing(
        id="chen2022/lemma5.1/bound",
        where="lemmas 5.1 and C.1, remark C.2",
        statement="Routing probabilities change by at most kappa M^2 times the change of the scores: worst ratio over "
        "the bound",
        published=Published(value=1, bound="at most"),
        read=lambda data: (data["worst_ratio"] / data["bound"]).values.ravel(),
        rule=Rule(agrees=at_most(1), of="highest"),
    ),
    _routing(
        id="chen2022/remarkc.2/wider-noise-smoother",
        where="remark C.2",
        statement="Noise of a wider range or variance makes routing smoother: worst ratio of the wider over the "
        "narrower",
        published=Published(value=1.0, bound="at most", relation="smoother"),
        read=lambda data: np.concatenate(
            [
                (data["worst_ratio"].sel(noise=wide) / data["worst_ratio"].sel(noise=narrow)).values
                for wide, narrow in (("uniform 4", "uniform 1"), ("gaussian 1", "gaussian .3"))
            ]
        ),
        rule=Rule(agrees=at_most(1), of="highest"),
    ),
    _routing(
        id="chen2022/lemmac.4/never-routed",
        where="lemma C.4",
        statement="An expert whose score is at least 1 below the largest gets no sample: its largest probability",
        published=Published(value=0),
        read=lambda data: data["beaten_share"],
        rule=Rule(agrees=up_to(_ROUNDING), of="highest"),
    ),
    _exploration(
        id="chen2022/lemma5.2/own-cluster",
        statement="After exploration an expert is good on the cluster that its initial weights predict: its error "
        "there",
        published=Published(relation="o(1)"),
        read=lambda data: data["own_error"],
        rule=Rule(in_kind=up_to(0.125)),
        reason=_LIMIT,
    ),
    _exploration(
        id="chen2022/lemma5.2/other-clusters",
        statement="After exploration an expert is bad on the other clusters: its error there",
        published=Published(relation="of the order of 1/K = .25"),
        read=lambda data: data["other_error"],
        rule=Rule(in_kind=share_from(0.25)),
        reason="the constant of the order 1/K is not given",
    ),
    Claim(
        id="chen2022/lemmae.1/routers-sum-to-zero",
        where="lemma E.1",
        statement="The sum of the routers stays 0: its largest product with a signal over the largest of a router",
        published=Published(value=0),
        measurement=MIXTURE,
        read=lambda data: data["router_sum"],
        rule=Rule(agrees=up_to(1e-4)),
    ),
)
