"""On a GPU: the map of figure 5 at the paper's size, MNIST's d=784, in one call; and the cluster room's ten trials."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks import plain_switch as plain
from benchmarks.measure import Result
from benchmarks.specialization import TRIALS as TRIALS_AT_ONCE
from benchmarks.specialization import PlainLoop, learner, whole
from moe_lab.patch_routing.phase import KEPT, SAMPLES, phase_map
from moe_lab.specialization import SwitchMoE, train_run
from moe_lab.training import final

DATA = Path(os.environ.get("MOE_LAB_DATA", Path(__file__).parents[2] / "shared" / "data")) / "mnist-t10k"
TRIALS = 20
MAP = (("gpu_phase_map", "s"), ("gpu_trainings_per_second", "1/s"))
SWITCH = (
    ("gpu_switch_ten_trials", "s"),
    ("gpu_switch_step", "ms a trial"),
    ("gpu_switch_over_dispatch", "times"),
    ("gpu_switch_over_all", "times"),
)


def run() -> list[Result]:
    if not torch.cuda.is_available():
        return _nothing(MAP + SWITCH, "there is no CUDA device on this machine")
    return [*figure5(), *switch()]


def figure5() -> list[Result]:
    if not DATA.is_dir():
        return _nothing(MAP, f"no MNIST in {DATA}; MOE_LAB_DATA names another folder of data sets")
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


def switch() -> list[Result]:
    """Ten trials of chen2022's setting 1 at once, against autograd on one trial; router noise from the host for all."""
    seconds = _clock(lambda: final(train_run(whole("cuda"))), calls=1)
    together = learner(SwitchMoE(), trials=TRIALS_AT_ONCE, device="cuda")
    ours = _clock(lambda: together.advance(1), calls=20) / TRIALS_AT_ONCE
    loops = [PlainLoop(outputs, device="cuda") for outputs in (plain.dispatched, plain.everywhere)]
    dispatch, everywhere = (_clock(loop.advance, calls=20) for loop in loops)
    values = (seconds, 1000 * ours, dispatch / ours, everywhere / ours)
    notes = ("drawing and measuring included", "ten at once", "autograd of one trial", "autograd of one trial")
    return [
        Result(name, value, unit, note=note) for (name, unit), value, note in zip(SWITCH, values, notes, strict=True)
    ]


def _clock(call: Callable[[], Any], *, calls: int, rounds: int = 5) -> float:
    """Seconds a call by the clock, the median of some rounds; a round before them loads the kernels."""
    seconds = []
    for turn in range(rounds + 1):
        torch.cuda.synchronize()
        begin = time.monotonic()
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
        if turn:
            seconds.append((time.monotonic() - begin) / calls)
    return statistics.median(seconds)


def _nothing(names: tuple[tuple[str, str], ...], why: str) -> list[Result]:
    return [Result(name, None, unit, note=why) for name, unit in names]
