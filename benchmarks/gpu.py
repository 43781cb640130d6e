"""The map of figure 5 at the paper's size, MNIST's d=784, in one call on a GPU."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch

from benchmarks.measure import Result
from moe_lab.patch_routing.phase import KEPT, SAMPLES, phase_map

DATA = Path(os.environ.get("MOE_LAB_DATA", Path(__file__).parents[2] / "shared" / "data")) / "mnist-t10k"
TRIALS = 20


def run() -> list[Result]:
    if not torch.cuda.is_available():
        return _nothing("there is no CUDA device on this machine")
    if not DATA.is_dir():
        return _nothing(f"no MNIST in {DATA}; MOE_LAB_DATA names another folder of data sets")
    phase_map("mnist", KEPT[:1], SAMPLES[:1], trials=2, root=DATA, device="cuda")  # loads the kernels
    torch.cuda.synchronize()
    begin = time.monotonic()
    phase_map("mnist", KEPT, SAMPLES, trials=TRIALS, root=DATA, device="cuda")
    torch.cuda.synchronize()
    seconds = time.monotonic() - begin
    trainings = len(KEPT) * len(SAMPLES) * TRIALS
    return [
        Result("gpu_phase_map", seconds, "s", note=f"{trainings} trainings at d=784"),
        Result("gpu_trainings_per_second", trainings / seconds, "1/s"),
        Result("gpu_phase_map_memory", torch.cuda.max_memory_allocated() / 2**30, "GB"),
    ]


def _nothing(why: str) -> list[Result]:
    return [
        Result(name, None, unit, note=why)
        for name, unit in (("gpu_phase_map", "s"), ("gpu_trainings_per_second", "1/s"))
    ]
