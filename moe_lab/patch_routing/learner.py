"""A model bound to its data and weights: takes training steps and evaluates test samples.

A learner holds the rows of a batch that still train. `keep` drops those that have ended; row order is kept.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Protocol, Self, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import embedding

from moe_lab.core.graphs import CapturedStep, concurrently, on_accelerator, to_device
from moe_lab.patch_routing import initialization
from moe_lab.patch_routing.batch import Rows
from moe_lab.patch_routing.data import Samples
from moe_lab.patch_routing.loss import Loss, loss_of
from moe_lab.patch_routing.measures import RoutingCounts
from moe_lab.patch_routing.model import PatchModel

NUMBERS_AT_ONCE = {"cpu": 2**20, "cuda": 2**27, "mps": 2**24}
NUMBERS_IN_CACHE = 2**20  # of a step, so that what a product writes is still there for the next operation
GIVE_UP_AFTER = 100  # samples of the first block, after which rows with an error are given up


@dataclass(frozen=True)
class Setting:
    """What all rows of a batch share."""

    model: PatchModel
    classes: int
    seed: int
    signals: Tensor  # (groups, c, d)
    device: torch.device
    dtype: torch.dtype

    def tensor(self, values: np.ndarray) -> Tensor:
        whole = np.issubdtype(values.dtype, np.integer)
        return to_device(values, self.device, torch.int64 if whole else self.dtype)


@runtime_checkable
class Rules(Protocol):
    """The constants of a model's training, with the row axis in front."""

    @property
    def learning_rate(self) -> Float[Tensor, "T 1 1"]: ...

    def of(self, trials: slice | Tensor) -> Self: ...


