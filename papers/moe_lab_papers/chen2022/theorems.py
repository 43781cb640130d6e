"""The claims of chen2022's theorems and lemmas.

Algebraic statements (theorem 4.1, lemmas C.1 to C.4 and E.1) are judged as stated, up to rounding. The rest is about
the limit of large d: the paper does not define "o(1)" and "large" at d = 50, so that rules on trained mixtures are in
kind only, with the thresholds of `moe_lab.specialization.theory`, or round numbers.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from moe_lab_papers.chen2022 import measures
from moe_lab_papers.paper import Paper, budgets, says
from moe_lab_papers.ranges import ROUNDING, at_least, at_most, plus_minus, share_from, up_to
from moe_lab_papers.readers import at, reader

paper = Paper("chen2022")

_LIMIT = "the theorem is about the limit of large d; d is 50 here, and sigma_0 = .01 is below its d^(-1/3) = .27"

single = paper.measure(
    "theorem4.1", measures.single_functions, seconds=(2, 40), trials=budgets(20, 200), samples=budgets(200, 1000)
)


@reader
def optimal_accuracy(data: xr.Dataset) -> np.ndarray:
    """Returns the accuracy of an explicit function, on both distributions of alpha and gamma."""
    return 1 - np.concatenate((data["tight_error"].values, data["tight_drawn"].values))


single.claim(
    "theorem4.1/any-function",
    "Any sum over patches of one function errs on at least an eighth where alpha and gamma are drawn alike",
    at("test_error"),
    says(0.125, bound="at least").agrees(at_least(0.125 - ROUNDING), of="lowest"),
)
single.claim(
    "theorem4.1/one-of-four",
    "Of each four configurations with opposed signs at least one is wrong, for any function",
    at("least_wrong"),
    says(1, "of I_1 ... I_4 is not zero", bound="at least").agrees(at_least, of="lowest"),
    where="appendix B",
)
single.claim(
    "theorem4.1/optimal-accuracy",
    "The optimal accuracy of a single expert is 87.5 %: an explicit function reaches it for 2 to 8 clusters",
    optimal_accuracy(),
    says(0.875).agrees(plus_minus(ROUNDING), of="lowest"),
    where="table 7, optimal accuracy",
)

mixture = paper.measure(
    "theorem4.2",
    measures.mixture_theorem,
    seconds=(7, 40),
    trials=budgets(12, 20, paper=40),
    samples=budgets(4000, 16000),
)
for name, variable, statement, judged in (
    (
        "training-error",
        "training_error",
        "After training by algorithm 1 no training sample is wrong",
        says(0, "training error zero").in_kind(up_to(0.01)),
    ),
    ("test-error", "test_error", "The test error is nearly zero", says("o(1)").in_kind(up_to(0.01))),
    (
        "groups",
        "smallest_group",
        "The experts divide into a non-empty group for each cluster: experts of the smallest group",
        says("K non-empty sets").in_kind(at_least(1), of="median"),
    ),
    (
        "experts",
        "good_experts",
        "Each expert is good on the cluster of its group: share of those that err on at most 5 % of it",
        says("error o(1) for every expert").in_kind(share_from(0.9)),
    ),
    (
        "router",
        "routed",
        "A sample is routed to an expert of its cluster's group: share of the test samples",
        says("probability 1 - o(1)").in_kind(share_from(0.9)),
    ),
):
    mixture.claim(
        f"theorem4.2/{name}", statement, at(variable), judged, _LIMIT, where=f"theorem 4.2, {name.replace('-', ' ')}"
    )

_WIDE = 400
large_start = paper.measure(
    "theorem4.2-large-start",
    measures.mixture_theorem,
    seconds=(12, 60),
    trials=budgets(2, 10, paper=40),
    samples=4000,
    steps=600,
    dimension=_WIDE,
    initial_scale=_WIDE ** (-1 / 3),
    router_learning_rate=0.64,
)
large_start.claim(
    "theorem4.2/router-large-start",
    "From initial weights as large as the theorem requires, sigma_0 = d^(-1/3), with eta_r = M^2 eta the router does "
    "the same, in d = 400 dimensions",
    at("routed"),
    says(1, "with probability 1 - o(1)").agrees(share_from(0.99), in_kind=share_from(0.9)),
    "d = 400 is far from the limit too, and trials scatter: twelve at six seeds have .62 to 1 and .88 in the mean, so "
    "that a quick run of two can differ; at d = 50 the first weights are as large as what training adds, experts do "
    "not divide, and .57 of the samples reach their group",
    where="theorem 4.2, conditions",
)

routing = paper.measure(
    "lemma5.1",
    measures.smooth_routing,
    seconds=(2, 20),
    trials=budgets(100, 1000),
    tries=budgets(60, 300),
    experts=budgets((2, 4, 8, 16), (2, 4, 8, 16, 32)),
)


@reader
def over_bound(data: xr.Dataset) -> np.ndarray:
    """Returns the worst ratio over kappa M^2, of every kind of noise and number of experts."""
    return np.asarray((data["worst_ratio"] / data["bound"]).values.ravel())


@reader
def wider_over_narrower(data: xr.Dataset) -> np.ndarray:
    """Returns the worst ratio with wider noise over that with narrower noise of the same kind."""
    pairs = (("uniform 4", "uniform 1"), ("gaussian 1", "gaussian .3"))
    ratios = [data["worst_ratio"].sel(noise=wide) / data["worst_ratio"].sel(noise=narrow) for wide, narrow in pairs]
    return np.concatenate([ratio.values for ratio in ratios])


routing.claim(
    "lemma5.1/bound",
    "Routing probabilities change by at most kappa M^2 times the change of the scores: worst ratio over the bound",
    over_bound(),
    says(1, bound="at most").agrees(at_most, of="highest"),
    where="lemmas 5.1 and C.1, remark C.2",
)
routing.claim(
    "remarkc.2/wider-noise-smoother",
    "Noise of a wider range or variance makes routing smoother: worst ratio of the wider over the narrower",
    wider_over_narrower(),
    says(1.0, "smoother", bound="at most").agrees(at_most(1), of="highest"),
    where="remark C.2",
)
routing.claim(
    "lemmac.4/never-routed",
    "An expert whose score is at least 1 below the largest gets no sample: its largest probability",
    at("beaten_share"),
    says(0).agrees(up_to(ROUNDING), of="highest"),
    where="lemma C.4",
)

exploration = paper.measure(
    "lemma5.2", measures.exploration, seconds=(1, 8), trials=budgets(12, 40), samples=budgets(4000, 16000)
)
exploration.claim(
    "lemma5.2/own-cluster",
    "After exploration an expert is good on the cluster that its initial weights predict: its error there",
    at("own_error"),
    says("o(1)").in_kind(up_to(0.125)),
    _LIMIT,
)
exploration.claim(
    "lemma5.2/other-clusters",
    "After exploration an expert is bad on the other clusters: its error there",
    at("other_error"),
    says("of the order of 1/K = .25").in_kind(share_from(0.25)),
    "the constant of the order 1/K is not given",
)
mixture.claim(
    "lemmae.1/routers-sum-to-zero",
    "The sum of the routers stays 0: its largest product with a signal over the largest of a router",
    at("router_sum"),
    says(0).agrees(up_to(1e-4)),
    where="lemma E.1",
)
