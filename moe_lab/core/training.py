"""A run is an iterator of Snapshots; stop consuming it and it stops.

Progress bars, live pictures, early stopping and tests all read the same stream; `collect` turns it into one labelled
`xarray.Dataset` whose attrs state how to make it again. A room writes a `Learner`: its data, its exact step and its
measures. `Training` makes Snapshots of it.
"""

from __future__ import annotations

import textwrap
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from moe_lab.core.arguments import checked
from moe_lab.core.config import require
from moe_lab.core.errors import InputError
from moe_lab.core.graphs import CapturedStep, on_accelerator
from moe_lab.core.interrupts import stop_if_unwanted
from moe_lab.core.memory import trials_in_groups
from moe_lab.core.origins import origin_of
from moe_lab.core.sentences import not_measured
from moe_lab.core.trials import device_and_dtype, each_within, in_groups, threads_for

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class Measure:
    """Describes a measured value: its axes after the trial axis, its unit and its meaning.

    A `constant` value is the same in every Snapshot of a run (the example images, say) and is collected once.
    """

    dims: tuple[str, ...] = ()
    unit: str = ""
    meaning: str = ""
    constant: bool = False


SCALARS_SHOWN = 5
"""Lines that the text of a Snapshot has at most for measures with a value for each trial."""


class UnmeasuredError(InputError, KeyError):
    """A name that a Snapshot does not have."""

    __str__ = Exception.__str__  # a KeyError's has the sentence in quotes


@dataclass(frozen=True, repr=False)
class Snapshot:
    """A plain record of a run at one step. Pictures read Snapshots and nothing else.

    Attributes:
      step: updates done so far by the trials still in training.
      values: measured arrays; the first axis of each is the trial.
      steps: (trial,) updates that each trial has done; constant once the trial has finished.
      finished: (trial,) True where training has ended (zero training error, the epoch limit, or divergence).
      diverged: (trial,) True where the loss became infinite or NaN; such a trial's values are NaN.
      coords: labels of the axes that the measures name.
      origin: how to make this run again: config, seed, device, version, paper.

    Raises:
      KeyError: `snapshot[name]` of what is not measured.
    """

    step: int
    values: Mapping[str, np.ndarray]
    measures: Mapping[str, Measure]
    steps: np.ndarray
    finished: np.ndarray
    diverged: np.ndarray
    coords: Mapping[str, Any] = field(default_factory=dict)
    origin: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.values:
            raise UnmeasuredError(not_measured(name, list(self.values)))
        return self.values[name]

    def __repr__(self) -> str:
        """Step and trials, mean and spread of what has one value for each trial, and the shapes of the rest."""
        lines = [f"Snapshot at step {self.step}, {self._state}"]
        rest = {name: values for name, values in self.values.items() if values.ndim != 1}
        scalars = [_row(name, values) for name, values in self.values.items() if name not in rest]
        more = len(scalars) - SCALARS_SHOWN
        lines += scalars if more <= 1 else [*scalars[:SCALARS_SHOWN], f"and {more} more with a value for each trial"]
        shapes = [f"{name} {'x'.join(map(str, values.shape))}" for name, values in rest.items()]
        return "\n  ".join([*lines, *textwrap.wrap(", ".join(shapes), 100, max_lines=3, placeholder=" ...")])

    @property
    def _state(self) -> str:
        """The number of trials, and how many of them have finished or diverged."""
        counts = {"finished": int(self.finished.sum()), "diverged": int(self.diverged.sum())}
        ended = [f", {count} {word}" for word, count in counts.items() if count]
        return f"{self.trials} {'trial' if self.trials == 1 else 'trials'}{''.join(ended)}"

    @property
    def trials(self) -> int:
        return len(self.finished)


def _row(name: str, values: np.ndarray) -> str:
    """A measure with its mean over the trials that have a value, and their standard deviation."""
    known = values[np.isfinite(values)]
    if not known.size:
        return f"{name}: no value"
    spread = f" ± {known.std(ddof=1):.3g}" if known.size > 1 else ""
    return f"{name}: {known.mean():.4g}{spread}" + (f" ({known.size} trials)" if known.size < values.size else "")


