"""Joint training of routers and experts: the forward pass and one exact SGD step, as pure functions of arrays.

    f(x) = sum_s sum_r (a_{r,s} / l) sum_{j in J_s} ReLU(<w_{r,s}, x^(j)>) G_{j,s}(x)                        (eq. 1)

All patches are multiplied by all neurons and routers in one matrix product and masked afterwards, which is faster than
gathering k copies of the routed patches. The leading axis of every tensor is the trial; k, l and the step size may
differ between trials.

Shapes: T trials, k experts, m neurons in total, B samples per batch, n patches of d numbers, c outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from moe_lab.core.routing import expert_choice
from moe_lab.patch_routing.loss import Loss, loss_of, relu_slope

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


def by_expert(outputs: Float[Tensor, "T m c"], experts: Sequence[int]) -> Float[Tensor, "T c k m"]:
    """Returns the output weights of each expert's neurons, 0 at those of the others.

    Args:
      outputs: a / l, one after another those of the m/k neurons of expert 1, of expert 2, ...
      experts: the k of each trial; experts that a trial does not have have no neurons.
    """
    neurons, device, counts = outputs.shape[1], outputs.device, dict.fromkeys(experts)
    numbers, names = torch.arange(neurons, device=device), torch.arange(max(experts), device=device)
    own = {k: numbers // (neurons // k) == names[:, None] for k in counts}  # (k, m)
    of_rows = own[experts[0]] if len(own) == 1 else torch.stack([own[k] for k in experts])
    return outputs.mT[:, :, None] * of_rows.view(-1, 1, *of_rows.shape[-2:])


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
    hidden_slope = relu_slope(rules.outputs.flatten(1, 2).mT @ gated.flatten(1, 2).flatten(2), forward.hidden)
    slope = torch.cat((hidden_slope, router_slope.flatten(2)), dim=1)
    return torch.baddbmm(weights, slope, patches.flatten(1, 2), alpha=-1 / patches.shape[1]), loss
