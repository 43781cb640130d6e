"""Vision: the papers' experiments with deep networks on images, at sizes that train here and with their controls."""

from moe_lab.vision.patches.data import QuadrantTask, VehiclesTask
from moe_lab.vision.patches.model import WRN, PatchWRN
from moe_lab.vision.rotation.data import CifarRotateTask, TurnTask
from moe_lab.vision.rotation.model import Mixture, ResNet18, SmallCNN

__all__ = [
    "WRN",
    "CifarRotateTask",
    "Mixture",
    "PatchWRN",
    "QuadrantTask",
    "ResNet18",
    "SmallCNN",
    "TurnTask",
    "VehiclesTask",
]