class TrialProgress:
    """The state of a run from which Snapshots are made, with their attributes. A room adds training and evaluation."""

    def __init__(self, trials: int, measures: Mapping[str, Measure]) -> None:
        self.step, self.measures = 0, measures
        self.steps = np.zeros(trials, dtype=np.int64)
        self.finished, self.diverged = np.zeros(trials, dtype=bool), np.zeros(trials, dtype=bool)
        self.values: dict[str, np.ndarray] = {}

    def record(self, values: Mapping[str, np.ndarray], trials: np.ndarray | None = None) -> None:
        """Keeps a copy of measured values, with NaN where a trial has diverged.

        Args:
          trials: numbers of the trials that were measured; what is known of the others stays. None for all trials,
            whose earlier values are forgotten.
        """
        if trials is None:
            self.values, trials = {}, np.arange(len(self.finished))
        for name, value in values.items():
            if name not in self.values:
                self.values[name] = np.full((len(self.finished), *np.shape(value)[1:]), np.nan)
            self.values[name][trials] = value
            self.values[name][self.diverged] = np.nan

    def snapshot(
        self,
        origin: Mapping[str, Any],
        coords: Mapping[str, Any] | None = None,
        constants: Mapping[str, np.ndarray] | None = None,
    ) -> Snapshot:
        """Copies the present state, and adds values that are the same in every Snapshot."""
        values = {name: value.copy() for name, value in self.values.items()} | dict(constants or {})
        return Snapshot(
            step=self.step,
            values=values,
            measures={name: self.measures[name] for name in values},
            steps=self.steps.copy(),
            finished=self.finished.copy(),
            diverged=self.diverged.copy(),
            coords=coords or {},
            origin=origin,
        )


class Learner(ABC):
    """Some trials of a run in training.

    Args:
      trials: their numbers, which name their random streams.
      like: a tensor with the device and the dtype of the training.

    Attributes:
      loss: (T,) loss of the last batch, before its step.
      steps: (T,) steps that each trial has taken.
      active: (T,) False once a trial has stopped by itself; its steps must then change nothing.
      constants: (T, ...) values that are the same in every Snapshot.
      operations: about how many a step takes, which decides whether threads share it.
    """

    operations = 0.0

    def __init__(self, trials: Sequence[int], like: Tensor) -> None:
        self.trials, self.like = list(trials), like
        self.loss: Float[Tensor, " T"] = like.new_zeros(len(self.trials))
        self.steps: Int[Tensor, " T"] = torch.zeros_like(self.loss, dtype=torch.int64)
        self.active: Bool[Tensor, " T"] = torch.ones_like(self.loss, dtype=torch.bool)
        self.constants: dict[str, Tensor] = {}
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

    def online(self) -> dict[str, Tensor]:
        """Returns what the steps since the last Snapshot have found, which costs no evaluation; by default nothing."""
        return {}

    def measure(self, whole: bool) -> dict[str, Tensor]:
        """Evaluates all trials; by default the loss alone.

        Args:
          whole: at the start and at the end, where all training samples may be measured too.
        """
        return {"train_loss": self.loss}

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
                    self._captured_step = CapturedStep(self._counted_step, state, inputs)
            known = self._captured_step if shapes == self._shapes else None
            (known or self._counted_step)(*inputs)

    def _counted_step(self, *inputs: Tensor) -> None:
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


class Training(TrialProgress, Generic[AnyLearner]):
    """The trials of a run in training, group by group.

    Args:
      run: a RunConfig with `last_step` and `measure`: "every" Snapshot is evaluated, or the "last". Where it has
        `measure_every`, "every" is one of so many.
      learners: of consecutive groups of trials, together all of the run; made on one thread, one after another.
      about: further attrs of the results.
    """

    must_be_finite: Sequence[str] = ("train_loss",)
    """Measures that are finite unless a trial has diverged."""

    def __init__(self, run: Any, measures: Mapping[str, Measure], learners: Iterable[AnyLearner], **about: Any) -> None:
        super().__init__(run.trials, measures)
        self.run, (self.device, _) = run, device_and_dtype(run)
        self.origin = origin_of(run, self.device, **about)
        with threads_for(0, self.device):
            self.learners = list(learners)
        self.constants = _of_all([learner.constants for learner in self.learners])

    def snapshots(self) -> Iterator[Snapshot]:
        """Yields step 0, every `record_every` steps, and the end."""
        return each_within(self._snapshots(), lambda: threads_for(self.learners[0].operations, self.device))

    def _snapshots(self) -> Iterator[Snapshot]:
        every = getattr(self.run, "measure_every", 1) if self.run.measure == "every" else 0
        self._record(evaluated=every > 0)
        yield self.snapshot(self.origin, constants=self.constants)
        taken = 0
        while self.step < self.run.last_step and not self.finished.all():
            taken += 1
            self._advance(min(self.run.record_every, self.run.last_step - self.step))
            self._record(evaluated=bool(self.finished.all()) or (every > 0 and taken % every == 0))
            yield self.snapshot(self.origin, constants=self.constants)

    def _advance(self, steps: int) -> None:
        ends = np.cumsum([len(learner.trials) for learner in self.learners])
        for learner, finished in zip(self.learners, np.split(self.finished, ends[:-1]), strict=True):
            if not finished.all():
                learner.advance(steps)
        self.step += steps
        self.steps = np.where(self.finished, self.steps, joined(one.steps for one in self.learners).astype(np.int64))
        self.diverged |= ~np.isfinite(joined(one.loss for one in self.learners))
        stopped = joined(one.active for one in self.learners) == 0
        self.finished |= self.diverged | stopped | (self.step >= self.run.last_step)

    def _record(self, evaluated: bool) -> None:
        values = _of_all([learner.online() for learner in self.learners])
        if evaluated:
            whole = self.step == 0 or bool(self.finished.all())
            values |= _of_all([learner.measure(whole) for learner in self.learners])
            for name in self.must_be_finite:  # the last step may have broken them
                self.diverged |= ~np.isfinite(values[name].reshape(len(self.diverged), -1)).all(1)
            self.finished |= self.diverged
        self.record(values)