class Learner(ABC):
    """Rows of one model in training.

    Attributes:
      n, d: patches of a sample, and the numbers of each.
      weights: (T, ...), trained.
      rules: the constants of a step.
      wrong, loss: (T,) errors and loss on the way, summed over all samples used so far.
      samples, counts: (T,) N of each row, on the host and on the device.
    """

    weights: Tensor
    rules: Rules

    def __init__(self, rows: Rows, setting: Setting, train: Samples, test: Samples) -> None:
        self.setting, self.train, self.test = setting, train, test
        self.n, self.d = train.index.shape[2], train.bank.shape[2]
        self.group = setting.tensor(rows.group)
        self.samples, self.counts = rows.samples, setting.tensor(rows.samples)
        self.wrong = torch.zeros(len(rows), device=setting.device, dtype=torch.int64)
        self.loss = torch.zeros(len(rows), device=setting.device, dtype=setting.dtype)
        self.missed = torch.zeros_like(self.wrong)  # a training sample that was misclassified when last evaluated
        self._captured_step: CapturedStep | None = None
        self._parts: dict[int, list[slice]] = {}

    # What a model defines --------------------------------------------------------------------------------------------

    @abstractmethod
    def _step(self, rows: slice, samples: Int[Tensor, "T B"], *drawn: Tensor) -> tuple[Tensor, Loss]:
        """Takes one step of some rows on their samples: returns their weights after it, and the loss before it."""

    @abstractmethod
    def _outputs_of(self, samples: Int[Tensor, "T B"]) -> Float[Tensor, "T c B"]:
        """Computes f for some training samples of every row."""

    @abstractmethod
    def _outputs(self, data: Samples, begin: int, end: int, counts: RoutingCounts | None) -> Float[Tensor, "T c b"]:
        """Computes f for samples begin ... end-1 of every row; adds the routing to `counts`."""

    @abstractmethod
    def routing(self, counts: RoutingCounts) -> dict[str, Tensor]:
        """Computes the routing measures of every row from the sums over the test samples."""

    @abstractmethod
    def examples(self) -> dict[str, Tensor]:
        """Returns where the patches of each class's first test sample go, (T, c, k, n); empty without routers."""

    @property
    @abstractmethod
    def experts(self) -> int:
        """The largest k of the rows."""

    @property
    @abstractmethod
    def numbers_per_sample(self) -> int:
        """The numbers that the evaluation of one sample needs."""

    def _draw(self, batch: int) -> tuple[Tensor, ...]:
        """Returns random numbers (T, ...) of the next step; `_step` receives those of its rows. By default none."""
        return ()

    def _keep(self, rows: np.ndarray, there: Int[Tensor, " kept"]) -> None:
        """Drops all other rows of the model's own state; `there` has the same positions on the device."""
        self.rules = self.rules.of(there)

    def _counts(self) -> RoutingCounts:
        """Sums over test samples, at their beginning."""
        return RoutingCounts(len(self.group), self.experts, self.setting.classes, self.weights)

    @property
    def captured(self) -> bool:
        """Whether a step may be a graph on CUDA: Python reads no number in it and decides nothing by one."""
        return True

    # A step ----------------------------------------------------------------------------------------------------------

    def step(self, samples: Int[Tensor, "T B"]) -> None:
        """Takes one SGD step of every row on the given samples."""
        inputs = (samples, *self._draw(samples.shape[1]))
        if not self.captured:
            self._step_parts(*inputs)
            return
        if self._captured_step is None:
            self._captured_step = CapturedStep(self._step_parts, (self.weights, self.wrong, self.loss), inputs)
        self._captured_step(*inputs)

    def _step_parts(self, samples: Int[Tensor, "T B"], *drawn: Tensor) -> None:
        parts = self.parts(samples.shape[1])
        losses: dict[int, Loss] = {}

        def advance(rows: slice) -> None:
            self.weights[rows], losses[rows.start] = self._step(rows, samples[rows], *(part[rows] for part in drawn))

        concurrently([partial(advance, rows) for rows in parts], self.setting.device)
        self.wrong += (~torch.cat([losses[rows.start].right for rows in parts])).sum(-1)
        self.loss += torch.cat([losses[rows.start].value for rows in parts]).sum(-1)

    def parts(self, batch: int) -> list[slice]:
        """Divides the rows into parts whose steps stay in the cache; on other devices all rows step at once."""
        if batch not in self._parts:
            self._parts[batch] = self._divided(batch)
        return self._parts[batch]

    def _divided(self, batch: int) -> list[slice]:
        return self._in_cache(slice(0, len(self.group)), batch * self.numbers_per_sample)

    def _in_cache(self, rows: slice, numbers: int) -> list[slice]:
        """Divides some rows, given the numbers that a row needs."""
        count = rows.stop - rows.start
        most = NUMBERS_IN_CACHE // numbers if not on_accelerator(self.setting.device) else count
        parts = -(-count // max(1, most))
        return [
            slice(rows.start + count * part // parts, rows.start + count * (part + 1) // parts) for part in range(parts)
        ]

    def operations(self, batch: int) -> int:
        """Estimates the operations of a step of those rows that step together."""
        rows = max((part.stop - part.start for part in self.parts(batch)), default=0)
        return 4 * rows * batch * self.n * self.setting.model.neurons * self.d

    def chosen(self, rows: slice, samples: Int[Tensor, "T B"]) -> tuple[Float[Tensor, "T B n d"], Int[Tensor, "T B"]]:
        """Fetches the patches and labels of some training samples of some rows."""
        table, group = self.train.rows, self.group[rows, None]
        index = table.flatten(0, 1)[group * table.shape[1] + samples]
        return embedding(index, self.train.flat), self.train.labels[group, samples]

    # Rows that leave -------------------------------------------------------------------------------------------------

    def keep(self, rows: np.ndarray) -> None:
        """Keeps only the rows at these positions."""
        there = self.setting.tensor(rows)
        self._keep(rows, there)
        self.weights, self.wrong, self.loss = self.weights[there], self.wrong[there], self.loss[there]
        self.group, self.counts, self.missed = self.group[there], self.counts[there], self.missed[there]
        self.samples, self._captured_step, self._parts = self.samples[rows], None, {}

    def only(self, rows: np.ndarray) -> Self:
        """Returns a learner of the rows at these positions, for evaluation; this one keeps all of its rows."""
        part = copy.copy(self)
        part.keep(rows)
        return part

    # Evaluation ------------------------------------------------------------------------------------------------------

    def evaluate(self) -> dict[str, Tensor]:
        """Computes test accuracy and routing measures of every row, over all test samples."""
        counts, right, count = self._counts(), torch.zeros_like(self.loss), self.test.labels.shape[1]
        for begin, end in self._chunks(count):
            outputs = self._outputs(self.test, begin, end, counts)
            right += loss_of(outputs, self.test.labels[self.group, begin:end]).right.sum(-1)
        return {"test_accuracy": right / count, **self.routing(counts)}

    def training_error(self) -> tuple[Float[Tensor, " T"], Float[Tensor, " T"]]:
        """Computes each row's share of wrong training samples and its mean training loss, exactly."""
        wrong, total = torch.zeros_like(self.loss), torch.zeros_like(self.loss)
        for begin, end in self._chunks(int(self.samples.max())):
            outputs = self._outputs(self.train, begin, end, None)
            loss = loss_of(outputs, self.train.labels[self.group, begin:end])
            counted = torch.arange(begin, end, device=self.counts.device) < self.counts[:, None]
            wrong += (~loss.right & counted).sum(-1)
            total += torch.where(counted, loss.value, 0.0).sum(-1)
        return wrong / self.counts, total / self.counts

    def without_error(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Checks which rows classify all their training samples correctly.

        A row is dropped at the first block of samples with an error, since it usually has several. The next check
        begins with that error, which is usually still there. Later blocks are larger, as few rows are left.

        Returns:
          (rows,) whether a row has no error, and whether its losses are finite on the samples evaluated.
        """
        at, total = self.setting.tensor(rows), int(self.samples[rows].max())
        rest, left, finite = self.only(rows), np.arange(len(rows)), np.ones(len(rows), dtype=bool)
        chosen, seen, size = rest.missed[:, None], 0, GIVE_UP_AFTER
        while True:
            loss = loss_of(rest._outputs_of(chosen), self.train.labels[rest.group[:, None], chosen])
            counted = chosen < rest.counts[:, None]
            wrong = ~loss.right & counted
            right = ~wrong.any(-1).numpy()
            finite[left] &= (loss.value.isfinite() | ~counted).all(-1).numpy()
            self.missed[at[left]] = chosen.gather(1, wrong.byte().argmax(-1, keepdim=True))[:, 0]
            left = left[right]
            if not len(left) or seen == total:
                break
            rest = rest if right.all() else rest.only(np.flatnonzero(right))
            end = min(seen + min(size, rest._samples_at_once), total)
            chosen, seen, size = torch.arange(seen, end).expand(len(left), -1), end, 2 * size
        return np.isin(np.arange(len(rows)), left), finite

    def patches(self, data: Samples, begin: int, end: int) -> Float[Tensor, "T b n d"]:
        """Fetches the patches of samples begin ... end-1 of every row."""
        return embedding(data.rows[self.group, begin:end], data.flat)

    @property
    def _samples_at_once(self) -> int:
        """The samples of every row that are evaluated at once, so that the working set stays small."""
        at_once = NUMBERS_AT_ONCE[self.setting.device.type] // (len(self.group) * self.numbers_per_sample)
        return max(self.setting.classes, at_once)

    def _chunks(self, samples: int) -> list[tuple[int, int]]:
        size = min(self._samples_at_once, samples)
        return [(begin, min(begin + size, samples)) for begin in range(0, samples, size)]


def initial_outputs(rows: Rows, setting: Setting, pooled: np.ndarray, patches: int) -> Float[Tensor, "T m c"]:
    """Returns each row's output weights over the number of patches that it pools: a / l (authors' code: a / n)."""
    outputs = 1 if setting.classes == 2 else setting.classes
    sampled = [initialization.output_weights(setting.model, trial, setting.seed, outputs) for trial in rows.trial]
    over = pooled if setting.model.recipe == "paper" else np.full(len(pooled), patches)
    return setting.tensor(np.stack(sampled) / over[:, None, None])
