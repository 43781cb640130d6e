"""The claims of chen2022's table 2, about deep networks on images that are turned or not.

On CIFAR-10-Rotate they are measured where a folder of CIFAR-10's files is given. MobileNetV2 has no model here.
Turned digits are not comparable with it. What they show is read as the paper states it: a mixture of networks is ahead
of a single one where the data have clusters.
"""

from __future__ import annotations

import math

from moe_lab.vision.figures import controls
from moe_lab_papers.chen2022.deep_measures import rotated
from moe_lab_papers.claim import Needs
from moe_lab_papers.paper import Paper, budgets, says
from moe_lab_papers.ranges import half_to_double, near, plus_minus
from moe_lab_papers.readers import at, difference

paper = Paper("chen2022", picture="moe_lab.vision.plots:picture")

_WHERE = "section 6.2, table 2"
_MODELS = ("single", "mixture")
_PUBLISHED = {
    "cnn": ("the CNN of two convolutions", (0.7678, 0.0179), (0.7960, 0.0125)),
    "resnet18": ("ResNet18", (0.8823, 0.0096), (0.9260, 0.0201)),
}
"""Mean and deviation of ten trainings: one network, and a mixture of four."""
_TRAININGS = 10


def _published_gain(network: str) -> tuple[float, float]:
    """The gain of table 2, and its standard error."""
    _, (single, one), (mixture, other) = _PUBLISHED[network]
    return mixture - single, math.hypot(one, other) / math.sqrt(_TRAININGS)


_GAIN = difference("test_accuracy", model=("mixture", "single"))
_OF_CNNS = _published_gain("cnn")[0]
jittered = paper.measure(
    "table2-digits-jittered",
    controls,
    seconds=(21, 112),
    sees="Turned by 30 degrees, one network that learns has nearly all digits right, and a mixture too.",
    kind="jittered",
    models=_MODELS,
    trials=budgets(3, 16),
)
reversed_ = paper.measure(
    "table2-digits-reversed",
    controls,
    seconds=(22, 70),
    sees="Where negatives have the opposite answer, a mixture never fails, one may.",
    kind="reversed",
    models=_MODELS,
    trials=budgets(3, 10),
)
for kind, measured, words, shown in (
    (
        "jittered",
        jittered,
        "digits turned by 30 degrees or not",
        "digits in place of photographs, both models trained alike, and nothing but the digit tells how far it is "
        "turned; a mixture of four is right on 97 %, one network of 130 parameters on 96 %, but on 50 % in one "
        "of nine trainings, where it does not learn",
    ),
    (
        "reversed",
        reversed_,
        "digits turned left or right, the answer reversed on negatives",
        "digits in place of photographs, both models trained alike; one CNN of three filters solves this in most "
        "trainings and fails in some, four of fifteen at three seeds: the median gain is under a point, or "
        "half of all where most trials fail",
    ),
):
    measured.claim(
        f"table2/digits-{kind}-gain",
        f"where the data have clusters a mixture of small CNNs is ahead of a single one: {words}",
        _GAIN,
        says(round(_OF_CNNS, 4), "of the CNNs on CIFAR-10-Rotate").in_kind(half_to_double(_OF_CNNS), of="median"),
        not_comparable=shown,
        where=_WHERE,
        unit="accuracy",
    )

_CIFAR = {
    network: paper.measure(
        f"table2-{network}",
        rotated,
        seconds=seconds,
        needs=Needs(
            what="CIFAR-10's binary version (cifar-10-binary.tar.gz, or the folder in it)",
            argument="root",
            pattern="cifar-10-*bin*",
        ),
        where=_WHERE,
        reason="the quick budget trains on 4,000 images for 5 epochs, and ResNet18 with a quarter of its channels",
        network=network,
        width=width,
        samples=budgets(4000, 100_000),
        epochs=budgets(5, 50),
        trials=budgets(2, 10),
        test_samples=budgets(2000, 20_000),
    )
    for network, seconds, width in (
        ("cnn", (400, 300_000), None),
        ("resnet18", (900, 10**7), budgets(16, None)),
    )
}
for network, (words, *numbers) in _PUBLISHED.items():
    for model, (value, spread) in zip(_MODELS, numbers, strict=True):
        _CIFAR[network].claim(
            f"table2/{network}-rotate-{model}",
            f"{'a mixture of four' if model == 'mixture' else 'a single one'} of {words} reaches {100 * value:.2f} % "
            "on CIFAR-10-Rotate",
            at("test_accuracy", model=model),
            says(value, spread=spread).agrees(plus_minus(2 * spread)),
        )
for network, (words, *_) in _PUBLISHED.items():
    gain, error = _published_gain(network)
    _CIFAR[network].claim(
        f"table2/{network}-rotate-gain",
        f"a mixture of four of {words} is ahead of a single one on CIFAR-10-Rotate",
        _GAIN,
        says(round(gain, 4)).agrees(near(gain, 2 * error), half_to_double(gain)),
        unit="accuracy",
    )
