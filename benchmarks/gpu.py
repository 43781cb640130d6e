"""On a GPU: the map of figure 5 at the paper's size, MNIST's d=784, in one call; steps; where their time goes.

python -m benchmarks gpu                          all figures, into results.json
python -m benchmarks.gpu --small --device cpu     every line of it in seconds, whose figures mean nothing
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import plain, plain_switch
from benchmarks.measure import Result
from benchmarks.specialization import SAMPLES as SWITCH_SAMPLES
from benchmarks.specialization import TRIALS as SWITCH_TRIALS
from benchmarks.specialization import PlainLoop, learner, whole
from moe_lab.core.graphs import as_on_accelerator
from moe_lab.core.snapshots import final
from moe_lab.patch_routing import JointMoE, PatchRun, SeparateMoE
from moe_lab.patch_routing import learner as patch_learner
from moe_lab.patch_routing.batch import samples_of
from moe_lab.patch_routing.grid_points import make_task
from moe_lab.patch_routing.phase import PATCHES_PER_EXPERT, SAMPLES, phase_map, phase_map_stream
from moe_lab.patch_routing.training import PatchTraining
from moe_lab.specialization import SwitchMoE, train_run
from moe_lab_papers.pruning2024.vmoe.training import DigitRun, VMoETraining

DATA = Path(os.environ.get("MOE_LAB_DATA", Path(__file__).parents[2] / "shared" / "data")) / "mnist-t10k"


@dataclass(frozen=True)
class Sizes:
    """What is measured; the defaults are the papers' sizes.

    Attributes:
      source, root, kept, samples, trials: of the map.
      plain: trainings of a plain loop that stand for all.
      rows: trainings in the batch whose steps are measured.
      switch_samples, switch_trials: of the mixture.
      switch_steps: of its whole trainings, None for as many as the benchmark on a CPU takes.
      calls, rounds: steps in a round, and rounds.
      matrix: side of the matrices whose product gives the device's peak.
    """

    device: str = "cuda"
    source: str = "mnist"
    root: Path | None = DATA
    kept: Sequence[int] = PATCHES_PER_EXPERT
    samples: Sequence[int] = SAMPLES
    trials: int = 20
    plain: int = 12
    rows: int = 800
    switch_samples: int = SWITCH_SAMPLES
    switch_trials: int = SWITCH_TRIALS
    switch_steps: int | None = None
    calls: int = 20
    rounds: int = 5
    matrix: int = 8192


SMALL = Sizes(
    device="cpu",
    source="digits",
    root=None,
    kept=(2, 6),
    samples=(60,),
    trials=2,
    plain=1,
    rows=3,
    switch_samples=100,
    switch_trials=2,
    switch_steps=4,
    calls=2,
    rounds=1,
    matrix=64,
)
"""What runs every line in seconds."""


def run(sizes: Sizes | None = None) -> list[Result]:
    """All figures; without sizes and without a CUDA device, only the reason why there are none.

    Where a part does not fit into the device's memory, the other parts are measured all the same.
    """
    if sizes is None and not torch.cuda.is_available():
        return [Result("gpu_trainings_per_second", None, "1/s", note="there is no CUDA device on this machine")]
    sizes = Sizes() if sizes is None else sizes
    peak = peak_of(sizes)
    found = [Result("gpu_peak", peak / 1e12, "TFLOP/s", note=f"products of float32 {sizes.matrix} x {sizes.matrix}")]
    found += _measured("gpu_switch", lambda: switch(sizes, peak))
    found += _measured("gpu_vmoe", lambda: vmoe_step(sizes))
    if sizes.root is not None and not sizes.root.is_dir():
        why = f"no MNIST in {sizes.root}; MOE_LAB_DATA names another folder of data sets"
        return [*found, Result("gpu_trainings_per_second", None, "1/s", note=why)]
    return [
        *found,
        *_measured("gpu_phase_map", lambda: figure5(sizes)),
        *_measured("gpu_in_flight", lambda: in_flight(sizes)),
        *_measured("gpu_joint", lambda: joint_step(sizes, peak)),
    ]


def _measured(name: str, part: Callable[[], list[Result]]) -> list[Result]:
    try:
        return part()
    except torch.OutOfMemoryError as error:
        torch.cuda.empty_cache()
        return [Result(name, None, "", note=f"no room in the device's memory: {str(error).partition('. ')[0]}")]


def figure5(sizes: Sizes) -> list[Result]:
    """The map in one call, the time until it first reports, and the same trainings by a plain loop."""
    how: dict[str, Any] = {"root": sizes.root, "device": sizes.device}
    stream = phase_map_stream(sizes.source, sizes.kept, sizes.samples, sizes.trials, **how)
    first = _seconds(lambda: (next(stream), next(stream)), sizes.device)  # the empty map, and the first steps
    stream.close()  # type: ignore[attr-defined]
    phase_map(sizes.source, sizes.kept[:1], sizes.samples[:1], trials=2, **how)  # loads the kernels
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    seconds = _seconds(
        lambda: phase_map(sizes.source, sizes.kept, sizes.samples, trials=sizes.trials, **how), sizes.device
    )
    memory = torch.cuda.max_memory_reserved() / 2**30 if torch.cuda.is_available() else None  # graphs keep what is free
    trainings = len(sizes.kept) * len(sizes.samples) * sizes.trials
    each = statistics.mean(_plain_trainings(sizes))
    return [
        Result("gpu_phase_map", seconds, "s", note=f"{trainings} trainings of {sizes.source}"),
        Result("gpu_trainings_per_second", trainings / seconds, "1/s"),
        Result("gpu_first_report", first, "s", note="from the call, data and first kernels included"),
        Result("gpu_map_over_plain", each * trainings / seconds, "times", note=f"{sizes.plain} trainings one by one"),
        Result("gpu_phase_map_memory", memory, "GB", note="" if memory else "no CUDA device"),
    ]


def in_flight(sizes: Sizes) -> list[Result]:
    """A step of all trainings of one N, whose parts of about the same l have a stream each, against one stream."""
    task, count = make_task(sizes.source, root=sizes.root), max(sizes.samples)
    runs = [
        PatchRun(
            model=SeparateMoE(patches_per_expert=kept),
            task=task,
            samples=count,
            trials=sizes.trials,
            measure="last",
            record_every=10**9,
            device=sizes.device,
        )
        for kept in sizes.kept
    ]
    drawn = samples_of(runs)

    def in_turn(calls: Sequence[Callable[[], None]], device: torch.device) -> None:
        for call in calls:
            call()

    seconds, parts = [], 0
    for way in (patch_learner.concurrently, in_turn):
        with patch.object(patch_learner, "concurrently", way):
            rows = PatchTraining(runs, drawn).learner
            seconds.append(_clock(lambda rows=rows: rows.advance(1), sizes))  # type: ignore[misc]
            parts = len(rows.parts(runs[0].model.batch_size))
    note = f"{parts} parts of {len(runs) * sizes.trials} trainings, one after another over side by side"
    return [Result("gpu_in_flight", seconds[1] / seconds[0], "times", note=note)]


def _plain_trainings(sizes: Sizes) -> Iterator[float]:
    """Seconds of single trainings at grid points chosen at random."""
    task, random = make_task(sizes.source, root=sizes.root), np.random.default_rng(0)
    for trial in range(sizes.plain):
        kept, count = int(random.choice(sizes.kept)), int(random.choice(sizes.samples))
        model = SeparateMoE(patches_per_expert=kept)

        def train(model: SeparateMoE = model, count: int = count, trial: int = trial) -> float:
            return plain.train_separate(task, model, samples=count, trial=trial, seed=0, device=sizes.device)

        yield _seconds(train, sizes.device)


def joint_step(sizes: Sizes, peak: float) -> list[Result]:
    """A step of many joint trainings, their orders drawn on the host."""
    run = PatchRun(
        model=JointMoE(),
        task=make_task(sizes.source, root=sizes.root),
        samples=max(sizes.samples),
        trials=sizes.rows,
        measure="last",
        record_every=10**9,
        device=sizes.device,
    )
    rows = PatchTraining([run], samples_of([run])).learner
    seconds = _clock(lambda: rows.advance(1), sizes)
    samples = rows.order.next()
    note = f"{sizes.rows} trainings at once"
    return [
        Result("gpu_joint_step", 1e6 * seconds / sizes.rows, "us a training", note=note),
        *_use("gpu_joint", lambda: rows.advance(1), lambda: rows.step(samples), seconds, peak, sizes),
    ]


def switch(sizes: Sizes, peak: float) -> list[Result]:
    """Ten trials of chen2022's setting 1 at once, against autograd on one trial; router noise from the host for all."""
    task = whole(sizes.device, sizes.switch_samples, sizes.switch_trials)
    task = task if sizes.switch_steps is None else task.replace(steps=sizes.switch_steps)
    stream = train_run(task.replace(measure="every"))
    first = _seconds(lambda: next(stream), sizes.device)
    stream.close()  # type: ignore[attr-defined]
    seconds = _seconds(lambda: final(train_run(task)), sizes.device)
    together = learner(SwitchMoE(), trials=sizes.switch_trials, device=sizes.device, samples=sizes.switch_samples)
    each = _clock(lambda: together.advance(1), sizes)
    ours = each / sizes.switch_trials
    loops = [
        PlainLoop(outputs, device=sizes.device, samples=sizes.switch_samples)
        for outputs in (plain_switch.dispatched, plain_switch.everywhere)
    ]
    dispatch, everywhere = (_clock(loop.advance, sizes) for loop in loops)
    noise = together.like.new_zeros(sizes.switch_trials, together.model.experts, sizes.switch_samples)
    at_once = f"{sizes.switch_trials} at once"
    return [
        Result("gpu_first_snapshot", first, "s", note="of a mixture, data, first test and first kernels included"),
        Result("gpu_switch_trials", seconds, "s", note=f"{at_once}, drawing and measuring included"),
        Result("gpu_switch_step", 1000 * ours, "ms a trial", note=at_once),
        Result("gpu_switch_over_dispatch", dispatch / ours, "times", note="autograd of one trial"),
        Result("gpu_switch_over_all", everywhere / ours, "times", note="autograd of one trial"),
        *_use("gpu_switch", lambda: together.advance(1), lambda: together.step(noise), each, peak, sizes),
    ]


