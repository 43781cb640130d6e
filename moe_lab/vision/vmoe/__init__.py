"""V-MoE and E3 (pruning2024, section 5.2): the models, the released checkpoints, a tiny one to train, and pruning."""

from moe_lab.vision.vmoe.config import VMoEConfig, released_config
from moe_lab.vision.vmoe.model import VMoE

__all__ = ["VMoE", "VMoEConfig", "released_config"]
