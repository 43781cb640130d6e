"""The measures of a patch-routing model, and how they are computed from routing masks and gates."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from moe_lab.core.routing import one_hot
from moe_lab.core.snapshots import Measure
from moe_lab.patch_routing.data import ROLES
from moe_lab.patch_routing.routed import RoutedPass

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


@runtime_checkable
class Pass(Protocol):
    """The least that a forward pass returns: f, and which patches each expert receives, with which gates."""

    @property
    def outputs(self) -> Float[Tensor, "T c B"]: ...

    @property
    def mask(self) -> Tensor | None: ...

    @property
    def gates(self) -> Float[Tensor, "T k B n"] | None: ...


class RoutingCounts:
    """Accumulates routing statistics over test samples, chunk by chunk, with the device and dtype of `like`."""

    def __init__(self, trials: int, experts: int, classes: int, like: Tensor) -> None:
        self.samples = like.new_zeros(trials, 1, classes)
        self.received = like.new_zeros(trials, experts, classes)
        self.largest = like.new_zeros(trials, experts, classes)
        self.gates = like.new_zeros(trials, experts, classes)
        self.load = like.new_zeros(trials, experts, len(ROLES))

    def add(
        self, now: Pass, labels: Int[Tensor, "T b"], signal: Int[Tensor, "T b"], roles: Int[Tensor, "T b n"]
    ) -> None:
        """Adds a chunk of b samples. `signal` is the position of o in each sample, `roles` the role of each patch."""
        if now.mask is None:
            return
        gates = now.mask.to(self.load.dtype) if now.gates is None else now.gates
        experts, classes = now.mask.shape[1], self.received.shape[2]
        at = signal[:, None, :, None].expand(-1, experts, -1, 1)
        received = now.mask.gather(-1, at)[..., 0].to(gates.dtype)
        gate = gates.gather(-1, at)[..., 0] * received
        largest = received * (gate >= gates.amax(-1)).to(gates.dtype)
        member = one_hot(labels, classes).to(gates.dtype)  # (T, b, c)
        self.samples += member.sum(1, keepdim=True)
        self.received += received @ member
        self.largest += largest @ member
        self.gates += gate @ member
        kind = torch.arange(len(ROLES), device=roles.device)[:, None, None]
        self.load += now.mask.flatten(2).to(gates.dtype) @ (roles[:, None] == kind).to(gates.dtype).flatten(2).mT

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


class PlaceCounts(RoutingCounts):
    """Accumulates also what finds a place, for RoutedMoE.

    Args:
      places: of an expert in a sample.
      soft: whether an expert's slots are its places, all of them taken and shared by all patches.
    """

    def __init__(self, places: int, soft: bool, trials: int, experts: int, classes: int, like: Tensor) -> None:
        super().__init__(trials, experts, classes, like)
        self.places, self.soft = places, soft
        self.asked, self.placed = like.new_zeros(trials, experts), like.new_zeros(trials, experts)
        self.signal_kept, self.signal_received, self.lost = (like.new_zeros(trials) for _ in range(3))
        self.patches = 0

    def add(self, now: Pass, labels: Tensor, signal: Tensor, roles: Tensor) -> None:
        super().add(now, labels, signal, roles)
        assert isinstance(now, RoutedPass)
        asked, mask, gates = now.choice
        received = gates if self.soft else mask.to(gates.dtype)
        at = signal[:, None, :, None].expand(-1, received.shape[1], -1, 1)
        reached = mask.any(1)  # (T, b, n)
        self.patches += reached[0].numel()
        self.asked += asked.sum((2, 3)).to(gates.dtype)
        self.placed += mask.sum((2, 3)).to(gates.dtype)
        self.signal_kept += reached.gather(-1, signal[..., None]).sum((1, 2)).to(gates.dtype)
        self.signal_received += received.gather(-1, at).sum((1, 2, 3))
        self.lost += (~reached).sum((1, 2)).to(gates.dtype)

    def values(self, present: Tensor) -> dict[str, Tensor]:
        samples = self.samples.sum(-1)  # (T, 1)
        asked, placed = self.asked / samples, self.placed / samples
        received = self.asked.shape[1] * samples[:, 0] if self.soft else self.placed.sum(1)
        return {
            **super().values(present),
            "signal_kept": self.signal_kept / samples[:, 0],
            "signal_share": self.signal_received / received,
            "lost": self.lost / self.patches,
            "dropped": 1 - placed.sum(1) / asked.sum(1),
            "places_taken": torch.full_like(placed, self.places) if self.soft else placed,
            "turned_away": asked - placed,
        }


def alignment(
    routers: Float[Tensor, "T k d"], signals: Float[Tensor, "T c d"], present: Tensor
) -> Float[Tensor, "T k c"]:
    """Computes <w_s, o_i> / (|w_s| |o_i|), NaN for experts that a trial does not have."""
    unit = torch.nn.functional.normalize(routers, dim=-1, eps=1e-30)
    return (unit @ torch.nn.functional.normalize(signals, dim=-1).mT).masked_fill(~present[..., None], torch.nan)