def vmoe_step(sizes: Sizes) -> list[Result]:
    """A step of the tiny V-MoE, a single network of many small kernels, as a captured graph and kernel by kernel."""
    learner = VMoETraining(DigitRun(device=sizes.device)).learners[0]
    captured = _clock(lambda: learner.advance(1), sizes)
    (given,) = learner.inputs(1)
    one_by_one = _clock(lambda: learner.step(*given), sizes)
    return [
        Result("gpu_vmoe_step", 1000 * captured, "ms", note="the tiny V-MoE, 100 images, drawing them included"),
        Result("gpu_vmoe_capture", one_by_one / captured, "times", note="kernel by kernel, without drawing, over it"),
    ]


# --- what a device is used for ----------------------------------------------------------------------------------------


def peak_of(sizes: Sizes) -> float:
    """Operations a second of one large product, in the precision in which the rooms compute."""
    left, right = (torch.randn(sizes.matrix, sizes.matrix, device=sizes.device) for _ in range(2))
    return 2 * sizes.matrix**3 / _clock(lambda: left @ right, sizes)


def _use(
    name: str, step: Callable[[], Any], update: Callable[[], Any], seconds: float, peak: float, sizes: Sizes
) -> list[Result]:
    """How much of the device's peak a step reaches, and where its time goes.

    Args:
      update: what the step computes on the device, as an ordinary call whose products can be counted.
    """
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        update()
    products = counter.get_total_flops()
    parts = where(step, sizes)
    words = ", ".join(f"{kernel} {share:.0%}" for kernel, share in parts[:8])
    note = f"{products / 1e9:.3g} GFLOP of products in a step"
    return [
        Result(f"{name}_of_peak", 100 * products / seconds / peak, "%", note=note),
        Result(f"{name}_largest_part", 100 * parts[0][1], "%", note=words)
        if parts
        else Result(f"{name}_largest_part", None, "%", note="the profiler may not see the device's kernels here"),
    ]


