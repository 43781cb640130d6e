"""One record of the pruning Lab: a layer in training, then the effects of pruning and fine-tuning it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moe_lab.pruning import BranchStart, FineTuned, Run
from moe_lab.pruning.live import Choice, FineTuning, Pruned, Results
from moe_lab.pruning.measures import MEASURES, evaluate
from moe_lab.pruning.training import Training
from moe_lab.training import Snapshot
from moe_lab_widgets.pruning.settings import CHUNK, OFFERED, record_every

EVALUATIONS = 11
"""How often the accuracy is measured during a training."""
CARRIES = 0.5
"""The proficiency from which an expert carries its class's pattern."""


@dataclass(frozen=True)
class View(Choice):
    """The values of the Lab's view-only knobs."""

    shown: int


@dataclass(frozen=True)
class Frame:
    """One record of the Lab.

    Attributes:
      run: what is trained.
      step: training steps done.
      shot: norms of the routers (trial, expert) and, at the end of training, all measures; None while branches are
        pre-trained.
      accuracy: (trial,) of the unpruned layer when it was last measured.
      pruned: the trained layer and what pruning makes of it, once training has ended.
      results: of fine-tuning it, as far as they were known at this record.
    """

    run: Run
    step: int
    shot: Snapshot | None = None
    accuracy: NDArray[np.float64] | None = None
    pruned: Pruned | None = None
    results: Results = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Training steps in all."""
        return self.run.steps

    @property
    def threshold(self) -> float:
        """1.5 log l, which the change of an important router's norm exceeds (lemma 4.1)."""
        return 1.5 * float(np.log(self.run.model.top))

    def trial(self, shown: int) -> int:
        """Returns the index of the trial on show, the last one where there are fewer."""
        return min(shown, self.run.trials) - 1

    def changes(self, trial: int) -> NDArray[np.float64]:
        """Returns (expert,) Delta."""
        if self.shot is None:
            return np.zeros(self.run.model.experts)
        return np.asarray(self.shot["norm_change"][trial])

    def carriers(self, trial: int) -> NDArray[np.bool_]:
        """Returns (expert,) which experts keep most occurrences of their class's pattern after training."""
        if self.pruned is None or self.shot is None:
            return np.zeros(self.run.model.experts, dtype=bool)
        return np.asarray(np.nan_to_num(self.shot["proficiency"][trial]) >= CARRIES)

    def kept(self, view: View, trial: int) -> NDArray[np.bool_] | None:
        """Returns (expert,) which experts stay; None while nothing is pruned, or when the criterion is undefined."""
        if self.pruned is None or view.criterion not in self.pruned.kept:
            return None
        chosen = self.pruned.kept[view.criterion][view.count(self.pruned.half), trial]
        return np.asarray(chosen.cpu().numpy())

    def lost(self, view: View, trial: int) -> list[tuple[int, NDArray[np.int64]]]:
        """Returns the classes whose every carrier is pruned, 0 for + and 1 for -, with the carriers' numbers from 0."""
        kept, carriers = self.kept(view, trial), self.carriers(trial)
        if kept is None:
            return []
        half, found = len(kept) // 2, []
        for side, mine in enumerate((slice(0, half), slice(half, None))):
            if carriers[mine].any() and not (carriers & kept)[mine].any():
                found.append((side, np.flatnonzero(carriers[mine]) + side * half))
        return found


@dataclass(frozen=True)
class Outcome:
    """What is left at one rho, by one criterion.

    Attributes:
      left: experts that stay.
      whole: (trial,) accuracy of the unpruned layer.
      plain: (trial,) accuracy after pruning.
      steps: of fine-tuning what is left; 0 when none is on show.
      tuned: (trial,) accuracy after them; `plain` when there are none.
      chance: (trial,) accuracy when experts are pruned at random, fine-tuned as the others where that is known.
      memory, operations: shares of the unpruned layer's.
    """

    left: int
    whole: NDArray[np.float64]
    plain: NDArray[np.float64]
    steps: int
    tuned: NDArray[np.float64]
    chance: NDArray[np.float64]
    memory: float
    operations: float


