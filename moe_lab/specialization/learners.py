"""A model bound to its data and weights: takes steps and evaluates test samples. A learner holds a few trials.

On a CPU, small groups of trials take many steps at a time, each block by block through the samples, so that the working
set stays in the processor's cache; on a GPU there is one group and one block.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import softplus

from moe_lab.core.graphs import Replay, on_accelerator, to_device
from moe_lab.core.interrupts import stop_if_unwanted
from moe_lab.core.optimizers import Adam
from moe_lab.core.trials import placement, stream
from moe_lab.specialization import model as models
from moe_lab.specialization.basis import rows_of
from moe_lab.specialization.data import Samples, Split
from moe_lab.specialization.experts import Dispatch, Experts, dispatch, experts_for, make_inputs
from moe_lab.specialization.measures import Counts, largest_products
from moe_lab.specialization.noise import evaluation_noise, noise_of_steps
from moe_lab.specialization.run import Run
from moe_lab.specialization.topk import TopKMoE

_NUMBERS_AT_ONCE = 2**22
"""The working set of a step on a CPU: 16 MB in float32. A quarter of that costs 20 to 30 % more time."""

AnyModel = TypeVar("AnyModel", bound=models.SwitchMoE | models.SingleExpert | TopKMoE)
Mixture = TypeVar("Mixture", bound=models.SwitchMoE | TopKMoE)


def block_size(run: Run, samples: int) -> tuple[int, int]:
    """Returns how many trials of how many samples make a block on a CPU."""
    task, rows = run.task, rows_of(run.model.activation, run.model.biases, run.signal_basis)
    patches = {"none": 0, "noise": task.patches - 3, "all": task.patches}[rows]
    each = task.dimension + patches * (task.dimension + 2 * run.model.filters)
    room = max(256, _NUMBERS_AT_ONCE // each)
    blocks = -(-samples // room)  # of one size: a small last block costs as much as a large one
    return max(1, room // samples), -(-samples // blocks)


def samples_of(run: Run, trials: Sequence[int], split: Split) -> Samples:
    """Generates the training or test samples of some trials of a run."""
    device, dtype = placement(run)
    count = run.samples if split == "train" else run.test_samples
    return run.task.sample(count, trials=trials, seed=run.seed, split=split, device=device, dtype=dtype)


class Routed(NamedTuple):
    """The forward pass of a mixture."""

    outputs: Float[Tensor, "T M N"]  # of every expert
    sent: Dispatch
    output: Float[Tensor, "T N"]  # F(x), the output of the chosen expert times its gate


def routed(
    model: models.SwitchMoE, state: models.State, experts: Experts, noise: Float[Tensor, "T M N"] | None
) -> Routed:
    """Dispatches the samples of `experts`, with the given noise on the router's scores, and computes F(x)."""
    scores = state.routers @ experts.inputs.totals.mT
    noisy = scores if noise is None else scores + noise
    sent, outputs = dispatch(noisy), experts.every(state.experts)
    gates = sent.at(scores.softmax(1) if model.objective == "paper" else noisy)
    return Routed(outputs, sent, gates * sent.at(outputs))


