"""Prunes experts of Hugging Face models: those whose routers did not grow in fine-tuning, or by another criterion.

Needs the extra `hub` (transformers), which is imported when a model is read, not before.
"""

from moe_lab_hub.checkpoint import CheckpointPlan, plan_checkpoint, prune_checkpoint
from moe_lab_hub.prune import Pruned, prune_experts
from moe_lab_hub.scores import CRITERIA
from moe_lab_hub.survey import Survey, experts_of

__all__ = [
    "CRITERIA",
    "CheckpointPlan",
    "Pruned",
    "Survey",
    "experts_of",
    "plan_checkpoint",
    "prune_checkpoint",
    "prune_experts",
]
