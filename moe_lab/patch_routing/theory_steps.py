"""The lemmas behind theorems 4.2, 4.3 and 4.5, observed step by step in a training (pmoe2023, appendices E, G, H, I).

The lemmas are about neurons that hardly move: many of them, small steps, and few steps. They hide constants, which are
1 here, so that only their factors can be tested: shares and decreases against the sizes that they contain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from moe_lab.config import require
from moe_lab.patch_routing import model as models
from moe_lab.patch_routing.data import PatternTask, Samples
from moe_lab.patch_routing.theory import Kind
from moe_lab.routing import sorted_patches
from moe_lab.trials import stream


@dataclass(frozen=True)
class Steps:
    """What happened in each of T steps; the first entry is before any step.

    Attributes:
      loss: expected loss, over samples that no step uses.
      accuracy: share of these samples with the right label.
      value: (T + 1, 2) v_1 and v_2, the mean of 1 / (1 + exp(y f)) in each class (definition F.1).
      moved: tau, the largest |w_r(t) - w_r(0)| of a neuron.
      changed: share of the neurons of an expert, in the worst sample and expert, whose pseudo-gradient is not the
        gradient or with |<w_r(t), x^(j)>| < tau for some patch (lemmas G.1, H.1 and I.1).
      allowed: what the lemma allows, 2 e tau l / sigma (n in place of l for the CNN and for joint training).
      large: share of the neurons, in the expert with the fewest, whose expected pseudo-gradient, less a_r / 2, is at
        least v_s / (l p sqrt(delta)) (lemmas G.3, H.3 and I.3).
      required: what these lemmas require, 1 / (p sqrt(delta)).
    """

    loss: Float[np.ndarray, " steps"]
    accuracy: Float[np.ndarray, " steps"]
    value: Float[np.ndarray, "steps classes"]
    moved: Float[np.ndarray, " steps"]
    changed: Float[np.ndarray, " steps"]
    allowed: Float[np.ndarray, " steps"]
    large: Float[np.ndarray, " steps"]
    required: float


def small_steps(
    kind: Kind,
    task: PatternTask,
    *,
    neurons: int = 400,
    experts: int = 4,
    patches_per_expert: int = 6,
    learning_rate: float = 0.002,
    steps: int = 40,
    samples: int = 400,
    batch_size: int = 100,
    trial: int = 0,
    seed: int = 0,
) -> Steps:
    """Trains hidden weights by mini-batches of fresh samples in float64, and observes every step.

    Args:
      kind: "separate" (two experts behind routers that `samples` samples have trained), "joint" or "cnn".
      neurons: m, of all experts together.
      learning_rate: eta of eq. 8's update, per neuron.
      samples: over which expectations are taken.
      batch_size: B.
    """
    require(task.classes == 2, "the lemmas are about two classes (c)", c=task.classes)
    k = {"separate": 2, "joint": experts, "cnn": 1}[kind]
    kept = task.patches if kind == "cnn" else patches_per_expert
    models.check_model(models.JointMoE(neurons=neurons, experts=k, patches_per_expert=kept), task.patches, 2)
    drawn = task.sample(samples, trials=[trial], seed=seed, split="test", dtype=torch.float64)
    train = task.sample(steps * batch_size, trials=[trial], seed=seed, dtype=torch.float64)
    routers = torch.as_tensor(models.initial_routers(trial, seed, k, task.patches, task.dimension))
    if kind == "separate":
        routers = _trained(routers, train, samples)
    hidden = torch.as_tensor(models.initial_experts(trial, seed, neurons, task.dimension))
    observed = _Observed(kind, task, drawn, hidden, k, kept)
    weights = torch.cat((hidden, routers))[None]
    a = torch.as_tensor(models.initial_outputs(trial, seed, neurons, 1))
    patches, order = train.patches()[0], stream(seed, trial, "steps").permutation(steps * batch_size)
    rows = [observed.row(weights[0], a)]
    for batch in order.reshape(steps, batch_size):
        weights = _step(kind, weights, patches[batch], train.labels[0, batch], a, k, kept, learning_rate)
        rows.append(observed.row(weights[0], a))
    names = ("loss", "accuracy", "value", "moved", "changed", "allowed", "large")
    return Steps(**{name: np.array([row[name] for row in rows]) for name in names}, required=observed.required)


def _trained(routers: Tensor, train: Samples, samples: int) -> Tensor:
    """Routers after 100 epochs at batches of 20 and the step size 1/n (algorithm 1, step 2, in closed form)."""
    sums, labels = train.patches().sum(2)[:, :samples], train.labels[:, :samples]
    direction = models.router_direction(sums, labels, torch.ones_like(sums[..., 0]), 2)
    count, rate = torch.tensor([samples]), 1 / train.index.shape[2]
    return models.train_routers(routers[None], direction, epochs=100, samples=count, batch_size=20, learning_rate=rate)[
        0
    ]


def _gates(kind: Kind, scores: Float[Tensor, "b n k"], kept: int) -> Float[Tensor, "b k n"]:
    """G_{j,s} on the kept patches, 0 elsewhere: the softmax of joint training, else 1."""
    chosen = sorted_patches(scores.mT)[..., :kept]
    values = scores.mT.gather(-1, chosen)
    gates = values.softmax(-1) if kind == "joint" else torch.ones_like(values)
    return torch.zeros_like(scores.mT).scatter(-1, chosen, gates)


def _outputs(weights: Tensor, patches: Float[Tensor, "b n d"], a: Tensor, gates: Tensor, kept: int) -> Tensor:
    """f of eq. 1, with the neurons of expert s in the s-th part of the rows."""
    experts = gates.shape[1]
    active = (patches @ weights[: len(a)].T).clamp_min(0).unflatten(-1, (experts, -1))  # (b, n, k, m/k)
    return torch.einsum("bnkr,bkn,kr->b", active, gates, a.view(experts, -1)) / kept


def _step(
    kind: Kind, weights: Tensor, patches: Tensor, labels: Tensor, a: Tensor, k: int, kept: int, rate: float
) -> Tensor:
    """One step on a batch by autograd; routers move in joint training only."""
    moving = weights[0].clone().requires_grad_(True)
    gates = _gates(kind, patches @ moving[len(a) :].T, kept)
    outputs = _outputs(moving, patches, a, gates, kept)
    loss = torch.nn.functional.softplus((2 * labels - 1) * outputs).mean()
    (slope,) = torch.autograd.grad(loss, moving)
    if kind != "joint":
        slope[len(a) :] = 0
    return (moving - rate * slope).detach()[None]


class _Observed:
    """Samples over which expectations are taken, and the signs of all neurons on them at the start."""

    def __init__(self, kind: Kind, task: PatternTask, drawn: Samples, hidden: Tensor, experts: int, kept: int) -> None:
        self.kind, self.kept, self.experts = kind, kept, experts
        self.patches, self.labels = drawn.patches()[0], drawn.labels[0]
        self.hidden, self.sigma = hidden, hidden.shape[0] ** -0.5
        self.first = self.patches @ hidden.T >= 0  # (b, n, m)
        self.summed = kept if kind == "separate" else task.patches
        self.pooled, self.scale = kept, task.pattern_sets * task.delta**0.5
        self.required = 1 / self.scale

    def row(self, weights: Tensor, a: Tensor) -> dict[str, object]:
        """All attributes of `Steps` at these weights, the hidden ones and then the routers."""
        hidden = weights[: len(a)]
        gates = _gates(self.kind, self.patches @ weights[len(a) :].T, self.kept)
        y = 1 - 2 * self.labels
        margin = y * _outputs(weights, self.patches, a, gates, self.kept)
        value = torch.sigmoid(-margin)
        moved = float((hidden - self.hidden).norm(dim=1).max())
        return {
            "loss": float(torch.nn.functional.softplus(-margin).mean()),
            "accuracy": float((margin > 0).double().mean()),
            "value": [float(value[self.labels == label].mean()) for label in (0, 1)],
            "moved": moved,
            "changed": self._changed(hidden, gates > 0, moved),
            "allowed": 2 * math.e * moved * self.summed / self.sigma,
            "large": self._large(gates, value, y),
        }

    def _changed(self, hidden: Tensor, kept: Bool[Tensor, "b k n"], moved: float) -> float:
        products = self.patches @ hidden.T
        bad = ((products >= 0) != self.first) | (products.abs() < moved)
        bad = bad.unflatten(-1, (self.experts, -1))  # (b, n, k, m/k)
        counted = kept.mT if self.kind == "separate" else torch.ones_like(kept.mT)
        return float((bad & counted[..., None]).any(1).double().mean(-1).max())

    def _large(self, gates: Tensor, value: Float[Tensor, " b"], y: Int[Tensor, " b"]) -> float:
        """Of eq. 14's expectation, P_r: the mean over y = +1 less that over y = -1, with the signs of the start."""
        by_patch = torch.einsum("b,bkn->bkn", value * y / self.labels.bincount()[self.labels], gates) / self.pooled
        first = self.first.unflatten(-1, (self.experts, -1)).double()
        gradients = torch.einsum("bkn,bnkr,bnd->krd", by_patch, first, self.patches)
        values = torch.stack([value[self.labels == label].mean() for label in (0, 1)])
        if self.kind == "separate":
            least = values
        else:  # definition F.4: the value of o's samples, by o's gate where it is kept; the CNN keeps every patch
            least = values.max().expand(self.experts) * (1.0 if self.kind == "cnn" else 1 / self.pooled)
        enough = gradients.norm(dim=-1) >= least[:, None] / (self.pooled * self.scale)
        return float(enough.double().mean(-1).min())
