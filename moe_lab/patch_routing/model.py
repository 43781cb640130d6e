"""The three models of pmoe2023 and one exact SGD step of each, as pure functions of arrays.

The same experts behind other routings stand in `routed`.

    f(x) = sum_s sum_r (a_{r,s} / l) sum_{j in J_s} ReLU(<w_{r,s}, x^(j)>) G_{j,s}(x)                        (eq. 1)

Two functions cover all three. `joint_step` updates routers and experts together: it multiplies all patches by all
neurons and routers in one matrix product and masks afterwards, which is faster than gathering k copies of the routed
patches. `fixed_step` updates experts whose patches are known in advance: those selected by separately trained routers,
or all patches for the CNN. The leading axis of every tensor is the trial; l, k and the step size may differ between
trials.

Shapes: T trials, k experts, m neurons in total, B samples per batch, n patches of d numbers, l patches per expert,
c outputs (one for two classes, else one per class).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import model_validator
from torch import Tensor

from moe_lab.core.config import Config, knob, require
from moe_lab.core.routing import expert_choice


class PatchModel(Config):
    """The parameters that all models share.

    Attributes:
      name: what curves and tables call the model.
      per_row: parameters in which runs of one batch may differ.
      capturable: of a router or model of one's own, whether CUDA may record a step once and replay it: it must read no
        number of a tensor and decide nothing by one, because only the recorded operations are repeated.
    """

    neurons: int = knob(40, symbol="m", meaning="neurons of all experts together", ge=1, le=65536, slider=(8, 160, 8))
    learning_rate: float | None = knob(
        None, symbol="eta", meaning="step size (none: the task's measured value)", gt=0, le=1e38
    )
    batch_size: int = knob(20, symbol="B", meaning="samples in a step", ge=1, le=65536, slider=(2, 100, 2))
    recipe: Literal["paper", "authors"] = knob(
        "paper", meaning="start and pooling of the paper or of the authors' code"
    )

    name: ClassVar[str]
    template: ClassVar[bool] = True
    capturable: ClassVar[bool] = False
    per_row: ClassVar[tuple[str, ...]] = ("learning_rate",)


class JointMoE(PatchModel):
    """Routers and experts trained jointly; gates are the softmax over an expert's l patches (pmoe2023, eq. 4).

    A subclass that overrides `route` has a router of its own, and is trained with the gradient that torch finds. A GPU
    replays its steps as a graph if `capturable` (see `PatchModel`).
    """

    experts: int = knob(8, symbol="k", meaning="experts", ge=1, le=1024, slider=(1, 8, 1))
    patches_per_expert: int = knob(6, symbol="l", meaning="patches each expert keeps", ge=1, le=1024, slider=(1, 16, 1))

    name: ClassVar[str] = "joint"
    per_row: ClassVar[tuple[str, ...]] = ("learning_rate", "experts", "patches_per_expert")

    def route(
        self, scores: Float[Tensor, "T k B n"], patches_per_expert: Int[Tensor, " T"]
    ) -> tuple[Tensor, Float[Tensor, "T k B n"]]:
        """Routes patches to experts; by default by expert choice.

        Args:
          scores: the routing values <w_s, x^(j)> of expert s for patch j.
          patches_per_expert: l of each trial.

        Returns:
          mask: of the scores' shape, True where an expert receives a patch.
          gates: of the same shape, 0 where the mask is False.
        """
        return expert_choice(scores, patches_per_expert)

    @model_validator(mode="after")
    def _neurons_divide(self) -> Self:
        check_division(self.neurons, self.experts)
        return self


class SeparateMoE(PatchModel):
    """Routers trained first, in closed form, then frozen; gates are 1 (pmoe2023, eq. 3 and 6). One expert per class."""

    patches_per_expert: int = knob(6, symbol="l", meaning="patches each expert keeps", ge=1, le=1024, slider=(1, 16, 1))
    router_epochs: int = knob(100, symbol="E_r", meaning="passes over the data to train the routers", ge=1, le=10**6)
    router_samples: int | None = knob(None, symbol="N_r", meaning="samples that train the routers (none: all)", ge=2)

    name: ClassVar[str] = "separate"
    per_row: ClassVar[tuple[str, ...]] = ("learning_rate", "patches_per_expert")


class CNN(PatchModel):
    """A single expert that receives all patches with gate 1, the paper's baseline (pmoe2023, eq. 5)."""

    name: ClassVar[str] = "cnn"


