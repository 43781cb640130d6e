"""The benchmark of a GPU runs from end to end on a CPU, in small, so that the first GPU that it meets can run it."""

from __future__ import annotations

import json
import math

import pytest
import torch
from torch.autograd import DeviceType

from benchmarks import gpu
from benchmarks.measure import Result
from moe_lab.core.graphs import as_on_accelerator


def test_every_figure_is_measured() -> None:
    with as_on_accelerator():
        results = {result.name: result for result in gpu.run(gpu.SMALL)}
    assert len(results) == 19
    for name, result in results.items():
        assert result.value is None if name.endswith("memory") else 0 < (result.value or 0) < math.inf, name
        json.dumps(result.record("python -m benchmarks gpu"))
    for name in ("gpu_joint_largest_part", "gpu_switch_largest_part"):
        shares = [int(part.rsplit(" ", 1)[1].rstrip("%")) for part in results[name].note.split(", ")]
        assert len(shares) == 8 and shares == sorted(shares, reverse=True) and sum(shares) <= 104
    assert all(result.target is None for result in results.values()), "no two devices are alike"


def test_products_of_a_step_are_counted_by_hand() -> None:
    """Of a mixture: scores and their gradient, and every expert's filters on every noise patch, twice."""
    with as_on_accelerator():
        found: dict[str, Result] = {one.name: one for one in gpu.switch(gpu.SMALL, 1e9)}
    trials, samples, d, experts, filters, kinds = 2, 100, 50, 8, 16, 4
    rows = 4 * experts * filters * d  # outputs and gradient of one noise patch
    routers = 4 * experts * d
    basis = 2 * (2 * experts * 3 * kinds)  # outputs and gradient from the coefficients of 3 K directions
    by_sample = trials * samples * (rows + routers + basis)
    stated = float(found["gpu_switch_of_peak"].note.split(" ")[0]) * 1e9
    assert by_sample < stated < 1.35 * by_sample  # the rest: products with the few directions, sums with signs


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    (result,) = gpu.run()
    assert result.value is None and result.note == "there is no CUDA device on this machine"


def test_what_does_not_fit_into_memory_costs_no_other_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*sizes: object) -> list[Result]:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB")

    for part in ("switch", "vmoe_step", "figure5", "in_flight"):
        monkeypatch.setattr(gpu, part, full)
    monkeypatch.setattr(gpu, "joint_step", lambda sizes, peak: [Result("gpu_joint_step", 1.0, "us a training")])
    results = {result.name: result for result in gpu.run(gpu.SMALL)}
    assert list(results) == ["gpu_peak", "gpu_switch", "gpu_vmoe", "gpu_phase_map", "gpu_in_flight", "gpu_joint_step"]
    assert results["gpu_switch"].note == "no room in the device's memory: CUDA out of memory"


def test_the_command_runs_in_small_on_a_cpu(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    given: list[gpu.Sizes] = []

    def run(sizes: gpu.Sizes) -> list[Result]:
        given.append(sizes)
        return [Result("gpu_peak", 12.345, "TFLOP/s"), Result("gpu_memory", None, "GB", note="no CUDA device")]

    monkeypatch.setattr(gpu, "run", run)
    gpu.main(["--small", "--device", "cpu"])
    assert given == [gpu.SMALL]
    assert capsys.readouterr().out == "gpu_peak: 12.3 TFLOP/s\ngpu_memory: not measured (no CUDA device)\n"


def test_kernels_are_counted_without_the_calls_that_start_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Event:
        def __init__(self, key: str, device: str, time: float) -> None:
            self.key, self.device_type, self.self_device_time_total = key, getattr(DeviceType, device), time

    class Profiler:
        def __init__(self, activities: object) -> None: ...
        def __enter__(self) -> Profiler:
            return self

        def __exit__(self, *error: object) -> None: ...
        def key_averages(self) -> list[Event]:
            return [Event("cudaGraphLaunch", "CPU", 9.0), Event("copy", "CUDA", 1.0), Event("gemm", "CUDA", 3.0)]

    monkeypatch.setattr(gpu, "profile", Profiler)
    monkeypatch.setattr(gpu, "_synchronize", lambda device: None)
    assert gpu.where(lambda: None, gpu.Sizes(calls=1)) == [("gemm", 0.75), ("copy", 0.25)]
