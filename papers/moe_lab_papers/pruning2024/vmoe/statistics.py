"""What a model does with images: its accuracy, and what its experts receive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.core.saliency import Statistics
from moe_lab.core.trials import stream
from moe_lab_papers.pruning2024.vmoe.digits import Labelled
from moe_lab_papers.pruning2024.vmoe.model import Output, VMoE
from moe_lab_papers.pruning2024.vmoe.routing import Assignment

_AT_ONCE = 500  # images, or the fewest that fill whole groups


def accuracy(model: VMoE, test: Labelled) -> float:
    """Returns the share of images that the model classifies correctly."""
    return _accuracy(model, outputs(model, test.images), test)


def _accuracy(model: VMoE, batches: Iterable[Output], test: Labelled) -> float:
    predicted = [predictions(model, output.logits) for output in batches]
    return float((torch.cat(predicted) == test.labels).float().mean())


def predictions(model: VMoE, logits: Float[Tensor, "rows classes"]) -> Tensor:
    """Returns the most probable classes; an ensemble averages its members' probabilities (Allingham et al.)."""
    probabilities: Tensor = logits.softmax(-1).view(-1, model.config.members, logits.shape[1]).mean(1)
    return probabilities.argmax(-1)


def outputs(model: VMoE, images: Float[Tensor, "N height width C"]) -> Iterator[Output]:
    """Runs a model on images in batches that fill whole groups.

    Raises:
      ValueError: the images do not fill whole groups.
    """
    with torch.inference_mode():
        for batch in in_batches(model, images):
            yield model.run(batch)


def in_batches(model: VMoE, images: Float[Tensor, "N height width C"]) -> tuple[Tensor, ...]:
    """Divides images into batches that fill whole groups.

    Raises:
      ValueError: the images do not fill whole groups.
    """
    per = model.config.images_per_batch
    rule = "the images must be a multiple of those that fill whole groups"
    require(len(images) % per == 0 and len(images) > 0, rule, images=len(images), multiple_of=per)
    return images.split(max(1, _AT_ONCE // per) * per)


def tested(model: VMoE, test: Labelled) -> tuple[float, dict[int, np.ndarray]]:
    """Returns the accuracy, and by block the share of all tokens that each expert receives; 0 for pruned experts."""
    batches = list(outputs(model, test.images))
    found = _statistics(model, batches, len(test.images), seed=0)
    shares = {block: _spread(model, block, statistics.received[0]) for block, statistics in found.items()}
    return _accuracy(model, batches, test), shares


def routing_statistics(model: VMoE, images: Float[Tensor, "N height width C"], seed: int = 0) -> dict[int, Statistics]:
    """Counts the tokens that each block's experts receive, for criteria that need it.

    Args:
      model: the fine-tuned model.
      images: that fill whole groups.
      seed: of the random criterion.

    Returns:
      By block the statistics of the experts that it has, (1, experts); shares are of all tokens, in E3 of all members.
    """
    return _statistics(model, outputs(model, images), len(images), seed)


def _statistics(model: VMoE, batches: Iterable[Output], images: int, seed: int) -> dict[int, Statistics]:
    totals: dict[int, Tensor] = {}
    for output in batches:
        for block, assigned in output.routed.items():
            totals[block] = totals.get(block, 0) + _counts(assigned, len(model.config.routes_in(block)))
    tokens = images * model.config.positions * model.config.members
    found = {}
    for block, counts in totals.items():
        received, first, gates = counts[:, None, own_columns(model, block)]
        chance = stream(seed, block, "criterion/random").random(model.config.num_experts)
        found[block] = Statistics(
            received=received / tokens,
            top1=first / tokens,
            confidence=gates / first.clamp(min=1),
            chance=torch.from_numpy(chance[list(model.config.kept_in(block))])[None],
        )
    return found


def own_columns(model: VMoE, block: int) -> list[int]:
    """Returns the columns of the router that belong to the experts of a block."""
    routes = model.config.routes_in(block)
    return [routes.index(expert) for expert in model.config.kept_in(block)]


def _counts(assigned: Assignment, experts: int) -> Float[Tensor, "3 E"]:
    """Tokens received, tokens with this first choice, and the sum of their gates, for each column of the router."""
    chosen, served, gates = (
        assigned.experts.cpu(),
        assigned.served.cpu(),
        assigned.gates[..., 0].flatten().cpu().double(),
    )
    first = chosen[..., 0].flatten()
    received = torch.bincount(chosen[served], minlength=experts)
    top1 = torch.bincount(first, minlength=experts)
    return torch.stack((received.double(), top1.double(), torch.bincount(first, gates, minlength=experts)))


def _spread(model: VMoE, block: int, values: Tensor) -> np.ndarray:
    every = np.zeros(model.config.num_experts)
    every[list(model.config.kept_in(block))] = values.numpy()
    return every


def received_gates(assigned: Assignment, experts: int) -> Float[Tensor, "tokens E"]:
    """Returns the gate with which each expert receives each token, 0 if it does not."""
    gates = (assigned.gates * assigned.served).flatten(0, 1)
    return gates.new_zeros(len(gates), experts).scatter_(1, assigned.experts.flatten(0, 1), gates)
