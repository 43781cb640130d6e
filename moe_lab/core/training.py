"""The loop that trains every room: a room writes a `Learner`, and `Training` makes Snapshots of it.

A learner is data and weights with an exact step, measures, and a rule that ends trials. The loop has the rest: which
steps are due, when trials are measured, which have ended or diverged and leave, and what an accelerator captures.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, repeat
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from moe_lab.core.graphs import CapturedStep, on_accelerator
from moe_lab.core.interrupts import stop_if_unwanted
from moe_lab.core.memory import trials_in_groups
from moe_lab.core.origins import origin_of
from moe_lab.core.snapshots import Measure, Snapshot
from moe_lab.core.trials import Draw, device_and_dtype, each_within, in_groups, threads_for

LOOK_EVERY = 32
"""Steps after which the host looks which trials have ended on an accelerator; in between it never waits."""


class Learner(ABC):
    """Some trials of a run in training.

    Args:
      trials: their numbers, which name their random streams.
      like: a tensor with the device and the dtype of the training.

    Attributes:
      loss: (T,) loss of the last batch, before its step; not finite where a trial has diverged.
      steps: (T,) steps that each trial has taken.
      active: (T,) False once a trial has ended by itself; its steps must then change nothing.
      done: steps since the start, of the trials that have not ended.
      ended: (T,) of which trials the host knows that they have ended; on an accelerator it learns of it later.
      constants: (T, ...) values that are the same in every Snapshot.
      coming: raw numbers (`step_draws`) of the step that comes next, where they come from elsewhere.
      operations: about how many a step takes, which decides whether threads share it.
      may_leave: whether trials that have ended leave, so that later steps cost less: then `keep` drops the others.
    """

    operations: float = 0.0
    may_leave: ClassVar[bool] = False

    def __init__(self, trials: Sequence[int], like: Tensor) -> None:
        self.trials, self.like = list(trials), like
        self.loss: Float[Tensor, " T"] = like.new_zeros(len(self.trials))
        self.steps: Int[Tensor, " T"] = torch.zeros_like(self.loss, dtype=torch.int64)
        self.active: Bool[Tensor, " T"] = torch.ones_like(self.loss, dtype=torch.bool)
        self.done, self.ended = 0, np.zeros(len(self.trials), dtype=bool)
        self.constants: dict[str, Tensor] = {}
        self.coming: Mapping[str, Tensor] | None = None
        self._shapes: list[torch.Size] | None = None  # of the inputs of the first step
        self._captured_step: CapturedStep | None = None

    @property
    @abstractmethod
    def changed(self) -> Sequence[Tensor] | None:
        """Every tensor that `step` changes, besides the three above; None if it reads a number, as no graph can."""

    @abstractmethod
    def step(self, *inputs: Tensor) -> None:
        """Takes one exact step on the inputs, in place. On an accelerator it must not wait for the device."""

    def inputs(self, steps: int) -> Iterator[tuple[Tensor, ...]]:
        """Yields the inputs of each of the next steps, such as samples or random numbers; by default none."""
        return repeat((), steps)

    @property
    def step_draws(self) -> dict[str, Draw]:
        """Raw numbers of which a step's inputs are made, by name; each step draws on from the same streams."""
        return {}

    def inputs_of(self, raw: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """Makes the inputs of a step of its raw numbers (trial, ...), those that `inputs` yields."""
        return ()

    def online(self) -> dict[str, Tensor]:
        """Returns what the steps since the last Snapshot have found, which costs no evaluation; by default nothing."""
        return {}

    @property
    def measures_alike(self) -> bool:
        """Whether `measure` does the same at the start, at the end and on the way, for who records it."""
        return False

    def measure(self, whole: bool) -> dict[str, Tensor]:
        """Evaluates all trials; by default the loss alone.

        Args:
          whole: at the start and at the end, where all training samples may be measured too.
        """
        return {"train_loss": self.loss}

    def until_rule(self) -> int | None:
        """Returns after how many steps `end_trials` is due, at least 1; None, the default, for never."""
        return None

    def end_trials(self) -> None:  # noqa: B027 (a learner whose `until_rule` is never due needs none)
        """Sets `active` to False where a trial has ended. On an accelerator it must not wait for the device."""

    def end_all(self, last: Bool[Tensor, ""]) -> None:
        """Does what `end_trials` does where it is due for all trials at once, for who records it.

        Args:
          last: whether the run is over, too.

        Raises:
          NotImplementedError: no rule of this learner ends trials.
        """
        raise NotImplementedError(f"{type(self).__name__} has no rule that ends trials")

    @property
    def stages(self) -> Sequence[int]:
        """Steps of each stage, where stages differ in what a step does, for who records it; by default there is one."""
        return ()

    def enter(self) -> None:
        """Begins the next stage, as a step does where the one before has ended, for who records it.

        Raises:
          NotImplementedError: there is one stage alone.
        """
        raise NotImplementedError(f"{type(self).__name__} has one stage alone")

    def keep(self, positions: np.ndarray) -> None:
        """Drops all trials but those at these positions."""
        there = torch.as_tensor(positions, device=self.like.device)
        self.trials, self.ended = [self.trials[position] for position in positions], self.ended[positions]
        self.loss, self.steps, self.active = self.loss[there], self.steps[there], self.active[there]
        self._shapes = self._captured_step = None

    def only(self, positions: np.ndarray) -> Self:
        """Returns a learner of the trials at these positions, for evaluation; this one keeps all of its trials."""
        part = copy.copy(self)
        part.keep(positions)
        return part

    def advance(self, steps: int) -> None:
        """Takes some steps, on CUDA as a captured graph.

        A graph keeps memory. There is one, for inputs of the first shapes; others, as of a last batch, run without.
        """
        for inputs in self.inputs(steps):
            stop_if_unwanted()
            shapes = [one.shape for one in inputs]
            if self._shapes is None:
                self._shapes, changed = shapes, self.changed
                if changed is not None:
                    state = *changed, self.loss, self.steps, self.active
                    self._captured_step = CapturedStep(self.take_step, state, inputs)
            known = self._captured_step if shapes == self._shapes else None
            (known or self.take_step)(*inputs)
        self.done += steps

    def take_step(self, *inputs: Tensor) -> None:
        """Takes one step on the inputs, and counts it where a trial has not ended."""
        self.step(*inputs)
        self.steps += self.active


def samples_of(run: Any, trials: Sequence[int], split: str) -> Any:
    """Draws the training or test samples ("train", "test") of some trials of a run, on its device, in its precision."""
    device, dtype = device_and_dtype(run)
    count = run.samples if split == "train" else run.test_samples
    return run.task.sample(count, trials=trials, seed=run.seed, split=split, device=device, dtype=dtype)


def groups_of(run: Any, on_cpu: int) -> list[Sequence[int]]:
    """Divides a run's trials into groups: `on_cpu` at a time on a CPU, elsewhere as many as fit into the memory.

    Raises:
      RuntimeError: not one fits on the device.
    """
    device, _ = device_and_dtype(run)
    size = trials_in_groups(run.memory, run.trials, device) if on_accelerator(device) else on_cpu
    return in_groups(run.trial_numbers, max(1, size))


AnyLearner = TypeVar("AnyLearner", bound=Learner)


class Training(Generic[AnyLearner]):
    """The trials of a run in training, group by group.

    Args:
      run: a RunConfig with `last_step` and `measure`: "every" Snapshot is evaluated, or the "last". Where it has
        `measure_every`, "every" is one of so many.
      learners: of consecutive groups of trials, together all of the run; made on one thread, one after another.
      device: where they are; the run's by default.
      about: further attrs of the results.

    Attributes:
      groups: for each learner, the positions of its trials in the run; those that have left are in none.
      step, steps, finished, diverged, values: of the next Snapshot.
    """

    must_be_finite: Sequence[str] = ("train_loss",)
    """Measures that are finite unless a trial has diverged."""

    def __init__(
        self,
        run: Any,
        measures: Mapping[str, Measure],
        learners: Iterable[AnyLearner],
        device: torch.device | None = None,
        **about: Any,
    ) -> None:
        self.run, self.device = run, device_and_dtype(run)[0] if device is None else device
        self.last_step: int = run.last_step
        self.origin = self.made_by(**about)
        with threads_for(0, self.device):
            self.learners = list(learners)
        ends = np.cumsum([0, *(len(learner.trials) for learner in self.learners)])
        self.groups = [np.arange(*between) for between in pairwise(ends)]
        self.measures, self.step = measures, self.learners[0].done
        self.steps = np.zeros(ends[-1], dtype=np.int64)
        self.finished, self.diverged = np.zeros(ends[-1], dtype=bool), np.zeros(ends[-1], dtype=bool)
        self.values: dict[str, np.ndarray] = {}
        if self.step:  # they go on where others ended
            for rows, learner in zip(self.groups, self.learners, strict=True):
                self._read(rows, learner)
        self.constants = {
            name: np.concatenate([learner.constants[name].cpu().numpy() for learner in self.learners])
            for name in self.learners[0].constants
        }

    @property
    def coords(self) -> Mapping[str, Any]:
        """Labels of the axes that the measures name."""
        return {}

    def made_by(self, **about: Any) -> dict[str, Any]:
        """Returns the attrs of the results: how to make them again."""
        return origin_of(self.run, self.device, **about)

    def snapshots(self) -> Iterator[Snapshot]:
        """Yields step 0, every `record_every` steps, and the end."""
        return each_within(self._snapshots(), lambda: threads_for(self.learners[0].operations, self.device))

    def _snapshots(self) -> Iterator[Snapshot]:
        every = getattr(self.run, "measure_every", 1) if self.run.measure == "every" else 0
        self._record(evaluated=every > 0)
        yield self._snapshot()
        taken = 0
        while self.step < self.last_step and not self.finished.all():
            taken += 1
            self.advance(min(self.run.record_every, self.last_step - self.step))
            self._record(evaluated=bool(self.finished.all()) or (every > 0 and taken % every == 0))
            yield self._snapshot()

    def advance(self, steps: int) -> None:
        """Takes some steps of all trials that have not ended."""
        begin, self.step = self.step, self.step + steps
        for group, learner in enumerate(self.learners):
            self._advance(group, learner, steps)
        if self.finished.all():  # maybe before that; a step that ends a trial need not count
            self.step = max(begin + 1, int(self.steps.max()))

    def _advance(self, group: int, learner: AnyLearner, steps: int) -> None:
        """Takes some steps of a group; those of its trials that end are measured, and leave if they may."""
        end, looked = learner.done + steps, learner.done
        while learner.done < end and not self.finished[self.groups[group]].all():
            due = learner.until_rule()
            part = min(end - learner.done, LOOK_EVERY if due is None else due)
            learner.advance(part)
            if part == due:
                learner.end_trials()
            waits = on_accelerator(self.device) and learner.done < min(looked + LOOK_EVERY, end)
            if not waits:
                self._look(group, learner)
                looked = learner.done

    def _look(self, group: int, learner: AnyLearner) -> None:
        """Reads which trials of a group have ended; where they may leave, lets them go."""
        rows = self.groups[group]
        running = ~self.finished[rows]
        self._read(rows, learner)
        self.finished[rows] |= learner.done >= self.last_step
        learner.ended = self.finished[rows]
        if learner.may_leave:
            self._let_go(group, learner, np.flatnonzero(self.finished[rows] & running))

    def _read(self, rows: np.ndarray, learner: AnyLearner) -> None:
        """Reads the steps of the trials at these positions in the run, and which of them have ended or diverged."""
        finite, active, steps = (one.cpu().numpy() for one in (learner.loss.isfinite(), learner.active, learner.steps))
        self.steps[rows] = np.where(self.finished[rows], self.steps[rows], steps)
        self.diverged[rows] |= ~finite
        self.finished[rows] |= self.diverged[rows] | ~active

    def _let_go(self, group: int, learner: AnyLearner, ended: np.ndarray) -> None:
        """Measures the trials that have ended. They leave; on an accelerator, where a new graph costs, once half have.

        Args:
          ended: their positions in the learner.
        """
        rows = self.groups[group]
        if len(ended):
            self._record_of(learner.only(ended), rows[ended], evaluated=True)
        left = np.flatnonzero(~self.finished[rows])
        if len(left) < len(rows) and (not on_accelerator(self.device) or 2 * len(left) <= len(rows)):
            learner.keep(left)
            self.groups[group] = rows[left]

    def _record(self, evaluated: bool) -> None:
        if not any(learner.may_leave for learner in self.learners):
            self.values = {}
        for rows, learner in zip(self.groups, self.learners, strict=True):
            if len(rows):
                self._record_of(learner, rows, evaluated)

    def _record_of(self, learner: AnyLearner, rows: np.ndarray, evaluated: bool) -> None:
        """Records what a learner finds of the trials at these positions in the run."""
        found = learner.online()
        if evaluated:
            found |= learner.measure(self.step == 0 or bool(self.finished.all()))
        values = {name: value.detach().cpu().numpy().astype(float) for name, value in found.items()}
        if evaluated:
            for name in self.must_be_finite:  # the last step may have broken them
                self.diverged[rows] |= ~np.isfinite(values[name].reshape(len(rows), -1)).all(1)
            self.finished |= self.diverged
        for name, value in values.items():
            if name not in self.values:
                self.values[name] = np.full((len(self.finished), *value.shape[1:]), np.nan)
            self.values[name][rows] = value  # what is known of the others stays
            self.values[name][self.diverged] = np.nan

    def _snapshot(self) -> Snapshot:
        values = {name: value.copy() for name, value in self.values.items()} | self.constants
        return Snapshot(
            step=self.step,
            values=values,
            measures={name: self.measures[name] for name in values},
            steps=self.steps.copy(),
            finished=self.finished.copy(),
            diverged=self.diverged.copy(),
            coords=self.coords,
            origin=self.origin,
        )
