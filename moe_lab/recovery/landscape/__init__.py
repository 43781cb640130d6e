"""Loss landscapes of gated networks (gated2019): L4 and L_log beside the squared error, and the GRU as a mixture."""

from __future__ import annotations

from moe_lab.recovery.landscape.run import L2Loss, L4Loss, LogLoss, LossRun
from moe_lab.recovery.landscape.training import descend, descend_run

__all__ = ["L2Loss", "L4Loss", "LogLoss", "LossRun", "descend", "descend_run"]
