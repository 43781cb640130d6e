"""What a training starts from and divides by: the paper's choice (eq. 7 and 8), or that of the authors' code.

The authors' code for section 5.1 (github.com/nowazrabbani/pMoE_CNN, "MNIST Exp") departs from the paper in these:

- the sum over an expert's patches is divided by n (global average pooling) and not by l;
- hidden weights start from N(0, .1^2), those of joint training from N(0, .01^2), routers from N(0, .1^2) and
  N(0, .0001^2);
- output weights of separate training are +1 for the expert of the first class and -1 for the other;
- separate routers train with the step size .2, not 1/n.

It also trains for all of 150 epochs, on pixels from 0 to 1, and its CNN has 4 filters where the paper says 40: those
are parameters of `PatchRun`, of `DigitTask` and of `CNN`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab.core.trials import Draw
from moe_lab.patch_routing import model as models

_EXPERTS = {"joint": 0.01, "separate": 0.1, "cnn": 0.1}
_ROUTERS = {"joint": 0.0001, "separate": 0.1}
_ROUTER_RATE = 0.2


def initial_experts(trials: Sequence[int], seed: int, neurons: int, dimension: int) -> Float[Tensor, "T m d"]:
    """Samples hidden weights from N(0, 1/m) (eq. 8), the same in a trial for every k and every model."""
    return Draw("experts", (neurons, dimension), "normal").by_trial(trials, seed) / math.sqrt(neurons)


def initial_routers(
    trials: Sequence[int], seed: int, experts: int, patches: int, dimension: int
) -> Float[Tensor, "T k d"]:
    """Samples routers from N(0, sigma_r^2), sigma_r = 1 / (n^2 sqrt(d)) (eq. 7 without its log factor).

    The first ones are the same for every k.
    """
    scale = 1 / (patches**2 * math.sqrt(dimension))
    return Draw("routers", (experts, dimension), "normal").by_trial(trials, seed) * scale


def initial_outputs(trials: Sequence[int], seed: int, neurons: int, outputs: int) -> Float[Tensor, "T m c"]:
    """Samples output weights a from N(0, 1), never trained."""
    return Draw("outputs", (neurons, outputs), "normal").by_trial(trials, seed)


def hidden_weights(
    model: models.PatchModel, trials: Sequence[int], seed: int, dimension: int
) -> Float[Tensor, "T m d"]:
    """Returns hidden weights in the model's recipe, which scales the same random numbers."""
    raw = initial_experts(trials, seed, model.neurons, dimension)
    return raw if model.recipe == "paper" else raw * (_EXPERTS[model.name] * math.sqrt(model.neurons))


def routers(
    model: models.PatchModel, trials: Sequence[int], seed: int, experts: int, patches: int, d: int
) -> Float[Tensor, "T k d"]:
    """Returns routers in the model's recipe, which scales the same random numbers."""
    raw = initial_routers(trials, seed, experts, patches, d)
    return raw if model.recipe == "paper" else raw * (_ROUTERS[model.name] * patches**2 * math.sqrt(d))


def output_weights(model: models.PatchModel, trials: Sequence[int], seed: int, outputs: int) -> Float[Tensor, "T m c"]:
    """Returns output weights a in the model's recipe, never trained."""
    if model.recipe == "authors" and isinstance(model, models.SeparateMoE):
        signs = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat_interleave(model.neurons // 2)
        return signs[:, None].expand(len(trials), -1, -1)
    return initial_outputs(trials, seed, model.neurons, outputs)


def router_rate(model: models.SeparateMoE, patches: int) -> float:
    """Returns the step size of separately trained routers: 1/n (lemma 4.1), or that of the authors' code."""
    return 1 / patches if model.recipe == "paper" else _ROUTER_RATE
