"""Training of experts whose patches are known in advance, and of the routers that chose them, as functions of arrays.

Routers trained first select l patches for each expert; the CNN is one expert that has all. Every gate is 1:

    f(x) = sum_s sum_r (a_{r,s} / l) sum_{j in J_s} ReLU(<w_{r,s}, x^(j)>)                        (eq. 1 with G = 1)

The leading axis of every tensor is the trial; l and the step size may differ between trials.

Shapes: T trials, k experts of m_k = m/k neurons, B samples per batch, l patches of d numbers, c outputs, N training
samples.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from moe_lab.core.routing import one_hot
from moe_lab.patch_routing.loss import Loss, loss_of, relu_slope


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
    output_weights: Float[Tensor, "Tk m_k c"]  # a_{r,s} / l
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
    output_weights = rules.outputs.reshape(trials * experts, hidden.shape[1], -1)
    patch_outputs = torch.bmm(output_weights.mT, hidden).view(trials, experts, -1, patches_per_expert, batch)
    if rules.valid is not None:
        patch_outputs *= rules.valid[:, None, None, :, None]
    return FixedPass(inputs, hidden, output_weights, patch_outputs.sum((1, 3)))


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
    a = forward.output_weights  # with one output the product of each pair costs a third of a matrix product
    hidden_slope = relu_slope(a * patch_slope if a.shape[2] == 1 else a @ patch_slope, forward.hidden)
    after = torch.baddbmm(weights.flatten(0, 1), hidden_slope, forward.inputs, alpha=-1 / batch)
    return after.view_as(weights), loss


# --- the routers, trained first --------------------------------------------------------------------------------------


def router_direction(
    patch_sums: Float[Tensor, "T N d"], labels: Int[Tensor, "T N"], classes: int
) -> Float[Tensor, "T c d"]:
    """Computes minus the gradient of eq. 6 with respect to each separately trained router, for each pair of classes.

    The loss is linear in the routers, so its gradient is constant: for the pair of classes (i, i+1) it is
    +/- mean_i(y_i sum_j x_i^(j)) over the pair's samples (two classes: eq. 6; more: appendix M.1).

    Args:
      patch_sums: sum_j x^(j) of every sample.
      classes: c, even.
    """
    member = one_hot(labels, classes).to(patch_sums.dtype)
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
    samples: int,
    batch_size: int,
    learning_rate: float,
) -> Float[Tensor, "T c d"]:
    """Trains separate routers in closed form: E epochs of N/B steps along a constant direction.

    w_1 += eta E (N/B) mean_i(y_i sum_j x_i^(j)), and the opposite for w_2. Equal to mini-batch SGD (algorithm 1, step
    2; tested), because the loss is linear and every epoch uses each sample once.
    """
    steps = routers.new_full((), epochs * samples / batch_size)
    return routers + learning_rate * steps * direction
