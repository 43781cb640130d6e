"""Training as a stream of Snapshots (pmoe2023, algorithms 1 and 2).

`train` runs one model on one task for some trials. `train_batch` runs many such runs as one tensor program, a row for
every trial of every run; l, N, k and the step size may differ from row to row. A row ends at zero training error, at
the epoch limit, or when its loss is no longer finite; it then leaves the batch, and the others go on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Self

import numpy as np
import torch
from pydantic import model_validator
from torch import Tensor

from moe_lab import __version__
from moe_lab.config import Config, knob, require
from moe_lab.patch_routing import model as models
from moe_lab.patch_routing.data import INTEGER_PARTS, ROLES, PatternTask, Samples, check_balance
from moe_lab.patch_routing.digits import DigitTask
from moe_lab.patch_routing.learners import Learner, Rows, Setting, make_learner
from moe_lab.patch_routing.measures import MEASURES
from moe_lab.training import Snapshot
from moe_lab.trials import Precision, choose_device, choose_dtype, device_label, stream

Task = PatternTask | DigitTask
_STEPS_PLANNED = 32  # steps whose samples are drawn at once
_WORTH_CHECKING = 0.05  # an epoch with more errors than this on the way is not checked for zero training error


class Run(Config):
    """One model on one task: everything that `train` needs to know, checked together.

    Raises:
      ConfigError: a value is out of bounds or the model does not fit the task (l > n, m not divisible by k, ...).
    """

    model: models.JointMoE | models.SeparateMoE | models.CNN
    task: PatternTask | DigitTask
    samples: int = knob(200, symbol="N", meaning="training samples", ge=2, le=10**7, slider=(20, 1000, 20))
    trials: int = knob(5, symbol="T", meaning="independent trials", ge=1, le=10**6, slider=(1, 20, 1))
    first_trial: int = knob(0, meaning="number of the first trial", ge=0, le=2**31)
    seed: int = knob(0, symbol="seed", meaning="seed of all random streams", ge=0, le=2**63, slider=(0, 99, 1))
    epochs: int = knob(150, symbol="E", meaning="most passes over the data", ge=1, le=10**6)
    test_samples: int = knob(1000, symbol="N_test", meaning="test samples", ge=2, le=10**7)
    record_every: int = knob(10, meaning="steps from one Snapshot to the next", ge=1, le=10**9)
    measure: Literal["every", "last"] = knob("every", meaning="which Snapshots are measured on test samples")
    device: str = knob("auto", meaning="where to compute: auto, cpu, cuda, cuda:N or mps")
    precision: Precision = knob("float32", meaning="float32 or float64")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        models.check_model(self.model, self.task.patches, self.task.classes)
        check_balance(self.samples, self.task.classes)
        check_balance(self.test_samples, self.task.classes, name="test_samples", symbol="N_test")
        rule = "batch_size (B) must be at most samples (N)"
        require(self.model.batch_size <= self.samples, rule, B=self.model.batch_size, N=self.samples)
        return self

    def code(self) -> str:
        """The call of `train` that makes this run."""
        given = [
            f"{name}={getattr(self, name)!r}"
            for name, field in type(self).model_fields.items()
            if name not in ("model", "task") and getattr(self, name) != field.default
        ]
        return f"train({', '.join([self.model.code(), self.task.code(), *given])})"

    def record(self) -> dict[str, Any]:
        """The run as plain values for files; `kind` names the class of its model and of its task."""
        plain = self.model_dump(mode="json")
        return plain | {part: {"kind": type(getattr(self, part)).__name__, **plain[part]} for part in ("model", "task")}


def train(model: models.Model, task: Task, **settings: Any) -> Iterator[Snapshot]:
    """Trains a model on a task and yields Snapshots: step 0, every `record_every` steps, and the end.

    >>> from moe_lab.patch_routing import JointMoE, PatternTask, train
    >>> for snapshot in train(JointMoE(), PatternTask(), samples=200, trials=5, seed=0):
    ...     accuracy = snapshot["test_accuracy"]  # (trial,)

    Args:
      model: JointMoE, SeparateMoE or CNN.
      task: PatternTask or DigitTask.
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
      drawn: what `draw_samples(runs)` gives, where many batches train on the same data.

    Raises:
      ValueError: no runs, or runs that differ in something else; see `train` for the rest.
    """
    require(len(runs) > 0, "train_batch needs at least one run", runs=len(runs))
    first = _shared(runs[0])
    for run in runs[1:]:
        rule = "runs of one batch may differ in samples, trials, patches_per_expert, experts and learning_rate only"
        require(_shared(run) == first, rule, first=runs[0].code(), other=run.code())
    choose_dtype(runs[0].precision, choose_device(runs[0].device))
    return _Training(runs, draw_samples(runs) if drawn is None else drawn).snapshots()


def draw_samples(runs: Sequence[Run]) -> tuple[Samples, Samples]:
    """The training samples (as many as the largest N needs) and the test samples of all trials of the runs."""
    run, (rows, trials) = runs[0], _rows(runs)
    device = choose_device(run.device)
    draw: dict[str, Any] = {"trials": trials, "seed": run.seed, "device": device}
    draw["dtype"] = choose_dtype(run.precision, device)
    train = run.task.draw(int(rows.samples.max()), split="train", **draw)
    return train, run.task.draw(run.test_samples, split="test", **draw)


def _shared(run: Run) -> Run:
    """The run with everything that may differ within a batch set to one value."""
    same: dict[str, Any] = {"learning_rate": None}
    if not isinstance(run.model, models.CNN):
        same["patches_per_expert"] = 1
    if isinstance(run.model, models.JointMoE):
        same["experts"] = 1
    model = run.model.replace(**same)
    return run.model_copy(update={"model": model, "samples": 0, "trials": 0, "first_trial": 0})


class _Training:
    """One batch of rows on its way."""

    def __init__(self, runs: Sequence[Run], drawn: tuple[Samples, Samples]) -> None:
        self.runs, self.run = runs, runs[0]
        self.rows, trials = _rows(runs)
        task, run, (train, test) = self.run.task, self.run, drawn
        device = choose_device(run.device)
        dtype = choose_dtype(run.precision, device)
        signals = task.signals(trials, run.seed).to(dtype).to(device)
        setting = Setting(run.model, task.classes, run.seed, signals, device, dtype)
        self.learner: Learner = make_learner(self.rows, setting, train, test)
        self.orders = _Orders(self.rows, run.seed, run.model.batch_size)
        self.epoch = -(-self.rows.samples // run.model.batch_size)  # steps of an epoch, rounded up

        count = len(self.rows.trial)
        self.resident = np.arange(count)  # rows that the learner holds; on CUDA some of them may have finished
        self.steps = np.zeros(count, dtype=np.int64)
        self.finished, self.diverged = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        self.values: dict[str, np.ndarray] = {}
        self.constants = self._examples(test) if run.measure == "every" else {}
        self.epoch_wrong = np.zeros(count)  # errors on the way, up to the row's last epoch
        self.shown = np.zeros((3, count))  # errors, loss and steps up to the row's last record

    def snapshots(self) -> Iterator[Snapshot]:
        run, step = self.run, 0
        if run.measure == "every":
            self._measure(np.ones(len(self.resident), dtype=bool))
            self._note_exactly(np.arange(len(self.resident)))
        yield self._snapshot(step)
        while len(self.resident):
            for samples in self.orders.plan(step, self.resident, self.learner.setting.device):
                self.learner.step(samples)
                step += 1
                alive = ~self.finished[self.resident]
                self.steps[self.resident[alive]] = step
                ended = self._ended(step, alive)
                due = step % run.record_every == 0 or bool((ended == alive).all())
                if due:
                    self._note_online(alive & ~ended)
                if due and run.measure == "every":
                    self._measure(alive)
                elif ended.any():
                    self._measure(ended)
                left = self._drop_finished() if ended.any() else False
                if due:
                    yield self._snapshot(step)
                if left:
                    break  # the plan was for rows of which some have left

    def _ended(self, step: int, alive: np.ndarray) -> np.ndarray:
        """(resident,) which rows end now: zero training error, the epoch limit, or a loss that is not finite.

        The loss is looked at whenever a Snapshot is due too, so that no Snapshot shows what a broken row answers.
        """
        due = alive & (step % self.epoch[self.resident] == 0)
        ended = np.zeros(len(self.resident), dtype=bool)
        if not due.any() and step % self.run.record_every:
            return ended
        wrong, loss = self.learner.wrong.cpu().numpy(), self.learner.loss.cpu().numpy()
        errors = (wrong - self.epoch_wrong[self.resident]) / self.rows.samples[self.resident]
        self.epoch_wrong[self.resident[due]] = wrong[due]
        lost = alive & ~np.isfinite(loss)
        last = due & (step >= self.run.epochs * self.epoch[self.resident])
        candidates = np.flatnonzero(due & ~lost & (last | (errors <= _WORTH_CHECKING)))
        if len(candidates):
            ended[candidates] = self._note_exactly(candidates)
            lost[candidates] = ~np.isfinite(
                self.values["train_loss"][self.resident[candidates]]
            )  # the last step's fault
        ended |= lost | last
        self.diverged[self.resident[lost]] = True
        self.finished[self.resident[ended]] = True
        return ended

    def _drop_finished(self) -> bool:
        """Lets finished rows leave the batch. On CUDA that costs a new graph, so only once an eighth has finished."""
        finished = self.finished[self.resident]
        wasted = 8 * finished.sum() < len(finished)
        if self.learner.setting.device.type == "cuda" and wasted and not finished.all():
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
        for name, value in learner.examine().items():
            self._set(name, rows, value)
        kept = learner.example_kept() if self.run.measure == "every" else None
        if kept is not None:
            self._set("example_kept", rows, kept)

    def _note_exactly(self, positions: np.ndarray) -> np.ndarray:
        """Notes training error and loss of the resident rows at these positions; returns which have zero error."""
        error, loss = (part.cpu().numpy() for part in self.learner.only(positions).training_error())
        self._set("train_accuracy", self.resident[positions], 1 - error)
        self._set("train_loss", self.resident[positions], loss)
        return error == 0

    def _note_online(self, chosen: np.ndarray) -> None:
        """Notes the error and loss of the chosen resident rows over the samples used since their last record."""
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

    def _snapshot(self, step: int) -> Snapshot:
        values = {name: value.copy() for name, value in self.values.items()} | self.constants
        return Snapshot(
            step=step,
            values=values,
            measures={name: MEASURES[name] for name in values},
            steps=self.steps.copy(),
            finished=self.finished.copy(),
            diverged=self.diverged.copy(),
            coords={"role": list(ROLES)} if "expert_load" in values else {},
            origin=self._origin(),
        )

    def _origin(self) -> dict[str, Any]:
        """How to make this batch again; plain values only, so that every file format can hold them."""
        return {
            "call": "; ".join(run.code() for run in self.runs),
            "config": json.dumps([run.record() for run in self.runs]),
            "seed": self.run.seed,
            "device": device_label(self.learner.setting.device),
            "version": __version__,
            "paper": self.run.task.paper,
        }


def _rows(runs: Sequence[Run]) -> tuple[Rows, list[int]]:
    """The rows of a batch, and the trials whose data they use."""
    per_row = [(run, trial) for run in runs for trial in range(run.first_trial, run.first_trial + run.trials)]
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


class _Orders:
    """The order in which each row sees its samples: one permutation after another, cut into batches of B.

    Rows of the same trial and N see the same order, whatever their model or l, and whoever trains beside them.
    """

    def __init__(self, rows: Rows, seed: int, batch_size: int) -> None:
        pairs, self._pair = np.unique(np.stack((rows.trial, rows.samples), axis=1), axis=0, return_inverse=True)
        self._pair = self._pair.reshape(-1)
        self._streams = [(stream(seed, int(trial), f"order/{count}"), int(count)) for trial, count in pairs]
        self._drawn = [np.empty(0, dtype=np.int64) for _ in pairs]
        self._begin = 0  # position in the order where the drawn parts begin
        self._batch = batch_size

    def plan(self, step: int, rows: np.ndarray, device: torch.device) -> Tensor:
        """(steps, rows, B) the samples of the next steps after `step`."""
        used, pairs = np.unique(self._pair[rows], return_inverse=True)
        position, wanted = step * self._batch, _STEPS_PLANNED * self._batch
        blocks = np.stack([self._take(int(pair), position - self._begin, wanted) for pair in used])
        self._begin = position
        chosen = blocks.reshape(len(used), _STEPS_PLANNED, self._batch)[pairs.reshape(-1)].swapaxes(0, 1)
        return torch.as_tensor(np.ascontiguousarray(chosen), device=device)

    def _take(self, pair: int, skip: int, wanted: int) -> np.ndarray:
        generator, count = self._streams[pair]
        parts, have = [self._drawn[pair][skip:]], len(self._drawn[pair]) - skip
        while have < wanted:
            parts.append(generator.permutation(count))
            have += count
        self._drawn[pair] = np.concatenate(parts)
        return self._drawn[pair][:wanted]
