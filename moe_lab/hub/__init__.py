"""Prunes experts of Hugging Face models: those whose routers did not grow in fine-tuning, or by another criterion.

Needs the extra `hub` (transformers), which is imported when a model is read, not before.
"""

from moe_lab.hub.prune import Pruned, prune_experts
from moe_lab.hub.scores import CRITERIA
from moe_lab.hub.survey import Survey, experts_of

__all__ = ["CRITERIA", "Pruned", "Survey", "experts_of", "prune_experts"]
