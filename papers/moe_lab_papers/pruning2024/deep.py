"""The claims of pruning2024's section 5.2 about vision models.

What pruning saves is counted on the released models' architectures, and timed with random weights. What is counted
follows from their sizes. What pruning costs in accuracy is measured on a tiny V-MoE that is trained here, in kind; on
released weights see `released`.

A saving agrees within half a per cent where it is counted, as it is printed in whole ones, and within two where it is
timed. It agrees in kind from half to twice the published saving.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import xarray as xr

from moe_lab.pruning.published import STATEMENTS
from moe_lab_papers.claim import Claim, Measurement, Published, Read, Rule, at_most, half_to_double, near, share_from
from moe_lab_papers.pruning2024.deep_measures import OURS

MEASURES = "moe_lab_papers.pruning2024.deep_measures"

BUILT = Measurement(
    name="pruning2024/built", function=f"{MEASURES}:built", quick={}, full={}, seconds=(0.5, 0.5), seeded=False
)
V_MOE_TIME = Measurement(
    name="pruning2024/v-moe-time",
    function=f"{MEASURES}:timed",
    quick={"model": "b16", "blocks": 2, "repeats": 9},
    full={"model": "b16", "blocks": 12, "repeats": 5},
    seconds=(8, 40),
)
E3_TIME = Measurement.sized(
    name="pruning2024/e3-time",
    function=f"{MEASURES}:timed",
    sizes={"model": ("e3-s32", "e3-s32"), "blocks": (8, 8), "repeats": (9, 15)},
    seconds=(6, 8),
)
TINY = Measurement.sized(
    name="pruning2024/tiny-v-moe",
    function=f"{MEASURES}:tiny",
    sizes={"trials": (2, 10)},
    seconds=(77, 320),  # 35 for the pre-training, which is then kept in the cache
)


def _saved(quantity: str, model: str = "") -> Read:
    def read(data: xr.Dataset) -> Any:
        values = data[quantity].sel(model=model) if model else data[quantity]
        left = values.sel(kept=2) / values.sel(kept=8)
        return 1 - (left if model else left.median("repeat"))  # turn by turn: what else runs slows both

    return read


_PADDED = (
    "buffers hold half as many tokens again as an equal share (the released capacity factor), and are computed whole, "
    "so that more goes with the experts than even routing would say"
)
_UNCOUNTED = f"{_PADDED}; E3's images of 128 pixels have 17 tokens, where the paper says 65"
_SAVED = tuple(
    Claim(
        id=f"pruning2024/{place}",
        where=f"{where}",
        statement=f"pruning 75 % of the experts saves this share of the {words}",
        published=Published(value=STATEMENTS[key].value, relation=whose),
        measurement=measurement,
        read=read,
        rule=Rule(
            agrees=near(STATEMENTS[key].value, 0.005 if measurement is BUILT else 0.02),
            in_kind=half_to_double(STATEMENTS[key].value),
            follows=measurement is BUILT,
        ),
        reason=reason,
        unit="of the whole model's",
    )
    for place, where, words, key, whose, measurement, read, reason in (
        (
            "figure6/v-moe-built-operations",
            "section 5.2.1, figure 6",
            "FLOPs of V-MoE B/16, as built",
            "cifar-10/operations",
            "of the V-MoE's, CIFAR-10",
            BUILT,
            _saved("operations", "b16"),
            _PADDED,
        ),
        (
            "figure10/e3-built-operations",
            "section 5.2.1, figure 10h",
            "FLOPs of E3 S/32, as built",
            "e3-cifar-100/operations",
            "of the E3's, CIFAR-100",
            BUILT,
            _saved("operations", "e3-s32"),
            _UNCOUNTED,
        ),
        (
            "figure10/v-moe-time",
            "section 1, figure 10a",
            "time of V-MoE B/16, with random weights on a CPU",
            "cifar-10/time",
            "of the V-MoE's, CIFAR-10, on two GPUs",
            V_MOE_TIME,
            _saved("milliseconds"),
            f"another device; {_PADDED}; the quick budget has one of the six pairs of blocks. Times of a busy machine "
            "scatter: .42 to .49 in twelve runs, so that it may differ or agree in kind",
        ),
        (
            "figure10/e3-time",
            "section 5.2.1, figure 10i",
            "time of E3 S/32, with random weights on a CPU",
            "e3-cifar-100/operations",
            "of the E3's, CIFAR-100, on two GPUs",
            E3_TIME,
            _saved("milliseconds"),
            f"another device; {_UNCOUNTED}",
        ),
    )
)


# --- a tiny V-MoE ---------------------------------------------------------------------------------------------------


def ours(data: xr.Dataset) -> xr.DataArray:
    """The accuracy by the number of experts that go by the change of the router's norm."""
    return data["accuracy"].sel(criterion=OURS)


