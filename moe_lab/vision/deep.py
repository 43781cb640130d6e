"""Pruning deep models: V-MoE and E3 (pruning2024, section 5.2). See `vmoe.pruning` for the two ways to prune."""

from moe_lab.vision.vmoe.costs import MEASURED, Costs, costs, operations, pruning_costs
from moe_lab.vision.vmoe.digits import DigitTask, Labelled
from moe_lab.vision.vmoe.pretrained import PRE_TRAINING, pre_train, pretrained, pretrained_path
from moe_lab.vision.vmoe.pruning import Pruned, expert_scores, kept_experts, kept_of_all, prune, without_others
from moe_lab.vision.vmoe.statistics import accuracy, routing_statistics
from moe_lab.vision.vmoe.table import MODES, PAPER_CRITERIA, PruningTable
from moe_lab.vision.vmoe.training import TINY, DigitRun, Training, fine_tune

__all__ = [
    "MEASURED",
    "MODES",
    "PAPER_CRITERIA",
    "PRE_TRAINING",
    "TINY",
    "Costs",
    "DigitRun",
    "DigitTask",
    "Labelled",
    "Pruned",
    "PruningTable",
    "Training",
    "accuracy",
    "costs",
    "expert_scores",
    "fine_tune",
    "kept_experts",
    "kept_of_all",
    "operations",
    "pre_train",
    "pretrained",
    "pretrained_path",
    "prune",
    "pruning_costs",
    "routing_statistics",
    "without_others",
]
