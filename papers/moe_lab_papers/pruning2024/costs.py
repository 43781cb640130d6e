"""Figures 6 and 10 of pruning2024 in kind, what the sizes of its models add up to, and what appendix C has exactly.

Memory and FLOPs of an untrained layer follow from its sizes, as those of whole models do; its time is measured.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import xarray as xr

from moe_lab.pruning.published import STATEMENTS
from moe_lab_papers.claim import Claim, Measurement, Published, Read, Rule, near, selected, share_from, up_to
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


def _saved(quantity: str) -> Read:
    def read(data: xr.Dataset) -> Any:
        values = data[quantity].median("repeat") if "repeat" in data[quantity].dims else data[quantity]
        return 1 - values.sel(rho=0.75) / values.sel(rho=0.0)

    return read


_efficiency = partial(Claim, measurement=EFFICIENCY, reason=_LAYER)
_LINES = tuple(
    _efficiency(
        id=f"pruning2024/{place}-linear",
        where=where,
        statement=f"{words} falls linearly with the share of experts pruned",
        published=Published(relation="a straight line"),
        read=selected("r_squared", quantity=quantity),
        rule=rule,
        unit="r squared",
    )
    for place, where, words, quantity, rule in (
        (
            "figure6/operations",
            "section 5.2.1, figure 6",
            "the number of FLOPs",
            "operations",
            Rule(agrees=share_from(0.95), of="lowest", follows=True),
        ),
        (
            "figure10/time",
            "section B.4, figure 10",
            "inference time",
            "seconds",
            Rule(in_kind=share_from(0.95), of="lowest"),
        ),
    )
)
_PRUNED = 0.75
"""Of the experts, the most that a layer can save; a layer saves more than the model around it, as published, does."""
_SAVED = tuple(
    _efficiency(
        id=f"pruning2024/figure1/{place}-saved",
        where="section 1",
        statement=f"pruning 75 % of the experts saves {words}",
        published=Published(value=STATEMENTS[key].value, relation="of the V-MoE's, CIFAR-10"),
        read=_saved(quantity),
        rule=(
            Rule(in_kind=(STATEMENTS[key].value, _PRUNED), of="lowest")
            if quantity == "seconds"
            else Rule(agrees=(STATEMENTS[key].value, _PRUNED), of="lowest", follows=True)
        ),
        unit="of the layer's",
    )
    for place, words, quantity, key in (
        ("memory", "this share of the memory", "bytes", "cifar-10/tuned/model"),
        ("operations", "this share of the FLOPs", "operations", "cifar-10/operations"),
        ("time", "this share of the time", "seconds", "cifar-10/time"),
    )
)

_EVEN = (
    "counted as if all experts received equally many tokens; pruned ones may receive fewer, and buffers may be padded"
)
_GUESSED = (
    "it rests on two guesses, as the paper states neither: images of 384 pixels, which have 577 tokens, and 20 of 48 "
    f"experts; {_EVEN}"
)
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
            agrees=near(STATEMENTS[key].value, 0.005), in_kind=near(STATEMENTS[key].value, 0.045), follows=True
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
        ("section5.2.1/imagenet-parameters", "imagenet/model", "imagenet", "parameter_share", "parameters", _FIVE),
        ("figure8/parameters", "e3-cifar/model", "e3-cifar", "parameter_share", "parameters", ""),
        ("figure6/v-moe-operations", "cifar-10/operations", "cifar-10/tuned", "operations_share", "FLOPs", _EVEN),
        ("figure10/e3-operations", "e3-cifar-100/operations", "e3-cifar", "operations_share", "FLOPs", _EVEN),
        ("figure10/imagenet-operations", "imagenet/operations", "imagenet", "operations_share", "FLOPs", _GUESSED),
    )
)


def _whole(model: str) -> Read:
    return lambda data: data["parameters"].sel(model=model, experts=8) / 1e6


_WHOLE = tuple(
    Claim(
        id=f"pruning2024/appendixA/{name}-parameters",
        where="appendix A",
        statement=f"the {words} with 8 experts per encoder has this many parameters",
        published=Published(value=STATEMENTS[f"{name}/parameters"].value / 1e6, relation="roughly"),
        measurement=SIZES,
        read=_whole(name),
        rule=Rule(
            agrees=near(
                STATEMENTS[f"{name}/parameters"].value / 1e6, 0.05 * STATEMENTS[f"{name}/parameters"].value / 1e6
            ),
            follows=True,
        ),
        reason="32 experts and a pre-training head of 18,291 classes give the printed number; the models of section "
        "5.2 have 8 and a small head",
        unit="million",
    )
    for name, words in (("v-moe", "V-MoE"), ("e3", "E3"))
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

CLAIMS: tuple[Claim, ...] = (*_LINES, *_SAVED, *_COUNTED, *_WHOLE, *_EXACT)
