"""Experts that are trained apart, and what the paper's p would be if it were as appendix C prints it."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab.pruning.checkpoints import FineTuned
from moe_lab.pruning.select import Kept
from moe_lab.pruning.theory_evidence import single


def decoupling(tuned: FineTuned, kept: Kept, steps: int) -> Float[Tensor, " T"]:
    """How far experts that are fine-tuned in the pruned layer end from where they end in the whole one.

    Where experts choose their tokens, the derivative of 1 - y f along the weights of expert s contains a^(s) F_s alone,
    because the gates of s are a softmax over its own tokens (appendix C). So the two trainings are one, up to rounding,
    and one fine-tuning of the whole layer serves every rho and every criterion. Where tokens choose, the experts share
    each token's softmax; under the true hinge loss, f decides which samples teach: there they differ.

    Args:
      kept: (T, k) the experts that the pruned layer keeps.
      steps: fine-tuning steps after pruning.

    Returns:
      (T,) the largest difference between two weights of a kept expert or its router, over the largest weight of all.

    Raises:
      ValueError: steps is negative, or kept is no pruning of this layer.
    """
    pruned, whole = tuned.tuned(kept, steps), tuned.tuned(torch.ones_like(kept), steps)
    pairs = [
        (one, _rows(other, pruned.numbers))
        for one, other in ((pruned.own_routers, whole.own_routers), (pruned.neurons, whole.neurons))
    ]
    gaps = torch.stack([(one - other).abs().flatten(1).amax(1) for one, other in pairs])
    sizes = torch.stack([other.abs().flatten(1).amax(1) for _, other in pairs])
    return gaps.amax(0) / sizes.amax(0)


def _rows(values: Tensor, numbers: Tensor) -> Tensor:
    """The experts of these numbers, along axis 1."""
    index = numbers.view(*numbers.shape, *(1,) * (values.ndim - 2)).expand(-1, -1, *values.shape[2:])
    return values.gather(1, index)


def printed_proficiency(tuned: FineTuned, trial: int = 0) -> Float[np.ndarray, " k"]:
    """p^(s,T) as appendix C prints it, with the gate of step 0: in J_s^(T) and G^(s,0) >= 1/l.

    Section 4.2 has the gate of the same step, which is what the lemmas need: as printed, p^(s,T) = 1 could be true only
    of an expert whose router gave its pattern 1/l in every sample before fine-tuning.
    """
    one = single(tuned, trial)
    run, half = one.run, one.run.model.experts // 2
    first, last = one.evaluate(one.before), one.evaluation
    shares = []
    for name, sign in (("plus", 1), ("minus", -1)):
        where = (last.labels == sign)[:, None]
        met = (getattr(last, name) > 0) & (getattr(first, name) >= 1 / run.model.top - 1e-9) & where
        shares.append((met.sum(2).double() / where.sum(2))[0].cpu().numpy())
    return np.concatenate([shares[0][:half], shares[1][half:]])
