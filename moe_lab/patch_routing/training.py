"""Training as a stream of Snapshots (pmoe2023, algorithms 1 and 2).

`train` runs one model on one task for some trials. `train_batch` runs many such runs as one tensor program, a row for
every trial of every run; l, N, k and the step size may differ from row to row. A row ends at zero training error, at
the epoch limit, or when its loss is no longer finite; it then leaves the batch, and the others go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.core.graphs import on_accelerator
from moe_lab.core.interrupts import stop_if_unwanted
from moe_lab.core.memory import Need, check
from moe_lab.core.origins import origin
from moe_lab.core.signatures import with_settings_of
from moe_lab.core.training import Snapshot, TrialProgress
from moe_lab.core.trials import device_and_dtype, threads_for
from moe_lab.patch_routing import model as models
from moe_lab.patch_routing.arrays import ArrayTask
from moe_lab.patch_routing.data import INTEGER_PARTS, ROLES, Samples
from moe_lab.patch_routing.endings import WORTH_CHECKING, Endings
from moe_lab.patch_routing.fixed_learners import CNNLearner, SeparateLearner
from moe_lab.patch_routing.joint_learner import JointLearner
from moe_lab.patch_routing.learners import Learner, Rows, Setting
from moe_lab.patch_routing.measures import MEASURES, OF_THE_SIGNAL
from moe_lab.patch_routing.orders import Orders
from moe_lab.patch_routing.own import OwnModel, has_own_route
from moe_lab.patch_routing.own_learner import OwnLearner, OwnRouteLearner
from moe_lab.patch_routing.routed import RoutedMoE
from moe_lab.patch_routing.routed_learner import RoutedLearner
from moe_lab.patch_routing.run import Run, Task, batch_key

_LEARNERS: dict[type[models.PatchModel], type[Learner]] = {
    models.JointMoE: JointLearner,
    models.SeparateMoE: SeparateLearner,
    models.CNN: CNNLearner,
    RoutedMoE: RoutedLearner,
    OwnModel: OwnLearner,
}
_LOOK_EVERY = 32  # steps after which the host looks which rows have ended on an accelerator; in between it never waits


def learner_of(model: models.PatchModel) -> type[Learner]:
    """The class that trains a model: that of the nearest of its bases, and torch's gradient for a router of its own."""
    if has_own_route(model):
        return OwnRouteLearner
    return next(_LEARNERS[base] for base in type(model).__mro__ if base in _LEARNERS)


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

    Raises:
      ConfigError: a wrong value or combination, at once and not at the first Snapshot.
      ValueError, RuntimeError: an unknown or absent device.
      FileNotFoundError: image files that are not there.
    """
    return train_batch([Run(model=model, task=task, **settings)])


def train_batch(runs: Sequence[Run], drawn: tuple[Samples, Samples] | None = None) -> Iterator[Snapshot]:
    """Trains several runs as one batch. The trial axis of the Snapshots holds the trials of the runs, run after run.

    The runs may differ in samples, trials, first_trial, and in the model's patches_per_expert, experts and
    learning_rate; all else must be the same.

    Args:
      drawn: what `samples_of(runs)` gives, where many batches train on the same data.

    Raises:
      ValueError: no runs, or runs that differ in something else; see `train` for the rest.
      RuntimeError: the device's memory has no room for them.
    """
    require(len(runs) > 0, "train_batch needs at least one run", runs=len(runs))
    first = batch_key(runs[0])
    for run in runs[1:]:
        rule = "runs of one batch may differ in samples, trials, patches_per_expert, experts and learning_rate only"
        require(batch_key(run) == first, rule, first=runs[0].code(), other=run.code())
    check(memory_of(runs), sum(run.trials for run in runs), place_of(runs)[0])
    return Training(runs, samples_of(runs) if drawn is None else drawn).snapshots()


def place_of(runs: Sequence[Run]) -> tuple[torch.device, torch.dtype]:
    """The device and the dtype of a batch, whose runs step together."""
    return device_and_dtype(runs[0], sum(run.numbers for run in runs))


def memory_of(runs: Sequence[Run]) -> Need:
    """What runs take on an accelerator in one batch, whose rows are all as large as the largest."""
    return Need(max(run.memory.each for run in runs), runs[0].memory.whole)


def samples_of(runs: Sequence[Run]) -> tuple[Samples, Samples]:
    """The training samples (as many as the largest N needs) and the test samples of all trials of the runs."""
    run, (rows, trials) = runs[0], _rows(runs)
    device, dtype = place_of(runs)
    common: dict[str, Any] = {"trials": trials, "seed": run.seed, "device": device, "dtype": dtype}
    train = run.task.sample(int(rows.samples.max()), split="train", **common)
    return train, run.task.sample(run.test_samples, split="test", **common)


class Training(TrialProgress):
    """One batch of rows in training."""

    def __init__(self, runs: Sequence[Run], drawn: tuple[Samples, Samples]) -> None:
        self.runs, self.run = runs, runs[0]
        self.rows, trials = _rows(runs)
        count = len(self.rows.trial)
        super().__init__(count, MEASURES)
        task, run, (train, test) = self.run.task, self.run, drawn
        device, dtype = place_of(runs)
        signals = task.signals(trials, run.seed).to(dtype).to(device)
        setting = Setting(run.model, task.classes, run.seed, signals, device, dtype)
        self.learner = learner_of(run.model)(self.rows, setting, train, test)
        self.orders = Orders(self.rows, run.seed, run.model.batch_size)
        self.epoch = -(-self.rows.samples // run.model.batch_size)  # steps of an epoch, rounded up

        self.resident = np.arange(count)  # rows that the learner holds; some may have finished on an accelerator
        hidden = isinstance(task, ArrayTask) and task.signal is None
        self.unknown = OF_THE_SIGNAL if hidden else frozenset[str]()
        self.may_end_early = run.until == "no error"
        self.constants = self._examples(test) if run.measure == "every" else {}
        self.epoch_wrong = np.zeros(count)  # online errors up to the row's last epoch
        self.shown = np.zeros((3, count))  # errors, loss and steps up to the row's last record
        self.planned: list[Tensor] = []  # samples of the next steps, the next one last

    def snapshots(self) -> Iterator[Snapshot]:
        with self._threads():
            if self.run.measure == "every":
                self._measure(np.ones(len(self.resident), dtype=bool))
                self._note_exactly(np.arange(len(self.resident)))
        yield self._snapshot()
        while len(self.resident):
            with self._threads():  # not across the yield: the consumer keeps its own threads
                self._train_until_due()
            yield self._snapshot()

    def _train_until_due(self) -> None:
        """Steps until a Snapshot is due: every `record_every` steps, and when the last row ends."""
        run, due = self.run, False
        while not due:
            stop_if_unwanted()
            self.take_step()
            alive = ~self.finished[self.resident]
            self.steps[self.resident[alive]] = self.step
            ended = self._ended(self.step, alive)
            due = self.step % run.record_every == 0 or bool((ended == alive).all())
            if due:
                self._note_online(alive & ~ended)
            if due and run.measure == "every":
                self._measure(alive)
            elif ended.any():
                self._measure(ended)
            if ended.any() and self._drop_finished():
                self.planned = []  # the plan was for rows of which some have left

    def take_step(self) -> None:
        """One SGD step of every row; a plan of the next steps' samples is made when the last one is used up."""
        if not self.planned:
            self.planned = list(self.orders.plan(self.step, self.resident, self.learner.setting.device))[::-1]
        self.learner.step(self.planned.pop())
        self.step += 1

    def _threads(self) -> AbstractContextManager[None]:
        """As many torch threads as a step of the rows that step at once is worth."""
        model, data = self.run.model, self.learner.train
        rows = max((part.stop - part.start for part in self.learner.parts(model.batch_size)), default=0)
        patches = rows * model.batch_size * data.index.shape[2]
        return threads_for(4 * patches * model.neurons * data.bank.shape[2], self.learner.setting.device)

    def _ended(self, step: int, alive: np.ndarray) -> np.ndarray:
        """(resident,) which rows end now: zero training error, the epoch limit, or a loss that is not finite.

        The loss is also checked whenever a Snapshot is due, so that no Snapshot shows values of a diverged row.
        """
        if self.learner.endings is not None:
            return self._ended_there(self.learner.endings, step, alive)
        due = alive & (step % self.epoch[self.resident] == 0)
        ended = np.zeros(len(self.resident), dtype=bool)
        if not due.any() and step % self.run.record_every:
            return ended
        wrong, loss = self.learner.wrong.cpu().numpy(), self.learner.loss.cpu().numpy()
        errors = (wrong - self.epoch_wrong[self.resident]) / self.rows.samples[self.resident]
        self.epoch_wrong[self.resident[due]] = wrong[due]
        lost = alive & ~np.isfinite(loss)
        last = due & (step >= self.run.epochs * self.epoch[self.resident])
        candidates = np.flatnonzero(due & ~lost & (last | (self.may_end_early & (errors <= WORTH_CHECKING))))
        if len(candidates):
            ended[candidates], finite = self.learner.without_error(candidates)
            lost[candidates] = ~finite  # the last step may have broken them
        ended |= lost | last
        self.diverged[self.resident[lost]] = True
        if ended.any():
            self._note_exactly(np.flatnonzero(ended))
        self.finished[self.resident[ended]] = True
        return ended

    def _ended_there(self, endings: Endings, step: int, alive: np.ndarray) -> np.ndarray:
        """`_ended` on an accelerator, which decides alone; the host looks where a Snapshot is due or all must end."""
        ends = step % self.epoch[self.resident] == 0
        whole = bool(ends.all()) and endings.worth_a_graph(self.learner)  # with rows that have ended, masked there
        due = np.flatnonzero(ends if whole else alive & ends)
        last = step >= self.run.epochs * self.epoch[self.resident]
        shown = step % self.run.record_every == 0
        if len(due) or shown:
            endings.settle(self.learner, step, due, last[due], self.may_end_early)
        if not shown and step % _LOOK_EVERY and not last[alive].all():
            return np.zeros(len(alive), dtype=bool)
        found = endings.read()
        ended = alive & (found["running"] == 0)
        rows, exact = self.resident[ended], ended & (found["lost"] == 0)
        self._set("train_accuracy", self.resident[exact], 1 - found["error"][exact])
        self._set("train_loss", self.resident[exact], found["loss"][exact])
        self.steps[rows] = found["step"][ended]
        self.diverged[self.resident[ended & (found["lost"] != 0)]] = True
        self.finished[rows] = True
        if self.finished.all():
            self.step = int(self.steps.max())  # the steps since then have changed nothing
        return ended

    def _drop_finished(self) -> bool:
        """Removes finished rows from the batch; on an accelerator, where that costs a new graph, once they are half."""
        finished = self.finished[self.resident]
        if on_accelerator(self.learner.setting.device) and 2 * finished.sum() < len(finished):
            return False
        self.learner.keep(np.flatnonzero(~finished))
        self.resident = self.resident[~finished]
        return True

    # What a Snapshot holds -------------------------------------------------------------------------------------------

    def _set(self, name: str, rows: np.ndarray, values: Tensor | np.ndarray) -> None:
        array = values.cpu().numpy() if isinstance(values, Tensor) else values
        if name not in self.values:
            self.values[name] = np.full((len(self.finished), *array.shape[1:]), np.nan)
        self.values[name][rows] = array
        self.values[name][self.diverged] = np.nan

    def _measure(self, chosen: np.ndarray) -> None:
        """Test measures of the chosen resident rows."""
        learner = self.learner if chosen.all() else self.learner.only(np.flatnonzero(chosen))
        rows = self.resident[chosen]
        for name, value in learner.evaluate().items():
            self._set(name, rows, value.new_full(value.shape, np.nan) if name in self.unknown else value)
        for name, value in learner.examples().items() if self.run.measure == "every" else ():
            self._set(name, rows, value)

    def _note_exactly(self, positions: np.ndarray) -> None:
        """Records training error and loss of the resident rows at these positions. An infinite loss is a divergence."""
        error, loss = (part.cpu().numpy() for part in self.learner.only(positions).training_error())
        rows = self.resident[positions]
        self.diverged[rows] |= ~np.isfinite(loss)
        self._set("train_accuracy", rows, 1 - error)
        self._set("train_loss", rows, loss)

    def _note_online(self, chosen: np.ndarray) -> None:
        """Records the error and loss of the chosen resident rows over the samples used since their last record."""
        rows = self.resident[chosen]
        now = np.stack([part.cpu().double().numpy()[chosen] for part in (self.learner.wrong, self.learner.loss)])
        used = (self.steps[rows] - self.shown[2, rows]) * self.run.model.batch_size
        error, loss = (now - self.shown[:2, rows]) / used
        self._set("train_accuracy", rows, 1 - error)
        self._set("train_loss", rows, loss)
        self.shown[:2, rows], self.shown[2, rows] = now, self.steps[rows]

    def _examples(self, test: Samples) -> dict[str, np.ndarray]:
        """The first test sample of each class of every row: what its patches are."""
        classes, group = self.run.task.classes, self.rows.group
        first = Samples(test.bank, *(getattr(test, name)[:, :classes] for name in INTEGER_PARTS))
        return {
            "example_patches": first.patches().cpu().numpy()[group],
            "example_roles": first.roles.cpu().numpy()[group],
            "example_sides": first.sides.cpu().numpy()[group],
        }

    def _snapshot(self) -> Snapshot:
        about = origin(
            call="; ".join(run.code() for run in self.runs),
            config=[run.record() for run in self.runs],
            seed=self.run.seed,
            device=self.learner.setting.device,
            paper=self.run.task.paper,
        )
        return self.snapshot(about, {"role": list(ROLES)} if "expert_load" in self.values else {}, self.constants)


def _rows(runs: Sequence[Run]) -> tuple[Rows, list[int]]:
    """The rows of a batch, and the trials whose data they use."""
    per_row = [(run, trial) for run in runs for trial in run.trial_numbers]
    trials = sorted({trial for _, trial in per_row})
    place = {trial: position for position, trial in enumerate(trials)}
    classes = runs[0].task.classes
    rows = Rows(
        trial=np.array([trial for _, trial in per_row]),
        group=np.array([place[trial] for _, trial in per_row]),
        samples=np.array([run.samples for run, _ in per_row]),
        patches_per_expert=np.array([getattr(run.model, "patches_per_expert", run.task.patches) for run, _ in per_row]),
        experts=np.array([models.experts_of(run.model, classes) for run, _ in per_row]),
        learning_rate=np.array([run.model.learning_rate or run.task.learning_rate for run, _ in per_row]),
    )
    return rows, trials
