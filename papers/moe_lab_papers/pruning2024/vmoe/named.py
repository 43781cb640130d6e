"""The configs that have a name, and what stands for a config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moe_lab.core.config import require
from moe_lab_papers.pruning2024.vmoe.config import VMoEConfig, released_config


def named(config: VMoEConfig | Mapping[str, Any] | str, positions: int | None = None) -> VMoEConfig:
    """Returns the config for a name or a mapping in the released layout, or the config itself.

    Args:
      positions: as in `released_config`.

    Raises:
      ConfigError: the mapping is wrong.
      ValueError: the name is unknown.
    """
    if isinstance(config, VMoEConfig):
        return config
    if not isinstance(config, str):
        return released_config(config, positions)
    require(config in NAMED, f"a named config must be one of {', '.join(NAMED)}", config=config)
    return NAMED[config]


NAMED: dict[str, VMoEConfig] = {
    "b16": VMoEConfig(),
    "e3-s32": VMoEConfig(
        num_classes=100,
        patch_size=(32, 32),
        hidden_size=512,
        representation_size=512,
        head_bias_init=-10.0,
        positions=17,
        num_layers=8,
        num_heads=8,
        mlp_dim=2048,
        layers=(5, 7),
        num_selected_experts=1,
        ensemble_size=2,
        group_size=4352,
    ),
}
"""V-MoE B/16 fine-tuned on CIFAR-10, and E3 S/32 fine-tuned on CIFAR-100, both on images of 128 pixels."""
