"""chen2022, section 3 and algorithm 1, as printed: whole patches, every expert on every sample, one loss, autograd.

Slow on purpose. One trial at a time, no dispatch, no sorting, no signal basis, and no code shared with moe_lab, so that
agreement between the two means something.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

ACTIVATIONS = {
    "cubic": lambda z: z**3,
    "linear": lambda z: z,
    "relu": torch.relu,
    "celu": functional.celu,
    "gelu": functional.gelu,
    "tanh": torch.tanh,
}
NEITHER_ODD = ("relu", "celu", "gelu")


@dataclass
class Mixture:
    """Experts and their router.

    Attributes:
      filters: w_mj, (M, J, d).
      biases: b_mj, (M, J); only the authors' experts have them.
      router: theta_m, (M, d).
    """

    filters: Tensor
    biases: Tensor | None
    router: Tensor


@dataclass
class Rules:
    """How a mixture is trained: the paper's symbols. `objective` is "paper" or "authors"."""

    activation: str
    objective: str
    eta: float
    eta_r: float
    balancing: float = 0.0


def filter_sums(patches: Tensor, filters: Tensor, biases: Tensor | None, activation: str) -> Tensor:
    """sum_p sigma(<w_mj, x^(p)> + b_mj), (N, M, J), of patches (N, P, d)."""
    inner = torch.einsum("npd,mjd->nmjp", patches, filters)
    if biases is not None:
        inner = inner + biases[None, :, :, None]
    return ACTIVATIONS[activation](inner).sum(-1)


def halves(sums: Tensor) -> tuple[Tensor, Tensor]:
    """What the first half of the filters give together, and the second half."""
    first, second = sums.chunk(2, dim=-1)
    return first.sum(-1), second.sum(-1)


def outputs(patches: Tensor, mixture: Mixture, rules: Rules) -> Tensor:
    """f_m(x) of eq. 3.1, (N, M). Where sigma is not odd, or for the authors' two logits, half minus half."""
    sums = filter_sums(patches, mixture.filters, mixture.biases, rules.activation)
    if rules.objective == "paper" and rules.activation not in NEITHER_ODD:
        return sums.sum(-1)
    positive, negative = halves(sums)
    return positive - negative


def scores(patches: Tensor, router: Tensor) -> Tensor:
    """h(x) = sum_p Theta^T x^(p), (N, M)."""
    return torch.einsum("npd,md->npm", patches, router).sum(1)


def winners(noisy: Tensor) -> list[int]:
    """argmax_m of every sample, the lowest number among equals."""
    return [values.index(max(values)) for values in noisy.tolist()]


def loss(patches: Tensor, labels: Tensor, noise: Tensor, mixture: Mixture, rules: Rules) -> tuple[Tensor, Tensor]:
    """The perturbed empirical loss (eq. 3.3) for noise (N, M), and y F(x) of every sample.

    The authors' code multiplies two logits by the winner's raw h + r, takes their softmax, and hands that to a
    cross-entropy as if it were logits. Load balancing is M lambda sum_m f_m P_m: the share of samples that expert m
    receives times its mean gate (in the authors' code, its mean h + r).
    """
    count, experts = noise.shape
    h = scores(patches, mixture.router)
    sent = winners(h + noise)
    one = torch.arange(count)
    if rules.objective == "paper":
        answers = h.softmax(-1)[one, sent] * outputs(patches, mixture, rules)[one, sent]
        value = torch.log1p(torch.exp(-labels * answers)).mean()
    else:
        positive, negative = halves(filter_sums(patches, mixture.filters, mixture.biases, rules.activation))
        gate = (h + noise)[one, sent]
        logits = torch.stack((gate * negative[one, sent], gate * positive[one, sent]), dim=-1)
        answers = logits[:, 1] - logits[:, 0]
        value = functional.cross_entropy(logits.softmax(-1), (labels > 0).long())
    received = torch.bincount(torch.tensor(sent), minlength=experts).to(h.dtype) / count
    mean_gate = (h.softmax(-1) if rules.objective == "paper" else h + noise).mean(0)
    value = value + rules.balancing * experts * (received * mean_gate).sum()
    return value, (labels * answers).detach()


def gradients(
    patches: Tensor, labels: Tensor, noise: Tensor, mixture: Mixture, rules: Rules
) -> tuple[Mixture, float, Tensor]:
    """The gradient of the loss in filters, biases and router, the loss, and the margins y F(x)."""
    trained = [mixture.filters, mixture.router] + ([] if mixture.biases is None else [mixture.biases])
    leaves = [tensor.detach().clone().requires_grad_() for tensor in trained]
    live = Mixture(leaves[0], None if mixture.biases is None else leaves[2], leaves[1])
    value, margins = loss(patches, labels, noise, live, rules)
    slopes = torch.autograd.grad(value, leaves)
    return Mixture(slopes[0], None if mixture.biases is None else slopes[2], slopes[1]), value.item(), margins


def step(
    patches: Tensor, labels: Tensor, noise: Tensor, mixture: Mixture, rules: Rules
) -> tuple[Mixture, float, Tensor]:
    """One step of algorithm 1 (eq. 3.4 and 3.5): the mixture after it, the loss before it, and the margins y F(x).

    An expert without samples has no gradient to divide by its length, and stays.
    """
    slopes, value, margins = gradients(patches, labels, noise, mixture, rules)
    biases = None
    if mixture.biases is not None and slopes.biases is not None:
        biases = _unit_step(mixture.biases, slopes.biases, rules.eta)
    filters = _unit_step(mixture.filters, slopes.filters, rules.eta)
    return Mixture(filters, biases, mixture.router - rules.eta_r * slopes.router), value, margins


def _unit_step(before: Tensor, slope: Tensor, eta: float) -> Tensor:
    """Each expert moves by eta, whatever the length of its gradient."""
    after = before.clone()
    for m, one in enumerate(slope):
        length = math.sqrt((one.double() ** 2).sum())
        if length > 0:
            after[m] -= eta * one / length
    return after


def single_steps(
    patches: Tensor,
    labels: Tensor,
    filters: Tensor,
    biases: Tensor | None,
    *,
    activation: str,
    rate: float,
    decay: float,
    steps: int,
) -> tuple[Tensor, Tensor | None, list[float]]:
    """A single CNN of two logits by torch's Adam (appendix A.2), on all samples at once: weights after, losses before.

    Args:
      filters: (J, d); the first half belongs to the logit of y = +1.
      biases: (J,) or None.
    """
    leaves = [filters.clone().requires_grad_()] + ([] if biases is None else [biases.clone().requires_grad_()])
    adam = torch.optim.Adam(leaves, lr=rate, weight_decay=decay)
    losses = []
    for _ in range(steps):
        adam.zero_grad()
        sums = filter_sums(patches, leaves[0][None], None if biases is None else leaves[1][None], activation)
        positive, negative = halves(sums[:, 0])
        value = functional.cross_entropy(torch.stack((negative, positive), dim=-1), (labels > 0).long())
        value.backward()
        adam.step()
        losses.append(value.item())
    return leaves[0].detach(), None if biases is None else leaves[1].detach(), losses


def simulated_probabilities(scores: np.ndarray, noise: Any, *, samples: int, seed: int = 0) -> np.ndarray:
    """Appendix C's P(argmax(h + r) = m) by simulation; the standard error is at most .5 / sqrt(samples)."""
    r = noise.sample(np.random.default_rng(seed), (samples, len(scores)))
    return np.bincount((scores + r).argmax(axis=1), minlength=len(scores)) / samples
