"""The routings that figures and Labs compare, and how they train."""

from __future__ import annotations

from collections.abc import Mapping

from moe_lab.patch_routing.routed import RoutedMoE

STEP_SIZE = 20.0
"""At c = 1 and 2 every routing is within .07 of its best accuracy at 5, 20 and 80 (10 trials of another seed)."""
EPOCHS = 20

ROWS: Mapping[str, RoutedMoE] = {
    "expert choice": RoutedMoE(routing="expert-choice"),
    "token choice": RoutedMoE(gates="softmax-before"),
    "token choice by priority": RoutedMoE(gates="softmax-before", order="priority"),
    "token choice, two experts": RoutedMoE(experts_per_patch=2),
    "soft MoE": RoutedMoE(routing="soft"),
    "hash": RoutedMoE(routing="hash"),
}
"""The rows of a comparison. Where a patch asks one expert, its gate is a softmax before the choice, which can learn."""

GATE_ROWS: Mapping[str, RoutedMoE] = {
    "softmax after the choice": RoutedMoE(gates="softmax"),
    "softmax before it": RoutedMoE(gates="softmax-before"),
    "sigmoid": RoutedMoE(gates="sigmoid"),
    "normalised sigmoid": RoutedMoE(gates="sigmoid-normalised"),
}
"""Gates where patches choose."""