def outcome(record: Frame, view: View) -> Outcome | None:
    """Returns what is left; None while nothing is pruned, or when the criterion is undefined."""
    pruned = record.pruned
    if pruned is None or view.criterion not in pruned.kept:
        return None
    gone = view.count(pruned.half)
    plain, steps = pruned.plain[view.criterion][gone], 0
    tuned, chance = plain, pruned.plain["random"][gone]
    if view.fine_tune:
        after = pruned.after(view, record.results)
        if view.criterion in after and np.isfinite(after[view.criterion][1][gone]).any():
            steps, tuned = after[view.criterion][0], after[view.criterion][1][gone]
        if "random" in after:
            chance = after["random"][1][gone]
    return Outcome(
        left=2 * (pruned.half - gone),
        whole=pruned.plain[view.criterion][0],
        plain=plain,
        steps=steps,
        tuned=tuned,
        chance=chance,
        memory=pruned.parameters(gone),
        operations=pruned.operations(view.criterion, gone),
    )


def view_of(values: Mapping[str, Any]) -> View:
    """Returns the view that the values of all knobs describe."""
    return View(**{field.name: values[field.name] for field in dataclasses.fields(View)})


class LiveRun:
    """A training, and its pruning and fine-tuning afterwards.

    Args:
      view: returns the present view; called again every `CHUNK` steps of fine-tuning.
      every: steps of the training per record; `record_every(run)` when None.
    """

    def __init__(self, run: Run, view: Callable[[], View], every: int | None = None) -> None:
        self._run, self._view = run, view
        self._every = record_every(run) if every is None else every
        self._tuning: FineTuning | None = None

    def frames(self) -> Iterator[Frame]:
        """Yields the records of the training, and of the fine-tuning that the view needs."""
        run = self._run
        if isinstance(run.start, BranchStart):
            yield Frame(run, 0)  # pre-training takes a moment
        training = Training(run.replace(measure="last", record_every=self._every))
        for frame in self._training(training):
            yield frame
        pruned = Pruned(FineTuned.of(training, run), OFFERED)
        self._tuning = FineTuning(pruned, CHUNK)
        first = dataclasses.replace(frame, pruned=pruned)
        yield first
        yield from self._tuned(first, self._tuning)

    def further(self, record: Frame) -> Iterator[Frame] | None:
        """Returns the records of the fine-tuning that the view still needs, given the last one; None for none."""
        tuning = self._tuning
        if tuning is None or not tuning.lacks(self._view()):
            return None
        return self._tuned(record, tuning)

    def _tuned(self, record: Frame, tuning: FineTuning) -> Iterator[Frame]:
        for results in tuning.work(self._view):
            yield dataclasses.replace(record, results=results)

    def _training(self, training: Training) -> Iterator[Frame]:
        run = self._run
        before = np.linalg.norm(training.before.own_routers.cpu().numpy(), axis=2)
        how: Any = {"seed": run.seed, "split": "test", "device": training.device, "dtype": training.dtype}
        test = run.task.sample(run.test_samples, trials=run.trial_numbers, **how)
        between, due, accuracy = run.steps / (EVALUATIONS - 1), 0.0, np.full(run.trials, np.nan)
        for shot in training.snapshots():
            values = dict(shot.values)
            if values:  # the last one has them all
                accuracy = values["test_accuracy"]
            else:
                weights = training.after
                norms = np.linalg.norm(weights.own_routers.cpu().numpy(), axis=2).astype(float)
                norms[shot.diverged] = np.nan
                values = {"router_norm": norms, "norm_change": norms - before}
                if shot.step >= due:
                    due += between
                    accuracy = evaluate(weights, test, run.model, run.task).accuracy().cpu().numpy().astype(float)
                    values["test_accuracy"] = accuracy = np.where(shot.diverged, np.nan, accuracy)
            shot = dataclasses.replace(shot, values=values, measures={name: MEASURES[name] for name in values})
            yield Frame(run, shot.step, shot, accuracy)
