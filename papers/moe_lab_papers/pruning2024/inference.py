"""The claims of pruning2024's figure 10: how inference time falls with the experts of models that are built here.

Weights are random, as time does not depend on them. That FLOPs fall linearly follows from how they are counted.
"""

from __future__ import annotations

from moe_lab_papers.claim import Claim, Measurement, Published, Rule, share_from
from moe_lab_papers.pruning2024.inference_measures import straightness

_MEASURES = "moe_lab_papers.pruning2024.inference_measures"
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
    _time(
        panel="c",
        words="the V-MoE of CIFAR-100",
        measurement=V_MOE,
        reason="; the quick budget has one of the six pairs of blocks",
    ),
    _time(panel="g", words="the E3 of CIFAR-10", measurement=E3, reason=""),
)
