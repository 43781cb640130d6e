"""A model bound to its data and weights: takes training steps, evaluates test samples, and says which rows end."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, Self, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import embedding

from moe_lab.core import training
from moe_lab.core.graphs import concurrently, on_accelerator, to_device
from moe_lab.core.trials import Draw
from moe_lab.patch_routing import initialization
from moe_lab.patch_routing.arrays import ArrayTask
from moe_lab.patch_routing.batch import Rows, SampleOrder, order_of
from moe_lab.patch_routing.data import INTEGER_PARTS, PatchSamples
from moe_lab.patch_routing.loss import Loss, loss_of
from moe_lab.patch_routing.measures import OF_THE_SIGNAL, RoutingCounts
from moe_lab.patch_routing.model import PatchModel
from moe_lab.patch_routing.run import PatchRun

NUMBERS_AT_ONCE = {"cpu": 2**20, "cuda": 2**27, "mps": 2**24}
NUMBERS_IN_CACHE = 2**20  # of a step, so that what a product writes is still there for the next operation
GIVE_UP_AFTER = 100  # samples of the first block, after which rows with an error are given up


def numbers_at_once(device: torch.device) -> int:
    """Returns how many numbers an evaluation may work on at once; a CPU in the form for accelerators takes as many."""
    return NUMBERS_AT_ONCE["cuda" if device.type == "cpu" and on_accelerator(device) else device.type]


@dataclass(frozen=True)
class Setting:
    """What all rows of a batch share.

    Attributes:
      run: the first of the batch, for the settings in which runs may not differ.
      signals: (groups, c, d).
    """

    run: PatchRun
    signals: Tensor
    device: torch.device
    dtype: torch.dtype

    @property
    def model(self) -> PatchModel:
        return self.run.model

    @property
    def classes(self) -> int:
        return self.run.task.classes

    @property
    def seed(self) -> int:
        return self.run.seed

    def tensor(self, values: np.ndarray | Tensor) -> Tensor:
        whole = not isinstance(values, Tensor) and np.issubdtype(values.dtype, np.integer)
        return to_device(values, self.device, torch.int64 if whole else self.dtype)


@runtime_checkable
class Rules(Protocol):
    """The constants of a model's training, with the row axis in front."""

    @property
    def learning_rate(self) -> Float[Tensor, "T 1 1"]: ...

    def of(self, trials: slice | Tensor) -> Self: ...


