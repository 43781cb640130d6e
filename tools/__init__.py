"""For the people who work on moe_lab; none of this is installed."""

from tools.runtime_types import checked

__all__ = ["checked"]
