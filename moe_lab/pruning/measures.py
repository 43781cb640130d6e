"""What is measured of a layer while it is fine-tuned, and how it is read off its routing."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from moe_lab.pruning.data import Samples, TokenTask
from moe_lab.pruning.model import TokenMoE, Weights, route
from moe_lab.routing import Scratch
from moe_lab.training import Measure

_OWN = "own pattern: o_1 for experts that vote +, o_2 for those that vote -"
MEASURES = {
    "test_accuracy": Measure((), "", "share of test samples with the right sign"),
    "test_loss": Measure((), "", "mean hinge loss of the test samples"),
    "train_loss": Measure((), "", "mean hinge loss of the last batch, before its step"),
    "router_norm": Measure(("expert",), "", "length of the router"),
    "norm_change": Measure(("expert",), "", "Delta_s, length of the router now minus length at the start"),
    "difference_norm": Measure(("expert",), "", "length of the router's difference from its start: not Delta_s"),
    "proficiency": Measure(
        ("expert",), "", f"share of its class's samples in which the expert gets its own pattern with G >= 1/l ({_OWN})"
    ),
    "gate": Measure(("expert",), "", "mean gate of the own pattern in its class's samples, 0 where it is not received"),
    "least_gate": Measure(("expert",), "", "smallest gate of the own pattern in its class's samples"),
    "cross_proficiency": Measure(("expert",), "", "proficiency for the other class's pattern"),
    "large_neurons": Measure(("expert",), "", "share of its neurons with a component above 1 along the own pattern"),
    "own_sum": Measure(("expert",), "", "sigma of the own pattern: the sum of the neurons' answers to it"),
}
_AT_ONCE = 2**21
"""Numbers of a block of samples that are in hand at a time on a CPU: more leaves the cache."""


class Evaluation(NamedTuple):
    """What a layer makes of samples.

    Attributes:
      votes: (T, k, N) a^(s) F_s(x), whose sum over the experts is f(x).
      plus, minus: (T, k, N) gate of o_1 and of o_2, 0 where absent or not received.
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
        """Share of samples with y f > 0."""
        return (self.labels * self.output > 0).to(self.labels.dtype).mean(1)

    def accuracies(self, kept: Bool[Tensor, "M T k"]) -> Float[Tensor, "M T"]:
        """Accuracy of M layers that keep some of the experts; NaN in trials with a vote that is infinite or NaN.

        A pruned layer's output is the sum of the votes of the experts that stay, in both routings, so that nothing has
        to be routed again.
        """
        output = kept.movedim(0, 1).to(self.votes.dtype) @ self.votes  # (T, M, N)
        right = (self.labels[:, None] * output > 0).to(self.votes.dtype).mean(2).mT
        return right.masked_fill(~torch.isfinite(self.votes).flatten(1).all(1), torch.nan)


def evaluate(weights: Weights, samples: Samples, model: TokenMoE, task: TokenTask) -> Evaluation:
    """Every expert's vote on every sample, and its gates on the task's patterns; block by block."""
    wide = model.width(task.tokens, task.patterns) if model.routing == "expert-choice" else task.patterns
    each = max(1, weights.trials * weights.neurons.shape[1] * wide)
    size = len(samples) if weights.routers.device.type != "cpu" else max(16, _AT_ONCE // each)
    sums, scratch, parts = weights.sums, Scratch(), []
    for begin in range(0, len(samples), size):
        portion = samples.only(begin, min(begin + size, len(samples)))
        room = scratch("counts", samples.labels, weights.trials * task.patterns * min(size, len(samples)))
        routed = route(weights, portion.counts(room), model, scratch=scratch)
        plus, minus = (routed.gate_of(pattern) for pattern in task.specific)
        parts.append((weights.signs[:, None] * routed.outputs(sums), plus, minus))
    votes, plus, minus = (torch.cat(part, dim=2) for part in zip(*parts, strict=True))
    return Evaluation(votes, plus, minus, samples.labels)


def measure(
    weights: Weights, before: Float[Tensor, "T k d"], seen: Evaluation, model: TokenMoE, task: TokenTask
) -> dict[str, Tensor]:
    """All measures of weights but the training loss.

    Args:
      before: the routers of the same experts at the start.
      seen: `look` at the test samples.
    """
    routers, half = weights.own_routers, int((weights.signs > 0).sum())
    norm = torch.linalg.vector_norm(routers, dim=2)

    def halves(plus: Tensor, minus: Tensor) -> Tensor:
        """The first experts' values of o_1 and the last ones' of o_2."""
        return torch.cat((plus[:, :half], minus[:, half:]), dim=1)

    one, two = ((seen.labels == sign)[:, None] for sign in (1, -1))  # the samples that hold o_1, o_2
    least = 1 / model.top - 1e-9

    def share(gates: Tensor, where: Tensor) -> Tensor:
        return ((gates >= least) & where).sum(2).to(norm.dtype) / where.sum(2)

    components = halves(*(weights.neurons[:, :, pattern] for pattern in task.specific))
    return {
        "test_accuracy": seen.accuracy(),
        "test_loss": (1 - seen.labels * seen.output).clamp(min=0).mean(1),
        "router_norm": norm,
        "norm_change": norm - torch.linalg.vector_norm(before, dim=2),
        "difference_norm": torch.linalg.vector_norm(routers - before, dim=2),
        "proficiency": halves(share(seen.plus, one), share(seen.minus, two)),
        "cross_proficiency": halves(share(seen.minus, two), share(seen.plus, one)),
        "gate": halves(seen.plus.sum(2) / one.sum(2), seen.minus.sum(2) / two.sum(2)),
        "least_gate": halves(
            seen.plus.masked_fill(~one, torch.inf).amin(2), seen.minus.masked_fill(~two, torch.inf).amin(2)
        ),
        "large_neurons": (components > 1).to(norm.dtype).mean(2),
        "own_sum": components.clamp(min=0).sum(2),
    }
