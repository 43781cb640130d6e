"""Some trials of a model bound to their samples: algorithm 1 with each trial's own router noise, and Adam."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab.core import training
from moe_lab.core.graphs import to_device
from moe_lab.core.optimizers import Adam
from moe_lab.core.training import samples_of
from moe_lab.core.trials import Draw
from moe_lab.specialization import mixture
from moe_lab.specialization.data import ClusterSamples, Split
from moe_lab.specialization.layer import Layer
from moe_lab.specialization.measures import counted, largest_products, load_measures
from moe_lab.specialization.mixture import Forward, Mixture
from moe_lab.specialization.model import LOSSES, Objective, SingleExpert, initial_single, signs, stops_early
from moe_lab.specialization.noise import ROUTER_NOISE, evaluation_noise, noise_of_steps
from moe_lab.specialization.run import ClusterRun
from moe_lab.specialization.topk import TopKMoE

SAMPLES_AT_ONCE = 2**14
"""Samples of a group of trials on a CPU, whose scores, gates and slopes then stay in the cache."""


def trials_at_once(run: ClusterRun) -> int:
    """Returns how many trials a learner should hold on a CPU."""
    return max(1, SAMPLES_AT_ONCE // run.samples)


def layer_of(run: ClusterRun, samples: ClusterSamples) -> Layer:
    """Binds a run's experts to samples."""
    model = run.model
    return Layer(samples, model.activation, signs(model).to(samples.strengths), model.biases, run.signal_basis)


class ClusterLearner(training.Learner):
    """Some trials of one model.

    Attributes:
      signals: (T, 2K, d) v_1 ... v_K, then c_1 ... c_K.
      train, test: the experts bound to the samples.
      right: (T,) correct predictions in the last step, before it changed anything.
    """

    objective: Objective = "paper"

    def __init__(self, run: ClusterRun, trials: Sequence[int]) -> None:
        samples = samples_of(run, trials, "train")
        self.run, self.signals = run, samples.signals
        self.train, self.test = layer_of(run, samples), layer_of(run, samples_of(run, trials, "test"))
        super().__init__(trials, self.train.totals)
        self.right = torch.zeros_like(self.steps)

    @abstractmethod
    def output(self, split: Split) -> Float[Tensor, "T N"]:
        """Computes F(x) of all samples, with the router noise of evaluations (paper: none)."""

    @abstractmethod
    def test_measures(self) -> dict[str, Tensor]:
        """Computes all measures on the test samples and of the weights."""

    def measure(self, whole: bool) -> dict[str, Tensor]:
        right, loss = self.right, self.loss
        if whole:
            margin = self.train.labels * self.output("train")
            right, loss = (margin > 0).sum(1), LOSSES[self.objective].value(margin).sum(1) / self.run.samples
        accuracy = right.cpu().double() / self.run.samples  # some devices have no doubles
        return self.test_measures() | {"train_accuracy": accuracy, "train_loss": loss}


