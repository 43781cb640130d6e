"""Breaking the gridlock (gridlock2019): regressors from moments, then gates by EM; and EM of both at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moe_lab.recovery.gridlock.run import JointEM, MixtureRun, Spectral
from moe_lab.recovery.gridlock.training import recover, train, train_run

if TYPE_CHECKING:
    from moe_lab.recovery.gridlock.estimator import MixtureOfExpertsRegressor

__all__ = ["JointEM", "MixtureOfExpertsRegressor", "MixtureRun", "Spectral", "recover", "train", "train_run"]


def __getattr__(name: str) -> Any:
    """Imports the estimator on first use: scikit-learn takes a second to import."""
    if name == "MixtureOfExpertsRegressor":
        from moe_lab.recovery.gridlock.estimator import MixtureOfExpertsRegressor

        return MixtureOfExpertsRegressor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
