"""V-MoE and E3 (pruning2024, section 5.2): the models, the released checkpoints, a tiny one to train, and pruning.

See `pruning` for the two ways to prune.
"""

from moe_lab_papers.pruning2024.vmoe.config import VMoEConfig, released_config
from moe_lab_papers.pruning2024.vmoe.costs import MEASURED, Costs, costs, operations, pruning_costs
from moe_lab_papers.pruning2024.vmoe.digits import DigitTask, Labelled
from moe_lab_papers.pruning2024.vmoe.model import VMoE
from moe_lab_papers.pruning2024.vmoe.pretrained import PRE_TRAINING, pre_train, pretrained, pretrained_path
from moe_lab_papers.pruning2024.vmoe.pruning import (
    Pruned,
    expert_scores,
    kept_experts,
    kept_of_all,
    prune,
    without_others,
)
from moe_lab_papers.pruning2024.vmoe.statistics import accuracy, routing_statistics
from moe_lab_papers.pruning2024.vmoe.table import MODES, PAPER_CRITERIA, PruningTable
from moe_lab_papers.pruning2024.vmoe.training import TINY, DigitRun, VMoETraining, fine_tune

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
    "VMoE",
    "VMoEConfig",
    "VMoETraining",
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
    "released_config",
    "routing_statistics",
    "without_others",
]
