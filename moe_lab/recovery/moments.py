"""The gate of two experts from one moment, without EM (gridlock2019, theorem 3 and appendix D.4).

Given the regressors, Ratio = (y - <a_2, x>) / <a_1 - a_2, x> is 1 for samples of expert 1 and 0 for samples of expert
2, up to noise. Its mean does not exist (it is a mixture of Cauchy distributions), but its distribution function does:

    mean 1{Ratio <= 1/2} S1(x)  ->  alpha w,   alpha = E[f'(<w, x>) (1 - 2 Phi(|<a_1 - a_2, x>| / (2 sigma)))] < 0

alpha is negative because Phi > 1/2, so w has the direction of *minus* the moment; appendix D.4 omits the sign.

Departs from the paper: Ratio <= 1/2 is computed as "y is at least as near to expert 2 as to expert 1", which is
equivalent, needs no division and works for any g. A tie, as when both experts with ReLU predict 0, counts one half.

The identity needs gates orthogonal to the regressors (stated in appendix D.4, but not in theorem 3). Otherwise a bias
of the order of sigma along a_1 - a_2 remains: on 400,000 samples with the true regressors, cosines of
.999 to 1.000 at sigma=.1 and .980 to 1.000 at .5 (identity), .984 to .999 at .1 (ReLU), against 1.000 for all of these
where gates are orthogonal.

Shapes: T trials, N samples, d dimensions.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.recovery.activations import Activation
from moe_lab.recovery.data import Inputs


def nearer_to_second(
    regressors: Float[Tensor, "T k d"], x: Float[Tensor, "T N d"], y: Float[Tensor, "T N"], g: Activation
) -> Float[Tensor, "T N"]:
    """Computes 1{Ratio(x, y) <= 1/2} (eq. 10): 1 if y is nearer to expert 2's prediction, 0 if not, 1/2 for ties.

    Raises:
      ValueError: k is not 2.
    """
    rule = "gates by moments (theorem 3) need experts (k) = 2"
    require(regressors.shape[1] == 2, rule, k=regressors.shape[1])
    first, second = (y[:, None] - g(regressors @ x.mT)).abs().unbind(1)
    return (1 + torch.sign(first - second)) / 2


def gate_by_moments(
    regressors: Float[Tensor, "T k d"],
    inputs: Inputs,
    y: Float[Tensor, "T N"],
    g: Activation,
    *,
    centred: bool = False,
) -> Float[Tensor, "T d"]:
    """Estimates the direction of the gate w = w_1 of two experts (w_2 = 0) as minus mean 1{Ratio <= 1/2} S1(x).

    The length of w is not determined, because alpha depends on w.

    Args:
      regressors: a_1 and a_2, k = 2.
      inputs: x and its density; if x is not N(0, I), its score S1 replaces x. Without this, a mixture of two Gaussians
        gives cosines as low as .1.
      y: (T, N).
      g: any activation.
      centred: whether to subtract 1/2 from the indicator. As E[S1(x)] = 0, the limit is the same with half of the
        variance, almost as good as EM (see `figures.gates_by_moments`). Not in the paper.

    Returns:
      Unit vectors; NaN if the moment is 0 or not finite.

    Raises:
      ValueError: k is not 2.
    """
    indicator = nearer_to_second(regressors, inputs.x, y, g)
    axes = torch.eye(inputs.x.shape[2], dtype=y.dtype, device=y.device).expand(len(y), -1, -1)
    score = inputs.x if inputs.gaussian else inputs.hermite(axes, 1)
    weights = indicator - 0.5 if centred else indicator
    moment = -(weights[:, None] @ score)[:, 0] / y.shape[1]
    return moment / torch.linalg.vector_norm(moment, dim=1, keepdim=True)
