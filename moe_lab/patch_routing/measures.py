"""What is measured of a patch-routing model, and how it is read off routing masks and gates."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from moe_lab.training import Measure

MEASURES = {
    "test_accuracy": Measure((), "", "share of test samples with the right label"),
    "train_accuracy": Measure(
        (), "", "share of the training samples used since the last record that had the right label (step 0: of all)"
    ),
    "train_loss": Measure((), "", "mean loss over the training samples used since the last record (step 0: of all)"),
    "coverage": Measure(("class",), "", "share of the class's test samples whose o reaches the class's best expert"),
    "expert_coverage": Measure(("expert", "class"), "", "share of the class's test samples whose o reaches the expert"),
    "largest_gate": Measure(
        ("class",), "", "share of the class's test samples whose o has the largest gate of the class's best expert"
    ),
    "gate_matrix": Measure(("expert", "class"), "", "mean gate that the expert gives to o of the class"),
    "alignment": Measure(("expert", "class"), "", "cosine of the expert's router and o of the class"),
    "expert_load": Measure(("expert", "role"), "patches", "mean number of patches of the role that the expert keeps"),
    "example_kept": Measure(("class", "expert", "patch"), "", "which patches of the class's example the expert keeps"),
    "example_patches": Measure(("class", "patch", "pixel"), "", "the class's example: its patches", constant=True),
    "example_roles": Measure(
        ("class", "patch"), "", "the example's roles: 0 signal, 1 distractor, 2 background", constant=True
    ),
    "example_sides": Measure(
        ("class", "patch"), "", "the class that each patch of the example imitates, -1 for none", constant=True
    ),
}


class RoutingCounts:
    """Sums over test samples of what the routers do, chunk by chunk.

    Args:
      trials, experts, classes, roles: sizes T, k, c and the number of roles.
      like: a tensor that gives device and dtype.
    """

    def __init__(self, trials: int, experts: int, classes: int, roles: int, like: Tensor) -> None:
        self.samples = like.new_zeros(trials, 1, classes)
        self.received = like.new_zeros(trials, experts, classes)
        self.largest = like.new_zeros(trials, experts, classes)
        self.gates = like.new_zeros(trials, experts, classes)
        self.kept = like.new_zeros(trials, experts, roles)

    def add(
        self,
        mask: Tensor,  # (T, k, b, n) bool
        gates: Float[Tensor, "T k b n"],
        labels: Int[Tensor, "T b"],
        signal: Int[Tensor, "T b"],
        roles: Int[Tensor, "T b n"],
    ) -> None:
        """Counts a chunk of b samples. `signal` is the place of o in each, `roles` what each patch is."""
        experts = mask.shape[1]
        classes, kinds = self.received.shape[2], self.kept.shape[2]
        at = signal[:, None, :, None].expand(-1, experts, -1, 1)
        received = mask.gather(-1, at)[..., 0].to(gates.dtype)
        gate = gates.gather(-1, at)[..., 0] * received
        largest = received * (gate >= gates.amax(-1)).to(gates.dtype)
        member = torch.nn.functional.one_hot(labels, classes).to(gates.dtype)  # (T, b, c)
        self.samples += member.sum(1, keepdim=True)
        self.received += received @ member
        self.largest += largest @ member
        self.gates += gate @ member
        each = torch.arange(kinds, device=roles.device)[:, None, None]
        self.kept += mask.flatten(2).to(gates.dtype) @ (roles[:, None] == each).to(gates.dtype).flatten(2).mT

    def values(self, present: Tensor) -> dict[str, Tensor]:
        """The measures, given which experts each trial has (T, k); absent experts get NaN."""
        expert_coverage = self.received / self.samples
        largest = self.largest / self.samples
        absent = ~present[..., None]
        return {
            "expert_coverage": expert_coverage.masked_fill(absent, torch.nan),
            "coverage": expert_coverage.masked_fill(absent, -1).amax(1),
            "largest_gate": largest.masked_fill(absent, -1).amax(1),
            "gate_matrix": (self.gates / self.samples).masked_fill(absent, torch.nan),
            "expert_load": (self.kept / self.samples.sum(-1, keepdim=True)).masked_fill(absent, torch.nan),
        }


def alignment(
    routers: Float[Tensor, "T k d"], signals: Float[Tensor, "T c d"], present: Tensor
) -> Float[Tensor, "T k c"]:
    """<w_s, o_i> / (|w_s| |o_i|), NaN for experts that a trial does not have."""
    unit = torch.nn.functional.normalize(routers, dim=-1, eps=1e-30)
    return (unit @ torch.nn.functional.normalize(signals, dim=-1).mT).masked_fill(~present[..., None], torch.nan)
