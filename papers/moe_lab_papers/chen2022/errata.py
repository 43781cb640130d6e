"""Misprints of chen2022 and omitted steps, with checks of what can be computed within a second."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import minimize_scalar

from moe_lab.core.findings import Finding, judged
from moe_lab.core.snapshots import final
from moe_lab.core.trials import stream
from moe_lab.specialization import ClusterTask, SwitchMoE, train
from moe_lab.specialization.layer import Layer
from moe_lab.specialization.published import published
from moe_lab_papers.chen2022.singles import TABLE_7_RANGE
from moe_lab_papers.paper import Paper

paper = Paper("chen2022")

_SMALL = {"samples": 500, "test_samples": 500, "trials": 2, "steps": 150, "seed": 0, "measure": "last", "device": "cpu"}
_NOTEBOOK_LOSS = 0.385
"""The largest training loss that the authors' `synthetic_demo_verify.ipynb` prints of a trained linear expert."""


@paper.erratum(
    "data-times-10",
    "appendix A.2",
    printed="data as in definition 3.1, experts' learning rate .001, router's .1",
    instead="all patches times 10 (or, the same to rounding: learning rates .01 and 10, and 10 sigma_0)",
    evidence="the authors' code multiplies the data by 10; the printed step sizes fail without it",
)
def data_scale() -> Finding:
    """The printed step sizes work on data times 10, and fail on data as definition 3.1 draws them."""
    accuracy = {}
    for scale, start in ((1.0, 1e-3), (10.0, 1e-3)):
        model = SwitchMoE(learning_rate=0.001, router_learning_rate=0.1, initial_scale=start)
        last = final(train(model, ClusterTask.setting(3).replace(scale=scale), **_SMALL))
        accuracy[f"data times {scale:g}"] = float(last["test_accuracy"].mean())
    plain, scaled = accuracy.values()
    return Finding(
        "appendix A.2, scale of the data",
        judged(True, scaled > 0.9 and plain < 0.85),
        f"With eta = .001 and eta_r = .1 cubic experts reach {100 * plain:.1f} % in 150 steps on data as they are and "
        f"{100 * scaled:.1f} % on data times 10.",
        accuracy,
    )


@paper.erratum(
    "initial-scale",
    "algorithm 1, appendix A.2",
    printed="nothing: sigma_0 has no number",
    instead="sigma_0 about .01 for data as they are; the authors' code has 8e-4",
    evidence="the result depends on it, and the range of theorem 4.2 does not lead to division at d = 50",
)
def initial_scale() -> Finding:
    """The outcome depends on sigma_0: .01 works, the smallest that theorem 4.2 allows (d^(-1/3)) does not at d = 50."""
    task, routed = ClusterTask.setting(3), {}
    for start in (0.01, task.dimension ** (-1 / 3)):
        last = final(train(SwitchMoE(initial_scale=start), task, **_SMALL | {"steps": 300}))
        routed[f"sigma_0 = {start:.2g}"] = float(last["dispatch_entropy"].mean())
    small, large = routed.values()
    return Finding(
        "algorithm 1, sigma_0",
        judged(True, small < 0.2 < 0.4 < large),
        f"The dispatch entropy after 300 steps is {small:.2f} from sigma_0 = .01 and {large:.2f} from "
        f"{task.dimension ** (-1 / 3):.2f}, the least that theorem 4.2 allows.",
        routed,
    )


paper.erratum(
    "authors-objective",
    "section 3.3, tables 1 and 3",
    printed="the logistic loss of the winner's softmax gate times its output, no biases, tests without noise",
    instead="the winner's h + r times its output, biases, a softmax before a cross-entropy that takes another, "
    "tests with router noise, early stopping",
    evidence="the authors' code; only with it linear mixtures have the published 88 to 96 %, under algorithm 1 as "
    "written they have 96 to 99 %",
)


@paper.erratum(
    "one-data-set",
    "section 6.1, tables 1 and 3",
    printed="ten random experiments",
    instead="ten trainings on one data set",
    evidence="the authors' code, and the dispatch tables, whose clusters have the same sizes in all three runs",
)
def one_data_set() -> Finding:
    """The clusters of tables 4, 5 and 6 have the same sizes: three runs on one data set."""
    sizes = [published(place)["final_dispatch"].sum("expert").values for place in ("table 4", "table 5", "table 6")]
    same = all((other == sizes[0]).all() for other in sizes[1:])
    apart = np.sqrt(2 * sizes[0].sum() * 0.25 * 0.75)
    return Finding(
        "tables 4 to 6, data",
        judged(True, same),
        f"All three have clusters of {', '.join(str(int(size)) for size in sizes[0])} samples; drawn anew, a cluster's "
        f"size would differ by about {apart:.0f} from one run to another.",
        {"largest difference": float(np.abs(np.stack(sizes) - sizes[0]).max()), "expected": float(apart)},
    )


