"""Training of WRN and WRN-pMoE as a stream of Snapshots: plain SGD, the last epoch counts (pmoe2023, section 5.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab.core.optimizers import Sgd, changed_by
from moe_lab.core.signatures import with_settings_of
from moe_lab.core.snapshots import Measure, Snapshot
from moe_lab.vision.patches.data import PatchImageSamples, cells_in
from moe_lab.vision.patches.model import Model, PatchWRN
from moe_lab.vision.patches.network import PatchNetwork
from moe_lab.vision.patches.run import PatchImageRun, Task
from moe_lab.vision.run import TRAINING_MEASURES, ImageLearner, ImageTraining, cross_entropy, in_parts

_EXAMPLE = ("example", "expert", "patch")
MEASURES = {
    **TRAINING_MEASURES,
    "kept_in_object": Measure(meaning="share of the patches kept by experts that lie in the object"),
    "expert_kept_in_object": Measure(("expert",), meaning="share of an expert's patches that lie in the object"),
    "expert_gate_in_object": Measure(
        ("expert",), meaning="share of the sum of an expert's gates that falls on patches in the object"
    ),
    "gate_in_object": Measure(meaning="share of the gates' sum that falls on patches in the object"),
    "chance": Measure(meaning="share of all patches that lie in the object", constant=True),
    "example_predicted": Measure(("example",), meaning="predicted class of the first test images"),
    "example_kept": Measure(_EXAMPLE, meaning="1 where an expert keeps a patch of a test image"),
    "example_gates": Measure(_EXAMPLE, meaning="what an expert multiplies a patch by, 0 where it is not kept"),
    "example_images": Measure(("example", "channel", "row", "column"), meaning="the first test images", constant=True),
    "example_labels": Measure(("example",), meaning="their classes", constant=True),
    "example_boxes": Measure(
        ("example", "edge"), unit="pixels", meaning="top, left, height and width of their objects", constant=True
    ),
}


@with_settings_of(PatchImageRun)
def train(model: Model, task: Task, **settings: Any) -> Iterator[Snapshot]:
    """Trains a model on a task and yields Snapshots: step 0, every `record_every` steps, and the end.

    At sizes that train on a CPU the paper's gain in accuracy does not replicate: compare with `gates="none"` and
    `gates="soft"`, which keep all patches. What can be seen is where the kept patches lie: `kept_in_object` against
    `chance`.

    >>> from moe_lab.vision import PatchWRN, QuadrantTask
    >>> from moe_lab.vision.patches import train
    >>> for snapshot in train(PatchWRN(trunk="plain"), QuadrantTask(), samples=1000, trials=2, epochs=12):
    ...     share = snapshot["kept_in_object"]  # (trial,)

    Args:
      model: PatchWRN or WRN.
      task: QuadrantTask or VehiclesTask.
      settings: the other parameters of `PatchImageRun`: samples, trials, seed, epochs, device, precision, ...

    Raises:
      ConfigError: a wrong value or combination, at once and not at the first Snapshot.
      ValueError, RuntimeError: an unknown or absent device.
      FileNotFoundError: image files that are not there.
    """
    return train_run(PatchImageRun(model=model, task=task, **settings))


def train_run(run: PatchImageRun) -> Iterator[Snapshot]:
    """Runs `train` for a given PatchImageRun."""
    return ImageTraining(run, PatchImageLearner, MEASURES).snapshots()


class PatchImageLearner(ImageLearner):
    """One trial of WRN or WRN-pMoE."""

    def __init__(
        self, run: PatchImageRun, place: int, trial: int, train: PatchImageSamples, test: PatchImageSamples
    ) -> None:
        super().__init__(run, place, trial, train, test)
        self.optimizer = Sgd(self.network.parameters(), run.model.learning_rate)
        self.constants["example_boxes"] = test.boxes[None, place, : run.examples]
        if isinstance(run.model, PatchWRN):
            cells = round(run.model.patches(run.task.image) ** 0.5)
            inside = cells_in(test.boxes[place], run.task.image[1], cells)
            self.inside = inside.to(self.images.dtype)
            self.constants["chance"] = inside.cpu().double().mean()[None]  # some devices have no doubles

    @property
    def changed(self) -> Sequence[Tensor]:
        return (self.sums, *changed_by([self.optimizer], self.network))

    def update(self, rows: Tensor, *drawn: Tensor) -> tuple[Tensor, Tensor]:
        loss, right = cross_entropy(self.network(self.images[rows]), self.labels[rows])
        self.optimizer.step(torch.autograd.grad(loss, self.optimizer.parameters, allow_unused=True))
        return loss, right

    def evaluate(self) -> dict[str, Tensor]:
        network, shown = self.network.eval(), self.run.examples
        if not isinstance(network, PatchNetwork):
            parts = [network(self.test_images[part]).argmax(1) for part in in_parts(self.run.test_samples)]
            predicted = torch.cat(parts)
            return {"test_accuracy": self._accuracy(predicted), "example_predicted": predicted[:shown]}
        each = [network.routed(self.test_images[part]) for part in in_parts(self.run.test_samples)]
        predicted = torch.cat([logits.argmax(1) for logits, _ in each])
        kept = torch.cat([routed.kept for _, routed in each]).to(self.images.dtype)
        gates = torch.cat([routed.gates for _, routed in each])
        return {
            "test_accuracy": self._accuracy(predicted),
            **found_in(self.inside, kept, gates),
            "example_predicted": predicted[:shown],
            "example_kept": kept[:shown],
            "example_gates": gates[:shown],
        }

    def _accuracy(self, predicted: Tensor) -> Tensor:
        return (predicted == self.test_labels).cpu().double().mean()  # some devices have no doubles


def found_in(
    inside: Float[Tensor, "*T N n"], kept: Float[Tensor, "*T N k n"], gates: Float[Tensor, "*T N k n"]
) -> dict[str, Tensor]:
    """Measures how much of what experts keep of images lies in the object, and how much of the gates' sum."""
    own = inside[..., None, :]
    of_experts = {
        name: ((all_of * own).sum((-3, -1)), all_of.sum((-3, -1))) for name, all_of in (("kept", kept), ("gate", gates))
    }
    return {
        **{f"{name}_in_object": part.sum(-1) / whole.sum(-1) for name, (part, whole) in of_experts.items()},
        **{f"expert_{name}_in_object": part / whole for name, (part, whole) in of_experts.items()},
    }
