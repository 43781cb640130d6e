"""What the runs of all networks share: their settings, and training as a stream of Snapshots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from moe_lab.core.config import RunConfig, knob
from moe_lab.core.graphs import CapturedStep, on_accelerator, to_device
from moe_lab.core.interrupts import stop_if_unwanted
from moe_lab.core.origins import origin_of
from moe_lab.core.training import Measure, Snapshot, TrialProgress
from moe_lab.core.trials import device_and_dtype, stream, threads_for
from moe_lab.vision.layers import about_operations

_AT_ONCE = 512  # images of an evaluation in one forward pass


class ImageRun(RunConfig):
    """The settings that runs of image models share."""

    samples: int = knob(1000, symbol="N", meaning="training samples", ge=2, le=10**6, slider=(100, 2000, 100))
    trials: int = knob(3, symbol="T", meaning="independent trials", ge=1, le=10**4, slider=(1, 6, 1))
    epochs: int = knob(12, symbol="E", meaning="passes over the data", ge=1, le=10**5, slider=(1, 50, 1))
    test_samples: int = knob(300, symbol="N_test", meaning="test samples", ge=2, le=10**6)
    examples: int = knob(8, meaning="test samples whose routing is recorded", ge=0, le=1000)
    measure: Literal["every", "last"] = knob("every", meaning="which Snapshots are measured on test samples")
    measure_every: int = knob(
        1, meaning="with measure='every', Snapshots from one measured to the next", ge=1, le=10**6
    )

    @property
    def batch(self) -> int:
        """Samples of a step."""
        return min(int(self.model.batch_size), self.samples)  # type: ignore[attr-defined]

    @property
    def numbers(self) -> float:
        """Of one trial, as trials step one after another. A number is computed from about a hundred others."""
        model: Any = getattr(self.model, "expert", self.model)  # a mixture sends an image to one of its experts
        image, classes = self.task.image, self.task.classes  # type: ignore[attr-defined]
        with torch.device("meta"):  # shapes alone
            network = model.network(image, classes)
        return float(self.batch * about_operations(network, image) / 200)

    @property
    def last_step(self) -> int:
        """Where training stops: full batches and, at the end of each pass, what is left."""
        return self.epochs * -(-self.samples // self.batch)


class Learner(ABC):
    """One trial of a model: its network in training, and the test samples that it is measured on.

    Args:
      images, labels: of the training samples.
    """

    network: nn.Module

    def __init__(self, run: ImageRun, trial: int, images: Float[Tensor, "N C H W"], labels: Int[Tensor, " N"]) -> None:
        self.run, self.images, self.labels = run, images, labels
        self.steps, self.lost = 0, False
        self._order, self._left = stream(run.seed, trial, "order"), np.empty(0, dtype=np.int64)
        number = torch.float32 if labels.device.type == "mps" else torch.float64
        # samples, correct predictions and loss since the last record; and steps without an infinite or NaN loss
        self._sums = torch.zeros(3, dtype=number, device=labels.device)
        self._sound = torch.zeros((), dtype=torch.int64, device=labels.device)
        self._captured: tuple[CapturedStep, tuple[Tensor, Tensor]] | None = None  # a step, and what it returns

    def advance(self, steps: int) -> None:
        """Takes some steps, fewer where the loss is no longer finite; on an accelerator the host looks after all."""
        there, before = on_accelerator(self.labels.device), self.steps
        self.network.train()
        self._sound.zero_()
        for _ in range(steps):
            stop_if_unwanted()
            if not len(self._left):
                self._left = self._order.permutation(len(self.labels))
            rows = to_device(self._left[: self.run.batch], self.labels.device)
            self._left = self._left[self.run.batch :]
            loss, right = self._taken(rows)
            with torch.no_grad():
                self._sums += torch.stack([loss.new_full((), len(rows)), right.to(loss.dtype), loss * len(rows)])
            self.steps += 1
            finite = torch.isfinite(self._sums[2])
            if there:
                self._sound += finite
            elif not finite:
                self.lost = True
                return
        if there:
            sound = int(self._sound)
            self.lost = sound < steps
            self.steps = before + sound + self.lost

    def _taken(self, rows: Int[Tensor, " b"]) -> tuple[Tensor, Tensor]:
        """Takes a step, on CUDA as a graph where `changed` allows it.

        A last batch that is smaller has no graph: each keeps memory, and there is one for each trial.
        """
        inputs, whole = (rows, *self.drawn(len(rows))), len(rows) == self.run.batch
        if whole and self._captured is None and on_accelerator(self.labels.device):
            changed = self.changed()
            if changed is not None:
                result = self.images.new_zeros(()), torch.zeros_like(self.labels[0])
                self._captured = CapturedStep(partial(self._update, result), (*changed, *result), inputs), result
        if self._captured is None or not whole:
            return self.step(*inputs)
        replay, result = self._captured
        replay(*inputs)
        return result

    def _update(self, result: tuple[Tensor, Tensor], *inputs: Tensor) -> None:
        for kept, value in zip(result, self.step(*inputs), strict=True):
            kept.copy_(value.detach())

    def online(self) -> tuple[float, float]:
        """Accuracy and loss over the samples used since the last call, NaN if none were."""
        count, right, loss = self._sums.tolist()
        self._sums.zero_()
        return (right / count, loss / count) if count else (np.nan, np.nan)

    def changed(self) -> Sequence[Tensor] | None:
        """Every tensor that a step changes; None where it reads a number, as no graph can."""
        return None

    def drawn(self, count: int) -> tuple[Tensor, ...]:
        """Draws the random numbers of a step on so many samples, which `step` is given after them."""
        return ()

    @abstractmethod
    def step(self, rows: Int[Tensor, " b"], *drawn: Tensor) -> tuple[Tensor, Tensor]:
        """Updates the network by these samples. Returns their mean loss before, and the number predicted correctly."""

    @abstractmethod
    def evaluate(self) -> dict[str, np.ndarray]:
        """Measures the network on the test samples; the arrays have no trial axis."""


def in_parts(count: int) -> Iterator[slice]:
    """Divides an evaluation of so many samples."""
    return (slice(begin, begin + _AT_ONCE) for begin in range(0, count, _AT_ONCE))


def cross_entropy(logits: Float[Tensor, "b c"], labels: Int[Tensor, " b"]) -> tuple[Tensor, Tensor]:
    """The mean loss of a batch and its number of correct predictions."""
    return functional.cross_entropy(logits, labels), (logits.argmax(1) == labels).sum()


class Training(TrialProgress):
    """The trials of a run in training, one after another within each Snapshot.

    Args:
      learners: one for each trial.
      operations: of a step, to choose the number of threads.
      constants: values that are the same in every Snapshot.
      about: further attrs of the results.
    """

    def __init__(
        self,
        run: ImageRun,
        learners: Sequence[Learner],
        measures: Mapping[str, Measure],
        *,
        operations: float,
        constants: Mapping[str, np.ndarray],
        about: Mapping[str, Any],
    ) -> None:
        super().__init__(run.trials, measures)
        self.run, self.learners, self.constants = run, learners, constants
        (self.device, _), self.operations = device_and_dtype(run), operations
        self.origin = origin_of(run, self.device, **about)

    def snapshots(self) -> Iterator[Snapshot]:
        """Step 0, every `record_every` steps, and the end."""
        self._record(self.run.measure == "every")
        yield self.snapshot(self.origin, constants=self.constants)
        taken = 0
        while not self.finished.all():
            taken += 1
            due = self.run.measure == "every" and taken % self.run.measure_every == 0
            self._advance(min(self.run.record_every, self.run.last_step - self.step), due)
            yield self.snapshot(self.origin, constants=self.constants)

    def _advance(self, steps: int, measured: bool) -> None:
        self.step += steps
        with threads_for(self.operations, self.device):  # not across a yield: the consumer keeps its own threads
            for learner, finished in zip(self.learners, self.finished, strict=True):
                if not finished:
                    learner.advance(steps)
        self.steps = np.array([learner.steps for learner in self.learners])
        self.diverged = np.array([learner.lost for learner in self.learners])
        self.finished = self.diverged | (self.step >= self.run.last_step)
        self._record(measured or bool(self.finished.all()))

    def _record(self, measured: bool) -> None:
        """Measures every trial; those that have diverged too, whose values become NaN."""
        online = np.array([learner.online() for learner in self.learners])
        values = {"train_accuracy": online[:, 0], "train_loss": online[:, 1]}
        if measured:
            with threads_for(self.operations, self.device), torch.no_grad():
                each = [learner.evaluate() for learner in self.learners]
            values |= {name: np.stack([one[name] for one in each]) for name in each[0]}
        self.record(values)


TRAINING_MEASURES = {
    "test_accuracy": Measure(meaning="share of test samples predicted correctly"),
    "train_accuracy": Measure(meaning="share of the samples used since the last Snapshot predicted correctly"),
    "train_loss": Measure(meaning="mean loss of the samples used since the last Snapshot"),
}
