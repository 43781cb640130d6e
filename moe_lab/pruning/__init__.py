"""Pruning (pruning2024): experts whose routers did not grow in fine-tuning can be removed without losing accuracy."""

from moe_lab.pruning.checkpoints import FineTuned, fine_tune
from moe_lab.pruning.data import TokenSamples, TokenTask
from moe_lab.pruning.initialization import BranchStart, PlantedStart, RandomStart
from moe_lab.pruning.model import TokenMoE, Weights
from moe_lab.pruning.run import TokenRun
from moe_lab.pruning.training import train, train_run

__all__ = [
    "BranchStart",
    "FineTuned",
    "PlantedStart",
    "RandomStart",
    "TokenMoE",
    "TokenRun",
    "TokenSamples",
    "TokenTask",
    "Weights",
    "fine_tune",
    "train",
    "train_run",
]
