"""Move a slider and watch a mixture of experts train.

`import moe_lab` loads nothing heavy: the names below load the first time that they are used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moe_lab.core.config import Config, ConfigError
    from moe_lab.core.snapshots import Snapshot, collect, every, final

__version__ = "0.1.0"

_HOMES = {
    "Config": "moe_lab.core.config",
    "ConfigError": "moe_lab.core.config",
    "Snapshot": "moe_lab.core.snapshots",
    "collect": "moe_lab.core.snapshots",
    "every": "moe_lab.core.snapshots",
    "final": "moe_lab.core.snapshots",
}

__all__ = ["Config", "ConfigError", "Snapshot", "__version__", "collect", "every", "final"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'moe_lab' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