class PatchLearner(training.Learner):
    """Rows of one model in training, each until its epochs are over or, if so asked, it makes no error in training.

    The error is that of the weights at the end of an epoch, over all training samples. A row that has ended keeps its
    weights, because its step size becomes 0.

    Attributes:
      n, d: patches of a sample, and the numbers of each.
      weights: (T, ...), trained.
      rules: the constants of a step.
      wrong, loss: (T,) errors and loss on the way, summed over the samples used since the last Snapshot.
      exact: (2, T) of rows that have ended, the share of wrong training samples and the mean loss.
      samples, counts: (T,) N of each row, on the host and on the device.
      epoch, limit: (T,) steps of an epoch, rounded up, and of all epochs.
    """

    weights: Tensor
    rules: Rules
    may_leave = True

    def __init__(self, rows: Rows, setting: Setting, train: PatchSamples, test: PatchSamples) -> None:
        super().__init__(range(len(rows)), torch.zeros((), device=setting.device, dtype=setting.dtype))
        self.setting, self.train, self.test = setting, train, test
        self.n, self.d = train.index.shape[2], train.bank.shape[2]
        self.group = setting.tensor(rows.group)
        self.samples, self.counts = rows.samples, setting.tensor(rows.samples)
        self.wrong = torch.zeros_like(self.steps)
        self.exact = self.loss.new_zeros(2, len(rows))
        self.missed = torch.zeros_like(self.wrong)  # a training sample that was misclassified when last evaluated
        self.order = SampleOrder(rows, setting.seed, setting.model.batch_size, setting.device)
        self.epoch = -(-rows.samples // setting.model.batch_size)
        self.limit = setting.run.epochs * self.epoch
        self._recorded = torch.zeros_like(self.steps)
        self._parts: dict[int, list[slice]] = {}
        if setting.run.measure == "every":
            self.constants = self._example_samples()

    # What a model defines --------------------------------------------------------------------------------------------

    @abstractmethod
    def _step(self, rows: slice, samples: Int[Tensor, "T B"], *drawn: Tensor) -> tuple[Tensor, Loss]:
        """Takes one step of some rows on their samples: returns their weights after it, and the loss before it."""

    @abstractmethod
    def _outputs_of(self, samples: Int[Tensor, "T B"]) -> Float[Tensor, "T c B"]:
        """Computes f for some training samples of every row."""

    @abstractmethod
    def _outputs(
        self, data: PatchSamples, begin: int, end: int, counts: RoutingCounts | None
    ) -> Float[Tensor, "T c b"]:
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

    def _keep(self, rows: np.ndarray, there: Int[Tensor, " rows"]) -> None:
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

    @property
    def changed(self) -> Sequence[Tensor] | None:
        return (self.weights, self.wrong) if self.captured else None

    def inputs(self, steps: int) -> Iterator[tuple[Tensor, ...]]:
        """Yields the samples of each step, (T, B), and its random numbers."""
        for _ in range(steps):
            samples = self.order.next()
            yield samples, *self._draw(samples.shape[1])

    @property
    def step_draws(self) -> dict[str, Draw]:
        (samples,) = set(self.samples.tolist())  # a batch of runs that differ in N draws from several streams
        return {"samples": order_of(samples, self.setting.model.batch_size)}

    def inputs_of(self, raw: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        return (raw["samples"].long(),)

    def step(self, samples: Int[Tensor, "T B"], *drawn: Tensor) -> None:  # type: ignore[override]
        """Takes one SGD step of every row on the given samples."""
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
            self._parts[batch] = self._divided(batch) if len(self.group) else []
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

    @property
    def operations(self) -> float:  # type: ignore[override]
        """Of those rows that step together."""
        batch = self.setting.model.batch_size
        rows = max((part.stop - part.start for part in self.parts(batch)), default=0)
        return 4 * rows * batch * self.n * self.setting.model.neurons * self.d

    def chosen(self, rows: slice, samples: Int[Tensor, "T B"]) -> tuple[Float[Tensor, "T B n d"], Int[Tensor, "T B"]]:
        """Fetches the patches and labels of some training samples of some rows."""
        table, group = self.train.rows, self.group[rows, None]
        index = table.flatten(0, 1)[group * table.shape[1] + samples]
        return embedding(index, self.train.flat), self.train.labels[group, samples]

    # Rows that end and leave -----------------------------------------------------------------------------------------

    def until_rule(self) -> int:
        """Returns the steps until the next row has completed an epoch."""
        epoch = self.epoch[~self.ended]
        return int((epoch - self.done % epoch).min())

    def end_trials(self) -> None:
        """Ends the rows that have completed an epoch without an error, or their last one."""
        last = self.done >= self.limit
        ends = (self.done % self.epoch == 0) & ~self.ended
        due = np.flatnonzero(ends & (last | (self.setting.run.until == "no error")))
        if not on_accelerator(self.setting.device):
            due = self._may_end(due, last[due])
        if not len(due):
            return
        self._end(self.only(due), to_device(due, self.setting.device), to_device(last[due], self.setting.device))

    def end_all(self, last: Bool[Tensor, ""]) -> None:
        self._end(self, slice(None), last)

    def _end(self, due: Self, at: Int[Tensor, " due"] | slice, last: Bool[Tensor, "*due"]) -> None:
        """Ends those rows that have completed an epoch without an error, or their last one, or that have diverged.

        Args:
          due: a learner of the rows that have completed an epoch.
          at: their positions.
          last: whether it was the last epoch.
        """
        exact = torch.stack(due.training_error())
        finite = exact[1].isfinite() & due.loss.isfinite()  # the last step may have broken the first alone
        right = (exact[0] == 0) if self.setting.run.until == "no error" else torch.zeros_like(finite)
        ends = due.active & (right | last | ~finite)
        self.exact[:, at] = torch.where(ends, exact, due.exact)
        self.loss[at] = torch.where(ends & ~finite, torch.nan, due.loss)
        self.active[at] = due.active & ~ends
        self.rules.learning_rate.mul_(self.active[:, None, None])

    def _may_end(self, rows: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Returns those rows that are in their last epoch, or have no error, or a loss that is not finite.

        The others need no exact evaluation, which for all rows would be a third more work than the training. On an
        accelerator the host would have to wait for the answer.
        """
        ends = last.copy()
        candidates = np.flatnonzero(~last)
        if len(candidates):
            right, finite = self.without_error(rows[candidates])
            ends[candidates] = right | ~finite
        return rows[ends]

    def keep(self, positions: np.ndarray) -> None:
        super().keep(positions)
        there = self.setting.tensor(positions)
        self._keep(positions, there)
        self.weights, self.wrong, self.exact = self.weights[there], self.wrong[there], self.exact[:, there]
        self.group, self.counts, self.missed = self.group[there], self.counts[there], self.missed[there]
        self.samples, self.epoch, self.limit = self.samples[positions], self.epoch[positions], self.limit[positions]
        self._recorded, self._parts, self.order = self._recorded[there], {}, self.order.only(positions)

    # Evaluation ------------------------------------------------------------------------------------------------------

    def online(self) -> dict[str, Tensor]:
        """Returns accuracy and loss over the samples used since the last call; over all once a row has ended."""
        if not self.done:
            return {}
        used = (self.steps - self._recorded) * self.setting.model.batch_size
        wrong, loss = (one.cpu().double() for one in (self.wrong, self.loss))  # some devices have no doubles
        on_the_way = torch.stack((wrong, loss)) / used.cpu()
        error, loss = torch.where(self.active.cpu(), on_the_way, self.exact.cpu().double())
        self.wrong.zero_()
        self.loss.zero_()
        self._recorded.copy_(self.steps)
        return {"train_accuracy": 1 - error, "train_loss": loss}

    def measure(self, whole: bool) -> dict[str, Tensor]:
        """Evaluates test accuracy and routing, and before the first step the training error."""
        run, values = self.setting.run, self.evaluate()
        if run.measure == "every":
            values |= self.examples()
        if isinstance(run.task, ArrayTask) and run.task.signal is None:
            values |= {name: torch.full_like(values[name], torch.nan) for name in OF_THE_SIGNAL & values.keys()}
        if not self.done:
            error, loss = self.training_error()
            values |= {"train_accuracy": 1 - error, "train_loss": loss}
        return values

    def _example_samples(self) -> dict[str, Tensor]:
        """Returns the patches, roles and sides of the first test sample of each class, for every row."""
        parts = (getattr(self.test, name)[:, : self.setting.classes] for name in INTEGER_PARTS)
        first = PatchSamples(self.test.bank, *parts)
        examples = {"example_patches": first.patches(), "example_roles": first.roles, "example_sides": first.sides}
        return {name: part[self.group] for name, part in examples.items()}

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

    def patches(self, data: PatchSamples, begin: int, end: int) -> Float[Tensor, "T b n d"]:
        """Fetches the patches of samples begin ... end-1 of every row."""
        return embedding(data.rows[self.group, begin:end], data.flat)

    @property
    def _samples_at_once(self) -> int:
        """The samples of every row that are evaluated at once, so that the working set stays small."""
        at_once = numbers_at_once(self.setting.device) // (len(self.group) * self.numbers_per_sample)
        return max(self.setting.classes, at_once)

    def _chunks(self, samples: int) -> list[tuple[int, int]]:
        size = min(self._samples_at_once, samples)
        return [(begin, min(begin + size, samples)) for begin in range(0, samples, size)]


def initial_outputs(rows: Rows, setting: Setting, pooled: np.ndarray, patches: int) -> Float[Tensor, "T m c"]:
    """Returns each row's output weights over the number of patches that it pools: a / l (authors' code: a / n)."""
    outputs = 1 if setting.classes == 2 else setting.classes
    sampled = initialization.output_weights(setting.model, rows.trial.tolist(), setting.seed, outputs)
    over = pooled if setting.model.recipe == "paper" else np.full(len(pooled), patches)
    return setting.tensor(sampled / torch.from_numpy(over)[:, None, None])
