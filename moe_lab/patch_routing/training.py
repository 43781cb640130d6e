"""Training as a stream of Snapshots (pmoe2023, algorithms 1 and 2).

`train` runs one model on one task for some trials. `train_batch` runs many such runs as one batch (see `batch`), a row
for every trial of every run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from moe_lab.core import training
from moe_lab.core.memory import check
from moe_lab.core.origins import origin
from moe_lab.core.signatures import with_settings_of
from moe_lab.core.snapshots import Snapshot
from moe_lab.patch_routing import model as models
from moe_lab.patch_routing.batch import Rows, check_alike, device_and_dtype_of, memory_of, samples_of
from moe_lab.patch_routing.data import ROLES, PatchSamples
from moe_lab.patch_routing.fixed_learners import CNNLearner, SeparateLearner
from moe_lab.patch_routing.learner import PatchLearner, Setting
from moe_lab.patch_routing.learners import JointLearner, RoutedLearner
from moe_lab.patch_routing.measures import MEASURES
from moe_lab.patch_routing.own import OwnModel
from moe_lab.patch_routing.own_learner import OwnLearner
from moe_lab.patch_routing.routed import RoutedMoE
from moe_lab.patch_routing.run import PatchRun, Task

_LEARNERS: dict[type[models.PatchModel], type[PatchLearner]] = {
    models.JointMoE: JointLearner,
    models.SeparateMoE: SeparateLearner,
    models.CNN: CNNLearner,
    RoutedMoE: RoutedLearner,
    OwnModel: OwnLearner,
}


@with_settings_of(PatchRun)
def train(model: models.PatchModel, task: Task, **settings: Any) -> Iterator[Snapshot]:
    """Trains a model on a task and yields Snapshots: step 0, every `record_every` steps, and the end.

    >>> from moe_lab.patch_routing import JointMoE, PatternTask, train
    >>> for snapshot in train(JointMoE(), PatternTask(), samples=200, trials=5, seed=0):
    ...     accuracy = snapshot["test_accuracy"]  # (trial,)

    Args:
      model: JointMoE, SeparateMoE, CNN, RoutedMoE, a subclass of one of them, or an `OwnModel`.
      task: PatternTask, DigitTask, or ArrayTask for patches of your own.
      settings: the other parameters of `PatchRun`: samples, trials, seed, epochs, device, precision, ...

    Yields:
      Snapshots with the values of `measures.MEASURES`.

    Raises:
      ConfigError: a wrong value or combination, before the first Snapshot.
      ValueError, RuntimeError: an unknown or absent device.
      FileNotFoundError: missing image files.
    """
    return train_batch([PatchRun(model=model, task=task, **settings)])


def train_batch(runs: Sequence[PatchRun], drawn: tuple[PatchSamples, PatchSamples] | None = None) -> Iterator[Snapshot]:
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
    return PatchTraining(runs, samples_of(runs) if drawn is None else drawn).snapshots()


def of_run(run: PatchRun) -> PatchTraining:
    """Returns a run in training, on samples of its own."""
    return PatchTraining([run], samples_of([run]))


class PatchTraining(training.Training[PatchLearner]):
    """A batch in training. Its trials are the rows of the batch.

    Args:
      drawn: the result of `samples_of(runs)`.
    """

    def __init__(self, runs: Sequence[PatchRun], drawn: tuple[PatchSamples, PatchSamples]) -> None:
        run, rows, (device, dtype) = runs[0], Rows.of(runs), device_and_dtype_of(runs)
        signals = run.task.signals(rows.trials, run.seed).to(dtype).to(device)
        of_model = next(_LEARNERS[base] for base in type(run.model).__mro__ if base in _LEARNERS)
        learners = (of_model(rows, setting, *drawn) for setting in [Setting(run, signals, device, dtype)])
        self.runs = runs
        super().__init__(run, MEASURES, learners, device)
        self.last_step = max(one.last_step for one in runs)

    def made_by(self, **about: Any) -> dict[str, Any]:
        runs, run = self.runs, self.run
        call, config = "; ".join(one.code() for one in runs), [one.record() for one in runs]
        return origin(call=call, config=config, seed=run.seed, device=self.device, paper=run.task.paper)

    @property
    def learner(self) -> PatchLearner:
        """The rows that still train; on an accelerator also some that have ended."""
        return self.learners[0]

    @property
    def coords(self) -> dict[str, list[str]]:
        return {"role": list(ROLES)} if "expert_load" in self.values else {}
