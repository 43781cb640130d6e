"""Figures 6 and 10 of pruning2024 in kind, what the sizes of its models add up to, and what appendix C has exactly.

Memory and FLOPs of an untrained layer follow from its sizes, as those of whole models do; its time is measured.
"""

from __future__ import annotations

import xarray as xr

from moe_lab.pruning.costs import efficiency
from moe_lab.pruning.published import STATEMENTS
from moe_lab_papers.paper import Paper, budgets, says
from moe_lab_papers.pruning2024 import measures
from moe_lab_papers.ranges import factor_of_two, plus_minus, share_from, up_to
from moe_lab_papers.readers import at, reader

paper = Paper("pruning2024", picture="moe_lab.pruning.plots:picture")

layer = paper.measure(
    "efficiency",
    efficiency,
    seconds=(4, 8),
    sees="FLOPs, memory and time of the layer fall along straight lines, nearly in proportion to the experts.",
    not_comparable="one layer, where a vision model has other parts that pruning leaves unchanged",
    rho=budgets((0.0, 0.125, 0.25, 0.5, 0.75, 0.875), tuple(pruned / 8 for pruned in range(8))),
    repeats=budgets(full=15),
    experts=16,
    tokens=96,
    kept_tokens=12,
)


@reader
def time_saved(data: xr.Dataset) -> xr.DataArray:
    """Returns the share of the median time saved without three quarters of the experts."""
    times = data["seconds"].median("repeat")
    return 1 - times.sel(rho=0.75) / times.sel(rho=0.0)


layer.claim(
    "figure10/time-linear",
    "inference time falls linearly with the share of experts pruned",
    at("r_squared", quantity="seconds"),
    says("a straight line").in_kind(share_from(0.95), of="lowest"),
    where="section B.4, figure 10",
    unit="r squared",
)
layer.claim(
    "figure1/time-saved",
    "pruning 75 % of the experts saves this share of the time",
    time_saved(),
    says(STATEMENTS["cifar-10/time"].value, "of the V-MoE's, CIFAR-10").in_kind(factor_of_two(), of="lowest"),
    where="section 1",
    unit="of the layer's",
)

_EVEN = (
    "counted as if all experts received equally many tokens; pruned ones may receive fewer, and buffers may be padded"
)
_STATED = f"of the 577 tokens of appendix A and 20 of 48 experts, which are section 5.2.1's 42 %; {_EVEN}"
_FIVE = "20 of 48 experts hold 33 % of all parameters by the sizes in section 5.2 and appendix A"
_HALF = "half of 48 experts hold 39.9 %"
sizes = paper.measure("vision-models", measures.vision_models, seconds=(0.1, 0.1), unit="of the whole model's")
for place, key, name, words, reason in (
    ("figure1/parameters", "cifar-10/tuned/model", "cifar-10/tuned", "parameters", ""),
    ("figure4b/parameters", "cifar-10/bare/model", "cifar-10/bare", "parameters", _FIVE),
    ("section5.2.1/cifar-100-parameters", "cifar-100/model", "cifar-100", "parameters", _HALF),
    ("figure8/parameters", "e3-cifar/model", "e3-cifar", "parameters", ""),
    ("figure6/v-moe-operations", "cifar-10/operations", "cifar-10/tuned", "FLOPs", _EVEN),
    ("figure10/e3-operations", "e3-cifar-100/operations", "e3-cifar", "FLOPs", _EVEN),
    ("figure10/imagenet-operations", "imagenet/operations", "imagenet", "FLOPs", _STATED),
):
    sizes.claim(
        place,
        f"pruning the experts saves this share of the {words}, by the sizes of section 5.2 and appendix A",
        at("parameter_share" if words == "parameters" else "operations_share", pruned=name),
        says(STATEMENTS[key].value).follows(plus_minus(0.005), factor_of_two()),  # printed as whole per cents
        reason,
        where=STATEMENTS[key].place,
    )

_EXACTLY = says(0, "difference, up to rounding").agrees(up_to(1e-10), of="highest")
gradients = paper.measure("gradients", measures.gradients, seconds=(0.2, 1), unit="relative", trials=budgets(20, 200))
for name, equations in (("router", "14 to 16"), ("neuron", "17 to 19")):
    gradients.claim(
        f"appendixC/{name}-gradient",
        f"the printed components are the derivative of 1 - y f along a {name}",
        at(f"{name}_gap"),
        _EXACTLY,
        where=f"appendix C, equations {equations}",
    )
independence = paper.measure("independence", measures.independence, seconds=(2, 8), trials=budgets(4, 20))
independence.claim(
    "appendixC/independent-experts",
    "where experts choose, an expert learns the same whether others are pruned or not",
    at("gap", kind="expert-choice"),
    _EXACTLY,
    where="appendix C, gradients",
    unit="relative",
)