class MixtureLearner(ClusterLearner):
    """Some trials of a mixture."""

    def __init__(self, run: ClusterRun, trials: Sequence[int]) -> None:
        super().__init__(run, trials)
        assert isinstance(run.model, Mixture)
        self.model: Mixture = run.model
        self.objective = self.model.objective
        self.state = mixture.initial_state(self.model, trials, run.seed, run.task.dimension, self.train)
        self._best = torch.full_like(self.loss, torch.inf)
        self._noise = noise_of_steps(self.model, run, trials, self.like)

    @property
    def changed(self) -> tuple[Tensor, ...]:
        return (*self.state, self.right, self._best)

    def inputs(self, steps: int) -> Iterator[tuple[Tensor]]:
        """Yields the router noise of each step."""
        return zip(islice(self._noise, steps))

    @property
    def step_draws(self) -> dict[str, Draw]:
        return {"noise": Draw(ROUTER_NOISE, (self.model.experts, self.run.samples), "float32")}

    def inputs_of(self, raw: Mapping[str, Tensor]) -> tuple[Tensor]:
        return (raw["noise"].to(self.like) * self.model.router_noise,)

    def step(self, noise: Float[Tensor, "T M N"]) -> None:  # type: ignore[override]
        state, sums = mixture.step(self.state, self.train, noise, self.model)
        loss, right, moves = sums.loss / self.run.samples, sums.right, self.active
        if self.objective == "authors":  # a trial that has stopped stays as it is
            loss, right = torch.where(moves, loss, self.loss), torch.where(moves, right, self.right)
            moves = moves & ~stops_early(loss, self._best)
            self._best.copy_(torch.minimum(self._best, loss))
            for part, before in zip(state, self.state, strict=True):
                stays = ~moves.view(-1, *[1] * (part.ndim - 1))
                part.copy_(torch.where(stays, before, part))
        kept = (*self.state, self.loss, self.right, self.active)
        for before, value in zip(kept, (*state, loss, right, moves), strict=True):
            before.copy_(value)

    def forward(self, split: Split) -> Forward:
        """Computes the outputs for all training or test samples, with the router noise of evaluations."""
        noise = evaluation_noise(self.run, self.model, self.trials, split, self.like)
        return mixture.forward(self.state, self.train if split == "train" else self.test, noise, self.model)

    def output(self, split: Split) -> Tensor:
        return self.forward(split).output

    def test_measures(self) -> dict[str, Tensor]:
        d, experts, test = self.run.task.dimension, self.model.experts, self.test
        routing, every, output = self.forward("test")
        found = counted(every[:, :experts], routing.chosen, output, test.labels, test.clusters, self.run.task.clusters)
        feature, center = largest_products(self.state.experts[..., :d], self.signals)
        by_feature, by_center = (self.state.routers[..., :d] @ self.signals.mT).chunk(2, dim=2)
        found |= {
            "expert_feature": feature[:, :experts],
            "expert_center": center[:, :experts],
            "router_feature": by_feature,
            "router_center": by_center,
        }
        if isinstance(self.model, TopKMoE):
            found |= load_measures(found["dispatch"], routing.scores, self.model.experts_per_sample)
            found["selection_bias"] = self.state.bias
        if self.model.shared:
            found["shared_feature"] = feature[:, experts:]
        return found


class SingleLearner(ClusterLearner):
    """One expert trained by full-batch Adam, which is elementwise, so that trials are independent."""

    def __init__(self, run: ClusterRun, trials: Sequence[int]) -> None:
        super().__init__(run, trials)
        assert isinstance(run.model, SingleExpert)
        model, d = run.model, run.task.dimension
        self.weights = to_device(initial_single(trials, run.seed, model, d), self.like.device, self.like.dtype)
        self.optimizer = Adam([self.weights], model.rate, model.weight_decay)
        self._slots = torch.zeros_like(self.train.clusters)[:, None]
        self._factors = torch.ones_like(self.train.labels)[:, None]

    @property
    def changed(self) -> tuple[Tensor, ...]:
        return (self.weights, self.right, *self.optimizer.state)

    def step(self) -> None:  # type: ignore[override]
        loss_of = LOSSES[self.objective]
        found = self.train.gradient(self.weights, self._slots, self._factors, loss_of.link)
        self.loss.copy_(loss_of.value(found.margin).sum(1) / self.run.samples)
        self.right.copy_((found.margin > 0).sum(1))
        self.optimizer.step([found.gradient / self.run.samples])

    def output(self, split: Split) -> Tensor:
        return (self.train if split == "train" else self.test).every(self.weights)[:, 0]

    def test_measures(self) -> dict[str, Tensor]:
        output, test, task = self.output("test"), self.test, self.run.task
        every = output[:, None]
        found = counted(every, torch.ones_like(every), output, test.labels, test.clusters, task.clusters)
        feature, center = largest_products(self.weights[..., : task.dimension], self.signals)
        shown = ("test_accuracy", "cluster_accuracy", "expert_accuracy")
        return {name: found[name] for name in shown} | {"expert_feature": feature, "expert_center": center}
