"""Training of a V-MoE on digits, as a stream of Snapshots; pre-training, which is cached, and fine-tuning.

The loss is the cross-entropy plus the balancing losses of the mixtures, with noise on the router logits, as in the
reference. Fine-tuning follows the released configs: SGD with momentum .9, gradients clipped at norm 10, a warm-up and
a cosine. Pre-training uses AdamW with the same schedule.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn import functional

from moe_lab.core import training
from moe_lab.core.config import Config, knob, require
from moe_lab.core.devices import choose
from moe_lab.core.errors import OperationError
from moe_lab.core.graphs import to_device
from moe_lab.core.optimizers import Adam, Optimizer, Sgd, changed_by, clipped
from moe_lab.core.origins import origin
from moe_lab.core.snapshots import Measure
from moe_lab.core.trials import stream
from moe_lab_papers.pruning2024.vmoe.config import VMoEConfig
from moe_lab_papers.pruning2024.vmoe.digits import DigitTask, Labelled
from moe_lab_papers.pruning2024.vmoe.model import VMoE
from moe_lab_papers.pruning2024.vmoe.pruning import weights_of
from moe_lab_papers.pruning2024.vmoe.statistics import tested

TINY = VMoEConfig(
    patch_size=(4, 4),
    hidden_size=48,
    positions=10,
    num_layers=4,
    num_heads=4,
    mlp_dim=96,
    layers=(1, 3),
    group_size=250,
    bfloat16=False,
    split_rngs=True,
)
"""A V-MoE of 211,114 parameters for images of 12 x 12 pixels: mixtures of 8 experts in blocks 1 and 3, 2 selected."""

MEASURES = {
    "test_accuracy": Measure((), "", "share of test digits that are recognised; NaN where it was not measured"),
    "train_loss": Measure((), "nats", "cross-entropy of the last batch"),
    "received": Measure(("block", "expert"), "", "share of the test tokens that the expert receives; NaN likewise"),
    "norm_change": Measure(("block", "expert"), "", "change of the norm of the expert's router since the start"),
}


class DigitRun(Config):
    """A training of a V-MoE on digits; the defaults are those of fine-tuning on upside-down digits.

    Raises:
      ConfigError: a value is out of bounds.
    """

    model: VMoEConfig = TINY
    task: DigitTask = DigitTask(upside_down=True)
    optimizer: Literal["sgd", "adamw"] = knob("sgd", meaning="SGD with momentum, or AdamW", choices=("sgd", "adamw"))
    steps: int = knob(300, meaning="steps", ge=0, le=10**7, slider=(0, 600, 50))
    batch: int = knob(100, symbol="B", meaning="images in a step", ge=1, le=10**6, slider=(25, 100, 25))
    learning_rate: float = knob(
        0.03, symbol="η", meaning="largest learning rate", ge=0, le=1e3, slider=(0.005, 0.1, 0.005)
    )
    warm_up: int = knob(30, meaning="steps until the learning rate is largest", ge=0, le=10**6)
    momentum: float = knob(0.9, meaning="momentum of SGD", ge=0, lt=1)
    clip: float = knob(10.0, meaning="largest norm of the gradient", gt=0, le=1e6)
    weight_decay: float = knob(0.0, meaning="weight decay of AdamW", ge=0, le=1)
    test_images: int = knob(500, meaning="test images", ge=1, le=10**6)
    record_every: int = knob(50, meaning="steps from one Snapshot to the next", ge=1, le=10**9)
    trial: int = knob(0, meaning="number of the trial", ge=0, le=2**31)
    seed: int = knob(0, symbol="seed", meaning="seed of all random streams", ge=0, le=2**63)
    device: str = knob("cpu", meaning="where to train: auto, cpu, cuda, cuda:N or mps")

    @property
    def measure(self) -> str:
        """Every Snapshot is tested."""
        return "every"

    @property
    def last_step(self) -> int:
        return self.steps

    @property
    def numbers_per_step(self) -> float:
        """Numbers that a step computes: six for each of an MLP and ten for each of a token in every block."""
        model = self.model
        return float(self.batch * model.positions * model.num_layers * (10 * model.hidden_size + 6 * model.mlp_dim))

    @property
    def test(self) -> Labelled:
        """The test images of the run, the same for every trial."""
        return self.task.sample(self.test_images, "test", stream(self.seed, 0, "vmoe/test"))

    @property
    def validation(self) -> Labelled:
        """As many images for the statistics of criteria."""
        return self.task.sample(self.test_images, "validation", stream(self.seed, 0, "vmoe/validation"))


class VMoELearner(training.Learner):
    """One trial of a run.

    Random numbers are drawn on the host, the same for every device.

    Attributes:
      model: in training on the run's device; the model it started from is unchanged.
      loss: (1,) cross-entropy of the last batch, NaN before the first, and from an infinite one on.
    """

    def __init__(self, run: DigitRun, start: VMoE | None, device: torch.device) -> None:
        seed = int(stream(run.seed, run.trial, "vmoe/weights").integers(2**62))
        config = run.model if start is None else start.config
        self.model = (VMoE(config, seed) if start is None else with_head(start, run.task.classes)).to(device)
        super().__init__([run.trial], self.model.embedding.kernel.detach().new_zeros(()))
        self.run, self.test = run, self._there(run.test)
        self._data = stream(run.seed, run.trial, "vmoe/train")
        self._noise = Generator().manual_seed(int(stream(run.seed, run.trial, "vmoe/noise").integers(2**62)))
        parameters = self.model.parameters()
        self._optimizer: Optimizer = (
            Sgd(parameters, run.learning_rate, run.momentum)
            if run.optimizer == "sgd"
            else Adam(parameters, run.learning_rate, run.weight_decay, decoupled=True)
        )
        self.loss.fill_(torch.nan)
        self._norms = self._router_norms()

    def _there(self, images: Labelled) -> Labelled:
        return Labelled(images.images.to(self.like.device, self.like.dtype), images.labels.to(self.like.device))

    @property
    def changed(self) -> list[Tensor]:
        return changed_by([self._optimizer], self.model)

    def inputs(self, steps: int) -> Iterator[tuple[Tensor, ...]]:
        """Yields the images and labels of each step, and the noise of its routers; sets the learning rate."""
        run, device = self.run, self.like.device
        for step in range(self.done, self.done + steps):
            self._optimizer.learning_rate = run.learning_rate * schedule(step, run.steps, run.warm_up)
            images, labels = run.task.sample(run.batch, "train", self._data)
            noise = self.model.noise(run.batch, self._noise).values()
            first, *others = (to_device(values, device, self.like.dtype) for values in (images, *noise))
            yield first, to_device(labels, device), *others

    def step(self, images: Tensor, labels: Tensor, *noise: Tensor) -> None:  # type: ignore[override]
        model = self.model
        output = model.run(images, dict(zip(model.mixtures(), noise, strict=True)))
        entropy = functional.cross_entropy(output.logits, labels.repeat_interleave(model.config.members))
        gradients = torch.autograd.grad(entropy + output.loss, self._optimizer.parameters, allow_unused=True)
        self._optimizer.step(clipped(gradients, self.run.clip))
        self.active &= entropy.detach().isfinite()
        self.loss.copy_(torch.where(self.active, entropy.detach(), torch.nan))

    def online(self) -> dict[str, Tensor]:
        return {"train_loss": self.loss, "norm_change": (self._router_norms() - self._norms)[None]}

    def measure(self, whole: bool) -> dict[str, Tensor]:
        accuracy, shares = tested(self.model, self.test)
        received = np.stack([shares[block] for block in self.model.config.layers])
        return {"test_accuracy": torch.tensor([accuracy]), "received": torch.as_tensor(received)[None]}

    def _router_norms(self) -> Tensor:
        """The norms of the routers (block, expert), 0 for pruned experts."""
        config = self.model.config
        norms = torch.zeros(len(config.layers), config.num_experts, dtype=torch.float64)
        for row, block in zip(norms, config.layers, strict=True):
            own = weights_of(self.model, block, self.model).own_routers[0]
            row[list(config.kept_in(block))] = own.detach().norm(dim=-1).cpu().double()
        return norms


class VMoETraining(training.Training[VMoELearner]):
    """One trial of a run in training.

    A model in float64 trains in float64, a new one in float32.

    Args:
      run: the training.
      start: the model to start from; a new one when None. Its head is replaced where the classes differ.

    Attributes:
      model: in training.

    Raises:
      ValueError: the images of a batch or of the test do not fill whole groups, or torch knows no such device.
      RuntimeError: the device is not present.
    """

    must_be_finite = ()  # the loss of the last batch has no value at the first Snapshot

    def __init__(self, run: DigitRun, start: VMoE | None = None) -> None:
        per = (run.model if start is None else start.config).images_per_batch
        rule = f"batch and test_images must be multiples of {per}, the images that fill whole groups"
        require(run.batch % per == 0 and run.test_images % per == 0, rule, B=run.batch, test_images=run.test_images)
        device = choose(run.device, run.numbers_per_step)
        super().__init__(run, MEASURES, (VMoELearner(run, one, device) for one in [start]), device)

    @property
    def model(self) -> VMoE:
        return self.learners[0].model

    @property
    def coords(self) -> dict[str, list[int]]:
        return {"block": list(self.model.config.layers)}

    def made_by(self, **about: Any) -> dict[str, Any]:
        run = self.run
        config = run.model_dump(mode="json")
        call = f"Training({run.code()})"
        return origin(call=call, config=config, seed=run.seed, device=self.device, paper=run.task.paper)


def schedule(step: int, steps: int, warm_up: int) -> float:
    """Returns the learning rate as a share of the largest: a linear warm-up, then a cosine down to 0."""
    if step < warm_up:
        return (step + 1) / warm_up
    return 0.5 * (1 + math.cos(math.pi * (step - warm_up) / max(1, steps - warm_up)))


def with_head(model: VMoE, classes: int) -> VMoE:
    """Copies a model; if it has another number of classes, the copy gets a new head of zeros, as in the reference."""
    if model.config.num_classes == classes:
        return copy.deepcopy(model)
    config = model.config.replace(num_classes=classes)
    other = VMoE(config)
    kept = {name: value for name, value in model.state_dict().items() if not name.startswith("head.")}
    other.load_state_dict(kept, strict=False)
    return other


def fine_tune(model: VMoE, run: DigitRun | None = None, **settings: Any) -> VMoE:
    """Fine-tunes a copy of a model to the end and returns it on the CPU; `VMoETraining` does it as Snapshots.

    Args:
      model: the model to start from, pruned or not.
      run: the training; `DigitRun(**settings)` when None.

    Raises:
      ConfigError: a setting is wrong.
      RuntimeError: the loss became infinite or NaN.
    """
    training = VMoETraining(DigitRun(**settings) if run is None else run, model)
    for snapshot in training.snapshots():
        if snapshot.diverged.any():
            raise OperationError(f"fine-tuning diverged; choose a smaller learning_rate: got step={snapshot.step}")
    return training.model.cpu()