def experts_of(model: PatchModel, classes: int) -> int:
    """Returns k, the number of experts of a model for a task with c classes."""
    return classes if isinstance(model, SeparateMoE) else getattr(model, "experts", 1)


def check_model(model: PatchModel, patches: int, classes: int) -> None:
    """Raises a ValueError unless the model fits a task with these numbers of patches and classes."""
    kept = getattr(model, "patches_per_expert", 1)
    require(kept <= patches, "patches_per_expert (l) must be at most patches (n)", l=kept, n=patches)
    if isinstance(model, SeparateMoE):
        check_division(model.neurons, classes)
        rule = "classes (c) must be even to train routers in pairs (appendix M)"
        require(classes % 2 == 0, rule, c=classes)
        rule = "the authors' code trains experts separately for two classes (c) only"
        require(model.recipe == "paper" or classes == 2, rule, c=classes)


def check_division(neurons: int, experts: int) -> None:
    rule = "neurons (m) must be divisible by experts (k), so that all experts have the same size"
    require(neurons % experts == 0, rule, m=neurons, k=experts)


# --- loss -----------------------------------------------------------------------------------------------------------


class Loss(NamedTuple):
    """The loss of each sample of a batch."""

    value: Float[Tensor, "T B"]
    slope: Float[Tensor, "T c B"]  # derivative with respect to f
    right: Tensor  # (T, B) bool, whether the sample is classified correctly


def loss_of(outputs: Float[Tensor, "T c B"], labels: Int[Tensor, "T B"]) -> Loss:
    """Computes the logistic loss log(1 + exp(-y f)) for one output (eq. 2), else the cross-entropy (eq. 24)."""
    if outputs.shape[1] == 1:
        minus_y = labels.to(outputs.dtype).mul_(2).sub_(1)
        minus_margin = minus_y * outputs[:, 0]  # -y f
        slope = (minus_y * minus_margin.sigmoid())[:, None]
        return Loss(torch.nn.functional.softplus(minus_margin), slope, minus_margin < 0)
    own_class = labels[:, None]
    log_probabilities = outputs.log_softmax(dim=1)
    slope = log_probabilities.exp().scatter_add(1, own_class, -torch.ones_like(log_probabilities[:, :1]))
    return Loss(-log_probabilities.gather(1, own_class)[:, 0], slope, outputs.argmax(dim=1) == labels)


def _relu_slope(slope: Tensor, hidden: Tensor) -> Tensor:
    """Returns the slope where the ReLU is active, else 0; autograd's kernel, far cheaper than torch.where."""
    return torch.ops.aten.threshold_backward(slope, hidden, 0)


def _outer(columns: Float[Tensor, "T m c"], rows: Float[Tensor, "T c b"]) -> Float[Tensor, "T m b"]:
    """Multiplies them; with one output (c = 1) elementwise, which costs a third of a matrix product."""
    return columns * rows if rows.shape[1] == 1 else columns @ rows


# --- joint training -------------------------------------------------------------------------------------------------


