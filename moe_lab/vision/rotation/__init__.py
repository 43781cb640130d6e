"""Rotation (chen2022, table 2): mixtures of convolutional networks, their controls, and a leak in their task."""

from moe_lab.vision.rotation.data import CifarRotateTask, TurnSamples, TurnTask
from moe_lab.vision.rotation.model import Mixture, ResNet18, SmallCNN
from moe_lab.vision.rotation.run import TurnRun
from moe_lab.vision.rotation.training import MEASURES, train, train_run

__all__ = [
    "MEASURES",
    "CifarRotateTask",
    "Mixture",
    "ResNet18",
    "SmallCNN",
    "TurnRun",
    "TurnSamples",
    "TurnTask",
    "train",
    "train_run",
]
