"""Figures 6 and 10 of pruning2024 in kind, what the sizes of its models add up to, and what appendix C has exactly.

Memory and FLOPs of an untrained layer follow from its sizes, as those of whole models do; its time is measured.
"""

from __future__ import annotations

from functools import partial

import xarray as xr

from moe_lab.pruning.published import STATEMENTS
from moe_lab_papers.claim import Claim, Measurement, Published, Rule, half_to_double, near, selected, share_from, up_to
from moe_lab_papers.pruning2024.sources import FIGURES, MEASURES, PICTURE

_SMALL = {"experts": 16, "tokens": 96, "kept_tokens": 12}

EFFICIENCY = Measurement(
    name="pruning2024/efficiency",
    function=f"{FIGURES}:efficiency",
    quick={"rho": (0.0, 0.125, 0.25, 0.5, 0.75, 0.875), **_SMALL},
    full={"rho": tuple(pruned / 8 for pruned in range(8)), "repeats": 15, **_SMALL},
    seconds=(4, 8),
    device=True,
    picture=PICTURE,
    sees="FLOPs, memory and time of the layer fall along straight lines, nearly in proportion to the experts.",
)
SIZES = Measurement(
    name="pruning2024/vision-models",
    function=f"{MEASURES}:vision_models",
    quick={},
    full={},
    seconds=(0.1, 0.1),
    seeded=False,
)
GRADIENTS = Measurement.sized(
    name="pruning2024/gradients", function=f"{MEASURES}:gradients", sizes={"trials": (20, 200)}, seconds=(0.2, 1)
)
INDEPENDENCE = Measurement.sized(
    name="pruning2024/independence",
    function=f"{MEASURES}:independence",
    sizes={"trials": (4, 20)},
    seconds=(2, 8),
    device=True,
)

_LAYER = "one layer, where a vision model has other parts that pruning leaves unchanged"


def _saved(data: xr.Dataset) -> xr.DataArray:
    times = data["seconds"].median("repeat")
    return 1 - times.sel(rho=0.75) / times.sel(rho=0.0)


_efficiency = partial(Claim, measurement=EFFICIENCY, not_comparable=_LAYER)
_TIMES = (
    _efficiency(
        id="pruning2024/figure10/time-linear",
        where="section B.4, figure 10",
        statement="inference time falls linearly with the share of experts pruned",
        published=Published(relation="a straight line"),
        read=selected("r_squared", quantity="seconds"),
        rule=Rule(in_kind=share_from(0.95), of="lowest"),
        unit="r squared",
    ),
    _efficiency(
        id="pruning2024/figure1/time-saved",
        where="section 1",
        statement="pruning 75 % of the experts saves this share of the time",
        published=Published(value=STATEMENTS["cifar-10/time"].value, relation="of the V-MoE's, CIFAR-10"),
        read=_saved,
        rule=Rule(in_kind=half_to_double(STATEMENTS["cifar-10/time"].value), of="lowest"),
        unit="of the layer's",
    ),
)

_EVEN = (
    "counted as if all experts received equally many tokens; pruned ones may receive fewer, and buffers may be padded"
)
_STATED = f"of the 577 tokens of appendix A and 20 of 48 experts, which are section 5.2.1's 42 %; {_EVEN}"
_FIVE = "20 of 48 experts hold 33 % of all parameters by the sizes in section 5.2 and appendix A"


_COUNTED = tuple(
    Claim(
        id=f"pruning2024/{place}",
        where=STATEMENTS[key].place,
        statement=f"pruning the experts saves this share of the {words}, by the sizes of section 5.2 and appendix A",
        published=Published(value=STATEMENTS[key].value),
        measurement=SIZES,
        read=selected(quantity, pruned=name),
        rule=Rule(
            agrees=near(STATEMENTS[key].value, 0.005), in_kind=half_to_double(STATEMENTS[key].value), follows=True
        ),  # printed as whole per cents
        reason=reason,
        unit="of the whole model's",
    )
    for place, key, name, quantity, words, reason in (
        ("figure1/parameters", "cifar-10/tuned/model", "cifar-10/tuned", "parameter_share", "parameters", ""),
        ("figure4b/parameters", "cifar-10/bare/model", "cifar-10/bare", "parameter_share", "parameters", _FIVE),
        (
            "section5.2.1/cifar-100-parameters",
            "cifar-100/model",
            "cifar-100",
            "parameter_share",
            "parameters",
            "half of 48 experts hold 39.9 %",
        ),
        ("figure8/parameters", "e3-cifar/model", "e3-cifar", "parameter_share", "parameters", ""),
        ("figure6/v-moe-operations", "cifar-10/operations", "cifar-10/tuned", "operations_share", "FLOPs", _EVEN),
        ("figure10/e3-operations", "e3-cifar-100/operations", "e3-cifar", "operations_share", "FLOPs", _EVEN),
        ("figure10/imagenet-operations", "imagenet/operations", "imagenet", "operations_share", "FLOPs", _STATED),
    )
)


_EXACT = tuple(
    Claim(
        id=f"pruning2024/appendixC/{place}",
        where=where,
        statement=statement,
        published=Published(value=0, relation="difference, up to rounding"),
        measurement=measurement,
        read=read,
        rule=Rule(agrees=up_to(1e-10), of="highest"),
        unit="relative",
    )
    for place, where, statement, measurement, read in (
        (
            "router-gradient",
            "appendix C, equations 14 to 16",
            "the printed components are the derivative of 1 - y f along a router",
            GRADIENTS,
            lambda data: data["router_gap"],
        ),
        (
            "neuron-gradient",
            "appendix C, equations 17 to 19",
            "the printed components are the derivative of 1 - y f along a neuron",
            GRADIENTS,
            lambda data: data["neuron_gap"],
        ),
        (
            "independent-experts",
            "appendix C, gradients",
            "where experts choose, an expert learns the same whether others are pruned or not",
            INDEPENDENCE,
            lambda data: data["gap"].sel(kind="expert-choice"),
        ),
    )
)

CLAIMS: tuple[Claim, ...] = (*_TIMES, *_COUNTED, *_EXACT)