class Learner(ABC, Generic[AnyModel]):
    """Some trials of one model."""

    loss: Float[Tensor, " T"]  # mean loss of the last step, before the update
    right: Int[Tensor, " T"]  # correct predictions, likewise
    steps: Int[Tensor, " T"]
    active: Bool[Tensor, " T"]  # False once a trial has stopped

    def __init__(self, run: Run, model: AnyModel, trials: Sequence[int], train: Samples, test: Samples) -> None:
        self.run, self.trials, self.signals = run, list(trials), train.signals
        self.model: AnyModel = model
        self.train, self.test = self._bound(train), self._bound(test)
        self.like = self.train[0].inputs.totals
        self.loss = self.like.new_zeros(len(self.trials))
        self.right, self.steps = (torch.zeros_like(self.loss, dtype=torch.int64) for _ in range(2))
        self.active = torch.ones_like(self.loss, dtype=torch.bool)

    def tensor(self, values: np.ndarray) -> Tensor:
        return to_device(values, self.like.device, self.like.dtype)

    def _bound(self, samples: Samples) -> list[Experts]:
        """The experts bound to each block of the samples."""
        device = samples.strengths.device
        size = len(samples) if on_accelerator(device) else block_size(self.run, len(samples))[1]
        signs = torch.as_tensor(models.signs(self.model), device=device, dtype=samples.strengths.dtype)
        blocks = []
        for begin in range(0, len(samples), size):
            inputs = make_inputs(
                samples.only(begin, min(begin + size, len(samples))),
                self.model.activation,
                biases=self.model.biases,
                signal_basis=self.run.signal_basis,
            )
            blocks.append(experts_for(inputs, self.model.activation, signs))
        return blocks

    @abstractmethod
    def advance(self, steps: int) -> None:
        """Takes some training steps."""

    @abstractmethod
    def evaluate(self) -> dict[str, Tensor]:
        """Computes all measures on the test samples and of the weights, for every trial."""

    @abstractmethod
    def _training_margins(self) -> Iterator[Float[Tensor, "T b"]]:
        """Computes y F(x) block by block, with the router noise of evaluations (paper: none)."""

    def _loss_of(self, margin: Tensor) -> Tensor:
        return softplus(-margin)

    @torch.no_grad()
    def training_error(self) -> tuple[Float[Tensor, " T"], Float[Tensor, " T"]]:
        """Computes the accuracy and mean loss on all training samples."""
        right, loss = torch.zeros_like(self.loss), torch.zeros_like(self.loss)
        for margin in self._training_margins():
            right += (margin > 0).sum(1)
            loss += self._loss_of(margin).sum(1)
        return right / self.run.samples, loss / self.run.samples


class MixtureLearner(Learner[Mixture]):
    """A mixture whose steps need the router noise of every trial's own stream."""

    def __init__(self, run: Run, model: Mixture, trials: Sequence[int], train: Samples, test: Samples) -> None:
        super().__init__(run, model, trials, train, test)
        streams = [stream(run.seed, trial, "router noise") for trial in trials]
        self._noise = noise_of_steps(model, streams, run.samples, self.like)
        self._replay: Replay | None = None

    @property
    @abstractmethod
    def _moving(self) -> tuple[Tensor, ...]:
        """All tensors that a step changes."""

    @abstractmethod
    def _moved(self, noise: Tensor) -> tuple[Tensor, ...]:
        """Computes the same tensors after a step."""

    def advance(self, steps: int) -> None:
        for _ in range(steps):
            stop_if_unwanted()
            noise = next(self._noise)
            if self._replay is None:
                self._replay = Replay(self._step, self._moving, (noise,))
            self._replay(noise)

    def _step(self, noise: Tensor) -> None:
        for kept, value in zip(self._moving, self._moved(noise), strict=True):
            kept.copy_(value)


