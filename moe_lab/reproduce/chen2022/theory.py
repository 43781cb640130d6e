"""The claims of chen2022's theorems and lemmas.

What is algebra (theorem 4.1, lemmas C.1 to C.4 and E.1) is judged as it stands, up to rounding. The rest is about the
limit of large d: what "o(1)" and "large" are at d = 50 is not said, so that rules on trained mixtures are in kind only,
with the thresholds of `moe_lab.specialization.theory`, or round numbers.
"""

from __future__ import annotations

import numpy as np

from moe_lab.reproduce.chen2022.mixtures import claim
from moe_lab.reproduce.claim import Claim, Measurement, Published, Rule, at_least, at_most, near

_MEASURES = "moe_lab.reproduce.chen2022.measures"
_LIMIT = "the theorem is about the limit of large d; d is 50 here, and sigma_0 = .01 is below its d^(-1/3) = .27"
_ROUNDING = 1e-9

SINGLE = Measurement(
    "chen2022/theorem4.1",
    f"{_MEASURES}:single_functions",
    {"trials": 20, "samples": 200},
    {"trials": 200, "samples": 1000},
    (2, 40),
)
ROUTING = Measurement(
    "chen2022/lemma5.1",
    f"{_MEASURES}:smooth_routing",
    {"trials": 100, "tries": 60, "experts": (2, 4, 8, 16)},
    {"trials": 1000, "tries": 300, "experts": (2, 4, 8, 16, 32)},
    (2, 20),
)
MIXTURE = Measurement(
    "chen2022/theorem4.2",
    f"{_MEASURES}:mixture_theorem",
    {"trials": 12, "samples": 4000},
    {"trials": 20, "samples": 16000},
    (7, 40),
    device=True,
)
LARGE_START = Measurement(
    "chen2022/theorem4.2-large-start",
    f"{_MEASURES}:mixture_theorem",
    {"trials": 4, "samples": 1000, "steps": 600, "initial_scale": 0.28, "router_learning_rate": 0.64},
    {"trials": 10, "samples": 16000, "steps": 600, "initial_scale": 0.28, "router_learning_rate": 0.64},
    (2, 40),
    device=True,
)
EXPLORATION = Measurement(
    "chen2022/lemma5.2",
    f"{_MEASURES}:exploration",
    {"trials": 12, "samples": 4000},
    {"trials": 40, "samples": 16000},
    (1, 8),
    device=True,
)


def _of_mixture(
    name: str, statement: str, relation: str, variable: str, rule: Rule, measurement: Measurement = MIXTURE
) -> Claim:
    where = f"theorem 4.2, {name.replace('-', ' ')}"
    return claim(
        f"theorem4.2/{name}", where, statement, relation, measurement, lambda data: data[variable], rule, _LIMIT
    )