@paper.erratum(
    "table7-ranges",
    "tables 3 and 7, single experts in setting 3; appendix A.2, verification of theorem 4.1",
    printed="74.81 % (linear) and 72.69 % (cubic) in both tables, as if of the same data",
    instead="the cubic one is of table 7's data, alpha and gamma from (1, 2), and the linear one of setting 3's, "
    "from (.5, 2)",
    evidence="the authors' code draws both from (1, 2) for table 7, as its caption says, and prints there "
    "72.6875 % for the cubic expert, the other numbers of table 7, and a linear loss that (.5, 2) does not allow",
)
def table_7_range() -> Finding:
    """Tables 3 and 7 share two numbers; the loss that goes with table 7 is out of reach on table 3's data."""
    numbers = {}
    for name in ("single-linear", "single-cubic"):
        seven, three = (published(place)["test_accuracy"].sel(model=name) for place in ("table 7", "table 3"))
        numbers[name] = float(abs(seven.sel(setting=3) - three.sel(setting=3)))
    same = max(numbers.values()) == 0
    for feature in (ClusterTask.setting(3).feature, TABLE_7_RANGE):
        numbers[f"least loss, {feature}"] = least_linear_loss(feature)
    setting_3, caption = list(numbers.values())[2:]
    return Finding(
        "tables 3 and 7, single experts",
        judged(True, same and caption < _NOTEBOOK_LOSS < setting_3),
        f"Both tables have the same linear and cubic accuracy. A linear expert's loss is at least {caption:.3f} on "
        f"table 7's data and {setting_3:.3f} on setting 3's; the authors' notebook has {_NOTEBOOK_LOSS} and less.",
        numbers,
    )


@paper.erratum(
    "table8-noise",
    "table 8, caption",
    printed="sigma_p = 1 for setting 2",
    instead="sigma_p = 2",
    evidence="section 6.1, and two of the numbers are table 1's for setting 2",
)
def table_8_noise() -> Finding:
    """Table 8's column for setting 2 is table 1's, whose sigma_p is 2; as printed the two columns have one setting."""
    numbers = {}
    for name in ("single-linear", "single-cubic"):
        eight, one = (published(place)["test_accuracy"].sel(model=name) for place in ("table 8", "table 1"))
        numbers[f"{name}, from table 1"] = float(abs(eight.sel(setting=2) - one.sel(setting=2)))
        numbers[f"{name}, between columns"] = float(abs(eight.sel(setting=2) - eight.sel(setting=1)))
    same = all(value == 0 for name, value in numbers.items() if "table 1" in name)
    apart = min(value for name, value in numbers.items() if "columns" in name)
    return Finding(
        "table 8, noise",
        judged(True, same and apart > 0.05),
        f"Column 2 is table 1's setting 2, sigma_p = {ClusterTask.setting(2).noise:g}; it is at least "
        f"{100 * apart:.1f} points from column 1, which as printed would be the same setting.",
        numbers,
    )


paper.erratum(
    "single-optimizer",
    "section 6.1 against appendix A.2",
    printed="single models are trained by gradient descent (section 6.1)",
    instead="by Adam (appendix A.2)",
    evidence="the paper contradicts itself; the authors' code has Adam",
)


@paper.erratum(
    "output-weights",
    "eq. 3.1",
    printed="a plain sum over the filters for all activations",
    instead="output weights of both signs and biases, as in the remark to theorem 4.1 and the authors' code",
    evidence="ReLU experts as written can never predict -1, and cubic single experts without biases reach 53 % in "
    "setting 1, not the published 79 %",
)
def positive_outputs() -> Finding:
    """Eq. 3.1 has no output weights: an expert of ReLUs is never negative, whatever its filters and the sample."""
    task = ClusterTask.setting(3)
    samples = task.sample(200, trials=[0], seed=0, split="test")
    filters = torch.as_tensor(stream(0, 0, "filters").standard_normal((1, 8, 16, task.dimension)), dtype=torch.float32)
    lowest = {}
    for name, signs in (
        ("eq. 3.1", torch.ones(16)),
        ("half negative", torch.ones(16).index_fill(0, torch.arange(8), -1)),
    ):
        lowest[name] = float(Layer(samples, "relu", signs).every(filters).min())
    return Finding(
        "eq. 3.1, output weights",
        judged(True, lowest["eq. 3.1"] >= 0 > lowest["half negative"]),
        f"The lowest output of 8 random ReLU experts on 200 samples is {lowest['eq. 3.1']:.2g} under eq. 3.1, and "
        f"{lowest['half negative']:.2g} if half of the filters count negatively, as theorem 4.1's a_j allow.",
        lowest,
    )


paper.erratum(
    "balance-weight",
    "table 9",
    printed="nothing: the weight of the load-balancing loss is given for images only (1e-3)",
    instead="1e-3 or 1e-4: the authors' code has both",
    evidence="appendix A.2 against A.3",
)

paper.erratum(
    "dispatch-setting",
    "tables 4 to 6",
    printed="nothing: which setting the examples are from",
    instead="probably setting 1 or 2 for table 6, whose 90.61 % lies between their means",
    evidence="appendix A.2",
)

paper.erratum(
    "algorithm1-steps",
    "algorithm 1, line 3",
    printed="t = 0, 2, ..., T-1",
    instead="t = 0, 1, ..., T-1",
    evidence="every step follows from the one before (eq. 3.4 and 3.5)",
)

paper.erratum(
    "cifar-blur",
    "figure 6, caption, against appendix A.3",
    printed="random Gaussian blur (caption) and random Gaussian noise (text), of the same images",
    instead="one of the two",
    evidence="the paper contradicts itself",
)


def least_linear_loss(feature: tuple[float, float]) -> float:
    """Returns the least logistic loss of a linear classifier without noise, alpha and gamma uniform in a range.

    By symmetry it gives each signal the same weight w: the mean of log(1 + exp(-w (alpha +- gamma))) over both signs.
    """
    places = (np.arange(400) + 0.5) / 400 * (feature[1] - feature[0]) + feature[0]
    scores = np.stack([places[:, None] + places, places[:, None] - places])
    return float(minimize_scalar(lambda weight: np.logaddexp(0, -weight * scores).mean(), bounds=(0, 9)).fun)
