"""WRN-pMoE (pmoe2023, section 5.2): a wide residual network whose last group is a layer of patch-level experts."""

from moe_lab.vision.patches.data import PatchImageSamples, QuadrantTask, VehiclesTask
from moe_lab.vision.patches.model import WRN, PatchWRN
from moe_lab.vision.patches.run import PatchImageRun
from moe_lab.vision.patches.training import MEASURES, train, train_run

__all__ = [
    "MEASURES",
    "WRN",
    "PatchImageRun",
    "PatchImageSamples",
    "PatchWRN",
    "QuadrantTask",
    "VehiclesTask",
    "train",
    "train_run",
]
