"""A batch: several runs that train as one tensor program, with a row for every trial of every run.

Rows of a batch may differ in l, N, k and step size. Rows of the same trial share its data, their group.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.core.graphs import to_device
from moe_lab.core.memory import Need
from moe_lab.core.trials import Draw, device_and_dtype, stream
from moe_lab.patch_routing.data import PatchSamples
from moe_lab.patch_routing.model import experts_of
from moe_lab.patch_routing.run import PatchRun

_STEPS_PLANNED = 32  # steps whose samples are chosen together


def check_alike(runs: Sequence[PatchRun]) -> None:
    """Raises a ValueError unless there are runs, and they differ in nothing but what rows may differ in."""

    def shared(run: PatchRun) -> PatchRun:
        model = run.model.model_copy(update=dict.fromkeys(run.model.per_row))
        return run.model_copy(update={"model": model, "samples": 0, "trials": 0, "first_trial": 0})

    require(len(runs) > 0, "train_batch needs at least one run", runs=len(runs))
    for run in runs[1:]:
        rule = "runs of one batch may differ in samples, trials, patches_per_expert, experts and learning_rate only"
        require(shared(run) == shared(runs[0]), rule, first=runs[0].code(), other=run.code())


def device_and_dtype_of(runs: Sequence[PatchRun]) -> tuple[torch.device, torch.dtype]:
    """Returns the device and the dtype of a batch, whose runs step together."""
    return device_and_dtype(runs[0], sum(run.numbers_per_step for run in runs))


def memory_of(runs: Sequence[PatchRun]) -> Need:
    """Returns the memory that a batch needs on an accelerator, where every row is as large as the largest."""
    return Need(max(run.memory.per_trial for run in runs), runs[0].memory.shared)


@dataclass(frozen=True)
class Rows:
    """The values in which the rows of a batch differ, an entry for each row."""

    trial: np.ndarray
    group: np.ndarray  # position of the trial in the Samples
    samples: np.ndarray  # N
    patches_per_expert: np.ndarray  # l
    experts: np.ndarray  # k
    learning_rate: np.ndarray  # eta

    @classmethod
    def of(cls, runs: Sequence[PatchRun]) -> Rows:
        """Returns the rows of a batch, run after run."""
        each = [(run, trial) for run in runs for trial in run.trial_numbers]
        trials = np.array([trial for _, trial in each])
        return cls(
            trial=trials,
            group=np.unique(trials, return_inverse=True)[1].reshape(-1),
            samples=np.array([run.samples for run, _ in each]),
            patches_per_expert=np.array(
                [getattr(run.model, "patches_per_expert", run.task.patches) for run, _ in each]
            ),
            experts=np.array([experts_of(run.model, run.task.classes) for run, _ in each]),
            learning_rate=np.array([run.model.learning_rate or run.task.learning_rate for run, _ in each]),
        )

    @property
    def trials(self) -> list[int]:
        """The trial of each group."""
        return [int(trial) for trial in np.unique(self.trial)]

    def __len__(self) -> int:
        return len(self.trial)


def samples_of(runs: Sequence[PatchRun]) -> tuple[PatchSamples, PatchSamples]:
    """Returns the training samples (as many as the largest N needs) and the test samples of all groups."""
    run, rows = runs[0], Rows.of(runs)
    device, dtype = device_and_dtype_of(runs)
    common: dict[str, Any] = {"trials": rows.trials, "seed": run.seed, "device": device, "dtype": dtype}
    train = run.task.sample(int(rows.samples.max()), split="train", **common)
    return train, run.task.sample(run.test_samples, split="test", **common)


def order_of(samples: int, batch_size: int) -> Draw:
    """Returns the draw of a batch of a trial, which goes on where the last one ended."""
    return Draw("order/{}", (batch_size,), "order", things=samples)


class SampleOrder:
    """The order in which each row uses its samples: successive random permutations, cut into batches of B.

    Rows of the same trial and N have the same order, independent of their model, of l and of the other rows.
    """

    def __init__(self, rows: Rows, seed: int, batch_size: int, device: torch.device) -> None:
        pairs, pair = np.unique(np.stack((rows.trial, rows.samples), axis=1), axis=0, return_inverse=True)
        self._pair = pair.reshape(-1)  # of each row
        self._seed, self._pairs = seed, [(int(trial), int(count)) for trial, count in pairs]
        self._streams: dict[int, np.random.Generator] = {}  # of the pairs whose order has begun
        self._upcoming = [np.empty(0, dtype=np.int64) for _ in pairs]
        self._begin = 0  # position in the order at which `_upcoming` begins
        self._position = 0  # in the order, of the next step
        self._batch_size, self._device = batch_size, device
        self._planned: list[Tensor] = []  # samples of the next steps, the next one last

    def next(self) -> Tensor:
        """Returns (rows, B) the samples of the next step."""
        if not self._planned:
            self._planned = list(self._plan())[::-1]
        self._position += self._batch_size
        return self._planned.pop()

    def only(self, rows: np.ndarray) -> SampleOrder:
        """Returns the order of the rows at these positions, which continues from here; only one of both may."""
        part = copy.copy(self)
        part._pair, part._planned = self._pair[rows], []
        return part

    def _plan(self) -> Tensor:
        """(steps, rows, B) the samples of the steps that follow."""
        used, pairs = np.unique(self._pair, return_inverse=True)
        length = _STEPS_PLANNED * self._batch_size
        blocks = np.stack([self._take(int(pair), self._position - self._begin, length) for pair in used])
        self._begin = self._position
        batches = blocks.reshape(len(used), _STEPS_PLANNED, self._batch_size)[pairs.reshape(-1)].swapaxes(0, 1)
        return to_device(batches, self._device)

    def _take(self, pair: int, skip: int, length: int) -> np.ndarray:
        """Drops `skip` samples of a pair's order and returns the `length` samples that follow."""
        trial, samples = self._pairs[pair]
        if pair not in self._streams:
            (purpose,) = order_of(samples, self._batch_size).purposes
            self._streams[pair] = stream(self._seed, trial, purpose)
        generator = self._streams[pair]
        parts, available = [self._upcoming[pair][skip:]], len(self._upcoming[pair]) - skip
        while available < length:
            parts.append(generator.permutation(samples))
            available += samples
        self._upcoming[pair] = np.concatenate(parts)
        return self._upcoming[pair][:length]
