"""The three models of pmoe2023 and one exact SGD step for each, as pure functions of arrays.

    f(x) = sum_s sum_r (a_{r,s} / l) sum_{j in J_s} ReLU(<w_{r,s}, x^(j)>) G_{j,s}(x)                        (eq. 1)

Two steps serve them all. `joint_step` moves routers and experts together: it computes every patch for every neuron in
one matrix product (routers are k more rows of it) and masks afterwards, which beats gathering k copies of the kept
patches. `fixed_step` trains experts whose patches are known beforehand: those of the separately trained routers, or all
patches for the CNN. Every tensor leads with the trial axis; l, k and the step size may differ from trial to trial.

Shapes: T trials, k experts, m neurons in all, B samples of a batch, n patches of d numbers, l patches kept, c outputs
(one for two classes, else one a class).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import model_validator
from torch import Tensor

from moe_lab.config import Config, knob, require
from moe_lab.routing import expert_choice
from moe_lab.trials import stream


class _Model(Config):
    """What the three models share."""

    neurons: int = knob(40, symbol="m", meaning="neurons of all experts together", ge=1, le=65536, slider=(8, 160, 8))
    learning_rate: float | None = knob(
        None, symbol="eta", meaning="step size (none: the task's measured value)", gt=0, le=1e38
    )
    batch_size: int = knob(20, symbol="B", meaning="samples in a step", ge=1, le=65536, slider=(2, 100, 2))

    name: ClassVar[str]


class JointMoE(_Model):
    """Routers and experts trained together; gates are the softmax over the kept patches (pmoe2023, eq. 4)."""

    experts: int = knob(8, symbol="k", meaning="experts", ge=1, le=1024, slider=(1, 8, 1))
    patches_per_expert: int = knob(6, symbol="l", meaning="patches each expert keeps", ge=1, le=1024, slider=(1, 16, 1))

    name: ClassVar[str] = "joint"

    @model_validator(mode="after")
    def _neurons_divide(self) -> Self:
        _check_division(self.neurons, self.experts)
        return self


class SeparateMoE(_Model):
    """Routers trained first, in closed form, then frozen; gates are 1 (pmoe2023, eq. 3 and 6). One expert a class."""

    patches_per_expert: int = knob(6, symbol="l", meaning="patches each expert keeps", ge=1, le=1024, slider=(1, 16, 1))
    router_epochs: int = knob(100, symbol="E_r", meaning="passes over the data to train the routers", ge=1, le=10**6)

    name: ClassVar[str] = "separate"


class CNN(_Model):
    """The single expert that sees every patch with gate 1, the paper's reference (pmoe2023, eq. 5)."""

    name: ClassVar[str] = "cnn"


Model = JointMoE | SeparateMoE | CNN


def experts_of(model: Model, classes: int) -> int:
    """k: the number of experts of a model on a task with c classes."""
    return model.experts if isinstance(model, JointMoE) else classes if isinstance(model, SeparateMoE) else 1


def check_model(model: Model, patches: int, classes: int) -> None:
    """Raises a ValueError, with the rule and the values, where a model does not fit a task."""
    if not isinstance(model, CNN):
        rule = "patches_per_expert (l) must be at most patches (n)"
        require(model.patches_per_expert <= patches, rule, l=model.patches_per_expert, n=patches)
    if isinstance(model, SeparateMoE):
        _check_division(model.neurons, classes)
        rule = "classes (c) must be even to train routers in pairs (appendix M)"
        require(classes % 2 == 0, rule, c=classes)


def _check_division(neurons: int, experts: int) -> None:
    rule = "neurons (m) must be divisible by experts (k), so that experts are of one size"
    require(neurons % experts == 0, rule, m=neurons, k=experts)


# --- initial values -------------------------------------------------------------------------------------------------


def initial_experts(trial: int, seed: int, neurons: int, dimension: int) -> np.ndarray:
    """(m, d) hidden weights from N(0, 1/m) (eq. 8); the same for every k and every model of a trial."""
    return stream(seed, trial, "experts").standard_normal((neurons, dimension)) / np.sqrt(neurons)


def initial_routers(trial: int, seed: int, experts: int, patches: int, dimension: int) -> np.ndarray:
    """(k, d) routers from N(0, sigma_r^2) with sigma_r = 1 / (n^2 sqrt(d)) (eq. 7, whose log factor is left out)."""
    scale = 1 / (patches**2 * np.sqrt(dimension))
    return stream(seed, trial, "routers").standard_normal((experts, dimension)) * scale


def initial_outputs(trial: int, seed: int, neurons: int, outputs: int) -> np.ndarray:
    """(m, c) output weights a from N(0, 1), never trained."""
    return stream(seed, trial, "outputs").standard_normal((neurons, outputs))