def _of_all(each: Sequence[Mapping[str, Tensor]]) -> dict[str, np.ndarray]:
    """Joins the values of groups of trials by their names."""
    return {name: joined(one[name] for one in each) for name in each[0]}


def joined(parts: Iterable[Tensor]) -> np.ndarray:
    """Joins tensors of groups of trials along the trial axis, as an array of floats."""
    return np.concatenate([part.detach().cpu().numpy() for part in parts]).astype(float)


@checked
def collect(run: Iterable[Snapshot]) -> xarray.Dataset:
    """Consumes a run and returns everything recorded, with named axes (step, trial, ...).

    Values that only some Snapshots hold are NaN at the steps of the others.

    Raises:
      ValueError: the run gave no Snapshot.
    """
    import xarray  # here: it takes half a second, which a live run need not wait for

    snapshots = list(_snapshots(run))
    if not snapshots:
        raise InputError("the run gave no snapshots: was it consumed before?")
    last = snapshots[-1]
    names = {name: measure for snapshot in snapshots for name, measure in snapshot.measures.items()}
    variables: dict[str, Any] = {}
    for name, measure in names.items():
        known = next(snapshot.values[name] for snapshot in snapshots if name in snapshot.values)
        attrs = {"units": measure.unit, "long_name": measure.meaning}
        if measure.constant:
            variables[name] = (("trial", *measure.dims), known, attrs)
            continue
        empty = np.full(known.shape, np.nan)
        stacked = np.stack([snapshot.values.get(name, empty) for snapshot in snapshots])
        variables[name] = (("step", "trial", *measure.dims), stacked, attrs)
    variables["steps"] = ("trial", last.steps, {"units": "updates", "long_name": "updates done by the trial"})
    variables["diverged"] = ("trial", last.diverged, {"long_name": "the trial's loss became infinite or NaN"})
    steps = np.array([snapshot.step for snapshot in snapshots])
    coords = {"step": ("step", steps, {"units": "updates"}), "trial": np.arange(last.trials), **last.coords}
    return xarray.Dataset(variables, coords=coords, attrs=dict(last.origin))


def _snapshots(run: Iterable[Any]) -> Iterator[Snapshot]:
    """Yields the Snapshots of a run, and refuses anything else."""
    for one in run:
        require(isinstance(one, Snapshot), "a run must give Snapshots", run=one)
        yield one


@checked
def final(run: Iterable[Snapshot]) -> Snapshot:
    """Consumes a run and returns its last Snapshot.

    Raises:
      ValueError: the run gave no Snapshot.
    """
    last: Snapshot | None = None
    for snapshot in _snapshots(run):
        last = snapshot
    if last is None:
        raise InputError("the run gave no snapshots: was it consumed before?")
    return last


@checked
def every(run: Iterable[Snapshot], count: int) -> Iterator[Snapshot]:
    """Yields every count-th Snapshot of a run, and always the first and the last.

    Raises:
      ValueError: count is less than 1.
    """
    require(count >= 1, "count must be at least 1", count=count)
    return _every(run, count)


def _every(run: Iterable[Snapshot], count: int) -> Iterator[Snapshot]:
    pending: Snapshot | None = None
    for position, snapshot in enumerate(_snapshots(run)):
        pending = snapshot
        if position % count == 0:
            yield snapshot
            pending = None
    if pending is not None:
        yield pending
