"""The claims of pruning2024's section 5.2.1 on released weights, measured where a folder of them is given."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from moe_lab_papers.claim import Claim, Measurement, Needs, Published, Rule, at_most, share_from
from moe_lab_papers.pruning2024.deep import MEASURES, ONE_PERCENT, ours
from moe_lab_papers.pruning2024.deep_measures import OURS

_CHECKPOINTS = {
    "e3-s32": ("eee_s32_last2_ilsvrc2012", "eee_s32_last2_ilsvrc2012_ft_cifar100", "cifar-100"),
    "b16": ("vmoe_b16_imagenet21k_randaug_strong", "vmoe_b16_imagenet21k_randaug_strong_ft_cifar10", "cifar-10"),
}
"""By config: the released checkpoint, the one fine-tuned from it, and its data set. That V-MoE is not released."""


def _weights(model: str, pruned: tuple[int, ...], seconds: tuple[float, float], **more: Any) -> Measurement:
    before, after, data = _CHECKPOINTS[model]
    same: dict[str, Any] = {"config": model, "start": before, "end": after, "data": data}
    same |= {"pruned": pruned, "criteria": (OURS, "random"), **more}
    source = "gs://vmoe_checkpoints" if model == "e3-s32" else "the former from gs://vmoe_checkpoints, the latter own"
    return Measurement(
        name=f"pruning2024/{model}-{data}",
        function=f"{MEASURES}:released",
        quick={**same, "batches": 8},
        full={**same, "batches": 10_000},
        seconds=seconds,
        needs=Needs(
            what=f"the checkpoints {before} and {after} ({source}) and {data}'s binary version",
            argument="root",
            pattern=f"{after}.index",
            others=(f"{before}.index", f"{data}*bin*"),
        ),
    )


E3_WEIGHTS = _weights("e3-s32", (0, 3), (150, 1500))
V_MOE_WEIGHTS = _weights("b16", (0, 4), (60, 8000), whole=(9,))


def _lost(data: xr.Dataset) -> np.ndarray:
    accuracy = ours(data)
    return np.asarray(accuracy.sel(pruned=0) - accuracy.isel(pruned=-1))


def _over_random(data: xr.Dataset) -> np.ndarray:
    return np.asarray((ours(data) - data["accuracy"].sel(criterion="random")).isel(pruned=-1))


_released = partial(
    Claim, reason="without fine-tuning after pruning; the quick budget tests on eight batches", unit="accuracy"
)
_within_one = partial(
    _released,
    published=Published(value=ONE_PERCENT, bound="at most"),
    read=_lost,
    rule=Rule(agrees=at_most(ONE_PERCENT)),
)
CLAIMS: tuple[Claim, ...] = (
    _within_one(
        id="pruning2024/figure4b/v-moe-cifar-10-released",
        where="section 5.2.1 and B.2, figure 4b",
        statement="V-MoE B/16 without half of its experts, but for one layer's, loses at most one per cent of accuracy",
        measurement=V_MOE_WEIGHTS,
    ),
    _released(
        id="pruning2024/figure4a/v-moe-cifar-10-released",
        where="section 5.2.1 and B.2, figure 4a",
        statement="V-MoE B/16 without half of its experts, but for one layer's, is more accurate than with as many "
        "pruned at random",
        published=Published(relation="random falls sharply"),
        measurement=V_MOE_WEIGHTS,
        read=_over_random,
        rule=Rule(in_kind=share_from(0.02)),
    ),
    _within_one(
        id="pruning2024/figure8c/e3-cifar-100-released",
        where="section 5.2.1 and B.2, figure 8c",
        statement="E3 S/32 without 75 % of its experts loses at most one per cent of accuracy",
        measurement=E3_WEIGHTS,
    ),
)