class SwitchLearner(MixtureLearner[models.SwitchMoE]):
    """The mixture, trained by algorithm 1."""

    def __init__(self, run: Run, model: models.SwitchMoE, trials: Sequence[int], train: Samples, test: Samples) -> None:
        super().__init__(run, model, trials, train, test)
        experts = self.tensor(
            np.stack([models.initial_experts(trial, run.seed, model, run.task.dimension) for trial in trials])
        )
        self.state = models.State(experts, experts.new_zeros(len(trials), model.experts, experts.shape[-1]))
        self._best = torch.full_like(self.loss, torch.inf)

    @property
    def _moving(self) -> tuple[Tensor, ...]:
        return (*self.state, self.loss, self.right, self.steps, self.active, self._best)

    def _moved(self, noise: Tensor) -> tuple[Tensor, ...]:
        state, sums = models.switch_step(self.state, self.train, noise, self.model)
        loss, right, active = sums.loss / self.run.samples, sums.right, self.active
        if self.model.objective == "authors":  # a trial that has stopped stays as it is
            loss, right = torch.where(active, loss, self.loss), torch.where(active, right, self.right)
            active = active & ~models.stops_early(loss, self._best)
            moves = active[:, None, None]
            state = models.State(
                torch.where(moves[..., None], state.experts, self.state.experts),
                torch.where(moves, state.routers, self.state.routers),
            )
        return (*state, loss, right, self.steps + active, active, torch.minimum(self._best, loss))

    def _routed(self, split: Split) -> Iterator[tuple[Experts, Routed]]:
        """Evaluates the model block by block."""
        blocks = self.train if split == "train" else self.test
        samples, begin = sum(block.inputs.samples for block in blocks), 0
        noise = evaluation_noise(self.run, self.model, self.trials, split, samples, self.like)
        for block in blocks:
            end = begin + block.inputs.samples
            yield block, routed(self.model, self.state, block, None if noise is None else noise[..., begin:end])
            begin = end

    def evaluate(self) -> dict[str, Tensor]:
        counts = Counts(len(self.trials), self.model.experts, self.run.task.clusters, self.like)
        for block, (outputs, sent, output) in self._routed("test"):
            counts.add(outputs, sent, output, block.inputs.labels, block.inputs.clusters)
        d = self.run.task.dimension
        feature, center = largest_products(self.state.experts[..., :d], self.signals)
        routers = self.state.routers[..., :d] @ self.signals.mT
        half = routers.shape[2] // 2
        return counts.values() | {
            "expert_feature": feature,
            "expert_center": center,
            "router_feature": routers[..., :half],
            "router_center": routers[..., half:],
        }

    def _training_margins(self) -> Iterator[Tensor]:
        return (block.inputs.labels * output for block, (_, _, output) in self._routed("train"))

    def _loss_of(self, margin: Tensor) -> Tensor:
        return softplus(-margin) if self.model.objective == "paper" else models.authors_loss(margin)


class SingleLearner(Learner[models.SingleExpert]):
    """One expert trained by full-batch Adam, which is elementwise, so that trials are independent."""

    def __init__(
        self, run: Run, model: models.SingleExpert, trials: Sequence[int], train: Samples, test: Samples
    ) -> None:
        super().__init__(run, model, trials, train, test)
        self.weights = self.tensor(
            np.stack([models.initial_single(trial, run.seed, model, run.task.dimension) for trial in trials])
        )
        self.optimizer = Adam([self.weights], model.rate, model.weight_decay)
        self._replay: Replay | None = None

    @torch.no_grad()
    def advance(self, steps: int) -> None:
        for _ in range(steps):
            stop_if_unwanted()
            if self._replay is None:
                moving = (self.weights, self.loss, self.right, self.steps, *self.optimizer.state)
                self._replay = Replay(self._step, moving)
            self._replay()

    def _step(self) -> None:
        gradient = torch.zeros_like(self.weights)
        self.loss.zero_()
        self.right.zero_()
        for block in self.train:
            labels = block.inputs.labels
            everything = Dispatch(torch.ones_like(labels)[:, None], torch.zeros_like(block.inputs.clusters))
            outputs, _, part = block.gradient(self.weights, everything, labels, models.paper_link)
            gradient += part
            self.loss += softplus(-labels * outputs).sum(1)
            self.right += (labels * outputs > 0).sum(1)
        self.loss /= self.run.samples
        self.optimizer.step([gradient.div_(self.run.samples)])
        self.steps += 1

    @torch.no_grad()
    def evaluate(self) -> dict[str, Tensor]:
        counts = Counts(len(self.trials), 1, self.run.task.clusters, self.like)
        for block in self.test:
            outputs, inputs = block.every(self.weights), block.inputs
            everything = Dispatch(torch.ones_like(outputs), torch.zeros_like(inputs.clusters))
            counts.add(outputs, everything, outputs[:, 0], inputs.labels, inputs.clusters)
        feature, center = largest_products(self.weights[..., : self.run.task.dimension], self.signals)
        counted = counts.values()
        shown = {name: counted[name] for name in ("test_accuracy", "cluster_accuracy", "expert_accuracy")}
        return shown | {"expert_feature": feature, "expert_center": center}

    def _training_margins(self) -> Iterator[Tensor]:
        return (block.inputs.labels * block.every(self.weights)[:, 0] for block in self.train)