def _ahead(*others: str) -> Read:
    """How far the change of the norm is ahead of the best of the others, on average over the numbers of experts."""

    def read(data: xr.Dataset) -> Any:
        lead = ours(data) - data["accuracy"].sel(criterion=list(others)).max("criterion")
        return lead.where(lead["pruned"] > 0, drop=True).mean("pruned")

    return read


def _bound(*others: str) -> Read:
    """The least lead over the best of the others, in any trial and at any number of experts."""

    def read(data: xr.Dataset) -> Any:
        lead = ours(data) - data["accuracy"].sel(criterion=list(others)).max("criterion")
        return lead.where(lead["pruned"] > 0, drop=True).min()

    return read


_DIGITS = "a V-MoE of 211,114 parameters with 16 experts on 8x8 digits, not one with 48 on photographs"
ONE_PERCENT = 0.01
_ERROR = 0.005
"""The standard error of a difference between two criteria, over a few trials on 500 images."""
_tiny = partial(Claim, measurement=TINY)
_OTHERS = {
    "a": ("importance score", ("importance-score",)),
    "b": ("the norms of routers and of neurons", ("router-magnitude", "neuron-magnitude")),
    "c": ("the change of the neurons' norm", ("neuron-magnitude-change",)),
}
_TINY = (
    _tiny(
        id="pruning2024/figure1/lost-v-moe",
        where="section 1, figure 1",
        statement="fine-tuned again, a V-MoE without 75 % of its experts loses at most one per cent of accuracy",
        published=Published(value=ONE_PERCENT, bound="at most", relation="CIFAR-10"),
        read=lambda data: ours(data).sel(pruned=0) - data["again"],
        rule=Rule(in_kind=at_most(ONE_PERCENT)),
        not_comparable=f"{_DIGITS}; it gains, as the whole model was not trained again for as long: there is no such "
        "control here, nor in the paper",
        unit="accuracy",
    ),
    _tiny(
        id="pruning2024/figure4b/lost-v-moe",
        where="section 5.2.1, figure 4b",
        statement="not fine-tuned again, a V-MoE without half of its experts loses at most one per cent of accuracy",
        published=Published(value=ONE_PERCENT, bound="at most", relation="with one layer left whole, CIFAR-10"),
        read=lambda data: ours(data).sel(pruned=0) - ours(data).sel(pruned=4),
        rule=Rule(in_kind=at_most(ONE_PERCENT)),
        not_comparable=f"{_DIGITS}; both of its mixtures are pruned, where the paper leaves the penultimate of six "
        "whole",
        unit="accuracy",
    ),
    _tiny(
        id="pruning2024/figure4a/random-v-moe",
        where="section 5.2.1, figure 4a",
        statement="a V-MoE pruned by the change of the router's norm is more accurate than one pruned at random",
        published=Published(relation="random falls sharply, the change of the norm does not"),
        read=_ahead("random"),
        rule=Rule(in_kind=share_from(_ERROR)),
        not_comparable=f"{_DIGITS}; not fine-tuned after pruning",
        unit="accuracy",
    ),
    _tiny(
        id="pruning2024/section5.2.1/penultimate-v-moe",
        where="section 5.2.1, below figure 4",
        statement="not fine-tuned again, a V-MoE loses more accuracy where half of the experts of its penultimate "
        "mixture are pruned than of its last",
        published=Published(relation="extra sensitivity of the penultimate MoE layer"),
        read=lambda data: data["alone"].isel(block=-1) - data["alone"].isel(block=-2),
        rule=Rule(in_kind=share_from(_ERROR)),
        not_comparable=f"{_DIGITS}; it has two mixtures, of which the penultimate is the first, where the paper has "
        "six. The means of three trainings are -.005, .006 and .009 at seeds 0, 11 and 12, and single ones are from "
        "-.018 to .030: neither is more sensitive",
        unit="accuracy",
    ),
    *(
        _tiny(
            id=f"pruning2024/figure5{letter}/upper-bound-v-moe",
            where=f"section 5.2.1, figure 5{letter}",
            statement="pruning a V-MoE by the change of the router's norm is an upper bound to pruning it by "
            f"{words}, at any number of experts",
            published=Published(relation="consistently an upper bound: never behind"),
            read=_bound(*names),
            rule=Rule(in_kind=share_from(-_ERROR)),
            not_comparable=f"{_DIGITS}; a bound holds in every training, and in single ones the change of the norm is "
            "1 to 5 points behind at some number of experts; on average over nine trainings at most 2, the error 1",
            unit="accuracy",
        )
        for letter, (words, names) in _OTHERS.items()
    ),
)


CLAIMS: tuple[Claim, ...] = (*_SAVED, *_TINY)
