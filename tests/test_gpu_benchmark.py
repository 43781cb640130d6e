"""The benchmark of a GPU runs from end to end on a CPU, in small, so that the first GPU that it meets can run it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from benchmarks import gpu
from benchmarks.measure import Result
from moe_lab.graphs import as_on_accelerator

SMALL: dict[str, Any] = {
    "device": "cpu",
    "source": "digits",
    "root": None,
    "kept": (2, 6),
    "samples": (60,),
    "trials": 2,
}
SMALL |= {"plain": 1, "rows": 3, "switch_samples": 100, "switch_trials": 2, "calls": 2, "rounds": 1, "matrix": 64}


def test_every_figure_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = gpu.whole
    monkeypatch.setattr(gpu, "whole", lambda *how: whole(*how).replace(steps=4))
    with as_on_accelerator():
        results = {result.name: result for result in gpu.run(gpu.Sizes(**SMALL))}
    assert len(results) == 17
    for name, result in results.items():
        assert result.value is None if name.endswith("memory") else 0 < (result.value or 0) < math.inf, name
        json.dumps(result.record("python -m benchmarks gpu"))
    for name in ("gpu_joint_largest_part", "gpu_switch_largest_part"):
        shares = [int(part.rsplit(" ", 1)[1].rstrip("%")) for part in results[name].note.split(", ")]
        assert len(shares) == 8 and shares == sorted(shares, reverse=True) and sum(shares) <= 104
    target = results["gpu_trainings_per_second"]
    assert (target.target, target.best) == (1000.0, "at least")


def test_products_of_a_step_are_counted_by_hand() -> None:
    """Of a mixture: scores and their gradient, and every expert's filters on every noise patch, twice."""
    with as_on_accelerator():
        found: dict[str, Result] = {one.name: one for one in gpu.switch(gpu.Sizes(**SMALL), 1e9)}
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
