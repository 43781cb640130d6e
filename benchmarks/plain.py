"""The baseline of the engine: autograd on gathered patches, one training after another."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from moe_lab.core.trials import stream
from moe_lab.patch_routing import DigitTask, PatternTask, SeparateMoE
from moe_lab.patch_routing.initialization import initial_experts, initial_outputs, initial_routers


def gathered_joint_step(
    patches: Tensor, signs: Tensor, hidden: Tensor, routers: Tensor, outputs: Tensor, kept: int, rate: float
) -> tuple[Tensor, Tensor]:
    """One joint SGD step of one training: k copies of the l kept patches, and autograd for the rest.

    Args:
      patches: (B, n, d).
      signs: (B,) y.
      hidden: (k, m/k, d), and routers: (k, d); both require gradients.
      outputs: (k, m/k).
    """
    experts, dimension = routers.shape
    values, places = torch.einsum("bnd,kd->bkn", patches, routers).topk(kept, dim=-1)
    gates = values.softmax(dim=-1)
    copies = patches[:, None].expand(-1, experts, -1, -1)
    chosen = copies.gather(2, places[..., None].expand(-1, -1, -1, dimension))
    active = torch.einsum("bkld,krd->bklr", chosen, hidden).relu()
    answers = (active * gates[..., None] * outputs[:, None]).sum((1, 2, 3)) / kept
    slopes = torch.autograd.grad(softplus(-signs * answers).mean(), (hidden, routers))
    with torch.no_grad():
        return hidden - rate * slopes[0], routers - rate * slopes[1]


def train_separate(
    task: PatternTask | DigitTask, model: SeparateMoE, *, samples: int, trial: int, seed: int, device: str = "cpu"
) -> float:
    """One separate training with its own loop: the same data, order, routers and stopping as the engine's row.

    The routers come in closed form here too, which is kind to this side: step by step they take most of the time.

    Returns:
      Test accuracy on 1000 samples.
    """
    n, classes, kept, batch = task.patches, task.classes, model.patches_per_expert, model.batch_size
    drawn = {
        split: task.sample(count, trials=[trial], seed=seed, split=split, device=torch.device(device))
        for split, count in (("train", samples), ("test", 1000))
    }
    x = {split: part.patches()[0] for split, part in drawn.items()}
    signs = {split: (1 - 2 * part.labels[0]).float() for split, part in drawn.items()}
    dimension = x["train"].shape[-1]
    direction = (signs["train"][:, None] * x["train"].sum(1)).mean(0) * model.router_epochs * samples / batch / n
    routers = initial_routers([trial], seed, classes, n, dimension)[0].float().to(device)
    routers = routers + torch.stack((direction, -direction))
    chosen = {split: route(part, routers, kept) for split, part in x.items()}
    hidden = initial_experts([trial], seed, model.neurons, dimension)[0].float().to(device).chunk(classes)
    outputs = initial_outputs([trial], seed, model.neurons, 1)[0].float().to(device)[:, 0].chunk(classes)
    weights = [part.clone().requires_grad_(True) for part in hidden]

    def answer(part: Tensor) -> Tensor:
        return sum(
            (torch.relu(part[:, s] @ w.T).sum(1) @ a) / kept
            for s, (w, a) in enumerate(zip(weights, outputs, strict=True))
        )

    order = stream(seed, trial, f"order/{samples}")
    for _ in range(150):
        for places in np.array_split(order.permutation(samples), samples // batch):
            margins = signs["train"][places] * answer(chosen["train"][places])
            slopes = torch.autograd.grad(softplus(-margins).mean(), weights)
            with torch.no_grad():
                for w, slope in zip(weights, slopes, strict=True):
                    w -= task.learning_rate * slope
        with torch.no_grad():
            if (signs["train"] * answer(chosen["train"]) > 0).all():
                break
    with torch.no_grad():
        return float((signs["test"] * answer(chosen["test"]) > 0).float().mean())


def route(patches: Tensor, routers: Tensor, kept: int) -> Tensor:
    """(N, k, l, d) the patches that each expert keeps of each sample."""
    places = torch.einsum("bnd,kd->bkn", patches, routers).topk(kept, dim=-1).indices
    copies = patches[:, None].expand(-1, len(routers), -1, -1)
    return copies.gather(2, places[..., None].expand(-1, -1, -1, patches.shape[-1]))
