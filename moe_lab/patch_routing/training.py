"""Training as a stream of Snapshots (pmoe2023, algorithms 1 and 2).

`train` runs one model on one task for some trials. `train_batch` runs many such runs as one batch (see `batch`), a row
for every trial of every run. A `Learner` takes the steps of all rows, and `stopping` says which rows end: these leave
the batch, and the others go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from moe_lab.core.graphs import on_accelerator
from moe_lab.core.interrupts import stop_if_unwanted
from moe_lab.core.memory import check
from moe_lab.core.origins import origin
from moe_lab.core.signatures import with_settings_of
from moe_lab.core.training import Snapshot, TrialProgress
from moe_lab.core.trials import threads_for
from moe_lab.patch_routing import model as models
from moe_lab.patch_routing.arrays import ArrayTask
from moe_lab.patch_routing.batch import Rows, SampleOrder, check_alike, device_and_dtype_of, memory_of, samples_of
from moe_lab.patch_routing.data import INTEGER_PARTS, ROLES, Samples
from moe_lab.patch_routing.fixed_learners import CNNLearner, SeparateLearner
from moe_lab.patch_routing.learner import Learner, Setting
from moe_lab.patch_routing.learners import JointLearner, RoutedLearner
from moe_lab.patch_routing.measures import MEASURES, OF_THE_SIGNAL
from moe_lab.patch_routing.own import OwnModel
from moe_lab.patch_routing.own_learner import OwnLearner
from moe_lab.patch_routing.routed import RoutedMoE
from moe_lab.patch_routing.run import Run, Task
from moe_lab.patch_routing.stopping import Ended, stopping_of

_LEARNERS: dict[type[models.PatchModel], type[Learner]] = {
    models.JointMoE: JointLearner,
    models.SeparateMoE: SeparateLearner,
    models.CNN: CNNLearner,
    RoutedMoE: RoutedLearner,
    OwnModel: OwnLearner,
}


@with_settings_of(Run)
def train(model: models.PatchModel, task: Task, **settings: Any) -> Iterator[Snapshot]:
    """Trains a model on a task and yields Snapshots: step 0, every `record_every` steps, and the end.

    >>> from moe_lab.patch_routing import JointMoE, PatternTask, train
    >>> for snapshot in train(JointMoE(), PatternTask(), samples=200, trials=5, seed=0):
    ...     accuracy = snapshot["test_accuracy"]  # (trial,)

    Args:
      model: JointMoE, SeparateMoE, CNN, RoutedMoE, a subclass of one of them, or an `OwnModel`.
      task: PatternTask, DigitTask, or ArrayTask for patches of your own.
      settings: the other parameters of `Run`: samples, trials, seed, epochs, device, precision, ...

    Yields:
      Snapshots with the values of `measures.MEASURES`.

    Raises:
      ConfigError: a wrong value or combination, before the first Snapshot.
      ValueError, RuntimeError: an unknown or absent device.
      FileNotFoundError: missing image files.
    """
    return train_batch([Run(model=model, task=task, **settings)])


def train_batch(runs: Sequence[Run], drawn: tuple[Samples, Samples] | None = None) -> Iterator[Snapshot]:
    """Trains several runs as one batch. The trial axis of the Snapshots holds the trials of the runs, run after run.

    The runs may differ in samples, trials, first_trial, and in the model's patches_per_expert, experts and
    learning_rate; all else must be the same.

    Args:
      drawn: the result of `samples_of(runs)`, where many batches train on the same data.

    Raises:
      ValueError: no runs, or runs that differ in something else; see `train` for the rest.
      RuntimeError: the device's memory has no room for them.
    """
    check_alike(runs)
    check(memory_of(runs), sum(run.trials for run in runs), device_and_dtype_of(runs)[0])
    return Training(runs, samples_of(runs) if drawn is None else drawn).snapshots()


class Training(TrialProgress):
    """A batch in training. Its trials are the rows of the batch.

    Args:
      drawn: the result of `samples_of(runs)`.

    Attributes:
      learner: the rows that still train; on an accelerator also some that have ended, see `_leave`.
      resident: their numbers among all rows of the batch.
    """

    def __init__(self, runs: Sequence[Run], drawn: tuple[Samples, Samples]) -> None:
        self.run, rows, (train, test) = runs[0], Rows.of(runs), drawn
        super().__init__(len(rows), MEASURES)
        run, task, (device, dtype) = self.run, self.run.task, device_and_dtype_of(runs)
        signals = task.signals(rows.trials, run.seed).to(dtype).to(device)
        setting = Setting(run.model, task.classes, run.seed, signals, device, dtype)
        of_model = next(_LEARNERS[base] for base in type(run.model).__mro__ if base in _LEARNERS)
        with threads_for(0, device):
            self.learner = of_model(rows, setting, train, test)
        self.order = SampleOrder(rows, run.seed, run.model.batch_size, device)
        self.stopping = stopping_of(self.learner, run)
        self.resident = np.arange(len(rows))
        self.origin = origin(
            call="; ".join(one.code() for one in runs),
            config=[one.record() for one in runs],
            seed=run.seed,
            device=device,
            paper=task.paper,
        )
        self.constants = _examples(test, task.classes, rows.group) if run.measure == "every" else {}
        self.unknown = OF_THE_SIGNAL if isinstance(task, ArrayTask) and task.signal is None else frozenset[str]()
        self.recorded = np.zeros((3, len(rows)))  # errors, loss and steps up to each row's last record

    def snapshots(self) -> Iterator[Snapshot]:
        with self._threads():
            if self.run.measure == "every":
                everyone = np.arange(len(self.resident))
                error, loss = (part.cpu().numpy() for part in self.learner.training_error())
                self.diverged |= ~np.isfinite(loss)  # before anything is recorded of them
                self._measure(everyone)
                self.record({"train_accuracy": 1 - error, "train_loss": loss}, everyone)
        yield self._snapshot()
        while len(self.resident):
            with self._threads():  # not across the yield: the consumer keeps its own threads
                self._train_until_due()
            yield self._snapshot()

    def _train_until_due(self) -> None:
        """Steps until a Snapshot is due: every `record_every` steps, and when the last row ends."""
        due = False
        while not due:
            stop_if_unwanted()
            self.take_step()
            stepped = np.flatnonzero(~self.finished[self.resident])
            self.steps[self.resident[stepped]] = self.step
            ended = self.stopping.after(self.step)
            if ended is not None:
                self._end(ended)
            left = np.flatnonzero(~self.finished[self.resident])
            due = self.step % self.run.record_every == 0 or not len(left)
            if due:
                self._record_online(left)
            if due and self.run.measure == "every":
                self._measure(stepped)
            elif ended is not None:
                self._measure(ended.rows)
            if ended is not None:
                self._leave()

    def take_step(self) -> None:
        """Takes one SGD step of every row."""
        self.learner.step(self.order.next())
        self.step += 1

    def _end(self, ended: Ended) -> None:
        """Notes that rows have ended."""
        rows = self.resident[ended.rows]
        self.finished[rows], self.steps[rows], self.diverged[rows] = True, ended.steps, ended.diverged
        self.record({"train_accuracy": 1 - ended.error, "train_loss": ended.loss}, rows)
        if self.finished.all():
            self.step = int(self.steps.max())  # on an accelerator, the steps since then have changed nothing

    def _leave(self) -> None:
        """Drops finished rows; on an accelerator, where that costs a new graph, once they are half."""
        finished = self.finished[self.resident]
        if on_accelerator(self.learner.setting.device) and 2 * finished.sum() < len(finished):
            return
        left = np.flatnonzero(~finished)
        for part in (self.learner, self.stopping, self.order):
            part.keep(left)
        self.resident = self.resident[left]

    def _threads(self) -> AbstractContextManager[None]:
        """Limits torch to the threads that a step of the rows is worth."""
        return threads_for(self.learner.operations(self.run.model.batch_size), self.learner.setting.device)

    def _measure(self, positions: np.ndarray) -> None:
        """Records the test measures of the resident rows at these positions."""
        learner = self.learner if len(positions) == len(self.resident) else self.learner.only(positions)
        measured = learner.evaluate() | (learner.examples() if self.run.measure == "every" else {})
        values = {name: value.cpu().numpy() for name, value in measured.items()}
        for name in self.unknown & values.keys():
            values[name] = np.full_like(values[name], np.nan)
        self.record(values, self.resident[positions])

    def _record_online(self, positions: np.ndarray) -> None:
        """Records the errors and loss of resident rows on the way, over the samples used since their last record."""
        rows = self.resident[positions]
        wrong, loss = (part.cpu().double().numpy()[positions] for part in (self.learner.wrong, self.learner.loss))
        now = np.stack([wrong, loss, self.steps[rows]])
        errors, losses, steps = now - self.recorded[:, rows]
        used = steps * self.run.model.batch_size
        self.record({"train_accuracy": 1 - errors / used, "train_loss": losses / used}, rows)
        self.recorded[:, rows] = now

    def _snapshot(self) -> Snapshot:
        coords = {"role": list(ROLES)} if "expert_load" in self.values else {}
        return self.snapshot(self.origin, coords, self.constants)


def _examples(test: Samples, classes: int, group: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the patches, roles and sides of the first test sample of each class, for every row."""
    first = Samples(test.bank, *(getattr(test, name)[:, :classes] for name in INTEGER_PARTS))
    parts = {"example_patches": first.patches(), "example_roles": first.roles, "example_sides": first.sides}
    return {name: part.cpu().numpy()[group] for name, part in parts.items()}
