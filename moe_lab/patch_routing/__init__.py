"""Patch-level routing (pmoe2023): expert-choice routing of patches, and how routers learn which patches matter."""

from moe_lab.patch_routing.arrays import ArrayTask
from moe_lab.patch_routing.data import PatchSamples, PatternTask
from moe_lab.patch_routing.digits import DigitTask
from moe_lab.patch_routing.model import CNN, JointMoE, SeparateMoE
from moe_lab.patch_routing.own import OwnModel, Routed, Sizes
from moe_lab.patch_routing.routed import RoutedMoE
from moe_lab.patch_routing.run import PatchRun
from moe_lab.patch_routing.training import train, train_batch

__all__ = [
    "CNN",
    "ArrayTask",
    "DigitTask",
    "JointMoE",
    "OwnModel",
    "PatchRun",
    "PatchSamples",
    "PatternTask",
    "Routed",
    "RoutedMoE",
    "SeparateMoE",
    "Sizes",
    "train",
    "train_batch",
]
