"""The lemmas behind theorems 4.2, 4.3 and 4.5, observed step by step in a training (pmoe2023, appendices E, G, H, I).

The lemmas are about neurons that hardly move: many of them, small steps, and few steps. They hide constants, which are
1 here, so that only their factors can be tested: shares and decreases against the sizes that they contain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.core.routing import sorted_patches
from moe_lab.core.trials import stream
from moe_lab.patch_routing import initialization
from moe_lab.patch_routing.data import PatchSamples, PatternTask
from moe_lab.patch_routing.fixed import router_direction, train_routers
from moe_lab.patch_routing.model import JointMoE, check_model
from moe_lab.patch_routing.theory import Kind


@dataclass(frozen=True)
class Steps:
    """What happened in each of T steps; the first entry of T + 1 is before any step.

    Attributes:
      loss: expected loss, over samples that no step uses.
      hidden_loss: (T,) the expected loss after each step if only the hidden weights had taken it, and routers had not.
      predicted: (T,) by how much each step lowers the expected loss to first order in the hidden weights, eta times the
        sum over r of <batch gradient, expected gradient>, from which the proofs of lemmas G.4, H.4 and I.4 begin.
      accuracy: share of these samples with the right label.
      value: (T + 1, 2) v_1 and v_2, the mean of 1 / (1 + exp(y f)) in each class (definition F.1).
      error: v of lemmas G.4, H.4 and I.4: the norm of v_1 and v_2, or of the experts' larger v_{1,s} and v_{2,s}
        (definition F.4) in joint training; the larger of v_1 and v_2 for the CNN.
      moved: tau, the largest |w_r(t) - w_r(0)| of a neuron.
      changed: share of the neurons of an expert, in the worst sample and expert, whose pseudo-gradient is not the
        gradient or with |<w_r(t), x^(j)>| < tau for some patch (lemmas G.1, H.1 and I.1).
      allowed: what the lemma allows, 2 e tau l / sigma (n in place of l for the CNN and for joint training).
      large: share of the neurons, in the expert with the fewest, whose expected pseudo-gradient, less a_r / 2, is at
        least v_s / (l p sqrt(delta)) (lemmas G.3, H.3 and I.3).
      along: <P_r, o_1> of the neurons with <w_r(0), o_1> >= 0, less that of the others, over v_{1,s} / l, and likewise
        -<P_r, o_2>, both classes and all experts together. The proofs of lemmas G.2, H.2 and I.2 have 1: as <w_r(0), o>
        changes its sign, only o's own term v_s / l changes.
      required: what these lemmas require, 1 / (p sqrt(delta)).
    """

    loss: Float[np.ndarray, " steps"]
    hidden_loss: Float[np.ndarray, " taken"]
    predicted: Float[np.ndarray, " taken"]
    accuracy: Float[np.ndarray, " steps"]
    value: Float[np.ndarray, "steps classes"]
    error: Float[np.ndarray, " steps"]
    moved: Float[np.ndarray, " steps"]
    changed: Float[np.ndarray, " steps"]
    allowed: Float[np.ndarray, " steps"]
    large: Float[np.ndarray, " steps"]
    along: Float[np.ndarray, " steps"]
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
    per_expert = task.patches if kind == "cnn" else patches_per_expert
    check_model(JointMoE(neurons=neurons, experts=k, patches_per_expert=per_expert), task.patches, 2)
    drawn = task.sample(samples, trials=[trial], seed=seed, split="test", dtype=torch.float64)
    train = task.sample(steps * batch_size, trials=[trial], seed=seed, dtype=torch.float64)
    routers = initialization.initial_routers([trial], seed, k, task.patches, task.dimension)[0]
    if kind == "separate":
        routers = _trained(routers, train, samples)
    hidden = initialization.initial_experts([trial], seed, neurons, task.dimension)[0]
    observed = _Observed(kind, task, drawn, hidden, k, per_expert)
    weights = torch.cat((hidden, routers))[None]
    a = initialization.initial_outputs([trial], seed, neurons, 1)[0]
    patches, order = train.patches()[0], stream(seed, trial, "steps").permutation(steps * batch_size)
    rows, hidden_loss, predicted = [observed.row(weights[0], a)], [], []
    for batch in order.reshape(steps, batch_size):
        before = weights[0]
        weights = _step(kind, weights, patches[batch], train.labels[0, batch], a, k, per_expert, learning_rate)
        taken = before[:neurons] - weights[0, :neurons]
        predicted.append(float((taken * observed.gradient(before, a)).sum()))
        hidden_loss.append(observed.loss(torch.cat((weights[0, :neurons], before[neurons:])), a))
        rows.append(observed.row(weights[0], a))
    names = ("loss", "accuracy", "value", "error", "moved", "changed", "allowed", "large", "along")
    return Steps(
        **{name: np.array([row[name] for row in rows]) for name in names},
        hidden_loss=np.array(hidden_loss),
        predicted=np.array(predicted),
        required=observed.required,
    )


def _trained(routers: Tensor, train: PatchSamples, samples: int) -> Tensor:
    """Routers after 100 epochs at batches of 20 and the step size 1/n (algorithm 1, step 2, in closed form)."""
    sums, labels = train.patches().sum(2)[:, :samples], train.labels[:, :samples]
    direction = router_direction(sums, labels, 2)
    settings = {"epochs": 100, "samples": samples, "batch_size": 20}
    return train_routers(routers[None], direction, **settings, learning_rate=1 / train.index.shape[2])[0]


def _gates(kind: Kind, scores: Float[Tensor, "b n k"], per_expert: int) -> Float[Tensor, "b k n"]:
    """G_{j,s} on the kept patches, 0 elsewhere: the softmax of joint training, else 1."""
    chosen = sorted_patches(scores.mT)[..., :per_expert]
    values = scores.mT.gather(-1, chosen)
    gates = values.softmax(-1) if kind == "joint" else torch.ones_like(values)
    return torch.zeros_like(scores.mT).scatter(-1, chosen, gates)


def _outputs(weights: Tensor, patches: Float[Tensor, "b n d"], a: Tensor, gates: Tensor, per_expert: int) -> Tensor:
    """f of eq. 1, with the neurons of expert s in the s-th part of the rows."""
    experts = gates.shape[1]
    active = (patches @ weights[: len(a)].T).clamp_min(0).unflatten(-1, (experts, -1))  # (b, n, k, m/k)
    return torch.einsum("bnkr,bkn,kr->b", active, gates, a.view(experts, -1)) / per_expert


def _step(
    kind: Kind, weights: Tensor, patches: Tensor, labels: Tensor, a: Tensor, k: int, per_expert: int, rate: float
) -> Tensor:
    """One step on a batch by autograd; routers move in joint training only."""
    moving = weights[0].clone().requires_grad_(True)
    gates = _gates(kind, patches @ moving[len(a) :].T, per_expert)
    outputs = _outputs(moving, patches, a, gates, per_expert)
    loss = torch.nn.functional.softplus((2 * labels - 1) * outputs).mean()
    (slope,) = torch.autograd.grad(loss, moving)
    if kind != "joint":
        slope[len(a) :] = 0
    return (moving - rate * slope).detach()[None]


class _Observed:
    """Samples over which expectations are taken, and the signs of all neurons on them at the start."""

    def __init__(
        self, kind: Kind, task: PatternTask, drawn: PatchSamples, hidden: Tensor, experts: int, per_expert: int
    ) -> None:
        self.kind, self.per_expert, self.experts = kind, per_expert, experts
        self.patches, self.labels = drawn.patches()[0], drawn.labels[0]
        self.y, self.signal = 1 - 2 * self.labels, drawn.signal[0]
        self.hidden, self.sigma = hidden, hidden.shape[0] ** -0.5
        self.first = self.patches @ hidden.T >= 0  # (b, n, m)
        patterns = task.class_patterns().to(hidden.dtype)
        self.towards = patterns * torch.tensor([[1.0], [-1.0]], dtype=hidden.dtype)  # o_1 and -o_2, as y in P_r
        self.active = (hidden @ patterns.T >= 0).unflatten(0, (experts, -1))  # (k, m/k, 2)
        self.summed = per_expert if kind == "separate" else task.patches
        self.pooled, self.scale = per_expert, task.pattern_sets * task.delta**0.5
        self.required = 1 / self.scale

    def row(self, weights: Tensor, a: Tensor) -> dict[str, object]:
        """The attributes of `Steps` with T + 1 entries at these weights, the hidden ones and then the routers."""
        hidden = weights[: len(a)]
        gates, margin = self._margin(weights, a)
        value = torch.sigmoid(-margin)
        values = torch.stack([value[self.labels == label].mean() for label in (0, 1)])
        pseudo, of_signals = self._pseudo(gates, value, self.first), self._of_signals(gates, value)
        moved = float((hidden - self.hidden).norm(dim=1).max())
        return {
            "loss": float(torch.nn.functional.softplus(-margin).mean()),
            "accuracy": float((margin > 0).double().mean()),
            "value": values.tolist(),
            "error": self._error(values, of_signals),
            "moved": moved,
            "changed": self._changed(hidden, gates > 0, moved),
            "allowed": 2 * math.e * moved * self.summed / self.sigma,
            "large": self._large(pseudo, values),
            "along": self._along(pseudo, of_signals),
        }

    def loss(self, weights: Tensor, a: Tensor) -> float:
        """The expected loss."""
        return float(torch.nn.functional.softplus(-self._margin(weights, a)[1]).mean())

    def gradient(self, weights: Tensor, a: Tensor) -> Float[Tensor, "m d"]:
        """The expected gradient of the loss for the hidden weights, -a_r / 2 times P_r with the signs of now."""
        gates, margin = self._margin(weights, a)
        now = self.patches @ weights[: len(a)].T >= 0
        return -a / 2 * self._pseudo(gates, torch.sigmoid(-margin), now).flatten(0, 1)

    def _margin(self, weights: Tensor, a: Tensor) -> tuple[Float[Tensor, "b k n"], Float[Tensor, " b"]]:
        """The gates, and y f."""
        gates = _gates(self.kind, self.patches @ weights[len(a) :].T, self.per_expert)
        return gates, self.y * _outputs(weights, self.patches, a, gates, self.per_expert)

    def _pseudo(
        self, gates: Tensor, value: Float[Tensor, " b"], signs: Bool[Tensor, "b n m"]
    ) -> Float[Tensor, "k r d"]:
        """P_r of eq. 14's expectation: the mean over y = +1 less that over y = -1, with these signs."""
        share = value * self.y / self.labels.bincount()[self.labels] / self.pooled
        by_patch = gates * share[:, None, None]
        return torch.einsum(
            "bkn,bnkr,bnd->krd", by_patch, signs.unflatten(-1, (self.experts, -1)).double(), self.patches
        )

    def _of_signals(self, gates: Tensor, value: Float[Tensor, " b"]) -> Float[Tensor, "k classes"]:
        """v_{1,s} and v_{2,s}, the values of o's samples by o's gate where it is kept (definition F.4)."""
        own = gates.gather(-1, self.signal[:, None, None].expand(-1, self.experts, 1))[..., 0] * value[:, None]
        return torch.stack([own[self.labels == label].mean(0) for label in (0, 1)], dim=-1)

    def _error(self, values: Float[Tensor, " classes"], of_signals: Float[Tensor, "k classes"]) -> float:
        if self.kind == "cnn":
            return float(values.max())
        return float(values.norm() if self.kind == "separate" else of_signals.amax(-1).norm())

    def _changed(self, hidden: Tensor, kept: Bool[Tensor, "b k n"], moved: float) -> float:
        products = self.patches @ hidden.T
        bad = ((products >= 0) != self.first) | (products.abs() < moved)
        bad = bad.unflatten(-1, (self.experts, -1))  # (b, n, k, m/k)
        counted = kept.mT if self.kind == "separate" else torch.ones_like(kept.mT)
        return float((bad & counted[..., None]).any(1).double().mean(-1).max())

    def _large(self, pseudo: Float[Tensor, "k r d"], values: Float[Tensor, " classes"]) -> float:
        if self.kind == "separate":
            least = values
        else:  # definition F.4: the value of o's samples, by o's gate where it is kept; the CNN keeps every patch
            least = values.max().expand(self.experts) * (1.0 if self.kind == "cnn" else 1 / self.pooled)
        enough = pseudo.norm(dim=-1) >= least[:, None] / (self.pooled * self.scale)
        return float(enough.double().mean(-1).min())

    def _along(self, pseudo: Float[Tensor, "k r d"], of_signals: Float[Tensor, "k classes"]) -> float:
        """Experts whose neurons are all on one side of o tell nothing about it, and are left out; NaN without any."""
        parts, found, stated = pseudo @ self.towards.T, 0.0, 0.0
        for expert, label in np.ndindex(*of_signals.shape):
            active = self.active[expert, :, label]
            if active.any() and not active.all():
                part = parts[expert, :, label]
                found += float(part[active].mean() - part[~active].mean())
                stated += float(of_signals[expert, label]) / self.pooled
        return found / stated if stated else math.nan
