"""Patch-level routing (pmoe2023): expert-choice routing of patches, and how routers learn which patches matter."""

from moe_lab.patch_routing.data import PatternTask, Samples
from moe_lab.patch_routing.digits import DigitTask
from moe_lab.patch_routing.model import CNN, JointMoE, RoutedMoE, SeparateMoE
from moe_lab.patch_routing.run import Run
from moe_lab.patch_routing.training import train, train_batch

__all__ = [
    "CNN",
    "DigitTask",
    "JointMoE",
    "PatternTask",
    "RoutedMoE",
    "Run",
    "Samples",
    "SeparateMoE",
    "train",
    "train_batch",
]