def where(step: Callable[[], Any], sizes: Sizes) -> list[tuple[str, float]]:
    """The kernels of a step with their shares of its time, the largest first; on a CPU its operations."""
    cuda = torch.device(sizes.device).type == "cuda"
    with profile(activities=[ProfilerActivity.CUDA if cuda else ProfilerActivity.CPU]) as profiler:
        for _ in range(sizes.calls):
            step()
        _synchronize(sizes.device)
    there, attribute = (DeviceType.CUDA, "self_device_time_total") if cuda else (DeviceType.CPU, "self_cpu_time_total")
    events = [  # kernels alone, without the calls that start them, which would count their time once more
        (event.key[:60], float(getattr(event, attribute)))
        for event in profiler.key_averages()
        if event.device_type == there
    ]
    total = sum(seconds for _, seconds in events) or 1.0
    return sorted(((key, seconds / total) for key, seconds in events), key=lambda part: -part[1])


def _synchronize(device: str) -> None:
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()


def _seconds(call: Callable[[], Any], device: str) -> float:
    """Seconds of one call by the clock."""
    _synchronize(device)
    begin = time.monotonic()
    with suppress(StopIteration):  # a small run may end before it reports
        call()
    _synchronize(device)
    return time.monotonic() - begin


def _clock(call: Callable[[], Any], sizes: Sizes) -> float:
    """Seconds a call by the clock, the median of some rounds; a round before them loads the kernels."""

    def turn() -> None:
        for _ in range(sizes.calls):
            call()

    return statistics.median([_seconds(turn, sizes.device) / sizes.calls for _ in range(sizes.rounds + 1)][1:])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description="The figures of a GPU, printed.")
    parser.add_argument("--device", default="cuda", help="where to measure; cpu computes as an accelerator would")
    parser.add_argument("--small", action="store_true", help="sizes at which everything runs in seconds")
    given = parser.parse_args(arguments)
    sizes = replace(SMALL if given.small else Sizes(), device=given.device)
    with as_on_accelerator() if given.device == "cpu" else nullcontext():
        for result in run(sizes):
            value = "not measured" if result.value is None else f"{result.value:.3g} {result.unit}"
            print(f"{result.name}: {value}{f' ({result.note})' if result.note else ''}")


if __name__ == "__main__":
    main()