Route = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Scores (T, k, B, n) and the l of each trial -> mask and gates of the same shape."""


class JointRules(NamedTuple):
    """The constants of joint training. Experts that a trial does not have have no neurons: their rows are zero."""

    outputs: Float[Tensor, "T c k m"]  # a_{r,s} / l at the neurons r of expert s, else 0
    patches_per_expert: Int[Tensor, " T"]
    learning_rate: Float[Tensor, "T 1 1"]

    def of(self, trials: slice | Tensor) -> JointRules:
        """The rules of some trials."""
        return JointRules(*(part[trials] for part in self))


class JointPass(NamedTuple):
    """The result of a forward pass."""

    hidden: Float[Tensor, "T m Bn"]  # ReLU(<w_r, x^(j)>)
    mask: Tensor  # (T, k, B, n) bool, J_s
    gates: Float[Tensor, "T k B n"]
    patch_outputs: Float[Tensor, "T c k B n"]  # V_{j,s}, the output of expert s for patch j, before gating
    expert_outputs: Float[Tensor, "T c k B"]  # the gated sum over patches
    outputs: Float[Tensor, "T c B"]  # f


def membership(neurons: int, experts: Sequence[int]) -> np.ndarray:
    """(T, m, max k) 1 where neuron r belongs to expert s, else 0; columns beyond a trial's k are 0."""
    member = np.zeros((len(experts), neurons, max(experts)))
    for trial, k in enumerate(experts):
        member[trial, np.arange(neurons), np.arange(neurons) // (neurons // k)] = 1
    return member


def joint_rules(
    outputs: Float[Tensor, "T m c"],
    membership: Float[Tensor, "T m k"],
    patches_per_expert: Int[Tensor, " T"],
    learning_rate: Float[Tensor, "T 1 1"],
) -> JointRules:
    """Makes JointRules from output weights a / l and the experts' neurons (see `membership`)."""
    expert_outputs = outputs.mT[:, :, None] * membership.mT[:, None]
    return JointRules(expert_outputs, patches_per_expert, learning_rate)


def joint_forward(
    weights: Float[Tensor, "T m_and_k d"],
    patches: Float[Tensor, "T B n d"],
    rules: JointRules,
    route: Route = expert_choice,
) -> JointPass:
    """Computes eq. 1 with the gates of eq. 4, as f = sum_s sum_j G_{j,s} V_{j,s}.

    The weights are m rows of hidden weights, then k routers. Another `route` gives other gates.
    """
    trials, batch, n, _ = patches.shape
    _, classes, experts, neurons = rules.outputs.shape
    products = weights @ patches.flatten(1, 2).mT
    hidden = products[:, :neurons].clamp_min(0)
    mask, gates = route(products[:, neurons:].view(trials, experts, batch, n), rules.patches_per_expert)
    patch_outputs = (rules.outputs.flatten(1, 2) @ hidden).view(trials, classes, experts, batch, n)
    expert_outputs = (gates[:, None] * patch_outputs).sum(-1)
    return JointPass(hidden, mask, gates, patch_outputs, expert_outputs, expert_outputs.sum(2))


def joint_step(
    weights: Float[Tensor, "T m_and_k d"],
    patches: Float[Tensor, "T B n d"],
    labels: Int[Tensor, "T B"],
    rules: JointRules,
) -> tuple[Float[Tensor, "T m_and_k d"], Loss]:
    """Takes one SGD step on all weights with the exact gradient; equal to autograd through eq. 1 (tested).

    With V_{j,s} = sum_{r in s} (a_{r,s} / l) ReLU(<w_{r,s}, x^(j)>), the derivative of f is (a_{r,s} / l) G_{j,s} with
    respect to an active hidden value (eq. 21), and G_{j,s} (V_{j,s} - sum_i G_{i,s} V_{i,s}) with respect to a routing
    value. The latter is eq. 26 with r summed over the m/k neurons of expert s (the paper prints m). The choice of
    patches is piecewise constant and has no gradient.

    Returns:
      The new weights, and the loss before the step.
    """
    forward = joint_forward(weights, patches, rules)
    loss = loss_of(forward.outputs, labels)
    scaled = loss.slope * rules.learning_rate
    gated = forward.gates[:, None] * scaled[:, :, None, :, None]
    router_slope = (gated * (forward.patch_outputs - forward.expert_outputs[..., None])).sum(1)
    hidden_slope = _relu_slope(rules.outputs.flatten(1, 2).mT @ gated.flatten(1, 2).flatten(2), forward.hidden)
    slope = torch.cat((hidden_slope, router_slope.flatten(2)), dim=1)
    return torch.baddbmm(weights, slope, patches.flatten(1, 2), alpha=-1 / patches.shape[1]), loss


# --- fixed gates: separately trained routers, or no router -----------------------------------------------------------


class FixedRules(NamedTuple):
    """The constants of training with patches that are known in advance."""

    outputs: Float[Tensor, "T m c"]  # a / l, or a / n for the CNN
    valid: Float[Tensor, "T l"] | None  # 1 for a trial's first l patches, 0 for padding; None if all trials share l
    learning_rate: Float[Tensor, "T 1 1"]

    def of(self, trials: slice | Tensor) -> FixedRules:
        """The rules of some trials."""
        outputs, valid, rate = self
        return FixedRules(outputs[trials], None if valid is None else valid[trials], rate[trials])


class FixedPass(NamedTuple):
    """The result of a forward pass."""

    inputs: Float[Tensor, "Tk lB d"]
    hidden: Float[Tensor, "Tk m_k lB"]  # ReLU(<w_r, x^(j)>)
    expert_outputs: Float[Tensor, "Tk m_k c"]  # a_{r,s} / l
    outputs: Float[Tensor, "T c B"]  # f


def fixed_forward(
    weights: Float[Tensor, "T k m_k d"], patches: Float[Tensor, "T k l B d"], rules: FixedRules
) -> FixedPass:
    """Computes eq. 1 with G = 1 on the patches of each expert, as f = sum_s sum_j V_{j,s}.

    The neurons of an expert are summed first, by a matrix product, and what remains is small.
    """
    trials, experts, patches_per_expert, batch, _ = patches.shape
    inputs = patches.reshape(trials * experts, patches_per_expert * batch, -1)
    hidden = torch.bmm(weights.flatten(0, 1), inputs.mT).clamp_min_(0)
    expert_outputs = rules.outputs.reshape(trials * experts, hidden.shape[1], -1)
    patch_outputs = torch.bmm(expert_outputs.mT, hidden).view(trials, experts, -1, patches_per_expert, batch)
    if rules.valid is not None:
        patch_outputs *= rules.valid[:, None, None, :, None]
    return FixedPass(inputs, hidden, expert_outputs, patch_outputs.sum((1, 3)))


def fixed_step(
    weights: Float[Tensor, "T k m_k d"],
    patches: Float[Tensor, "T k l B d"],
    labels: Int[Tensor, "T B"],
    rules: FixedRules,
) -> tuple[Float[Tensor, "T k m_k d"], Loss]:
    """Takes one SGD step on the experts with the exact gradient (eq. 21 with the patches of each expert).

    The derivative with respect to an active hidden value is a_{r,s} / l times the loss's slope, an outer product whose
    rows are as long as those of the hidden values: much faster than a slope that is broadcast along l.

    Returns:
      The new weights, and the loss before the step.
    """
    trials, experts, patches_per_expert, batch, _ = patches.shape
    forward = fixed_forward(weights, patches, rules)
    loss = loss_of(forward.outputs, labels)
    scaled = (loss.slope * rules.learning_rate)[:, None, :, None]
    patch_slope = scaled.expand(-1, experts, -1, patches_per_expert, -1)
    if rules.valid is not None:
        patch_slope = patch_slope * rules.valid[:, None, None, :, None]
    patch_slope = patch_slope.reshape(trials * experts, -1, patches_per_expert * batch)
    hidden_slope = _outer(forward.expert_outputs, patch_slope)
    slope = _relu_slope(hidden_slope, forward.hidden)
    after = torch.baddbmm(weights.flatten(0, 1), slope, forward.inputs, alpha=-1 / batch)
    return after.view_as(weights), loss


# --- router training ------------------------------------------------------------------------------------------------


def router_direction(
    patch_sums: Float[Tensor, "T N d"], labels: Int[Tensor, "T N"], valid: Float[Tensor, "T N"], classes: int
) -> Float[Tensor, "T c d"]:
    """Computes minus the gradient of eq. 6 with respect to each separately trained router, for each pair of classes.

    The loss is linear in the routers, so its gradient is constant: for the pair of classes (i, i+1) it is
    +/- mean_i(y_i sum_j x_i^(j)) over the pair's samples (two classes: eq. 6; more: appendix M.1).

    Args:
      patch_sums: sum_j x^(j) of every sample.
      valid: 1 for samples, 0 for padding if N differs between trials.
      classes: c, even.
    """
    member = torch.nn.functional.one_hot(labels, classes).to(patch_sums.dtype) * valid[..., None]
    sums = member.mT @ patch_sums  # (T, c, d)
    pairs = sums.unflatten(1, (classes // 2, 2))
    pair_sizes = member.sum(1).unflatten(1, (classes // 2, 2)).sum(2)[..., None]
    first = (pairs[:, :, 0] - pairs[:, :, 1]) / pair_sizes
    return torch.stack((first, -first), dim=2).flatten(1, 2)


def train_routers(
    routers: Float[Tensor, "T c d"],
    direction: Float[Tensor, "T c d"],
    *,
    epochs: int,
    samples: Int[Tensor, " T"],
    batch_size: int,
    learning_rate: float,
) -> Float[Tensor, "T c d"]:
    """Trains separate routers in closed form: E epochs of N/B steps along a constant direction.

    w_1 += eta E (N/B) mean_i(y_i sum_j x_i^(j)), and the opposite for w_2. Equal to mini-batch SGD (algorithm 1, step
    2; tested), because the loss is linear and every epoch uses each sample once.
    """
    steps = (epochs * samples / batch_size).to(routers.dtype)
    return routers + learning_rate * steps[:, None, None] * direction
