"""The measures of a patch-routing model, and how they are computed from routing masks and gates."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from moe_lab.core.training import Measure

MEASURES = {
    "test_accuracy": Measure((), "", "share of test samples with the right label"),
    "train_accuracy": Measure(
        (), "", "share of training samples with the right label, of those used since the last record (step 0: of all)"
    ),
    "train_loss": Measure((), "", "mean loss over the training samples used since the last record (step 0: over all)"),
    "coverage": Measure(
        ("class",), "", "share of the class's test samples whose o is routed to the best expert of the class"
    ),
    "expert_coverage": Measure(
        ("expert", "class"), "", "share of the class's test samples whose o is routed to the expert"
    ),
    "largest_gate": Measure(
        ("class",), "", "share of the class's test samples whose o has the largest gate of the best expert of the class"
    ),
    "gate_matrix": Measure(("expert", "class"), "", "mean gate of the class's o at the expert"),
    "alignment": Measure(("expert", "class"), "", "cosine similarity of the expert's router and the class's o"),
    "expert_load": Measure(("expert", "role"), "patches", "mean number of patches of the role routed to the expert"),
    "signal_kept": Measure((), "", "share of test samples whose o is routed to some expert"),
    "signal_share": Measure((), "", "share of o in all that experts receive (chance: 1/n)"),
    "lost": Measure((), "", "share of patches that no expert receives"),
    "dropped": Measure((), "", "share of the experts asked by patches that had no place left"),
    "places_taken": Measure(("expert",), "patches", "mean number of places taken in a sample"),
    "turned_away": Measure(("expert",), "patches", "mean number of patches of a sample without a place"),
    "example_asked": Measure(("class", "expert", "patch"), "", "whether the patch of the class's example asks for it"),
    "example_gates": Measure(("class", "expert", "patch"), "", "gate of the patch of the class's example"),
    "example_kept": Measure(
        ("class", "expert", "patch"), "", "whether the patch of the class's example is routed to the expert"
    ),
    "example_patches": Measure(("class", "patch", "pixel"), "", "patches of the class's example", constant=True),
    "example_roles": Measure(
        ("class", "patch"), "", "role of the example's patch: 0 signal, 1 distractor, 2 background", constant=True
    ),
    "example_sides": Measure(
        ("class", "patch"), "", "class that the example's patch imitates, -1 for none", constant=True
    ),
}
OF_THE_SIGNAL = frozenset(
    {"coverage", "expert_coverage", "largest_gate", "gate_matrix", "alignment", "signal_kept", "signal_share"}
)
"""Measures that need the ground truth of which patch decides the class."""


class RoutingCounts:
    """Accumulates routing statistics over test samples, chunk by chunk, with the device and dtype of `like`."""

    def __init__(self, trials: int, experts: int, classes: int, roles: int, like: Tensor) -> None:
        self.samples = like.new_zeros(trials, 1, classes)
        self.received = like.new_zeros(trials, experts, classes)
        self.largest = like.new_zeros(trials, experts, classes)
        self.gates = like.new_zeros(trials, experts, classes)
        self.load = like.new_zeros(trials, experts, roles)

    def add(
        self,
        mask: Tensor,  # (T, k, b, n) bool
        gates: Float[Tensor, "T k b n"],
        labels: Int[Tensor, "T b"],
        signal: Int[Tensor, "T b"],
        roles: Int[Tensor, "T b n"],
    ) -> None:
        """Adds a chunk of b samples. `signal` is the position of o in each sample, `roles` the role of each patch."""
        experts = mask.shape[1]
        classes, kinds = self.received.shape[2], self.load.shape[2]
        at = signal[:, None, :, None].expand(-1, experts, -1, 1)
        received = mask.gather(-1, at)[..., 0].to(gates.dtype)
        gate = gates.gather(-1, at)[..., 0] * received
        largest = received * (gate >= gates.amax(-1)).to(gates.dtype)
        member = torch.nn.functional.one_hot(labels, classes).to(gates.dtype)  # (T, b, c)
        self.samples += member.sum(1, keepdim=True)
        self.received += received @ member
        self.largest += largest @ member
        self.gates += gate @ member
        kind = torch.arange(kinds, device=roles.device)[:, None, None]
        self.load += mask.flatten(2).to(gates.dtype) @ (roles[:, None] == kind).to(gates.dtype).flatten(2).mT

    def values(self, present: Tensor) -> dict[str, Tensor]:
        """Returns the measures, NaN for absent experts; `present`, (T, k), marks the experts that each trial has."""
        expert_coverage = self.received / self.samples
        largest = self.largest / self.samples
        absent = ~present[..., None]
        return {
            "expert_coverage": expert_coverage.masked_fill(absent, torch.nan),
            "coverage": expert_coverage.masked_fill(absent, -1).amax(1),
            "largest_gate": largest.masked_fill(absent, -1).amax(1),
            "gate_matrix": (self.gates / self.samples).masked_fill(absent, torch.nan),
            "expert_load": (self.load / self.samples.sum(-1, keepdim=True)).masked_fill(absent, torch.nan),
        }


def alignment(
    routers: Float[Tensor, "T k d"], signals: Float[Tensor, "T c d"], present: Tensor
) -> Float[Tensor, "T k c"]:
    """Computes <w_s, o_i> / (|w_s| |o_i|), NaN for experts that a trial does not have."""
    unit = torch.nn.functional.normalize(routers, dim=-1, eps=1e-30)
    return (unit @ torch.nn.functional.normalize(signals, dim=-1).mT).masked_fill(~present[..., None], torch.nan)
