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

import numpy as np

from moe_lab.core.trials import stream
from moe_lab.patch_routing import model as models

_EXPERTS = {"joint": 0.01, "separate": 0.1, "cnn": 0.1}
_ROUTERS = {"joint": 0.0001, "separate": 0.1}
_ROUTER_RATE = 0.2


def initial_experts(trial: int, seed: int, neurons: int, dimension: int) -> np.ndarray:
    """Samples (m, d) hidden weights from N(0, 1/m) (eq. 8), the same in a trial for every k and every model."""
    return stream(seed, trial, "experts").standard_normal((neurons, dimension)) / np.sqrt(neurons)


def initial_routers(trial: int, seed: int, experts: int, patches: int, dimension: int) -> np.ndarray:
    """Samples (k, d) routers from N(0, sigma_r^2), sigma_r = 1 / (n^2 sqrt(d)) (eq. 7 without its log factor)."""
    scale = 1 / (patches**2 * np.sqrt(dimension))
    return stream(seed, trial, "routers").standard_normal((experts, dimension)) * scale


def initial_outputs(trial: int, seed: int, neurons: int, outputs: int) -> np.ndarray:
    """Samples (m, c) output weights a from N(0, 1), never trained."""
    return stream(seed, trial, "outputs").standard_normal((neurons, outputs))


def hidden_weights(model: models.PatchModel, trial: int, seed: int, dimension: int) -> np.ndarray:
    """Returns (m, d) hidden weights in the model's recipe, which scales the same random numbers."""
    drawn = initial_experts(trial, seed, model.neurons, dimension)
    return drawn if model.recipe == "paper" else drawn * (_EXPERTS[model.name] * np.sqrt(model.neurons))


def routers(model: models.PatchModel, trial: int, seed: int, experts: int, patches: int, d: int) -> np.ndarray:
    """Returns (k, d) routers in the model's recipe, which scales the same random numbers."""
    drawn = initial_routers(trial, seed, experts, patches, d)
    return drawn if model.recipe == "paper" else drawn * (_ROUTERS[model.name] * patches**2 * np.sqrt(d))


def output_weights(model: models.PatchModel, trial: int, seed: int, outputs: int) -> np.ndarray:
    """Returns (m, c) output weights a in the model's recipe, never trained."""
    if model.recipe == "authors" and isinstance(model, models.SeparateMoE):
        return np.repeat([1.0, -1.0], model.neurons // 2)[:, None]
    return initial_outputs(trial, seed, model.neurons, outputs)


def router_rate(model: models.SeparateMoE, patches: int) -> float:
    """Returns the step size of separately trained routers: 1/n (lemma 4.1), or that of the authors' code."""
    return 1 / patches if model.recipe == "paper" else _ROUTER_RATE