CLAIMS: tuple[Claim, ...] = (
    claim(
        "theorem4.1/any-function",
        "theorem 4.1",
        "Any sum over patches of one function errs on at least an eighth where alpha and gamma are drawn alike",
        "test error at least 1/8",
        SINGLE,
        lambda data: data["test_error"],
        Rule(at_least(0.125 - _ROUNDING), of="lowest"),
        "",
    ),
    claim(
        "theorem4.1/one-of-four",
        "appendix B",
        "Of each four configurations with opposed signs at least one is wrong, for any function",
        "at least one of I_1 ... I_4 is not zero",
        SINGLE,
        lambda data: data["least_wrong"],
        Rule(at_least(1), of="lowest"),
        "",
    ),
    Claim(
        "chen2022/theorem4.1/optimal-accuracy",
        "table 7, optimal accuracy",
        "The optimal accuracy of a single expert is 87.5 %: an explicit function reaches it for 2 to 8 clusters",
        Published(0.875),
        SINGLE,
        lambda data: 1 - np.concatenate((data["tight_error"].values, data["tight_drawn"].values)),
        Rule(near(0.875, _ROUNDING), of="lowest"),
    ),
    _of_mixture(
        "training-error",
        "After training by algorithm 1 no training sample is wrong",
        "training error zero",
        "training_error",
        Rule(None, in_kind=at_most(0.01)),
    ),
    _of_mixture(
        "test-error",
        "The test error is nearly zero",
        "o(1)",
        "test_error",
        Rule(None, in_kind=at_most(0.01)),
    ),
    _of_mixture(
        "groups",
        "The experts divide into a non-empty group for each cluster: experts of the smallest group",
        "K non-empty sets",
        "smallest_group",
        Rule(None, in_kind=at_least(1), of="median"),
    ),
    _of_mixture(
        "experts",
        "Each expert is good on the cluster of its group: share of those that err on at most 5 % of it",
        "error o(1) for every expert",
        "good_experts",
        Rule(None, in_kind=at_least(0.5)),
    ),
    _of_mixture(
        "router",
        "A sample is routed to an expert of its cluster's group: share of the test samples",
        "probability 1 - o(1)",
        "routed",
        Rule(None, in_kind=at_least(0.9)),
    ),
    Claim(
        "chen2022/theorem4.2/router-large-start",
        "theorem 4.2, conditions",
        "From a start as large as the theorem asks, sigma_0 = d^(-1/3), with eta_r = M^2 eta the router does the same",
        Published(relation="probability 1 - o(1)"),
        LARGE_START,
        lambda data: data["routed"],
        Rule(at_least(0.99), in_kind=at_least(0.9)),
        "d = 50 is far from the limit: the first weights are as large as what training adds, and experts do not divide",
    ),
    claim(
        "lemma5.1/bound",
        "lemmas 5.1 and C.1, remark C.2",
        "Routing probabilities change by at most kappa M^2 times the change of the scores: worst ratio over the bound",
        "at most 1",
        ROUTING,
        lambda data: (data["worst_ratio"] / data["bound"]).values.ravel(),
        Rule(at_most(1), of="highest"),
        "",
    ),
    claim(
        "remarkc.2/wider-noise-smoother",
        "remark C.2",
        "Noise of a wider range or variance makes routing smoother: worst ratio of the wider over the narrower",
        "smoother",
        ROUTING,
        lambda data: np.concatenate(
            [
                (data["worst_ratio"].sel(noise=wide) / data["worst_ratio"].sel(noise=narrow)).values
                for wide, narrow in (("uniform 4", "uniform 1"), ("gaussian 1", "gaussian .3"))
            ]
        ),
        Rule(at_most(1), of="highest"),
        "",
    ),
    claim(
        "lemmac.3/close-scores",
        "lemma C.3",
        "Experts with close scores get close shares: |p_m - p_m'| over M^2 |h_m - h_m'|",
        "at most 1",
        ROUTING,
        lambda data: data["pair_ratio"],
        Rule(at_most(1), of="highest"),
        "",
    ),
    claim(
        "lemmac.4/never-routed",
        "lemma C.4",
        "An expert whose score is at least 1 below the largest gets no sample: its largest probability",
        "0",
        ROUTING,
        lambda data: data["beaten_share"],
        Rule(at_most(_ROUNDING), of="highest"),
        "",
    ),
    claim(
        "lemma5.2/own-cluster",
        "lemma 5.2",
        "After exploration an expert is good on the cluster that its first weights foretell: its error there",
        "o(1)",
        EXPLORATION,
        lambda data: data["own_error"],
        Rule(None, in_kind=at_most(0.125)),
        _LIMIT,
    ),
    claim(
        "lemma5.2/other-clusters",
        "lemma 5.2",
        "After exploration an expert is bad on the other clusters: its error there",
        "of the order of 1/K = .25",
        EXPLORATION,
        lambda data: data["other_error"],
        Rule(None, in_kind=at_least(0.25)),
        "the constant of the order 1/K is not told",
    ),
    claim(
        "lemmae.1/routers-sum-to-zero",
        "lemma E.1",
        "The sum of the routers stays 0: its largest product with a signal over the largest of a router",
        "0",
        MIXTURE,
        lambda data: data["router_sum"],
        Rule(at_most(1e-4)),
        "",
    ),
)
