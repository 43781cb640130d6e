"""Measures of a layer during fine-tuning, computed from its weights and its routing of the test samples."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from moe_lab.core.graphs import on_accelerator
from moe_lab.core.routing import Scratch
from moe_lab.core.snapshots import Measure
from moe_lab.pruning.data import TokenSamples, TokenTask
from moe_lab.pruning.model import TokenMoE, Weights, route

_OWN = "own pattern: o_1 for experts that vote +, o_2 for those that vote -"
MEASURES = {
    "test_accuracy": Measure((), "", "share of test samples with the right sign"),
    "test_loss": Measure((), "", "mean hinge loss on the test samples"),
    "train_loss": Measure((), "", "mean hinge loss of the last batch, before its step"),
    "router_norm": Measure(("expert",), "", "norm of the router"),
    "norm_change": Measure(("expert",), "", "Delta_s, norm of the router minus its initial norm"),
    "difference_norm": Measure(("expert",), "", "norm of the router minus its initialization, not Delta_s"),
    "proficiency": Measure(
        ("expert",),
        "",
        f"share of its class's samples where the expert receives its own pattern with G >= 1/l ({_OWN})",
    ),
    "gate": Measure(("expert",), "", "mean gate of the own pattern in its class's samples, 0 if not received"),
    "least_gate": Measure(("expert",), "", "smallest gate of the own pattern in its class's samples"),
    "cross_proficiency": Measure(("expert",), "", "proficiency for the other class's pattern"),
    "large_neurons": Measure(("expert",), "", "share of neurons with a component above 1 along the own pattern"),
    "own_sum": Measure(("expert",), "", "sigma of the own pattern: the sum of the neurons' activations on it"),
}
BLOCK_SIZE = 2**21
"""Size of a block of samples on a CPU, in numbers: larger blocks do not fit into the cache."""


class Evaluation(NamedTuple):
    """The outputs of a layer on samples.

    Attributes:
      votes: (T, k, N) a^(s) F_s(x), whose sum over the experts is f(x).
      plus, minus: (T, k, N) gates of o_1 and of o_2, 0 if absent or not received.
      labels: (T, N) y.
    """

    votes: Float[Tensor, "T k N"]
    plus: Float[Tensor, "T k N"]
    minus: Float[Tensor, "T k N"]
    labels: Float[Tensor, "T N"]

    @property
    def output(self) -> Float[Tensor, "T N"]:
        """f(x)."""
        return self.votes.sum(1)

    def accuracy(self) -> Float[Tensor, " T"]:
        """Computes the share of samples with y f > 0."""
        return (self.labels * self.output > 0).to(self.labels.dtype).mean(1)

    def accuracies(self, kept: Bool[Tensor, "T M k"]) -> Float[Tensor, "T M"]:
        """Computes the accuracy of M layers that keep some of the experts; NaN in trials with a non-finite vote.

        A pruned layer's output is the sum of the votes of the experts that stay, in both routings, so that nothing has
        to be routed again.
        """
        output = kept.to(self.votes.dtype) @ self.votes  # (T, M, N)
        right = (self.labels[:, None] * output > 0).to(self.votes.dtype).mean(2)
        return right.masked_fill(~torch.isfinite(self.votes).flatten(1).all(1)[:, None], torch.nan)


def evaluate(weights: Weights, samples: TokenSamples, model: TokenMoE, task: TokenTask) -> Evaluation:
    """Computes every expert's vote on every sample and its gates for the task's patterns, block by block."""
    wide = model.width(task.tokens, task.patterns) if model.routing == "expert-choice" else task.patterns
    each = max(1, weights.trials * weights.neurons.shape[1] * wide)
    size = len(samples) if on_accelerator(weights.routers.device) else max(16, BLOCK_SIZE // each)
    sums, scratch, parts = weights.sums, Scratch(), []
    for begin in range(0, len(samples), size):
        block = samples.only(begin, min(begin + size, len(samples)))
        memory = scratch("counts", samples.labels, weights.trials * task.patterns * min(size, len(samples)))
        routed = route(weights, block.counts(memory), model, wide, scratch)
        plus, minus = (routed.gate_of(pattern) for pattern in task.specific)
        parts.append((weights.signs[:, None] * routed.outputs(sums), plus, minus))
    votes, plus, minus = (torch.cat(part, dim=2) for part in zip(*parts, strict=True))
    return Evaluation(votes, plus, minus, samples.labels)


def measure(
    weights: Weights, before: Float[Tensor, "T k d"], evaluation: Evaluation, model: TokenMoE, task: TokenTask
) -> dict[str, Tensor]:
    """Computes all measures of some weights except the training loss.

    Args:
      before: the initial routers of the same experts.
      evaluation: `evaluate` on the test samples.
    """
    routers, votes_plus = weights.own_routers, weights.signs > 0
    norm = torch.linalg.vector_norm(routers, dim=2)

    def halves(plus: Tensor, minus: Tensor) -> Tensor:
        """Joins the values for o_1 of the experts that vote + and the values for o_2 of the others."""
        return torch.where(votes_plus.view(-1, *[1] * (plus.ndim - 2)), plus, minus)

    first, second = ((evaluation.labels == sign)[:, None] for sign in (1, -1))  # samples that contain o_1, o_2
    least = 1 / model.top - 1e-9

    def share(gates: Tensor, where: Tensor) -> Tensor:
        return ((gates >= least) & where).sum(2).to(norm.dtype) / where.sum(2)

    components = halves(*(weights.neurons[:, :, pattern] for pattern in task.specific))
    return {
        "test_accuracy": evaluation.accuracy(),
        "test_loss": (1 - evaluation.labels * evaluation.output).clamp(min=0).mean(1),
        "router_norm": norm,
        "norm_change": norm - torch.linalg.vector_norm(before, dim=2),
        "difference_norm": torch.linalg.vector_norm(routers - before, dim=2),
        "proficiency": halves(share(evaluation.plus, first), share(evaluation.minus, second)),
        "cross_proficiency": halves(share(evaluation.minus, second), share(evaluation.plus, first)),
        "gate": halves(evaluation.plus.sum(2) / first.sum(2), evaluation.minus.sum(2) / second.sum(2)),
        "least_gate": halves(
            evaluation.plus.masked_fill(~first, torch.inf).amin(2),
            evaluation.minus.masked_fill(~second, torch.inf).amin(2),
        ),
        "large_neurons": (components > 1).to(norm.dtype).mean(2),
        "own_sum": components.clamp(min=0).sum(2),
    }
