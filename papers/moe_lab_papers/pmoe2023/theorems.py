"""The claims of pmoe2023's sections 4.1 to 4.3 and appendices E, K, M and N: its theorems, computed and tested."""

from __future__ import annotations

from moe_lab.patch_routing import figures
from moe_lab_papers.paper import Paper, budgets, says
from moe_lab_papers.pmoe2023 import measures
from moe_lab_papers.ranges import ROUNDING, at_least, at_most, near, plus_minus, share_from, up_to
from moe_lab_papers.readers import LAST, at, difference

paper = Paper("pmoe2023", picture="moe_lab.patch_routing.plots:picture")

_FOR_ALL = says(1.0, "for all samples, with high probability")

routers = paper.measure(
    "lemma4.1",
    measures.separate_routers,
    seconds=(2, 10),
    sees="With enough samples o is in the top l for every sample from l = l* = 5 on, and for half of them at l = 4.",
    unit="share",
    patches_per_expert=(1, 4, 5, 6, 8, 16),
    samples=budgets((60, 300, 2000), (60, 300, 1000, 4000)),
    trials=budgets(8, 20),
)
routers.claim(
    "lemma4.1/from-l-star-on",
    "for every l from l* on, the separately trained routers send o_1 to expert 1 and o_2 to expert 2",
    at("coverage", samples=LAST, patches_per_expert=slice(5, None), lowest=("class", "patches_per_expert")),
    _FOR_ALL.agrees(share_from, of="lowest"),
)
routers.claim(
    "lemma4.1/below-l-star",
    "it is l >= l* that ensures it: with one patch fewer, samples with l* - 1 closer patterns lose o",
    at("coverage", samples=LAST, patches_per_expert=4, lowest="class"),
    says("at most l* - 1 patches are closer, so that sending l >= l* ensures that one is o").in_kind(at_most(0.9)),
    "the paper has no number for how often o is lost",
    where="section 4.3, after lemma 4.1",
)

four_classes = paper.measure(
    "appendixM-routers",
    measures.separate_routers,
    seconds=(2, 10),
    patches_per_expert=(4, 5, 8),
    samples=budgets((60, 2000), (60, 1000, 4000)),
    trials=budgets(8, 20),
    classes=4,
)
four_classes.claim(
    "appendixM/four-classes",
    "routers trained in pairs send every class's pattern to the class's expert, with four classes and l = l*",
    at("coverage", samples=LAST, patches_per_expert=5, lowest="class"),
    _FOR_ALL.agrees(share_from, of="lowest"),
    where="appendix M.1, lemma 4.1 for c classes",
    unit="share",
)

kept = paper.measure(
    "finding1-kept", measures.kept_patches, seconds=(1, 2), samples=budgets(2000, 4000), trials=budgets(8, 20)
)
kept.claim(
    "finding1/far-patterns-dropped",
    "irrelevant patterns that are far from the class patterns are not routed to an expert in place of a closer one",
    at("displaced", highest="expert"),
    says(0.0).agrees(plus_minus(1e-5), of="highest"),  # one patch of 1000 samples is .001; the rest is rounding
    where="section 4.1, finding I",
    unit="closer patches of a sample that an expert loses to far ones",
)

gradient = paper.measure(
    "lemmaE.1",
    measures.router_gradient,
    seconds=(4, 15),
    samples=budgets((250, 1000, 4000), (250, 1000, 4000, 16000)),
    trials=60,
)
gradient.claim(
    "lemmaE.1/direction",
    "the expected gradient of the routers' loss lies along o_1 - o_2",
    at("cosine", samples=LAST),
    says(1.0, "in expectation").agrees(share_from(0.99)),
    unit="cosine at the largest N",
)
gradient.claim(
    "lemmaE.3/concentration",
    "the gradient over B samples is within O(n / sqrt(B)) of its expectation (o_1 - o_2)/2",
    at("power"),
    says(-0.5, "power of B").agrees(plus_minus(0.1)),
    where="proof of lemma E.3",
    unit="power of B",
)

