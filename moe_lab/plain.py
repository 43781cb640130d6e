"""The whole idea in one file: a mixture of experts on patches, its gradient by hand, and its training.

    python -m moe_lab.plain

A sample is n patches, and one of them, o1 or o2, decides its class. Each of k experts has a router, a vector w: it
scores all patches, keeps the l with the highest scores (expert choice), and weighs them by a softmax, the gates G. The
model is

    f(x) = sum_s sum_{j in J_s} G_{j,s} V_{j,s},    V_{j,s} = sum_{r in s} (a_r / l) ReLU(<v_r, x_j>)

(pmoe2023, eq. 1 and 4) and a sample is of class y = +1 where f > 0, else of class -1. Routers w and hidden weights v
are trained together on the loss log(1 + exp(-y f)) of eq. 2; the output weights a stay as they are.

Nothing here is used by the library, which does the same for many trials at once; the tests compare the two. Shapes: B
samples of n patches of d numbers; k experts, each of which keeps l patches; m hidden neurons, m / k for each expert.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Mixture:
    """The weights of a mixture.

    Attributes:
      routers: w (k, d).
      hidden: v (k, m / k, d).
      outputs: a (k, m / k), never trained.
      patches_per_expert: l, the patches that each expert keeps.
    """

    routers: Tensor
    hidden: Tensor
    outputs: Tensor
    patches_per_expert: int


def new_mixture(
    experts: int, neurons: int, patches_per_expert: int, dimension: int, random: torch.Generator
) -> Mixture:
    """Returns a mixture with random weights; routers start near 0, so that they favour no patch."""
    neurons_per_expert = neurons // experts
    routers = 1e-3 * torch.randn(experts, dimension, generator=random)
    hidden = torch.randn(experts, neurons_per_expert, dimension, generator=random) / neurons**0.5
    outputs = torch.randn(experts, neurons_per_expert, generator=random)
    return Mixture(routers, hidden, outputs, patches_per_expert)


@dataclass
class Pass:
    """The result of a forward pass.

    Attributes:
      chosen: J_s (B, k, l), the patches that each expert keeps.
      patches: (B, k, l, d), the same as vectors.
      gates: G (B, k, l).
      active: (B, k, l, m / k), which neurons are above 0.
      values: V (B, k, l).
      f: (B,).
    """

    chosen: Tensor
    patches: Tensor
    gates: Tensor
    active: Tensor
    values: Tensor
    f: Tensor


def forward(mixture: Mixture, x: Tensor) -> Pass:
    """Computes f of samples x (B, n, d)."""
    scores = torch.einsum("kd,bnd->bkn", mixture.routers, x)
    highest, chosen = scores.topk(mixture.patches_per_expert, dim=-1)
    gates = highest.softmax(-1)
    patches = x[torch.arange(len(x))[:, None, None], chosen]
    preactivations = torch.einsum("kmd,bkld->bklm", mixture.hidden, patches)
    values = torch.einsum("km,bklm->bkl", mixture.outputs / mixture.patches_per_expert, preactivations.relu())
    return Pass(chosen, patches, gates, preactivations > 0, values, (gates * values).sum((1, 2)))


def gradient(mixture: Mixture, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the gradient of the mean loss with respect to routers and hidden weights; y (B,) is +1 or -1.

    The choice of patches is piecewise constant and has no gradient; the gates have one. The derivative of f with
    respect to a score is G_{j,s} (V_{j,s} - sum_i G_{i,s} V_{i,s}), so that a router turns to patches that add more to
    f than the others it keeps (eq. 26). With l = 1 that is 0: such a router never learns.
    """
    result = forward(mixture, x)
    slope = -y * torch.sigmoid(-y * result.f) / len(x)  # of the mean loss with respect to each f
    gated = slope[:, None, None] * result.gates
    mean = (result.gates * result.values).sum(-1, keepdim=True)
    routers = torch.einsum("bkl,bkld->kd", gated * (result.values - mean), result.patches)
    hidden = torch.einsum("bkl,bklm,bkld->kmd", gated, result.active.to(x.dtype), result.patches)
    return routers, hidden * (mixture.outputs / mixture.patches_per_expert)[..., None]


def step(mixture: Mixture, x: Tensor, y: Tensor, learning_rate: float) -> None:
    """Takes one SGD step, in place."""
    routers, hidden = gradient(mixture, x, y)
    mixture.routers -= learning_rate * routers
    mixture.hidden -= learning_rate * hidden


def draw_samples(
    count: int, patches: int, patterns: Tensor, noise: float, random: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Returns samples x (count, patches, d) and their classes y.

    One patch of each, at a random position, is o1 (y = +1) or o2 (y = -1) of `patterns` (2, d); the others are random
    unit vectors. Every patch has Gaussian noise of about the length `noise`.
    """
    dimension = patterns.shape[1]
    x = torch.nn.functional.normalize(torch.randn(count, patches, dimension, generator=random), dim=-1)
    label = torch.arange(count) % 2
    positions = torch.randint(patches, (count,), generator=random)
    x[torch.arange(count), positions] = patterns[label]
    return x + noise / dimension**0.5 * torch.randn(x.shape, generator=random), 1.0 - 2 * label


def main(seed: int = 0, steps: int = 60, batch: int = 20) -> None:
    """Trains a mixture of four experts, and prints its accuracy and the cosines of each router with the patterns."""
    random = torch.Generator().manual_seed(seed)
    patterns = torch.eye(32)[:2]
    x, y = draw_samples(200, 16, patterns, 0.3, random)
    test_x, test_y = draw_samples(1000, 16, patterns, 0.3, random)
    mixture = new_mixture(experts=4, neurons=40, patches_per_expert=6, dimension=32, random=random)
    for number in range(1, steps + 1):
        drawn = torch.randint(len(x), (batch,), generator=random)
        step(mixture, x[drawn], y[drawn], learning_rate=5.0)
        if number % 10 == 0:
            accuracy = (forward(mixture, test_x).f * test_y > 0).float().mean()
            print(f"step {number}: right in {100 * accuracy:.0f} % of 1,000 new samples")
    cosines = torch.nn.functional.normalize(mixture.routers, dim=-1) @ patterns.T
    for expert, (first, second) in enumerate(cosines.tolist(), 1):
        print(f"router {expert}: cosine {first:.2f} with o1, {second:.2f} with o2")


if __name__ == "__main__":
    main()
