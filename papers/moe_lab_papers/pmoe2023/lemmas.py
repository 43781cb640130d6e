"""The claims of pmoe2023 about its lemmas E.2 to I.4, about appendix M, router samples and spurious correlations.

The lemmas hide their constants. What is judged has none: shares that they bound, powers of l, and what the proofs
compute before a constant enters, which are the gradient's part along o and the first order of a step's decrease.
Appendix F has definitions, and theorems 4.2 to 4.5 in full, which are claims of `theorems`. Lemmas G.2, H.2 and I.2
are G.3, H.3 and I.3 for values that do not depend on the weights; judged is the first step of their proofs. Lemmas J.1
and J.2 are another paper's. Figures 1 to 3 are `moe_lab.patch_routing.figures.illustrations`; figure 19 is figure 2 for
four classes.
"""

from __future__ import annotations

from moe_lab_papers.paper import Paper, budgets, says
from moe_lab_papers.pmoe2023 import lemma_measures, measures
from moe_lab_papers.ranges import at_least, factor_of_two, near, nearer, plus_minus, share_from
from moe_lab_papers.readers import at, difference

paper = Paper("pmoe2023")

steps = paper.measure(
    "lemmas-steps",
    lemma_measures.lemma_steps,
    seconds=(30, 120),
    neurons=budgets((400,), (200, 400, 800)),
    trials=budgets(5, 6),
    steps=budgets(3, 8),
)
decrease = paper.measure(
    "lemmas-decrease",
    lemma_measures.decrease_by_patches,
    seconds=(10, 120),
    trials=budgets(10, 12),
    neurons=budgets(200, 400),
    samples=budgets(400, 2000),
)
_JUMPS = (
    "a moving router takes other patches into its top l, and the loss jumps, which its gradient does not show and the "
    "proof does not treat; by hidden weights alone it falls as predicted in every step"
)
_MOST = share_from(0.95), share_from(nearer(1, 0.5))
for model, letter, name, size, reason in (
    ("separate", "G", "separate training", "l", ""),
    ("joint", "H", "joint training", "l", _JUMPS),
    ("cnn", "I", "the CNN", "n", ""),
):
    steps.claim(
        f"lemma{letter}.2/along",
        f"in {name}, neurons with <w_r, o> of the other sign have another P_r, by v_s / {size} along o_1 and by "
        f"-v_s / {size} along o_2: the measured over the stated difference",
        at("along", model=model, mean="neurons"),
        says(1, f"of v_s / {size}, where the proof derives phi and l by alpha").agrees(
            plus_minus(0.1), factor_of_two()
        ),
    )
    steps.claim(
        f"lemma{letter}.4/falls",
        f"in {name}, each step lowers the expected loss by eta m gamma^3 v^2 / {size}^2 or more: share of the steps",
        at("falls", model=model, lowest="neurons"),
        says(1, "with high probability").agrees(*_MOST),
        reason,
    )
    steps.claim(
        f"lemma{letter}.4/predicted",
        f"in {name}, each step lowers the expected loss by eta times the product of batch gradient and expected "
        "gradient, with which the proof begins, up to a tenth: share of the steps",
        at("predicted", model=model, lowest="neurons"),
        says(1, "to first order in eta").agrees(*_MOST),
        reason,
    )
    decrease.claim(
        f"lemma{letter}.4/power-of-l",
        f"in {name}, the decrease in a step over v^2 falls as 1 / {size}^2 at most",
        at("power", model=model),
        says(-2, f"power of {size}", bound="at least").agrees((-2.2, 0.0)),  # a tenth for the scatter; it does fall
        unit=f"power of {size}",
    )

routers = paper.measure(
    "lemmas-routers",
    lemma_measures.router_lemmas,
    seconds=(0.2, 8),
    samples=budgets(1000, 4000),
    trials=budgets(4, 20),
)
routers.claim(
    "lemmaE.3/above-far-patches",
    "a separately trained router ranks o above every patch that is not (1 - delta_d)/2-closer to a class",
    at("above"),
    says(1, "for all samples, with high probability").agrees(share_from(1.0), of="lowest"),
    unit="share of the samples",
)

router_samples = paper.measure(
    "router-samples",
    lemma_measures.router_samples,
    seconds=(1, 8),
    counts=budgets((100, 200), (50, 100, 200)),
    samples=200,
    trials=budgets(12, 60),
)
router_samples.claim(
    "algorithm1/router-samples",
    "half of the samples, N_r = N/2, train the routers as well as all of them do",
    difference("test_accuracy", router_samples=(100, 200)),
    says("N_r < N").in_kind(near(0, 0.025)),  # three standard errors of twelve trials
    "the paper has no number for how many are enough",
    where="section 3, algorithm 1",
    unit="accuracy",
)

classes = paper.measure(
    "appendixM-training",
    measures.accuracy_by_knob,
    seconds=(22, 60),
    unit="accuracy",
    knob="classes",
    values=(4,),
    samples=3200,
    trials=budgets(3, 8),
)
_HOW_MANY = (
    "how many are enough is not known: it has .8 from 400 samples, .98 from 3,200 and .994 from 9,600, where joint "
    "training has .98 from 200"
)
for model, where, reason in (
    ("joint", "appendix M.2, theorem 4.5 for c classes", ""),
    ("separate", "appendix M.1, theorem 4.2 for c classes", _HOW_MANY),
):
    classes.claim(
        f"appendixM/{model}-accuracy",
        f"with enough samples {model} training has four classes right, up to an error of .05",
        at("test_accuracy", model=model, classes=4),
        says(0.95, "1 - epsilon, for every epsilon", bound="at least").agrees(share_from),
        reason,
        where=where,
    )

_IN_PATTERNS = "patterns in place of CelebA's photographs"
spurious = paper.measure(
    "finding1-spurious",
    measures.accuracy_by_knob,
    seconds=(2.5, 20),
    where="finding I and figure 11",
    unit="accuracy",
    not_comparable=_IN_PATTERNS,
    knob="spurious",
    values=(0.0, 0.9),
    samples=200,
    trials=budgets(4, 40),
)
for model, shown in (
    ("joint", _IN_PATTERNS),
    (
        "separate",
        f"{_IN_PATTERNS}, and figure 11 has joint training alone; a separately trained router follows the "
        "mean of y times all patches, which contains the spurious pattern as it does o, and so keeps it",
    ),
):
    spurious.claim(
        f"finding1/spurious-{model}",
        f"where an irrelevant pattern goes with the label in 95 % of training samples, {model} training outperforms "
        "the CNN",
        difference("test_accuracy", spurious=0.9, model=(model, "cnn")),
        says("pMoE is above the single network in figure 11").in_kind(at_least(0.05)),  # three errors of four trials
        not_comparable=shown,
    )
spurious.claim(
    "finding1/spurious-lower",
    "with spurious correlations in training the CNN's test accuracy is lower than without",
    difference("test_accuracy", model="cnn", spurious=(0.0, 0.9)),
    says("the accuracies are lower in figure 11 than in figure 10").in_kind(at_least(0.05)),
)
