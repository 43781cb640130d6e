"""pmoe2023, eq. 1-6 and appendix M, as printed: one sample and one expert at a time, gradients by autograd.

Slow on purpose. It gathers the kept patches, knows nothing of trials, masks or padding, and shares no code with
moe_lab, so that agreement between the two means something.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Expert:
    """One expert and its router.

    Attributes:
      router: w_s, (d,); None where every patch is kept.
      hidden: w_{r,s}, (m/k, d).
      outputs: a_{r,s}, (m/k, c), with c = 1 for two classes.
      kept: l.
    """

    router: Tensor | None
    hidden: Tensor
    outputs: Tensor
    kept: int


def top(values: Tensor, count: int) -> list[int]:
    """J_s: the places of the `count` largest values, the lowest place first among equals."""
    listed = values.tolist()
    return sorted(range(len(listed)), key=lambda place: (-listed[place], place))[:count]


def output(sample: Tensor, experts: list[Expert], *, gated: bool) -> Tensor:
    """f(x) of eq. 1 for one sample (n, d); gates of eq. 4 (with the exponential it lacks) or all 1 (eq. 3)."""
    answer = torch.zeros(experts[0].outputs.shape[1], dtype=sample.dtype)
    for expert in experts:
        if expert.router is None:
            places, gates = list(range(expert.kept)), torch.ones(expert.kept, dtype=sample.dtype)
        else:
            values = sample @ expert.router
            places = top(values, expert.kept)
            raised = torch.exp(values[places])
            gates = raised / raised.sum() if gated else torch.ones_like(raised)
        for place, gate in zip(places, gates, strict=True):
            hidden = torch.relu(expert.hidden @ sample[place])
            answer = answer + (expert.outputs / expert.kept * hidden[:, None]).sum(0) * gate
    return answer


def loss(answer: Tensor, label: int) -> Tensor:
    """Eq. 2 for one output (y = +1 for class 0), eq. 24 for one output a class."""
    if len(answer) == 1:
        sign = 1 if label == 0 else -1
        return torch.log1p(torch.exp(-sign * answer[0]))
    return torch.log(torch.exp(answer - answer[label]).sum())


def step(
    samples: Tensor, labels: list[int], experts: list[Expert], *, learning_rate: float, gated: bool
) -> tuple[list[Expert], list[float], list[bool]]:
    """One SGD step on the mean loss of a batch (B, n, d).

    Returns:
      The experts after it, and the loss before it and whether the answer was right, sample by sample.
    """
    trained = [tensor for expert in experts for tensor in (expert.hidden, expert.router) if tensor is not None]
    for tensor in trained:
        tensor.requires_grad_(True)
    answers = [output(sample, experts, gated=gated) for sample in samples]
    losses = [loss(answer, label) for answer, label in zip(answers, labels, strict=True)]
    gradients = torch.autograd.grad(torch.stack(losses).mean(), trained, allow_unused=True)
    moved = {
        id(tensor): tensor.detach() - learning_rate * (0 if gradient is None else gradient)
        for tensor, gradient in zip(trained, gradients, strict=True)
    }
    after = [
        Expert(
            None if expert.router is None else moved[id(expert.router)],
            moved[id(expert.hidden)],
            expert.outputs,
            expert.kept,
        )
        for expert in experts
    ]
    return after, [one.item() for one in losses], [is_right(a, b) for a, b in zip(answers, labels, strict=True)]


def is_right(answer: Tensor, label: int) -> bool:
    """y f > 0 for two classes, the largest output for more."""
    if len(answer) == 1:
        return bool(answer[0] > 0 if label == 0 else answer[0] < 0)
    return int(answer.argmax()) == label


def router_loss(first: Tensor, second: Tensor, samples: Tensor, signs: list[int]) -> Tensor:
    """Eq. 6: -mean_i y_i <w_1 - w_2, sum_j x_i^(j)>."""
    terms = [sign * torch.dot(first - second, sample.sum(0)) for sample, sign in zip(samples, signs, strict=True)]
    return -torch.stack(terms).mean()


def train_routers(
    routers: Tensor,
    patch_sums: Tensor,
    labels: Tensor,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    order: Tensor | None = None,
) -> Tensor:
    """Algorithm 1, step 2, as written: mini-batch SGD on eq. 6, for two classes.

    Args:
      routers: (T, 2, d).
      patch_sums: (T, N, d), with N a multiple of the batch size; labels: (T, N).
      order: (epochs, N) of the samples; as they are if None.
    """
    signed = (1 - 2 * labels)[..., None] * patch_sums
    for epoch in range(epochs):
        shuffled = signed if order is None else signed[:, order[epoch]]
        for batch in shuffled.split(batch_size, dim=1):
            gradient = -batch.mean(dim=1)
            routers = routers - learning_rate * torch.stack((gradient, -gradient), dim=1)
    return routers
