"""Figure 5's map on 8x8 digits: l = 1 ... 8, ten N, 20 trials, 1600 trainings, against an autograd loop for each."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Sequence

import numpy as np

from benchmarks.measure import Result
from benchmarks.plain import train_separate
from moe_lab.patch_routing import DigitTask, SeparateMoE
from moe_lab.patch_routing.phase import PATCHES_PER_EXPERT, SAMPLES, phase_map_stream

SEED = 0


def run(tiny: bool = False) -> list[Result]:
    """Alternates batches of the map and the plain loop, so that both meet the same load."""
    kept_patches, samples, trials = (
        (PATCHES_PER_EXPERT[:2], SAMPLES[:2], 2) if tiny else (PATCHES_PER_EXPERT, SAMPLES, 20)
    )
    task = DigitTask()
    cells = _cells(kept_patches, samples, trials)
    peak = _peak()
    plain, ours, accuracy = 0.0, 0.0, []
    begin = time.process_time()
    for seen, partial in enumerate(
        phase_map_stream(patches_per_expert=kept_patches, samples=samples, trials=trials, seed=SEED)
    ):
        last = partial
        ours += time.process_time() - begin
        if seen % 20 == 19 and cells and (kept_cell := cells.pop(0)):
            peak = max(peak, _peak())
            kept, count, trial = kept_cell
            begin = time.process_time()
            model = SeparateMoE(patches_per_expert=kept)
            accuracy.append((kept_cell, train_separate(task, model, samples=count, trial=trial, seed=SEED)))
            plain += time.process_time() - begin
        begin = time.process_time()
    peak = max(peak, _peak())
    trainings = len(kept_patches) * len(samples) * trials
    for kept, count, trial in cells:  # those not run in between
        begin = time.process_time()
        model = SeparateMoE(patches_per_expert=kept)
        accuracy.append(((kept, count, trial), train_separate(task, model, samples=count, trial=trial, seed=SEED)))
        plain += time.process_time() - begin
    found = np.array([last["test_accuracy"].sel(patches_per_expert=k, samples=c, trial=t) for (k, c, t), _ in accuracy])
    apart = float(np.abs(found - np.array([value for _, value in accuracy])).mean())
    assert apart < 0.01, f"the plain loop trains something else: accuracies are {apart:.3f} apart on average"
    return [
        Result("phase_map", ours, "CPU s", note=f"{trainings} trainings in one call"),
        Result("phase_map_memory", peak, "GB", 2.0, note="peak of the whole process"),
        Result(
            "phase_map_speedup",
            plain / len(accuracy) * trainings / ours,
            "times",
            4.0,
            "at least",
            note=f"plain loop measured on {len(accuracy)} of the trainings, one for each grid point",
        ),
    ]


def _cells(kept_patches: Sequence[int], samples: Sequence[int], trials: int) -> list[tuple[int, int, int]]:
    """All grid points in random order, so that the plain loop's runs are spread evenly; a random trial of each."""
    cells = [(kept, count) for kept in kept_patches for count in samples]
    chosen = np.random.default_rng(1).integers(0, trials, len(cells)).tolist()
    order = np.random.default_rng(0).permutation(len(cells))
    return [(*cells[place], trial) for place, trial in zip(order, chosen, strict=True)]


def _peak() -> float:
    """Peak memory of this process in GB (Linux counts KiB, macOS bytes)."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / (2**30 if sys.platform == "darwin" else 2**20)