def membership(neurons: int, experts: Sequence[int]) -> np.ndarray:
    """(T, m, max k) 1 where neuron r belongs to expert s. Trials with fewer experts have empty columns."""
    share = np.zeros((len(experts), neurons, max(experts)))
    for row, count in enumerate(experts):
        share[row, np.arange(neurons), np.arange(neurons) // (neurons // count)] = 1
    return share


# --- loss -----------------------------------------------------------------------------------------------------------


class Loss(NamedTuple):
    value: Float[Tensor, "T B"]
    slope: Float[Tensor, "T c B"]  # of the loss of one sample with respect to f
    right: Tensor  # (T, B) bool


def loss_of(outputs: Float[Tensor, "T c B"], labels: Int[Tensor, "T B"]) -> Loss:
    """Logistic loss log(1 + exp(-y f)) for one output (eq. 2), cross-entropy for one output a class (eq. 24)."""
    if outputs.shape[1] == 1:
        against = (2 * labels - 1).to(outputs.dtype)  # -y
        miss = against * outputs[:, 0]  # -y f
        return Loss(torch.nn.functional.softplus(miss), (against * miss.sigmoid())[:, None], miss < 0)
    chosen = labels[:, None]
    logs = outputs.log_softmax(dim=1)
    slope = logs.exp().scatter_add(1, chosen, -torch.ones_like(logs[:, :1]))
    return Loss(-logs.gather(1, chosen)[:, 0], slope, outputs.argmax(dim=1) == labels)


def _relu_slope(slope: Tensor, hidden: Tensor) -> Tensor:
    """The slope where the ReLU was active, else 0; what autograd uses, one pass and far cheaper than torch.where."""
    return torch.ops.aten.threshold_backward(slope, hidden, 0)


# --- joint training -------------------------------------------------------------------------------------------------


class JointRules(NamedTuple):
    """What stays fixed while a joint model trains. Padded experts have no neurons: their rows are zero."""

    outputs: Float[Tensor, "T c k m"]  # a_{r,s} / l at the neurons r of expert s, else 0
    patches_per_expert: Int[Tensor, " T"]
    learning_rate: Float[Tensor, "T 1 1"]


class JointPass(NamedTuple):
    hidden: Float[Tensor, "T m Bn"]  # ReLU(<w_r, x^(j)>)
    mask: Tensor  # (T, k, B, n) bool, J_s
    gates: Float[Tensor, "T k B n"]
    votes: Float[Tensor, "T c k B n"]  # V_{j,s}, what expert s makes of patch j
    answers: Float[Tensor, "T c k B"]  # what each expert adds to f
    outputs: Float[Tensor, "T c B"]  # f


def joint_rules(
    outputs: Float[Tensor, "T m c"],
    membership: Float[Tensor, "T m k"],
    patches_per_expert: Int[Tensor, " T"],
    learning_rate: Float[Tensor, "T 1 1"],
) -> JointRules:
    """The rules for output weights a / l and for neurons that belong to experts as `membership` says."""
    own = outputs.mT[:, :, None] * membership.mT[:, None]
    return JointRules(own, patches_per_expert, learning_rate)


def joint_forward(
    weights: Float[Tensor, "T m_and_k d"], patches: Float[Tensor, "T B n d"], rules: JointRules
) -> JointPass:
    """Eq. 1 with the gates of eq. 4, as f = sum_s sum_j G_{j,s} V_{j,s}. `weights`: m hidden rows, then k routers."""
    trials, batch, n, _ = patches.shape
    _, classes, experts, neurons = rules.outputs.shape
    products = weights @ patches.flatten(1, 2).mT
    hidden = products[:, :neurons].clamp_min(0)
    mask, gates = expert_choice(products[:, neurons:].view(trials, experts, batch, n), rules.patches_per_expert)
    votes = (rules.outputs.flatten(1, 2) @ hidden).view(trials, classes, experts, batch, n)
    answers = (gates[:, None] * votes).sum(-1)
    return JointPass(hidden, mask, gates, votes, answers, answers.sum(2))


def joint_step(
    weights: Float[Tensor, "T m_and_k d"],
    patches: Float[Tensor, "T B n d"],
    labels: Int[Tensor, "T B"],
    rules: JointRules,
) -> tuple[Float[Tensor, "T m_and_k d"], Loss]:
    """One SGD step on all weights, with the exact gradient; equal to autograd through eq. 1 (tested).

    With V_{j,s} = sum_{r in s} (a_{r,s} / l) ReLU(<w_{r,s}, x^(j)>), f has the slope (a_{r,s} / l) G_{j,s} along an
    active hidden value (eq. 21) and G_{j,s} (V_{j,s} - sum_i G_{i,s} V_{i,s}) along a routing value. The latter is
    eq. 26 with r summed over the m/k neurons of expert s (the paper prints m). Which patches are kept is piecewise
    constant and has no gradient.
    """
    now = joint_forward(weights, patches, rules)
    loss = loss_of(now.outputs, labels)
    scaled = loss.slope * rules.learning_rate
    gated = now.gates[:, None] * scaled[:, :, None, :, None]
    router_slope = (gated * (now.votes - now.answers[..., None])).sum(1)
    hidden_slope = _relu_slope(rules.outputs.flatten(1, 2).mT @ gated.flatten(1, 2).flatten(2), now.hidden)
    slope = torch.cat((hidden_slope, router_slope.flatten(2)), dim=1)
    return torch.baddbmm(weights, slope, patches.flatten(1, 2), alpha=-1 / patches.shape[1]), loss


# --- fixed gates: separately trained routers, or no router at all ----------------------------------------------------


class FixedRules(NamedTuple):
    """What stays fixed while experts train on patches that are known beforehand."""

    outputs: Float[Tensor, "T m c"]  # a / l, or a / n for the CNN
    kept: Float[Tensor, "T l"] | None  # 1 for patches that count, 0 for padding; None where every trial has the same l
    learning_rate: Float[Tensor, "T 1 1"]


def fixed_forward(
    weights: Float[Tensor, "T k m_k d"], patches: Float[Tensor, "T k l B d"], rules: FixedRules
) -> tuple[Float[Tensor, "Tk m_k l B"], Float[Tensor, "T c B"]]:
    """Eq. 1 with G = 1 on the patches of each expert: hidden values (zero at padding) and outputs f."""
    trials, experts, kept, batch, _ = patches.shape
    hidden = (weights.flatten(0, 1) @ patches.flatten(0, 1).flatten(1, 2).mT).clamp_min_(0)
    hidden = hidden.view(trials * experts, -1, kept, batch)
    if rules.kept is not None:
        hidden *= rules.kept.repeat_interleave(experts, 0)[:, None, :, None]
    pooled = hidden.sum(2).view(trials, -1, batch)
    return hidden, rules.outputs.mT @ pooled


def fixed_step(
    weights: Float[Tensor, "T k m_k d"],
    patches: Float[Tensor, "T k l B d"],
    labels: Int[Tensor, "T B"],
    rules: FixedRules,
) -> tuple[Float[Tensor, "T k m_k d"], Loss]:
    """One SGD step on the experts (eq. 21 with the patches of each expert), with the exact gradient.

    The batch is the last axis of every intermediate: sums over l and slopes spread over l then run along it, several
    times faster than along the few patches.
    """
    trials, experts, kept, batch, _ = patches.shape
    hidden, outputs = fixed_forward(weights, patches, rules)
    loss = loss_of(outputs, labels)
    pooled_slope = (rules.outputs @ loss.slope) * (-rules.learning_rate / batch)
    slope = _relu_slope(pooled_slope.view(trials * experts, -1, 1, batch).expand(-1, -1, kept, -1), hidden)
    moved = torch.baddbmm(weights.flatten(0, 1), slope.flatten(2), patches.flatten(0, 1).flatten(1, 2))
    return moved.view_as(weights), loss


# --- router training ------------------------------------------------------------------------------------------------


def router_direction(
    patch_sums: Float[Tensor, "T N d"], labels: Int[Tensor, "T N"], counted: Float[Tensor, "T N"], classes: int
) -> Float[Tensor, "T c d"]:
    """The direction in which each separately trained router moves: minus the gradient of eq. 6, pair by pair.

    The loss is linear in the routers, so its gradient is constant: for the pair of classes (i, i+1) it is
    +/- mean_i(y_i sum_j x_i^(j)) over the pair's samples (two classes: eq. 6; more: appendix M.1).

    Args:
      patch_sums: sum_j x^(j) of every sample.
      labels: 0 ... c-1, c even.
      counted: 1 for samples to use, 0 for padding where N differs from trial to trial.
      classes: c.
    """
    member = torch.nn.functional.one_hot(labels, classes).to(patch_sums.dtype) * counted[..., None]
    sums = member.mT @ patch_sums  # (T, c, d)
    pairs = sums.unflatten(1, (classes // 2, 2))
    counts = member.sum(1).unflatten(1, (classes // 2, 2)).sum(2)[..., None]
    forward = (pairs[:, :, 0] - pairs[:, :, 1]) / counts
    return torch.stack((forward, -forward), dim=2).flatten(1, 2)


def train_routers(
    routers: Float[Tensor, "T c d"],
    direction: Float[Tensor, "T c d"],
    *,
    epochs: int,
    samples: Int[Tensor, " T"],
    batch_size: int,
    learning_rate: float,
) -> Float[Tensor, "T c d"]:
    """Separate router training in closed form: E epochs of N/B steps along a constant direction.

    w_1 += eta E (N/B) mean_i(y_i sum_j x_i^(j)), and w_2 the negative. Equal to SGD step by step
    (algorithm 1, step 2), because the loss is linear and every epoch uses each sample once.
    """
    steps = (epochs * samples / batch_size).to(routers.dtype)
    return routers + learning_rate * steps[:, None, None] * direction
