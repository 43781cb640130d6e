"""Vision models: pMoE on images, and V-MoE and E3 with expert pruning (pmoe2023, pruning2024)."""

from moe_lab.vision.vmoe import VMoE

__all__ = ["VMoE"]
