"""One joint step at MNIST's size (n=16 d=784 k=8 m=40 l=6 B=20) against autograd, and against its matrix products."""

from __future__ import annotations

import statistics

import torch
from torch import Tensor

from benchmarks.measure import Result, in_turns, ratio
from benchmarks.plain import gathered_joint_step
from moe_lab.patch_routing.joint import JointRules, by_expert, joint_step

N, D, K, M, L, B, RATE = 16, 784, 8, 40, 6, 20, 2.0


def run(tiny: bool = False) -> list[Result]:
    calls, rounds = (1, 1) if tiny else (40, 15)
    draw = torch.Generator().manual_seed(0)
    patches = torch.nn.functional.normalize(torch.randn(1, B, N, D, generator=draw), dim=-1)
    weights = torch.randn(1, M + K, D, generator=draw) / M**0.5
    labels = torch.arange(B)[None] % 2
    outputs = torch.randn(1, M, 1, generator=draw)
    rules = JointRules(by_expert(outputs / L, [K]), torch.tensor([L]), torch.full((1, 1, 1), RATE))
    slope = torch.randn(1, M + K, B * N, generator=draw)
    hidden = weights[0, :M].view(K, M // K, D).clone().requires_grad_(True)
    routers = weights[0, M:].clone().requires_grad_(True)
    signs = (1 - 2 * labels[0]).float()

    def engine() -> Tensor:
        return joint_step(weights, patches, labels, rules)[0]

    def products() -> Tensor:
        flat = patches.flatten(1, 2)
        weights @ flat.mT  # every patch with every neuron and router
        return torch.baddbmm(weights, slope, flat)  # and the way back

    def limit() -> Tensor:
        """The products, and one pass for each operation on an array that no step can do without."""
        flat = patches.flatten(1, 2)
        scores = weights @ flat.mT
        hidden = scores[:, :M].clamp_min(0)
        gates = scores[:, M:].view(1, K, B, N).softmax(-1)
        chosen = gates * (gates >= gates.sort(-1).values[..., -L, None])
        own = (rules.outputs.flatten(1, 2) @ hidden).view(1, K, B, N)
        (chosen * own).sum((1, 3))
        slopes = torch.ops.aten.threshold_backward(rules.outputs.flatten(1, 2).mT @ chosen.flatten(2), hidden, 0)
        return torch.baddbmm(weights, torch.cat((slopes, (chosen * own).flatten(2)), 1), flat)

    def autograd() -> Tensor:
        hid, rout = gathered_joint_step(patches[0], signs, hidden, routers, outputs.view(K, M // K), L, RATE)
        return torch.cat((hid.flatten(0, 1), rout))

    torch.testing.assert_close(engine()[0], autograd(), rtol=1e-4, atol=1e-6)  # rivals must do the same work
    rivals = {"engine": engine, "products": products, "limit": limit, "autograd": autograd}
    seconds = in_turns(rivals, calls=calls, rounds=rounds)
    milliseconds = 1000 * statistics.median(seconds["engine"])
    return [
        Result("joint_step_speedup", ratio(seconds["autograd"], seconds["engine"]), "times", 4.0, "at least"),
        Result("joint_step_over_products", ratio(seconds["engine"], seconds["products"]), "times", 1.5),
        Result(
            "joint_step_limit_over_products",
            ratio(seconds["limit"], seconds["products"]),
            "times",
            note="the products and one pass for each operation on an array that no step can do without",
        ),
        Result("joint_step", milliseconds, "CPU ms"),
    ]
