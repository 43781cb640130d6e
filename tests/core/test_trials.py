"""Random streams that depend on nothing but their name, and devices chosen in words."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from moe_lab.core import devices, trials
from moe_lab.core.config import Config, RunConfig
from moe_lab.core.trials import (
    choose_dtype,
    device_and_dtype,
    missing_operation,
    stream,
    threads_for,
)
from moe_lab.recovery import gridlock, landscape

CUDA = torch.cuda.is_available()


def test_a_stream_is_named_by_seed_trial_and_purpose() -> None:
    first = stream(3, 5, "noise").random(8)
    assert np.array_equal(first, stream(3, 5, "noise").random(8))
    for other in (stream(4, 5, "noise"), stream(3, 6, "noise"), stream(3, 5, "labels")):
        assert not np.intersect1d(first, other.random(1000)).size


def test_streams_of_neighbouring_trials_are_independent() -> None:
    drawn = np.stack([stream(0, trial, "noise").standard_normal(2000) for trial in range(40)])
    correlations = np.corrcoef(drawn)[np.triu_indices(40, 1)]
    assert np.abs(correlations).max() < 5 / np.sqrt(2000) and abs(correlations.mean()) < 0.005


def test_known_first_numbers() -> None:
    """Published results name a seed: the numbers behind it must not change with a release."""
    assert stream(0, 0, "experts").random(2).tolist() == [0.5063107089355184, 0.045451923312759934]
    assert stream(7, 3, "train/noise").random(2).tolist() == [0.20926876564055374, 0.19108024804506363]


def test_a_large_seed_is_a_seed() -> None:
    assert stream(2**63, 2**31, "noise").random() != stream(2**63 - 1, 2**31, "noise").random()


@pytest.mark.parametrize("seed, trial", [(-1, 0), (0, -1)])
def test_negative_seeds_and_trials(seed: int, trial: int) -> None:
    with pytest.raises(ValueError, match=f"at least 0: got seed={seed}, trial={trial}"):
        stream(seed, trial, "noise")


def test_precision() -> None:
    cpu = torch.device("cpu")
    assert choose_dtype("float32", cpu) is torch.float32 and choose_dtype("float64", cpu) is torch.float64
    with pytest.raises(ValueError, match="must be 'float32' on an MPS device"):
        choose_dtype("float64", torch.device("mps"))


class _Run(RunConfig):
    model: Config = Config()
    task: Config = Config()
    operations = ("linalg.eigh", "linalg.solve_ex")


def test_what_an_mps_device_cannot_compute_goes_to_the_cpu_with_one_word(monkeypatch: pytest.MonkeyPatch) -> None:
    mps, cpu = torch.device("mps"), torch.device("cpu")
    monkeypatch.setattr(trials, "choose", lambda name, numbers: mps)
    monkeypatch.setattr(trials, "missing_operation", lambda device, operations: "")
    devices.warn_once.cache_clear()
    assert device_and_dtype(_Run(device="mps")) == (mps, torch.float32)
    with pytest.raises(ValueError, match="must be 'float32' on an MPS device"):
        device_and_dtype(_Run(precision="float64", device="mps"))
    monkeypatch.setattr(trials, "missing_operation", lambda device, operations: operations[1])
    with pytest.warns(UserWarning, match=r"^the MPS device has no linalg\.solve_ex"):
        assert device_and_dtype(_Run(device="mps")) == (cpu, torch.float32)
    assert device_and_dtype(_Run(device="mps")) == (cpu, torch.float32)  # no second warning, which would be an error


@pytest.mark.parametrize("room", [gridlock.MixtureRun, landscape.LossRun, _Run])
def test_a_missing_operation_is_found_by_trying(room: type[RunConfig], monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    missing_operation.cache_clear()
    assert missing_operation(cpu, room.operations) == ""
    missing_operation.cache_clear()

    def missing(*arguments: object) -> None:
        raise NotImplementedError("The operator is not currently implemented for the MPS device")

    monkeypatch.setattr(torch.linalg, "eigh", missing)
    assert missing_operation(cpu, room.operations) == "linalg.eigh"
    missing_operation.cache_clear()


def test_small_steps_get_one_thread_and_the_caller_its_own_back() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threads_for(1e5, torch.device("cpu")):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
        with threads_for(1e9, torch.device("cpu")):
            assert torch.get_num_threads() == 2
        with pytest.raises(KeyError), threads_for(1e5, torch.device("cpu")):
            raise KeyError
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
