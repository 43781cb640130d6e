"""A layer bound to its stream of samples: takes training steps. On a CPU a learner holds what fits in the cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from moe_lab.core import training
from moe_lab.core.graphs import on_accelerator
from moe_lab.core.routing import Scratch
from moe_lab.core.trials import Draw
from moe_lab.pruning import initialization
from moe_lab.pruning.data import SampleStream, TokenTask
from moe_lab.pruning.model import TokenMoE, Weights, apply_step, sgd_step
from moe_lab.pruning.run import TokenRun

NUMBERS_AT_ONCE = 2**19
"""The most numbers that a step routes at a time on a CPU."""
DRAWN_AT_ONCE = 2**17
"""Tokens that are sampled at a time; their counts are at most twice as many numbers, or those of one step."""
_DRAWN_FOR_ACCELERATORS = 2**22
"""The same on an accelerator, which computes while the host draws: 32 MB of tokens."""


class TokenLearner(training.Learner):
    """Trains a group of trials; the loss is the mean hinge loss of the last batch, NaN before the first.

    Args:
      weights: of these trials; changed in place.
      trials: their numbers, which name their random streams; a trial may occur more than once, in variants.
      split: "train" before pruning, "post" after it.
    """

    def __init__(
        self,
        weights: Weights,
        model: TokenMoE,
        task: TokenTask,
        *,
        trials: Sequence[int],
        seed: int,
        batch: int,
        split: str = "train",
    ) -> None:
        super().__init__(trials, like := weights.routers)
        self.weights, self.model, self.task, self.batch = weights, model, task, batch
        self.sums = weights.sums
        self.split = split
        self._samples = SampleStream(task, trials=trials, seed=seed, split=split, device=like.device, dtype=like.dtype)
        each = len(trials) * batch * max(task.tokens, task.patterns // 2)  # counts take memory by the patterns
        self._portion = max(1, (_DRAWN_FOR_ACCELERATORS if on_accelerator(like.device) else DRAWN_AT_ONCE) // each)
        self._numbers = len(trials) * task.patterns * batch * self._portion
        self._scratch = Scratch()
        self._width = model.width(task.tokens, task.patterns) if model.routing == "expert-choice" else task.patterns
        self.loss.fill_(torch.nan)

    @property
    def changed(self) -> tuple[Tensor, ...]:
        return self.weights.routers, self.weights.neurons, self.sums

    def inputs(self, steps: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yields counts and labels of fresh samples, which stay in place until the next are requested."""
        for first in range(0, steps, self._portion):
            portion = min(steps - first, self._portion)
            samples = self._samples.sample(portion * self.batch)
            counts, labels = samples.counts(self._scratch("counts", samples.labels, self._numbers)), samples.labels
            for begin in range(0, portion * self.batch, self.batch):
                yield counts[:, :, begin : begin + self.batch], labels[:, begin : begin + self.batch]

    @property
    def step_draws(self) -> dict[str, Draw]:
        return self.task.draws(self.batch, self.split)

    def inputs_of(self, raw: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        samples = self.task.made(raw["tokens"]).on(self.like.device, self.like.dtype)
        return samples.counts(), samples.labels

    def step(self, counts: Float[Tensor, "T d B"], labels: Float[Tensor, "T B"]) -> None:  # type: ignore[override]
        step = sgd_step(self.weights, self.sums, counts, labels, self.model, self._width, self._scratch)
        apply_step(self.weights, self.sums, step, self._scratch)
        self.loss.copy_(step.loss)


def group_size(run: TokenRun) -> int:
    """Returns how many trials a learner should hold on a CPU."""
    model, task = run.model, run.task
    wide = model.width(task.tokens, task.patterns) if model.routing == "expert-choice" else model.neurons
    return max(1, NUMBERS_AT_ONCE // (model.experts * wide * run.batch))


def start_weights(run: TokenRun, trials: Sequence[int], device: torch.device, dtype: torch.dtype) -> Weights:
    """Returns the checkpoint of some trials; branches are pre-trained here."""
    start, model, task = run.start, run.model, run.task
    if isinstance(start, initialization.PlantedStart):
        components = initialization.planted_weights(start, model, task, trials, run.seed)
    else:
        components = initialization.random_weights(start, model, task.patterns, trials, run.seed)
    weights = Weights.unpruned(*(part.to(device, dtype) for part in components))
    if isinstance(start, initialization.BranchStart):
        _pretrain(weights, start, run, trials)
    return weights


def _pretrain(weights: Weights, start: initialization.BranchStart, run: TokenRun, trials: Sequence[int]) -> None:
    """Trains every branch on its own task, in place."""
    branches = torch.as_tensor(initialization.branch_of(run.model.experts, start.tasks), device=weights.routers.device)
    for number in range(start.tasks):
        members: Int[Tensor, " b"] = (branches == number).nonzero()[:, 0]
        model = run.model.replace(experts=len(members), router_learning_rate=start.router_learning_rate)
        branch = Weights.unpruned(weights.routers[:, members], weights.neurons[:, members])
        task, split = run.task.replace(pair=number, tokens=start.tokens_for(model)), f"pretrain {number}"
        learner = TokenLearner(branch, model, task, trials=trials, seed=run.seed, batch=start.batch, split=split)
        learner.advance(start.steps)
        weights.routers[:, members], weights.neurons[:, members] = branch.routers, branch.neurons
