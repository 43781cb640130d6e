"""WRN-pMoE (pmoe2023, section 5.2): a wide residual network whose last group is a layer of patch-level experts."""

from moe_lab.vision.patches.data import QuadrantTask, Samples, VehiclesTask
from moe_lab.vision.patches.model import WRN, PatchWRN
from moe_lab.vision.patches.run import Run
from moe_lab.vision.patches.training import MEASURES, train, train_run

__all__ = ["MEASURES", "WRN", "PatchWRN", "QuadrantTask", "Run", "Samples", "VehiclesTask", "train", "train_run"]
