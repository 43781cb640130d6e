"""Recovery (gridlock2019, gated2019): finding a mixture's true regressors and gates, apart from each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moe_lab.recovery.activations import Activation
from moe_lab.recovery.data import Inputs, MixtureTask, Parameters, Samples
from moe_lab.recovery.loss_run import L2Loss, L4Loss, LogLoss, LossRun
from moe_lab.recovery.loss_training import descend
from moe_lab.recovery.run import JointEM, Run, Spectral
from moe_lab.recovery.training import recover, train, train_run
from moe_lab.recovery.transforms import transforms

if TYPE_CHECKING:
    from moe_lab.recovery.estimator import MixtureOfExpertsRegressor

__all__ = [
    "Activation",
    "Inputs",
    "JointEM",
    "L2Loss",
    "L4Loss",
    "LogLoss",
    "LossRun",
    "MixtureOfExpertsRegressor",
    "MixtureTask",
    "Parameters",
    "Run",
    "Samples",
    "Spectral",
    "descend",
    "recover",
    "train",
    "train_run",
    "transforms",
]


def __getattr__(name: str) -> Any:
    """The estimator when it is asked for: scikit-learn takes a second to import."""
    if name == "MixtureOfExpertsRegressor":
        from moe_lab.recovery.estimator import MixtureOfExpertsRegressor

        return MixtureOfExpertsRegressor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
