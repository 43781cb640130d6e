"""The tiny V-MoE: its pre-training, an evaluation, the table of prunings; and what pruning saves at real size."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator

from benchmarks.measure import Result
from moe_lab_papers.pruning2024 import vmoe
from moe_lab_papers.pruning2024.vmoe import VMoE, VMoEConfig
from moe_lab_papers.pruning2024.vmoe.named import NAMED

KEPT = (8, 4, 2)


def run(tiny: bool = False) -> list[Result]:
    """With `tiny`, a few steps of each training, and the costs of the model for digits in place of B/16."""
    few = {"steps": 5, "warm_up": 2}
    if tiny:
        return [*digits(vmoe.PRE_TRAINING.replace(**few), vmoe.DigitRun(**few)), *costs("tiny", vmoe.TINY)]
    return [*digits(vmoe.PRE_TRAINING, vmoe.DigitRun()), *costs("b16", NAMED["b16"])]


def digits(pre_training: vmoe.DigitRun, run: vmoe.DigitRun) -> Iterator[Result]:
    """CPU seconds of one pre-training, of an evaluation of 500 images, and of the 6 x 7 x 2 prunings."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        last = list(vmoe.pre_train(pre_training, folder))[-1]
        note = f"test accuracy {float(last['test_accuracy'][0]):.3f}"
        yield Result("vmoe_pre_training", time.process_time() - began, "CPU s", note=note)
        before = vmoe.pretrained(pre_training, folder)
    after = vmoe.fine_tune(before, run)
    evaluation = seconds_of(after, run.test)
    yield Result("vmoe_evaluation", 1000 * evaluation, "CPU ms for 500 images")
    began = time.process_time()
    data = vmoe.PruningTable(before, after, run.test, run.validation).complete()
    cells = data["accuracy"].size
    seconds, note = time.process_time() - began, f"{cells} prunings"
    yield Result("vmoe_table", seconds, "CPU s", note=note)
    yield Result("vmoe_table_over_evaluations", seconds / cells / evaluation, "times", 1.5, note=note)


def seconds_of(model: VMoE, test: vmoe.Labelled, rounds: int = 15) -> float:
    """Median CPU seconds of an evaluation."""
    seconds = []
    for _ in range(rounds):
        began = time.process_time()
        vmoe.accuracy(model, test)
        seconds.append(time.process_time() - began)
    return statistics.median(seconds[1:])


def costs(name: str, config: VMoEConfig) -> Iterator[Result]:
    """A model with random weights: what silent pruning leaves of its CPU time, turn by turn."""
    data = vmoe.pruning_costs(config, KEPT, ("silent",), repeats=3).sel(mode="silent")
    whole = data.sel(kept=8)
    for kept in KEPT:
        note = f"{float(data['parameters'].sel(kept=kept)):,.0f} parameters, "
        note += f"{float(data['operations'].sel(kept=kept)) / 1e9:.2f} GFLOP"
        milliseconds = float(data["milliseconds"].sel(kept=kept).median())
        yield Result(f"vmoe_{name}_{kept}_experts", milliseconds, "CPU ms an image", note=note)
    share = float((data["milliseconds"].sel(kept=2) / whole["milliseconds"]).median())
    yield Result(f"vmoe_{name}_2_over_8_experts", share, "of the time", 0.65)
