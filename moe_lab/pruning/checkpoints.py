"""A layer before and after fine-tuning, with its accuracy after pruning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.core.training import groups_of
from moe_lab.core.trials import threads_for
from moe_lab.pruning.criteria import Criterion, Scores, Statistics, chance_of, routing_statistics, scores_of
from moe_lab.pruning.data import TokenSamples
from moe_lab.pruning.learner import TokenLearner, group_size
from moe_lab.pruning.measures import Evaluation, evaluate
from moe_lab.pruning.model import Weights
from moe_lab.pruning.pruned import VALIDATION_SAMPLES
from moe_lab.pruning.run import TokenRun
from moe_lab.pruning.select import Kept, kept_experts, pruned
from moe_lab.pruning.training import TokenTraining


def fine_tune(run: TokenRun) -> FineTuned:
    """Fine-tunes a run to the end and returns both checkpoints, which give the numbers that `train_run` measures.

    Raises:
      ValueError, RuntimeError: an unknown or absent device or a precision that it does not have.
    """
    training = TokenTraining(run.replace(measure="last", record_every=run.steps))
    for _ in training.snapshots():
        pass
    return FineTuned.of(training, run)


@dataclass(frozen=True)
class FineTuned:
    """A layer before and after fine-tuning. Evaluations are computed when first needed, and cached.

    Attributes:
      run: the training.
      before, after: the checkpoints.
      diverged: (T,) trials whose loss became infinite or NaN: their accuracies are NaN.
      validation_samples: the number of samples from which the statistics are counted.
    """

    run: TokenRun
    before: Weights
    after: Weights
    diverged: Tensor
    validation_samples: int = VALIDATION_SAMPLES
    _later: dict[int, Evaluation] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, training: TokenTraining, run: TokenRun | None = None) -> FineTuned:
        """Returns the checkpoints of a training in its present state."""
        return cls(run or training.run, training.before, training.after, torch.from_numpy(training.diverged.copy()))

    def samples(self, split: str, samples: int) -> TokenSamples:
        """Draws samples of a split, such as "test" or "validation", for the trials."""
        run, like = self.run, self.after.routers
        how: Any = {"seed": run.seed, "split": split, "device": like.device, "dtype": like.dtype}
        return run.task.sample(samples, trials=run.trial_numbers, **how)

    @cached_property
    def test(self) -> TokenSamples:
        """The test samples."""
        return self.samples("test", self.run.test_samples)

    @cached_property
    def evaluation(self) -> Evaluation:
        """The fine-tuned, unpruned layer evaluated on the test samples."""
        return self.evaluate(self.after)

    @cached_property
    def statistics(self) -> Statistics:
        """Statistics of the fine-tuned layer on validation samples, for the criteria."""
        run = self.run
        samples = self.samples("validation", self.validation_samples)
        with threads_for(0, samples.labels.device):
            chance = chance_of(self.after, run.trial_numbers, run.seed)
            return routing_statistics(self.after, samples, run.model, run.task, chance)

    def evaluate(self, weights: Weights) -> Evaluation:
        """Evaluates weights, pruned or not, on the test samples."""
        with threads_for(0, weights.routers.device):
            return evaluate(weights, self.test, self.run.model, self.run.task)

    # Pruning ---------------------------------------------------------------------------------------------------------

    def scores(self, criterion: str | Criterion) -> Scores:
        """Returns a criterion's score for every expert.

        Raises:
          ValueError: an unknown name.
          UndefinedCriterionError: the criterion cannot tell the experts of some trial apart.
        """
        return scores_of(criterion, self.before, self.after, self.statistics)

    def kept(self, criterion: str | Criterion, prune: float | tuple[int, int]) -> Kept:
        """Marks the experts that a criterion keeps at a pruning ratio, or for numbers pruned of the + and - group.

        Raises:
          ValueError: as for `scores` and `kept_experts`.
        """
        return kept_experts(self.scores(criterion), self.after.signs, prune)

    def pruned(self, kept: Kept) -> Weights:
        """Returns the layer with the kept experts alone.

        Raises:
          ValueError: as for `select.pruned`.
        """
        return pruned(self.after, kept, self.run.model.routing)

    def accuracy(self, kept: Kept, steps: int = 0) -> Float[Tensor, " T"]:
        """Evaluates the pruned layer on test samples after some steps of fine-tuning (0: none); NaN where diverged.

        Raises:
          ValueError: kept is of another shape; steps is negative; as for `select.pruned`.
        """
        rule, shape = "kept must state for each expert of each trial whether it stays", self.after.experts.shape
        require(kept.shape == shape, rule, kept=tuple(kept.shape), experts=tuple(shape))
        if steps and self.run.model.coupled:
            evaluation = self.evaluate(self.tuned(kept, steps))
            kept = torch.ones_like(evaluation.votes[..., 0], dtype=torch.bool)
        else:
            evaluation = self.tuned_whole(steps) if steps else self.evaluation
        return self.accuracies_of(evaluation, kept[:, None])[:, 0]

    def accuracies_of(self, evaluation: Evaluation, kept: Bool[Tensor, "T M k"]) -> Float[Tensor, "T M"]:
        """Computes test accuracies of M pruned layers from the votes of all experts of a layer; NaN where diverged."""
        accuracies = evaluation.accuracies(kept.to(evaluation.votes.device))
        return accuracies.masked_fill(self.diverged.to(accuracies.device)[:, None], torch.nan)

    def accuracies(
        self, criteria: Iterable[str | Criterion], shares: Iterable[float], steps: int = 0
    ) -> Float[Tensor, "C R T"]:
        """Evaluates the pruned layers of every criterion and every rho as `accuracy` does."""
        shares = tuple(shares)
        return torch.stack(
            [torch.stack([self.accuracy(self.kept(one, share), steps) for share in shares]) for one in criteria]
        )

    # Fine-tuning the pruned layer ------------------------------------------------------------------------------------

    def tuned(self, kept: Kept, steps: int) -> Weights:
        """Returns the pruned layer after some steps on fresh samples (algorithm 1, step 4).

        Raises:
          ValueError: steps is negative; as for `select.pruned`.
        """
        return self._trained(self.pruned(kept), steps)

    def tuned_whole(self, steps: int) -> Evaluation:
        """Evaluates the unpruned layer on the test samples after further steps.

        Where experts choose and the gradient is that of 1 - y f, an expert's step does not depend on the others, so
        that the experts of every pruned layer train as in this one: one fine-tuning serves every rho and criterion.

        Raises:
          ValueError: the experts' steps depend on each other in this run (`TokenMoE.coupled`).
        """
        rule = "experts that are trained apart need routing='expert-choice' and loss='linear'"
        model = self.run.model
        require(not model.coupled, rule, routing=model.routing, loss=model.loss)
        if steps not in self._later:
            self._later[steps] = self.evaluate(self._trained(self.after, steps))
        return self._later[steps]

    def _trained(self, weights: Weights, steps: int) -> Weights:
        require(isinstance(steps, int) and steps >= 0, "fine-tuning steps must be a whole number >= 0", steps=steps)
        parts = []
        with threads_for(0, weights.routers.device):
            for learner in self.learners(weights):
                learner.advance(steps)
                parts.append(learner.weights)
        return Weights.joined(parts)

    def learners(self, weights: Weights) -> Iterator[TokenLearner]:
        """Yields learners that fine-tune a copy of a layer, pruned or not, one for each group of trials."""
        run = self.run
        for trials in groups_of(run, group_size(run)):
            part = weights.of(torch.as_tensor(trials, device=weights.routers.device) - run.first_trial)
            yield TokenLearner(part, run.model, run.task, trials=trials, seed=run.seed, batch=run.batch, split="post")
