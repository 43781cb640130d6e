"""The claims of pruning2024's figure 10: how inference time falls with the experts of models that are built here.

Weights are random, as time does not depend on them. That FLOPs fall linearly follows from how they are counted.
"""

from __future__ import annotations

import xarray as xr

from moe_lab_papers.paper import Paper, budgets, says
from moe_lab_papers.pruning2024 import inference_measures as measures
from moe_lab_papers.ranges import share_from
from moe_lab_papers.readers import reader

paper = Paper("pruning2024")
v_moe = paper.measure(
    "figure10-v-moe-time",
    measures.timed,
    seconds=(4, 50),
    model="v-moe-cifar-100",
    blocks=budgets(2, 12),
    repeats=budgets(5, 9),
)
e3 = paper.measure(
    "figure10-e3-time", measures.timed, seconds=(3, 9), model="e3-cifar-10", blocks=8, repeats=budgets(5, 15)
)


@reader
def straightness(data: xr.Dataset) -> float:
    """Returns r squared of the line through the median times."""
    return measures.straightness(data["milliseconds"].median("repeat"))


_CPU = "random weights on one thread of a CPU, where the paper has two GPUs"
for panel, words, measured, reason in (
    ("c", "the V-MoE of CIFAR-100", v_moe, f"{_CPU}; the quick budget has one of the six pairs of blocks"),
    ("g", "the E3 of CIFAR-10", e3, _CPU),
):
    measured.claim(
        f"figure10{panel}/time-linear",
        f"the inference time of {words} falls linearly with the share of experts pruned",
        straightness(),
        says("a straight line").in_kind(share_from(0.95)),
        reason,
        where=f"section B.4, figure 10{panel}",
        unit="r squared",
    )