gates = paper.measure(
    "assumption4.4",
    figures.joint_routers,
    seconds=(2, 12),
    sees="On patterns the deciding patch gets the largest gate of an expert in every sample once there are enough.",
    source="patterns",
    samples=budgets((20, 60, 1000), (20, 60, 200, 1000)),
    trials=budgets(8, 40),
)
gates.claim(
    "assumption4.4/largest-gate",
    "after joint training one expert of each class gives its class's pattern the largest gate, in every sample",
    at("largest_gate", samples=LAST, lowest="class"),
    says(1.0, "assumed, and verified empirically").agrees(share_from(0.999), share_from(0.9), of="median"),
    "it holds for nearly all samples of noisy patterns",
    where="assumption 4.4 and section 5.1",
    unit="share",
)

_FIXED_SIZES = "accuracy from 200 samples of patterns in place of a bound, which has no constant"
by_patches = paper.measure(
    "theorems-by-n",
    measures.accuracy_by_knob,
    seconds=(18, 40),
    split=("values", "patches"),
    unit="accuracy",
    reason=_FIXED_SIZES,
    knob="patches",
    values=(16, 64),
    samples=200,
    trials=budgets(12, 30),
)
by_patches.claim(
    "theorem4.3/cnn-by-patches",
    "with more patches the CNN needs more samples: from the same number its accuracy falls",
    difference("test_accuracy", model="cnn", patches=(64, 16)),
    says("N_C grows as n^8").in_kind(at_most(-0.1)),
)
by_patches.claim(
    "theorem4.2/separate-by-patches",
    "the experts of separate training need no more samples when there are more patches",
    difference("test_accuracy", model="separate", patches=(64, 16)),
    says("N_S contains no n").in_kind(near(0.0, 0.1)),  # three standard errors of eight trials, some of which fail
)
by_patches.claim(
    "theorem4.5/joint-by-patches",
    "joint training needs no more samples when there are more patches",
    difference("test_accuracy", model="joint", patches=(64, 16)),
    says("N_J contains no n").in_kind(near(0.0, 0.03)),  # three standard errors of eight trials
)

by_overlap = paper.measure(
    "finding3-by-overlap",
    measures.accuracy_by_knob,
    seconds=(3, 15),
    knob="delta_d",
    values=budgets((-0.8, 0.8), (-0.8, 0.0, 0.8)),
    samples=200,
    trials=budgets(8, 30),
    task={"gap": 0.3},  # the largest at which patterns exist for every delta_d
)
by_overlap.claim(
    "finding3/separation",
    "separate training does better when o_1 and o_2 are further apart, at -.8 than at .8",
    difference("test_accuracy", model="separate", delta_d=(-0.8, 0.8)),
    says("larger separation among class-discriminative patterns reduces the sample complexity").in_kind(
        at_least(0.03)  # three standard errors of eight trials
    ),
    _FIXED_SIZES,
    where="section 4.1, finding III",
    unit="accuracy",
)

hyperplanes = paper.measure(
    "lemmaK.1",
    measures.separability,
    seconds=(0.3, 60),
    split="pattern_sets",
    pattern_sets=(16, 256),
    samples=budgets(1000, 4000),
    trials=budgets(4, 10),
)
_CANCEL = (
    "with p < d - 2 a hyperplane can take the same value on every irrelevant pattern, so that they cancel: the "
    "proof looks only at those in the plane of o_1 and o_2"
)
_NOT_SEPARABLE = says(0, "the distribution is not linearly separable as long as l* = Omega(1)")
for sets, reason in ((256, ""), (16, _CANCEL)):
    hyperplanes.claim(
        f"lemmaK.1/{sets}-pattern-sets",
        f"with l* = 7 no hyperplane separates the classes, in d = 32 dimensions with p = {sets} pattern sets",
        at("separable", pattern_sets=sets),
        _NOT_SEPARABLE.agrees(up_to(ROUNDING), of="highest"),
        reason,
        where="lemma K.1 and section 4.2",
        unit="of the samples are separated",
    )
