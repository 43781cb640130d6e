"""The claims of pruning2024's figure 10: how FLOPs and time fall with the experts of models that are built here.

FLOPs are counted as the released models compute; time is measured with random weights, as it does not depend on them.
"""

from __future__ import annotations

from moe_lab_papers.claim import Claim, Measurement, Published, Rule, share_from
from moe_lab_papers.pruning2024.inference_measures import MODELS, straightness

_MEASURES = "moe_lab_papers.pruning2024.inference_measures"
COUNTED = Measurement(
    name="pruning2024/figure10-counted",
    function=f"{_MEASURES}:counted",
    quick={},
    full={},
    seconds=(0.5, 0.5),
    seeded=False,
)
V_MOE = Measurement(
    name="pruning2024/figure10-v-moe-time",
    function=f"{_MEASURES}:timed",
    quick={"model": "v-moe-cifar-100", "blocks": 2, "repeats": 5},
    full={"model": "v-moe-cifar-100", "blocks": 12, "repeats": 9},
    seconds=(4, 50),
)
E3 = Measurement(
    name="pruning2024/figure10-e3-time",
    function=f"{_MEASURES}:timed",
    quick={"model": "e3-cifar-10", "blocks": 8, "repeats": 5},
    full={"model": "e3-cifar-10", "blocks": 8, "repeats": 15},
    seconds=(3, 9),
)


def _time(panel: str, words: str, measurement: Measurement, reason: str) -> Claim:
    return Claim(
        id=f"pruning2024/figure10{panel}/time-linear",
        where=f"section B.4, figure 10{panel}",
        statement=f"the inference time of {words} falls linearly with the share of experts pruned",
        published=Published(relation="a straight line"),
        measurement=measurement,
        read=lambda data: straightness(data["milliseconds"].median("repeat")),
        rule=Rule(in_kind=share_from(0.95)),
        reason=f"random weights on one thread of a CPU, where the paper has two GPUs{reason}",
        unit="r squared",
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="pruning2024/figure10/operations-linear",
        where="section B.4, figures 10b, d, f and h",
        statement="the FLOPs of an image fall linearly with the share of experts pruned, for the V-MoE on CIFAR-100 "
        "and on ImageNet and for the E3 on CIFAR-10 and on CIFAR-100",
        published=Published(relation="straight lines"),
        measurement=COUNTED,
        read=lambda data: [straightness(data["operations"].sel(model=model)) for model in MODELS],
        rule=Rule(agrees=share_from(0.999), of="lowest", follows=True),
        unit="r squared",
    ),
    _time(
        panel="c",
        words="the V-MoE of CIFAR-100",
        measurement=V_MOE,
        reason="; the quick budget has one of the six pairs of blocks",
    ),
    _time(panel="g", words="the E3 of CIFAR-10", measurement=E3, reason=""),
)
