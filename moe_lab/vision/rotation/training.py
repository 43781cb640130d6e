"""Training of single networks and mixtures as a stream of Snapshots (chen2022, algorithm 1 with deep experts)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from moe_lab.core.graphs import on_accelerator, to_device
from moe_lab.core.optimizers import Adam, Optimizer, Sgd, changed_by
from moe_lab.core.routing import one_hot
from moe_lab.core.signatures import with_settings_of
from moe_lab.core.snapshots import Measure, Snapshot
from moe_lab.core.trials import stream
from moe_lab.routers.balance import dispatch_entropy
from moe_lab.vision.rotation.data import TurnSamples
from moe_lab.vision.rotation.model import Mixture, Model, ResNet18, SmallCNN
from moe_lab.vision.rotation.network import Dispatched, MixtureNetwork, balance_loss
from moe_lab.vision.rotation.run import Task, TurnRun
from moe_lab.vision.run import TRAINING_MEASURES, ImageLearner, ImageTraining, cross_entropy, in_parts

MEASURES = {
    **TRAINING_MEASURES,
    "cluster_accuracy": Measure(("cluster",), meaning="share of a cluster's test samples predicted correctly"),
    "dispatch": Measure(("cluster", "expert"), meaning="share of a cluster's test samples sent to an expert"),
    "expert_load": Measure(("expert",), meaning="share of the test samples sent to an expert"),
    "dispatch_entropy": Measure(
        unit="nats", meaning="entropy of an expert's clusters, mean over the samples (chen2022, eq. 6.1)"
    ),
    "example_expert": Measure(("example",), meaning="the expert that a test image is sent to"),
    "example_predicted": Measure(("example",), meaning="predicted label of the first test images"),
    "example_images": Measure(("example", "channel", "row", "column"), meaning="the first test images", constant=True),
    "example_labels": Measure(("example",), meaning="their labels", constant=True),
    "example_clusters": Measure(("example",), meaning="their clusters", constant=True),
}


@with_settings_of(TurnRun)
def train(model: Model, task: Task, **settings: Any) -> Iterator[Snapshot]:
    """Trains a model on a task and yields Snapshots: step 0, every `record_every` steps, and the end.

    >>> from moe_lab.vision import Mixture, TurnTask
    >>> from moe_lab.vision.rotation import train
    >>> for snapshot in train(Mixture(), TurnTask(), samples=2000, trials=3, seed=0):
    ...     experts = snapshot["example_expert"]  # (trial, example)

    Args:
      model: SmallCNN, ResNet18 or Mixture.
      task: TurnTask or CifarRotateTask.
      settings: the other parameters of `TurnRun`: samples, trials, seed, epochs, device, precision, ...

    Raises:
      ConfigError: a wrong value or combination, at once and not at the first Snapshot.
      ValueError, RuntimeError: an unknown or absent device.
      FileNotFoundError: image files that are not there.
    """
    return train_run(TurnRun(model=model, task=task, **settings))


def train_run(run: TurnRun) -> Iterator[Snapshot]:
    """Runs `train` for a given TurnRun."""
    return ImageTraining(run, TurnLearner, MEASURES).snapshots()


class TurnLearner(ImageLearner):
    """One trial of a single network or a mixture."""

    def __init__(self, run: TurnRun, place: int, trial: int, train: TurnSamples, test: TurnSamples) -> None:
        super().__init__(run, place, trial, train, test)
        self.model, self.clusters = run.model, run.task.clusters
        self.train_clusters, self.test_clusters = train.clusters[place], test.clusters[place]
        self.constants["example_clusters"] = self.test_clusters[None, : run.examples]
        self._router_noise = stream(run.seed, trial, "router noise")
        at_random = stream(run.seed, trial, "test/routing").random(run.test_samples)
        self._test_random = torch.as_tensor((at_random * self.experts).astype(np.int64), device=self.labels.device)
        trained = self.model.expert if isinstance(self.model, Mixture) else self.model
        self.normalized = trained.optimizer == "normalized"
        self.parts = [*self.network.experts] if isinstance(self.network, MixtureNetwork) else [self.network]
        weights = [weight for part in self.parts for weight in part.parameters()]
        self.optimizers = [_optimizer(trained, weights)]
        if isinstance(self.model, Mixture) and isinstance(self.network, MixtureNetwork) and self.network.router:
            rate, router = self.model.router_learning_rate, self.network.router.parameters()
            self.optimizers.append(Sgd(router, rate, trained.momentum, trained.weight_decay))

    @property
    def experts(self) -> int:
        return self.model.experts if isinstance(self.model, Mixture) else 1

    @property
    def _everywhere(self) -> bool:
        """Whether a step computes every image by every expert, which an accelerator repeats without a wait."""
        network = self.network
        return isinstance(network, MixtureNetwork) and on_accelerator(self.labels.device) and not network.sees_batches

    @property
    def changed(self) -> Sequence[Tensor] | None:
        if isinstance(self.network, MixtureNetwork) and not self._everywhere:
            return None  # an expert's number of images decides shapes
        return (self.sums, *changed_by(self.optimizers, self.network))

    def drawn(self, count: int) -> tuple[Tensor, ...]:
        if not isinstance(self.model, Mixture) or self.model.routing == "oracle":
            return ()
        uniform = self._router_noise.random((count, self.model.experts))
        return (to_device(uniform, self.images.device, self.images.dtype),)

    def update(self, rows: Tensor, *drawn: Tensor) -> tuple[Tensor, Tensor]:
        sent = self._sent(self.images[rows], self.train_clusters[rows], None, drawn, everywhere=self._everywhere)
        loss, right = cross_entropy(sent.logits, self.labels[rows])
        weight = self.model.balance if isinstance(self.model, Mixture) else 0.0
        total = loss + weight * balance_loss(sent.scores, sent.expert) if weight else loss
        weights = [weight for optimizer in self.optimizers for weight in optimizer.parameters]
        gradients: list[Tensor | None] = [*torch.autograd.grad(total, weights, allow_unused=True)]
        if self.normalized:
            each = len(self.optimizers[0].parameters) // len(self.parts)
            for begin in range(0, each * len(self.parts), each):
                gradients[begin : begin + each] = normalized(gradients[begin : begin + each])
        with self._unused_stay(sent.expert) if self._everywhere else nullcontext():
            for optimizer in self.optimizers:
                optimizer.step(gradients[: len(optimizer.parameters)])
                gradients = gradients[len(optimizer.parameters) :]
        return loss, right

    @contextmanager
    def _unused_stay(self, expert: Int[Tensor, " B"]) -> Iterator[None]:
        """Leaves experts without images, and their averages, as they are, as a gradient of None does."""
        each = len(self.optimizers[0].parameters) // len(self.parts)
        changing = [part.detach() for part in (*self.optimizers[0].parameters, *self.optimizers[0].state)]
        before = [part.clone() for part in changing]
        yield
        used = one_hot(expert, len(self.parts)).any(0)
        for place, (now, was) in enumerate(zip(changing, before, strict=True)):
            now.copy_(torch.where(used[place // each % len(self.parts)], now, was))

    def _sent(
        self,
        images: Float[Tensor, "B C H W"],
        clusters: Int[Tensor, " B"],
        at_random: Int[Tensor, " B"] | None,
        drawn: Sequence[Tensor] = (),
        everywhere: bool = False,
    ) -> Dispatched:
        """The forward pass; `at_random` are the experts of random routing, None while training, which draws numbers."""
        network, model = self.network, self.model
        if not isinstance(model, Mixture) or not isinstance(network, MixtureNetwork):
            return Dispatched(network(images), torch.zeros_like(clusters), images.new_zeros(len(images), 1))
        send = partial(network.dispatched, images, everywhere=everywhere)
        if model.routing == "oracle":
            return send(expert=clusters % model.experts)
        if at_random is not None:
            return send(expert=at_random if model.routing == "random" else None)
        (uniform,) = drawn
        if model.routing == "random":
            return send(expert=uniform.argmax(1))
        return send(noise=model.router_noise * uniform)

    def evaluate(self) -> dict[str, Tensor]:
        self.network.eval()
        each = [
            self._sent(self.test_images[part], self.test_clusters[part], self._test_random[part])
            for part in in_parts(self.run.test_samples)
        ]
        predicted = torch.cat([sent.logits.argmax(1) for sent in each]).cpu()  # counted here: not all have doubles
        expert, clusters = torch.cat([sent.expert for sent in each]).cpu(), self.test_clusters.cpu()
        right = (predicted == self.test_labels.cpu()).double()
        counts = torch.zeros(self.clusters, self.experts, dtype=torch.float64)
        counts.index_put_((clusters, expert), torch.ones_like(right), accumulate=True)
        correct = torch.zeros(self.clusters, dtype=torch.float64).index_add_(0, clusters, right)
        of_cluster = counts.sum(1)
        values = {
            "test_accuracy": right.mean(),
            "cluster_accuracy": correct / of_cluster,
            "example_predicted": predicted[: self.run.examples],
        }
        if isinstance(self.model, Mixture):
            values |= {
                "dispatch": counts / of_cluster[:, None],
                "expert_load": counts.sum(0) / counts.sum(),
                "dispatch_entropy": dispatch_entropy(counts),
                "example_expert": expert[: self.run.examples],
            }
        return values


def normalized(gradients: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Divides the gradient of an expert by its length over all parameters, where that is not 0 (eq. 3.4)."""
    squares = [one.square().sum() for one in gradients if one is not None]
    if not squares:
        return list(gradients)
    length = torch.stack(squares).sum().sqrt()
    divisor = torch.where(length > 0, length, 1)
    return [None if one is None else one / divisor for one in gradients]


def _optimizer(model: SmallCNN | ResNet18, weights: list[nn.Parameter]) -> Optimizer:
    if model.optimizer == "adam":
        return Adam(weights, model.learning_rate, model.weight_decay)
    return Sgd(weights, model.learning_rate, model.momentum, model.weight_decay)
