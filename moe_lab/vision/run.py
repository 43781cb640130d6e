"""What the runs of all networks share: their settings, and training as a stream of Snapshots."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from moe_lab.core import training
from moe_lab.core.config import RunConfig, knob
from moe_lab.core.graphs import on_accelerator, to_device
from moe_lab.core.snapshots import Measure
from moe_lab.core.training import samples_of
from moe_lab.core.trials import stream
from moe_lab.vision.images import Images
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
    def step_operations(self) -> float:
        """About how many operations a step of one trial takes."""
        model: Any = getattr(self.model, "expert", self.model)  # a mixture sends an image to one of its experts
        image, classes = self.task.image, self.task.classes  # type: ignore[attr-defined]
        with torch.device("meta"):  # shapes alone
            network = model.network(image, classes)
        return float(self.batch * about_operations(network, image))

    @property
    def numbers_per_step(self) -> float:
        """Of one trial, as trials step one after another. A number is computed from about a hundred others."""
        return self.step_operations / 200

    @property
    def last_step(self) -> int:
        """Where training stops: full batches and, at the end of each pass, what is left."""
        return self.epochs * -(-self.samples // self.batch)


class CountingLearner(training.Learner):
    """Trials of which samples, correct predictions and losses are summed from one record to the next.

    The loss is that of the last batch; it stays NaN once it was infinite or NaN, and steps are counted no more.

    Attributes:
      sums: (3, T) samples, correct predictions and loss since the last record.
    """

    def __init__(self, trials: Sequence[int], like: Tensor) -> None:
        super().__init__(trials, like)
        number = torch.float32 if like.device.type == "mps" else torch.float64
        self.sums = torch.zeros(3, len(self.trials), dtype=number, device=like.device)

    @torch.no_grad()
    def counted(self, loss: Float[Tensor, " T"], right: Int[Tensor, " T"], samples: int) -> None:
        """Counts a step on so many samples: their mean losses before it, and the numbers predicted correctly."""
        self.loss.copy_(torch.where(self.active, loss, torch.nan))
        self.sums += torch.stack([torch.full_like(loss, samples), right.to(loss.dtype), loss * samples])

    def online(self) -> dict[str, Tensor]:
        """Returns accuracy and loss over the samples used since the last call, NaN if none were."""
        count, right, loss = self.sums.clone().unbind(0)
        self.sums.zero_()
        return {"train_accuracy": right / count, "train_loss": loss / count}


class ImageLearner(CountingLearner):
    """One trial of a model: its network in training, and the test samples that it is measured on.

    Args:
      place: of the trial in the samples.
    """

    def __init__(self, run: ImageRun, place: int, trial: int, train: Images, test: Images) -> None:
        super().__init__([trial], train.images)
        self.operations = run.step_operations
        self.run, self.images, self.labels = run, train.images[place], train.labels[place]
        self.test_images, self.test_labels = test.images[place], test.labels[place]
        shown = slice(run.examples)
        self.constants["example_images"] = self.test_images[None, shown]
        self.constants["example_labels"] = self.test_labels[None, shown]
        how: dict[str, Any] = {"device": self.images.device, "dtype": self.images.dtype}
        weights = stream(run.seed, trial, "weights")
        self.network: nn.Module = run.model.build(run.task.image, run.task.classes, random=weights, **how)  # type: ignore[attr-defined]
        self._order, self._left = stream(run.seed, trial, "order"), np.empty(0, dtype=np.int64)

    @property
    def lost(self) -> bool:
        """Whether the loss became infinite or NaN."""
        return not self.loss.isfinite()

    def inputs(self, steps: int) -> Iterator[tuple[Tensor, ...]]:
        """Yields the samples of each step and its random numbers; on a CPU until the trial is lost."""
        self.network.train()
        for _ in range(steps):
            if not on_accelerator(self.labels.device) and self.lost:
                return
            if not len(self._left):
                self._left = self._order.permutation(len(self.labels))
            rows = to_device(self._left[: self.run.batch], self.labels.device)
            self._left = self._left[self.run.batch :]
            yield (rows, *self.drawn(len(rows)))

    def drawn(self, count: int) -> tuple[Tensor, ...]:
        """Draws the random numbers of a step on so many samples, which `update` is given after them."""
        return ()

    def step(self, rows: Int[Tensor, " b"], *drawn: Tensor) -> None:  # type: ignore[override]
        self.active &= self.loss.isfinite()
        loss, right = self.update(rows, *drawn)
        self.counted(loss[None], right[None], len(rows))

    @abstractmethod
    def update(self, rows: Int[Tensor, " b"], *drawn: Tensor) -> tuple[Tensor, Tensor]:
        """Updates the network by these samples. Returns their mean loss before, and the number predicted correctly."""

    @torch.no_grad()
    def measure(self, whole: bool) -> dict[str, Tensor]:
        return {name: value[None] for name, value in self.evaluate().items()}

    @abstractmethod
    def evaluate(self) -> dict[str, Tensor]:
        """Measures the network on the test samples."""


def in_parts(count: int) -> Iterator[slice]:
    """Divides an evaluation of so many samples."""
    return (slice(begin, begin + _AT_ONCE) for begin in range(0, count, _AT_ONCE))


def cross_entropy(logits: Float[Tensor, "b c"], labels: Int[Tensor, " b"]) -> tuple[Tensor, Tensor]:
    """Computes the mean loss of a batch and its number of correct predictions."""
    return functional.cross_entropy(logits, labels), (logits.argmax(1) == labels).sum()


class ImageTraining(training.Training[ImageLearner]):
    """The trials of a run in training, one after another within each Snapshot.

    Args:
      learner: makes the learner of a trial.
    """

    must_be_finite = ()  # the loss since the last Snapshot has no value at the first

    def __init__(self, run: ImageRun, learner: type[ImageLearner], measures: Mapping[str, Measure]) -> None:
        samples = [samples_of(run, run.trial_numbers, split) for split in ("train", "test")]
        learners = (learner(run, place, trial, *samples) for place, trial in enumerate(run.trial_numbers))
        super().__init__(run, measures, learners, **run.task.provenance())  # type: ignore[attr-defined]


TRAINING_MEASURES = {
    "test_accuracy": Measure(meaning="share of test samples predicted correctly"),
    "train_accuracy": Measure(meaning="share of the samples used since the last Snapshot predicted correctly"),
    "train_loss": Measure(meaning="mean loss of the samples used since the last Snapshot"),
}
