"""Independence of the experts' training, and the paper's p as appendix C prints it."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab.pruning.checkpoints import FineTuned
from moe_lab.pruning.select import Kept
from moe_lab.pruning.theory_evidence import one_trial


def decoupling(tuned: FineTuned, kept: Kept, steps: int) -> Float[Tensor, " T"]:
    """Compares experts fine-tuned in the pruned layer with the same experts fine-tuned in the unpruned one.

    In expert-choice routing, the derivative of 1 - y f along the weights of expert s contains a^(s) F_s alone, because
    the gates of s are a softmax over its own tokens (appendix C). So both give the same weights, up to rounding, and
    one fine-tuning of the unpruned layer serves every rho and every criterion. They differ in token-choice routing,
    where experts share each token's softmax, and with the true hinge loss, where f decides which samples contribute.

    Args:
      kept: (T, k) the experts of the pruned layer.
      steps: fine-tuning steps after pruning.

    Returns:
      (T,) the largest difference between weights of a kept expert or its router, relative to the largest weight.

    Raises:
      ValueError: steps is negative, or kept is not valid for this layer.
    """
    pruned, whole = tuned.tuned(kept, steps), tuned.tuned(torch.ones_like(kept), steps)
    pairs = (
        (pruned.own_routers, _of_experts(whole.own_routers, pruned.numbers)),
        (pruned.neurons, _of_experts(whole.neurons, pruned.numbers)),
    )
    gaps = torch.stack([(small - large).abs().flatten(1).amax(1) for small, large in pairs])
    sizes = torch.stack([large.abs().flatten(1).amax(1) for _, large in pairs])
    return gaps.amax(0) / sizes.amax(0)


def _of_experts(values: Tensor, numbers: Tensor) -> Tensor:
    """Selects experts by their numbers, along axis 1."""
    index = numbers.view(*numbers.shape, *(1,) * (values.ndim - 2)).expand(-1, -1, *values.shape[2:])
    return values.gather(1, index)


def printed_proficiency(tuned: FineTuned, trial: int = 0) -> Float[np.ndarray, " k"]:
    """Computes p^(s,T) as appendix C prints it, with the gate of step 0: in J_s^(T) and G^(s,0) >= 1/l.

    Section 4.2 uses the gate of the same step, which is what the lemmas need: as printed, p^(s,T) = 1 can be true only
    of an expert that gave its pattern a gate of 1/l or more in every sample before fine-tuning.
    """
    alone = one_trial(tuned, trial)
    run, half = alone.run, alone.run.model.experts // 2
    first, last = alone.evaluate(alone.before), alone.evaluation
    shares = []
    for name, sign in (("plus", 1), ("minus", -1)):
        own_class = (last.labels == sign)[:, None]
        proficient = (getattr(last, name) > 0) & (getattr(first, name) >= 1 / run.model.top - 1e-9) & own_class
        shares.append((proficient.sum(2).double() / own_class.sum(2))[0].cpu().numpy())
    return np.concatenate([shares[0][:half], shares[1][half:]])
