"""The claims of pruning2024's section 5.2.1 on released weights, measured where a folder of them is given."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from moe_lab_papers.claim import Needs
from moe_lab_papers.paper import Measured, Paper, budgets, says
from moe_lab_papers.pruning2024 import deep_measures as measures
from moe_lab_papers.pruning2024.deep import ONE_PERCENT, ours
from moe_lab_papers.ranges import at_most, share_from
from moe_lab_papers.readers import reader

paper = Paper("pruning2024")


def _weights(config: str, start: str, data: str, source: str, seconds: tuple[float, float], **more: Any) -> Measured:
    """Returns the measurement of a released checkpoint, and of the one that was fine-tuned from it on some data."""
    end = f"{start}_ft_{data.replace('-', '')}"
    return paper.measure(
        f"{config}-{data}",
        measures.released,
        seconds=seconds,
        needs=Needs(
            what=f"the checkpoints {start} and {end} ({source}) and {data}'s binary version",
            argument="root",
            pattern=f"{end}.index",
            others=(f"{start}.index", f"{data}*bin*"),
        ),
        reason="without fine-tuning after pruning; the quick budget tests on eight batches",
        unit="accuracy",
        config=config,
        start=start,
        end=end,
        data=data,
        **more,
        batches=budgets(8, 10_000),
    )


_BUCKET = "gs://vmoe_checkpoints"
e3 = _weights(
    "e3-s32",
    "eee_s32_last2_ilsvrc2012",
    "cifar-100",
    _BUCKET,
    seconds=(150, 1500),
    pruned=(0, 3),
    criteria=(measures.OURS, "random"),
)
v_moe = _weights(
    "b16",
    "vmoe_b16_imagenet21k_randaug_strong",
    "cifar-10",
    f"the former from {_BUCKET}, the latter own",  # the fine-tuned V-MoE is not released
    seconds=(60, 8000),
    pruned=(0, 4),
    criteria=(measures.OURS, "random"),
    whole=(9,),
)


@reader
def lost(data: xr.Dataset) -> np.ndarray:
    """Returns the accuracy lost with the most experts pruned."""
    accuracy = ours(data)
    return np.asarray(accuracy.sel(pruned=0) - accuracy.isel(pruned=-1))


@reader
def over_random(data: xr.Dataset) -> np.ndarray:
    """Returns the accuracy there, less that with as many experts pruned at random."""
    return np.asarray((ours(data) - data["accuracy"].sel(criterion="random")).isel(pruned=-1))


_WITHIN_ONE = says(ONE_PERCENT, bound="at most").agrees(at_most)
v_moe.claim(
    "figure4b/v-moe-cifar-10-released",
    "V-MoE B/16 without half of its experts, but for one layer's, loses at most one per cent of accuracy",
    lost(),
    _WITHIN_ONE,
    where="section 5.2.1 and B.2, figure 4b",
)
v_moe.claim(
    "figure4a/v-moe-cifar-10-released",
    "V-MoE B/16 without half of its experts, but for one layer's, is more accurate than with as many pruned at random",
    over_random(),
    says("random falls sharply").in_kind(share_from(0.02)),
    where="section 5.2.1 and B.2, figure 4a",
)
e3.claim(
    "figure8c/e3-cifar-100-released",
    "E3 S/32 without 75 % of its experts loses at most one per cent of accuracy",
    lost(),
    _WITHIN_ONE,
    where="section 5.2.1 and B.2, figure 8c",
)
